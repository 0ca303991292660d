"""Checkpoints as tensors. They come from anyone: what could run code is never loaded, and what is wrong is said in a sentence."""
import json
import pathlib
import pickle
import re

import safetensors
import safetensors.torch
import torch

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")
# What training leaves beside the weights.
NOT_WEIGHTS = re.compile(r"(optimizer|scheduler|scaler|training_args|rng_state)")
# Under which key training scripts keep the tensors, beside an epoch or an optimizer.
INNER = ("state_dict", "model_state_dict", "model")
LARGEST_JSON = 64 << 20
NAMED = 6


class Refused(Exception):
    """What cannot be exported: what, where, and what to do, for the person who reads it."""


def listed(names):
    """The first few of many names."""
    names = sorted(names)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def not_json(word):
    raise ValueError(f"{word} is no number of JSON")


def read_json(path):
    """An object from a JSON file."""
    try:
        if not path.is_file():
            raise Refused(f"{path}: expected a file, found {'something else' if path.exists() else 'nothing'}")
        if path.stat().st_size > LARGEST_JSON:
            raise Refused(f"{path}: expected at most {LARGEST_JSON} bytes, found {path.stat().st_size}")
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=not_json)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is not valid JSON: {error}; copy the file again") from None
    if not isinstance(value, dict):
        raise Refused(f"{path}: expected a JSON object, found something else; copy the file again")
    return value


def find_weights(path):
    """The file that holds the weights, or their index."""
    if not path.exists():
        raise Refused(f"{path}: there is nothing; name a checkpoint's folder, or its .safetensors or .bin file")
    if path.is_file():
        return path
    if not path.is_dir():
        raise Refused(f"{path}: expected a folder or a regular file, found something else")
    for name in WEIGHTS:
        if (path / name).is_file():
            return path / name
    found = sorted(f for f in path.iterdir() if f.suffix in SUFFIXES and f.is_file() and not NOT_WEIGHTS.search(f.name))
    if len(found) == 1:
        return found[0]
    if found:
        raise Refused(f"{path}: expected one checkpoint, found {listed(f.name for f in found)}; name the file instead of the folder")
    held = listed(f.name for f in path.iterdir()) or "nothing"
    raise Refused(f"{path}: expected {WEIGHTS[0]}, {WEIGHTS[2]} or one other file of weights, found {held}; copy the weights there")


def read(path):
    """({name: tensor}, the files that were read)"""
    path = find_weights(pathlib.Path(path))
    if path.name.endswith(".index.json"):
        return read_shards(path)
    return read_file(path), [path]


def read_shards(index):
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise Refused(f"{index}: expected weight_map, an object from tensors to files; copy the file again")
    tensors, files = {}, []
    for name in sorted(set(weight_map.values())):
        # An index must not lead out of its folder.
        if pathlib.PurePath(name).name != name or name in ("", ".", ".."):
            raise Refused(f"{index}: expected names of files beside it, found {name!r}")
        if not (index.parent / name).is_file():
            raise Refused(f"{index}: {name} is missing; copy it there")
        tensors |= read_file(index.parent / name)
        files.append(index.parent / name)
    absent = set(weight_map) - set(tensors)
    if absent:
        raise Refused(f"{index}: its files lack {listed(absent)}; copy them again")
    return tensors, files


def read_file(path):
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror or error}") from None
    if not head:
        raise Refused(f"{path} is empty; copy it again")
    if head.startswith(b"version https://git-lfs"):
        raise Refused(f"{path} is a Git LFS pointer of {size} bytes, not the weights; fetch them with `git lfs pull`")
    if head[8:9] == b"{" and not head.startswith(b"PK"):
        loaded = read_safetensors(path)
    elif head.startswith((b"PK\x03\x04", b"\x80")):
        loaded = read_torch(path)
    else:
        raise Refused(f"{path}: expected safetensors or a file of torch.save, found one that starts with {head[:8]!r}; copy it again")
    return checked(path, unwrapped(path, loaded))


def read_safetensors(path):
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise Refused(f"{path} is cut off or damaged: {one_line(error)}; copy it again") from None


def read_torch(path):
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
        raise Refused(f"{path}: PyTorch {torch.__version__} can be made to run code by such a file, expected 2.6 or newer; install requirements.txt")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = one_line(error)
        found = re.search(r"GLOBAL ([\w.]+)|Unsupported class ([\w.]+)|WeightsUnpickler error: (.{0,120})", reason)
        found = next((group for group in found.groups() if group), "") if found else reason
        raise Refused(f"{path} holds more than tensors, or is damaged ({found}). Loading such a file can run code, so it is not loaded: "
                      "where you trust it, load it in a place of its own and save `model.state_dict()` alone, best as safetensors") from None
    # Whatever a damaged archive makes of the reader.
    except Exception as error:
        raise Refused(f"{path} is cut off or damaged: {one_line(error)}; copy it again") from None


def one_line(error):
    return " ".join(str(error).split())[:300] or type(error).__name__


def unwrapped(path, loaded):
    """The tensors of a training script's checkpoint, without the prefix of torch.nn.DataParallel."""
    if not isinstance(loaded, dict):
        raise Refused(f"{path}: expected named tensors, found {type(loaded).__name__}; save `model.state_dict()`")
    for key in INNER:
        if isinstance(loaded.get(key), dict):
            loaded = loaded[key]
            break
    tensors = {name: value for name, value in loaded.items() if isinstance(name, str) and isinstance(value, torch.Tensor)}
    if not tensors:
        raise Refused(f"{path}: expected named tensors, found {listed(map(str, loaded)) or 'nothing'}; save `model.state_dict()`")
    while all(name.startswith("module.") for name in tensors):
        tensors = {name.removeprefix("module."): value for name, value in tensors.items()}
    return tensors


def checked(path, tensors):
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex() or tensor.is_meta:
            raise Refused(f"{path}: {name}: expected a dense tensor of real numbers, found {tensor.dtype}, {tensor.layout}; save the model unquantised")
    return tensors


def tables(module):
    """Names of the module's tensors, those of one and the same tensor together: [(names, shape)]."""
    named = list(module.named_parameters(remove_duplicate=False))
    kept = set(module.state_dict(keep_vars=True))
    named += list(module.named_buffers(remove_duplicate=False))
    together = {}
    for name, tensor in named:
        if name in kept:
            together.setdefault(id(tensor), ([], tuple(tensor.shape)))[0].append(name)
    return list(together.values())


def compare(path, module, tensors, advice):
    """Refuses tensors that are not those of the module: each missing, unexpected or differently shaped one is named."""
    problems, wanted = [], set()
    missing, shapes = [], []
    for names, shape in tables(module):
        wanted.update(names)
        present = [name for name in names if name in tensors]
        if not present:
            missing.append(names[0])
        shapes += [f"{name} (expected {list(shape)}, found {list(tensors[name].shape)})" for name in present if tuple(tensors[name].shape) != shape]
        for name in present[1:]:
            if tensors[name].shape == tensors[present[0]].shape and not torch.equal(tensors[name], tensors[present[0]]):
                problems.append(f"{present[0]} and {name} differ, expected one shared table")
    unexpected = set(tensors) - wanted
    if missing:
        problems.append(f"{len(missing)} missing: {listed(missing)}")
    if unexpected:
        problems.append(f"{len(unexpected)} unexpected: {listed(unexpected)}")
    if shapes:
        problems.append(f"{len(shapes)} of another shape: {listed(shapes)}")
    if problems:
        raise Refused(f"{path}: its tensors are not those of {advice[0]}: {'; '.join(problems)}. {advice[1]}")


def fill(path, module, tensors):
    """Copies tensors that `compare` accepted into the module, as float32."""
    with torch.no_grad():
        targets = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                bad = int((~torch.isfinite(tensor)).sum())
                raise Refused(f"{path}: {name}: expected finite numbers, found {bad} that are not; the training went wrong, or the file is damaged")
            targets[name].copy_(tensor)
