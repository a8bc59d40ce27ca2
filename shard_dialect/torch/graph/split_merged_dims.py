"""Products over merged dimensions, written over the dimensions themselves.

torch multiplies matrices and batches of matrices, and views everything else as these:

    %1 = reshape %0 : 4x8x16x32 -> 32x16x32          %2 = dot_general %0, %y,
    %2 = dot_general %1, ..., batching_dims = [0]          batching_dims = [0, 1] x [0, 1]
                                                     %3 = reshape %2 : 4x8x16x16 -> 32x16x16

Where a mesh dimension splits each of the merged dimensions, no sharding can say how the merged one
is split, and it would have to be gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create, create_value, drop_unused, replace_op
from shard_dialect.ir.walk import source_behind, walk
from shard_dialect.ops.stablehlo.attribute_reading import numbers

_DOT = "stablehlo.dot_general"
_RESHAPE, _TRANSPOSE = "stablehlo.reshape", "stablehlo.transpose"
_BROADCAST = "stablehlo.broadcast_in_dim"
Sizes = tuple[int, ...]


def split_merged_dims(module: ir.Operation) -> None:
    """Rewrite the products of a module, in place."""
    for op in walk(module):
        if op.name == _BROADCAST and op.operands[0].type == op.results[0].type:
            _drop_identity(op)
    for op in walk(module):
        if op.name == _DOT:
            _split_product(op)
    for op in walk(module):
        if op.name == _RESHAPE:
            _join_reshapes(op)
    drop_unused(op for op in reversed(walk(module)) if op.name in (_RESHAPE, _TRANSPOSE))


def _drop_identity(op: ir.Operation) -> None:
    """Replace a broadcast that changes nothing, as `expand` leaves between merge and product."""
    dims = list(op.attributes["broadcast_dimensions"])
    if dims == list(range(len(dims))):
        replace_op(op, op.operands[0])


@dataclass
class _Side:
    """An operand, with the sizes that each of its dimensions is to be split into."""

    value: ir.Value
    batch: list[int]
    contracting: list[int]
    sizes: list[Sizes]

    @classmethod
    def of(cls, value: ir.Value, batch: Sequence[int], contracting: Sequence[int]) -> _Side:
        return cls(value, list(batch), list(contracting), _merged(value))

    @property
    def free(self) -> list[int]:
        taken = {*self.batch, *self.contracting}
        return [dim for dim in range(len(self.sizes)) if dim not in taken]

    def numbers(self, dims: Sequence[int]) -> list[int]:
        """The numbers of the dimensions that `dims` are split into."""
        starts = [sum(map(len, self.sizes[:dim])) for dim in range(len(self.sizes))]
        return [starts[dim] + each for dim in dims for each in range(len(self.sizes[dim]))]

    def shape(self, dims: Sequence[int]) -> list[int]:
        return [size for dim in dims for size in self.sizes[dim]]


def _split_product(op: ir.Operation) -> None:
    read = numbers(op, "dot_dimension_numbers", "DotDimensionNumbers")
    batches = read.lhs_batching_dimensions, read.rhs_batching_dimensions
    contracted = read.lhs_contracting_dimensions, read.rhs_contracting_dimensions
    left, right = (_Side.of(*each) for each in zip(op.operands, batches, contracted, strict=True))
    for a, b in zip(
        (*left.batch, *left.contracting), (*right.batch, *right.contracting), strict=True
    ):
        one = _same(left.sizes[a], right.sizes[b])
        left.sizes[a] = right.sizes[b] = one
    if all(len(each) == 1 for each in (*left.sizes, *right.sizes)):
        return
    result = op.results[0].type
    shape = [*left.shape(left.batch), *left.shape(left.free), *right.shape(right.free)]
    with ir.InsertionPoint(op), op.location:
        text = "#stablehlo.dot<" + ", ".join(
            f"{name} = {side.numbers(dims)}"
            for name, side, dims in (
                ("lhs_batching_dimensions", left, left.batch),
                ("rhs_batching_dimensions", right, right.batch),
                ("lhs_contracting_dimensions", left, left.contracting),
                ("rhs_contracting_dimensions", right, right.contracting),
            )
        )
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes["dot_dimension_numbers"] = ir.Attribute.parse(text + ">")
        operands = [_split(left.value, left.sizes), _split(right.value, right.sizes)]
        new = create(_DOT, [_tensor(shape, result)], operands, attributes)
        merged = create(_RESHAPE, [result], [new.results[0]])
    replace_op(op, merged.results[0])


def _merged(value: ir.Value) -> list[Sizes]:
    """For each dimension, the sizes of those that were merged to it; its own if none were."""
    shape = list(value.type.shape)
    owner = value.owner
    if isinstance(owner, ir.Block) or 0 in shape:
        return [(size,) for size in shape]
    if owner.name == _TRANSPOSE:
        inside = _merged(owner.operands[0])
        return [inside[dim] for dim in owner.attributes["permutation"]]
    if owner.name != _RESHAPE:
        return [(size,) for size in shape]
    groups, rest = [], list(owner.operands[0].type.shape)
    for size in shape:
        group: list[int] = []
        while rest and prod(group) < size and size % (prod(group) * rest[0]) == 0:
            group.append(rest.pop(0))
        if prod(group) != size:
            return [(size,) for size in shape]
        inner = tuple(each for each in group if each > 1)
        groups.append(inner if len(inner) > 1 else (size,))
    return groups


def _same(a: Sizes, b: Sizes) -> Sizes:
    """The sizes that both operands' dimension is split into; as a whole where they disagree."""
    if len(a) > 1 and len(b) > 1 and a != b:
        return (prod(a),)
    return a if len(a) > 1 else b


def _split(value: ir.Value, sizes: Sequence[Sizes]) -> ir.Value:
    """The value with split dimensions; a reshape in front of a transpose."""
    if all(len(each) == 1 for each in sizes):
        return value
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == _TRANSPOSE:
        order = list(owner.attributes["permutation"])
        before: list[Sizes] = [()] * len(order)
        for to, dim in enumerate(order):
            before[dim] = sizes[to]
        inside = _split(owner.operands[0], before)
        starts = [sum(map(len, before[:dim])) for dim in range(len(before))]
        new_order = [starts[dim] + each for dim in order for each in range(len(before[dim]))]
        shape = [inside.type.shape[dim] for dim in new_order]
        permutation = {"permutation": ir.DenseI64ArrayAttr.get(new_order)}
        return create_value(_TRANSPOSE, _tensor(shape, value.type), [inside], permutation)
    shape = [size for each in sizes for size in each]
    return create_value(_RESHAPE, _tensor(shape, value.type), [value])


def _join_reshapes(op: ir.Operation) -> None:
    """Read what the reshape in front read; read nothing new where that is of our type."""
    source = op.operands[0]
    source = source_behind(source, _RESHAPE)
    if source.type == op.results[0].type:
        op.results[0].replace_all_uses_with(source)
    elif source != op.operands[0]:
        op.operands[0] = source


def _tensor(shape: Sequence[int], like: ir.RankedTensorType) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(shape), like.element_type)
