#!/usr/bin/env python3
"""Evaluates model directories through ONNX Runtime, beside shallow baselines, as Markdown: the tables of MODEL_CARD.md.

`evaluate.py --data FOLDER... --model models/default --seeds OTHER... --splits valid test --baselines FILE`

A function is stripped of comments, tokenised, cut into windows of 510 code tokens that overlap by a quarter, and its
probability is the maximum over its windows. Flagged means probability > the threshold of detector.toml. `--seeds` names
models of the same recipe that were fine-tuned from other seeds: a row more gives the mean and the standard deviation over all of them.
"""
import argparse
import hashlib
import json
import os
import sys
import tomllib

import numpy as np
import onnxruntime

from lldata import Split, load_split, load_tokenizer, pad, tokenise, window_batches
from measures import auc, auc_of_like_length, average_precision, budget, calibration_error, of_like_length, ranked_right

NAME = "linelens-default"
ROWS = ["n", "vulnerable", "ROC-AUC", "of like length", "PR-AUC", "precision", "recall", "F1", "flag rate", "ECE"]
PAIRS = ["pairs", "P-C", "P-V", "P-B", "P-R", "ranked right", "pairs of like length (5%)", "ranked right"]


def open_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def probabilities(session, split):
    best = np.zeros(len(split))
    for part in window_batches(split, range(len(split))):
        ids, mask = pad([code for _, code in part])
        logits = session.run(None, {"input_ids": ids, "attention_mask": mask})[0].astype(np.float64)
        np.maximum.at(best, [i for i, _ in part], 1 / (1 + np.exp(logits[:, 0] - logits[:, 1])))
    return best


def read_threshold(folder):
    with open(os.path.join(folder, "detector.toml"), "rb") as file:
        return float(tomllib.load(file)["threshold"])


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def figures(split, rows, scores, threshold, calibrated=False):
    """The cells of ROWS; `rows` is a mask. None where the rows do not define a figure."""
    y, s = split.target[rows] == 1, scores[rows]
    flagged = s > threshold
    right = (flagged & y).sum()
    precision, recall = right / max(1, flagged.sum()), right / max(1, y.sum())
    f1 = 2 * right / max(1, flagged.sum() + y.sum())
    both = 0 < y.sum() < len(y)
    areas = [auc(s[y], s[~y]), auc_of_like_length(split.length[rows], y, s), average_precision(y, s)] if both else [None] * 3
    return [len(s), y.mean(), *areas, precision, recall, f1, flagged.mean(), calibration_error(y, s) if calibrated else None]


def paired(split, rows, scores, threshold):
    """The cells of PAIRS: P-C both right, P-V both flagged, P-B both cleared, P-R reversed; None without pairs."""
    couples = np.array([(v, f) for v, f in split.pairs if rows[v] and rows[f]])
    if not len(couples):
        return None
    v, f = couples.T
    up, down = scores[v] > threshold, scores[f] > threshold
    rank = ranked_right(scores[v], scores[f])
    like = of_like_length(split.length[v], split.length[f])
    shares = [(up & ~down).mean(), (up & down).mean(), (~up & ~down).mean(), (~up & down).mean(), rank.mean()]
    return [len(couples), *shares, like.sum(), rank[like].mean() if like.any() else None]


def cell(value):
    if value is None:
        return "–"
    return value if isinstance(value, str) else str(int(value)) if isinstance(value, (int, np.integer)) else f"{value:.3f}"


def show(cells):
    return "| " + " | ".join(cell(c) for c in cells) + " |"


def mean_and_deviation(lines):
    """One line of several: mean ± sample standard deviation; what is the same everywhere stays as it is."""
    out = []
    for values in zip(*lines):
        same = values[0] is None or isinstance(values[0], (int, np.integer)) or len(set(values)) == 1
        out.append(values[0] if same else f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}")
    return out


def baselines(train, splits):
    """Scores of the shallow baselines, trained on the same rows: {name: {split: scores}}."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    def words(split):
        return [" ".join(map(str, split.code(i))) for i in range(len(split))]

    out = {"length only": {name: np.log(s.length + 1.0) for name, s in splits.items()}}
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


def kept_baselines(path, data, tokenizer, tokenizer_sha256, splits):
    """The baselines' scores, kept in a JSON file that says which tokenizer and functions they belong to."""
    key = {"tokenizer": tokenizer_sha256, "functions": {name: hashlib.sha256("\n".join(r["id"] for r in s.rows).encode()).hexdigest() for name, s in splits.items()}}
    if os.path.exists(path):
        with open(path) as file:
            held = json.load(file)
        if held.get("of") == key:
            return {k: {n: np.array(s) for n, s in v.items()} for k, v in held["scores"].items()}
    rows = load_split(data, "train")
    scores = baselines(Split(rows, *tokenise(rows, tokenizer)), splits)
    with open(path, "w") as out:
        json.dump({"of": key, "scores": {k: {n: s.tolist() for n, s in v.items()} for k, v in scores.items()}}, out)
    return scores


def parts_of(split):
    parts = {"all": np.ones(len(split), dtype=bool)}
    for source in sorted(set(split.source)):
        parts[source] = split.source == source
    if (split.source == "mined").any():
        parts["mined, fixes left out"] = (split.source == "mined") & ((split.target == 1) | split.unpaired)
    return parts


def table(first, columns, split, detectors, line):
    """One row for each part of the split and each detector; `line(mask, scores, threshold, calibrated)` gives its cells."""
    out = [show([first, "detector", *columns]), "|" + "---|" * (len(columns) + 2)]
    for part, rows in parts_of(split).items():
        for name, models in detectors.items():
            lines = [line(rows, scores, threshold, calibrated) for scores, threshold, calibrated in models]
            if lines[0] is not None:
                out.append(show([part, name, *lines[0]]))
                if len(lines) > 1:
                    out.append(show([part, f"{name}, mean ± sd of {len(lines)} seeds", *mean_and_deviation(lines)]))
        if columns is ROWS:  # what the more frequent answer alone reaches
            share = split.target[rows].mean()
            always = [share, share, 1.0, 2 * share / (1 + share), 1.0] if share > 0.5 else [share, 0.0, 0.0, 0.0, 0.0]
            out.append(show([part, "majority class", int(rows.sum()), share, 0.5, 0.5, *always, None]))
    return "\n".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--seeds", nargs="*", default=[], help="further model directories of the same recipe, other fine-tuning seeds")
    parser.add_argument("--splits", nargs="+", default=["valid", "test"])
    parser.add_argument("--baselines", help="compare with shallow baselines; their scores are kept in this JSON file")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scores", help="also write id, target, probability of every function to this JSON Lines file")
    args = parser.parse_args()
    folders = [args.model, *args.seeds]
    tokenizers = {sha256(os.path.join(folder, "tokenizer.json")) for folder in folders}
    if len(tokenizers) > 1:
        sys.exit("the models have different tokenizers: --seeds is for models of one recipe that differ in the seed of the fine-tuning")
    tokenizer = load_tokenizer(os.path.join(args.model, "tokenizer.json"))
    splits = {}
    for name in dict.fromkeys(["valid", *args.splits]):
        rows = load_split(args.data, name)
        splits[name] = Split(rows, *tokenise(rows, tokenizer))
    sessions = [open_session(os.path.join(folder, "model.onnx"), args.threads) for folder in folders]
    thresholds = [read_threshold(folder) for folder in folders]
    scores = {name: [probabilities(session, split) for session in sessions] for name, split in splits.items()}
    shallow = kept_baselines(args.baselines, args.data, tokenizer, *tokenizers, splits) if args.baselines else {}
    if args.scores:
        with open(args.scores, "w") as out:
            for name, split in splits.items():
                for row, p in zip(split.rows, scores[name][0]):
                    out.write(json.dumps({"split": name, "id": row["id"], "target": row["target"], "probability": float(p)}) + "\n")
    print(f"Model {sha256(os.path.join(args.model, 'model.onnx'))}.")
    print(f"Threshold of the detector: {thresholds[0]} (from detector.toml); of each baseline: at most 10% of valid's benign functions flagged, too.")
    benign = splits["valid"].target == 0
    for name in args.splits:
        split = splits[name]
        detectors = {NAME: [(s, t, True) for s, t in zip(scores[name], thresholds)]}
        detectors |= {k: [(held[name], budget(held["valid"][benign]), False)] for k, held in shallow.items()}
        print(f"\n### {name}\n")
        print(table("rows", ROWS, split, detectors, lambda *given: figures(split, *given)))
        print()
        print(table("pairs of", PAIRS, split, detectors, lambda rows, s, t, _: paired(split, rows, s, t)))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
