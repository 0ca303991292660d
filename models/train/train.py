#!/usr/bin/env python3
"""Trains linelens' built-in detector: `train.py --data FOLDER... --work DIR --out models/default`.

Stages, each skipped when its result is in --work already (an interrupted one resumes at its checkpoint):
  tokenizer  byte-level BPE on the training functions, comments stripped        -> tokenizer.json
  tokens     token ids of every split                                           -> tokens-<split>.npz
  embed      word vectors: PPMI of neighbouring tokens, truncated SVD           -> embeddings.npy
  pretrain   masked-language modelling on the training functions (optional)     -> pretrained.pt
  classify   classification + pairwise ranking, chosen on valid                 -> seed-N/best.pt
  calibrate  temperature and bias on valid, folded into the classifier          -> seed-N/final.pt
  export     config.json, tokenizer.json, model.onnx, detector.toml             -> --out
"""
import argparse
import json
import math
import os
import shutil
import signal
import sys
import time

import numpy as np
import torch
from torch.nn import functional

from fast import hidden_of, margins_of
from lldata import BOS, EOS, MASK, PAD, SPECIAL, WINDOW, Split, group_sizes, load_split, load_tokenizer, pad, strip_comments, tokenise, window_batches
from measures import auc, auc_of_like_length, budget, calibration_error, of_like_length, ranked_right

SEED = 20261130
# Parts of identifiers (an underscore stays with the part behind it), numbers, runs of punctuation
PIECES = r"_*\p{Lu}*\p{Ll}+|_*\p{Lu}+|\p{N}[\p{L}\p{N}]*|_+|[^\s\p{L}\p{N}_]+|\p{L}"


STOPPING = []  # signals received: the step at hand is finished, the state saved, and the program ends


def ask_to_stop(number, _):
    if STOPPING:  # asked twice: at once
        raise KeyboardInterrupt
    STOPPING.append(number)


def stop_if_asked(step):
    if STOPPING:
        sys.exit(f"stopped behind step {step}; the same command goes on from there")


def log(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


# ---------------------------------------------------------------- tokenizer


def train_tokenizer(rows, vocabulary):
    """Byte-level BPE of parts of identifiers, learned from the share of projects that use a part, not from how often.

    Project names and house styles then get no tokens of their own; whitespace gets none at all (layout is a project's, too).
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\s+"), "removed"),
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=4,
        max_token_length=24,
        special_tokens=[AddedToken(s, lstrip=s == "<mask>", special=True, normalized=False) for s in SPECIAL],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    pieces = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\s+"), "removed"), pre_tokenizers.Split(Regex(PIECES), "isolated")])
    used = {}
    for row in rows:
        of_project = used.setdefault(row.get("project") or row["source"], set())
        of_project.update(piece for piece, _ in pieces.pre_tokenize_str(strip_comments(row["func"])))
    tokenizer.train_from_iterator(("\n".join(sorted(of_project)) for of_project in used.values()), trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", EOS), ("<s>", BOS), trim_offsets=False, add_prefix_space=False)
    return tokenizer


# ---------------------------------------------------------------- tokens


def load_tokens(args, split):
    rows = load_split(args.data, split)
    path = os.path.join(args.work, f"tokens-{split}.npz")
    if os.path.exists(path):
        held = np.load(path)
        if len(held["starts"]) == len(rows) + 1:
            return Split(rows, held["ids"], held["starts"])
    ids, starts = tokenise(rows, load_tokenizer(os.path.join(args.work, "tokenizer.json")))
    np.savez(path, ids=ids, starts=starts)
    return Split(rows, ids, starts)


# ---------------------------------------------------------------- word vectors


def word_vectors(split, vocabulary, size, reach=5):
    """Left singular vectors of the positive pointwise mutual information of tokens at most `reach` apart."""
    from scipy.sparse import coo_matrix
    from sklearn.utils.extmath import randomized_svd

    ids = split.ids.astype(np.int64)
    owner = np.repeat(np.arange(len(split)), np.diff(split.starts))
    counts = None
    for distance in range(1, reach + 1):
        same = owner[:-distance] == owner[distance:]
        left, right = ids[:-distance][same], ids[distance:][same]
        weight = np.full(len(left), 1.0 / distance)
        part = coo_matrix((weight, (left, right)), shape=(vocabulary, vocabulary)).tocsr()
        counts = part if counts is None else counts + part
    counts = (counts + counts.T).tocoo()
    total = counts.sum()
    row = np.asarray(counts.tocsr().sum(1)).ravel()
    context = row**0.75
    context = context / context.sum()
    mutual = np.log(counts.data / (row[counts.row] * context[counts.col]))
    keep = mutual > 0
    matrix = coo_matrix((mutual[keep], (counts.row[keep], counts.col[keep])), shape=counts.shape).tocsr()
    u, s, _ = randomized_svd(matrix, n_components=size, n_iter=4, random_state=SEED)
    vectors = u * np.sqrt(s)
    log("word vectors", matrix.nnz, "entries of", round(total))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.maximum(norms, 1e-6)  # unit length, then the usual scale of an embedding
    return (vectors * 0.04 * math.sqrt(size)).astype(np.float32)


def token_weights(split, vocabulary, rank_weight, prior=500.0):
    """Weights of a linear classifier of the tokens that a function holds: cross-entropy plus `rank_weight` times the ranking loss of pairs."""
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix
    from scipy.special import expit

    owner = np.repeat(np.arange(len(split)), np.diff(split.starts))
    held = csr_matrix((np.ones(len(split.ids)), (owner, split.ids)), shape=(len(split), vocabulary))
    held.data[:] = 1.0
    projects = np.unique(split.project, return_inverse=True)[1]
    spread = csr_matrix((np.ones(len(split)), (projects, np.arange(len(split)))), shape=(projects.max() + 1, len(split))) @ held
    rare = np.asarray((spread > 0).sum(0)).ravel() < min(8, spread.shape[0])
    held = held @ csr_matrix((np.where(rare, 0.0, 1.0), (np.arange(vocabulary), np.arange(vocabulary))), shape=(vocabulary, vocabulary))
    kept = np.nonzero((split.source == "mined") & ((split.target == 1) | split.unpaired))[0]
    sides = np.array(split.pairs)
    x, d = held[kept].tocsr(), (held[sides[:, 0]] - held[sides[:, 1]]).tocsr()
    sign = np.where(split.target[kept] == 1, 1.0, -1.0)
    balance = len(kept) / 2 / np.where(sign > 0, (sign > 0).sum(), (sign < 0).sum())
    xt, dt = x.T.tocsr(), d.T.tocsr()

    def loss(w):
        margin, rank = sign * (x @ w[:-1] + w[-1]), d @ w[:-1]
        value = balance @ np.logaddexp(0, -margin) + rank_weight * np.logaddexp(0, -rank).sum() + prior / 2 * w[:-1] @ w[:-1]
        back = -balance * sign * expit(-margin)
        gradient = xt @ back - rank_weight * (dt @ expit(-rank)) + prior * w[:-1]
        return value, np.append(gradient, back.sum())

    return minimize(loss, np.zeros(vocabulary + 1), jac=True, method="L-BFGS-B", options={"maxiter": 60}).x[:-1]


# ---------------------------------------------------------------- model


def configuration(args, vocabulary):
    from transformers import RobertaConfig

    return RobertaConfig(
        architectures=["RobertaForSequenceClassification"],
        vocab_size=vocabulary,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        intermediate_size=4 * args.hidden,
        max_position_embeddings=514,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        # dropping words (--word-dropout) regularises instead: half the time on a CPU, and masking stays in distribution
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        id2label={0: "benign", 1: "vulnerable"},
        label2id={"benign": 0, "vulnerable": 1},
    )


def classifier(config, attention="sdpa"):
    from transformers import RobertaForSequenceClassification

    config._attn_implementation = attention
    return RobertaForSequenceClassification(config)


def pad_batch(sequences):
    return tuple(torch.from_numpy(x) for x in pad(sequences))


@torch.no_grad()
def margins(model, split, chosen, dtype=torch.float32):
    """z1 - z0 of each chosen function: the maximum over its windows."""
    model.eval()
    best = np.full(len(split), -np.inf)
    for part in window_batches(split, chosen):
        z = margins_of(model, *pad_batch([code for _, code in part]), dtype)
        np.maximum.at(best, [i for i, _ in part], z.numpy())
    model.train()
    return best[chosen]


# ---------------------------------------------------------------- sampling


def batches(groups, lengths, size, rng):
    """Shuffled batches of `size` groups of like length."""
    order = rng.permutation(len(groups))
    out = []
    for at in range(0, len(order), size * 50):
        chunk = sorted(order[at : at + size * 50], key=lambda g: lengths[g])
        out += [chunk[b : b + size] for b in range(0, len(chunk), size)]
    out = [b for b in out if len(b) == size]
    rng.shuffle(out)
    return [[groups[g] for g in b] for b in out]


class Stream:
    """Batch number n of an endless, seeded sequence of epochs; needs no state to resume."""

    def __init__(self, groups, lengths, size, seed):
        self.groups, self.lengths, self.size, self.seed = groups, lengths, size, seed
        self.epoch, self.held = None, None

    def batch(self, number):
        per_epoch = len(batches(self.groups, self.lengths, self.size, np.random.default_rng(0))) if self.held is None else len(self.held)
        epoch = number // per_epoch
        if epoch != self.epoch:
            self.epoch = epoch
            self.held = batches(self.groups, self.lengths, self.size, np.random.default_rng([self.seed, epoch]))
        return self.held[number % per_epoch]


def crop(length, window, rng, around=None):
    """A window of a function: all of it, or a random one, or a random one that holds position `around`."""
    if length <= window:
        return 0, length
    if around is None:
        start = int(rng.integers(0, length - window + 1))
    else:
        low = max(0, min(around - window + window // 8, length - window))
        high = max(low, min(around - window // 8, length - window))
        start = int(rng.integers(low, high + 1))
    return start, start + window


def common_ends(a, b):
    """Lengths of the common prefix and of the common suffix behind it."""
    n = min(len(a), len(b))
    differ = np.nonzero(a[:n] != b[:n])[0]
    prefix = int(differ[0]) if len(differ) else n
    n -= prefix
    if n == 0:
        return prefix, 0
    differ = np.nonzero(a[::-1][:n] != b[::-1][:n])[0]
    return prefix, int(differ[0]) if len(differ) else n


def drop_words(code, rate, rng):
    """Replaces a share of the tokens by <mask>."""
    return np.where(rng.random(len(code)) < rate, MASK, code)


def pair_windows(a, b, window, rate, rng):
    """The same window of a function and of its fix, around where they first differ.

    Both come out equally long, and what they share is masked alike, so that nothing but the code tells them apart.
    """
    prefix, suffix = common_ends(a, b)
    window = min(window, len(a), len(b))
    start, end = crop(min(len(a), len(b)), window, rng, around=prefix)
    state = rng.integers(0, 2**32)
    out = []
    for code in (a, b):
        noise = np.random.default_rng(state)
        head, tail = noise.random(prefix), noise.random(suffix)
        hit = np.concatenate([head, noise.random(len(code) - prefix - suffix), tail]) < rate
        out.append(np.where(hit, MASK, code)[start:end])
    return out


# ---------------------------------------------------------------- stages


COOLING = 0.3  # share of the steps at the end, in which the learning rate falls


def learning_rate(step, steps, peak, warm=40):
    """Warm-up, constant, linear descent to zero: a state from before the descent serves a run of any length."""
    return peak * min(1.0, (step + 1) / warm, (steps - step) / (COOLING * steps))


def resumable(latest, stable, steps):
    """The latest state that a run of `steps` steps passes through, or None; `stable` is the last one before a descent."""
    for path in (latest, stable):
        if os.path.exists(path):
            held = torch.load(path)
            if held["steps"] == steps or held["step"] <= (1 - COOLING) * min(steps, held["steps"]):
                return held
    return None


def optimiser(model, decay=0.01):
    plain = [p for p in model.parameters() if p.ndim < 2]
    rest = [p for p in model.parameters() if p.ndim >= 2]
    return torch.optim.AdamW([{"params": rest, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}], lr=1e-4, betas=(0.9, 0.98))


def save(path, **state):
    torch.save(state, path + ".part")
    os.replace(path + ".part", path)


def start(args, config, pretrained=True):
    """A fresh model whose word embedding is the word vectors, positions near zero; or with the pretrained encoder."""
    torch.manual_seed(SEED + args.seed)
    model = classifier(config)
    embeddings = model.roberta.embeddings
    vectors = torch.from_numpy(np.load(os.path.join(args.work, "embeddings.npy")))
    known = vectors.norm(dim=1) > 0
    with torch.no_grad():
        embeddings.word_embeddings.weight[known] = vectors[known]
        embeddings.position_embeddings.weight.mul_(0.1)
    if pretrained and args.pretrain_steps:
        model.roberta.load_state_dict(torch.load(os.path.join(args.work, "pretrained.pt"))["encoder"])
    return model


def selection(split, chosen, z):
    """What valid is asked, of mined functions: {area, ranked, area_like, ranked_like}.

    area: AUC against unpaired benign functions. ranked: share of pairs ranked right. Length alone reaches 0.64 in the first and, read
    backwards, 0.86 in the second, so both also among functions of like length: area_like within fifths of length, ranked_like of
    pairs within 5%.
    """
    at = {i: k for k, i in enumerate(chosen)}
    length = split.length[chosen]
    labels = split.target[chosen] == 1
    kept = labels | split.unpaired[chosen]
    sides = np.array([(at[v], at[f]) for v, f in split.pairs if v in at and f in at])
    right = ranked_right(z[sides[:, 0]], z[sides[:, 1]])
    like = of_like_length(length[sides[:, 0]], length[sides[:, 1]])
    benign = kept & ~labels
    return {
        "area": float(auc(z[labels], z[benign])) if benign.any() else 0.5,
        "ranked": float(right.mean()),
        "area_like": auc_of_like_length(length[kept], labels[kept], z[kept]),
        "ranked_like": float(right[like].mean()) if like.any() else 0.5,
    }


def balance(kinds, vulnerable, benign, share):
    """Weights by which both classes hold the same mix of `kinds` (one integer a function), a `share` of the way."""
    count = kinds.max() + 1
    out = np.ones(len(kinds), dtype=np.float32)
    mixes = [np.bincount(kinds[group], minlength=count) / len(group) for group in (vulnerable, benign)]
    middle = (mixes[0] + mixes[1]) / 2
    for group, mix in zip((vulnerable, benign), mixes):
        out[group] = 1 - share + share * (middle / np.maximum(mix, 1e-9))[kinds[group]]
    return out


def class_weights(split, vulnerable, benign, of_length, of_project):
    """Weights of the classification loss: what length and project alone tell of the label is weighted away, each a share of the way."""
    length = split.length
    edges = np.quantile(length[np.concatenate([vulnerable, benign])], np.arange(0.1, 1.0, 0.1))
    projects = np.unique(split.project, return_inverse=True)[1]
    out = balance(np.digitize(length, edges), vulnerable, benign, of_length) * balance(projects, vulnerable, benign, of_project)
    for group in (vulnerable, benign):
        out[group] /= out[group].mean()
    return out


class TokenHead(torch.nn.Module):
    """Hidden states -> logits of tokens, by the word embedding itself."""

    def __init__(self, size, vocabulary):
        super().__init__()
        self.dense, self.norm, self.bias = torch.nn.Linear(size, size), torch.nn.LayerNorm(size), torch.nn.Parameter(torch.zeros(vocabulary))

    def forward(self, hidden, embedding, dtype=torch.bfloat16):
        x = self.norm(functional.gelu(self.dense(hidden.float())))
        return functional.linear(x.to(dtype), embedding.to(dtype)).float() + self.bias


def pretrain(args, train, model):
    """Masked-language modelling on windows of the training functions, vulnerable, fixed and benign alike."""
    done, state_path = os.path.join(args.work, "pretrained.pt"), os.path.join(args.work, "pretrain-state.pt")
    steps, first, used = args.pretrain_steps, 0, 0.0
    if not steps or (os.path.exists(done) and torch.load(done)["steps"] == steps):
        return
    head = TokenHead(model.config.hidden_size, model.config.vocab_size)
    both = torch.nn.ModuleList([model.roberta, head])
    opt = optimiser(both)
    held = resumable(state_path, state_path, steps)
    if held:
        both.load_state_dict(held["model"])
        opt.load_state_dict(held["opt"])
        first, used = held["step"], held["used"]
        log("pretraining resumed at step", first)
    sums, clock = [], time.process_time()
    for step in range(first, steps):
        rng = np.random.default_rng([SEED, 3, step])
        window = int(rng.choice([126, 254, 510]))
        # functions by their share of the tokens
        at = rng.integers(0, len(train.ids), args.pretrain_tokens // window)
        codes = []
        for i in np.searchsorted(train.starts, at, "right") - 1:
            begin, end = crop(train.length[i], window, rng)
            codes.append(train.code(i)[begin:end])
        ids, mask = pad_batch(codes)
        hit = (torch.from_numpy(rng.random(ids.shape) < 0.15)) & (ids > MASK)
        wanted = ids[hit]
        given = np.where(rng.random(len(wanted)) < 0.9, MASK, rng.integers(MASK + 1, model.config.vocab_size, len(wanted)))
        ids[hit] = torch.from_numpy(given)
        opt.zero_grad()
        logits = head(hidden_of(model, ids, mask, first=False)[hit], model.roberta.embeddings.word_embeddings.weight)
        loss = functional.cross_entropy(logits, wanted)
        loss.backward()
        for group in opt.param_groups:
            group["lr"] = learning_rate(step, steps, args.lr)
        torch.nn.utils.clip_grad_norm_(both.parameters(), 1.0)
        opt.step()
        sums.append(loss.item())
        if STOPPING or (step + 1) % args.every == 0 or step + 1 == steps:
            spent = used + time.process_time() - clock
            log(f"pretraining {step + 1}/{steps} loss {np.mean(sums):.4f}; {spent:.0f} CPU-seconds")
            sums = []
            save(state_path, model=both.state_dict(), opt=opt.state_dict(), step=step + 1, steps=steps, used=spent)
            stop_if_asked(step + 1)
    save(done, encoder=model.roberta.state_dict(), steps=steps)


def classify(args, train, valid, model):
    """Each step: classification of whole functions (or windows of 510), and ranking of pairs in short windows around their difference.

    The ranking windows are no longer than the shorter side, so both sides show equally many tokens and length teaches nothing there.
    """
    folder = args.run
    done, state_path, stable_path = (os.path.join(folder, name) for name in ("best.pt", "state.pt", "stable.pt"))
    finished = os.path.join(folder, "finished.json")
    if os.path.exists(finished):
        with open(finished) as file:
            if json.load(file)["steps"] == args.steps:
                model.load_state_dict(torch.load(done)["model"])
                return model
    seed = SEED + args.seed
    opt = optimiser(model, decay=args.decay)
    average = {name: value.detach().clone() for name, value in model.state_dict().items()}
    steps, first, best, used = args.steps, 0, -1.0, 0.0
    held = resumable(state_path, stable_path, steps)
    if held:
        model.load_state_dict(held["model"])
        opt.load_state_dict(held["opt"])
        average, first, used = held["average"], held["step"], held["used"]
        if os.path.exists(done):
            best = torch.load(done)["score"]  # of any run of this folder
        log("resumed at step", first)
    usable = train.source == "mined" if (train.source == "mined").any() else np.ones(len(train), dtype=bool)
    # Data sets without unpaired benign functions would teach "Linux is vulnerable": they take part in the ranking only.
    vulnerable = np.nonzero(usable & (train.target == 1))[0]
    benign = np.nonzero(usable & (train.target == 0) & train.unpaired)[0]
    weight = class_weights(train, vulnerable, benign, args.length_debiasing, args.project_debiasing)
    length = np.minimum(train.length, WINDOW)
    log(len(train.pairs), "pairs", len(vulnerable), "vulnerable", len(benign), "unpaired benign")
    half = args.batch // 2
    streams = [Stream(list(group), length[group], half, seed + k) for k, group in enumerate((vulnerable, benign))]
    shorter = np.array([min(length[v], length[f]) for v, f in train.pairs])
    pair_stream = Stream(train.pairs, shorter, args.pairs, seed + 7)
    chosen = np.nonzero(valid.source == "mined")[0] if (valid.source == "mined").any() else np.arange(len(valid))
    sums, seen, clock = np.zeros(2), 0, time.process_time()
    model.train()
    for step in range(first, steps):
        rng = np.random.default_rng([seed, 2, step])
        opt.zero_grad()
        # classification
        codes, labels, weights = [], [], []
        for stream, label in zip(streams, (1.0, 0.0)):
            for i in stream.batch(step):
                code = train.code(i)
                start, end = crop(len(code), WINDOW, rng)
                codes.append(drop_words(code[start:end], args.word_dropout, rng))
                labels.append(label * (1 - 2 * args.smoothing) + args.smoothing)
                weights.append(weight[i])
        weights = torch.tensor(weights)
        labels = torch.tensor(labels)
        order = np.argsort([len(c) for c in codes])
        sorted_lengths = [len(codes[k]) + 2 for k in order]
        for begin, end in group_sizes(sorted_lengths, 8192):
            part = order[begin:end]
            ids, mask = pad_batch([codes[k] for k in part])
            seen += ids.numel()
            z = margins_of(model, ids, mask)
            loss = (functional.binary_cross_entropy_with_logits(z, labels[part], reduction="none") * weights[part]).sum() / len(codes)
            loss.backward()
            sums[0] += loss.item()
        # ranking
        couples = pair_stream.batch(step)
        sides = []
        for v, f in couples:
            a, b = train.code(v), train.code(f)
            window = args.rank_windows[int(rng.integers(len(args.rank_windows)))]
            sides.append(pair_windows(a, b, window, args.word_dropout, rng))
        order = np.argsort([max(len(a), len(b)) for a, b in sides])
        sorted_lengths = [2 * max(len(a), len(b)) + 4 for a, b in (sides[k] for k in order)]
        for begin, end in group_sizes(sorted_lengths, 8192):
            part = [sides[k] for k in order[begin:end]]
            ids, mask = pad_batch([a for a, _ in part] + [b for _, b in part])
            seen += ids.numel()
            z = margins_of(model, ids, mask)
            up, down = z[: len(part)], z[len(part) :]
            loss = functional.softplus(-(up - down)).sum() / len(couples)
            (args.rank_weight * loss).backward()
            sums[1] += loss.item()
        rate = learning_rate(step, steps, args.lr)
        for group in opt.param_groups:
            group["lr"] = rate
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        keep = min(args.average, (step + 1) / (step + 10))
        with torch.no_grad():
            for name, value in model.state_dict().items():
                if value.is_floating_point():
                    average[name].lerp_(value, 1 - keep)
        if (step + 1) % 25 == 0:
            spent = time.process_time() - clock
            log(f"step {step + 1}/{steps} class {sums[0] / 25:.4f} rank {sums[1] / 25:.4f}; {seen / spent:.0f} tokens a CPU-second, {used + spent:.0f} CPU-seconds")
            sums[:] = 0
        look = (step + 1) % args.every == 0 or step + 1 == steps
        if look:
            current = {name: value.clone() for name, value in model.state_dict().items()}
            model.load_state_dict(average)
            figures = selection(valid, chosen, margins(model, valid, chosen, torch.bfloat16))
            model.load_state_dict(current)
            score = sum(figures.values())
            log("valid:", ", ".join(f"{k} {v:.4f}" for k, v in figures.items()), f"sum {score:.4f}")
            if score > best:
                best = score
                save(done, model=average, step=step + 1, steps=steps, used=used + time.process_time() - clock, score=score, **figures)
        if look or STOPPING:
            spent = used + time.process_time() - clock
            state = {"model": model.state_dict(), "opt": opt.state_dict(), "average": average, "step": step + 1, "steps": steps, "used": spent}
            save(state_path, **state)
            if step + 1 <= (1 - COOLING) * steps:
                save(stable_path, **state)
            stop_if_asked(step + 1)
    held = torch.load(done)
    kept = {k: v for k, v in held.items() if k != "model"} | {"steps": steps, "cpu_seconds": used + time.process_time() - clock}
    with open(finished, "w") as out:
        json.dump(kept, out)
    os.remove(state_path)
    log("chosen:", kept)
    model.load_state_dict(held["model"])
    return model


def calibrate(args, valid, model):
    """Platt scaling of valid's margins, folded into the last layer; the threshold that flags 10% of valid's benign."""
    from sklearn.linear_model import LogisticRegression

    done = os.path.join(args.run, "final.pt")
    z = margins(model, valid, np.arange(len(valid)))
    middle, scale = float(z.mean()), max(float(z.std()), 1e-9)  # standardised: the solver stops early where margins hardly vary
    fit = LogisticRegression(C=1e6).fit((z[:, None] - middle) / scale, valid.target)
    slope = float(fit.coef_[0, 0]) / scale
    offset = float(fit.intercept_[0]) - slope * middle
    log(f"calibration: slope {slope:.4f} offset {offset:.4f}")
    if slope <= 0:
        log("not calibrated: on valid, higher margins are no more often vulnerable")
    else:
        out = model.classifier.out_proj
        with torch.no_grad():
            out.weight.mul_(slope)
            out.bias.mul_(slope)
            out.bias[0] -= offset / 2
            out.bias[1] += offset / 2
        z = slope * z + offset
    p = 1 / (1 + np.exp(-z))
    threshold = math.ceil(budget(p[valid.target == 0]) * 1e4) / 1e4
    flagged = p > threshold
    right = (flagged & (valid.target == 1)).sum()
    figures = {
        "threshold": threshold,
        "benign_flagged": float(flagged[valid.target == 0].mean()),
        "precision": float(right / max(1, flagged.sum())),
        "recall": float(right / (valid.target == 1).sum()),
        "calibration_error": calibration_error(valid.target, p),
        "slope": slope,
        "offset": offset,
    }
    log("threshold on valid", figures)
    save(done, model=model.state_dict(), **figures)
    return figures


class ForExport(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask).logits


def export(args, config):
    import onnx
    import onnxruntime

    held = torch.load(os.path.join(args.run, "final.pt"))
    model = classifier(config, "eager")
    model.load_state_dict(held["model"])
    model.eval()
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "model.onnx")
    rng = np.random.default_rng(SEED)
    sample, mask = pad_batch([rng.integers(5, config.vocab_size, 17), rng.integers(5, config.vocab_size, 9)])
    torch.onnx.export(
        ForExport(model).eval(),
        (sample, mask),
        path,
        dynamo=False,
        opset_version=17,
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_axes={"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "sequence"}, "logits": {0: "batch"}},
        do_constant_folding=True,
    )
    graph = onnx.load(path)
    onnx.checker.check_model(graph)
    softmaxes = sum(n.op_type == "Softmax" for n in graph.graph.node)
    log("nodes", len(graph.graph.node), "softmaxes", softmaxes)
    assert softmaxes == config.num_hidden_layers and not model.training
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    worst = 0.0
    for lengths in ([1], [5], [510], [64, 64], [300, 7, 123], [510, 2, 40, 256, 1]):
        codes = [rng.integers(5, config.vocab_size, n) for n in lengths]
        ids, mask = pad_batch(codes)
        with torch.no_grad():
            want = model(input_ids=ids, attention_mask=mask).logits.numpy()
        got = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]
        worst = max(worst, float(np.abs(want - got).max()))
        for row, code in enumerate(codes):  # padding must not change anything
            ids, mask = pad_batch([code])
            alone = session.run(None, {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0][0]
            worst = max(worst, float(np.abs(alone - got[row]).max()))
    log(f"PyTorch against ONNX Runtime, batches and padding included: largest difference {worst:.2e}")
    assert worst < 1e-4
    shutil.copy(os.path.join(args.work, "tokenizer.json"), os.path.join(args.out, "tokenizer.json"))
    written = json.loads(config.to_json_string())
    written.pop("_attn_implementation_autoset", None)
    with open(os.path.join(args.out, "config.json"), "w") as out:
        json.dump(written, out, indent=2)
        out.write("\n")
    with open(os.path.join(args.out, "detector.toml"), "w") as out:
        out.write(
            "# The built-in detector; read MODEL_CARD.md before you believe it.\n"
            'name = "linelens-default"\n'
            'positive_label = "vulnerable"\n'
            "# flags at most 10% of the benign functions of the validation split\n"
            f"threshold = {held['threshold']:.4f}\n"
            'normalize = "strip-comments"\n'
            'long = "window"\n'
            "max_tokens = 512\n"
        )
    for name in sorted(os.listdir(args.out)):
        log(name, os.path.getsize(os.path.join(args.out, name)))


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, help="folders with {train,valid,test}.jsonl[.gz] and mined-*.jsonl")
    parser.add_argument("--work", required=True, help="folder for intermediate results and checkpoints")
    parser.add_argument("--out", required=True, help="model directory to write")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--vocabulary", type=int, default=12000)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--pretrain-steps", type=int, default=0, help="of masked-language modelling, before anything else")
    parser.add_argument("--pretrain-tokens", type=int, default=16384, help="a step")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=48, help="functions a step to classify, half of them vulnerable")
    parser.add_argument("--pairs", type=int, default=48, help="pairs a step to rank")
    parser.add_argument("--every", type=int, default=50, help="steps between looks at valid, and checkpoints")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--average", type=float, default=0.98, help="of the running average of the weights, which is what is kept")
    parser.add_argument("--rank-weight", type=float, default=2.0)
    parser.add_argument("--rank-windows", type=int, nargs="+", default=[62, 126, 254, 510])
    parser.add_argument("--length-debiasing", type=float, default=0.5)
    parser.add_argument("--smoothing", type=float, default=0.02)
    parser.add_argument("--word-dropout", type=float, default=0.1)
    parser.add_argument("--project-debiasing", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="of the fine-tuning: added to the fixed seed")
    parser.add_argument("--run", help="folder in --work for the fine-tuned model (default: seed-N), to keep several beside each other")
    args = parser.parse_args(given)
    args.run = os.path.join(args.work, args.run or f"seed-{args.seed}")
    return args


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(SEED)
    os.makedirs(args.run, exist_ok=True)

    tokenizer_path = os.path.join(args.work, "tokenizer.json")
    if not os.path.exists(tokenizer_path):
        rows = load_split(args.data, "train")
        log("tokenizer on", len(rows), "functions")
        train_tokenizer(rows, args.vocabulary).save(tokenizer_path)
    vocabulary = load_tokenizer(tokenizer_path).get_vocab_size()
    train, valid = load_tokens(args, "train"), load_tokens(args, "valid")
    for name, split in (("train", train), ("valid", valid)):
        lengths = split.length
        log(name, len(split), "functions", len(split.ids), "tokens; quantiles", np.quantile(lengths, [0.1, 0.5, 0.75, 0.9, 0.99]).astype(int).tolist())
    vectors_path = os.path.join(args.work, "embeddings.npy")
    if not os.path.exists(vectors_path):
        vectors = word_vectors(train, vocabulary, args.hidden)
        # Two coordinates say at once what a linear classifier makes of the token: without and with ranking.
        for place, rank_weight in enumerate((0.0, 2.0)):
            weights = token_weights(train, vocabulary, rank_weight)
            vectors[:, place] = 0.12 * np.clip(weights / max(np.sqrt(np.square(weights).sum() / max(1, (weights != 0).sum())), 1e-9), -3, 3)
        np.save(vectors_path, vectors)
    config = configuration(args, vocabulary)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask_to_stop)
    pretrain(args, train, start(args, config, pretrained=False))
    calibrate(args, valid, classify(args, train, valid, start(args, config)))
    export(args, config)


if __name__ == "__main__":
    main()
