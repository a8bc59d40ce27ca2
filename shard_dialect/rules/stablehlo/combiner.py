"""The region of a reduction, which combines two elements, and the inits of a reduction."""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.reductions import is_identity
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Reduction

_COMBINERS: dict[str, Reduction] = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "product",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
}
_OF_BITS: dict[str, Reduction] = {
    "stablehlo.and": "bitwise_and",
    "stablehlo.or": "bitwise_or",
    "stablehlo.xor": "bitwise_xor",
}
_OF_ONE_BIT: dict[str, Reduction] = {
    "stablehlo.add": "bitwise_or",
    "stablehlo.multiply": "bitwise_and",
    "stablehlo.maximum": "bitwise_or",
    "stablehlo.minimum": "bitwise_and",
}
_REPEATABLE = ("max", "min", "bitwise_and", "bitwise_or")
"""Idempotent kinds: combining twice with the same element changes nothing."""


def combiner(op: ir.Operation, count: int) -> Reduction | None:
    """The reduction by which the region combines each of its first `count` arguments with its pair.

    `None` if the region computes something else, or combines pairs by different reductions.
    """
    block = body(op)
    returned = list(operations(block)[-1].operands)
    arguments = list(block.arguments)
    reductions = {
        _joining(value, pair)
        for value, pair in zip(
            returned, zip(arguments, arguments[count:], strict=False), strict=True
        )
    }
    return reductions.pop() if len(reductions) == 1 else None


def _joining(value: ir.Value, pair: tuple[ir.Value, ir.Value]) -> Reduction | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or list(owner.operation.operands) not in (
        list(pair),
        list(reversed(pair)),
    ):
        return None
    name, element = owner.operation.name, value.type.element_type
    if isinstance(element, ir.IntegerType):
        reduction = _OF_BITS.get(name) or (_OF_ONE_BIT.get(name) if element.width == 1 else None)
        if reduction is not None:
            return reduction
    if isinstance(element, ir.ComplexType) and name in ("stablehlo.maximum", "stablehlo.minimum"):
        return None  # StableHLO compares the real parts first
    return _COMBINERS.get(name) if is_additive(element) else None


def is_additive(element: ir.Type) -> bool:
    """Whether partial sums add up to the sum: not for i1, whose addition is `or`."""
    if isinstance(element, ir.IntegerType):
        return element.width > 1
    return isinstance(element, (ir.FloatType, ir.ComplexType))


def may_repeat_inits(kind: Reduction, inits: Iterable[ir.Value]) -> bool:
    """Whether `kind` still combines partial results if every device starts from `inits`."""
    return kind in _REPEATABLE or all(is_identity(kind, init) for init in inits)
