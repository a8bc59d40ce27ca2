"""Known shapes of tensors: by their types, and by the sources of casts.

    %c = tensor.cast %x : tensor<4xf32> to tensor<?xf32>      shape_behind(%c) is (4,)

`Known` gives values more exact types. A cast back to the old type keeps the users valid; a user
reads the source of the cast once a rule shows that it may.
"""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at

Shape = tuple[int | None, ...]
"""One size per dimension; `None` for a size that is not known."""

MOST = 2**56
"""The largest number of elements whose bytes MLIR and numpy can count."""
_CAST = "tensor.cast"


def is_ranked(value: ir.Value) -> bool:
    """Whether the value is a ranked tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def shape_of(type_: ir.RankedTensorType) -> Shape:
    """The sizes in a type, `None` for a dynamic one."""
    return tuple(
        None if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim) for dim in range(type_.rank)
    )


def shape_behind(value: ir.Value) -> Shape:
    """The known shape of a ranked tensor, by its type and by the source of its casts."""
    shape, source = shape_of(value.type), behind(value)
    if not is_ranked(source) or source.type.rank != len(shape):
        return shape
    return tuple(
        each if each is not None else known
        for each, known in zip(shape, shape_of(source.type), strict=True)
    )


def behind(value: ir.Value) -> ir.Value:
    """The value that the chain of `tensor.cast` ops that defines `value` starts from."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == _CAST:
        value = value.owner.operands[0]
    return value


def written(shape: Shape) -> str:
    """The shape as in MLIR's types: `4x?`, or `scalar`."""
    return "x".join("?" if each is None else str(each) for each in shape) or "scalar"


def adds(shape: Shape, value: ir.Value) -> bool:
    """Whether a shape knows a size that the value's type does not."""
    return any(
        size is not None and known is None
        for size, known in zip(shape, shape_of(value.type), strict=True)
    )


def with_shape(type_: ir.RankedTensorType, shape: Shape) -> ir.RankedTensorType:
    """The type with the sizes that it or `shape` knows."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [
        next((each for each in both if each is not None), dynamic)
        for both in zip(shape_of(type_), shape, strict=True)
    ]
    return ir.RankedTensorType.get(sizes, type_.element_type, type_.encoding)


def merged(shapes: Iterable[Shape], op: ir.Operation) -> Shape:
    """Combine what is known of one shape that all these values have.

    Raises a located `ShardError` where two sizes differ.
    """
    merged_shape = []
    for sizes in zip(*shapes, strict=True):
        known = sorted({each for each in sizes if each is not None})
        if len(known) > 1:
            raise error_at(
                op.location,
                f"'{op.name}' op is on tensors of {known[0]} and of {known[1]} elements",
            )
        merged_shape.append(known[0] if known else None)
    return tuple(merged_shape)


def common(shapes: Iterable[Shape]) -> Shape:
    """The shape of a value that is one of several: the sizes on which all `shapes` agree."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))


def differ(one: ir.Type, other: ir.Type) -> bool:
    """Whether no tensor can have both types."""
    if not all(isinstance(each, ir.RankedTensorType) for each in (one, other)):
        return False
    pairs = zip(shape_of(one), shape_of(other), strict=False)
    return one.rank != other.rank or any(None not in pair and len({*pair}) > 1 for pair in pairs)


def give_shape(value: ir.Value, shape: Shape) -> None:
    """Give a value a more exact type; its users read a cast back to the old type."""
    before = value.type
    value.set_type(with_shape(before, shape))
    owner = value.owner
    if isinstance(owner, ir.Block):
        point, location = ir.InsertionPoint.at_block_begin(owner), owner.owner.location
    else:
        point, location = ir.InsertionPoint.after(owner), owner.location
    with point, location:
        cast = build.create(_CAST, [before], [value])
    value.replace_all_uses_except(cast.results[0], cast)


class Known:
    """Writes inferred shapes into the IR; `changed` is set once one of them was new."""

    def __init__(self) -> None:
        self.changed = False

    def set(self, value: ir.Value, shape: Shape) -> None:
        """Give `value` the shape, if that adds a size to its type."""
        if adds(shape, value):
            give_shape(value, shape)
            self.changed = True

    def set_operand(self, op: ir.Operation, number: int, shape: Shape) -> None:
        """Give operand `number` of `op` this shape: by its casts' source, or by a new cast."""
        value = op.operands[number]
        if not adds(shape, value):
            return
        type_ = with_shape(value.type, shape)
        source = behind(value)
        if source.type != type_:
            with ir.InsertionPoint(op), op.location:
                source = build.create(_CAST, [type_], [value]).results[0]
        op.operands[number] = source
        self.changed = True

    def infer_from(self, op: ir.Operation) -> None:
        """Replace the operands of `op` by the sources of their casts."""
        for number, operand in enumerate(op.operands):
            if is_ranked(operand):
                self.set_operand(op, number, shape_behind(operand))
