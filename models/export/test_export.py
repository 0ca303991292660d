"""The exporter on tiny detectors with random weights, and linelens on what it wrote.

    LINELENS=target/debug/linelens python models/export/test_export.py [TEST …]

The references are not the exporter's own wrappers: the published models are written out once more in
tests/goldens/attribution/tiny.py, and every method's relevance is computed by PyTorch's autograd as described there.
"""
import contextlib
import io
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "goldens" / "attribution")]
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import export
import checkpoint
import numpy as np
import onnx
import reference
import safetensors.torch
import tiny
import tokenizers
import torch
import transformers

LINELENS = pathlib.Path(os.environ["LINELENS"]).resolve()
TOKENS = 160
FUNCTIONS = sorted((HERE / "functions").glob("*.c*"))
ROBERTA_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
T5_SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]
# Relative to the largest relevance of a line; linelens computes in float32, the references in float64.
CLOSE = 2e-4


def setUpModule():
    global scratch
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="export-test-"))
    torch.set_num_threads(1)
    for variable in [name for name in os.environ if name.startswith("LINELENS_")]:
        del os.environ[variable]
    os.environ["XDG_CONFIG_HOME"] = str(scratch / "config")
    tiny.POSITIONS = TOKENS
    tiny.VOCAB = 480


def tearDownModule():
    shutil.rmtree(scratch)


def byte_level(folder, special):
    """vocab.json and merges.txt, as the published detectors' base models have them."""
    folder.mkdir(parents=True, exist_ok=True)
    made = tokenizers.ByteLevelBPETokenizer()
    made.train([str(f) for f in FUNCTIONS], vocab_size=tiny.VOCAB, min_frequency=2, special_tokens=special, show_progress=False)
    made.save_model(str(folder))


def base(name, config, special=None):
    """A folder with config.json and tokenizer, as that of a pretrained model."""
    folder = scratch / name
    byte_level(folder, special or ROBERTA_SPECIAL)
    fields = config.to_dict() | {"architectures": ["AsPublished"]}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in fields.items() if k not in ("attn_implementation", "id2label", "label2id")}))
    return folder


def with_positions(build):
    """RoBERTa has two positions more than tokens."""
    with sizes(POSITIONS=TOKENS + 2):
        return build()


def roberta_config(labels=2):
    return with_positions(lambda: tiny.roberta_config(labels))


def linevul_checkpoint(subject):
    """As the published class saves it: the encoder is a classifier itself, and so is the class; older transformers add position_ids."""
    state = {}
    for name, tensor in subject.model.state_dict().items():
        state[name.replace("encoder.", "encoder.roberta.", 1) if name.startswith("encoder.") else name] = tensor.clone()
    unused = transformers.RobertaForSequenceClassification(subject.model.encoder.config).state_dict()
    state |= {name: tensor for name, tensor in unused.items() if name.startswith("roberta.")}
    state |= {f"encoder.{name}": tensor for name, tensor in unused.items() if name.startswith("classifier.")}
    for prefix in ("roberta", "encoder.roberta"):
        state[f"{prefix}.embeddings.position_ids"] = torch.arange(unused["roberta.embeddings.position_embeddings.weight"].shape[0])[None]
    return state


def run_export(*arguments):
    """(exit code, standard output, standard error)"""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = export.main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


def linelens(*arguments):
    return subprocess.run([LINELENS, *map(str, arguments)], capture_output=True, text=True, check=True, cwd=scratch).stdout


def normalized(text, normalize):
    """(the text the model reads, for each of its bytes the place in the original's bytes)"""
    data = text.encode()
    if normalize == "none":
        return data, list(range(len(data)))
    kept, places, space = bytearray(), [], None
    for place, byte in enumerate(data):
        if byte in b" \t\n\r\f\v":
            space = place if space is None and kept else space
            continue
        if space is not None:
            kept.append(ord(" "))
            places.append(space)
            space = None
        kept.append(byte)
        places.append(place)
    return bytes(kept), places


class Tokens:
    """A function as linelens sees it: ids, and the line of each token (None for special ones)."""

    def __init__(self, model, text, normalize, max_tokens, byte_level=True):
        tokenizer = tokenizers.Tokenizer.from_file(str(model / "tokenizer.json"))
        tokenizer.encode_special_tokens = True
        data, places = normalized(text, normalize)
        encoding = tokenizer.encode(data.decode())
        ids, names, special = encoding.ids, encoding.tokens, encoding.special_tokens_mask
        lines, place = [], 0
        raw = text.encode()
        for name, is_special, (start, end) in zip(names, special, encoding.offsets):
            if is_special:
                lines.append(None)
                continue
            if byte_level:                         # a character of a token stands for a byte
                start, end = place, place + len(name)
                place = end
            else:
                start, end = (len(data.decode()[:at].encode()) for at in (start, end))
            visible = [p for p in places[start:end] if raw[p] not in b" \t\n\r\f\v"]
            lines.append((raw[:visible[0] if visible else places[start]].count(b"\n"), bool(visible)))
        self.truncated = len(ids) > max_tokens
        if self.truncated:
            ids, lines = ids[:max_tokens - 1] + ids[-1:], lines[:max_tokens - 1] + [None]
        self.ids = torch.tensor([ids])
        self.leading = next(place for place, line in enumerate(lines) if line)
        self.scored = sorted({line[0] for line in lines if line and line[1]})
        self.lines = [line[0] if line and line[0] in self.scored else None for line in lines]

    def sums(self, relevance):
        """Relevance of each scored line, of one value a token."""
        return np.array([sum(float(r) for r, line in zip(relevance, self.lines) if line == wanted) for wanted in self.scored])

    def without(self, line, mask):
        ids = self.ids.clone()
        ids[0, [place for place, of in enumerate(self.lines) if of == line]] = mask
        return ids


def expected(subject, tokens, mask, double):
    """(the probability, {method: relevance of each scored line}, {method: what errors are measured against}), by PyTorch"""
    inputs = {"input_ids": tokens.ids}
    if "attention_mask" in subject.inputs:
        inputs["attention_mask"] = torch.ones_like(tokens.ids)
    baseline = torch.full_like(tokens.ids, subject.ids["pad"])
    baseline[0, :tokens.leading] = tokens.ids[0, :tokens.leading]
    if tokens.truncated:
        baseline[0, -1] = tokens.ids[0, -1]
    with reference.precision(subject, double):
        probability = float(reference.forward(subject, inputs)[0])
        layers = reference.attention(subject, inputs)[:, 0]
        ig = reference.integrated_gradients(subject, inputs, baseline, use_captum=False)[0]
        gradient, scale = reference.gradient_x_input(subject, inputs)
        names = {0: "first", len(layers) - 1: "last"}
        found = {f"attention:{names.get(layer, layer + 1)}": tokens.sums(values) for layer, values in enumerate(layers)}
        found |= {"ig": tokens.sums(ig[0]), "gradient-x-input": tokens.sums(gradient[0]),
                  "attnlrp": tokens.sums(reference.attnlrp(subject, inputs)[0][0])}
        masked = [float(reference.forward(subject, inputs | {"input_ids": tokens.without(line, mask)})[0]) for line in tokens.scored]
        found["occlusion"] = probability - np.array(masked)
    scales = {name: max(np.abs(values).max(), 1e-3) for name, values in found.items()}
    # Where the word embedding goes straight into a LayerNorm, gradient x input is nearly zero: a sum of terms that are not.
    scales["gradient-x-input"] = max(scales["gradient-x-input"], scale)
    return probability, found, scales


class Case(unittest.TestCase):
    def exported(self, *arguments):
        code, out, err = run_export(*arguments)
        self.assertEqual((code, err), (0, ""), out)
        self.assertIn("largest difference", out)
        return out

    def check(self, model, subject, normalize, mask, max_tokens=TOKENS, byte_level=True, files=FUNCTIONS, double=True):
        """Every method of the real binary against PyTorch, on every function."""
        truncated, largest = 0, {}
        for file in files:
            with self.subTest(function=file.name):
                text = file.read_text().rstrip("\n")
                tokens = Tokens(model, text, normalize, max_tokens, byte_level)
                truncated += tokens.truncated
                # The text from where the function starts, which is the file's first byte.
                found = json.loads(linelens("--model", model, "explain", file, "--method", "all", "--profile", "paper", "--steps", "50", "--format", "json"))
                probability, wanted, scales = expected(subject, tokens, mask, double)
                self.assertAlmostEqual(found["probability"], probability, delta=1e-5)
                self.assertEqual(found["truncated"], tokens.truncated)
                methods = {method["method"]: method for method in found["methods"]}
                self.assertEqual(set(methods), set(wanted))
                for name, values in wanted.items():
                    lines = [line for line in methods[name]["lines"] if line.get("raw") is not None]
                    self.assertEqual([line["line"] - 1 for line in lines], tokens.scored, name)
                    difference = np.abs(np.array([line["raw"] for line in lines]) - values).max() / scales[name]
                    self.assertLess(difference, CLOSE if double else 10 * CLOSE, name)
                    largest[name] = max(largest.get(name, 0), difference)
        if files is FUNCTIONS:
            self.assertGreater(truncated, 0)
        else:
            print("largest difference of a line:", {name: f"{value:.1e}" for name, value in largest.items()})

    def doctor(self, model):
        report = linelens("--model", model, "doctor")
        for method in ("attention", "ig", "attnlrp", "gradient-x-input", "occlusion"):
            self.assertIn(method, report)
        return report


class Published(Case):
    def test_linevul(self):
        subject = with_positions(tiny.linevul)
        folder = base("codebert-base", roberta_config(labels=1))
        torch.save(linevul_checkpoint(subject), scratch / "12heads_linevul_model.bin")
        out = self.exported("linevul", scratch / "12heads_linevul_model.bin", scratch / "linevul", "--base", folder)
        self.assertIn("left out 43", out)
        self.assertIn("tokenizer.json gives the ids of the tokenizer in Python", out)
        self.assertEqual(sorted(f.name for f in (scratch / "linevul").iterdir()), ["config.json", "detector.toml", "model.onnx", "tokenizer.json"])
        declared = (scratch / "linevul" / "detector.toml").read_text()
        for line in ('threshold = 0.5', 'normalize = "none"', 'long = "truncate"', f"max_tokens = {TOKENS}"):
            self.assertIn(line, declared)
        self.check(scratch / "linevul", subject, "none", mask=4)
        self.doctor(scratch / "linevul")

    def test_codexglue(self):
        subject = with_positions(tiny.codebert)
        folder = base("codebert-base-2", roberta_config(labels=1))
        # Trained on several GPUs, and saved with the rest of the training's state.
        state = {f"module.{name}": tensor.half().float() for name, tensor in subject.model.state_dict().items()}
        subject.model.load_state_dict({name.removeprefix("module."): tensor for name, tensor in state.items()})
        torch.save({"epoch": 4, "state_dict": state}, folder / "model.bin")
        torch.save({"step": 1}, folder / "optimizer.bin")
        self.exported("codexglue", folder, scratch / "codexglue")
        declared = (scratch / "codexglue" / "detector.toml").read_text()
        self.assertIn('normalize = "collapse-whitespace"', declared)
        self.assertIn('"vulnerable"', (scratch / "codexglue" / "config.json").read_text())
        self.check(scratch / "codexglue", subject, "collapse-whitespace", mask=4)
        self.doctor(scratch / "codexglue")

    def test_codet5(self):
        for act in ("relu", "gated-gelu"):
            with self.subTest(act):
                subject = tiny.codet5(act, "gather")
                folder = base(f"codet5-{act}", tiny.t5_config(act), T5_SPECIAL)
                # In safetensors a shared table is there once; torch.save keeps all its names.
                state = subject.model.state_dict()
                shared = [name for name in state if name.endswith(("embed_tokens.weight", "lm_head.weight"))]
                if act == "relu":
                    torch.save(state, folder / "pytorch_model.bin")
                else:
                    safetensors.torch.save_file({name: tensor for name, tensor in state.items() if name not in shared}, folder / "model.safetensors")
                model = scratch / f"codet5-{act}-out"
                self.exported("codet5", folder, model, "--max-tokens", TOKENS)
                self.check(model, subject, "collapse-whitespace", mask=4)
                self.doctor(model)


class Auto(Case):
    def test_roberta_from_shards(self):
        subject = with_positions(tiny.roberta)
        folder = base("auto-roberta", roberta_config())
        subject.model.save_pretrained(folder, max_shard_size="20KB")
        self.assertTrue((folder / "model.safetensors.index.json").is_file())
        self.exported("auto", folder, scratch / "auto", "--threshold", "0.25", "--long", "truncate", "--positive-label", "1", "--name", 'two "shards"')
        self.assertIn('name = "two \\"shards\\""', (scratch / "auto" / "detector.toml").read_text())
        self.check(scratch / "auto", subject, "none", mask=4)
        self.doctor(scratch / "auto")

    def test_weights_beside_the_model(self):
        """What PyTorch does with more than two gigabytes: a file for each tensor, which become one."""
        def in_many_files(module, arguments, path, **options):
            export_to_one(module, arguments, path, **options)
            model = onnx.load(path)
            pathlib.Path(path).unlink()
            onnx.save_model(model, path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
        export_to_one = torch.onnx.export
        subject = with_positions(tiny.linevul)
        torch.save(linevul_checkpoint(subject), scratch / "large.bin")
        with unittest.mock.patch("torch.onnx.export", in_many_files):
            self.exported("linevul", scratch / "large.bin", scratch / "large", "--base", base("large-base", roberta_config(labels=1)))
        self.assertEqual(sorted(f.name for f in (scratch / "large").iterdir()), ["config.json", "detector.toml", "model.onnx", "model.onnx.data", "tokenizer.json"])
        self.check(scratch / "large", subject, "none", mask=4, files=FUNCTIONS[:1])

    def test_optimum(self):
        """What optimum writes is a model directory as it stands."""
        subject = with_positions(tiny.roberta)
        folder = base("for-optimum", roberta_config())
        subject.model.save_pretrained(folder)
        from optimum.exporters.onnx import main_export
        transformers.RobertaTokenizerFast.from_pretrained(folder).save_pretrained(folder)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            main_export(str(folder), output=scratch / "optimum", task="text-classification", opset=17, do_validation=False)
        self.check(scratch / "optimum", subject, "none", mask=4)
        self.doctor(scratch / "optimum")

    def test_bert_with_wordpiece(self):
        subject = tiny.bert(inputs=("input_ids", "attention_mask"))
        folder = scratch / "auto-bert"
        subject.model.config.id2label = {0: "safe", 1: "unsafe"}
        subject.model.save_pretrained(folder)
        made = tokenizers.BertWordPieceTokenizer(lowercase=True)
        made.train([str(f) for f in FUNCTIONS], vocab_size=tiny.VOCAB, min_frequency=1, show_progress=False,
                   special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        made.save_model(str(folder))
        self.exported("auto", folder, scratch / "bert")
        self.check(scratch / "bert", subject, "none", mask=4, byte_level=False)

    def test_deberta(self):
        """Its code has functions that are scripts, and its word embedding goes straight into a LayerNorm."""
        subject = tiny.deberta()
        folder = scratch / "auto-deberta"
        subject.model.save_pretrained(folder)
        made = tokenizers.ByteLevelBPETokenizer()
        made.train([str(f) for f in FUNCTIONS], vocab_size=tiny.VOCAB, show_progress=False, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
        made._tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
        made.save(str(folder / "tokenizer.json"))
        self.exported("auto", folder, scratch / "deberta", "--max-tokens", TOKENS)
        self.check(scratch / "deberta", subject, "none", mask=4)

    def test_t5_with_unigram(self):
        subject = tiny.t5seqcls()
        folder = scratch / "auto-t5"
        subject.model.save_pretrained(folder)
        made = tokenizers.SentencePieceUnigramTokenizer()
        made.train([str(f) for f in FUNCTIONS], vocab_size=tiny.VOCAB, special_tokens=T5_SPECIAL, unk_token="<unk>", show_progress=False)
        made._tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
        made.save(str(folder / "tokenizer.json"))
        self.exported("auto", folder, scratch / "t5", "--max-tokens", TOKENS)
        self.check(scratch / "t5", subject, "none", mask=4, byte_level=False)


class Ran:
    """Would leave a file behind if it were unpickled."""

    def __reduce__(self):
        return (open, (str(scratch / "it-ran"), "w"))


class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.base = base("refused-base", roberta_config(labels=1))
        cls.state = linevul_checkpoint(with_positions(tiny.linevul))
        cls.good = scratch / "good.bin"
        torch.save(cls.state, cls.good)
        cls.folder = scratch / "made-here"
        cls.folder.mkdir()

    def refused(self, *fragments, checkpoint=None, kind="linevul", base=None, more=()):
        """One sentence with these words, and nothing left on the disk."""
        arguments = [kind, checkpoint or self.good, self.folder / "out", *(("--base", base or self.base) if base is not False else ()), *more]
        code, _, err = run_export(*arguments)
        self.assertEqual(code, 1, err)
        self.assertEqual(err.count("\n"), 1, err)
        self.assertTrue(err.startswith("error: "), err)
        for fragment in fragments:
            self.assertIn(str(fragment), err)
        self.assertEqual(list(self.folder.iterdir()), [])

    def written(self, name, data):
        path = scratch / name
        path.write_bytes(data)
        return path

    def saved(self, name, state):
        path = scratch / name
        torch.save(state, path)
        return path

    def changed_base(self, name, **fields):
        folder = shutil.copytree(self.base, scratch / f"base-{name}")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | fields))
        return folder

    def test_files_that_are_damaged(self):
        whole = self.good.read_bytes()
        for size in (0, 3, 100, 1000, len(whole) // 2, len(whole) - 30):
            path = self.written("cut.bin", whole[:size])
            self.refused("cut.bin", "copy it again", checkpoint=path)
        tensors = scratch / "good.safetensors"
        safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in self.state.items()}, tensors)
        whole = tensors.read_bytes()
        for size in (9, 200, len(whole) // 2, len(whole) - 1):
            self.refused("cut.safetensors", "copy it again", checkpoint=self.written("cut.safetensors", whole[:size]))
        self.refused("git lfs pull", checkpoint=self.written("pointer.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"))
        self.refused("expected safetensors or a file of torch.save", checkpoint=self.written("page.bin", b"<!DOCTYPE html>\n" * 40))
        self.refused("nowhere.bin", "there is nothing", checkpoint=scratch / "nowhere.bin")

    def test_files_that_could_run_code(self):
        self.refused("holds more than tensors", "not loaded", checkpoint=self.saved("code.bin", self.state | {"x": Ran()}))
        self.refused("not loaded", checkpoint=self.written("plain.bin", pickle.dumps(Ran(), protocol=2)))
        self.refused("model.state_dict()", checkpoint=self.saved("whole.bin", with_positions(tiny.linevul).model))
        self.assertFalse((scratch / "it-ran").exists())
        # The test's own object does run where it is unpickled.
        pickle.loads(pickle.dumps(Ran())).close()
        self.assertTrue((scratch / "it-ran").exists())

    def test_tensors_of_another_model(self):
        without = {name: tensor for name, tensor in self.state.items() if name != "classifier.dense.bias"}
        self.refused("1 missing: classifier.dense.bias", checkpoint=self.saved("missing.bin", without))
        self.refused("1 unexpected: encoder.roberta.adapter.weight", checkpoint=self.saved("more.bin", self.state | {"encoder.roberta.adapter.weight": torch.ones(2)}))
        other = self.state | {"classifier.out_proj.weight": torch.ones(3, tiny.HIDDEN)}
        self.refused(f"classifier.out_proj.weight (expected [2, {tiny.HIDDEN}], found [3, {tiny.HIDDEN}])", checkpoint=self.saved("shape.bin", other))
        broken = self.state["classifier.dense.bias"].clone()
        broken[3] = float("nan")
        self.refused("classifier.dense.bias", "found 1 that are not", checkpoint=self.saved("nan.bin", self.state | {"classifier.dense.bias": broken}))
        self.refused("look like those of `linevul`", kind="codexglue")
        self.refused("look like those of `codet5`", checkpoint=self.saved("t5.bin", tiny.codet5().model.state_dict()))
        self.refused("named tensors", checkpoint=self.saved("no-tensors.bin", {"epoch": 3}))
        # A configuration of another size, and one that asks for more than there is.
        self.refused("of another shape", base=self.changed_base("wider", hidden_size=24))
        self.refused("of another shape", base=self.changed_base("huge", vocab_size=1 << 40))
        self.refused("num_hidden_layers: expected at most 1000", base=self.changed_base("deepest", num_hidden_layers=1 << 40))
        self.refused("num_labels: expected at most 10000", base=self.changed_base("labels", num_labels=1 << 40))
        self.refused("unexpected: \\x1b[31m\\x0ared", checkpoint=self.saved("escape.bin", self.state | {"\x1b[31m\nred": torch.ones(2)}))
        self.refused("16 missing: encoder.roberta.encoder.layer.2.attention", base=self.changed_base("deeper", num_hidden_layers=3))
        split = tiny.codet5().model.state_dict()
        split["encoder.encoder.embed_tokens.weight"] = split["encoder.encoder.embed_tokens.weight"] + 1
        t5 = base("refused-t5", tiny.t5_config("relu"), T5_SPECIAL)
        self.refused("differ, expected one shared table", checkpoint=self.saved("split.bin", split), kind="codet5", base=t5)

    def test_folders(self):
        self.refused("there is no config.json", "--base", base=False)
        self.refused("model_type: expected roberta, found 't5'", base=self.changed_base("t5", model_type="t5"))
        self.refused("code of its own", kind="auto", base=self.changed_base("custom", model_type="own", auto_map={"AutoConfig": "own.Config"}))
        self.refused("config.json", base=self.changed_base("heads", num_attention_heads=5))
        folder = self.changed_base("text")
        (folder / "config.json").write_text("{")
        self.refused("text/config.json is not valid JSON", base=folder)
        folder = self.changed_base("no-tokenizer")
        (folder / "vocab.json").unlink()
        self.refused("expected tokenizer.json, or vocab.json and merges.txt", base=folder)
        folder = self.changed_base("bad-tokenizer")
        (folder / "tokenizer.json").write_text('{"model": 3}')
        self.refused("tokenizer.json is no tokenizer", base=folder)
        folder = self.changed_base("two-tokenizers")
        other = tokenizers.ByteLevelBPETokenizer()
        other.train_from_iterator(["while (1) { }"], vocab_size=300, special_tokens=ROBERTA_SPECIAL, show_progress=False)
        other.save(str(folder / "tokenizer.json"))
        self.refused("otherwise than vocab.json and merges.txt do", base=folder)
        (folder / "vocab.json").write_text("[1, 2]")
        self.refused("vocab.json and merges.txt cannot be read", base=folder)
        folder = self.changed_base("bad-vocabulary")
        (folder / "vocab.json").write_text("[1, 2]")
        self.refused("cannot be made into a tokenizer.json", base=folder)
        folder = self.changed_base("two")
        for name in ("a.bin", "b.bin"):
            shutil.copy(self.good, folder / name)
        self.refused("expected one checkpoint, found a.bin, b.bin", checkpoint=folder, base=folder)
        (folder / "b.bin").unlink()
        shutil.copy(folder / "a.bin", folder / "training_args.bin")
        self.assertEqual(checkpoint.find_weights(folder), folder / "a.bin")
        (folder / "a.bin").rename(folder / "model.safetensors.index.json")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "../good.bin"}}))
        self.refused("expected names of files beside it", checkpoint=folder, base=folder)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": "part-2.safetensors"}}))
        self.refused("part-2.safetensors is missing", checkpoint=folder, base=folder)
        # A tokenizer of more tokens than the model knows.
        folder = self.changed_base("many-tokens")
        made = transformers.RobertaTokenizerFast.from_pretrained(folder)
        made.add_tokens([f"word{n}" for n in range(9)])
        made.backend_tokenizer.save(str(folder / "tokenizer.json"))
        self.refused("do not belong together", base=folder)

    def test_results(self):
        self.refused("nothing is written", "--tolerance", more=("--tolerance", "1e-30"))
        self.refused("functions.c", more=("--functions", scratch / "functions.c"))
        (scratch / "taken").mkdir()
        (scratch / "taken" / "model.onnx").write_text("mine")
        code, _, err = run_export("linevul", self.good, scratch / "taken", "--base", self.base)
        self.assertEqual(code, 1)
        self.assertIn("taken exists", err)
        self.assertEqual((scratch / "taken" / "model.onnx").read_text(), "mine")


def without_seeds(build):
    """A subject with the weights that training starts from."""
    seed_weights, tiny.seed_weights = tiny.seed_weights, lambda model, *_, **__: model.eval()
    try:
        subject = build()
    finally:
        tiny.seed_weights = seed_weights
    for parameter in subject.model.parameters():
        parameter.requires_grad_(False)
    return subject


@contextlib.contextmanager
def sizes(**changed):
    before = {name: getattr(tiny, name) for name in changed}
    for name, value in changed.items():
        setattr(tiny, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(tiny, name, value)


SUBJECTS = {"linevul": tiny.linevul, "codexglue": tiny.codebert, "codet5": lambda: tiny.codet5("relu", "gather")}


@unittest.skipUnless(os.environ.get("EXPORT_FULL_SIZE"), "by hand: takes minutes and gigabytes")
class FullSize(Case):
    """Random weights at the published sizes: RoBERTa-base and T5-base. EXPORT_FULL_SIZE=1, or the name of one."""

    def test_published_sizes(self):
        for kind, build in SUBJECTS.items():
            if os.environ["EXPORT_FULL_SIZE"] in ("1", kind):
                with self.subTest(kind), sizes(HIDDEN=768, FFN=3072, LAYERS=12, HEADS=12, VOCAB=32100 if kind == "codet5" else 50265, POSITIONS=512 if kind == "codet5" else 514):
                    torch.manual_seed(1)
                    subject = without_seeds(build)
                    self.published(kind, subject)

    def published(self, kind, subject):
        config = tiny.t5_config("relu") if kind == "codet5" else tiny.roberta_config(labels=1)
        subject.max_length = 512
        folder = base(f"full-{kind}", config, T5_SPECIAL if kind == "codet5" else None)
        state = linevul_checkpoint(subject) if kind == "linevul" else subject.model.state_dict()
        torch.save(state, folder / "pytorch_model.bin")
        del state
        out = self.exported(kind, folder, scratch / f"full-{kind}-out")
        print(out)
        normalize = "none" if kind == "linevul" else "collapse-whitespace"
        # In float32, and one: float64 takes too long at this size.
        short = [file for file in FUNCTIONS if file.name == "find_slot.c"]
        self.check(scratch / f"full-{kind}-out", subject, normalize, mask=4, max_tokens=512, files=short, double=False)
        self.doctor(scratch / f"full-{kind}-out")


@unittest.skipUnless(os.environ.get("EXPORT_DATA"), "by hand: trains for minutes")
class Trained(Case):
    """Small detectors that were trained for EXPORT_SECONDS (120) of CPU time each on EXPORT_DATA, JSON lines with func and target."""

    def test_trained(self):
        rows = [json.loads(line) for line in pathlib.Path(os.environ["EXPORT_DATA"]).read_text(encoding="utf-8").splitlines() if line]
        for kind, build in SUBJECTS.items():
            with self.subTest(kind), sizes(HIDDEN=96, FFN=384, LAYERS=3, HEADS=4, VOCAB=4000, POSITIONS=514):
                torch.manual_seed(2)
                subject = without_seeds(build)
                self.trained(kind, subject, rows)

    def trained(self, kind, subject, rows):
        folder = scratch / f"trained-{kind}"
        special = T5_SPECIAL if kind == "codet5" else ROBERTA_SPECIAL
        folder.mkdir()
        made = tokenizers.ByteLevelBPETokenizer()
        made.train_from_iterator([row["func"] for row in rows], vocab_size=tiny.VOCAB, special_tokens=special, show_progress=False)
        made.save_model(str(folder))
        config = tiny.t5_config("relu") if kind == "codet5" else tiny.roberta_config(labels=1)
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.to_dict().items() if k not in ("id2label", "label2id")}))
        normalize = "none" if kind == "linevul" else "collapse-whitespace"
        first, pad, last = (special.index(name) for name in ("<s>", "<pad>", "</s>"))
        texts = [row["func"] if normalize == "none" else " ".join(row["func"].split()) for row in rows]
        ids = [[first, *encoding.ids[:510], last] for encoding in made.encode_batch(texts)]
        loss = train(subject, ids, [int(row["target"]) for row in rows], pad, float(os.environ.get("EXPORT_SECONDS", "120")))
        torch.save(linevul_checkpoint(subject) if kind == "linevul" else subject.model.state_dict(), folder / "model.bin")
        subject.max_length = 400 if kind == "codexglue" else 512
        # Functions that linelens finds as one each, as a file's only content.
        files = []
        for number, row in enumerate(rows[:60]):
            file = folder / f"function-{number}.c"
            file.write_text(row["func"].rstrip() + "\n")
            found = [json.loads(line) for line in linelens("functions", file).splitlines()]
            if len(found) == 1 and found[0]["startLine"] == 1 and found[0]["endLine"] == row["func"].rstrip().count("\n") + 1:
                files.append(file)
        print(f"{kind}: cross-entropy {loss:.3f} of the last steps, {len(files)} functions")
        print(self.exported(kind, folder, scratch / f"trained-{kind}-out", "--functions", *files[:8]))
        self.check(scratch / f"trained-{kind}-out", subject, normalize, mask=4, max_tokens=subject.max_length, files=files[:4])


def train(subject, ids, targets, pad, seconds):
    """Trains for a while; the mean loss of the last fifty steps."""
    model, losses = subject.model.train(), []
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    random = np.random.default_rng(3)
    start = time.process_time()
    while time.process_time() - start < seconds:
        chosen = random.integers(0, len(ids), 8)
        length = min(256, max(len(ids[n]) for n in chosen))
        # The head of CodeT5 needs a </s>.
        rows = torch.tensor([(ids[n] if len(ids[n]) <= length else ids[n][:length - 1] + ids[n][-1:]) + [pad] * (length - len(ids[n])) for n in chosen])
        logits = subject.logits(input_ids=rows, attention_mask=rows.ne(pad).long())
        wanted = torch.tensor([targets[n] for n in chosen])
        if logits.shape[1] == 1:
            loss = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], wanted.float())
        else:
            loss = torch.nn.functional.cross_entropy(logits, wanted)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss))
    for parameter in model.eval().parameters():
        parameter.requires_grad_(False)
    return sum(losses[-50:]) / len(losses[-50:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
