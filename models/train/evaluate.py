#!/usr/bin/env python3
"""Evaluates a model directory through ONNX Runtime, beside shallow baselines, as Markdown.

`evaluate.py --data FOLDER... --model models/default --splits valid test --baselines FILE`

A function is stripped of comments, tokenised, cut into windows of 510 code tokens that overlap by a quarter, and its
probability is the maximum over its windows. Flagged means probability > the threshold of detector.toml.
"""
import argparse
import json
import os

import numpy as np
import onnxruntime
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from lldata import load_split, strip_comments, windows
from train import Split, auc, load_tokenizer, pad_batch, tokenise


def probabilities(session, split, tokens=8000):
    pieces = []
    for i in range(len(split)):
        code = split.code(i)
        pieces += [(end - start, i, start) for start, end in windows(len(code))]
    pieces.sort()
    best = np.zeros(len(split))
    at = 0
    while at < len(pieces):
        count = 1
        while at + count < len(pieces) and (count + 1) * (pieces[at + count][0] + 2) <= tokens:
            count += 1
        part = pieces[at : at + count]
        ids, mask = pad_batch([split.code(i)[start : start + n] for n, i, start in part])
        logits = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0].astype(np.float64)
        p = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
        for (_, i, _), value in zip(part, p):
            best[i] = max(best[i], value)
        at += count
    return best


def read_threshold(folder):
    for line in open(os.path.join(folder, "detector.toml"), encoding="utf8"):
        if line.startswith("threshold"):
            return float(line.split("=")[1])
    return 0.5


def budget(scores, benign):
    """The threshold above which at most 10% of the benign functions lie."""
    held = np.sort(scores[benign])
    return held[len(held) - int(0.1 * len(held)) - 1]


def figures(split, rows, scores, threshold):
    """One line of the table: `rows` is a mask."""
    y, s = split.target[rows] == 1, scores[rows]
    flagged = s > threshold
    right = (flagged & y).sum()
    precision, recall = right / max(1, flagged.sum()), right / max(1, y.sum())
    f1 = 2 * right / max(1, flagged.sum() + y.sum())
    return [len(s), y.mean(), auc(s[y], s[~y]), like_length(split, rows, scores), average_precision_score(y, s), precision, recall, f1, flagged.mean()]


def like_length(split, rows, scores):
    """ROC-AUC within fifths of length (cut at these rows' own quantiles), weighted by the couples in each: what length alone does not explain."""
    length, y, s = np.diff(split.starts)[rows], split.target[rows] == 1, scores[rows]
    fifth = np.digitize(length, np.quantile(length, [0.2, 0.4, 0.6, 0.8]))
    parts = [(auc(s[y & (fifth == k)], s[~y & (fifth == k)]), (y & (fifth == k)).sum() * (~y & (fifth == k)).sum()) for k in range(5)]
    parts = [p for p in parts if p[1] > 0]
    return np.average([p[0] for p in parts], weights=[p[1] for p in parts]) if parts else 0.5


def paired(split, rows, scores, threshold):
    """P-C both right, P-V both flagged, P-B both cleared, P-R reversed; share ranked right (ties half); the latter for pairs of like length."""
    length = np.diff(split.starts)
    couples = [(v, f) for v, f in split.pairs if rows[v] and rows[f]]
    v = np.array([c[0] for c in couples])
    f = np.array([c[1] for c in couples])
    up, down = scores[v] > threshold, scores[f] > threshold
    rank = (scores[v] > scores[f]) + 0.5 * (scores[v] == scores[f])
    like = np.abs(length[v] - length[f]) <= 0.05 * np.maximum(length[v], length[f])
    return [len(couples), (up & ~down).mean(), (up & down).mean(), (~up & ~down).mean(), (~up & down).mean(), rank.mean(), like.sum(), rank[like].mean()]


def show(cells):
    return "| " + " | ".join(c if isinstance(c, str) else str(int(c)) if isinstance(c, (int, np.integer)) else f"{c:.3f}" for c in cells) + " |"


def baselines(train, splits):
    """Scores of the shallow baselines, trained on the same rows: {name: {split: scores}}."""

    def words(split):
        return [" ".join(map(str, split.code(i))) for i in range(len(split))]

    out = {"length only": {name: np.log(np.diff(s.starts) + 1.0) for name, s in splits.items()}}
    vectorizer = CountVectorizer(ngram_range=(1, 3), token_pattern=r"\S+", binary=True, min_df=5, dtype=np.float32)
    x = vectorizer.fit_transform(words(train))
    for name, keep in (
        ("1–3-grams, all rows", np.ones(len(train), dtype=bool)),
        ("1–3-grams, without fixed versions", (train.target == 1) | train.unpaired),
    ):
        fit = LogisticRegression(C=0.01, max_iter=300, class_weight="balanced", solver="liblinear", random_state=0)
        fit.fit(x[keep], train.target[keep])
        out[name] = {}
        for split_name, split in splits.items():
            out[name][split_name] = fit.decision_function(vectorizer.transform(words(split)))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--splits", nargs="+", default=["valid", "test"])
    parser.add_argument("--baselines", help="compare with shallow baselines; their scores are kept in this JSON file (delete it when data or tokenizer change)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scores", help="also write id, target, probability of every function to this JSON Lines file")
    args = parser.parse_args()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(os.path.join(args.model, "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer = load_tokenizer(os.path.join(args.model, "tokenizer.json"))
    threshold = read_threshold(args.model)
    splits = {}
    for name in dict.fromkeys(["valid", *args.splits]):
        rows = load_split(args.data, name)
        splits[name] = Split(rows, *tokenise(rows, tokenizer))
    scores = {"linelens-default": {name: probabilities(session, split) for name, split in splits.items()}}
    if args.baselines:
        if not os.path.exists(args.baselines):
            rows = load_split(args.data, "train")
            held = baselines(Split(rows, *tokenise(rows, tokenizer)), splits)
            with open(args.baselines, "w") as out:
                json.dump({k: {n: s.tolist() for n, s in v.items()} for k, v in held.items()}, out)
        with open(args.baselines) as held:
            scores.update({k: {n: np.array(s) for n, s in v.items()} for k, v in json.load(held).items()})
    if args.scores:
        with open(args.scores, "w") as out:
            for name, split in splits.items():
                for row, p in zip(split.rows, scores["linelens-default"][name]):
                    out.write(json.dumps({"split": name, "id": row["id"], "target": row["target"], "probability": float(p)}) + "\n")
    print(f"Threshold of the detector: {threshold} (from detector.toml); of each baseline: at most 10% of valid's benign functions flagged, too.\n")
    for name in args.splits:
        split = splits[name]
        parts = {"all": np.ones(len(split), dtype=bool)}
        for source in sorted(set(split.source)):
            parts[source] = split.source == source
        if (split.source == "mined").any():
            parts["mined, fixes left out"] = (split.source == "mined") & ((split.target == 1) | split.unpaired)
        print(f"### {name}\n")
        print("| rows | detector | n | vulnerable | ROC-AUC | of like length | PR-AUC | precision | recall | F1 | flag rate |\n|---|---|---|---|---|---|---|---|---|---|---|")
        for part, rows in parts.items():
            for detector, held in scores.items():
                cut = threshold if detector == "linelens-default" else budget(held["valid"], splits["valid"].target == 0)
                print(show([part, detector, *figures(split, rows, held[name], cut)]))
            share = split.target[rows].mean()
            if share > 0.5:  # the majority class is "vulnerable"
                print(show([part, "majority class", rows.sum(), share, 0.5, 0.5, share, share, 1.0, 2 * share / (1 + share), 1.0]))
            else:
                print(show([part, "majority class", rows.sum(), share, 0.5, 0.5, share, 0.0, 0.0, 0.0, 0.0]))
        print("\n| pairs of | detector | pairs | P-C | P-V | P-B | P-R | ranked right | pairs of like length (5%) | ranked right |\n|---|---|---|---|---|---|---|---|---|---|")
        for part, rows in parts.items():
            if part.endswith("left out"):
                continue
            for detector, held in scores.items():
                cut = threshold if detector == "linelens-default" else budget(held["valid"], splits["valid"].target == 0)
                print(show([part, detector, *paired(split, rows, held[name], cut)]))
        print(flush=True)


if __name__ == "__main__":
    main()
