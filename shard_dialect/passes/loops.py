"""The RFC's `sharding = [[0], [], [1]]` on an op: how its loops are split, whatever it costs."""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.annotation import LOOPS, read_loops
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import Assignment, Grid, ShardingRule
from shard_dialect.model.axis import axes_text


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
        for loop, axes in enumerate(loops):
            if axes and (loop in rule.unsplit or rule.sizes[loop] % grid.axes_size(axes)):
                raise ShardError(
                    f"'{op.name}' op cannot split loop {loop} of size {rule.sizes[loop]} along "
                    f"axes {axes_text(axes)} of grid {grid}"
                )
    return (*loops, *((),) * (len(rule.sizes) - len(loops)))
