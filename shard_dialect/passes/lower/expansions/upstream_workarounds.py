"""Replace instances of ops that upstream converts wrongly, or not at all, by other ops."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import operations
from shard_dialect.rules.stablehlo.index_arithmetic import broadcast, joined


def add(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace `add` of bits by `or`; upstream converts it to `xor`."""
    if str(op.results[0].type.element_type) != "i1":
        return list(op.results)
    a, b = op.operands
    return [joined(a, b, "or")]


def widen_unsigned(op: ir.Operation) -> Sequence[ir.Value]:
    """Convert unsigned operands of a product to the elements of its wider result.

    Upstream extends them as signed integers.
    """
    target = op.results[0].type.element_type
    for number, each in enumerate(op.operands):
        source = each.type.element_type
        if isinstance(source, ir.IntegerType) and source.is_unsigned and source != target:
            wide = ir.RankedTensorType.get(each.type.shape, target)
            op.operands[number] = build.create("stablehlo.convert", [wide], [each]).results[0]
    return list(op.results)


def slice_(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace a slice without elements by an empty tensor; upstream gives it invalid offsets."""
    is_empty = 0 in op.results[0].type.shape
    return build.empty(op.results[0].type).results if is_empty else list(op.results)


def materialize(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace the op by an explicit copy: upstream refuses some that must stay."""
    return list(build.copy(*op.operands).results) if len(op.results) else []


def concat(op: ir.Operation) -> Sequence[ir.Value]:
    """Drop empty operands of a concatenation: upstream inserts each, at invalid offsets."""
    (result,) = op.results
    if 0 in result.type.shape:
        return build.empty(result.type).results
    operands = [each for each in op.operands if 0 not in each.type.shape]
    if len(operands) == len(op.operands):
        return [result]
    attributes = {name: op.attributes[name] for name in op.attributes}
    return build.create(op.name, [result.type], operands, attributes).results


def reduce(op: ir.Operation) -> Sequence[ir.Value]:
    """Replace a reduction of no elements by the init, and one along no dimension by a map."""
    count = len(op.operands) // 2
    values, starts = list(op.operands)[:count], list(op.operands)[count:]
    is_empty = 0 in values[0].type.shape
    if list(op.attributes["dimensions"]) and not is_empty:
        return list(op.results)
    wide = [broadcast(s, r.type.shape, []) for s, r in zip(starts, op.results, strict=True)]
    return wide if is_empty else [_mapped(op, [*wide, *values], each) for each in range(count)]


def _mapped(op: ir.Operation, operands: Sequence[ir.Value], number: int) -> ir.Value:
    """One of the values that the op's region computes for each element."""
    copied = op.clone()
    (block,) = copied.regions[0].blocks
    end = operations(block)[-1]
    type_ = op.results[number].type
    dims = {"dimensions": ir.DenseI64ArrayAttr.get(list(range(type_.rank)))}
    map_op = build.create("stablehlo.map", [type_], operands, dims, regions=1)
    with ir.InsertionPoint(end), end.location:
        build.create("stablehlo.return", [], [end.operands[number]])
    end.erase()
    block.append_to(map_op.regions[0])
    copied.erase()
    return map_op.results[0]
