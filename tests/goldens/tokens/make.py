"""Tokens of small tokenizers of every kind, as Hugging Face's `tokenizers` gives them; writes *.json beside this file.

    pip install tokenizers==0.21.4 sentencepiece==0.2.3 protobuf
    python3 make.py

Characters are counted there and bytes here. What a span holds is compared with the token once more by what Unicode says
about its characters, with Python's unicodedata. Each tokenizer has the special tokens 0 to 4 in the order of
tests/support/tokenizer.rs, so that its ids fit the models of tests/support/model.rs.
"""
import base64
import io
import json
import pathlib
import re
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent.parent

TEXTS = [
    "int f(char *s)\n{\n    return S[0] + 10;\n}\n",
    "char *Größe = \"naïve ÜNÏ\"; // ÀÉÎ Straße\r\n\tx++;\r\n",
    "e\u0301 = E\u0301 + a\u0300\u0323b;",
    "鍵 = 終わり(x); /* 長い */ 终x",
    "🙂 \U0001f980x 𝛼 = \"𝐀\";",
    "İstanbul ß ﬁ ½ Ⅷ ＡＢＣ ㎏ ſ",
    "a\u00a0b\u200bc\u2028d\u3000e\ufefff",
    "",
    "   \n\n\t ",
    "\0a\x01b\x7f \r c\rd\r\n e",
    "[MASK] <mask> </s>[SEP] vector<s> [CLS",
    "x" * 150 + " return",
    "▁a ▁▁ b##c ##",
    "``quote'' 'int' \"\\n\"",
    "if(memcpy(buf,src,len)<0)goto out;else RETURN;",
    "A\nB\n\n\nC   D\t\tE",
]


def corpus():
    for path in sorted((ROOT / "examples").iterdir()):
        yield from path.read_text().splitlines()
    yield from ["Größe naïve Straße", "鍵 終わり", "int return buf memcpy len src out goto else"] * 3


SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BERT_SPECIALS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]


def template(tokenizer, single, names):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(name, tokenizer.token_to_id(name)) for name in names]
    )


def word_piece(lower):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower, strip_accents=None)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        corpus(), trainers.WordPieceTrainer(vocab_size=290, special_tokens=BERT_SPECIALS, show_progress=False)
    )
    template(tokenizer, "[CLS] $A [SEP]", ["[CLS]", "[SEP]"])
    return tokenizer


def plain_words():
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    tokenizer.train_from_iterator(
        corpus(), trainers.WordLevelTrainer(vocab_size=200, special_tokens=BERT_SPECIALS, show_progress=False)
    )
    template(tokenizer, "[CLS] $A [SEP]", ["[CLS]", "[SEP]"])
    return tokenizer


def unigram(albert):
    tokenizer = Tokenizer(models.Unigram())
    if albert:
        tokenizer.normalizer = normalizers.Sequence(
            [
                normalizers.Replace("``", '"'),
                normalizers.Replace("''", '"'),
                normalizers.NFKD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Replace(Regex(r"\s+"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
        )
    tokenizer.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(vocab_size=280, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False),
    )
    template(tokenizer, "$A </s>" if not albert else "<s> $A </s>", ["<s>", "</s>"] if albert else ["</s>"])
    return tokenizer


# What SentencePiece puts in place of what, some of it of several characters and some of it nothing.
RULES = {
    "\t": " ", "\n": " ", "\r": " ", "\r\n": " ", "\u00a0": " ", "\u2028": " ", "\u3000": " ", "\u200b": " ",
    "\x01": "", "\x7f": "", "\ufeff": "",
    "ﬁ": "fi", "½": "1\u20442", "Ⅷ": "VIII", "Ａ": "A", "Ｂ": "B", "Ｃ": "C", "㎏": "kg", "ſ": "s", "𝛼": "α", "𝐀": "A",
    "e\u0301": "é", "E\u0301": "É", "a\u0323\u0300": "ạ\u0300",
}  # fmt: skip


def charsmap():
    """RULES, compiled by SentencePiece."""
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        for source, target in RULES.items():
            file.write("\t".join(" ".join(f"{ord(c):X}" for c in part) for part in (source, target)) + "\n")
        file.flush()
        written = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=corpus(),
            model_writer=written,
            vocab_size=100,
            hard_vocab_limit=False,
            normalization_rule_tsv=file.name,
            minloglevel=2,
        )
    model = sentencepiece_model_pb2.ModelProto.FromString(written.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def t5():
    """The normalizer that transformers writes for T5, of which SentencePiece's own map of characters is the first part."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(vocab_size=280, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False),
    )
    parts = [
        {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap()).decode()},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    ]
    whole = json.loads(tokenizer.to_str()) | {"normalizer": {"type": "Sequence", "normalizers": parts}}
    tokenizer = Tokenizer.from_str(json.dumps(whole))
    template(tokenizer, "$A </s>", ["</s>"])
    return tokenizer


def byte_fallback():
    pieces = SPECIALS + [f"<0x{byte:02X}>" for byte in range(256)]
    merges = [("i", "n"), ("in", "t"), ("▁", "int"), ("r", "e"), ("▁", "re"), ("▁", "▁"), ("s", "i")]
    letters = sorted({part for pair in merges for part in pair if len(part) == 1} | set("abx=;{}()"))
    vocabulary = {}
    for piece in pieces + letters + [a + b for a, b in merges]:
        vocabulary.setdefault(piece, len(vocabulary))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIALS])
    template(tokenizer, "<s> $A </s>", ["<s>", "</s>"])
    return tokenizer


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.train_from_iterator(
        corpus(),
        trainers.BpeTrainer(
            vocab_size=290,
            special_tokens=SPECIALS,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    template(tokenizer, "<s> $A </s>", ["<s>", "</s>"])
    return tokenizer


TOKENIZERS = {
    "word-piece-uncased": word_piece(True),
    "word-piece-cased": word_piece(False),
    "word-level": plain_words(),
    "unigram": unigram(False),
    "unigram-albert": unigram(True),
    "unigram-t5": t5(),
    "byte-fallback": byte_fallback(),
    "byte-level-prefix": byte_level(),
}


def plain(text):
    """What is left of a text under every normalizer here: compatibility letters without marks and case, no blanks."""
    text = unicodedata.normalize("NFKD", text).lower()
    text = unicodedata.normalize("NFKD", text)
    return "".join(c for c in text if unicodedata.category(c)[0] not in "MCZ" and c not in "▁`'\"")


def check(name, text, token, start, end):
    part = text[start:end]
    if token in ("[UNK]", "<unk>"):
        assert part.strip() != "", (name, text, token, part)
    elif name.startswith("byte-level"):
        pass  # Its tokens are bytes; tests/tokens.rs compares those.
    elif re.fullmatch(r"<0x[0-9A-F]{2}>", token):
        assert bytes([int(token[3:5], 16)]) in part.encode(), (name, text, token, part)
    else:
        found = plain(token.removeprefix("##") if name.startswith("word-piece") else token)
        # A letter that became several, of which the token holds some.
        assert found == plain(part) or len(part.strip()) == 1 and found in plain(part), (name, text, token, part)


cases = []
for name, tokenizer in TOKENIZERS.items():
    assert tokenizer.get_vocab_size() <= 300, (name, tokenizer.get_vocab_size())
    (HERE / f"{name}.json").write_text(tokenizer.to_str(pretty=False) + "\n", encoding="utf-8")
    tokenizer.encode_special_tokens = True
    for text in TEXTS:
        whole = tokenizer.encode(text)
        code = tokenizer.encode(text, add_special_tokens=False)
        for token, (start, end) in zip(code.tokens, code.offsets):
            check(name, text, token, start, end)
        spans = [[len(text[:start].encode()), len(text[:end].encode())] for start, end in code.offsets]
        cases.append({"tokenizer": name, "text": text, "input": whole.ids, "tokens": code.ids, "spans": spans})
lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
(HERE / "cases.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
print(len(cases), "cases")
