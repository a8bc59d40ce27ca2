"""The contents that ops require of the padding of uneven shards: a facet of their records.

In an uneven dimension the last shards are padded. Padding may hold anything, because the results
computed from it are padding again. The exceptions are

    reductions over the dimension  need the identity of the reduction
    windows past its end           need the identity too (`ops.uneven_shards`)
    divisions of integers          need ones, since a division by zero ends the program
    indices that are not checked   need zeros, which are always in bounds
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
    """The required contents of an operand's padding along the dimensions of some factors."""

    operand: int
    factors: frozenset[int]
    content: Reduction | int
    """The reduction whose identity it is, or an integer."""

    def element(self, type_: ir.Type) -> ir.Value:
        """The scalar, created at the insertion point, for elements of type `type_`."""
        if isinstance(self.content, int):
            return scalar(ir.IntegerAttr.get(type_, self.content))
        return identity_value(self.content, type_)


PaddingFunction = Callable[[ir.Operation, ShardingRule], "list[Filling] | None"]
"""Returns `None` if the op cannot reduce a padded dimension, whatever the padding holds."""


def identities(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """The reduction's identity in each operand that has a reduced factor."""
    return [
        Filling(number, frozenset({factor}), kind)
        for factor, kind in rule.reductions
        for number, dims in enumerate(rule.operands)
        if number not in rule.inits and dims is not None and any(factor in dim for dim in dims)
    ]


def anything(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """Nothing: a lookup only reads indices of the global tensor, never padding."""
    return []


def identities_of_updates(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """The reduction's identity in the updates of a scatter."""
    first = len(op.results) + 1
    return [each for each in identities(op, rule) if each.operand >= first]


def identities_without_zero_points(*numbers: int) -> PaddingFunction:
    """As `identities`, if the operands `numbers`, the zero points, are zero; else `None`."""

    def padding(op: ir.Operation, rule: ShardingRule) -> list[Filling] | None:
        points = [splat_value(op.operands[number]) for number in numbers]
        are_zero = all(each is not None and each.value == 0 for each in points)
        return identities(op, rule) if are_zero else None

    return padding


def in_second_operand(content: int) -> PaddingFunction:
    """The integer `content` in all padding of the second operand.

    Zeros for indices that the op does not check; ones for divisors, as a division by zero ends the
    program.
    """

    def padding(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
        return [Filling(1, frozenset(range(len(rule.sizes))), content)]

    return padding
