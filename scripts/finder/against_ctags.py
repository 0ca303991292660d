#!/usr/bin/env python3
"""Compares the function finder with Universal Ctags on whole files of Git repositories.

    scripts/finder/against_ctags.py target/debug/linelens REPOSITORY…

Chooses files with a fixed seed, the same number from each repository (bare ones will do; the commit is HEAD), and runs
`linelens functions` and `ctags` on copies. Compared are definitions that end on another line than their name stands on;
lambdas are left out. A definition is the same for both if it ends on the same line; where it begins below the line of the
tag (ctags took a macro before it for its name) it is counted as `later start` besides.
Which side is right is for the reader: each disagreement is printed with its place, and `--show` prints its first lines.
"""

import argparse
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

EXTENSIONS = {".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx"}


def sources(repository, smallest, largest):
    """(blob, path) of the C and C++ files of HEAD, in the order of their path."""
    listing = subprocess.run(["git", "-C", repository, "ls-tree", "-rlz", "HEAD"], capture_output=True, check=True)
    found = []
    for entry in listing.stdout.decode("utf-8", "replace").split("\0"):
        if not entry:
            continue
        meta, path = entry.split("\t", 1)
        mode, kind, blob, size = meta.split()
        if kind == "blob" and mode != "120000" and pathlib.PurePath(path).suffix in EXTENSIONS:
            # A shallow copy may list blobs that it does not hold.
            if size.isdigit() and smallest <= int(size) <= largest:
                found.append((blob, path))
    return sorted(found, key=lambda entry: entry[1])


def chosen(repositories, arguments):
    """(repository, path, bytes) of the files to compare."""
    numbers = random.Random(arguments.seed)
    lists = {repository: sources(repository, arguments.smallest, arguments.largest) for repository in repositories}
    for files in lists.values():
        numbers.shuffle(files)
    taken = 0
    while taken < arguments.files and any(lists.values()):
        for repository, files in lists.items():
            while files and taken < arguments.files:
                blob, path = files.pop()
                read = subprocess.run(["git", "-C", repository, "cat-file", "blob", blob], capture_output=True)
                if read.returncode == 0:
                    taken += 1
                    yield repository, path, read.stdout
                    break


def tags(paths):
    """(name, line, end) of each function that ctags finds, by file."""
    listing = "\n".join(map(str, paths))
    run = subprocess.run(["ctags", "--output-format=json", "--fields=+ne", "--kinds-C=f", "--kinds-C++=f",
                          "--sort=no", "-f", "-", "-L", "-"], input=listing, capture_output=True, text=True, check=True)
    found = collections.defaultdict(set)
    for line in run.stdout.splitlines():
        tag = json.loads(line)
        if tag.get("_type") == "tag" and "end" in tag and not tag["name"].startswith("__anon"):
            found[tag["path"]].add((tag["name"], tag["line"], tag["end"]))
    return found


def functions(linelens, folder):
    run = subprocess.run([linelens, "functions", str(folder)], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    found = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        function = json.loads(line)
        found[function["file"]].append(function)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("linelens")
    parser.add_argument("repositories", nargs="+")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smallest", type=int, default=1 << 10, help="bytes")
    parser.add_argument("--largest", type=int, default=4 << 20, help="bytes")
    parser.add_argument("--show", type=int, default=0, help="lines to print of each disagreement")
    parser.add_argument("--keep", type=pathlib.Path, help="write the files here")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        texts, origin = {}, {}
        repositories = [repository.rstrip("/") for repository in arguments.repositories]
        for number, (repository, path, content) in enumerate(chosen(repositories, arguments)):
            copy = folder / f"{number:04}{pathlib.PurePath(path).suffix}"
            copy.write_bytes(content)
            texts[str(copy)] = content.decode("utf-8", "replace").splitlines()
            parts = pathlib.PurePath(repository).parts
            origin[str(copy)] = f"{'/'.join(parts[-2:])}:{path}"
        ours, theirs = functions(arguments.linelens, folder), tags(texts)

        counts = collections.Counter(files=len(texts))
        for path, text in texts.items():
            by_end = collections.defaultdict(list)
            for function in ours[path]:
                by_end[function["endLine"]].append(function)
            matched = set()
            disagreements = []
            for name, line, end in sorted(theirs[path], key=lambda tag: tag[1]):
                same = by_end[end]
                matched.update((function["startLine"], end) for function in same)
                if end <= line:
                    continue
                counts["ctags"] += 1
                if same:
                    counts["both"] += 1
                    counts["later start"] += all(function["startLine"] > line for function in same)
                else:
                    disagreements.append((line, end, "ctags only", name))
            for function in ours[path]:
                start, end = function["startLine"], function["endLine"]
                if (start, end) not in matched and end > start:
                    disagreements.append((start, end, "linelens only", function["name"]))
                counts["linelens"] += end > start
            for line, end, kind, name in sorted(disagreements):
                counts[kind] += 1
                print(f"{kind}: {name} {line}-{end} in {path} ({origin[path]})")
                for at in range(line, min(end, line + arguments.show - 1) + 1):
                    print(f"    {at:6} {text[at - 1] if at <= len(text) else ''}"[:160])
        print(", ".join(f"{name} {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
