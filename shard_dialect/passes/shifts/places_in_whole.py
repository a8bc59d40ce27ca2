"""Where a value lies in a larger tensor that it is to become a part of.

The 62 rows that a stencil computes of 64 lie at (1, 0) of a 64x64 tensor:

    Frame(at=(1, 0), shape=(64, 64), ...)

Creates ops whose results lie in frames (`places_in_whole`), at the insertion point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import constant_like, copy_onto, create, resized
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Annotation, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.shifts.placed_parts import Part
from shard_dialect.passes.shifts.shifts import ShiftBuilder


@dataclass(frozen=True)
class Frame:
    """The place of a value, from the indices `at` on, in a tensor of `shape`.

    `sharding` is the tensor's target sharding, on refined grids and without uneven axes;
    `annotated` the sharding that its attribute has.
    """

    at: tuple[int, ...]
    shape: Shape
    sharding: Sharding
    annotated: Sharding

    def is_changed(self, dim: int, size: int) -> bool:
        """Whether dimension `dim` of a value, of this size, is not the tensor's."""
        return self.at[dim] != 0 or self.shape[dim] != size

    def moved(self, by: Sequence[int]) -> Frame:
        """The frame of a part that lies `by` further."""
        return replace(self, at=tuple(a + b for a, b in zip(self.at, by, strict=True)))

    def with_dim(self, dim: int, at: int, size: int) -> Frame:
        """The frame with another place in dimension `dim`."""
        begins, shape = list(self.at), list(self.shape)
        begins[dim], shape[dim] = at, size
        return replace(self, at=tuple(begins), shape=tuple(shape))

    def of_dims(self, dims: Sequence[int]) -> Frame:
        """The frame of a tensor with these dimensions."""
        return Frame(
            tuple(self.at[dim] for dim in dims),
            tuple(self.shape[dim] for dim in dims),
            _of_dims(self.sharding, dims),
            _of_dims(self.annotated, dims),
        )

    def whole(self, dims: Sequence[int]) -> Frame:
        """The frame, whose dimensions `dims` are not split."""
        return replace(
            self,
            sharding=_whole(self.sharding, dims),
            annotated=_whole(self.annotated, dims),
        )


def _of_dims(sharding: Sharding, dims: Sequence[int]) -> Sharding:
    return Sharding(sharding.grid, tuple(sharding.split_axes[dim] for dim in dims))


def _whole(sharding: Sharding, dims: Sequence[int]) -> Sharding:
    axes = [() if dim in dims else each for dim, each in enumerate(sharding.split_axes)]
    return Sharding(sharding.grid, tuple(axes))


class FramedOps:
    """Annotates what it creates, and notes its sharding in `of`."""

    def __init__(self, of: dict[ir.Value, Sharding], shardings: Shardings) -> None:
        self.of, self._shardings = of, shardings

    def create(
        self,
        name: str,
        frame: Frame,
        operands: Sequence[ir.Value],
        attributes: Mapping[str, ir.Attribute] | None = None,
        type_: ir.Type | None = None,
    ) -> ir.Value:
        """An op of one result, which has the type `type_`, or that of the first operand."""
        type_ = type_ if type_ is not None else operands[0].type
        op = create(name, [type_], operands, dict(attributes or {}))
        return self._annotated(op.results[0], frame)

    def copied(
        self,
        op: ir.Operation,
        operands: Sequence[ir.Value],
        frame: Frame,
        attributes: Mapping[str, ir.Attribute],
    ) -> ir.Value:
        """`op` on other operands, with other attributes."""
        new = copy_onto(op, operands)
        new.results[0].set_type(resized(op.results[0].type, frame.shape))
        for name, attribute in attributes.items():
            new.attributes[name] = attribute
        return self._annotated(new.results[0], frame)

    def constant(self, value: ir.Value, frame: Frame) -> ir.Value:
        """The constant that repeats the element of `value`."""
        return self._annotated(constant_like(value, resized(value.type, frame.shape)), frame)

    def shifted(self, value: ir.Value, shifts: Iterable[tuple[int, int]], frame: Frame) -> ir.Value:
        """`value` moved along each dimension by a number of elements."""
        for dim, by in shifts:
            builder = self._builder(dim, frame)
            value = self._known(builder.shifted_by(value, by), frame)
        return value

    def repeated(self, value: ir.Value, dims: Sequence[int], frame: Frame) -> ir.Value:
        """`value`, which has the dimensions `dims`, along the others."""
        kept = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(dims))}
        type_ = resized(value.type, frame.shape)
        return self.create("stablehlo.broadcast_in_dim", frame, [value], kept, type_)

    def selected(self, part: Part, frame: Frame, inside: ir.Value, outside: ir.Value) -> ir.Value:
        """`inside` where the part lies, `outside` elsewhere."""
        where = None
        for dim, (begin, size) in enumerate(zip(part.begins, part.sizes, strict=True)):
            first, end = frame.at[dim] + begin, frame.at[dim] + begin + size
            where = self._builder(dim, frame).between(frame.shape, first, end, where)
        if where is None:
            return inside
        return self._annotated(hlo.select(where, inside, outside), frame)

    def padded(
        self, value: ir.Value, low: Sequence[int], high: Sequence[int], frame: Frame
    ) -> ir.Value:
        """`value` between zeros, `low` before it and `high` after it."""
        zero = hlo.number(0, ir.RankedTensorType.get([], value.type.element_type))
        return self._annotated(hlo.pad(value, zero, low, high, [0] * len(low)), frame)

    def _builder(self, dim: int, frame: Frame) -> ShiftBuilder:
        attribute, line = self._attribute(frame), self._attribute(frame.of_dims([dim]))
        return ShiftBuilder(dim, attribute, attribute, line, attribute, None)

    def _annotated(self, made: ir.Value, frame: Frame) -> ir.Value:
        """The result of a new op, which gets its annotation."""
        made.owner.attributes[SHARDINGS] = ir.ArrayAttr.get([self._attribute(frame)])
        return self._known(made, frame)

    def _known(self, value: ir.Value, frame: Frame) -> ir.Value:
        self.of[value] = frame.sharding
        return value

    def _attribute(self, frame: Frame) -> ir.Attribute:
        return self._shardings.write(Annotation(frame.annotated))
