"""What passes shardings on: ops by their rules, barriers one way, groups among their members."""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.annotation import has_loops
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.program import Function, Op
from shard_dialect.ir.shardings import Shardings
from shard_dialect.model import Assignment, Grid, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.loops import bound_loops
from shard_dialect.rules import rule_of

GROUP = "mesh.sharding_group"
BARRIER = "mesh.propagation_barrier"


@dataclass(frozen=True, slots=True)
class Passage:
    """An op and the rule by which it passes shardings on.

    `loops` is the split that it asks for, if any; `to` is "both", "forward" to its results, or
    "backward" to its operands.
    """

    op: Op
    rule: ShardingRule
    loops: Assignment | None = None
    to: str = "both"


def passages_of(function: Function, shardings: Shardings, grid: Grid) -> list[Passage]:
    """The passages of a function in the order of its ops, groups where their first op stands."""
    found = []
    groups: dict[int, list[Op]] = {}
    for op in function.ops:
        if op.name == GROUP:
            number = op.handle.attributes["group_id"].value
            if number not in groups:
                groups[number] = []
                found.append(groups[number])
            groups[number].append(op)
        else:
            found.append([op])
    passages = (_passage(ops, function, shardings, grid) for ops in found)
    return [each for each in passages if each is not None]


def _passage(ops: list[Op], function: Function, shardings: Shardings, grid: Grid) -> Passage | None:
    op = ops[0]
    shape = function.values[op.operands[0]].shape if op.operands else None
    if op.name == GROUP:
        return _group(ops, function, shape)
    if op.name in ("mesh.annotate", BARRIER):
        to = op.handle.attributes["allowed_direction"].value if op.name == BARRIER else "both"
        sizes = (None,) * (len(op.operands) - 1)
        dims = _each_dimension(shape)
        rule = ShardingRule(shape or (), (dims, *sizes), (dims,))
        return None if to == "none" else Passage(op, rule, to=to)
    rule_by_name = rule_of(op.handle)
    if rule_by_name is not None:
        return Passage(op, rule_by_name, bound_loops(op.handle, rule_by_name, shardings, grid))
    if has_loops(op.handle):
        raise error_at(
            op.location,
            f"'{op.name}' op says how its loops are split, and has no rule that says what they are",
        )
    return None


def _group(ops: list[Op], function: Function, shape: Shape | None) -> Passage:
    """All members' dimensions are split alike."""
    for op in ops:
        other = function.values[op.operands[0]].shape
        if other != shape or shape is None:
            raise error_at(
                op.location,
                f"'{GROUP}' op groups a tensor of shape {_shown(other)} with one of shape "
                f"{_shown(shape)}: expected known and equal shapes",
            )
    members = tuple(op.operands[0] for op in ops)
    rule = ShardingRule(shape or (), (_each_dimension(shape),) * len(members), ())
    return Passage(Op(ops[0].handle, GROUP, members, ()), rule)


def _each_dimension(shape: Shape | None) -> tuple[tuple[int, ...], ...]:
    return tuple((dim,) for dim in range(len(shape or ())))


def _shown(shape: Shape | None) -> str:
    return "that is not known" if shape is None else str(list(shape))
