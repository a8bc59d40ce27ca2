"""The schedule of propagation: when each op is visited, and in which direction.

Each strategy adds one thing to the one before it:

    basic           passes along each factor the axes on which all tensors agree
    aggressive      resolves conflicts (`step`)
    op-priority     five stages, each with the visits of those before it; cheap decisions first
    user-priority   all of that for each priority of the annotations, lower numbers first
    cost            resolves a conflict so that the op and its neighbours move the fewest bytes

The directions in each stage, by the role of the rule:

    role            0              1          2                       3          4
    elementwise,    both, of ops   both       both                    both       both
      pass            used once
    forward         forward        forward    both (free factors)     both       both
    broadcast       -              -          backward (free ones)    backward   both
    other           -              -          both (free factors)     both       both

An op is "used once" if its operands have no other user that a change of sharding could affect. A
factor is free if it is not reduced, needed whole, or permuted.

Source: Shardy, docs/propagation.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.model.rule import Role
from shard_dialect.propagation.step import Direction, PreparedRule

Directions = tuple[Direction, ...]
"""One for each factor."""
STAGES = 5


@dataclass(frozen=True, slots=True)
class Strategy:
    """What a strategy does: resolve conflicts, run in stages, by priority, and by cost.

    With `until_full` a dimension whose shards have one element is not split further. If
    `conservative`, axes are not taken apart, and dimensions that they do not divide not split.
    """

    aggressive: bool = True
    stages: bool = True
    priorities: bool = True
    by_cost: bool = False
    until_full: bool = False
    conservative: bool = False


STRATEGIES = {
    "basic": Strategy(aggressive=False, stages=False, priorities=False),
    "aggressive": Strategy(stages=False, priorities=False),
    "op-priority": Strategy(priorities=False),
    "user-priority": Strategy(),
    "cost": Strategy(by_cost=True, until_full=True),
}

_BY_ROLE: dict[Role, tuple[Direction, ...]] = {
    "elementwise": ("both", "both", "both", "both", "both"),
    "pass": ("both", "both", "both", "both", "both"),
    "forward": ("forward", "forward", "both", "both", "both"),
    "broadcast": ("none", "none", "backward", "backward", "both"),
    "other": ("none", "none", "both", "both", "both"),
}


def directions(prepared: PreparedRule, role: Role, used_once: bool, stage: int) -> Directions:
    """The direction in which a stage passes shardings along each factor."""
    direction = _BY_ROLE[role][stage]
    earlier: Direction = "none"
    if stage == 0 and not used_once:
        direction = "none"
    if stage == 2:
        earlier = _BY_ROLE[role][1]
    count = len(prepared.sizes)
    if stage == 2 and role not in ("elementwise", "pass"):
        return tuple(
            earlier if factor in prepared.special else direction for factor in range(count)
        )
    return (direction,) * count
