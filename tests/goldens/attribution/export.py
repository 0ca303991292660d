"""ONNX files of a subject by the usual exporters, and what people do to such files afterwards."""
import contextlib
import os
import shutil
import tempfile
import warnings

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

import tiny

DIMENSIONS = {0: "batch", 1: "sequence"}


@contextlib.contextmanager
def tuple_outputs(model):
    """Hugging Face models give a tuple while they are traced."""
    configs = [m.config for m in model.modules() if hasattr(m, "config") and hasattr(m.config, "return_dict")]
    top = [c for c in configs[:1] if hasattr(model, "config")]
    for config in top:
        config.return_dict = False
    try:
        yield
    finally:
        for config in top:
            config.return_dict = True


def sample(subject, batch=2, length=9):
    rng = np.random.default_rng(7)
    ids = torch.from_numpy(rng.integers(5, 47, (batch, length)))
    ids[:, 0], ids[:, -1] = subject.ids["first"], subject.ids["last"]
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    return {name: values[name] for name in subject.inputs}


def torchscript(subject, path, opset):
    output = "logits" if subject.output == "logits" else "probability"
    axes = {name: DIMENSIONS for name in subject.inputs} | {output: {0: "batch"}}
    with tuple_outputs(subject.model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(subject.model, (), path, kwargs=sample(subject), input_names=list(subject.inputs), output_names=[output],
                          dynamic_axes=axes, opset_version=opset, dynamo=False)
    return onnx.load(path)


def dynamo(subject, path, opset):
    batch, sequence = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("sequence", min=2, max=subject.max_length - 1)
    shapes = {name: {0: batch, 1: sequence} for name in subject.inputs}
    with tuple_outputs(subject.model), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(subject.model, (), kwargs=sample(subject), input_names=list(subject.inputs), dynamic_shapes=shapes,
                                    opset_version=opset, dynamo=True, verbose=False)
    program.save(path, external_data=False)
    return onnx.load(path)


def optimum(subject, path, opset):
    from optimum.exporters.onnx import main_export
    with tempfile.TemporaryDirectory() as folder:
        subject.model.save_pretrained(os.path.join(folder, "hf"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main_export(os.path.join(folder, "hf"), output=os.path.join(folder, "onnx"), task="text-classification", opset=opset,
                        do_validation=False, no_post_process=False)
        shutil.copy(os.path.join(folder, "onnx", "model.onnx"), path)
    return onnx.load(path)


def slim(model):
    """Drops what no runtime reads: documentation, metadata, inferred shapes. Nodes, names and order stay as exported."""
    def clean(graph):
        graph.ClearField("doc_string")
        graph.ClearField("value_info")
        graph.ClearField("metadata_props")
        for node in graph.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
            for attribute in node.attribute:
                attribute.ClearField("doc_string")
                if attribute.type == onnx.AttributeProto.GRAPH:
                    clean(attribute.g)
        for item in list(graph.input) + list(graph.output) + list(graph.initializer):
            item.ClearField("doc_string")
            item.ClearField("metadata_props")
    model.ClearField("doc_string")
    model.ClearField("metadata_props")
    clean(model.graph)
    for function in model.functions:
        for node in function.node:
            node.ClearField("doc_string")
            node.ClearField("metadata_props")
    onnx.checker.check_model(model)
    return model


def shorten(model):
    """Numbers nodes and tensors instead of naming them after PyTorch modules (a third of such a small file is names)."""
    names, counted = {"": ""}, iter(range(10**6))
    keep = {v.name for v in list(model.graph.input) + list(model.graph.output)}

    def short(name, letter):
        if name not in names:
            names[name] = name if name in keep else f"{letter}{len(names)}"
        return names[name]
    def visit(graph):
        for tensor in graph.initializer:
            tensor.name = short(tensor.name, "w")
        for node in graph.node:
            node.name = f"n{next(counted)}"
            for names_of in (node.input, node.output):
                names_of[:] = [short(name, "t") for name in names_of]
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)
                    for value in list(attribute.g.input) + list(attribute.g.output):
                        value.name = short(value.name, "t")
    visit(model.graph)
    return model


def ort_optimised(source, path, level):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = path
    options.log_severity_level = 3
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return onnx.load(path)


def ort_fused(source, path):
    """What `optimum-cli … --optimize O2` does: onnxruntime.transformers fuses into com.microsoft operators."""
    from onnxruntime.transformers import optimizer
    fused = optimizer.optimize_model(source, model_type="bert", num_heads=tiny.HEADS, hidden_size=tiny.HIDDEN, opt_level=0)
    fused.save_model_to_file(path)
    return onnx.load(path)


def half(source):
    from onnxruntime.transformers.float16 import convert_float_to_float16
    return convert_float_to_float16(onnx.load(source))


def dynamic_int8(source, path):
    from onnxruntime.quantization import QuantType, quantize_dynamic
    quantize_dynamic(source, path, weight_type=QuantType.QInt8)
    return onnx.load(path)


def round_to_int8(weight):
    """Per-row symmetric int8: (codes, scales), weight ~ codes * scales."""
    scale = (np.abs(weight).max(axis=1) / 127).astype(np.float32)
    return np.clip(np.rint(weight / scale[:, None]), -127, 127).astype(np.int8), scale


def quantise_linear_layers(model):
    """Rounds every nn.Linear of the PyTorch model to int8 values, so that it and the file agree exactly."""
    quantised = []
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            codes, scale = round_to_int8(module.weight.numpy())
            module.weight.copy_(torch.from_numpy(codes.astype(np.float32) * scale[:, None]))
            quantised.append((module.weight.numpy().copy(), codes, scale))
    return quantised


def weight_only_int8(model, quantised):
    """Replaces the float initializers of the linear layers by DequantizeLinear(int8 initializer, scale per channel)."""
    graph, nodes, replaced = model.graph, [], 0
    for tensor in list(graph.initializer):
        value = numpy_helper.to_array(tensor)
        for weight, codes, scale in quantised:
            transposed = value.shape == weight.T.shape and np.array_equal(value, weight.T)
            if not transposed and not (value.shape == weight.shape and np.array_equal(value, weight)):
                continue
            name = tensor.name
            graph.initializer.remove(tensor)
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(codes.T) if transposed else codes, name + "_int8"))
            graph.initializer.append(numpy_helper.from_array(scale, name + "_scale"))
            graph.initializer.append(numpy_helper.from_array(np.zeros(len(scale), np.int8), name + "_zero"))
            nodes.append(helper.make_node("DequantizeLinear", [name + "_int8", name + "_scale", name + "_zero"], [name],
                                          name=name + "_DequantizeLinear", axis=1 if transposed else 0))
            replaced += 1
            break
    assert replaced == len(quantised), (replaced, len(quantised))
    nodes.extend(graph.node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model
