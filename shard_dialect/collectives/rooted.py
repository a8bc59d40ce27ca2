"""Steps of the local form with a root, which no reshard uses.

The root is the one device of each group that sends to the others, or receives from them; `root` is
its index along each of `axes`, the same on all devices of a group. Upstream does not define what
the others hold afterwards: here they hold zeros, or their own operand.
Source: upstream's documentation of the `shard` dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import Algorithms, CollectiveRecord, Spelling, log2
from shard_dialect.collectives.step import Index, LocalStep
from shard_dialect.model.grid import Axes, Grid
from shard_dialect.model.sharding import Reduction, Shape


class _Rooted(LocalStep):
    __slots__ = ()
    root: Index
    names: ClassVar[str] = "root"


@dataclass(frozen=True, slots=True)
class Broadcast(_Rooted):
    """Send the root's tensor to every device of its group."""

    axes: Axes
    root: Index
    kind: ClassVar[str] = "broadcast"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once."""
        return prod(operand) * itemsize if n > 1 else 0


@dataclass(frozen=True, slots=True)
class Gather(_Rooted):
    """Send all shards of dimension `dim` to the root, which joins them in group order."""

    dim: int
    axes: Axes
    root: Index
    kind: ClassVar[str] = "gather"
    joins: ClassVar[str] = "dim"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operands that the root receives: n - 1."""
        return (n - 1) * prod(operand) * itemsize


@dataclass(frozen=True, slots=True)
class Scatter(_Rooted):
    """Send every device its shard, along `dim`, of the root's tensor."""

    dim: int
    axes: Axes
    root: Index
    kind: ClassVar[str] = "scatter"
    cuts: ClassVar[str] = "dim"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The shards that the root sends: n - 1 of n."""
        return (n - 1) * prod(operand) * itemsize // n


@dataclass(frozen=True, slots=True)
class Reduce(_Rooted):
    """Reduce the tensors of a group's devices; the root gets the result."""

    axes: Axes
    root: Index
    reduction: Reduction = "sum"
    reduces: ClassVar[bool] = True
    kind: ClassVar[str] = "reduce"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operands that the root receives: n - 1."""
        return (n - 1) * prod(operand) * itemsize


def _root(step: _Rooted, grid: Grid) -> int | None:
    return step.member(grid.sizes_along(step.axes))


def _broadcast_in_mpi(site: Any) -> None:
    with site.on(site.member):
        site.copy()
    site.broadcast(site.member)


def _gather_in_mpi(site: Any) -> None:
    site.clear()
    site.move("Gather", site.source, site.target, site.count, site.member)


def _reduce_in_mpi(site: Any) -> None:
    site.clear()
    if site.reduces_in_mpi:
        site.reduce("Reduce", site.member)
        return
    with site.buffers(site.count * site.size) as (packed,):
        site.move("Gather", site.source, packed, site.count, site.member)
        with site.on(site.member):
            site.combine(packed, site.target)


def _scatter_in_stablehlo(code: Any) -> Any:
    """An all-to-all of which the root's block is taken."""
    dim, blocks = code.step.dim, code.blocks(code.step.dim)
    return code.one_of(
        code.all_to_all(blocks, blocks.type, dim, dim), dim, _root(code.step, code.grid)
    )


# The halves of the operand go around in both directions, in a pipeline.
_AROUND = (("ring", lambda n, a, b: n // 2 * a + b),)

RECORDS = (
    CollectiveRecord(
        Broadcast,
        local=Spelling("shard.broadcast", {"root": ("device", "root")}),
        algorithms=Algorithms(
            on_switch=(
                ("tree", lambda n, a, b: log2(n) * (a + b)),
                ("scatter, ring", lambda n, a, b: (log2(n) + n - 1) * a + 2 * (n - 1) / n * b),
            ),
            on_ring=_AROUND,
            outside_first=True,
        ),
        perform=lambda step, grid, group, *arrays: group.broadcast(*arrays, _root(step, grid)),
        mpi=_broadcast_in_mpi,
        python=("shared", lambda call, step: call("broadcast_from", call.member(step))),
        is_uniform_after=True,
        # An all-gather of which the root's part is taken: exact for every element type.
        stablehlo=lambda code: code.one_of(
            code.stacked(code.operand), 0, _root(code.step, code.grid)
        ),
    ),
    CollectiveRecord(
        Gather,
        local=Spelling(
            "shard.gather", {"root": ("device", "root"), "gather_axis": ("dimension", "dim")}
        ),
        algorithms=Algorithms(
            on_switch=(("tree", lambda n, a, b: log2(n) * a + (n - 1) * b),),
            on_ring=(("ring", lambda n, a, b: n // 2 * a + (n - 1) * b),),
            growth=lambda n: n,
        ),
        perform=lambda step, grid, group, *arrays: group.gather(*arrays, _root(step, grid)),
        mpi=_gather_in_mpi,
        python=("gathered", lambda call, s: call("gather_to", s.dim, call.member(s))),
        stablehlo=lambda code: code.only_on(
            _root(code.step, code.grid), code.all_gather(code.step.dim)
        ),
    ),
    CollectiveRecord(
        Scatter,
        local=Spelling(
            "shard.scatter", {"root": ("device", "root"), "scatter_axis": ("dimension", "dim")}
        ),
        algorithms=Algorithms(
            on_switch=(("tree", lambda n, a, b: log2(n) * a + (n - 1) / n * b),),
            on_ring=(("ring", lambda n, a, b: n // 2 * a + (n - 1) / n * b),),
            growth=lambda n: 1 / n,
            outside_first=True,
        ),
        perform=lambda step, grid, group, *arrays: group.scatter(*arrays, _root(step, grid)),
        mpi=lambda site: site.move(
            "Scatter", site.source, site.target, site.count // site.size, site.member
        ),
        python=("shard", lambda call, s: call("scatter_from", s.dim, call.member(s))),
        stablehlo=_scatter_in_stablehlo,
    ),
    CollectiveRecord(
        Reduce,
        local=Spelling(
            "shard.reduce",
            {"root": ("device", "root"), "reduction": ("reduction", "reduction")},
        ),
        algorithms=Algorithms(
            on_switch=(
                ("tree", lambda n, a, b: log2(n) * (a + b)),
                ("recursive halving", lambda n, a, b: 2 * log2(n) * a + 2 * (n - 1) / n * b),
            ),
            on_ring=_AROUND,
        ),
        perform=lambda step, grid, group, *arrays: group.reduce(
            *arrays, _root(step, grid), step.reduction
        ),
        mpi=_reduce_in_mpi,
        python=(
            "reduced",
            lambda call, s: call.reduced("reduce_to", s.reduction, call.member(s)),
        ),
        stablehlo=lambda code: code.only_on(_root(code.step, code.grid), code.all_reduce()),
    ),
)
