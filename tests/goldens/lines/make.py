"""Lines as in the code that Pintore et al. published, in a few lines of Python; writes units.json beside this file.

    python3 make.py

Written from the definition in docs/metrics.md, independent of src/lines/reference.rs. Needs nothing but Python.
"""
import json
import pathlib
import random
import re


def units_of(tokens, relevance):
    """tokens: bytes each. Returns [text, raw, number of the token that starts the unit]."""
    units, text, start, score = [], b"", None, 0.0
    for number, (token, r) in enumerate(zip(tokens, relevance)):
        s = token.replace(b" ", b"").replace(b"\t", b"\n")
        score += r
        if s.strip(b"\n") == b"":
            if start is not None:
                units.append([text, score, start])
            text, start, score = b"", None, 0.0
        else:
            if start is None:
                start = number
            text += s
    if start is not None:
        units.append([text, score, start])
    return [[text.decode(errors="replace"), raw, start] for text, raw, start in units]


def physical_line(document, offset):
    return len(re.findall(rb"\r\n|\n|\r(?!\n)", document[:offset]))


def case(name, tokens, relevance, truth, absolute=False):
    document = b"".join(tokens)
    units = units_of(tokens, [abs(r) for r in relevance] if absolute else relevance)
    raws = [raw for _, raw, _ in units]
    wanted = {line.strip().replace(" ", "") for line in truth}
    rows, intersection, union = [], 0.0, 0.0
    for text, raw, start in units:
        token = tokens[start]
        lead = len(token) - len(token.lstrip()) if token.strip() else 0
        line = physical_line(document, sum(map(len, tokens[:start])) + lead)
        score = (raw - min(raws)) / (max(raws) - min(raws) + 1e-8)
        true = text in wanted
        intersection += min(score, float(true))
        union += max(score, float(true))
        rows.append({"line": line, "text": text, "raw": raw, "score": score, "true": true})
    return {"name": name, "tokens": [token.hex() for token in tokens], "relevance": relevance, "absolute": absolute,
            "truth": truth, "units": rows, "intersection": intersection, "union": union}


def by_hand():
    lf, sp = b"\n", b" "
    yield "nothing", [], []
    yield "whitespace only", [b"\n", b"\t", b"   ", b" "], []
    yield "one token", [b"int"], ["int"]
    yield "the last line has no end", [b"int", b" x", b";", lf, b"y", b" =", b" 1", b";"], ["y = 1;"]
    yield "tabs end units", [b"if", b"\t", b"(", b"x", b")", lf, b"\t", b"\t", b"y", b";", lf], ["if\t(x)", "y;"]
    yield "runs of spaces end units", [b"int", b"   ", b" x", b";", b" ", b"z", lf], ["int    x;", "z"]
    yield "indentation by spaces", [b"{", lf, b"   ", b" foo", b"();", lf, b"   ", b" bar", b"();", lf, b"}"], ["foo();"]
    yield "blank lines", [b"a", lf, lf, b"\n\n", b"b", b"\n\n\n", b"\n", b"c"], ["b"]
    yield "newline and tab in one token", [b"a", b"\n\t", b"b", b"\n\t\t", b"c", b"\n \t ", b"d"], ["b", "d"]
    yield "repeated lines", [b"x", b"++;", lf, b"y", b"--;", lf, b"x", b"++;", lf, b"x", b" ++", b";", lf], ["x ++;"]
    yield "crlf", [b"a", b";", b"\r\n", b"b", b";", b"\r\n", b"}", b"\r\n"], ["a;", "b;"]
    yield "crlf and tabs", [b"a", b";", b"\r\n", b"\t", b"b", b";", b"\r\n", b"\t", b"c"], ["b;"]
    yield "crlf at the start", [b"\r\n", b"\t", b"\r\n", b"   ", b"a"], ["a"]
    yield "lone carriage returns", [b"a", b"\r", b"b", b"\n", b"c", b"\r", b"\n", b"d"], ["a", "c", "d"]
    yield "not ascii", ["é".encode(), " 漢字".encode(), lf, "😀".encode(), b";", lf], ["é 漢字", "😀;"]
    yield "a character in several tokens", [b"\xc3", b"\xa9", b" =", lf, b"\xf0\x9f", b"\x98", b"\x80", lf], ["é ="]
    yield "a character cut at the end", [b"a", lf, b"b", b"\xf0\x9f"], ["a"]
    yield "other whitespace", [b"a\x0b", b"b", lf, "c\u00a0d".encode(), lf, "\u3000".encode(), lf], ["c\u00a0d"]
    yield "text and newline in one token", [b"a;\n", b"b;\n}", lf, b"c"], ["b;"]
    yield "empty tokens", [b"a", b"", b"b", b"", b"", b"c"], ["a", "c"]
    yield "equal relevance", [b"a", lf, b"b", lf, b"c"], ["b"]
    yield "ground truth that is not there", [b"a", lf, b"b"], ["elsewhere", ""]


def at_random(number):
    rng = random.Random(number)
    pieces = [b"int", b" x", b"foo", b"();", b" =", b" 1", b";", b"{", b"}", b"//", "é".encode(), b"\xe6\xbc", b"\xa2"]
    separators = [b"\n", b"\n", b"\n", b"\n\n", b"\t", b"\n\t", b"    ", b" ", b"\r\n", b"\r", b"\n ", b" \n"]
    tokens = []
    for _ in range(rng.randrange(1, 60)):
        tokens.append(rng.choice(pieces if rng.random() < 0.65 else separators))
    lines = [line for line in b"".join(tokens).decode(errors="replace").split("\n") if line.strip()]
    return tokens, rng.sample(lines, min(len(lines), rng.randrange(0, 4)))


def main():
    rng = random.Random(0)
    draw = lambda tokens: [round(rng.uniform(-1, 1), 6) for _ in tokens]
    cases = []
    for name, tokens, truth in by_hand():
        relevance = [0.25] * len(tokens) if name == "equal relevance" else draw(tokens)
        cases.append(case(name, tokens, relevance, truth))
    for number in range(60):
        tokens, truth = at_random(number)
        cases.append(case(f"random {number}", tokens, draw(tokens), truth, absolute=number % 5 == 4))
    out = pathlib.Path(__file__).with_name("units.json")
    out.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    print(len(cases), "cases,", sum(len(c["units"]) for c in cases), "units")


main()
