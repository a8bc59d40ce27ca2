"""The ops that take a batch apart and put it together: StableHLO's, or those of upstream."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.model import Reduction

_STABLEHLO: dict[Reduction, str] = {
    "sum": "add",
    "max": "maximum",
    "min": "minimum",
    "product": "multiply",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}


def rows(whole: ir.Value, begin: int, size: int, dim: int, stablehlo: bool) -> ir.Value:
    """The `size` elements of dimension `dim` from `begin` on."""
    if not stablehlo:
        return build.extract_slice(whole, begin, size, dim)
    shape = list(whole.type.shape)
    starts, limits = [0] * len(shape), list(shape)
    starts[dim], limits[dim], shape[dim] = begin, begin + size, size
    attributes = {
        "start_indices": ir.DenseI64ArrayAttr.get(starts),
        "limit_indices": ir.DenseI64ArrayAttr.get(limits),
        "strides": ir.DenseI64ArrayAttr.get([1] * len(shape)),
    }
    type_ = build.resized(whole.type, shape)
    return build.create("stablehlo.slice", [type_], [whole], attributes).results[0]


def concatenated(parts: Sequence[ir.Value], dim: int, stablehlo: bool) -> ir.Value:
    """The parts one after the other along dimension `dim`."""
    shape = list(parts[0].type.shape)
    shape[dim] *= len(parts)
    name, key = ("stablehlo.concatenate", "dimension") if stablehlo else ("tensor.concat", "dim")
    at = {key: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}
    return build.create(name, [build.resized(parts[0].type, shape)], parts, at).results[0]


def combined(reduction: Reduction, a: ir.Value, b: ir.Value, stablehlo: bool) -> ir.Value:
    """Two values, reduced to one element by element."""
    if not stablehlo:
        return reductions.combine(reduction, a, b)
    return build.create(f"stablehlo.{_STABLEHLO[reduction]}", [a.type], [a, b]).results[0]
