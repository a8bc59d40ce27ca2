"""Compute the parts of a split tensor where they will lie in it.

    %a = slice %x [2:64]                        the rows 1 to 62 of a stencil
    %b = slice %x [0:62]
    %y = add %a, %b
    %r = scatter %x, dense<1>, %y               or concatenate, dynamic_update_slice, pad

becomes

    %a = pad %x, %zero, low = [-1], high = [1]  reads a halo of one row
    %b = pad %x, %zero, low = [1], high = [-1]
    %y = add %a, %b                             of 64 rows, the first and the last of which are free
    %r = select %inside, %y, %x

so that %y need not be distributed anew: it had 62 rows, whose shards lie elsewhere. The ops that
compute parts are elementwise, down to slices of tensors that are as large as the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import splat_value
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.mesh.attributes import RULE, SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Sharding
from shard_dialect.ops import rule_of
from shard_dialect.ops.stablehlo.attribute_reading import (
    integer,
    integers,
    pad_widths,
    slice_bounds,
)
from shard_dialect.ops.uneven_shards import may_have_halos
from shard_dialect.passes.shifts.placed_parts import (
    ASSEMBLIES,
    Assembly,
    Part,
    assembly_of,
    behind_copies,
    copied_by,
)
from shard_dialect.passes.shifts.places_in_whole import Frame, FramedOps
from shard_dialect.passes.shifts.shifts import may_shift

_Make = Callable[[], ir.Value]
"""Creates the ops of a value in its frame. A plan is such a closure, so that nothing is created
before all parts of a tensor are known to have one."""


class PartsInPlace:
    """The parts of one tensor, in the frames of which the values' shardings `of` are known."""

    def __init__(self, of: dict[ir.Value, Sharding], shardings: Shardings) -> None:
        self._of, self._shardings = of, shardings
        self._ops = FramedOps(of, shardings)
        self._block: ir.Block | None = None
        self._plans: dict[tuple[ir.Value, Frame], _Make | None] = {}
        self._made: dict[tuple[ir.Value, Frame], ir.Value] = {}
        self._shifts: dict[ir.Value, set[tuple[int, int]]] = {}
        self.visited: list[ir.Operation] = []
        """The ops whose results are computed anew."""
        self.has_slices = False
        """Whether a part reads a slice, or is shifted."""
        self.assembled: list[ir.Value] = []
        """The tensors assembled on the way, which may have parts along other dimensions, too."""

    def plan(self, op: ir.Operation) -> _Make | None:
        """The plan to assemble the result of `op`; `None` if the op is to stay."""
        sharding, result = self._of.get(op.results[0]), op.results[0]
        if sharding is None or not sharding.is_plain:
            return None
        if SHARDINGS not in op.attributes or RULE in op.attributes:
            return None
        shape = tuple(result.type.shape)
        assembly = assembly_of(op)
        is_copy = copied_by(result) is not None
        if assembly is None or not (is_copy or _is_split(op, assembly, sharding)):
            return None
        (attribute,) = op.attributes[SHARDINGS]
        annotated = self._shardings.read_annotation(attribute, len(shape)).sharding
        frame = Frame((0,) * len(shape), shape, sharding, annotated)
        self._block = op.block
        make = self._assembled(op, assembly, frame)
        has_slices = self.has_slices or is_copy or op.name == "stablehlo.slice"
        is_better = make is not None and has_slices and self._are_near(sharding)
        return make if is_better else None

    def _are_near(self, sharding: Sharding) -> bool:
        """Whether halos of all shifts are at most half of each tensor's shard."""
        grid = self._shardings.grid(sharding.grid)
        for root, shifts in self._shifts.items():
            for dim, axes in enumerate(sharding.split_axes):
                # An upper bound: shifts by 1 and by 2 share a halo of 2, and count as 3.
                moved = sum(abs(by) for along, by in shifts if along == dim)
                if axes and 2 * moved > -(-root.type.shape[dim] // grid.axes_size(axes)):
                    return False
        return True

    def _place(self, value: ir.Value, frame: Frame) -> _Make | None:
        """The plan to make `value` in its frame; the elements around it there may hold anything."""
        # In a chain such as %b = %a * %a, %c = %b * %b, the plans would otherwise double at each
        # op, found or not.
        key = value, frame
        if key not in self._plans:
            make = self._plan_of(value, frame)
            self._plans[key] = None if make is None else self._once(key, make)
        return self._plans[key]

    def _once(self, key: tuple[ir.Value, Frame], make: _Make) -> _Make:
        def made() -> ir.Value:
            if key not in self._made:
                self._made[key] = make()
            return self._made[key]

        return made

    def _plan_of(self, value: ir.Value, frame: Frame) -> _Make | None:
        shape = tuple(value.type.shape)
        if not any(frame.is_changed(dim, size) for dim, size in enumerate(shape)):
            return partial(_itself, value)
        return (
            self._shifted(value, frame) or self._by_owner(value, frame) or self._whole(value, frame)
        )

    def _shifted(self, value: ir.Value, frame: Frame) -> _Make | None:
        """A tensor of the frame's shape and sharding, which the frame has elsewhere."""
        sharding = frame.sharding
        if tuple(value.type.shape) != frame.shape or self._of.get(value) != sharding:
            return None
        if not may_shift(value.type):
            return None
        grid = self._shardings.grid(sharding.grid)
        for dim, axes in enumerate(sharding.split_axes):
            if axes and 2 * abs(frame.at[dim]) > -(-frame.shape[dim] // grid.axes_size(axes)):
                return None
        self.has_slices = True
        shifts = {(dim, by) for dim, by in enumerate(frame.at) if by}
        self._shifts.setdefault(value, set()).update(shifts)

        return lambda: self._ops.shifted(value, sorted(shifts), frame)

    def _whole(self, value: ir.Value, frame: Frame) -> _Make | None:
        """A value that is not split along the dimensions that the frame changes: it is padded."""
        changed = [d for d, n in enumerate(value.type.shape) if frame.is_changed(d, n)]
        sharding = self._annotated(value)
        if sharding is None or any(sharding.split_axes[dim] for dim in changed):
            return None
        if sharding.partial or not may_shift(value.type):
            return None
        local = frame.whole(changed)

        def make() -> ir.Value:
            ends = [
                size - at - own
                for size, at, own in zip(frame.shape, frame.at, value.type.shape, strict=True)
            ]
            return self._ops.padded(value, frame.at, ends, local)

        return make

    def _annotated(self, value: ir.Value) -> Sharding | None:
        """The sharding that propagation gave the value, also where it does not divide it."""
        owner = value.owner
        if isinstance(owner, ir.Block) or SHARDINGS not in owner.operation.attributes:
            return self._of.get(value)
        attribute = owner.operation.attributes[SHARDINGS][value.result_number]
        return self._shardings.read_annotation(attribute, value.type.rank).sharding

    def _by_owner(self, value: ir.Value, frame: Frame) -> _Make | None:
        if isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        # An op of an outer block may run once for many iterations of a loop; here it would run in
        # each.
        if op.block != self._block or len(op.results) != 1:
            return None
        if has_loops(op) or RULE in op.attributes:
            return None
        source = copied_by(value)
        same = behind_copies(source, tuple(value.type.shape)) if source is not None else None
        if same is not None:
            self.visited.append(op)
            return self._place(same, frame)
        make: _Make | None
        if splat_value(value) is not None:
            make = partial(self._ops.constant, value, frame)
        elif op.name in _PLANNERS:
            make = _PLANNERS[op.name](self, op, frame)
        else:
            make = self._elementwise(op, frame)
        if make is None and op.name in ASSEMBLIES:
            assembly = assembly_of(op)
            make = self._assembled(op, assembly, frame) if assembly is not None else None
        if make is None:
            return None
        self.visited.append(op)
        return self._at(op, make)

    def _at(self, op: ir.Operation, make: _Make) -> _Make:
        def located() -> ir.Value:
            with op.location:
                return make()

        return located

    def _elementwise(self, op: ir.Operation, frame: Frame) -> _Make | None:
        rule = rule_of(op)
        if rule is None or not may_have_halos(op, rule):
            return None
        return self._copied(op, [frame] * len(op.operands), frame)

    def _copied(
        self,
        op: ir.Operation,
        frames: Sequence[Frame],
        frame: Frame,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> _Make | None:
        """The plan of `op` on its operands in `frames`; scalars have no frame."""
        makes: list[_Make] = []
        for value, each in zip(op.operands, frames, strict=True):
            make = self._place(value, each) if value.type.rank else partial(_itself, value)
            if make is None:
                return None
            makes.append(make)

        return lambda: self._ops.copied(op, [make() for make in makes], frame, attributes or {})

    def _slice(self, op: ir.Operation, frame: Frame) -> _Make | None:
        """The source of a slice, in a frame that is moved back by where the slice begins."""
        source, size = op.operands[0], op.results[0].type.shape
        (begins, ends, strides), inner = slice_bounds(op), frame
        for dim, begin in enumerate(begins):
            if not frame.is_changed(dim, size[dim]):
                inner = inner.with_dim(dim, 0, source.type.shape[dim])
                continue
            if strides[dim] != 1:
                return None
            # Rows 2 to 63 of %x, placed at row 1, are %x placed at row -1: shifted up by one. The
            # rows before and after them, which the slice left out, may come along.
            inner = inner.with_dim(dim, frame.at[dim] - begin, frame.shape[dim])
            begins[dim], ends[dim] = 0, frame.shape[dim]
        self.has_slices = True
        if not any(begins) and tuple(ends) == inner.shape:
            return self._place(source, inner)
        attributes = {"start_indices": hlo.i64s(begins), "limit_indices": hlo.i64s(ends)}
        return self._copied(op, [inner], frame, attributes)

    def _broadcast(self, op: ir.Operation, frame: Frame) -> _Make | None:
        dims, operand = integers(op, "broadcast_dimensions"), op.operands[0]
        inner, annotated = frame.of_dims(dims), self._annotated(operand)
        for dim, size in enumerate(operand.type.shape):
            if size == 1:  # repeated, wherever it lies
                if annotated is None or annotated.split_axes[dim]:
                    return None
                inner = inner.with_dim(dim, 0, 1)
                inner = inner.whole([dim])
        return self._copied(op, [inner], frame)

    def _iota(self, op: ir.Operation, frame: Frame) -> _Make | None:
        """An iota counts from the beginning of the value, and not of the frame."""
        at = frame.at[integer(op, "iota_dimension")]
        counted = self._copied(op, [], frame)
        assert counted is not None, "it has no operands"
        if not at:
            return counted

        def make() -> ir.Value:
            value = counted()
            return self._ops.create(
                "stablehlo.subtract", frame, [value, hlo.number(at, value.type)]
            )

        return make

    def _joined(self, op: ir.Operation, frame: Frame) -> _Make | None:
        """A concatenation along a dimension that the frame keeps, with a frame for each operand."""
        along = integer(op, "dimension")
        if frame.is_changed(along, op.results[0].type.shape[along]):
            return None
        frames = [frame.with_dim(along, 0, value.type.shape[along]) for value in op.operands]
        make = self._copied(op, frames, frame)
        return None if make is None else self._noted(make)

    def _pad(self, op: ir.Operation, frame: Frame) -> _Make | None:
        """A padding along dimensions that the frame keeps."""
        value, inner = op.operands[0], frame
        for dim, widths in enumerate(zip(*pad_widths(op), strict=True)):
            if not frame.is_changed(dim, op.results[0].type.shape[dim]):
                inner = inner.with_dim(dim, 0, value.type.shape[dim])
            elif any(widths):
                return None
        make = self._copied(op, [inner, inner], frame)
        return None if make is None else self._noted(make)

    def _noted(self, make: _Make) -> _Make:
        def noted() -> ir.Value:
            value = make()
            self.assembled.append(value)
            return value

        return noted

    def _assembled(self, op: ir.Operation, assembly: Assembly, frame: Frame) -> _Make | None:
        """The plan that selects each part where it lies, over the base or the fill."""
        parts = [part for part in assembly.parts if _is_inside(part, frame)]
        # Without a base or a fill the first part needs no select, so that is the largest.
        parts.sort(key=lambda part: -prod(part.sizes))
        makes = [self._part(part, frame.moved(part.begins)) for part in parts]
        base = self._place(assembly.base, frame) if assembly.base is not None else None
        if None in makes or (assembly.base is not None and base is None):
            return None
        fill = assembly.fill

        def make() -> ir.Value:
            result = base() if base is not None else None
            if fill is not None:
                result = self._ops.repeated(fill, (), frame)
            for part, make_part in zip(parts, makes, strict=True):
                assert make_part is not None, "checked above"
                new = make_part()
                if part.combine is not None and result is not None:
                    new = self._ops.create(part.combine, frame, [result, new])
                result = new if result is None else self._ops.selected(part, frame, new, result)
            assert result is not None, "there are parts"
            return result

        return self._at(op, make)

    def _part(self, part: Part, frame: Frame) -> _Make | None:
        """A part in its frame, which may lack dimensions of size 1."""
        value = behind_copies(part.value, part.sizes)
        if value is not None:
            return self._place(value, frame)
        dims = [dim for dim, of_value in enumerate(part.dims) if of_value is not None]
        if len(dims) == len(part.dims):
            return self._place(part.value, frame)
        inner = self._place(part.value, frame.of_dims(dims))
        if inner is None:
            return None
        return lambda: self._ops.repeated(inner(), dims, frame)


def _itself(value: ir.Value) -> ir.Value:
    return value


def _is_inside(part: Part, frame: Frame) -> bool:
    """Whether any of the part's elements are in the frame's tensor."""
    begins = [at + begin for at, begin in zip(frame.at, part.begins, strict=True)]
    bounds = zip(begins, part.sizes, frame.shape, strict=True)
    return all(begin < size and begin + own > 0 for begin, own, size in bounds)


def _is_split(op: ir.Operation, assembly: Assembly, sharding: Sharding) -> bool:
    """Whether the parts differ from the result along a dimension that is split."""
    shape = op.results[0].type.shape
    sizes = [*(part.sizes for part in assembly.parts), op.operands[0].type.shape]
    return any(
        axes and any(each[dim] != shape[dim] for each in sizes)
        for dim, axes in enumerate(sharding.split_axes)
    )


_PLANNERS: Mapping[str, Callable[[PartsInPlace, ir.Operation, Frame], _Make | None]] = {
    "stablehlo.slice": PartsInPlace._slice,
    "stablehlo.broadcast_in_dim": PartsInPlace._broadcast,
    "stablehlo.iota": PartsInPlace._iota,
    "stablehlo.concatenate": PartsInPlace._joined,
    "stablehlo.pad": PartsInPlace._pad,
}
