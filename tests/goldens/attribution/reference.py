"""The reference values of one subject: PyTorch autograd, captum, and the rules of `attnlrp.py`, in float64."""
import contextlib

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from attnlrp import AttnLrp, Embeddings, whole_activations

STEPS = 50


class Float64(TorchFunctionMode):
    """Some Hugging Face modules cast to float32 inside (RMSNorm, softmax, rotary angles): with this they stay in float64.
    Integer tensors turned into floats keep their type, so bucket boundaries of relative positions do not move."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        swap = lambda a: torch.float64 if a is torch.float32 else a
        name = getattr(function, "__name__", "")
        if args and isinstance(args[0], torch.Tensor) and not args[0].is_floating_point() and name in ("to", "float"):
            return function(*args, **(kwargs or {}))
        args, kwargs = [swap(a) for a in args], {k: swap(v) for k, v in (kwargs or {}).items()}
        if name == "float":
            return args[0].double()
        if name in ("matmul", "__matmul__") and args[0].dtype != args[1].dtype:
            args = [a.double() for a in args[:2]]
        return function(*args, **kwargs)


@contextlib.contextmanager
def precision(subject, double):
    subject.model.double() if double else subject.model.float()
    with Float64() if double else contextlib.nullcontext():
        yield
    subject.model.float()


class Cut:
    """Reads or replaces the first output of the cut during one forward pass."""

    def __init__(self, subject, replacement=None):
        self.subject, self.replacement, self.value = subject, replacement, None

    def hook(self, module, inputs, output):
        if self.value is not None:
            return None
        self.value = (output if self.replacement is None else self.replacement).detach().requires_grad_()
        return self.value.clone()

    def __enter__(self):
        self.handle = self.subject.cut.register_forward_hook(self.hook)
        return self

    def __exit__(self, *error):
        self.handle.remove()


def margin_of(subject, logits):
    return logits[:, 0] if subject.head == "sigmoid1" else logits[:, 1] - logits[:, 0]


def probability_of(subject, logits):
    return torch.sigmoid(logits[:, 0]) if subject.head == "sigmoid1" else torch.softmax(logits, dim=-1)[:, 1]


def forward(subject, inputs):
    with torch.no_grad():
        logits = subject.logits(**inputs)
        return probability_of(subject, logits), margin_of(subject, logits)


def attention(subject, inputs):
    """[layer][batch][token]: attention received, summed over heads and all query rows (padding rows included)."""
    with torch.no_grad():
        return torch.stack([a.sum(dim=(1, 2)) for a in subject.attentions(**inputs)])


def gradient_at_cut(subject, inputs, cut=None):
    """(F, dF/dcut, cut); `cut` replaces the output of the embeddings block."""
    with Cut(subject, cut) as hooked:
        probability = probability_of(subject, subject.logits(**inputs))
    return probability.detach(), torch.autograd.grad(probability.sum(), hooked.value)[0], hooked.value.detach()


def gradient_x_input(subject, inputs):
    """(relevance [batch][token], scale). Where the word embedding goes straight into a LayerNorm the sum over the hidden
    dimension is zero but for the norm's epsilon, so errors are to be measured against the largest Σ|terms| of a token: `scale`."""
    with Embeddings(subject.word.weight) as tap:
        margin = margin_of(subject, subject.logits(**inputs))
    gradient, = torch.autograd.grad(margin.sum(), tap.word)
    terms = gradient * tap.word
    return terms.sum(-1).detach(), float(terms.abs().sum(-1).max())


def attnlrp(subject, inputs, tanh_rule=True):
    """(relevance, whether the model has a tanh outside its activations' own formulas: that is the head's or pooler's)"""
    with whole_activations(subject.model), Embeddings(subject.word.weight) as tap, AttnLrp(tanh_rule) as rules:
        margin = margin_of(subject, subject.logits(**inputs))
        gradient, = torch.autograd.grad(margin.sum(), tap.word)
    return (gradient * tap.word).sum(-1).detach(), rules.tanh_seen


def baseline_ids(subject, inputs, keep_last=False):
    """First token, then padding; the last position holds the last token only where the input fills the model."""
    ids = inputs["input_ids"]
    baseline = torch.full_like(ids, subject.ids["pad"])
    baseline[:, 0] = ids[:, 0]
    if keep_last:
        baseline[:, -1] = subject.ids["last"]
    return baseline


class Reached(Exception):
    """Ends a forward pass at the cut."""


def cut_of(subject, inputs):
    """The embeddings block alone; what follows may not even be defined (a baseline has no </s> to classify)."""
    def stop(module, arguments, output):
        raise Reached(output)
    handle = subject.cut.register_forward_hook(stop)
    try:
        with torch.no_grad():
            subject.logits(**inputs)
    except Reached as reached:
        return reached.args[0]
    finally:
        handle.remove()


def integrated_gradients(subject, inputs, baseline, use_captum=True):
    """relevance [batch][token] by captum where it can hook the cut, else by the loop; both ends of the path; and by how much
    captum and the loop differ (relative to the largest relevance; None where captum was not used)."""
    start = cut_of(subject, {**inputs, "input_ids": baseline})
    end = cut_of(subject, inputs)
    nodes, weights = np.polynomial.legendre.leggauss(STEPS)
    total = torch.zeros_like(end)
    for node, weight in zip(nodes, weights):
        point = start + (1 + node) / 2 * (end - start)
        total += weight / 2 * gradient_at_cut(subject, inputs, point)[1]
    by_loop = (total * (end - start)).sum(-1)
    at_start = gradient_at_cut(subject, inputs, start)[0]
    at_end = gradient_at_cut(subject, inputs, end)[0]
    if not (subject.captum and use_captum):
        return by_loop, at_start, at_end, None
    from captum.attr import LayerIntegratedGradients
    others = tuple(v for k, v in inputs.items() if k != "input_ids")

    def f(*values):
        return probability_of(subject, subject.logits(**dict(zip(inputs, values))))
    explainer = LayerIntegratedGradients(f, subject.cut)
    by_captum = explainer.attribute(inputs["input_ids"], baselines=baseline, additional_forward_args=others, n_steps=STEPS,
                                    method="gausslegendre").sum(-1).detach()
    return by_captum, at_start, at_end, relative(by_captum, by_loop)


def relative(a, b):
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-30))


def significant(value):
    """Nested lists with nine significant digits."""
    if isinstance(value, (list, tuple)):
        return [significant(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return significant(value.tolist()) if isinstance(value, (torch.Tensor, np.ndarray)) else value


def padded(subject, inputs, length):
    missing = length - inputs["input_ids"].shape[1]
    out = dict(inputs)
    out["input_ids"] = torch.nn.functional.pad(inputs["input_ids"], (0, missing), value=subject.ids["pad"])
    if "attention_mask" in inputs:
        out["attention_mask"] = torch.nn.functional.pad(inputs["attention_mask"], (0, missing), value=0)
    return out


def values_of_case(subject, name, inputs, full_gradient, as_if_padded):
    """One entry of `cases` and the notes for the README's tables."""
    n = inputs["input_ids"].shape[1]
    truncated = n == subject.max_length
    baseline = baseline_ids(subject, inputs, keep_last=truncated)
    notes = {}
    with precision(subject, True):
        probability, margin = forward(subject, inputs)
        columns = attention(subject, inputs)
        _, gradient, cut = gradient_at_cut(subject, inputs)
        gxi, gxi_scale = gradient_x_input(subject, inputs)
        lrp, has_tanh = attnlrp(subject, inputs)
        lrp_plain = attnlrp(subject, inputs, tanh_rule=False)[0] if has_tanh else None
        ig, at_start, at_end, notes["captum against the loop"] = integrated_gradients(subject, inputs, baseline)
        wide = None
        if as_if_padded and not truncated:
            wide = padded(subject, inputs, subject.max_length)
            wide_columns = attention(subject, wide)
            wide_baseline = baseline_ids(subject, wide, keep_last=True)
            wide_ig, wide_start, wide_end, _ = integrated_gradients(subject, wide, wide_baseline)
            notes["padded IG against exact length"] = relative(wide_ig[:, :n], ig)
    with precision(subject, False):                        # what PyTorch itself gives in float32
        p32, _ = forward(subject, inputs)
        notes["F"] = float((p32.double() - probability).abs().max())
        notes["attention"] = relative(attention(subject, inputs), columns)
        notes["gradient"] = relative(gradient_at_cut(subject, inputs)[1], gradient)
        notes["gradient_x_input"] = float((gradient_x_input(subject, inputs)[0].double() - gxi).abs().max()) / gxi_scale
        notes["attnlrp"] = relative(attnlrp(subject, inputs)[0], lrp)
        notes["ig"] = relative(integrated_gradients(subject, inputs, baseline, use_captum=False)[0], ig)
    case = {"name": name, **{k: v for k, v in inputs.items()}, "F": probability, "margin": margin, "attention": columns,
            "gradient_x_cut": (gradient * cut).sum(-1)}
    if full_gradient:
        case["gradient"] = gradient
    case["gradient_x_input"] = gxi
    case["gradient_x_input_scale"] = gxi_scale
    case["attnlrp"] = lrp
    if lrp_plain is not None:
        case["attnlrp_plain_tanh"] = lrp_plain
    case["ig"] = {"baseline_ids": baseline, "steps": STEPS, "relevance": ig, "F_start": at_start, "F_end": at_end,
                  "gap": (ig.sum(-1) - (at_end - at_start)).abs()}
    if wide is not None:
        case["as_if_padded"] = {"length": subject.max_length, "attention": wide_columns,
                                "ig": {"baseline_ids": wide_baseline, "relevance": wide_ig, "F_start": wide_start, "F_end": wide_end}}
    return significant_tree(case), notes


def significant_tree(tree):
    if isinstance(tree, dict):
        return {k: significant_tree(v) for k, v in tree.items()}
    return significant(tree)


def cases(subject):
    """Three lengths, a padded batch of two, and an input that fills the model (= was truncated)."""
    rng = np.random.default_rng(20251)
    special = set(subject.ids.values())
    free = [i for i in range(5, 47) if i not in special]

    def sequence(n):
        return [subject.ids["first"], *rng.choice(free, n - 2).tolist(), subject.ids["last"]]
    short, middle, long = sequence(7), sequence(13), sequence(24)
    a, b = sequence(12), sequence(17)
    rows = {"length 7": [short], "length 13": [middle], "length 24": [long],
            "batch of 12 and 17": [a + [subject.ids["pad"]] * 5, b], "full length": [sequence(subject.max_length)]}
    for name, ids in rows.items():
        ids = torch.tensor(ids)
        inputs = {"input_ids": ids}
        if "attention_mask" in subject.inputs:
            inputs["attention_mask"] = (ids != subject.ids["pad"]).long()
        if "token_type_ids" in subject.inputs:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        yield name, inputs
