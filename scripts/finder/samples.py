#!/usr/bin/env python3
"""Measures the function finder on a dataset of single functions.

Each row's function is written alone into a file; found is it if `linelens functions` lists exactly one function there
and that spans the text from its first line with code to its last. Nested functions (local classes, GNU C) are allowed
inside.

    scripts/finder/samples.py target/debug/linelens FILE.jsonl[.gz] …

The rows need the field `func`; `path` or `file_name` tells C++ from C. Some rows of published datasets are no complete
function or more than one; they count as failures and are listed like all others.
"""

import argparse
import collections
import gzip
import json
import pathlib
import re
import subprocess
import sys
import tempfile

CPP = {".cc", ".cpp", ".cxx", ".c++", ".hpp", ".hh", ".hxx", ".h++", ".inl", ".ipp", ".tcc", ".mm", ".C", ".H"}


def rows(path):
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def extension(row):
    """`.cpp` by the path, or by a name with `::` where there is no path."""
    path = row.get("path") or row.get("file_name") or ""
    suffix = pathlib.PurePath(path).suffix
    if suffix in CPP:
        return ".cpp"
    header = row["func"].split("{", 1)[0]
    return ".cpp" if suffix in ("", ".h") and "::" in header else ".c"


def code_lines(text):
    """First and last 1-based lines with something other than blanks and comments."""
    blanked = re.sub(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
                     lambda match: re.sub(r"[^\n]", "" if match.group().startswith("/") else "x", match.group()),
                     text, flags=re.S)
    numbers = [number for number, line in enumerate(blanked.split("\n"), 1) if line.strip()]
    return (numbers[0], numbers[-1]) if numbers else (0, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("linelens")
    parser.add_argument("datasets", nargs="+", type=pathlib.Path)
    parser.add_argument("--failures", type=pathlib.Path, help="write each failing text here, for reading")
    arguments = parser.parse_args()

    failed = False
    for dataset in arguments.datasets:
        with tempfile.TemporaryDirectory() as folder:
            samples = []
            for number, row in enumerate(rows(dataset)):
                path = pathlib.Path(folder) / f"{number:07}{extension(row)}"
                path.write_bytes(row["func"].encode("utf-8"))
                samples.append((row, path))
            found = collections.defaultdict(list)
            run = subprocess.run([arguments.linelens, "functions", folder], capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(run.stderr)
            for line in run.stdout.splitlines():
                function = json.loads(line)
                found[pathlib.PurePath(function["file"]).name].append(function)

        right = 0
        for row, path in samples:
            first, last = code_lines(row["func"])
            functions = found[path.name]
            outer = [function for function in functions
                     if not any(other is not function and other["startLine"] <= function["startLine"]
                                and function["endLine"] <= other["endLine"] for other in functions)]
            if len(outer) == 1 and (outer[0]["startLine"], outer[0]["endLine"]) == (first, last):
                right += 1
                continue
            spans = ", ".join(f"{function['name']} {function['startLine']}-{function['endLine']}" for function in outer)
            print(f"{row.get('id')} {path.suffix} lines {first}-{last}, found: {spans or 'nothing'}")
            if arguments.failures:
                arguments.failures.mkdir(parents=True, exist_ok=True)
                (arguments.failures / path.name).write_text(row["func"], encoding="utf-8")
        print(f"{dataset.name}: {right} of {len(samples)} found ({100 * right / max(1, len(samples)):.2f}%)")
        failed = failed or right < len(samples)
    return failed


if __name__ == "__main__":
    sys.exit(main())
