"""Mutated modules in all three vocabularies: each ends in success or in a located error.

    python -m tests.ir.fuzz_reader --cases 20000 --seed 0

A case is a file of this repository, or a part of one, with a few of its tokens deleted, swapped,
repeated, exchanged for others or changed in value; `opt` reads it and runs a few passes. Cases run
one after the other in a child. Where MLIR's parser ends it, `opt` reads the case again as users run
it, and has to end in a located error all the same.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Literal, get_args

from shard_dialect.ir.sdy.sdy_spelling import pretty_edits

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "examples",
    *(f"tests/lit/{name}" for name in ("dialect", "import", "materialize", "propagate", "sdy")),
)
TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%@#!^][\w.$-]+|0x[0-9A-Fa-f]+|\d+|[A-Za-z_][\w.$]*|//[^\n]*|\s+|->|.',
    re.DOTALL,
)
NUMBERS = (0, 1, 2, 3, 5, 7, 64, 1000, 2**15, 2**31, 2**32, 2**63 - 1, 2**63, -1, -(2**63))
PASSES = (
    [],
    ["--import"],
    ["--propagate"],
    ["--spmd"],
    ["--spmd", "--lower"],
    ["--export-shard"],
    ["--export-mesh"],
    ["--export-sdy"],
    ["--erase-sharding"],
    ["--canonicalize", "--cse"],
)
Kind = Literal["plain", "pretty"]
"""Of texts: those that the bindings read, and those that only jaxlib does."""
SECONDS = 30
"""Longer than any case may take."""
LOCATED = re.compile(r"^\S*:\d+:\d+: error: ", re.MULTILINE)


def corpus(kind: Kind = "plain") -> list[str]:
    """The modules to start from, which are right, in the order of their files' names."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.mlir"))]
    parts = [
        part
        for path in files
        if not path.stem.endswith("_invalid")
        for part in path.read_text().split("// -----")
    ]
    right = [part for part in parts if part.strip() and "expected-error" not in part]
    return [part for part in right if (pretty_edits(part) is None) == (kind == "pretty")]


def mutated(text: str, rng: random.Random, words: list[str]) -> str:
    """`text` with one to four of its tokens changed."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        solid = [place for place, token in enumerate(tokens) if not token.isspace()]
        if not solid:
            break
        place, other = rng.choice(solid), rng.choice(solid)
        action = rng.randrange(7)
        if action == 0:
            del tokens[place]
        elif action == 1:
            tokens[place], tokens[other] = tokens[other], tokens[place]
        elif action == 2:
            tokens.insert(place, tokens[other])
        elif action == 3:
            tokens[place] = rng.choice(words)
        elif action == 4:
            tokens = tokens[:place] if rng.random() < 0.2 else tokens
        else:
            numbers = [p for p in solid if tokens[p].isdigit()]
            if numbers:
                tokens[rng.choice(numbers)] = str(rng.choice(NUMBERS))
    return "".join(tokens)


def outcome(path: Path, passes: list[str]) -> str:
    """What `opt` makes of a file: "accepted", "refused", or what is wrong with how it ended."""
    from shard_dialect.opt import main

    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = main([str(path), *passes, "-o", os.devnull])
        except SystemExit as left:
            return f"left with {left.code}"
        except BaseException as error:  # whatever it is, it is to be reported
            return f"traceback: {type(error).__name__}: {error}"
    if status == 0:
        return "accepted"
    return "refused" if LOCATED.search(errors.getvalue()) else f"no place: {errors.getvalue()}"


def work(first: int, count: int, seed: int, folder: Path, kind: Kind) -> None:
    """The child: `count` cases from `first` on, each outcome on a line as soon as it is known."""
    texts = corpus(kind)
    words = [word for text in texts for word in TOKEN.findall(text) if not word.isspace()]
    file = folder / "case.mlir"
    for case in range(first, first + count):
        rng = random.Random(f"{seed}/{case}")
        text = mutated(rng.choice(texts), rng, words)
        passes = rng.choice(PASSES)
        file.write_text(text)
        print(f"case {case} {' '.join(passes)}", flush=True)
        signal.alarm(SECONDS)
        result = outcome(file, list(passes))
        signal.alarm(0)
        if result not in ("accepted", "refused"):
            (folder / f"case-{case}.mlir").write_text(text)
        print(f"done {result!r}", flush=True)


def fuzz(
    cases: int, seed: int, folder: Path, kind: Kind = "plain"
) -> tuple[Counter[str], list[str]]:
    """The counts of outcomes, and a line for each that is wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    at = 0
    while at < cases:
        command = [sys.executable, "-m", "tests.ir.fuzz_reader", "--child", str(at)]
        command += ["--cases", str(cases - at), "--seed", str(seed), "--folder", str(folder)]
        command += ["--texts", kind]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            assert child.stdout is not None
            running = ""
            for line in child.stdout:
                if line.startswith("case "):
                    running = line.strip()
                    at = int(line.split()[1]) + 1
                elif line.startswith("done "):
                    result = line.strip()[6:-1]
                    ended = result if result in ("accepted", "refused") else "wrong"
                    counts[ended] += 1
                    if ended == "wrong":
                        wrong.append(f"{running}: {result}")
                    running = ""
        if running:
            kept = folder / f"case-{at - 1}.mlir"
            kept.write_text((folder / "case.mlir").read_text())
            try:
                alone = subprocess.run(
                    [sys.executable, "-m", "shard_dialect.opt", str(kept), *running.split()[2:]],
                    cwd=ROOT,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired:
                counts["wrong"] += 1
                wrong.append(f"{running}: not done after {SECONDS} s; see {kept}")
                continue
            # In a pass it might be ours, by ops that are erased while they are in use.
            is_told = alone.returncode == 1 and "in the parser" in alone.stderr
            is_told = is_told and LOCATED.search(alone.stderr) is not None
            counts["refused, MLIR crashed" if is_told else "wrong"] += 1
            if not is_told:
                wrong.append(f"{running}: the process ended with {child.returncode}; see {kept}")
        elif child.returncode:
            raise RuntimeError(f"the child failed with {child.returncode} at case {at}")
    return counts, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", choices=get_args(Kind), default="plain")
    parser.add_argument("--folder", type=Path, help="where to keep the files of wrong cases")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="fuzz-reader-"))
    if options.child is not None:
        work(options.child, options.cases, options.seed, folder, options.texts)
        return 0
    counts, wrong = fuzz(options.cases, options.seed, folder, options.texts)
    for line in wrong:
        print(line)
    print(f"{sum(counts.values())} cases, seed {options.seed}: {dict(sorted(counts.items()))}")
    print(
        f"{len(corpus(options.texts))} modules to start from; files of wrong cases are in {folder}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
