"""PyTorch → ONNX, and whether the two say the same."""
import pathlib
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

from checkpoint import Refused, one_line

# The oldest in which a LayerNorm is one operator.
OPSET = 17
NAME, WEIGHTS = "model.onnx", "model.onnx.data"
INPUTS = ("input_ids", "attention_mask")
ADVICE = "try `optimum-cli export onnx --task text-classification`"
AXES = {0: "batch", 1: "tokens"}


def write(module, ids, folder):
    """Writes model.onnx, and model.onnx.data where the weights are too many for one file of two gigabytes."""
    rows = torch.tensor([ids, ids])
    with tempfile.TemporaryDirectory(dir=folder, prefix="onnx-") as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = pathlib.Path(scratch) / NAME
        try:
            torch.onnx.export(module, (rows, torch.ones_like(rows)), str(made), input_names=list(INPUTS), output_names=["logits"],
                              dynamic_axes={name: AXES for name in INPUTS} | {"logits": {0: "batch"}}, opset_version=OPSET, dynamo=False)
        # An architecture that the exporter does not know fails in many ways.
        except Exception as error:
            raise Refused(f"PyTorch cannot write this architecture as ONNX: {one_line(error)}; {ADVICE}") from None
        branches = branches_of(onnx.load(made, load_external_data=False).graph)
        if branches:
            raise Refused(f"PyTorch writes this architecture with control flow ({', '.join(branches)}), which linelens does not open; {ADVICE}")
        if len(list(pathlib.Path(scratch).iterdir())) == 1:
            made.rename(folder / NAME)
        else:
            # One file a tensor; linelens takes any number, people prefer one.
            onnx.save_model(onnx.load(made), folder / NAME, save_as_external_data=True, all_tensors_to_one_file=True, location=WEIGHTS)


def branches_of(graph):
    """Operators that hold a graph of their own, such as If and Loop."""
    has_graph = lambda node: any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)
    return sorted({node.op_type for node in graph.node if has_graph(node)})


def padded(rows, pad):
    length = max(map(len, rows))
    ids = [row + [pad] * (length - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (length - len(row)) for row in rows]
    return np.array(ids, dtype=np.int64), np.array(mask, dtype=np.int64)


def probabilities(logits):
    """P(label) of each row: the sigmoid of one logit, the softmax of several."""
    logits = logits.astype(np.float64)
    if logits.shape[1] == 1:
        return 1 / (1 + np.exp(-logits))
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def compare(module, folder, rows, pad):
    """[(which rows, P(last label) by PyTorch, largest difference of probabilities, of logits)] for each row alone, then for
    all of them as one padded batch, as far as there is a padding token."""
    options = onnxruntime.SessionOptions()
    # What goes wrong is an exception, too.
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(str(folder / NAME), options, providers=["CPUExecutionProvider"])
        taken = {item.name for item in session.get_inputs()}
        runs = [(number, padded([row], 0)) for number, row in enumerate(rows)]
        if pad is not None and len(rows) > 1:
            runs.append((None, padded(rows, pad)))
        results = []
        for number, (ids, mask) in runs:
            feed = {name: value for name, value in zip(INPUTS, (ids, mask)) if name in taken}
            found, = session.run(["logits"], feed)
            with torch.no_grad():
                wanted = module(torch.from_numpy(ids), torch.from_numpy(mask)).numpy()
            if found.shape != wanted.shape:
                raise Refused(f"{NAME}: expected logits of the shape {list(wanted.shape)}, found {list(found.shape)}: "
                              "this architecture cannot be exported with free dimensions")
            if not np.isfinite(wanted).all():
                raise Refused("the model's logits are not finite numbers: the checkpoint is damaged, or the training went wrong")
            by_torch = probabilities(wanted)
            difference = np.abs(probabilities(found) - by_torch)
            results.append((number, float(by_torch[0, -1]), float(np.nan_to_num(difference, nan=1).max()), float(np.abs(found - wanted).max())))
        return results
    except Refused:
        raise
    # ONNX Runtime raises several kinds of its own.
    except Exception as error:
        raise Refused(f"ONNX Runtime cannot run what PyTorch wrote: {one_line(error)}") from None
