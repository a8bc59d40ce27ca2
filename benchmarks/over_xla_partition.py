"""How fast programs that we have partitioned run, over those that XLA has partitioned.

    python -m benchmarks.run --target xla program.mlir ... [--rounds 15] [--markdown]
    python -m benchmarks.run --target devices program.mlir ...

Programs are StableHLO with Shardy's annotations, as JAX prints them. Ours are compiled by XLA too,
or by our own code for devices that are threads. All have arguments and results sharded alike, and
run in turn in one process; the ratio is of the medians of the time on the wall, below 1 where ours
is faster. Both must compute the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
from tabulate import tabulate

from shard_dialect.abi.lowered_program import Program
from shard_dialect.backends.xla.jax_functions import PartitionedFunction, call_local
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.local_programs import read_local_program
from shard_dialect.runtime.random_inputs import random_inputs

Target = Literal["xla", "devices"]
SECONDS_A_TURN = 0.1
TOLERANCE = 1e-3


def contenders(path: Path, target: Target) -> tuple[list[Callable[[], Any]], int]:
    """What runs our partition, and XLA's, once; and the number of devices."""
    by_xla, devices = _by_xla(path)
    if target == "xla":
        return by_xla, devices
    with make_context():
        executable = compile_sharded(Source.read(str(path)), None)
    world, given = InProcess(devices), inputs(executable.program)
    shards = [executable.program.scatter(given, rank) for rank in world.ranks]
    return [lambda: _Shards(executable, world.run(executable, shards)), by_xla[1]], devices


@dataclass(frozen=True)
class _Shards:
    """The results of devices; iterating gives the global arrays."""

    executable: Executable
    shards: Any

    def __iter__(self) -> Iterator[Any]:
        return iter(self.executable.program.gather(self.shards))


def _by_xla(path: Path) -> tuple[list[Callable[[], Any]], int]:
    import jax

    functions, arguments, devices = by_xla(path)
    return [lambda f=f: jax.block_until_ready(f(*arguments)) for f in functions], devices


def by_xla(path: Path) -> tuple[list[Any], list[Any], int]:
    """Our partition and XLA's, both compiled by XLA, with arguments for them; how many devices."""
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=16")
    import jax

    with make_context(), ir.Location.unknown():
        module = Source.read(str(path)).parse()
        whole = module.operation.get_asm(print_generic_op_form=True)
        run_pipeline(module, "spmd")
        program = read_local_program(module.operation, "main")
        mesh = jax.sharding.Mesh(np.array(jax.devices()[: program.devices]), ("devices",))
        ours = PartitionedFunction.of(module, mesh)
    named = [jax.sharding.NamedSharding(ours.specs.mesh, each) for each in ours.specs.arguments]
    results = [jax.sharding.NamedSharding(ours.specs.mesh, each) for each in ours.specs.results]
    arguments = [jax.device_put(*each) for each in zip(inputs(program), named, strict=True)]
    types = [each.global_type for each in program.results]

    def theirs(*given: Any) -> Any:
        return tuple(call_local(whole, "main", given, types))

    functions = [
        jax.jit(function, in_shardings=named, out_shardings=tuple(results))
        .lower(*arguments)
        .compile()
        for function in (lambda *given: tuple(ours(given)), theirs)
    ]
    return functions, arguments, program.devices


def inputs(program: Program) -> list[Any]:
    return random_inputs([each.global_type for each in program.arguments], 0)


def seconds(runs: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """The median time of each, run in turn."""
    times: list[list[float]] = [[] for _ in runs]
    counts = []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        counts.append(max(1, int(SECONDS_A_TURN / (time.perf_counter() - start))))
    for _ in range(rounds):
        for run, count, found in zip(runs, counts, times, strict=True):
            start = time.perf_counter()
            for _ in range(count):
                run()
            found.append((time.perf_counter() - start) / count)
    return list(map(median, times))


def check(path: Path, results: Sequence[Any]) -> None:
    for ours, theirs in zip(*results, strict=True):
        a, b = (np.asarray(each, np.float64) for each in (ours, theirs))
        if not np.max(np.abs(a - b)) <= TOLERANCE * max(1.0, float(np.max(np.abs(b)))):
            raise RuntimeError(f"{path.name}: the two partitions compute different results")


def show(paths: Sequence[Path], target: Target, rounds: int, markdown: bool) -> None:
    """Print the table for these programs."""
    rows: list[list[object]] = []
    for path in paths:
        runs, devices = contenders(path, target)
        check(path, [run() for run in runs])
        ours, theirs = seconds(runs, rounds)
        rows.append([path.stem, devices, f"{ours * 1e3:.3f}", f"{ours / theirs:.2f}"])
    middle = median(float(str(row[-1])) for row in rows)
    rows.append(["median", "", "", f"{middle:.2f}"])
    head = ["program", "devices", f"ours by {target}, ms", "over XLA's"]
    print(tabulate(rows, head, tablefmt="github" if markdown else "simple"))
