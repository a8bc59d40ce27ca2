"""Kinds of ops: programs repeat their layers, so results are computed once for all equal ops.

Two ops are of one kind if no sharding rule can tell them apart: they have one name, the same
attributes and regions, and values of the same types. Results that follow from an op's rule and from
shardings are kept in dictionaries with the kind as a key. Facts that depend on the ops that make an
operand, such as whether it is a constant, do not follow from the kind.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.numbered_function import Kind, Op, Value
from shard_dialect.ir.walk import has_own_body, operations
from shard_dialect.model import ShardingRule
from shard_dialect.ops import op_table, rule_of
from shard_dialect.ops.op_table import is_registered, traits_of
from shard_dialect.ops.scalar_functions import Trait


@dataclass(frozen=True, eq=False, slots=True)
class OpKind:
    """Ops that are alike. Kinds are equal only if they are the same object."""

    rule: ShardingRule | None


class OpKinds:
    """The kinds of one module's ops. Equal rules are one object."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, OpKind] = {}
        self._rules: dict[ShardingRule | None, ShardingRule | None] = {}

    def kind_of(
        self, handle: ir.Operation, name: str, operands: tuple[Kind, ...], results: tuple[Kind, ...]
    ) -> OpKind:
        """The kind of an op; the key has all that a built-in rule may depend on.

        The rule of a user may depend on anything, so his ops are all of different kinds.
        """
        if is_registered(name):
            return OpKind(self._rule(handle))
        is_by_neighbours = op_table.may_be_collective(name) or Trait.BY_NEIGHBOURS in traits_of(
            name
        )
        by_neighbours = self._rule(handle) if is_by_neighbours else None
        attributes = tuple(handle.attributes.items()) if name not in build.CONSTANTS else None
        key = (name, operands, results, attributes, _body_of(handle, name), id(by_neighbours))
        kind = self._kinds.get(key)
        if kind is None:
            rule = by_neighbours if is_by_neighbours else self._rule(handle)
            kind = self._kinds[key] = OpKind(rule)
        return kind

    def _rule(self, handle: ir.Operation) -> ShardingRule | None:
        rule = rule_of(handle)
        return self._rules.setdefault(rule, rule)

    def kind_in(self, values: Sequence[Value], op: Op) -> OpKind:
        """The kind of an op of a function with these values."""
        operands = tuple([values[value].kind for value in op.operands])
        results = tuple([values[value].kind for value in op.results])
        return self.kind_of(op.handle, op.name, operands, results)


def _body_of(handle: ir.Operation, name: str) -> Hashable:
    """The ops in the regions, with numbers for values, -1 for those from outside."""
    if not has_own_body(name):
        return None
    regions = handle.regions
    return tuple(_inside(regions)) if len(regions) else None


def _inside(regions: ir.RegionSequence) -> Iterator[Hashable]:
    numbers: dict[ir.Value, int] = {}
    for region in regions:
        for block in region.blocks:
            for argument in block.arguments:
                numbers[argument] = len(numbers)
            for inner in operations(block):
                operands = tuple(numbers.get(operand, -1) for operand in inner.operands)
                yield inner.name, operands, tuple(inner.attributes.items())
                if len(inner.regions):
                    yield str(inner)  # seldom: a loop in a body
                for result in inner.results:
                    numbers[result] = len(numbers)
