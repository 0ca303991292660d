"""linelens beside PyTorch on one machine, in alternating pairs: forward with attention, IG-50, AttnLRP, whole functions, loading, memory.

    python compare.py MODEL_DIRECTORY --out results.json [--only SECTION ...] [--quick]

MODEL_DIRECTORY is made by model.py. The sides are processes that wait while the other works; the order changes from pair to
pair. Reported are the medians and the median of the pairs' ratios, which other work on the machine touches least. See README.md.
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECTIONS = ["forward", "attnlrp", "ig", "pipeline", "start", "memory"]
MAXIMUM = 512


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    arguments = parse()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else {"machine": machine(), "rows": []}
    results["rows"] = [row for row in results["rows"] if row["section"] not in arguments.only]
    run = Run(arguments, results)
    for section in arguments.only:
        getattr(run, section)()
    print(markdown(results))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=pathlib.Path, metavar="MODEL_DIRECTORY")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results.json"), help="kept: sections not run again stay in it")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--methods", nargs="+", default=["attention:last", "attnlrp", "ig"], help="for pipeline and start")
    parser.add_argument("--lengths", nargs="+", type=int, default=[128, 256, 512])
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--ig-pairs", type=int, default=3, help="integrated gradients take a minute a side at 512 tokens")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--internal-batch", type=int, default=16, help="captum's internal_batch_size; 16 at 512 tokens takes some 16 GB")
    parser.add_argument("--quick", action="store_true", help="128 tokens, two pairs, one for integrated gradients")
    parser.add_argument("--binary", type=pathlib.Path, help="the side_by_side bench; built when not given")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager", help="PyTorch's, for ig")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.lengths, arguments.pairs, arguments.ig_pairs = [128], 2, 1
    arguments.binary = arguments.binary or build()
    return arguments


def build():
    """Cargo says where the executable is."""
    command = ["cargo", "build", "--release", "--bench", "side_by_side", "--message-format", "json"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    messages = map(json.loads, done.stdout.splitlines())
    return pathlib.Path(next(m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "side_by_side"))


class Side:
    """A process that answers one JSON object with another."""

    def __init__(self, *command):
        self.process = subprocess.Popen(list(map(str, command)), cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, do, **more):
        print(json.dumps({"do": do, **more}), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process {self.process.args} ended during {do!r}")
        return json.loads(answer)


class Run:
    def __init__(self, arguments, results):
        self.arguments, self.results = arguments, results
        self.functions = Functions(arguments.directory)

    def linelens(self):
        return Side(self.arguments.binary, self.arguments.directory.resolve(), self.arguments.threads)

    def torch(self, internal_batch=None):
        batch = internal_batch or self.arguments.internal_batch
        return Side(sys.executable, HERE / "torch_side.py", self.arguments.directory.resolve(), self.arguments.threads, "--internal-batch", batch)

    def save(self, **row):
        self.results["rows"].append(row)
        self.arguments.out.write_text(json.dumps(self.results, indent=1) + "\n")
        print({key: value for key, value in row.items() if key not in ("torch", "linelens")}, file=sys.stderr, flush=True)

    def forward(self):
        with self.linelens() as ours, self.torch() as theirs:
            ours.ask("open"), theirs.ask("open")
            for length in self.arguments.lengths:
                ids = self.functions.of(length)[1]
                self.compare("forward", length, self.arguments.pairs, lambda _: ours.ask("forward", ids=ids), lambda _: theirs.ask("forward", ids=ids))

    def attnlrp(self):
        for method in ("attnlrp", "attnlrp, weights too"):
            self.relevance("attnlrp", method, self.arguments.pairs)

    def ig(self):
        self.relevance("ig", "ig", self.arguments.ig_pairs)

    def relevance(self, section, method, pairs):
        ours_method = method.split(",")[0]
        with self.linelens() as ours, self.torch() as theirs:
            ours.ask("open"), theirs.ask("open", attention=self.arguments.attention)
            # The first use derives the graph and opens its session.
            ours.ask("relevance", method=ours_method, ids=self.functions.of(32)[1]), theirs.ask("relevance", method=method, ids=self.functions.of(32)[1])
            for length in self.arguments.lengths:
                ids = self.functions.of(length)[1]
                self.compare(section, length, pairs, lambda _: ours.ask("relevance", method=ours_method, ids=ids),
                             lambda _: theirs.ask("relevance", method=method, ids=ids), variant=method if method != section else "",
                             warm=False)

    def pipeline(self):
        """Each pair has a function of its own, since linelens keeps what it computed."""
        for method in self.arguments.methods:
            pairs = self.arguments.ig_pairs if method == "ig" else self.arguments.pairs
            with self.linelens() as ours, self.torch() as theirs:
                ours.ask("start", method=method, text=self.functions.of(32)[0]), theirs.ask("open")
                if method == "attnlrp":
                    theirs.ask("relevance", method=method, ids=self.functions.of(32)[1])
                elif method != "ig":
                    theirs.ask("forward", ids=self.functions.of(32)[1])
                for length in self.arguments.lengths:
                    texts = [self.functions.of(length, f"pipeline {pair}")[0] for pair in range(pairs + 1)]
                    if method == "ig":
                        # The forward session is opened again after the first gradient; a pair of this method takes too long to be let go.
                        ours.ask("pipeline", method="attention:last", text=self.functions.of(33)[0])
                    self.compare("pipeline", length, pairs, lambda pair: ours.ask("pipeline", method=method, text=texts[pair]),
                                 lambda pair: theirs.ask("pipeline", method=method, text=texts[pair]), variant=method, warm=method != "ig")

    def start(self):
        """Fresh processes: linelens from nothing to an explanation, and a session of the same file with ONNX Runtime's defaults."""
        def explained(method, once):
            with self.linelens() as ours:
                return ours.ask("start", method=method, once=once, text=self.functions.of(128)[0])

        def plain(_):
            with self.linelens() as ours:
                return ours.ask("plain session")
        for method in self.arguments.methods:
            # As for one function on the command line, and as in a process that goes on.
            for once in [True, False] if method != "ig" else [False]:
                self.compare("start", 128, min(self.arguments.pairs, 5), lambda _: explained(method, once), plain,
                             variant=f"{method}{', once' if once else ''}")

    def memory(self):
        """One process each, every method used once."""
        for length in self.arguments.lengths:
            ids = self.functions.of(length)[1]
            for name, side, methods in (("linelens", self.linelens, ["attnlrp", "gradient-x-input", "ig"]), ("torch", self.torch, ["ig", "attnlrp"])):
                with side() as process:
                    steps = {"open": process.ask("open"), "forward": process.ask("forward", ids=ids)}
                    steps |= {method: process.ask("relevance", method=method, ids=ids) for method in methods}
                    self.save(section="memory", side=name, length=length,
                              steps={step: {key: answer[key] for key in ("peak", "resident")} for step, answer in steps.items()})

    def compare(self, section, length, pairs, ours, theirs, variant="", warm=True):
        """`warm`: one pair that does not count, before the others."""
        found = {"linelens": [], "torch": []}
        for pair in range(0 if warm else 1, pairs + 1):
            order = [("linelens", ours), ("torch", theirs)]
            for name, side in order if pair % 2 else order[::-1]:
                answer = side(pair)
                if pair > 0:
                    found[name].append(answer)
        self.save(section=section, variant=variant, length=length, pairs=pairs, load=os.getloadavg()[0],
                  seconds={name: statistics.median(a["seconds"] for a in answers) for name, answers in found.items()},
                  cpu={name: statistics.median(a["cpu"] for a in answers) for name, answers in found.items()},
                  peak={name: max(a["peak"] for a in answers) for name, answers in found.items()},
                  ratio=statistics.median(t["seconds"] / o["seconds"] for o, t in zip(found["linelens"], found["torch"])),
                  cpu_ratio=statistics.median(t["cpu"] / max(o["cpu"], 0.01) for o, t in zip(found["linelens"], found["torch"])),
                  difference=difference(found), times={name: [a["seconds"] for a in answers] for name, answers in found.items()})


class Functions:
    """C functions of an exact number of tokens, special tokens included."""

    STATEMENTS = ["if ({0} > {1}) {{ return {2}; }}", "{0} = {1} + {2};", "buffer[{0}] = source[{1}];", "for (int i = 0; i < {0}; i++) {{ total += {1}; }}",
                  "memcpy(buffer, source, {0});", "char *copy = malloc({0} * {1});", "{0}++;", "{0} = {1};", ";", "free(buffer);", "while ({0} < {1}) {{ {0} += {2}; }}"]
    NAMES = ["length", "count", "offset", "size", "index", "limit", "n", "value", "width", "total"]

    def __init__(self, directory):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self.made = {}

    def of(self, tokens, seed=""):
        """The text and its ids; the same arguments give the same text."""
        key = tokens, seed
        if key not in self.made:
            self.made[key] = next(found for attempt in itertools.count() if (found := self.attempt(tokens, f"{tokens} {seed} {attempt}")))
        return self.made[key]

    def attempt(self, tokens, seed):
        choose = random.Random(seed)
        lines, refused = [], 0
        while refused < 40:
            line = "    " + choose.choice(self.STATEMENTS).format(*choose.sample(self.NAMES, 3))
            text, ids = self.encoded(lines + [line])
            if len(ids) == tokens:
                return text, ids
            if len(ids) < tokens:
                lines.append(line)
            else:
                refused += 1
        return None

    def encoded(self, lines):
        text = "\n".join(["int handle(char *buffer, const char *source, int length)", "{", *lines, "}"])
        return text, self.tokenizer.encode(text).ids


def difference(found):
    """Largest difference of what the sides computed, relative to the largest value."""
    ours, theirs = found["linelens"][-1].get("values"), found["torch"][-1].get("values")
    if not ours or not theirs:
        return None
    theirs = theirs if len(ours) == len(theirs) else theirs[1:-1]
    return max(abs(a - b) for a, b in zip(ours, theirs)) / max(map(abs, theirs))


def machine():
    from importlib.metadata import version
    model = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    packages = {name: version(name) for name in ("torch", "transformers", "captum", "lxt", "onnxruntime")}
    return {"date": datetime.date.today().isoformat(), "processor": f"{len(model)} × {model[0]}", "system": platform.platform(),
            "python": platform.python_version(), **packages}


def markdown(results):
    lines = [", ".join(f"{key} {value}" for key, value in results["machine"].items()), "",
             "| what | tokens | linelens s | other s | ratio | CPU ratio | linelens peak MB | other peak MB | difference |", "|---|---|---|---|---|---|---|---|---|"]
    mega = lambda size: f"{size / 1e6:,.0f}"
    for row in results["rows"]:
        if row["section"] == "memory":
            continue
        difference = f"{row['difference']:.1e}" if row["difference"] is not None else ""
        lines.append(f"| {row['section']} {row['variant']} | {row['length']} | {row['seconds']['linelens']:.3f} | {row['seconds']['torch']:.3f} | {row['ratio']:.2f} | "
                     f"{row['cpu_ratio']:.2f} | {mega(row['peak']['linelens'])} | {mega(row['peak']['torch'])} | {difference} |")
    lines += ["", "| memory | tokens | step | resident MB | peak MB |", "|---|---|---|---|---|"]
    for row in (row for row in results["rows"] if row["section"] == "memory"):
        lines += [f"| {row['side']} | {row['length']} | {step} | {mega(at['resident'])} | {mega(at['peak'])} |" for step, at in row["steps"].items()]
    return "\n".join(lines)


def check():
    """Without a model or a package: the statistics and the table of made-up answers (`--check` alone)."""
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        run = Run.__new__(Run)
        run.arguments, run.results = argparse.Namespace(out=pathlib.Path(folder) / "results.json"), {"machine": {}, "rows": []}
        asked = []

        def side(name, seconds):
            def answer(pair):
                asked.append(name)
                return {"seconds": seconds[pair], "cpu": 2.0, "peak": 3e6, "resident": 2e6, "values": [0.0, 1.0, 2.0, 9.0][:4 if name == "torch" else 2]}
            return answer
        run.compare("forward", 128, 3, side("linelens", [9, 1, 2, 4]), side("torch", [9, 2, 8, 4]))
        row, = run.results["rows"]
        assert (row["ratio"], row["seconds"]) == (2, {"linelens": 2, "torch": 4}), row
        assert asked == ["torch", "linelens", "linelens", "torch", "torch", "linelens", "linelens", "torch"], asked
        assert abs(row["difference"] - 0.5) < 1e-9, row["difference"]
        assert "| forward  | 128 | 2.000 | 4.000 | 2.00 | 1.00 | 3 | 3 | 5.0e-01 |" in markdown(run.results), markdown(run.results)


if __name__ == "__main__":
    main()
