"""From a checkpoint of a published detector to a model directory for linelens; see README.md.

    python export.py linevul 12heads_linevul_model.bin linevul --base codebert-base
    python export.py codexglue saved_models/checkpoint-best-acc/model.bin codexglue --base codebert-base
    python export.py codet5 pytorch_model.bin codet5 --base codet5-base
    python export.py auto FOLDER OUT
"""
import argparse
import hashlib
import json
import logging
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import warnings

# Nothing is ever asked of a hub.
os.environ["HF_HUB_OFFLINE"] = os.environ["TRANSFORMERS_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# Functions of transformers that are scripts would leave control flow in the graph; as Python they are traced through.
os.environ["PYTORCH_JIT"] = "0"
warnings.filterwarnings("ignore")

import torch

import checkpoint
import detectors
import onnx_file
import texts
from checkpoint import Refused
from detectors import KINDS


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="export.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(KINDS))
    parser.add_argument("checkpoint", type=pathlib.Path, help="a folder, or a .safetensors or .bin file")
    parser.add_argument("out", type=pathlib.Path, help="the model directory to make; must not exist, or be empty")
    parser.add_argument("--base", type=pathlib.Path, metavar="DIR", help="where config.json and the tokenizer lie; default: the checkpoint's folder")
    parser.add_argument("--functions", nargs="+", default=[], metavar="FILE",
                        help="functions to compare PyTorch and ONNX Runtime on, one a file; default: those of models/export/functions")
    parser.add_argument("--tolerance", type=float, default=1e-4, metavar="P", help="largest difference of a probability that is accepted (1e-4)")
    declared = parser.add_argument_group("what detector.toml declares; default: as published")
    declared.add_argument("--name")
    declared.add_argument("--threshold", type=float, metavar="P")
    declared.add_argument("--max-tokens", type=int, metavar="N", help="tokens of a function, special ones included")
    declared.add_argument("--normalize", choices=("none", "strip-comments", "collapse-whitespace"))
    declared.add_argument("--long", choices=("window", "truncate"))
    declared.add_argument("--positive-label", metavar="LABEL", help="name or index of the label that means vulnerable")
    options = parser.parse_args(arguments)
    if not (math.isfinite(options.tolerance) and options.tolerance > 0):
        parser.error("--tolerance: expected a positive number")
    if options.threshold is not None and not 0 < options.threshold < 1:
        parser.error("--threshold: expected a number between 0 and 1")
    if options.max_tokens is not None and options.max_tokens < 8:
        parser.error("--max-tokens: expected at least 8")
    return options


def main(arguments=None):
    options = parsed(arguments)
    logging.disable(logging.WARNING)
    try:
        export(options)
    except Refused as refusal:
        # Names of tensors and files are anyone's.
        sentence = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(refusal))
        print(f"error: {sentence}", file=sys.stderr)
        return 1
    except MemoryError:
        print("error: there is not enough memory; export on a machine with more", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename or options.out}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


def export(options):
    kind, out = KINDS[options.kind], options.out
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refused(f"{out} exists; name another folder, or remove it first")
    if not out.absolute().parent.is_dir():
        raise Refused(f"{out.absolute().parent}: there is no such folder; make it first")
    # All that can be wrong is looked at before anything is built.
    functions = texts.functions(options.functions)
    weights = checkpoint.find_weights(options.checkpoint)
    base = options.base or (options.checkpoint if options.checkpoint.is_dir() else weights.parent)
    if not (base / "config.json").is_file():
        raise Refused(f"{base}: there is no config.json; a checkpoint holds weights only: name the folder of {kind.base} "
                      "(config.json and tokenizer) with --base")
    fields = checkpoint.read_json(base / "config.json")
    config = detectors.config_of(base / "config.json", fields, kind)
    tokenizer, limit = texts.tokenizer_of(base, kind)
    normalize = options.normalize or kind.normalize
    compared = [(name, texts.normalized(text, normalize)) for name, text in functions]
    agree = texts.same_as_python(base, tokenizer, compared, kind)

    tensors, files = checkpoint.read(weights)
    module = filled(options, kind, config, tensors, weights)
    max_tokens = tokens_of(options, kind, config, module, limit, base)
    rows = module_ids(module, tokenizer, compared, max_tokens, base)

    staging = pathlib.Path(tempfile.mkdtemp(dir=out.absolute().parent, prefix=f".{out.name}-"))
    try:
        onnx_file.write(module, min(rows, key=len), staging)
        worst = verified(options, module, staging, compared, rows, tokenizer, config)
        if agree:
            print(f"tokenizer.json gives the ids of the tokenizer in Python on {agree} functions")
        (staging / "config.json").write_text(texts.merged_config(fields, kind), encoding="utf-8")
        (staging / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
        (staging / "detector.toml").write_text(declaration(options, kind, files, worst, normalize, max_tokens), encoding="utf-8")
        staging.chmod(0o755)
        staging.replace(out)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    print(f"{out} is written; `linelens --model {out} doctor` tells what works with it")


def tokens_of(options, kind, config, module, limit, base):
    """How many tokens the detector takes; None leaves it to linelens."""
    bound = positions_of(config, module)
    chosen = options.max_tokens or kind.max_tokens or limit or bound
    if options.max_tokens and bound is not None and chosen > bound:
        raise Refused(f"{base / 'config.json'}: --max-tokens {chosen} is more than the {bound} positions for tokens")
    return chosen if bound is None or chosen is None else min(chosen, bound)


def positions_of(config, module):
    """Positions that tokens can have, as far as they are limited."""
    for name, table in module.named_modules():
        if isinstance(table, torch.nn.Embedding) and name.rpartition(".")[2] in ("position_embeddings", "wpe", "embed_positions"):
            # In RoBERTa types those up to the padding's own are never a token's.
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    # T5 counts relative positions, so that its number is no limit.
    return None if config.model_type == "t5" else getattr(config, "max_position_embeddings", None)


def filled(options, kind, config, tensors, path):
    """The PyTorch model with the checkpoint's weights."""
    kept, left = detectors.prepared(kind, tensors)
    suggested = detectors.looks_like(tensors)
    advice = f"They look like those of `{suggested}`." if suggested != options.kind else "Check that config.json (--base) is that of the checkpoint, and that the file is whole."
    try:
        # Shapes alone: a configuration that asks for more memory than there is must not get it.
        with torch.device("meta"):
            outline = kind.build(config)
        checkpoint.compare(path, outline, kept, (kind.title, advice))
        module = kind.build(config).eval()
        checkpoint.compare(path, module, kept, (kind.title, advice))
        checkpoint.fill(path, module, kept)
    except (Refused, MemoryError):
        raise
    # What a configuration with impossible numbers makes of the model's constructor.
    except Exception as error:
        raise Refused(f"config.json describes no model that can be built: {checkpoint.one_line(error)}; copy the file again") from None
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    left_out = f"; left out {len(left)} that the verdict does not use" if left else ""
    print(f"{path}: {len(kept)} tensors, {parameters:,} parameters{left_out}")
    return module


def module_ids(module, tokenizer, functions, max_tokens, base):
    size, _ = texts.vocabulary(tokenizer)
    embeddings = [item.num_embeddings for item in module.modules() if isinstance(item, torch.nn.Embedding)]
    if embeddings and size > max(embeddings):
        raise Refused(f"{base}: the tokenizer has {size} token ids, the model embeddings for {max(embeddings)}: they do not belong together; "
                      "copy the tokenizer of the model")
    rows = texts.encoded(tokenizer, [text for _, text in functions], max_tokens or 512)
    if not all(rows):
        raise Refused(f"{base}: the tokenizer gives no tokens for {functions[rows.index([])][0]}")
    return rows


def verified(options, module, folder, functions, rows, tokenizer, config):
    """Prints PyTorch beside ONNX Runtime; refuses where they differ."""
    _, pad = texts.vocabulary(tokenizer)
    pad = pad if pad is not None else getattr(config, "pad_token_id", None)
    results = onnx_file.compare(module, folder, rows, pad)
    print(f"{'PyTorch against ONNX Runtime':40} tokens  P(last label)  difference")
    for number, probability, difference, _ in results:
        if number is None:
            print(f"{'all of them, padded':40} {sum(map(len, rows)):6}                 {difference:.1e}")
        else:
            print(f"{functions[number][0]:40} {len(rows[number]):6}       {probability:.6f}     {difference:.1e}")
    worst = max(difference for _, _, difference, _ in results)
    of_logits = max(logits for *_, logits in results)
    print(f"largest difference: {worst:.1e} of a probability, {of_logits:.1e} of a logit; accepted up to {options.tolerance:g}")
    if worst > options.tolerance:
        raise Refused(f"ONNX Runtime and PyTorch differ by {worst:.1e}, accepted are {options.tolerance:g} (--tolerance); nothing is written")
    return worst


def declaration(options, kind, files, worst, normalize, max_tokens):
    """detector.toml; the first lines say where it comes from."""
    text = lambda value: json.dumps(value, ensure_ascii=False)
    lines = [f"# {kind.title}", f"# The verdict is taken from {kind.pooling}."]
    for file in files:
        lines.append(f"# Made from {text(file.name)}, SHA-256 {digest(file)}")
    lines.append(f"# PyTorch and ONNX Runtime differed by at most {worst:.1e}.")
    lines.append(f"name = {text(options.name or options.out.name)}")
    if options.positive_label is not None:
        label = options.positive_label
        lines.append(f"positive_label = {label if label.isdecimal() else text(label)}")
    elif kind.labels:
        lines.append('positive_label = "vulnerable"')
    lines.append(f"threshold = {kind.threshold if options.threshold is None else options.threshold!r}")
    lines.append(f'normalize = "{normalize}"')
    lines.append(f'long = "{options.long or kind.long}"')
    if max_tokens:
        lines.append(f"max_tokens = {max_tokens}")
    lines += ['logits = "logits"', 'output = "logits"']
    return "\n".join(lines) + "\n"


def digest(file):
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


if __name__ == "__main__":
    # Ended by others, it still removes what is half made.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
