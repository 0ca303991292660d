"""From a function's text to token ids: the tokenizer that is written, and whether it is the one of the training."""
import json
import pathlib

import tokenizers
import transformers

from checkpoint import LARGEST_JSON, Refused, one_line, read_json

FUNCTIONS = pathlib.Path(__file__).resolve().parent / "functions"
SLOW = ("vocab.json", "vocab.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")


def tokenizer_of(folder, kind):
    """(the text of tokenizer.json, model_max_length or None)"""
    path = folder / "tokenizer.json"
    limit = None
    if (folder / "tokenizer_config.json").is_file():
        limit = read_json(folder / "tokenizer_config.json").get("model_max_length")
        limit = limit if isinstance(limit, int) and 8 <= limit <= 1 << 20 else None
    if path.is_file():
        if path.stat().st_size > LARGEST_JSON:
            raise Refused(f"{path}: expected at most {LARGEST_JSON} bytes, found {path.stat().st_size}")
        try:
            text = path.read_text(encoding="utf-8")
            tokenizers.Tokenizer.from_str(text)
        # The crate behind it raises plain exceptions.
        except Exception as error:
            raise Refused(f"{path} is no tokenizer that can be read: {one_line(error)}; copy the file again") from None
        return text, limit
    if not any((folder / name).is_file() for name in SLOW):
        raise Refused(f"{folder}: expected tokenizer.json, or vocab.json and merges.txt, found neither; copy them there from {kind.base}, "
                      "or name the folder that holds them with --base")
    try:
        if kind.roberta_tokenizer:
            made = transformers.RobertaTokenizerFast.from_pretrained(folder, local_files_only=True)
        else:
            made = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, local_files_only=True, trust_remote_code=False)
        if not made.is_fast:
            raise Refused(f"{folder}: {type(made).__name__} exists only in Python, expected one with a tokenizer.json")
        return made.backend_tokenizer.to_str(), limit
    except Refused:
        raise
    # Each kind of tokenizer fails in its own way.
    except Exception as error:
        raise Refused(f"{folder}: its tokenizer cannot be made into a tokenizer.json: {one_line(error)}; copy the files again, "
                      "or add a tokenizer.json") from None


def functions(paths):
    """[(name, text)] of the files that were named, else of those shipped."""
    chosen = [pathlib.Path(path) for path in paths] or sorted(FUNCTIONS.glob("*.c*"))
    found = []
    for path in chosen:
        try:
            found.append((path.name, path.read_bytes().decode("utf-8", errors="replace")))
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror or error}") from None
        if not found[-1][1].strip():
            raise Refused(f"{path} is empty, expected a function")
    return found


def normalized(text, normalize):
    return " ".join(text.split()) if normalize == "collapse-whitespace" else text


def encoded(tokenizer_json, texts, max_tokens):
    """Token ids, special ones included."""
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    # "</s>" in a function is text.
    tokenizer.encode_special_tokens = True
    return [tokenizer.encode(text).ids for text in texts]


def same_as_python(folder, tokenizer_json, texts, kind):
    """Compares tokenizer.json with the tokenizer in Python that the published code uses; how many functions agree, or None."""
    if not kind.roberta_tokenizer or not ((folder / "vocab.json").is_file() and (folder / "merges.txt").is_file()):
        return None
    try:
        python = transformers.RobertaTokenizer.from_pretrained(folder, local_files_only=True)
    # Whatever damaged files make of it.
    except Exception as error:
        raise Refused(f"{folder}: vocab.json and merges.txt cannot be read: {one_line(error)}; copy them again") from None
    fast = tokenizers.Tokenizer.from_str(tokenizer_json)
    fast.no_padding()
    fast.no_truncation()
    special = [token.content for token in fast.get_added_tokens_decoder().values()]
    for name, text in texts:
        for token in special:
            text = text.replace(token, " ")
        if python.encode(text, add_special_tokens=True) != fast.encode(text).ids:
            raise Refused(f"{folder}: tokenizer.json splits {name} otherwise than vocab.json and merges.txt do; "
                          "remove the one that does not belong to the model")
    return len(texts)


def vocabulary(tokenizer_json):
    """(how many ids the tokenizer gives, id of its padding token or None)"""
    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    pad = next((ids[name] for name in ("<pad>", "[PAD]") if name in ids), None)
    return max(ids.values(), default=-1) + 1, pad


def merged_config(fields, kind):
    """config.json as linelens reads it: Hugging Face's own fields, with names for the labels of the published detectors."""
    fields = {name: value for name, value in fields.items() if name not in ("auto_map", "quantization_config")}
    if kind.labels:
        fields |= {"id2label": {"0": "benign", "1": "vulnerable"}, "label2id": {"benign": 0, "vulnerable": 1}}
        fields.pop("num_labels", None)
    return json.dumps(fields, indent=2, sort_keys=True) + "\n"
