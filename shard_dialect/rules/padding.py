"""What the padding of uneven shards must hold: the functions of an op's record.

Where devices do not divide a dimension their last shards are padded. Anything may be there: what an
op makes of it is padding again. But for

    reductions over the dimension  they need the reduction's identity there
    windows past its end           the same (`rules.uneven` reads it off the rule)
    divisions of integers          they need ones: by zero the program would end
    indices that are not checked   they need zeros, which can be read at
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import scalar, splat_value
from shard_dialect.ir.building.reductions import identity_value
from shard_dialect.model import Reduction, ShardingRule


@dataclass(frozen=True, slots=True)
class Filling:
    """What the padding of an operand must hold along the dimensions of some factors."""

    operand: int
    factors: frozenset[int]
    content: Reduction | int
    """The reduction whose identity it is, or an integer."""

    def element(self, type_: ir.Type) -> ir.Value:
        if isinstance(self.content, int):
            return scalar(ir.IntegerAttr.get(type_, self.content)).results[0]
        return identity_value(self.content, type_)


PaddingFunction = Callable[[ir.Operation, ShardingRule], "list[Filling] | None"]
"""`None` where the op, as it stands, cannot reduce padding whatever that holds."""


def identities(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """Each operand that has a reduced factor holds the reduction's identity."""
    return [
        Filling(number, frozenset({factor}), kind)
        for factor, kind in rule.reductions
        for number, dims in enumerate(rule.operands)
        if number not in rule.inits and dims is not None and any(factor in dim for dim in dims)
    ]


def anything(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """What a lookup finds is inside of the global tensor, so it is no padding."""
    return []


def identities_of_updates(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """Where the updates of a scatter are padding, joining them must change nothing."""
    first = len(op.results) + 1
    return [each for each in identities(op, rule) if each.operand >= first]


def identities_without_zero_points(*numbers: int) -> PaddingFunction:
    """Where the zero points at `numbers` are zeros, so that elements of zero count for nothing."""

    def padding(op: ir.Operation, rule: ShardingRule) -> list[Filling] | None:
        points = [splat_value(op.operands[number]) for number in numbers]
        are_zero = all(each is not None and each.value == 0 for each in points)
        return identities(op, rule) if are_zero else None

    return padding


def valid_indices(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """The second operand says where to read or write, and the op does not check it."""
    return [Filling(1, frozenset(range(len(rule.sizes))), 0)]


HARMLESS = {
    "arith.ceildivsi": 1,
    "arith.ceildivui": 1,
    "arith.divsi": 1,
    "arith.divui": 1,
    "arith.floordivsi": 1,
    "arith.remsi": 1,
    "arith.remui": 1,
    "math.ipowi": 0,
    "tosa.intdiv": 1,
}
"""Ops that end the program for some second operands, and one for which they do not."""


def harmless_operand(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """The second operand holds what does not end the program."""
    return [Filling(1, frozenset(range(len(rule.sizes))), HARMLESS[op.name])]
