"""The shardings that `auto` finds beside those that an expert has written.

    python -m benchmarks.search ../shared/programs/?_*.mlir --seconds 60
    python -m benchmarks.search decoder llama vit --objective time

Each program is stripped of its annotations, all but the shape of the grid. A device may store a
tenth more than with the expert's annotations, which rules out that all have everything. Those of
`searched_programs` have an expert for each shape of a grid of eight devices, with ZeRO-3 and
without, of whom the best in modelled time counts; the search chooses the shape, too.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from tabulate import tabulate

import shard_dialect as sd
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.grids import grids_of
from shard_dialect.search.evaluate import Objective

MORE_MEMORY = 1.1


def of_file(path: Path) -> tuple[sd.Report, ir.Module, dict[str, Any]]:
    """The expert's report, the program without annotations, and what the search is told."""
    expert = sd.report(sd.parse(path))
    module = sd.parse(path)
    sd.run_pipeline(module, "import")
    (grid, *_) = grids_of(module.operation).values()
    sd.run_pipeline(module, "erase-sharding")
    return expert, module, {"grid": grid.shape}


def of_name(name: str) -> tuple[sd.Report, ir.Module, dict[str, Any]]:
    """The same for one of `searched_programs`."""
    from benchmarks.searched_programs import DEVICES, GRIDS, module

    experts = [
        sd.report(sd.parse(module(name, grid, zero))) for grid in GRIDS for zero in (False, True)
    ]
    best = min(experts, key=lambda each: each.schedule.total)
    return best, sd.parse(module(name)), {"devices": DEVICES}


def row(given: str, seconds: float, objective: Objective) -> list[object]:
    """The costs of the expert's shardings, and of those that are found."""
    path = Path(given)
    expert, module, devices = of_file(path) if path.suffix else of_name(given)
    limit = int(MORE_MEMORY * expert.memory.peak)
    begin = time.monotonic()
    try:
        found = sd.auto(module, objective=objective, memory_limit=limit, seconds=seconds, **devices)
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
    parser.add_argument("programs", nargs="+", help="files, or names of searched_programs")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--objective", choices=("bytes", "time", "memory"), default="bytes")
    options = parser.parse_args()
    rows = [row(each, options.seconds, options.objective) for each in options.programs]
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
