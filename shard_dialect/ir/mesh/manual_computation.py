"""Manual computations: regions in which tensors are shards along some axes of the grid.

    %1 = scf.execute_region -> tensor<16x8xf32> no_inline {
      %a = "mesh.to_local"(%x) {manual_axes = [0], sharding = #mesh.shard<@g, [[0, 1], []]>} : ...
      %b = math.tanh %a : tensor<8x8xf32>
      %y = "mesh.to_global"(%b) {manual_axes = [0], sharding = #mesh.shard<@g, [[0, 1], []]>} : ...
      scf.yield %y : tensor<16x8xf32>
    } {mesh.manual_axes = [0]}

They may be nested: in the inner one, the axes of both are manual. `model.manual_boundary` defines
the boundary ops `mesh.to_local` and `mesh.to_global`.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.annotation_ops import annotation_in, default_grid
from shard_dialect.ir.mesh.attributes import MANUAL, i64_array, ints
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, Axes, Grid, ManualBoundary, Sharding

TO_LOCAL = "mesh.to_local"
TO_GLOBAL = "mesh.to_global"
BOUNDARY_OPS = (TO_LOCAL, TO_GLOBAL)


def is_manual(op: ir.Operation) -> bool:
    """Whether `op` is a manual computation."""
    return op.name == "scf.execute_region" and MANUAL in op.attributes


def manual_computations(function: ir.Operation) -> list[ir.Operation]:
    """The manual computations in a function, each before those inside it."""
    return [op for op in walk(function) if is_manual(op)]


def computations_around(op: ir.Operation) -> Iterator[ir.Operation]:
    """The manual computations around an op, the innermost first."""
    around = op.parent
    while around is not None and around.name != "builtin.module":
        if is_manual(around.operation):
            yield around.operation
        around = around.parent


def manual_axes_at(op: ir.Operation) -> tuple[int, ...]:
    """The axes that are manual for an op, sorted."""
    axes = {axis for around in computations_around(op) for axis in ints(around.attributes[MANUAL])}
    return tuple(sorted(axes))


def outside_value(op: ir.Operation) -> ir.Value:
    """The tensor outside, of a boundary op."""
    return op.operands[0] if op.name == TO_LOCAL else op.results[0]


def boundary_of(op: ir.Operation, shardings: Shardings) -> ManualBoundary:
    """The manual boundary of a boundary op. Raises `ShardingError`."""
    annotation = annotation_in(op, "sharding", outside_value(op).type, shardings)
    return ManualBoundary(
        annotation, tuple(ints(op.attributes["manual_axes"])), shardings.grid(annotation.grid)
    )


def write_boundary(
    op: ir.Operation, boundary: ManualBoundary, outside: Sharding, shardings: Shardings
) -> None:
    """Set the sharding of a boundary op to `outside`, with the manual axes of `boundary`."""
    op.attributes["sharding"] = shardings.write(outside)
    write_manual_axes(op, "manual_axes", boundary.manual)


def write_manual_axes(op: ir.Operation, key: str, axes: Axes) -> None:
    """Set the op's attribute `key` to these axes, without sub-axes."""
    op.attributes[key] = i64_array([axis for axis in axes if isinstance(axis, int)])


def grid_of(computation: ir.Operation, shardings: Shardings) -> Grid:
    """The grid whose axes are manual: that of its boundary ops, or of computations around it."""
    for around in (computation, *computations_around(computation)):
        for op in operations(body(around)):
            if op.name in BOUNDARY_OPS:
                return boundary_of(op, shardings).grid
    names = list(shardings.grids)[:1]
    return shardings.grid(names[0] if names else default_grid(computation))


def anything(grid: Grid, rank: int) -> Annotation:
    """The annotation of a tensor on this grid whose dimensions are all unsplit and open."""
    return Annotation(Sharding.replicated(grid.name, rank), open=tuple(range(rank)))
