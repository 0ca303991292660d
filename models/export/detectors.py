"""The detectors that can be exported: what their checkpoints hold, how their verdict comes about, and how their input was prepared."""
import dataclasses
import re
from typing import Callable

import torch
import transformers
from torch import nn

from checkpoint import Refused

# Buffers that checkpoints of older transformers hold and newer models compute.
POSITIONS = re.compile(r"(^|\.)(position_ids|token_type_ids)$")
# More than any classifier has; transformers builds each at once, whatever the checkpoint holds.
MOST = {"layers": 1000, "labels": 10_000}


@dataclasses.dataclass(frozen=True)
class Kind:
    title: str
    pooling: str                    # for people: what the verdict is taken from
    model_types: tuple              # of config.json; empty: any
    build: Callable                 # config → module (input_ids, attention_mask) → logits
    unused: tuple = ()              # patterns of tensors that the published model holds and does not use
    labels: int = 0                 # 0: as config.json says
    normalize: str = "none"
    long: str = "truncate"
    max_tokens: int = 0             # 0: as the model's files say
    threshold: float = 0.5
    roberta_tokenizer: bool = True  # byte-level BPE, whatever config.json's model type suggests
    base: str = ""                  # the pretrained model whose configuration and tokenizer it was trained with


class LineVul(nn.Module):
    """Fu and Tantithamthavorn, MSR 2022: RoBERTa without its pooler, a head of two logits on <s>.

    The published class derives from RobertaForSequenceClassification and keeps another one as `encoder`. Its own `roberta.*`
    and the encoder's one-label `encoder.classifier.*` are in every checkpoint and never used.
    """

    def __init__(self, config):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.roberta = transformers.RobertaModel(config, add_pooling_layer=False)
        self.classifier = nn.Module()
        self.classifier.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier.out_proj = nn.Linear(config.hidden_size, 2)

    def forward(self, input_ids, attention_mask):
        first = self.encoder.roberta(input_ids, attention_mask=attention_mask, return_dict=True).last_hidden_state[:, 0, :]
        return self.classifier.out_proj(torch.tanh(self.classifier.dense(first)))


class CodeXGlue(nn.Module):
    """Lu et al., NeurIPS 2021 (CodeXGLUE), defect detection: a RoBERTa classifier with one logit; its probability is the sigmoid."""

    def __init__(self, config):
        super().__init__()
        config.num_labels = 1
        self.encoder = transformers.RobertaForSequenceClassification(config)

    def forward(self, input_ids, attention_mask):
        return self.encoder(input_ids, attention_mask=attention_mask, return_dict=True).logits


class CodeT5(nn.Module):
    """Wang et al., EMNLP 2021, defect detection: the decoder reads the function shifted by one; its last hidden state at the
    last </s> gives two logits. The published code picks it with a boolean mask; gather gives the same for any batch."""

    def __init__(self, config):
        super().__init__()
        self.encoder = transformers.T5Model(config)
        self.classifier = nn.Linear(config.d_model, 2)
        self.start, self.end = config.decoder_start_token_id, config.eos_token_id

    def forward(self, input_ids, attention_mask):
        start = torch.full_like(input_ids[:, :1], self.start)
        shifted = torch.cat([start, input_ids[:, :-1]], dim=1)
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=shifted,
                              decoder_attention_mask=attention_mask, return_dict=True).last_hidden_state
        places = torch.arange(input_ids.size(1), device=input_ids.device)
        last = (places * input_ids.eq(self.end).to(places.dtype)).argmax(dim=1)
        return self.classifier(hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.size(-1)))[:, 0, :])


class Auto(nn.Module):
    """Any AutoModelForSequenceClassification."""

    def __init__(self, config):
        super().__init__()
        self.model = transformers.AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).logits


KINDS = {
    "linevul": Kind(
        title="LineVul (Fu and Tantithamthavorn, MSR 2022)", pooling="<s>: dense, tanh, two logits, softmax", model_types=("roberta",),
        build=LineVul, unused=(r"roberta\.", r"encoder\.classifier\.", r"encoder\.roberta\.pooler\."), labels=2, max_tokens=512,
        base="microsoft/codebert-base"),
    "codexglue": Kind(
        title="CodeXGLUE defect detection, CodeBERT (Lu et al., NeurIPS 2021)", pooling="<s>: dense, tanh, one logit, sigmoid",
        model_types=("roberta",), build=CodeXGlue, unused=(r"encoder\.roberta\.pooler\.",), labels=1, normalize="collapse-whitespace",
        max_tokens=400, base="microsoft/codebert-base"),
    "codet5": Kind(
        title="CodeT5 defect detection (Wang et al., EMNLP 2021)", pooling="the decoder's last state at the last </s>: two logits, softmax",
        model_types=("t5",), build=CodeT5, unused=(r"encoder\.lm_head\.",), labels=2, normalize="collapse-whitespace", max_tokens=512,
        base="Salesforce/codet5-base"),
    "auto": Kind(
        title="AutoModelForSequenceClassification", pooling="as the architecture does", model_types=(), build=Auto, long="window",
        roberta_tokenizer=False, base="the model"),
}


def config_of(path, fields, kind):
    """The configuration of transformers; nothing of the folder is imported."""
    model_type = fields.get("model_type")
    known = kind.model_types or transformers.CONFIG_MAPPING
    if not isinstance(model_type, str) or model_type not in known:
        wanted = " or ".join(kind.model_types) or "one that transformers knows"
        if not kind.model_types and isinstance(fields.get("auto_map"), dict):
            raise Refused(f"{path}: model_type is {model_type!r} with code of its own, which is not run; export such a model with its own tools")
        raise Refused(f"{path}: model_type: expected {wanted}, found {model_type!r}; name the folder of {kind.base} with --base")
    if fields.get("problem_type") == "multi_label_classification":
        raise Refused(f"{path}: problem_type: expected single_label_classification, found multi_label_classification: its logits do not compete")
    for name, value in fields.items():
        most = MOST.get("labels" if "label" in name else "layers" if "layer" in name else None)
        if most and isinstance(value, int) and value > most:
            raise Refused(f"{path}: {name}: expected at most {most}, found {value}; copy the file again")
    left_out = ("model_type", "auto_map", "torch_dtype", "attn_implementation", "_attn_implementation", "transformers_version", "quantization_config")
    fields = {name: value for name, value in fields.items() if name not in left_out}
    try:
        # Written out, the attention of each layer stays visible in the graph.
        config = transformers.AutoConfig.for_model(model_type, attn_implementation="eager", **fields)
    # Configurations check themselves, each in its own way.
    except Exception as error:
        raise Refused(f"{path}: {error}; copy the file again") from None
    config.use_cache = False
    if kind is KINDS["auto"] and type(config) not in transformers.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING:
        raise Refused(f"{path}: transformers has no sequence classifier of model_type {model_type!r}")
    return config


def prepared(kind, tensors):
    """(tensors that the module has, names of those left out)"""
    unused = [re.compile(pattern) for pattern in kind.unused]
    kept, left = {}, []
    for name, tensor in tensors.items():
        if POSITIONS.search(name) or any(pattern.match(name) for pattern in unused):
            left.append(name)
        else:
            # Very old checkpoints call the two tensors of a LayerNorm so.
            name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
            kept[re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)] = tensor
    if kind is KINDS["auto"]:
        kept = {f"model.{name}": tensor for name, tensor in kept.items()}
    return kept, left


def looks_like(tensors):
    """Which kind the names of the tensors suggest."""
    starts = lambda prefix: any(name.startswith(prefix) for name in tensors)
    if starts("encoder.decoder."):
        return "codet5"
    if starts("encoder.roberta."):
        return "linevul" if starts("classifier.") else "codexglue"
    return "auto"
