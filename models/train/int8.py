#!/usr/bin/env python3
"""Measures an int8 variant of a model against the model itself, as Markdown: `int8.py --data FOLDER... --model models/default --out FILE.onnx`

Dynamic quantisation of the matrix products' weights, one scale a column. It is worth shipping if it is faster and loses no more
than 0.005 of ROC-AUC on valid's mined functions (against unpaired benign ones); the last line says whether it is.
"""
import argparse
import os
import time

import numpy as np
from onnxruntime.quantization import QuantType, quantize_dynamic

from evaluate import open_session, probabilities
from lldata import MASK, Split, load_split, load_tokenizer, pad, tokenise
from measures import auc, ranked_right

ALLOWED_LOSS = 0.005


def milliseconds(session, vocabulary, tokens=512, runs=50):
    """Median and tenth percentile of a forward of one function, alternating inputs, after three runs to warm up."""
    rng = np.random.default_rng(0)
    taken = []
    for run in range(runs + 3):
        ids, mask = pad([rng.integers(MASK + 1, vocabulary, tokens - 2)])
        begin = time.perf_counter()
        session.run(None, {"input_ids": ids, "attention_mask": mask})
        taken.append((time.perf_counter() - begin) * 1000)
    return np.median(taken[3:]), np.quantile(taken[3:], 0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, help="where the variant is written")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    plain = os.path.join(args.model, "model.onnx")
    quantize_dynamic(plain, args.out, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul", "Gemm"])
    tokenizer = load_tokenizer(os.path.join(args.model, "tokenizer.json"))
    rows = [r for r in load_split(args.data, "valid") if r["source"] == "mined"]
    valid = Split(rows, *tokenise(rows, tokenizer))
    vulnerable, benign = valid.target == 1, (valid.target == 0) & valid.unpaired
    v, f = np.array(valid.pairs).T
    print("| model | MB | " + " | ".join(f"ms at 512 tokens, {n} threads (10th percentile)" for n in args.threads) + " | ROC-AUC | ranked right |")
    print("|" + "---|" * (len(args.threads) + 4))
    areas, speeds = [], []
    for name, path in (("float32", plain), ("int8", args.out)):
        times = [milliseconds(open_session(path, n), tokenizer.get_vocab_size()) for n in args.threads]
        p = probabilities(open_session(path, max(args.threads)), valid)
        areas.append(auc(p[vulnerable], p[benign]))
        speeds.append([t[0] for t in times])
        spans = " | ".join(f"{a:.1f} ({b:.1f})" for a, b in times)
        print(f"| {name} | {os.path.getsize(path) / 1e6:.1f} | {spans} | {areas[-1]:.4f} | {ranked_right(p[v], p[f]).mean():.4f} |", flush=True)
    faster = all(b < a for a, b in zip(*speeds))
    loss = areas[0] - areas[1]
    verdict = "worth shipping" if faster and loss <= ALLOWED_LOSS else "not worth shipping"
    print(f"\n{verdict}: {'faster' if faster else 'not faster at every number of threads'}, ROC-AUC {'lost' if loss > 0 else 'gained'} {abs(loss):.4f}")


if __name__ == "__main__":
    main()
