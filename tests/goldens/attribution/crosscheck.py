"""AttnLRP of `values/` against the authors' own package (lxt), for the architectures that it patches.

    python crosscheck.py

It changes Hugging Face's classes in place, so each architecture runs in a process of its own. Needs lxt==2.1 and torchvision==0.22.1
beside requirements.txt; nothing in `values/` depends on it.
"""
import importlib
import json
import pathlib
import subprocess
import sys

import torch

import reference
import tiny
from attnlrp import Embeddings

VALUES = pathlib.Path(__file__).resolve().parent / "values"
HUGGING_FACE = {"bert": "transformers.models.bert.modeling_bert", "gpt2": "transformers.models.gpt2.modeling_gpt2",
                "qwen2": "transformers.models.qwen2.modeling_qwen2"}


def compare(key):
    from lxt.efficient import monkey_patch
    monkey_patch(importlib.import_module(HUGGING_FACE[key]))
    subject = getattr(tiny, key)()
    values = json.loads((VALUES / f"{key}.json").read_text())
    worst = {}
    for (_, inputs), case in zip(reference.cases(subject), values["cases"]):
        with reference.precision(subject, True), Embeddings(subject.word.weight) as tap:
            margin = reference.margin_of(subject, subject.logits(**inputs))
            gradient, = torch.autograd.grad(margin.sum(), tap.word)
            relevance = (gradient * tap.word).sum(-1).detach()
        for field in ("attnlrp", "attnlrp_plain_tanh"):
            if field in case:
                worst[field] = max(worst.get(field, 0.0), reference.relative(relevance, torch.tensor(case[field], dtype=torch.float64)))
    print(key, {field: f"{value:.1e}" for field, value in worst.items()})


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        compare(sys.argv[1])
    else:
        for key in HUGGING_FACE:
            subprocess.run([sys.executable, __file__, key], check=True)
