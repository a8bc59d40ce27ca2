"""Read the annotated splits of an op's loops, which are kept whatever they cost.

The annotation is the RFC's `sharding = [[0], [], [1]]` on the op, or a partial sharding of a
result: then the reduction loops are split along exactly the axes over which the result is partial.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.annotation_ops import LOOPS, has_loops, read_loops
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Annotation, Assignment, Axes, Grid, ShardingRule
from shard_dialect.model.axis import axes_text
from shard_dialect.rules.uneven_shards import may_be_uneven


def bound_loops(
    op: ir.Operation, rule: ShardingRule, shardings: Shardings, grid: Grid
) -> Assignment | None:
    """The annotated axes of each factor of the op's rule, or `None` without an annotation.

    If the annotation has fewer lists than the op has loops, the last loops are not split. Raises a
    located `ShardError` if the op cannot be split along these axes.
    """
    with located(op):
        axes_read = read_loops(op, shardings)
        if axes_read is None:
            return None
        name, loops = axes_read
        if name != grid.name:
            raise ShardError(
                f"'{op.name}' op has {LOOPS} on grid @{name}, but its function is on @{grid.name}"
            )
        if len(loops) > len(rule.sizes):
            raise ShardError(
                f"'{op.name}' op has {LOOPS} for {len(loops)} loops: it has {len(rule.sizes)}"
            )
        uneven = may_be_uneven(op, rule)
        for loop, axes in enumerate(loops):
            is_uneven = rule.sizes[loop] % grid.axes_size(axes) != 0
            if axes and (loop in rule.unsplit or (is_uneven and loop not in uneven)):
                raise ShardError(
                    f"'{op.name}' op cannot split loop {loop} of size {rule.sizes[loop]} along "
                    f"axes {axes_text(axes)} of grid {grid}"
                )
    return (*loops, *((),) * (len(rule.sizes) - len(loops)))


Pinned = tuple[tuple[tuple[int, Axes], ...], str | None]
"""Pairs of a loop and its axes, and the name of the grid of these axes."""


def pinned_loops(
    op: ir.Operation,
    rule: ShardingRule,
    known: Sequence[Annotation | None],
    shardings: Shardings,
    grid: Grid,
) -> Pinned:
    """The loops of an op whose splits are annotated, each with its axes.

    `known` has the annotations of the op's results; `grid` is the grid of its function. Raises a
    located `ShardError` for an annotation that the op's rule does not allow.
    """
    if has_loops(op):
        return tuple(enumerate(bound_loops(op, rule, shardings, grid) or ())), grid.name
    partial = [each.sharding for each in known if each is not None and each.sharding.partial]
    if not partial or not rule.reductions:
        return (), None
    grid = shardings.grid(partial[0].grid)
    axes = partial[0].partial
    pinned: list[tuple[int, Axes]] = []
    for factor, _ in rule.reductions:
        divides = rule.sizes[factor] % grid.axes_size(axes) == 0
        pinned.append((factor, axes if divides else ()))
        axes = () if divides else axes
    return tuple(pinned), grid.name
