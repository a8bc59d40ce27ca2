"""The arithmetic of one device: flops and bytes by op, repeated work, and uneven work.

%1 = stablehlo.dot_general %x, %w : (4x8, 8x16)     1024 flops on each of 8 devices;
                                                    4 of them have the same operands: 768 of
                                                    these are repeated
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from shard_dialect.analysis.costs.local_ops import LocalProgram, Op
from shard_dialect.analysis.costs.varying_values import distinct_devices
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait


@dataclass(frozen=True, slots=True)
class OpCompute:
    """The arithmetic of one op on one device, all its runs together."""

    name: str
    location: str | None
    result: str
    """The type of the first result, as `2x4xf32`."""
    times: int
    """How often the op runs."""
    flops: int
    elementary: int
    """How many of the flops are elementary functions, such as `exp`."""
    bytes: int
    """The bytes that the op reads and writes, as if nothing were fused."""
    repeated_flops: int
    """The part of the flops that is not needed if each result is computed on one device only."""
    copies: float
    """How many devices do the same, on the average."""
    bound: str = "nothing"
    """The bound of its time on the device model: `compute` or `memory`."""


@dataclass(frozen=True, slots=True)
class UnevenTensor:
    """A tensor whose shards are not of one size; devices compute on the largest."""

    name: str
    location: str | None
    dim: int
    local_size: int
    """The size of the dimension on every device, padding included."""
    sizes: tuple[int, ...]
    """The sizes of the shards without padding, by position along the axes of the dimension."""

    @property
    def padding(self) -> float:
        """The part of all elements that is padding: of what devices compute, nobody needs it."""
        return 1 - sum(self.sizes) / (self.local_size * len(self.sizes))


@dataclass(frozen=True, slots=True)
class Compute:
    """The arithmetic of one device."""

    flops: int
    elementary: int
    bytes: int
    repeated_flops: int
    devices: int
    ops: tuple[OpCompute, ...]
    """The ops with arithmetic, the most flops first."""
    uneven: tuple[UnevenTensor, ...]
    unknown: tuple[str, ...]
    """The names of ops of whose arithmetic nothing is known; they count as none."""
    open_loops: tuple[str, ...]
    """The locations of loops that count once, since how often they run is not known."""


def compute_of(
    program: LocalProgram, bound_of: Callable[[Op], str] = lambda op: "nothing"
) -> Compute:
    """Count the arithmetic of one device: all trips of loops, and of branches the one with most.

    `bound_of` tells what bounds the time of an op.
    """
    devices, distinct_of = program.devices // program.positions, distinct_devices(program)
    counted: dict[int, OpCompute] = {}
    unknown: dict[str, None] = {}
    open_loops: dict[str, None] = {}
    total_bytes = 0
    for op, times, _ in program.walk(most=True):
        if op.trips is None:
            open_loops[op.location or op.name] = None
        moved = bytes_touched(op) * times
        total_bytes += moved
        flops = op.flops
        if flops is None:
            unknown[op.name] = None
        if not flops or not flops.total:
            continue
        distinct = min(distinct_of[id(op)], devices)
        repeated = flops.total * times * (devices - distinct) // devices
        before = counted.get(id(op))
        counted[id(op)] = OpCompute(
            op.name,
            op.location,
            next((str(each.tensor) for each in op.results), ""),
            times + (before.times if before else 0),
            flops.total * times + (before.flops if before else 0),
            flops.elementary * times + (before.elementary if before else 0),
            moved + (before.bytes if before else 0),
            repeated + (before.repeated_flops if before else 0),
            devices / distinct,
            bound_of(op),
        )
    ops = sorted(counted.values(), key=lambda each: -each.flops)
    return Compute(
        sum(each.flops for each in ops),
        sum(each.elementary for each in ops),
        total_bytes,
        sum(each.repeated_flops for each in ops),
        devices,
        tuple(ops),
        tuple(_uneven(program)),
        tuple(unknown),
        tuple(open_loops),
    )


_NOT_IN_MEMORY = frozenset(
    "func.call func.return memref.alloc mesh.done scf.condition scf.yield "
    "stablehlo.optimization_barrier stablehlo.return tensor.cast tosa.yield".split()
)
"""Ops that pass values on, and touch no memory, as views and constants do not."""
_UPDATES = {
    "stablehlo.dynamic_update_slice": slice(1, 2),
    "stablehlo.scatter": slice(-1, None),
    "tensor.insert_slice": slice(0, 1),
    "tensor.parallel_insert_slice": slice(0, 1),
}
"""Ops that write a part of their operand, in place: which of their operands is written."""


def bytes_touched(op: Op) -> int:
    """The bytes that one run of the op reads and writes; those of ops in its regions are theirs."""
    traits = traits_of(op.name)
    is_written = op.name == "stablehlo.iota" or Trait.CONSTANT not in traits
    if op.blocks or op.name in _NOT_IN_MEMORY or Trait.RESHAPES in traits or not is_written:
        return 0
    results = sum(each.bytes for each in op.results)
    if Trait.SLICES in traits or op.name == "shard.all_slice":
        return 2 * results
    if op.name in _UPDATES:
        return 2 * sum(each.bytes for each in op.operands[_UPDATES[op.name]])
    inits = results if op.name in ("linalg.fill", "linalg.broadcast") else 0
    return results + sum(each.bytes for each in dict.fromkeys(op.reads)) - inits


def _uneven(program: LocalProgram) -> Iterable[UnevenTensor]:
    entry = program.entry
    for kind, infos in (("argument", entry.arguments), ("result", entry.results)):
        for number, info in enumerate(infos):
            if info.sharding is not None and info.global_shape is not None and info.tensor:
                grid = program.grids[info.sharding.grid]
                name, place = f"{kind} {number}", info.location
                yield from uneven_dims(name, place, info.global_shape, info.sharding, grid)


def uneven_dims(
    name: str, location: str | None, shape: Shape, sharding: Sharding, grid: Grid
) -> Iterable[UnevenTensor]:
    """The dimensions of a global tensor whose shards are not of one size.

    The sizes are arithmetic on the bounds of the shards, so the number of devices beside those that
    split the dimension does not count.
    """
    for dim, axes in enumerate(sharding.split_axes):
        if not sharding.offsets and shape[dim] % grid.axes_size(axes) == 0:
            continue
        sizes = tuple(b - a for a, b in pairwise(sharding.bounds(dim, shape[dim], grid)))
        if len(set(sizes)) > 1:
            yield UnevenTensor(name, location, dim, max(sizes), sizes)
