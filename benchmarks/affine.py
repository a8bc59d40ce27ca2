"""What random programs that move elements along split dimensions communicate, beside XLA's.

    python -m benchmarks.affine --programs 100 [--seed 0] [--partitioner gspmd|shardy] [--list]

Pads, slices, reversals, concatenations, updates, rolls and windows of tensors that are split on two
to eight devices (`shard_dialect.testing.affine_program`). For each program the bytes that a device
moves, by the cost model, in our partition and in XLA's, whose all-reduce of which only a slice is
read counts as the reduce-scatter that it is on GPUs. "More" is by more than a tenth and 64 bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from benchmarks import children, ours
from benchmarks.tally import beside, is_more
from shard_dialect.testing.affine_program import AffineProgram


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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--partitioner", choices=["gspmd", "shardy"], default="gspmd")
    parser.add_argument("--list", action="store_true", help="name the programs that move more")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.programs)
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
