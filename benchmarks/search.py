"""The shardings that `auto` finds beside those that an expert has written.

    python -m benchmarks.search ../shared/programs/?_*.mlir --seconds 60

Each program is stripped of its annotations, all but the shape of the grid. A device may store a
tenth more than with the expert's annotations, which rules out that all have everything.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tabulate import tabulate

import shard_dialect as sd
from shard_dialect.ir.grids import grids_of
from shard_dialect.search.evaluate import Objective

MORE_MEMORY = 1.1


def row(path: Path, seconds: float, objective: Objective) -> list[object]:
    """The costs of the expert's shardings, and of those that are found."""
    expert = sd.report(sd.parse(path))
    module = sd.parse(path)
    sd.run_pipeline(module, "import")
    (grid, *_) = grids_of(module.operation).values()
    sd.run_pipeline(module, "erase-sharding")
    limit = int(MORE_MEMORY * expert.memory.peak)
    begin = time.monotonic()
    try:
        found = sd.auto(
            module, grid=grid.shape, objective=objective, memory_limit=limit, seconds=seconds
        )
    except sd.ShardError as error:
        return [path.stem, expert.bytes_moved, str(error)]
    return [
        path.stem,
        expert.bytes_moved,
        found.costs.bytes,
        round(expert.schedule.total * 1e6, 1),
        round(found.costs.seconds * 1e6, 1),
        found.found.evaluated,
        "" if found.found.gap is None else f"{found.found.gap:.1%}",
        "yes" if found.is_proven else "",
        round(time.monotonic() - begin),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--objective", choices=("bytes", "time", "memory"), default="bytes")
    options = parser.parse_args()
    rows = [row(each, options.seconds, options.objective) for each in options.files]
    heads = [
        "program",
        "expert's bytes",
        "found",
        "expert's µs",
        "found",
        "plans",
        "gap",
        "proven",
        "seconds",
    ]
    print(tabulate(rows, heads, intfmt=","))


if __name__ == "__main__":
    main()
