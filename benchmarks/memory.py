"""The memory that the report models beside what XLA says that it takes, and what our code takes.

    python -m benchmarks.memory examples/*.mlir [--layers 2 6] [--training]

For each program, its local form is compiled by XLA, on the CPU's devices, and the bytes of a device
that its `memory_analysis` has (arguments, results and temporaries) are set beside the peak of
`shard-report --allocator=xla`; the arena of our own code, as it is allocated to run, stands beside
the temporaries of `--allocator=arena`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from tabulate import tabulate

import shard_dialect as sd
from benchmarks.decoders import decoder
from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.backends.xla.xla_devices import XlaExecutable
from shard_dialect.ir.bindings import ir
from shard_dialect.runtime.executable import Executable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--layers", nargs="*", type=int, default=[2], help="decoders to add")
    parser.add_argument("--training", action="store_true", help="their training steps, too")
    options = parser.parse_args()
    rows = []
    for name, source in programs(options):
        modelled = sd.report(sd.parse(source), allocator="xla").memory.peak
        ours = sd.report(sd.parse(source), allocator="arena").memory
        outside = sum(each.bytes for each in ours.live_at_peak if each.name == "on its own")
        arena = ours.temporaries - outside
        xla = by_xla(source)
        rows.append([name, modelled, xla, modelled / xla, arena, in_our_code(source)])
    heads = ["program", "modelled", "XLA's", "ratio", "arena reported", "arena allocated"]
    print(tabulate(rows, heads, floatfmt=".3f"))
    close = sum(abs(row[3] - 1) <= 0.1 for row in rows)
    exact = sum(row[4] == row[5] for row in rows)
    print(f"within a tenth of XLA's: {close} of {len(rows)}; arenas exact: {exact} of {len(rows)}")


def programs(options: argparse.Namespace) -> Iterator[tuple[str, str | Path]]:
    for path in options.files:
        yield path.stem, path
    for layers in options.layers:
        yield f"decoder, {layers} layers", decoder(layers)
        if options.training:
            yield f"training step, {layers} layers", decoder(layers, training=True)


def by_xla(source: str | Path) -> int:
    """The bytes of arguments, results and temporaries of a device, without those that share."""
    module = sd.parse(source)
    entry = choose_entry(module.operation, None)
    sd.run_pipeline(module, "spmd")
    with module.context, ir.Location.unknown():
        return XlaExecutable(module, entry).memory()


def in_our_code(source: str | Path) -> int:
    """The bytes of the arena that the compiled program is called with."""
    module = sd.parse(source)
    entry = choose_entry(module.operation, None)
    sd.run_pipeline(module, "spmd,lower")
    return Executable(module, entry).code.arena


if __name__ == "__main__":
    main()
