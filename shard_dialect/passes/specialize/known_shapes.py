"""What is known of the shapes of tensors: by their types, and behind casts.

    %c = tensor.cast %x : tensor<4xf32> to tensor<?xf32>      shape_behind(%c) is (4,)

`Known` lets values have more exact types; who uses one gets it as it was, by a cast, and takes what
is behind it once it is seen to fit.
"""

from __future__ import annotations

from collections.abc import Iterable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at

Shape = tuple[int | None, ...]
"""`None` for a size that is not known."""

MOST = 2**56
"""Elements, whose bytes MLIR and numpy can count."""
_CAST = "tensor.cast"


def is_ranked(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def shape_of(type_: ir.RankedTensorType) -> Shape:
    return tuple(
        None if type_.is_dynamic_dim(dim) else type_.get_dim_size(dim) for dim in range(type_.rank)
    )


def shape_behind(value: ir.Value) -> Shape:
    """All that is known of the shape of a ranked tensor."""
    shape, source = shape_of(value.type), behind(value)
    if not is_ranked(source) or source.type.rank != len(shape):
        return shape
    return tuple(
        each if each is not None else known
        for each, known in zip(shape, shape_of(source.type), strict=True)
    )


def behind(value: ir.Value) -> ir.Value:
    """What a value was cast from."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == _CAST:
        value = value.owner.operands[0]
    return value


def written(shape: Shape) -> str:
    return "x".join("?" if each is None else str(each) for each in shape) or "scalar"


def adds(shape: Shape, value: ir.Value) -> bool:
    """Whether a shape says more than the value's type does."""
    return any(
        size is not None and known is None
        for size, known in zip(shape, shape_of(value.type), strict=True)
    )


def with_shape(type_: ir.RankedTensorType, shape: Shape) -> ir.RankedTensorType:
    """The type with all that it, or `shape`, knows."""
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [
        next((each for each in both if each is not None), dynamic)
        for both in zip(shape_of(type_), shape, strict=True)
    ]
    return ir.RankedTensorType.get(sizes, type_.element_type, type_.encoding)


def merged(shapes: Iterable[Shape], op: ir.Operation) -> Shape:
    """What several values that have one shape know of it together."""
    found = []
    for sizes in zip(*shapes, strict=True):
        known = sorted({each for each in sizes if each is not None})
        if len(known) > 1:
            raise error_at(
                op.location,
                f"'{op.name}' op is on tensors of {known[0]} and of {known[1]} elements",
            )
        found.append(known[0] if known else None)
    return tuple(found)


def common(shapes: Iterable[Shape]) -> Shape:
    """What is known of a value that comes from one of several places: where all say the same."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes, strict=True))


def differ(one: ir.Type, other: ir.Type) -> bool:
    """Whether no tensor is of both types."""
    if not all(isinstance(each, ir.RankedTensorType) for each in (one, other)):
        return False
    pairs = zip(shape_of(one), shape_of(other), strict=False)
    return one.rank != other.rank or any(None not in pair and len({*pair}) > 1 for pair in pairs)


def give_shape(value: ir.Value, shape: Shape) -> None:
    """Let a value have a more exact shape; who uses it gets it as it was, by a cast."""
    before = value.type
    value.set_type(with_shape(before, shape))
    owner = value.owner
    if isinstance(owner, ir.Block):
        place, location = ir.InsertionPoint.at_block_begin(owner), owner.owner.location
    else:
        place, location = ir.InsertionPoint.after(owner), owner.location
    with place, location:
        cast = build.create(_CAST, [before], [value])
    value.replace_all_uses_except(cast.results[0], cast)


class Known:
    """Makes known what is found; `changed` says whether it was not known before."""

    def __init__(self) -> None:
        self.changed = False

    def set(self, value: ir.Value, shape: Shape) -> None:
        if adds(shape, value):
            give_shape(value, shape)
            self.changed = True

    def set_operand(self, op: ir.Operation, place: int, shape: Shape) -> None:
        """Let an op take a value of this shape: what was cast from it, or a cast to it."""
        value = op.operands[place]
        if not adds(shape, value):
            return
        type_ = with_shape(value.type, shape)
        source = behind(value)
        if source.type != type_:
            with ir.InsertionPoint(op), op.location:
                source = build.create(_CAST, [type_], [value]).results[0]
        op.operands[place] = source
        self.changed = True

    def take_what_is_known(self, op: ir.Operation) -> None:
        """Let an op take its operands as they are behind casts."""
        for place, operand in enumerate(op.operands):
            if is_ranked(operand):
                self.set_operand(op, place, shape_behind(operand))
