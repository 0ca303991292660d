#!/usr/bin/env python3
"""Writes tests/goldens/default_attention.json: what PyTorch says of the trained checkpoint on the functions there.

`goldens.py --run models/train/work/seed-0 --model models/default --goldens tests/goldens`

Eager attention, float32, batch 1, no padding. The golden is tied to model.onnx by its sha256: run again whenever the model changes.
"""
import argparse
import hashlib
import json
import os

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification

from lldata import WINDOW, load_tokenizer, strip_comments

FINGERPRINT = 'if (len > sizeof(buf)) {\n\t\treturn -EINVAL; \r\n} "ü€🙂" x->y[0x1f]  \t\n\n a_b'
# With encode_special_tokens (as here) these are characters of the code; without it they would become special tokens.
SPECIAL_TEXT = "std::vector<s> v; // </s><mask>"


def nine(values):
    return [float(f"{v:.9g}") for v in values]


def byte_offsets(text, offsets):
    """Character offsets (the Python binding's) to UTF-8 byte offsets."""
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.encode()))
    return [[at[a], at[b]] for a, b in offsets]


def sha256(path):
    return hashlib.sha256(open(path, "rb").read()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True, help="folder of final.pt")
    parser.add_argument("--model", required=True)
    parser.add_argument("--goldens", required=True)
    args = parser.parse_args()
    # As everyone loads it: special tokens in the text are not looked for (they are text).
    tokenizer = load_tokenizer(os.path.join(args.model, "tokenizer.json"))
    config = RobertaConfig.from_pretrained(args.model)
    config._attn_implementation = "eager"
    model = RobertaForSequenceClassification(config)
    model.load_state_dict(torch.load(os.path.join(args.run, "final.pt"))["model"])
    model.eval()
    functions = []
    for name in sorted(n for n in os.listdir(args.goldens) if n.endswith(".c")):
        text = strip_comments(open(os.path.join(args.goldens, name), "rb").read().decode())
        encoding = tokenizer.encode(text)
        assert len(encoding.ids) - 2 <= WINDOW, name
        ids = torch.tensor([encoding.ids])
        with torch.no_grad():
            out = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_attentions=True)
        logits = out.logits[0]
        functions.append(
            {
                "file": name,
                "normalized_bytes": len(text.encode()),
                "normalized_sha256": hashlib.sha256(text.encode()).hexdigest(),
                "ids": encoding.ids,
                "offsets": byte_offsets(text, encoding.offsets),
                "special": encoding.special_tokens_mask,
                "logits": nine(logits.tolist()),
                "probability": nine([torch.softmax(logits, 0)[1].item()])[0],
                "attention_received": [nine(a[0].sum(dim=(0, 1)).tolist()) for a in out.attentions],
            }
        )
        print(name, len(encoding.ids), "tokens, probability", functions[-1]["probability"])
    golden = {
        "what": "PyTorch eager float32, batch 1, no padding; offsets are bytes in the comment-stripped text; attention_received[layer][token] = sum over heads and queries",
        "model_sha256": sha256(os.path.join(args.model, "model.onnx")),
        "tokenizer_sha256": sha256(os.path.join(args.model, "tokenizer.json")),
        "positive_index": 1,
        "fingerprint": {"text": FINGERPRINT, "ids": tokenizer.encode(FINGERPRINT).ids},
        "special_tokens_as_text": {"text": SPECIAL_TEXT, "ids": tokenizer.encode(SPECIAL_TEXT).ids},
        "functions": functions,
    }
    with open(os.path.join(args.goldens, "default_attention.json"), "w") as out:
        out.write(json.dumps(golden, ensure_ascii=True, separators=(", ", ": ")).replace('{"file"', '\n{"file"') + "\n")


if __name__ == "__main__":
    main()
