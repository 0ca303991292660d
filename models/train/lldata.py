"""Reading functions, stripping comments and cutting windows: shared by every stage.

`strip_comments` is the same rule as `normalize = "strip-comments"` of detector.toml:

* a comment is `/* ... */`, or `// ...` up to the end of the line (backslash-newline continues it);
* not inside string or character literals (backslash escapes; an unterminated literal ends at the line end),
  nor inside C++ raw strings `R"delim( ... )delim"`;
* it becomes one space; a block comment's newlines are kept behind that space ("\r\n" stays "\r\n");
* a quote between digits (1'000) is no literal; a lone "\r" is a line end, too;
* an unterminated block comment runs to the end of the text; nothing else changes.
"""
import gzip
import json
import os
import re
import sys

import numpy as np

IDENTIFIER = r"[A-Za-z0-9_$\u0080-\U0010ffff]"
ESCAPE = r"\\(?:\r\n|[\s\S])"
LEXEME = re.compile(
    rf"""(?:u8|[uUL])?R"(?P<delim>[^() \\\t\n\f\r"]{{0,16}})\([\s\S]*?(?:\)(?P=delim)"|\Z)"""
    rf"""|\.?[0-9](?:{IDENTIFIER}|\.|'{IDENTIFIER})*|{IDENTIFIER}+"""
    rf"""|"(?:{ESCAPE}|[^"\\\r\n])*"?|'(?:{ESCAPE}|[^'\\\r\n])*'?"""
    rf"""|(?P<line>//(?:\\(?:\r\n|[\r\n])|[^\r\n])*)"""
    rf"""|(?P<block>/\*[\s\S]*?(?:\*/|\Z))"""
)
NEWLINE = re.compile(r"\r\n|[\r\n]")


def _replace(match):
    if match["line"] is not None:
        return " "
    if match["block"] is not None:
        return " " + "".join(NEWLINE.findall(match["block"]))
    return match[0]


def strip_comments(code):
    return LEXEME.sub(_replace, code)


def read_rows(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def files_of(folders, split):
    """The files of a split in the folders and in their subfolders `published` and `mined`, in a fixed order."""
    out = []
    for folder in folders:
        for place in (folder, os.path.join(folder, "published"), os.path.join(folder, "mined")):
            for name in (split, "mined-" + split, split + "-mined"):
                ways = [os.path.join(place, name + ending) for ending in (".jsonl.gz", ".jsonl")]
                out += [path for path in ways if os.path.exists(path)][:1]
    return out


def load_split(folders, split):
    """The rows of a split, in a fixed order; an id counts once."""
    paths = files_of(folders, split)
    if not paths:
        sys.exit(f"no {split}.jsonl, {split}.jsonl.gz or mined-{split}.jsonl in {', '.join(folders)}: models/train/README.md says what belongs there")
    seen, out = set(), []
    for path in paths:
        for row in read_rows(path):
            if row["id"] not in seen:
                seen.add(row["id"])
                out.append(row)
    return out


WINDOW = 510  # code tokens: 512 with <s> and </s>
STRIDE = 382  # overlapping by a quarter


def windows(length, window=WINDOW, stride=STRIDE):
    """Starts and ends of the windows over `length` code tokens, as linelens cuts them: the last one is as long as the others."""
    if length <= window:
        return [(0, length)]
    starts = [*range(0, length - window, stride), length - window]
    return [(start, start + window) for start in starts]


SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
BOS, PAD, EOS, _, MASK = range(5)


def load_tokenizer(path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True  # "<s>" in a function is three characters, not a special token
    return tokenizer


def tokenise(rows, tokenizer):
    """Code tokens of all rows, and where each row's begin (one more than rows)."""
    ids, starts = [], [0]
    for at in range(0, len(rows), 512):
        batch = [strip_comments(r["func"]) for r in rows[at : at + 512]]
        for encoding in tokenizer.encode_batch(batch, add_special_tokens=False):
            ids.append(np.array(encoding.ids, dtype=np.int32))
            starts.append(starts[-1] + len(encoding.ids))
    return np.concatenate(ids), np.array(starts)


class Split:
    """The rows of a split with their code tokens (no special tokens)."""

    def __init__(self, rows, ids, starts):
        self.rows, self.ids, self.starts = rows, ids, starts
        self.length = np.diff(starts)
        self.target = np.array([r["target"] for r in rows])
        self.source = np.array([r["source"] for r in rows])
        self.project = np.array([r.get("project") or r["source"] for r in rows])
        sides = {}
        for i, row in enumerate(rows):
            if row.get("pair_id"):
                sides.setdefault(row["pair_id"], {})[row["target"]] = i
        self.pairs = [(p[1], p[0]) for p in sides.values() if 0 in p and 1 in p]
        paired = {i for pair in self.pairs for i in pair}
        # A fix whose vulnerable side is missing is no unpaired function.
        self.unpaired = np.array([i not in paired and not (r.get("pair_id") and r["target"] == 0) for i, r in enumerate(rows)], dtype=bool)

    def code(self, i):
        return self.ids[self.starts[i] : self.starts[i + 1]]

    def __len__(self):
        return len(self.rows)


def pad(sequences):
    """Code tokens -> input_ids and attention_mask with <s>, </s> and padding to the longest."""
    width = max(len(s) for s in sequences) + 2
    ids = np.full((len(sequences), width), PAD, dtype=np.int64)
    for row, s in enumerate(sequences):
        ids[row, 0] = BOS
        ids[row, 1 : len(s) + 1] = s
        ids[row, len(s) + 1] = EOS
    return ids, (ids != PAD).astype(np.int64)


def window_batches(split, chosen, tokens=8192):
    """Batches of windows of like length of the chosen functions: each a list of (function, its code tokens)."""
    pieces = []
    for i in chosen:
        code = split.code(i)
        pieces += [(i, code[start:end]) for start, end in windows(len(code))]
    pieces.sort(key=lambda p: len(p[1]))
    for begin, end in group_sizes([len(code) + 2 for _, code in pieces], tokens):
        yield pieces[begin:end]


def group_sizes(lengths, tokens):
    """Cuts an order of sequences (by length) into batches of at most `tokens` padded tokens."""
    out, start = [], 0
    for at in range(1, len(lengths) + 1):
        if at == len(lengths) or (at - start + 1) * lengths[at] > tokens:
            out.append((start, at))
            start = at
    return out


if __name__ == "__main__":  # lldata.py SPLIT FOLDER...: the files of a split, one a line
    print("\n".join(files_of(sys.argv[2:], sys.argv[1])))
