"""The CPU time of a proof beside that of `--spmd`, in one process that has run both before.

    python -m benchmarks.proof_times examples/*.mlir tests/rfc/*.mlir [--runs 3]

A program in the local form is compared with the last one before it that is not.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

from tabulate import tabulate

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline

FIRST = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


def measured(source: Source, unsharded: Source | None) -> tuple[str, float, float]:
    """The answer, and the seconds of `--spmd` and of the proof."""
    with make_context():
        start = time.process_time()
        module = source.parse()
        run_pipeline(module, "spmd")
        between = time.process_time()
        try:
            proof = sd.prove(source.parse(), module)
        except ShardError:
            if unsharded is None:
                raise
            proof = sd.prove(unsharded.parse(), module)
        end = time.process_time()
    return str(proof), between - start, end - between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=Path, nargs="+")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ShardWarning)
    measured(Source.of(FIRST), None)
    rows, before = list[list[str]](), None
    for path in options.programs:
        source = Source.read(str(path))
        try:
            runs = [measured(source, before) for _ in range(options.runs)]
        except ShardError as error:
            rows.append([path.stem, str(error).partition("\n")[0], "", "", ""])
            continue
        before = source
        answer, spmd, proof = runs[0][0], min(run[1] for run in runs), min(run[2] for run in runs)
        rows.append([path.stem, answer, f"{spmd:.3f}", f"{proof:.3f}", f"{proof / spmd:.1f}"])
    print(tabulate(rows, ["program", "answer", "--spmd", "proof", "ratio"], "github"))


if __name__ == "__main__":
    main()
