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


def load_split(folders, split):
    """Rows of `<split>.jsonl[.gz]` and `mined-<split>.jsonl[.gz]` in the folders, in a fixed order."""
    rows = []
    for folder in folders:
        for name in (split, "mined-" + split):
            for ending in (".jsonl.gz", ".jsonl"):
                path = os.path.join(folder, name + ending)
                if os.path.exists(path):
                    rows.extend(read_rows(path))
                    break
    seen, out = set(), []
    for row in rows:
        if row["id"] not in seen:
            seen.add(row["id"])
            out.append(row)
    return out


WINDOW = 510  # code tokens: 512 with <s> and </s>
STRIDE = 382  # overlapping by a quarter


def windows(length, window=WINDOW, stride=STRIDE):
    """Starts and ends of the windows over `length` code tokens (semantics: windows overlapping by a quarter)."""
    if length <= window:
        return [(0, length)]
    out, start = [], 0
    while True:
        end = min(start + window, length)
        out.append((start, end))
        if end == length:
            return out
        start += stride
