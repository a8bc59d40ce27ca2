"""Compute ops on the dimensions that a reshape merges, instead of on the merged one.

    %1 = stablehlo.reshape %0 : (tensor<6x64x128xf32>) -> tensor<384x128xf32>
    %2 = stablehlo.dot_general %1, %w : ... -> tensor<384x32xf32>

becomes

    %1 = stablehlo.dot_general %0, %w : ... -> tensor<6x64x32xf32>
    %2 = stablehlo.reshape %1 : (tensor<6x64x32xf32>) -> tensor<384x32xf32>

A factor of the op's sharding rule is taken apart: each dimension with this factor becomes several,
in operands, results and the attributes that number dimensions. The other operands are reshaped,
which costs nothing, and the results are merged again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import copy_onto, create, create_value
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.ops import rule_of
from shard_dialect.ops.factors import reshaped
from shard_dialect.ops.stablehlo.attribute_reading import integer, integers, numbers, sorted_dim

RESHAPE = "stablehlo.reshape"
_BROADCAST = "stablehlo.broadcast_in_dim"
_DIALECTS = ("stablehlo.", "arith.", "math.")
"""Dialects whose elementwise ops have shapes only in their types, not in attributes."""
_CONSTANTS = ("arith.constant", "stablehlo.constant")

_OF_SEVERAL = ("stablehlo.dot_general", "stablehlo.reduce")
"""Ops that contract or reduce along several dimensions as well as along one."""

_Parts = Mapping[int, Shape]
"""The sizes that each factor is taken apart into, major to minor."""


def source_of_reshape(value: ir.Value) -> ir.Value | None:
    """The operand of the reshape without annotation that makes `value`."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != RESHAPE or is_annotated(owner.operation):
        return None
    source: ir.Value = owner.operation.operands[0]
    return source if shape_of(source) is not None else None


def merged_sizes(source: ir.Value, value: ir.Value) -> tuple[Shape, ...]:
    """The sizes that each dimension of `value` merges; empty unless the reshape only merges."""
    before, after = shape_of(source), shape_of(value)
    if before is None or after is None or len(after) >= len(before):
        return ()
    rule = reshaped(before, after)
    if rule.unsplit or rule.operands[0] is None or rule.results[0] is None:
        return ()
    is_kept = all(len(dim) <= 1 for dim in rule.operands[0])
    if not is_kept or all(len(dim) <= 1 for dim in rule.results[0]):
        return ()
    return tuple(tuple(rule.sizes[factor] for factor in dim) for dim in rule.results[0])


def is_annotated(op: ir.Operation) -> bool:
    """Whether the op or its result has an annotation, which depends on its present shape."""
    return has_loops(op) or any(name.startswith(("mesh.", "sdy.")) for name in op.attributes)


def is_elementwise(op: ir.Operation) -> bool:
    """Whether `op` is elementwise, with one result and all operands of the result's shape."""
    if not op.name.startswith(_DIALECTS) or op.name in _CONSTANTS:
        return False
    if len(op.results) != 1 or is_annotated(op):
        return False
    shape = shape_of(op.results[0])
    if shape is None or any(shape_of(operand) not in (shape, ()) for operand in op.operands):
        return False
    rule = rule_of(op)
    return rule is not None and rule.role == "elementwise"


@dataclass(frozen=True, slots=True)
class Apart:
    """An op's rule, of which the factors in `parts` are taken apart into these sizes."""

    rule: ShardingRule
    parts: _Parts

    @property
    def reduces(self) -> bool:
        """Whether the op reduces along a factor that is taken apart."""
        return not self.parts.keys().isdisjoint(self.rule.reduction_of)

    def merged_by(self, result: int) -> tuple[Shape, ...]:
        """The sizes that each dimension of a result then merges; empty if none does."""
        dims = self.rule.results[result] or ()
        sizes = tuple(self.parts.get(dim[0], ()) if dim else () for dim in dims)
        if not any(sizes):
            return ()
        whole = (self.rule.sizes[dim[0]] if dim else 1 for dim in dims)
        return tuple(each or (size,) for each, size in zip(sizes, whole, strict=True))


def apart_before_merge(
    op: ir.Operation,
    number: int,
    sizes: Sequence[Shape],
    may_reshape: Callable[[ir.Value, Shape], bool] = lambda _, __: True,
) -> Apart | None:
    """How to compute `op` before the merge that makes its operand `number`.

    `sizes` are those that each dimension of the operand merges. `None` if the op must have its
    operand merged, or if `may_reshape` is false of another operand and the shape it would have.
    """
    rule = _rule_of(op)
    dims = rule.operands[number] if rule is not None else None
    if rule is None or dims is None:
        return None
    parts: dict[int, Shape] = {}
    for dim, each in zip(dims, sizes, strict=True):
        if len(each) > 1:
            if len(dim) != 1:
                return None
            parts[dim[0]] = each
    if not _can_take_apart(op.name, rule, parts):
        return None
    shapes = [
        _Dims.of(dims or (), parts).shape(value)
        for value, dims in zip(op.operands, rule.operands, strict=True)
    ]
    return Apart(rule, parts) if all(map(may_reshape, op.operands, shapes)) else None


def compute_before_merge(op: ir.Operation, apart: Apart) -> list[ir.Value]:
    """Compute `op` as `apart` describes; returns the merged results, which replace the op's."""
    with ir.InsertionPoint(op), op.location:
        moved = _taken_apart(op, apart.rule, apart.parts)
        merged = []
        for old, new in zip(op.results, moved.results, strict=True):
            if new.type == old.type:
                old.replace_all_uses_with(new)
                continue
            back = create_value(RESHAPE, old.type, [new])
            old.replace_all_uses_with(back)
            merged.append(back)
    op.erase()
    return merged


def _rule_of(op: ir.Operation) -> ShardingRule | None:
    """The rule of an op that can be computed on other dimensions."""
    if is_annotated(op) or (op.name not in _ATTRIBUTES and not is_elementwise(op)):
        return None
    tensors = (*op.operands, *op.results)
    return rule_of(op) if all(shape_of(each) is not None for each in tensors) else None


def _can_take_apart(name: str, rule: ShardingRule, parts: _Parts) -> bool:
    tensors = (*rule.operands, *rule.results)
    # A sort along a merged dimension is not a sort along each of its parts, nor is a reversal or a
    # window, or a slice of one element, which is a sum over shards: factors along which positions
    # matter stay merged. A contraction or a reduction does not depend on the order.
    special = rule.need_replication | rule.permuted | rule.windowed_factors | {*rule.reduction_of}
    if name not in _OF_SEVERAL and not special.isdisjoint(parts):
        return False
    return all(
        len(dim) == 1 or not any(factor in parts for factor in dim)
        for dims in tensors
        for dim in dims or ()
    )


def _taken_apart(op: ir.Operation, rule: ShardingRule, parts: _Parts) -> ir.Operation:
    """A copy of `op` at the insertion point, whose factors in `parts` are taken apart."""
    operands = [_Dims.of(dims or (), parts) for dims in rule.operands]
    results = [_Dims.of(dims or (), parts) for dims in rule.results]
    pairs = zip(op.operands, operands, strict=True)
    copy = copy_onto(op, [_reshaped(value, dims.shape(value)) for value, dims in pairs])
    for result, dims in zip(copy.results, results, strict=True):
        result.set_type(_type(result.type, dims.shape(result)))
    if op.name in _ATTRIBUTES:
        for name, attribute in _ATTRIBUTES[op.name](op, operands, results).items():
            copy.attributes[name] = attribute
    return copy


@dataclass(frozen=True, slots=True)
class _Dims:
    """For each dimension of a tensor the sizes it is taken apart into, none for one that stays."""

    sizes: tuple[Shape, ...]

    @classmethod
    def of(cls, dims: Sequence[Sequence[int]], parts: _Parts) -> _Dims:
        return cls(tuple(parts.get(dim[0], ()) if dim else () for dim in dims))

    def shape(self, value: ir.Value) -> Shape:
        sizes = zip(value.type.shape, self.sizes, strict=True) if self.sizes else ()
        return tuple(each for size, parts in sizes for each in parts or (size,))

    def of_dim(self, dim: int) -> list[int]:
        """The numbers of the dimensions that take the place of `dim`."""
        start = sum(len(each) or 1 for each in self.sizes[:dim])
        return list(range(start, start + (len(self.sizes[dim]) or 1)))

    def spread(self, listed: Sequence[int], whole: int | None) -> list[int]:
        """`listed`, with `whole`, or the size, for each dimension that one is taken apart into."""
        result: list[int] = []
        for number, parts in zip(listed, self.sizes, strict=True):
            result += [size if whole is None else whole for size in parts] or [number]
        return result

    def of_dims(self, dims: Sequence[int]) -> list[int]:
        return [each for dim in dims for each in self.of_dim(dim)]


def _reshaped(value: ir.Value, shape: Shape) -> ir.Value:
    """The value in another shape: the source of its reshape or broadcast, or a new reshape."""
    if shape_of(value) == shape:
        return value
    source = source_of_reshape(value)
    if source is not None:
        value = source
        if shape_of(value) == shape:
            return value
    return _broadcast(value, shape) or create(RESHAPE, [_type(value.type, shape)], [value]).result


def _broadcast(value: ir.Value, shape: Shape) -> ir.Value | None:
    """The broadcast that makes `value`, to another shape that takes its dimensions apart."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != _BROADCAST:
        return None
    op, rule = owner.operation, _rule_of(owner.operation)
    sizes = _sizes_apart(shape_of(value) or (), shape)
    if rule is None or rule.results[0] is None or sizes is None:
        return None
    pairs = zip(rule.results[0], sizes, strict=True)
    parts = {dim[0]: each for dim, each in pairs if len(dim) == 1 and len(each) > 1}
    if not _can_take_apart(op.name, rule, parts):
        return None
    copy = _taken_apart(op, rule, parts)
    return copy.results[0] if shape_of(copy.results[0]) == shape else None


def _sizes_apart(merged: Shape, shape: Shape) -> list[Shape] | None:
    """The sizes in `shape` that each dimension of `merged` is taken apart into."""
    rest = list(shape)
    result = []
    for size in merged:
        taken: list[int] = []
        while rest and (not taken or prod(taken) < size):
            taken.append(rest.pop(0))
        if prod(taken) != size:
            return None
        result.append(tuple(taken))
    return None if rest else result


_Attributes = dict[str, ir.Attribute]


def _dot_general(op: ir.Operation, operands: Sequence[_Dims], _: Sequence[_Dims]) -> _Attributes:
    name = "dot_dimension_numbers"
    dims = numbers(op, name, "DotDimensionNumbers")
    listed = [
        f"{side}_{kind}_dimensions = {of.of_dims(getattr(dims, f'{side}_{kind}_dimensions'))}"
        for kind in ("batching", "contracting")
        for side, of in zip(("lhs", "rhs"), operands, strict=True)
    ]
    return {name: ir.Attribute.parse(f"#stablehlo.dot<{', '.join(listed)}>")}


def _listing(name: str) -> _Renumber:
    """For an attribute that lists dimensions of the first operand."""

    def renumber(op: ir.Operation, operands: Sequence[_Dims], _: Sequence[_Dims]) -> _Attributes:
        return {name: ir.DenseI64ArrayAttr.get(operands[0].of_dims(integers(op, name)))}

    return renumber


def _dimension(read: Callable[[ir.Operation], int]) -> _Renumber:
    """For `dimension`, the number of a dimension of the first operand, as `read` says."""

    def renumber(op: ir.Operation, operands: Sequence[_Dims], _: Sequence[_Dims]) -> _Attributes:
        (dim,) = operands[0].of_dim(read(op))
        return {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)}

    return renumber


def _for_each(**whole: int | None) -> _Renumber:
    """For attributes with a number for each dimension of the first operand.

    `whole` has, for each, the number that keeps a dimension whole; `None`: its size.
    """

    def renumber(op: ir.Operation, operands: Sequence[_Dims], _: Sequence[_Dims]) -> _Attributes:
        return {
            name: ir.DenseI64ArrayAttr.get(operands[0].spread(integers(op, name), number))
            for name, number in whole.items()
            if name in op.attributes
        }

    return renumber


def _reduce_window(
    op: ir.Operation, operands: Sequence[_Dims], results: Sequence[_Dims]
) -> _Attributes:
    changed = _ONE_ELEMENT(op, operands, results)
    if "padding" in op.attributes:
        flat = list(op.attributes["padding"])
        ends = [operands[0].spread(flat[end::2], 0) for end in (0, 1)]
        pairs = [list(pair) for pair in zip(*ends, strict=True)]
        changed["padding"] = ir.Attribute.parse(f"dense<{pairs}> : tensor<{len(pairs)}x2xi64>")
    return changed


def _broadcast_in_dim(
    op: ir.Operation, operands: Sequence[_Dims], results: Sequence[_Dims]
) -> _Attributes:
    (operand,), (result,) = operands, results
    dims: list[int] = []
    for dim, of_result in enumerate(integers(op, "broadcast_dimensions")):
        # A dimension of size 1 that is repeated is not taken apart: 1 -> 6x64 maps to the dimension
        # of size 6, and the one of size 64 is new.
        dims += result.of_dim(of_result)[: len(operand.of_dim(dim))]
    return {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(dims)}


_Renumber = Callable[[ir.Operation, Sequence[_Dims], Sequence[_Dims]], _Attributes]
_ONE_ELEMENT = _for_each(
    window_dimensions=1, window_strides=1, base_dilations=1, window_dilations=1
)
_ATTRIBUTES: Mapping[str, _Renumber] = {
    "stablehlo.concatenate": _dimension(lambda op: integer(op, "dimension")),
    "stablehlo.dot_general": _dot_general,
    "stablehlo.pad": _for_each(edge_padding_low=0, edge_padding_high=0, interior_padding=0),
    "stablehlo.reduce": _listing("dimensions"),
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reverse": _listing("dimensions"),
    "stablehlo.slice": _for_each(start_indices=0, limit_indices=None, strides=1),
    "stablehlo.sort": _dimension(sorted_dim),
    "stablehlo.transpose": _listing("permutation"),
    _BROADCAST: _broadcast_in_dim,
}
"""By op that numbers dimensions in attributes: the function that renumbers these."""


def _type(like: ir.RankedTensorType, shape: Shape) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(shape), like.element_type, loc=ir.Location.unknown())


def shape_of(value: ir.Value) -> Shape | None:
    """The shape of a tensor without encoding, if it is static."""
    type_ = value.type
    is_plain = isinstance(type_, ir.RankedTensorType) and type_.encoding is None
    return tuple(type_.shape) if is_plain and type_.has_static_shape else None
