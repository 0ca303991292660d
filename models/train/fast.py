"""The classifier's training pass, several times faster on a CPU than the library's: the same parameters, the same function.

Matrix products run in bfloat16 (AMX or AVX-512 where the processor has it) with float32 master weights, and the last layer is computed
for `<s>` only, since the classification head reads nothing else. Evaluation and export use the library's own float32 model.
"""
import torch
from torch.nn import functional


def margins_of(model, ids, mask, dtype=torch.bfloat16):
    """z1 - z0 of each row of `ids` (int64, rows x tokens; `mask` 1 where a token is real), differentiable."""
    x, head = hidden_of(model, ids, mask, dtype)[:, 0], model.classifier
    logits = head.out_proj(torch.tanh(head.dense(x.float())))
    return logits[:, 1] - logits[:, 0]


def hidden_of(model, ids, mask, dtype=torch.bfloat16, first=True):
    """The last layer's output, of `<s>` only (`first`) or of all tokens."""
    roberta, config = model.roberta, model.config
    embeddings = roberta.embeddings
    heads = config.num_attention_heads
    rows, length = ids.shape
    positions = torch.where(mask.bool(), torch.arange(length)[None] + embeddings.padding_idx + 1, embeddings.padding_idx)
    x = embeddings.word_embeddings(ids) + embeddings.position_embeddings(positions) + embeddings.token_type_embeddings.weight[0]
    x = layer_norm(embeddings.LayerNorm, x).to(dtype)
    keep = None if bool(mask.all()) else mask.bool()[:, None, None, :]
    layers = roberta.encoder.layer
    for number, layer in enumerate(layers):
        attention = layer.attention.self
        last = first and number == len(layers) - 1
        read = x[:, :1] if last else x
        split = lambda t: t.unflatten(-1, (heads, -1)).transpose(1, 2)
        q, k, v = (split(linear(part, source)) for part, source in ((attention.query, read), (attention.key, x), (attention.value, x)))
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=keep).transpose(1, 2).flatten(2)
        x = layer_norm(layer.attention.output.LayerNorm, linear(layer.attention.output.dense, mixed) + read)
        inner = functional.gelu(linear(layer.intermediate.dense, x))
        x = layer_norm(layer.output.LayerNorm, linear(layer.output.dense, inner) + x)
    return x


def linear(module, x):
    return functional.linear(x, module.weight.to(x.dtype), module.bias.to(x.dtype))


def layer_norm(module, x):
    return functional.layer_norm(x, module.normalized_shape, module.weight.to(x.dtype), module.bias.to(x.dtype), module.eps)
