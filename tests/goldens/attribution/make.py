"""Writes `models/*.onnx` and `values/*.json`. See README.md; the one command is

    python make.py [--newer PYTHON] [--only SUBJECT …] [--keep-models]

`--newer` names the interpreter of the second environment (requirements-newer.txt), whose exporter writes the `Attention`
operator; without it those files are left as they are.
"""
import argparse
import json
import logging
import os
import pathlib
import subprocess
import sys
import warnings

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import numpy as np
import onnx
import torch

import export
import tiny

HERE = pathlib.Path(__file__).resolve().parent
MODELS, VALUES = HERE / "models", HERE / "values"
NAMES_KEPT = ("optimum", "dynamo-23", "roberta-dynamo-18")      # the others get numbered tensors, to stay below 1 MB

# subject → (how to build it, [(file, exporter, opset, attention)])
SUBJECTS = {
    "roberta": (tiny.roberta, [
        ("roberta-torchscript-14-eager", "torchscript", 14, "eager"), ("roberta-torchscript-17-eager", "torchscript", 17, "eager"),
        ("roberta-torchscript-20-eager", "torchscript", 20, "eager"), ("roberta-torchscript-17-sdpa", "torchscript", 17, "sdpa"),
        ("roberta-dynamo-18-eager", "dynamo", 18, "eager"), ("roberta-optimum-17-sdpa", "optimum", 17, "eager"),
        ("roberta-ortbasic-17-eager", "ort-basic", 17, "eager"), ("roberta-ortfused-17-eager", "ort-fused", 17, "eager"),
        ("roberta-dynamo-23-sdpa", "newer", 23, "sdpa")]),
    "codebert": (tiny.codebert, [("codebert-torchscript-17-sdpa", "torchscript", 17, "sdpa")]),
    "linevul": (tiny.linevul, [("linevul-torchscript-14-eager", "torchscript", 14, "eager"),
                               ("linevul-dynamo-18-eager", "dynamo", 18, "eager")]),
    "codet5": (lambda: tiny.codet5("relu", "mask"), [("codet5-torchscript-17-eager", "torchscript", 17, "eager")]),
    "codet5gated": (lambda: tiny.codet5("gated-gelu", "gather"), [("codet5gated-torchscript-17-eager", "torchscript", 17, "eager"),
                                                                  ("codet5gated-dynamo-18-eager", "dynamo", 18, "eager")]),
    "t5seqcls": (tiny.t5seqcls, [("t5seqcls-torchscript-17-eager", "torchscript", 17, "eager")]),
    "bert": (tiny.bert, [("bert-torchscript-17-eager", "torchscript", 17, "eager"), ("bert-dynamo-18-eager", "dynamo", 18, "eager")]),
    "distilbert": (tiny.distilbert, [("distilbert-torchscript-17-eager", "torchscript", 17, "eager"),
                                     ("distilbert-dynamo-18-eager", "dynamo", 18, "eager")]),
    "electra": (tiny.electra, [("electra-torchscript-17-eager", "torchscript", 17, "eager"),
                               ("electra-dynamo-18-eager", "dynamo", 18, "eager")]),
    "mpnet": (tiny.mpnet, [("mpnet-torchscript-17-eager", "torchscript", 17, "eager"), ("mpnet-dynamo-18-eager", "dynamo", 18, "eager")]),
    "deberta": (tiny.deberta, [("deberta-torchscript-17-eager", "torchscript", 17, "eager")]),
    "modernbert": (tiny.modernbert, [("modernbert-torchscript-17-eager", "torchscript", 17, "eager"),
                                     ("modernbert-dynamo-18-eager", "dynamo", 18, "eager")]),
    "gpt2": (tiny.gpt2, [("gpt2-torchscript-17-eager", "torchscript", 17, "eager"), ("gpt2-dynamo-18-eager", "dynamo", 18, "eager")]),
    "qwen2": (tiny.qwen2, [("qwen2-torchscript-17-eager", "torchscript", 17, "eager"), ("qwen2-dynamo-18-eager", "dynamo", 18, "eager")]),
    "roberta-fp16": (lambda: tiny.rounded_to_half(tiny.roberta()), [("roberta-fp16-17-eager", "fp16", 17, "eager")]),
    "roberta-int8weights": (tiny.roberta, [("roberta-int8weights-17-eager", "int8-weights", 17, "eager")]),
    "roberta-dynint8": (tiny.roberta, [("roberta-dynint8-17-eager", "dynamic-int8", 17, "eager")]),
}
TOLERANCE_OF_F = {"fp16": 5e-3}


def write_model(name, model):
    model = export.slim(model)
    if not any(kept in name for kept in NAMES_KEPT):
        model = export.slim(export.shorten(model))
    (MODELS / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def export_model(subject, builder, name, exporter, opset, attention):
    path = str(MODELS / f"{name}.onnx")
    source = str(MODELS / "roberta-torchscript-17-eager.onnx")
    if exporter in ("torchscript", "dynamo", "newer"):
        subject = builder(attention) if attention == "sdpa" else subject
        model = export.torchscript(subject, path, opset) if exporter == "torchscript" else export.dynamo(subject, path, opset)
    elif exporter == "optimum":
        model = export.optimum(subject, path, opset)
    elif exporter == "ort-basic":
        import onnxruntime
        model = export.ort_optimised(source, path, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC)
    elif exporter == "ort-fused":
        model = export.ort_fused(source, path)
    elif exporter == "fp16":
        export.torchscript(subject, path, opset)
        model = export.half(path)
    elif exporter == "int8-weights":
        model = export.weight_only_int8(export.torchscript(subject, path, opset), subject.quantised)
    elif exporter == "dynamic-int8":
        export.torchscript(subject, path + ".float", opset)
        model = export.dynamic_int8(path + ".float", path)
        os.remove(path + ".float")
    write_model(name, model)


def probability_of_file(path, subject, inputs):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    output, = session.run(None, {k: v.numpy() for k, v in inputs.items()})
    output = torch.from_numpy(output.astype(np.float64))
    if subject.output == "logits":
        return torch.sigmoid(output[:, 0]) if subject.head == "sigmoid1" else torch.softmax(output, -1)[:, 1]
    return output[:, 0] if subject.head == "sigmoid1" else output[:, 1]


def check_files(subject, files, entries):
    """{file: largest |F of the file − F of the reference|}; raises where it is too large."""
    import reference
    differences = {}
    for name, exporter, *_ in files:
        path = MODELS / f"{name}.onnx"
        if not path.exists():
            continue
        worst = 0.0
        for (_, inputs), entry in zip(reference.cases(subject), entries):
            worst = max(worst, float((probability_of_file(path, subject, inputs) - torch.tensor(entry["F"], dtype=torch.float64)).abs().max()))
        assert worst <= TOLERANCE_OF_F.get(exporter, 1e-5), (name, worst)
        differences[name] = worst
    return differences


def describe(subject, files):
    return {"subject": subject.name,
            "models": {name: {"exporter": exporter, "opset": opset, "attention": attention} for name, exporter, opset, attention in files},
            "inputs": list(subject.inputs), "output": subject.output, "head": subject.head, "ids": subject.ids,
            "max_length": subject.max_length, "cut": subject.cut_is, "attention": subject.attention_is,
            "ig_by": "captum" if subject.captum else "loop"}


def values_of(subject, key, files):
    import reference
    entries, notes = [], []
    for number, (name, inputs) in enumerate(reference.cases(subject)):
        entry, note = reference.values_of_case(subject, name, inputs, full_gradient=number == 0, as_if_padded=key in PADDED)
        entries.append(entry)
        notes.append(note)
    worst = {}
    for note in notes:
        for what, value in note.items():
            if value is not None:
                worst[what] = max(worst.get(what, 0.0), value)
    return {**describe(subject, files), "float32_noise": {k: float(f"{v:.2g}") for k, v in worst.items()}, "cases": entries}


PADDED = ("roberta", "codebert", "linevul", "codet5")


def values_of_dynamic_int8(subject, files):
    """No PyTorch model computes what this file does: F, margin and attention come from onnx's own reference evaluator."""
    import reference
    from onnx.reference import ReferenceEvaluator
    name = files[0][0]
    model = onnx.load(MODELS / f"{name}.onnx")
    attention = [n.output[0] for n in model.graph.node if n.op_type == "Softmax"]
    model.graph.output.extend(onnx.ValueInfoProto(name=a) for a in attention)
    evaluator = ReferenceEvaluator(model)
    entries = []
    for case, inputs in reference.cases(subject):
        logits, *maps = evaluator.run(None, {k: v.numpy() for k, v in inputs.items()})
        logits = torch.from_numpy(logits.astype(np.float64))
        floating = reference.forward(subject, inputs)[0]
        entries.append(reference.significant_tree({
            "name": case, **inputs, "F": reference.probability_of(subject, logits), "margin": reference.margin_of(subject, logits),
            "attention": torch.stack([torch.from_numpy(m.astype(np.float64)).sum(dim=(1, 2)) for m in maps]), "F_of_the_float_model": floating}))
    return {**describe(subject, files), "values_by": "onnx.reference", "cases": entries}


def text_of(tree, indent=0):
    """JSON with one line for each list of numbers and one level of indentation for each object."""
    if isinstance(tree, dict):
        inner = ",\n".join(" " * (indent + 1) + json.dumps(k) + ": " + text_of(v, indent + 1) for k, v in tree.items())
        return "{\n" + inner + "\n" + " " * indent + "}"
    if isinstance(tree, list) and tree and isinstance(tree[0], dict):
        return "[" + ", ".join(text_of(v, indent) for v in tree) + "]"
    return json.dumps(tree, separators=(",", ":"))


def make(key, keep_models):
    import reference
    builder, files = SUBJECTS[key]
    subject = builder()
    if key == "roberta-int8weights":
        subject.quantised = export.quantise_linear_layers(subject.model)
    if not keep_models:
        for file in files:
            if file[1] != "newer":
                export_model(subject, builder, *file)
    values = values_of_dynamic_int8(subject, files) if key == "roberta-dynint8" else values_of(subject, key, files)
    values["F_of_files_differs_by"] = {k: float(f"{v:.2g}") for k, v in check_files(subject, files, values["cases"]).items()}
    (VALUES / f"{key}.json").write_text(text_of(values) + "\n")
    print(key, {k: values[k] for k in ("float32_noise", "F_of_files_differs_by") if k in values}, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--newer", metavar="PYTHON", help="interpreter of the second environment")
    parser.add_argument("--only", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    parser.add_argument("--keep-models", action="store_true", help="compute the values again, leave the models")
    parser.add_argument("--in-newer", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.disable(logging.WARNING)
    MODELS.mkdir(exist_ok=True)
    VALUES.mkdir(exist_ok=True)
    if arguments.in_newer:
        for key in arguments.only:
            builder, files = SUBJECTS[key]
            for file in files:
                if file[1] == "newer":
                    export_model(builder(), builder, *file)
        return
    if arguments.newer:
        subprocess.run([arguments.newer, __file__, "--in-newer", "--only", *arguments.only], check=True)
    for key in arguments.only:
        make(key, arguments.keep_models)
    print("models:", sum(f.stat().st_size for f in MODELS.iterdir()), "bytes; values:", sum(f.stat().st_size for f in VALUES.iterdir()), "bytes")


if __name__ == "__main__":
    sys.exit(main())
