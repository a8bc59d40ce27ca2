"""A cache of rules for ops that are alike, since programs repeat their layers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.numbered_function import Op, Value
from shard_dialect.ir.walk import has_own_body, operations
from shard_dialect.model import ShardingRule
from shard_dialect.rules import manual_collectives, rule_of

_BY_NEIGHBOURS = (
    *manual_collectives.OPS,
    "stablehlo.concatenate",
    "stablehlo.custom_call",
    "stablehlo.pad",
    "stablehlo.reduce",
    "stablehlo.reduce_window",
    "stablehlo.scatter",
    "stablehlo.select_and_scatter",
    "tensor.pad",
    "tosa.conv2d",
    "tosa.conv3d",
    "tosa.depthwise_conv2d",
    "tosa.pad",
    "tosa.slice",
    "tosa.transpose_conv2d",
)
"""Ops whose rules depend on the ops that make their operands (an init constant, say), on their
users, or on the region around them."""


class RuleMemo:
    """The rules of one module's ops. Equal rules are one object."""

    def __init__(self) -> None:
        self._rules: dict[Hashable, ShardingRule | None] = {}
        self._kept: dict[ShardingRule | None, ShardingRule | None] = {}

    def rule_of(self, op: Op, values: Sequence[Value]) -> ShardingRule | None:
        """As `rules.rule_of`; the cache key is all that a rule may depend on."""
        if op.name in _BY_NEIGHBOURS:
            rule = rule_of(op.handle)
            return self._kept.setdefault(rule, rule)
        key = (
            op.name,
            tuple([values[value].kind for value in op.operands]),
            tuple([values[value].kind for value in op.results]),
            tuple(op.handle.attributes.items()) if op.name not in build.CONSTANTS else None,
            _body_of(op),
        )
        if key not in self._rules:
            rule = rule_of(op.handle)
            self._rules[key] = self._kept.setdefault(rule, rule)
        return self._rules[key]


def _body_of(op: Op) -> Hashable:
    """The ops in the regions, with numbers for values, -1 for those from outside."""
    if not has_own_body(op.name):
        return None
    regions = op.handle.regions
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
