"""AttnLRP (Achtibat et al., ICML 2024) as gradient x input, in plain PyTorch.

No model is patched line by line: a `TorchFunctionMode` sees every operation of the forward pass and swaps in the backward
rule where AttnLRP differs from the ordinary gradient. Parameters must not require gradients; every embedding look-up is made
a leaf that does, so "requires grad" means "reachable from any embedding", which is what "input-dependent" means in the rules:

- element-wise activation f: the gradient is f(x) / (x + 1e-10)             (identity rule)
- LayerNorm, RMSNorm: the normaliser (standard deviation, root mean square) is held constant
- product of two input-dependent tensors: each factor's gradient is halved  (uniform rule)
- softmax and everything linear: the ordinary gradient

Non-linear operations that have no rule raise instead of falling back to the ordinary gradient.
"""
import contextlib

import torch
from torch.overrides import TorchFunctionMode

EPSILON = 1e-10
ACTIVATIONS = {"gelu", "relu", "silu", "tanh", "sigmoid", "relu_"}
PRODUCTS = {"matmul", "__matmul__", "bmm", "mul", "__mul__", "__rmul__", "multiply"}
REFUSED = {"exp", "log", "erf", "sqrt", "reciprocal", "softplus", "einsum", "baddbmm", "scaled_dot_product_attention",
           "__imul__", "mul_", "cos", "sin", "clamp", "abs", "maximum", "max"}


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, function):
        y = function(x.detach())
        ctx.save_for_backward(y / (x.detach() + EPSILON))
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


class Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / 2


def variable(x):
    return isinstance(x, torch.Tensor) and x.requires_grad


class Embeddings(TorchFunctionMode):
    """Makes every embedding look-up a leaf; `word` holds the first look-up in the table `weight`."""

    def __init__(self, weight):
        super().__init__()
        self.weight, self.word = weight, None

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if getattr(function, "__name__", "") != "embedding":
            return result
        if any(isinstance(a, torch.Tensor) and a.requires_grad for a in args):
            return result
        leaf = result.detach().requires_grad_()
        table = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
        if table is self.weight and self.word is None:
            self.word = leaf
        return leaf.clone()


class AttnLrp(TorchFunctionMode):
    def __init__(self, tanh_rule=True):
        super().__init__()
        self.activations = ACTIVATIONS if tanh_rule else ACTIVATIONS - {"tanh"}
        self.tanh_seen = False

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "embedding" or not any(map(variable, list(args) + list(kwargs.values()))):
            return function(*args, **kwargs)
        if name == "tanh":
            self.tanh_seen = True
        if name in self.activations:
            rest = {k: v for k, v in kwargs.items() if k != "inplace"}
            return Identity.apply(args[0], lambda x: function(x, **rest))
        if name in PRODUCTS and variable(args[0]) and variable(args[1]):
            return Halve.apply(function(*args, **kwargs))
        if name == "layer_norm":
            return self.layer_norm(*args, **kwargs)
        if name == "rsqrt":
            return function(args[0].detach())
        if name == "addmm" and variable(args[1]) and variable(args[2]):
            raise NotImplementedError("no AttnLRP rule for addmm")
        if name in REFUSED or name in ("div", "__truediv__") and variable(args[1]):
            raise NotImplementedError(f"no AttnLRP rule for {name}")
        return function(*args, **kwargs)

    @staticmethod
    def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        assert len(normalized_shape) == 1
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.detach().pow(2).mean(-1, keepdim=True) + eps).sqrt()
        y = centred / deviation
        y = y if weight is None else y * weight
        return y if bias is None else y + bias


@contextlib.contextmanager
def whole_activations(model):
    """Activations that Hugging Face writes out in elementary operations (gelu_new) count as one function."""
    changed = [m for m in model.modules() if type(m).__name__ in ("NewGELUActivation", "QuickGELUActivation")]
    for module in changed:
        module.forward = lambda x, f=type(module).forward, m=module: Identity.apply(x, lambda v: f(m, v)) if x.requires_grad else f(m, x)
    try:
        yield
    finally:
        for module in changed:
            del module.forward
