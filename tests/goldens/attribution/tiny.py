"""Tiny detectors with seeded weights, one builder an architecture.

A `Subject` is a PyTorch model together with the few things the references need to know about it: how to get
logits and attention maps, which module is the word embedding, which one ends the embeddings block ("cut").
"""
import dataclasses
import zlib
from typing import Callable

import numpy as np
import torch
import transformers
from torch import nn

VOCAB, HIDDEN, FFN, LAYERS, HEADS, POSITIONS = 48, 12, 16, 2, 2, 40
# First token, padding, last token, as each family numbers them.
ROBERTA_IDS = dict(first=0, pad=1, last=2)
BERT_IDS = dict(first=2, pad=0, last=3)
T5_IDS = dict(first=1, pad=0, last=2)
GPT_IDS = dict(first=4, pad=0, last=3)


@dataclasses.dataclass
class Subject:
    name: str
    model: nn.Module
    ids: dict
    max_length: int
    logits: Callable            # (**inputs) -> [batch, labels]
    attentions: Callable        # (**inputs) -> tuple of [batch, heads, query, key]
    word: nn.Module             # word embedding; the encoder's call comes first
    cut: nn.Module              # its (first) output is the output of the embeddings block
    cut_is: str
    head: str = "softmax2"      # "softmax2": two logits; "sigmoid1": one logit
    output: str = "logits"      # what the exported file returns: "logits" or "probability"
    inputs: tuple = ("input_ids", "attention_mask")
    attention_is: str = "encoder self-attention"
    captum: bool = True         # captum can hook the cut (false for T5: the module is shared and called twice)


def seed_weights(model, name, std=0.35, embedding_std=0.6, head_gain=1.0, head_bias=0.0):
    """Overwrites every parameter from (name of the subject, name of the parameter): independent of the order of
    construction and of the PyTorch version, and far from the near-uniform default initialisation."""
    model.eval()
    norms = {id(p) for m in model.modules() if "norm" in type(m).__name__.lower() for p in m.parameters(recurse=False)}
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            rng = np.random.default_rng(zlib.crc32(f"{name}/{key}".encode()))
            noise = torch.from_numpy(rng.standard_normal(tuple(parameter.shape)).astype(np.float32))
            if id(parameter) in norms:
                value = 0.2 * noise if key.endswith("bias") else 1 + 0.25 * noise
            elif id(parameter) in embeddings:
                value = embedding_std * noise
            elif parameter.dim() < 2:
                value = 0.2 * noise
            else:
                value = std * noise
                if key.endswith(("out_proj.weight", "classifier.weight", "score.weight")) and "attention" not in key:
                    value = head_gain * value
            if key.endswith(("out_proj.bias", "classifier.bias")) and "attention" not in key:
                value[-1] += head_bias                      # keeps the probabilities of the cases away from 0 and 1
            parameter.copy_(value)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


def plain(config):
    config.use_cache = False
    return config


def of_hugging_face(name, model, **more):
    """A Hugging Face sequence classifier: its forward is exported as it stands."""
    def logits(**inputs):
        return model(**inputs, return_dict=True).logits

    def attentions(**inputs):
        outputs = model(**inputs, output_attentions=True, return_dict=True)
        return getattr(outputs, "encoder_attentions", None) or outputs.attentions
    return Subject(name=name, model=model, logits=logits, attentions=attentions, max_length=more.pop("max_length", POSITIONS), **more)


def roberta_config(labels=2, attention="eager"):
    return plain(transformers.RobertaConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
        max_position_embeddings=POSITIONS, type_vocab_size=1, num_labels=labels, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, attn_implementation=attention))


def roberta(attention="eager"):
    model = transformers.RobertaForSequenceClassification(roberta_config(attention=attention))
    return of_hugging_face("roberta", seed_weights(model, "roberta", head_gain=2.0, head_bias=1.5), ids=ROBERTA_IDS, max_length=POSITIONS - 2,
                           word=model.roberta.embeddings.word_embeddings, cut=model.roberta.embeddings,
                           cut_is="RobertaEmbeddings (after LayerNorm)")


def rounded_to_half(subject):
    """The weights that a float16 file holds; everything is still computed in full precision."""
    with torch.no_grad():
        for parameter in subject.model.parameters():
            parameter.copy_(parameter.half().float())
    return subject


class Custom(nn.Module):
    """An exported wrapper: `forward` gives what the published model gives, `logits` the value before its last activation."""

    def attentions(self, **inputs):
        raise NotImplementedError


class CodeXGlueDefect(Custom):
    """The published CodeBERT defect detector: a one-label RoBERTa classifier, its probability sigmoid(logit)."""

    def __init__(self, attention="eager"):
        super().__init__()
        self.encoder = transformers.RobertaForSequenceClassification(roberta_config(labels=1, attention=attention))

    def logits(self, input_ids, attention_mask):
        return self.encoder(input_ids, attention_mask=attention_mask)[0]

    def forward(self, input_ids, attention_mask):
        return torch.sigmoid(self.logits(input_ids, attention_mask))

    def attentions(self, **inputs):
        return self.encoder(**inputs, output_attentions=True, return_dict=True).attentions


def codebert(attention="eager"):
    model = seed_weights(CodeXGlueDefect(attention), "codebert", head_gain=2.0)
    return Subject("codebert", model, ROBERTA_IDS, POSITIONS - 2, model.logits, model.attentions,
                   word=model.encoder.roberta.embeddings.word_embeddings, cut=model.encoder.roberta.embeddings,
                   cut_is="RobertaEmbeddings (after LayerNorm)", head="sigmoid1", output="probability")


class LineVulHead(nn.Module):
    """Dense on <s>, tanh, projection to two labels."""

    def __init__(self, hidden):
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.1)
        self.out_proj = nn.Linear(hidden, 2)

    def forward(self, features):
        x = self.dropout(features[:, 0, :])
        return self.out_proj(self.dropout(torch.tanh(self.dense(x))))


class LineVul(Custom):
    """The LineVul detector: RoBERTa without pooler, its own head, the softmax inside the model."""

    def __init__(self, attention="eager"):
        super().__init__()
        self.encoder = transformers.RobertaModel(roberta_config(attention=attention), add_pooling_layer=False)
        self.classifier = LineVulHead(HIDDEN)

    def logits(self, input_ids, attention_mask):
        return self.classifier(self.encoder(input_ids, attention_mask=attention_mask)[0])

    def forward(self, input_ids, attention_mask):
        return torch.softmax(self.logits(input_ids, attention_mask), dim=-1)

    def attentions(self, **inputs):
        return self.encoder(**inputs, output_attentions=True, return_dict=True).attentions


def linevul(attention="eager"):
    model = seed_weights(LineVul(attention), "linevul", head_gain=5.0, head_bias=3.6)
    return Subject("linevul", model, ROBERTA_IDS, POSITIONS - 2, model.logits, model.attentions,
                   word=model.encoder.embeddings.word_embeddings, cut=model.encoder.embeddings,
                   cut_is="RobertaEmbeddings (after LayerNorm)", output="probability")


def t5_config(act, attention="eager", labels=2):
    return plain(transformers.T5Config(
        vocab_size=VOCAB, d_model=HIDDEN, d_kv=HIDDEN // HEADS, d_ff=FFN, num_layers=LAYERS, num_decoder_layers=LAYERS,
        num_heads=HEADS, relative_attention_num_buckets=8, relative_attention_max_distance=20, feed_forward_proj=act,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=0, num_labels=labels,
        attn_implementation=attention))


class CodeT5Defect(Custom):
    """The CodeT5 defect detector: the decoder reads the shifted input; its last hidden state at the last </s> is classified.

    `pick="mask"` selects with a boolean mask, as published (the mask of the inputs is derived inside, only
    `input_ids` is an input); `pick="gather"` says the same with gather, which every exporter can trace, and takes the mask
    as an input.
    """

    def __init__(self, act, pick):
        super().__init__()
        self.encoder = transformers.T5ForConditionalGeneration(t5_config(act))
        self.classifier = nn.Linear(HIDDEN, 2)
        self.pick = pick

    def run(self, input_ids, attention_mask, **more):
        start = torch.full_like(input_ids[:, :1], self.encoder.config.decoder_start_token_id)
        shifted = torch.cat([start, input_ids[:, :-1]], dim=1)
        return self.encoder(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=shifted,
                            decoder_attention_mask=attention_mask, output_hidden_states=True, return_dict=True, **more)

    def logits(self, input_ids, attention_mask=None):
        if attention_mask is None:
            attention_mask = input_ids.ne(0)
        hidden = self.run(input_ids, attention_mask).decoder_hidden_states[-1]
        is_eos = input_ids.eq(self.encoder.config.eos_token_id)
        if self.pick == "mask":
            picked = hidden[is_eos, :].view(hidden.size(0), -1, hidden.size(-1))[:, -1, :]
        else:
            positions = torch.arange(input_ids.size(1), device=input_ids.device)
            last = (positions * is_eos.to(positions.dtype)).argmax(dim=1)
            picked = hidden.gather(1, last[:, None, None].expand(-1, 1, hidden.size(-1)))[:, 0, :]
        return self.classifier(picked)

    def forward(self, input_ids, attention_mask=None):
        return torch.softmax(self.logits(input_ids, attention_mask), dim=-1)

    def attentions(self, input_ids, attention_mask=None):
        if attention_mask is None:
            attention_mask = input_ids.ne(0)
        return self.run(input_ids, attention_mask, output_attentions=True).encoder_attentions


def codet5(act="relu", pick="mask"):
    name = "codet5" if act == "relu" else "codet5gated"
    model = seed_weights(CodeT5Defect(act, pick), name, std=0.3, head_gain=2.0, head_bias=0.5 if act == "relu" else 0.9)
    return Subject(f"{name}-{pick}", model, T5_IDS, POSITIONS, model.logits, model.attentions,
                   word=model.encoder.encoder.embed_tokens, cut=model.encoder.encoder.embed_tokens,
                   cut_is="word embedding of the encoder", output="probability", captum=False,
                   inputs=("input_ids",) if pick == "mask" else ("input_ids", "attention_mask"))


def t5seqcls():
    model = transformers.T5ForSequenceClassification(t5_config("gated-gelu"))
    seed_weights(model, "t5seqcls", std=0.3, head_gain=1.2, head_bias=0.8)
    return of_hugging_face("t5seqcls", model, ids=T5_IDS, word=model.transformer.encoder.embed_tokens,
                           cut=model.transformer.encoder.embed_tokens, cut_is="word embedding of the encoder", captum=False)


def bert(inputs=("input_ids", "attention_mask")):
    model = transformers.BertForSequenceClassification(plain(transformers.BertConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
        max_position_embeddings=POSITIONS, num_labels=2, pad_token_id=0, attn_implementation="eager")))
    return of_hugging_face("bert", seed_weights(model, "bert", head_gain=3.5, head_bias=-1.8), ids=BERT_IDS, inputs=inputs,
                           word=model.bert.embeddings.word_embeddings, cut=model.bert.embeddings,
                           cut_is="BertEmbeddings (after LayerNorm)")


def distilbert():
    model = transformers.DistilBertForSequenceClassification(plain(transformers.DistilBertConfig(
        vocab_size=VOCAB, dim=HIDDEN, n_layers=LAYERS, n_heads=HEADS, hidden_dim=FFN, max_position_embeddings=POSITIONS,
        num_labels=2, pad_token_id=0, attn_implementation="eager")))
    return of_hugging_face("distilbert", seed_weights(model, "distilbert", head_gain=0.8, head_bias=2.4), ids=BERT_IDS,
                           word=model.distilbert.embeddings.word_embeddings, cut=model.distilbert.embeddings,
                           cut_is="Embeddings (after LayerNorm)")


def electra():
    model = transformers.ElectraForSequenceClassification(plain(transformers.ElectraConfig(
        vocab_size=VOCAB, embedding_size=8, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=FFN, max_position_embeddings=POSITIONS, num_labels=2, pad_token_id=0, attn_implementation="eager")))
    return of_hugging_face("electra", seed_weights(model, "electra", head_gain=4.0, head_bias=-8.5), ids=BERT_IDS,
                           word=model.electra.embeddings.word_embeddings, cut=model.electra.embeddings,
                           cut_is="ElectraEmbeddings (after LayerNorm, 8 wide, before the projection to 12)")


def mpnet():
    model = transformers.MPNetForSequenceClassification(plain(transformers.MPNetConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
        max_position_embeddings=POSITIONS, num_labels=2, pad_token_id=1, bos_token_id=0,
        eos_token_id=2, attn_implementation="eager")))
    return of_hugging_face("mpnet", seed_weights(model, "mpnet", head_gain=4.0, head_bias=1.2), ids=ROBERTA_IDS, max_length=POSITIONS - 2,
                           word=model.mpnet.embeddings.word_embeddings, cut=model.mpnet.embeddings,
                           cut_is="MPNetEmbeddings (after LayerNorm)")


def deberta():
    model = transformers.DebertaV2ForSequenceClassification(plain(transformers.DebertaV2Config(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
        max_position_embeddings=POSITIONS, type_vocab_size=0, relative_attention=True, position_biased_input=False,
        pos_att_type=["p2c", "c2p"], position_buckets=8, share_att_key=True, norm_rel_ebd="layer_norm", num_labels=2,
        pad_token_id=0, attn_implementation="eager")))
    return of_hugging_face("deberta", seed_weights(model, "deberta"), ids=BERT_IDS,
                           word=model.deberta.embeddings.word_embeddings, cut=model.deberta.embeddings,
                           cut_is="DebertaV2Embeddings (after LayerNorm and the multiplication with the mask)")


def modernbert():
    model = transformers.ModernBertForSequenceClassification(plain(transformers.ModernBertConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=FFN,
        max_position_embeddings=POSITIONS, local_attention=8, global_attn_every_n_layers=2, num_labels=2, pad_token_id=0,
        bos_token_id=2, cls_token_id=2, eos_token_id=3, sep_token_id=3, reference_compile=False, attn_implementation="eager")))
    return of_hugging_face("modernbert", seed_weights(model, "modernbert", head_gain=1.5, head_bias=0.8), ids=BERT_IDS,
                           word=model.model.embeddings.tok_embeddings, cut=model.model.embeddings,
                           cut_is="ModernBertEmbeddings (after LayerNorm)")


def gpt2():
    model = transformers.GPT2ForSequenceClassification(plain(transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=HIDDEN, n_layer=LAYERS, n_head=HEADS, n_inner=FFN, n_positions=POSITIONS, num_labels=2,
        pad_token_id=0, bos_token_id=4, eos_token_id=3, attn_implementation="eager")))
    return of_hugging_face("gpt2", seed_weights(model, "gpt2", head_gain=0.9), ids=GPT_IDS, word=model.transformer.wte,
                           cut=model.transformer.drop, cut_is="word + position embedding",
                           attention_is="causal self-attention of the decoder")


def qwen2():
    model = transformers.Qwen2ForSequenceClassification(plain(transformers.Qwen2Config(
        vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=1,
        intermediate_size=FFN, max_position_embeddings=POSITIONS, num_labels=2, pad_token_id=0, bos_token_id=4, eos_token_id=3,
        attn_implementation="eager")))
    return of_hugging_face("qwen2", seed_weights(model, "qwen2", head_gain=1.0), ids=GPT_IDS, word=model.model.embed_tokens,
                           cut=model.model.embed_tokens, cut_is="word embedding",
                           attention_is="causal self-attention of the decoder")
