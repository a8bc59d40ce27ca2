"""What random programs that move elements along split dimensions communicate, beside XLA's.

    python -m benchmarks.affine --programs 100 [--seed 0] [--partitioner gspmd|shardy] [--list]
    python -m benchmarks.affine --programs 100 [--seed 0] --compiled [--list]

Pads, slices, reversals, concatenations, updates, rolls and windows of tensors that are split on two
to eight devices (`tests.testing.affine_program`). For each program the bytes that a device
moves, by the cost model, in our partition and in XLA's, whose all-reduce of which only a slice is
read counts as the reduce-scatter that it is on GPUs. "More" is by more than a tenth and 64 bytes.

With `--compiled` XLA compiles both partitions, and the table has what it says of one device: the
bytes of arguments, results and buffers, those that ops read and write, and operations on floats.
"More" is by more than a twentieth, and 256 bytes (64 operations): buffers are multiples of 64.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks import children, ours
from benchmarks.tally import beside, is_more
from tests.testing.affine_program import AffineProgram


def by_xla(seeds: range, partitioner: str) -> Iterator[tuple[int, int | None]]:
    """Each seed with the bytes of XLA's partition; `None` where it has none."""
    command = ["benchmarks.affine", "--peer", partitioner]
    found = children.in_children(command, [*map(str, seeds)], lambda _: None)
    return zip(seeds, found, strict=True)


def _bytes_of_peer(seed: str, partitioner: str) -> int | None:
    from benchmarks import hlo, xla_peer

    try:
        moved = hlo.tally_of(xla_peer.compiled(AffineProgram(int(seed)).text(), partitioner))
    except (ValueError, RuntimeError):
        return None
    return moved.bytes_moved


_KINDS = {"memory": 256, "bytes read and written": 256, "operations": 64}
"""What XLA says of a compiled program, each with what is no difference."""


def _compiled(seed: str, folder: Path) -> list[list[float]] | None:
    """The figures of our partition and of XLA's; `None` where XLA has none."""
    from benchmarks.over_xla_partition import by_xla

    path = folder / "program.mlir"
    path.write_text(AffineProgram(int(seed)).text())
    try:
        functions, _, _ = by_xla(path)
    except (ValueError, RuntimeError):
        return None
    return [_figures(each) for each in functions]


def _figures(compiled: Any) -> list[float]:
    held, cost = compiled.memory_analysis(), compiled.cost_analysis()
    sizes = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    memory = sum(getattr(held, each) for each in sizes)
    return [memory, cost.get("bytes accessed", 0), cost.get("flops", 0)]


def _show_compiled(seeds: range, with_names: bool) -> None:
    """Print the table of what XLA says of both partitions."""
    command = ["benchmarks.affine", "--peer", "compiled"]
    found = children.in_children(command, [*map(str, seeds)], lambda _: None)
    both = {seed: each for seed, each in zip(seeds, found, strict=True) if each is not None}
    rows, more = [], []
    for number, (kind, least) in enumerate(_KINDS.items()):
        pairs = {seed: (own[number], other[number]) for seed, (own, other) in both.items()}
        own, other = (sum(each) for each in zip(*pairs.values(), strict=True))
        above = [s for s, (a, b) in pairs.items() if a > 1.05 * b + least]
        below = sum(b > 1.05 * a + least for a, b in pairs.values())
        rows.append([kind, f"{own:,.0f}", f"{other:,.0f}", f"{own / other:.2f}", len(above), below])
        more += [f"--seed {s} --programs 1: {kind}: {pairs[s]}" for s in above]
    print(f"{len(both)} programs, without {len(seeds) - len(both)} of which XLA makes nothing")
    heads = ["", "ours", "XLA's", "ratio", "more", "less"]
    print(
        tabulate(rows, heads, tablefmt="plain", intfmt=",", floatfmt=(".0f", ".0f", ".0f", ".2f"))
    )
    print("\n".join(more if with_names else []))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--partitioner", choices=["gspmd", "shardy"], default="gspmd")
    parser.add_argument("--list", action="store_true", help="name the programs that move more")
    parser.add_argument("--compiled", action="store_true", help="compare memory and operations")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.programs)
    if options.peer == "compiled":
        with tempfile.TemporaryDirectory() as folder:
            children.answer(_compiled(each, Path(folder)) for each in children.asked())
    if options.compiled:
        _show_compiled(seeds, options.list)
        return
    if options.peer:
        children.answer(_bytes_of_peer(each, options.peer) for each in children.asked())
        return
    theirs = dict(by_xla(seeds, options.partitioner))
    mine: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.mlir")
        for seed in seeds:
            path.write_text(AffineProgram(seed).text())
            tally = ours.count(path).tally
            if tally is not None:
                mine[seed] = tally.bytes_moved
    both = {seed: (mine[seed], other) for seed in mine if (other := theirs[seed]) is not None}
    rows = [
        ["programs", len(seeds)],
        ["refused by us", len(seeds) - len(mine)],
        ["refused by XLA", sum(other is None for other in theirs.values())],
        *beside(both.values(), "XLA"),
    ]
    print(tabulate(rows, tablefmt="plain", intfmt=","))
    for seed, (own, other) in sorted(both.items()) if options.list else ():
        if is_more(own, other):
            print(f"--seed {seed} --programs 1: {own:,} over {other:,}")


if __name__ == "__main__":
    main()
