"""Loops whose split is said, whatever it costs.

By the RFC's `sharding = [[0], [], [1]]` on the op, or by a result that is said to be partial: its
reduction loops are split along just these axes.
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
from shard_dialect.rules.uneven import may_be_uneven


def bound_loops(
    op: ir.Operation, rule: ShardingRule, shardings: Shardings, grid: Grid
) -> Assignment | None:
    """The axes that split each factor of the op's rule as the op asks, or `None` if it does not.

    Fewer lists than loops leave the last ones whole.
    """
    with located(op):
        found = read_loops(op, shardings)
        if found is None:
            return None
        name, loops = found
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
"""Loops with their axes, and the grid that these are of."""


def pinned_loops(
    op: ir.Operation,
    rule: ShardingRule,
    known: Sequence[Annotation | None],
    shardings: Shardings,
    grid: Grid,
) -> Pinned:
    """The loops of an op, in a function on `grid`, whose split is said; `known` of its results."""
    if has_loops(op):
        return tuple(enumerate(bound_loops(op, rule, shardings, grid) or ())), grid.name
    partial = [said.sharding for said in known if said is not None and said.sharding.partial]
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
