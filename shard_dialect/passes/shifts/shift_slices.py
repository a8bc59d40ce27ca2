"""Replace slices of a split tensor that are joined again by shifts, which read halos.

    %a = slice %x [63:64]
    %b = slice %x [0:63]
    %c = concatenate %a, %b, dim = 0                    %x and %c split in dimension 0

becomes

    %c = mesh.roll %x, by 1 along 0                     each device sends its last element

so that neither the slices nor the result are distributed anew. Where the edge is repeated (%a after
`slice %x [1:64]`), or the devices do not divide the dimension, the tensor is shifted by a `pad` of
low = [-1] and high = [1], which reads a halo of one element, and a `select` replaces its edges. A
slice of a padded tensor is a shift that is padded. The sum of paddings that lie beside each other
is a concatenation (`joined_paddings`). The functions that JAX makes of `jnp.pad` and the like,
which only slice, pad and join, are inlined before. The inside of a stencil is computed
where it lies (`compute_in_place`), and not distributed anew between its edges.

Elements from near by are read in halos; a few from far away are added up, each device adding zeros
for those that it has not. So are slices for which devices would need larger halos. Where both would
be more than a quarter of a shard, all views of that tensor stay, as they may share one exchange.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import astuple, dataclass
from functools import cached_property
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import copy_onto, drop_unused
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.grids import erase_cluster
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.mesh.attributes import RULE, SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.mesh.value_shardings import sharding_of
from shard_dialect.ir.numbered_function import Op, read_functions
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Sharding, Windows
from shard_dialect.ops.op_table import OpKinds
from shard_dialect.ops.stablehlo.attribute_reading import pad_widths, windows_over, write_padding
from shard_dialect.ops.stablehlo.reduction_rules import chooses_by_order
from shard_dialect.passes.framework.base import Pass, needs
from shard_dialect.passes.materialize.target_shardings import TargetShardings, read_target_shardings
from shard_dialect.passes.propagate.compose_slices import Cut, cuts_of, whole
from shard_dialect.passes.shifts.compute_in_place import PartsInPlace
from shard_dialect.passes.shifts.joined_paddings import join_paddings
from shard_dialect.passes.shifts.placed_parts import ASSEMBLIES, MOVING
from shard_dialect.passes.shifts.shifts import (
    VIEWS,
    ShiftBuilder,
    Shifts,
    Spans,
    View,
    is_identity,
    may_shift,
    shifts_of,
    view_of,
)

_MOVING = VIEWS | {"stablehlo.reverse"}
_SLICE = "stablehlo.slice"
_INLINED = _MOVING | {
    "stablehlo.add",  # of paddings, in gradients
    "stablehlo.broadcast_in_dim",
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.reshape",
}


@needs(ops=(*_MOVING, *ASSEMBLIES, "stablehlo.select_and_scatter"), forms=("propagated",))
@dataclass(frozen=True)
class ShiftSlices(Pass):
    """Replace slices of a split tensor that are joined again by shifts, which read halos."""

    name = "shift-slices"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite functions in the propagated form; raises a located `ShardError`."""
        functions = [
            function
            for function in functions_of(module, "propagated")
            if any(map(_may_change, walk(function)))
        ]
        if not functions:
            return
        shardings = Shardings.of(module)
        grids = set(shardings.grids)
        for function in functions:
            join_paddings(function, shardings)
        for each in read_target_shardings(module, read_functions(functions), shardings):
            _Function(each, shardings, grids).rewrite()
        for name in set(shardings.grids) - grids:
            erase_cluster(module, name)  # the ops written use the grids of before


def _is_ours(op: ir.Operation) -> bool:
    """Whether its result has a sharding, and not by a rule that the user has written for the op."""
    return SHARDINGS in op.attributes and RULE not in op.attributes


def _is_view(op: ir.Operation) -> bool:
    return op.name in VIEWS and _is_ours(op)


def _may_change(op: ir.Operation) -> bool:
    return _is_view(op) or op.name in ASSEMBLIES or op.name in _ALONE


@dataclass(frozen=True)
class _Shifted:
    """A view, the sharding in which it is shifted, and how along each split dimension."""

    view: View
    shifts: Mapping[int, Shifts]
    sharding: Sharding
    moved: int = 0
    """The elements that a device sends, where it may be shifted in several shardings."""


class _Function:
    """One function, with the sharding of each value by the value."""

    def __init__(self, targets: TargetShardings, shardings: Shardings, declared: Set[str]) -> None:
        self.targets = targets
        self.shardings = shardings
        self.kinds = OpKinds()
        self.declared = declared
        """The names of the grids that the module declares; `shardings` may have finer ones."""
        self.ops = [op.handle.operation for op in targets.function.ops]
        self.of: dict[ir.Value, Sharding] = {}
        self.replaced: dict[ir.Value, ir.Value] = {}
        self.shifted: dict[tuple[ir.Value, int, Shifts | None], ir.Value] = {}
        """The shifted tensors, by source, dimension and shifts: equal views share one."""
        self.unused: dict[ir.Value, ir.Operation] = {}
        """The ops to erase, users first, by result: an op's hash changes with its operands."""
        self.far: set[ir.Value] = set()
        """The tensors of which a view needs more than halos: all their views stay."""
        self.read_alike: set[ir.Value] = set()
        """The tensors whose views all take the same elements of the dimensions without shifts."""
        for op in targets.function.ops:
            numbers = (*op.operands, *op.results)
            values = (*op.handle.operands, *op.handle.results)
            if len(numbers) == len(values):
                for number, value in zip(numbers, values, strict=True):
                    if number in targets.of:
                        self.of[value] = targets.of[number]

    @cached_property
    def returned_as(self) -> dict[ir.Value, Sharding]:
        """The sharding in which each value is returned that has no other use."""
        function, found = self.targets.function, {}
        for op in function.ops:
            if op.name == "func.return":
                wanted = zip(op.operands, self.targets.signature.results, strict=True)
                for number, sharding in wanted:
                    if sharding is not None and len(function.readers[number]) == 1:
                        found[function.values[number].handle] = sharding
        return found

    @cached_property
    def stays_split(self) -> set[ir.Value]:
        """The values of which something is made that is returned in shards, or summed up in them.

        What becomes of others is gathered somewhere: best before it is moved about.
        """
        function, results = self.targets.function, self.targets.signature.results
        found: set[int] = set()
        for op in reversed(function.ops):
            if op.name == "func.return":
                wanted = zip(op.operands, results, strict=True)
                found.update(value for value, each in wanted if each and any(each.split_axes))
            elif not op.results or not found.isdisjoint(op.results) or self._sums_up(op):
                found.update(op.operands)
        return {function.values[value].handle for value in found}

    def _sums_up(self, op: Op) -> bool:
        """Whether an op reduces along dimensions that its operands split."""
        rule, of = self.kinds.kind_in(self.targets.function.values, op).rule, self.targets.of
        return rule is not None and any(
            value in of and dims is not None and rule.summed_axes(number, of[value])
            for number, (value, dims) in enumerate(zip(op.operands, rule.operands, strict=True))
        )

    def rewrite(self) -> None:
        """Compute parts in place, replace the views whose shifts are near, and drop the rest."""
        views = [op for op in self.ops if _is_view(op)]
        found: dict[ir.Value, _Shifted] = {}
        for op in views:
            shifted = self._shifts(op, view_of(op.results[0], found.keys()))
            if shifted is not None:
                found[op.results[0]] = shifted
        self._gather_what_is_rolled_often(found)
        self._note_what_all_read(found.values())
        assemblies = [op for op in self.ops if op.name in ASSEMBLIES]
        self._place_parts([op for op in assemblies if op.results[0] not in found])
        # A tensor is in `far` once one of its views is, which may be the last one: so views are
        # replaced only after all have been looked at.
        for value, shifted in found.items():
            root = self._current(shifted.view.root)
            if shifted.view.root not in self.far and not {value, root} & self.unused.keys():
                op = value.owner.operation
                self._replace(op, self._make(op, root, shifted), shifted.sharding)
        self._drop(reversed(views))
        self._slice_whole_dims_first()
        self._slice_most_first()
        for op in self.ops:
            if op.name in _ALONE and _is_ours(op) and op.results[0] not in self.unused:
                _ALONE[op.name](self, op)
        drop_unused(self.unused.values())  # but for a constant that has a use again

    def _gather_what_is_rolled_often(self, found: Mapping[ir.Value, _Shifted]) -> None:
        """Let views stay that are rolled far: each moves a shard, and gathering n - 1 for all."""
        rolled: Counter[tuple[ir.Value, int]] = Counter()
        for shifted in found.values():
            root, sharding = shifted.view.root, shifted.sharding
            for dim, each in shifted.shifts.items():
                axes = sharding.split_axes[dim]
                if each.is_rolled and axes:
                    devices = self.shardings.grid(sharding.grid).axes_size(axes)
                    # More than a quarter of a shard; fewer elements are cheaper to send each time.
                    is_far = 4 * devices * each.moved > root.type.shape[dim]
                    rolled[root, devices] += is_far
        self.far |= {root for (root, devices), count in rolled.items() if count >= devices}

    def _note_what_all_read(self, found: Iterable[_Shifted]) -> None:
        read: dict[ir.Value, set[tuple[Spans, ...]]] = {}
        for shifted in found:
            others = [
                spans for dim, spans in enumerate(shifted.view.dims) if dim not in shifted.shifts
            ]
            read.setdefault(shifted.view.root, set()).add(tuple(others))
        self.read_alike = {root for root, several in read.items() if len(several) == 1}

    def _in_order(self, shifted: _Shifted) -> list[int]:
        """The dimensions to change: those that get smaller, those that are shifted, the others.

        Views that take other parts of a dimension share what is sent of all of it.
        """
        view = shifted.view

        def growth(dim: int) -> int:
            size, before = sum(each.size for each in view.dims[dim]), view.root.type.shape[dim]
            is_first = size < before and view.root in self.read_alike
            return 0 if dim in shifted.shifts else -is_first if size <= before else 1

        changed = [dim for dim in range(len(view.dims)) if view.is_changed(dim)]
        return sorted(changed, key=growth)

    def _place_parts(self, queue: list[ir.Operation]) -> None:
        """Compute the parts of tensors in place, the last first, which may reach the others."""
        while queue:
            op = queue.pop()
            parts = PartsInPlace(self.of, self.shardings)
            make = parts.plan(op) if op.results[0] not in self.unused else None
            if make is None:
                continue
            with ir.InsertionPoint(op):
                self._replace(op, make())
            self._drop([op, *reversed(parts.visited)])
            queue += [each.owner.operation for each in parts.assembled]

    def _replace(self, op: ir.Operation, value: ir.Value, sharding: Sharding | None = None) -> None:
        """Let users read `value`, which has the sharding of the op's result if no other."""
        self.of[value] = sharding or self.of[op.results[0]]
        self.replaced[op.results[0]] = value
        op.results[0].replace_all_uses_with(value)

    def _drop(self, ops: Iterable[ir.Operation]) -> None:
        """Note which of `ops`, users first, and of their operands' ops no kept op uses."""
        stack = list(ops)[::-1]
        while stack:
            op = stack.pop()
            users = (use.owner.operation for use in op.results[0].uses)
            is_used = any(not user.results or user.results[0] not in self.unused for user in users)
            if is_used or op.results[0] in self.unused:
                continue
            self.unused[op.results[0]] = op
            makers = [value.owner for value in op.operands if not isinstance(value.owner, ir.Block)]
            stack += [each.operation for each in makers if each.name in ASSEMBLIES | MOVING]

    def _current(self, value: ir.Value) -> ir.Value:
        """The value at the end of the chain of replacements; `value` itself if there is none."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def _shifts(self, op: ir.Operation, view: View) -> _Shifted | None:
        """How each split dimension that is changed is made; `None` if the op is to stay.

        A tensor that is returned in another sharding may be rolled in that one.
        """
        result = op.results[0]
        if view.root == result:
            return None
        here, source = self.of.get(result), self.of.get(view.root)
        if here is None or source is None or not may_shift(result.type):
            return None
        known = tuple(dict.fromkeys((self.returned_as.get(result, here), here, source)))
        if not all(each.is_plain for each in known):
            return None
        if op.name == "stablehlo.pad" and view.root == op.operands[0] and is_identity(view.fill):
            return None
        if len(known) > 1 and all(each.grid in self.declared for each in known):
            rolled = [each for split in known if (each := self._rolled(split, op, view))]
            if rolled:
                return min(rolled, key=lambda each: each.moved)
        return self._near(op, view, here) if here == source else None

    def _near(self, op: ir.Operation, view: View, sharding: Sharding) -> _Shifted | None:
        """The shifts of a view that has the sharding of its root."""
        shape, grid = op.results[0].type.shape, self.shardings.grid(sharding.grid)
        found: dict[int, Shifts] = {}
        is_root = not any(map(view.is_changed, range(len(view.dims))))
        is_resized = is_root and view.root.type == op.results[0].type
        for dim, axes in enumerate(sharding.split_axes):
            is_resized |= bool(axes) and op.operands[0].type.shape[dim] != shape[dim]
            if not axes or not view.is_changed(dim):
                continue
            if shape[dim] != view.root.type.shape[dim]:
                return None
            shifts = shifts_of(view.dims[dim], shape[dim], grid.axes_size(axes))
            if shifts is None:
                self.far.add(view.root)
                return None
            found[dim] = shifts
        return _Shifted(view, found, sharding) if found or is_resized else None

    def _rolled(self, sharding: Sharding, op: ir.Operation, view: View) -> _Shifted | None:
        """The rolls of a view in `sharding`, which is resharded once, before them or after them.

        As slices of a split dimension, each of its parts would be resharded by itself.
        """
        shape, grid = op.results[0].type.shape, self.shardings.grid(sharding.grid)
        found, moved = {}, 0
        for dim, axes in enumerate(sharding.split_axes):
            if not view.is_changed(dim):
                continue
            devices = grid.axes_size(axes)
            same = shape[dim] == view.root.type.shape[dim]
            shifts = shifts_of(view.dims[dim], shape[dim], devices) if same else None
            if shifts is None or not shifts.is_rolled:
                return None
            found[dim] = shifts
            if devices > 1:
                held = sharding.local_shape(shape, grid)
                moved += prod(held) // held[dim] * min(shifts.moved, held[dim])
        return _Shifted(view, found, sharding, moved) if found else None

    def _slice_whole_dims_first(self) -> None:
        """Slice along dimensions that are not split before those along which elements are moved.

            slice %x [0:2, ::2] of 8x64 elements, split in dimension 1
            slice %x [0:2, 0:64], then its [0:2, ::2]            devices send of 2 rows, not of 8

        Slices of one tensor that take other parts of these dimensions share what is sent of all,
        if they take more together.
        """
        slices: dict[ir.Value, list[ir.Operation]] = {}
        for op in self.ops:
            is_kept = op.name == _SLICE and _is_ours(op) and op.results[0] not in self.unused
            # Loops that are annotated are those of the slice as it is.
            if is_kept and not has_loops(op):
                slices.setdefault(op.operands[0], []).append(op)
        for value, ops in slices.items():
            source = self.of.get(value)
            if source is None or not source.is_plain:
                continue
            every = [whole(size) for size in value.type.shape]
            split = [bool(axes) for axes in source.split_axes]
            moving = [op for op in ops if _chosen(cuts_of(op), split, every) != every]
            firsts: dict[tuple[Cut, ...], list[ir.Operation]] = {}
            for op in moving:
                firsts.setdefault(tuple(_chosen(every, split, cuts_of(op))), []).append(op)
            taken = sum(prod(each.count for each in first) for first in firsts)
            if taken < prod(value.type.shape):
                for first, of_first in firsts.items():
                    self._slice_first(value, first, source, of_first, [not each for each in split])

    def _slice_first(
        self,
        value: ir.Value,
        cuts: Sequence[Cut],
        source: Sharding,
        ops: Sequence[ir.Operation],
        is_first: Sequence[bool],
    ) -> None:
        """Let `ops` slice what these cuts take of `value`, along the dimensions not `is_first`."""
        with _after(value), ops[0].location:
            first = hlo.slice_(value, *zip(*map(astuple, cuts), strict=True))
        self.of[first] = source
        annotated = self.shardings.write(sharding_of(value) or source)
        first.owner.attributes[SHARDINGS] = ir.ArrayAttr.get([annotated])
        every = [whole(size) for size in first.type.shape]
        for op in ops:
            rest = _chosen(every, is_first, cuts_of(op))
            op.operands[0] = first
            op.attributes["start_indices"] = hlo.i64s([each.start for each in rest])
            op.attributes["limit_indices"] = hlo.i64s([each.end for each in rest])
            op.attributes["strides"] = hlo.i64s([each.stride for each in rest])

    def _slice_most_first(self) -> None:
        """Slice along several split dimensions one after the other, the smallest part first.

        slice %x [24:48, 32:36] of 48x40 elements, split in both dimensions
        slice %x [0:48, 32:36], then its [24:48, 0:4]        halos have 4 columns, not 40
        """
        slices = [
            op
            for op in self.ops
            if op.name == _SLICE and _is_ours(op) and op.results[0] not in self.unused
        ]
        times = Counter(op.operands[0] for op in slices)
        for op in slices:
            value, source = op.operands[0], self.of.get(op.results[0])
            # Several slices of one tensor share what is sent of it.
            if source is None or source != self.of.get(value) or has_loops(op) or times[value] > 1:
                continue
            if not source.is_plain:
                continue
            cuts, sizes = cuts_of(op), value.type.shape
            changed = [
                dim
                for dim, axes in enumerate(source.split_axes)
                if axes and cuts[dim] != whole(sizes[dim])
            ]
            for dim in sorted(changed, key=lambda dim: cuts[dim].count / sizes[dim])[:-1]:
                is_first = [each == dim for each in range(len(sizes))]
                every = [whole(size) for size in op.operands[0].type.shape]
                first = _chosen(cuts_of(op), is_first, every)
                self._slice_first(op.operands[0], first, source, [op], is_first)

    def _look_up(self, op: ir.Operation) -> None:
        """Let the devices add up what each has of a slice, where its halos would be larger.

            slice [63:65] of 128 elements on 4 devices     2 of 128 elements
            the first device's halo for element 63         32 elements

        Several slices of one tensor may share its gathering, and do unless all of them are small.
        """
        value, result = op.operands[0], op.results[0]
        source = self.of.get(value)
        begins, strides = (list(op.attributes[name]) for name in ("start_indices", "strides"))
        if source is None or not source.is_plain:
            return
        sizes, picked = value.type.shape, result.type.shape
        counts = [(n - 1) * stride + 1 for n, stride in zip(picked, strides, strict=True)]
        cut = [d for d, axes in enumerate(source.split_axes) if axes and sizes[d] != counts[d]]
        if len(cut) != 1 or 0 in picked or not may_shift(result.type):
            return
        (dim,) = cut
        devices = self.shardings.grid(source.grid).axes_size(source.split_axes[dim])
        reading = Windows(sizes[dim], counts[dim], 1, 1, -begins[dim]).reading(devices)
        moved = reading.sent if reading is not None else sizes[dim]
        if 2 * (devices - 1) * counts[dim] >= devices * moved:  # an all-reduce of the slice
            return
        others = [use.owner.operation for use in value.uses if use.owner.operation.name == op.name]
        if 2 * sum(each.results[0].type.shape[dim] for each in others) >= sizes[dim]:
            return
        (attribute,) = op.attributes[SHARDINGS]
        annotation = _without(self.shardings.read_annotation(attribute, len(counts)), dim)
        shardings = ir.ArrayAttr.get([self.shardings.write(annotation)])
        with ir.InsertionPoint(op), op.location:
            index = ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
            starts = [hlo.number(begin, index) for begin in begins]
            found = hlo.dynamic_slice(value, starts, counts)
            found.owner.attributes[SHARDINGS] = shardings
            if counts != list(picked):
                found = hlo.slice_(found, [0] * len(counts), picked, strides)
                found.owner.attributes[SHARDINGS] = shardings
        self._replace(op, found)
        self.unused[result] = op

    def _fill_later(self, op: ir.Operation) -> None:
        """Pad with zeros, which halos hold, and put any other value in their place afterwards."""
        value, fill = op.operands
        result, source = op.results[0], self.of.get(op.results[0])
        lows, highs, between = pad_widths(op)
        if source is None or source != source.bare or is_identity(fill) or any(between):
            return
        if result not in self.stays_split:
            return
        shape, before = result.type.shape, value.type.shape
        dims = [d for d, (low, high) in enumerate(zip(lows, highs, strict=True)) if low or high]
        if not any(source.split_axes[dim] for dim in dims) or not may_shift(result.type):
            return
        (attribute,) = op.attributes[SHARDINGS]
        annotation = self.shardings.read_annotation(attribute, len(shape))
        with ir.InsertionPoint(op), op.location:
            zero = hlo.number(0, ir.RankedTensorType.get([], result.type.element_type))
            padded = copy_onto(op, [value, zero]).results[0]
            for dim in dims:
                builder = self._builder(dim, annotation, fill)
                padded = builder.filled_outside(padded, lows[dim], lows[dim] + before[dim])
        self._replace(op, padded)
        self.unused[result] = op

    def _choose_in_whole_windows(self, op: ir.Operation) -> None:
        """Let windows that end in padding have the last element there, not to be split elsewhere.

            windows of 3 over 11 elements, moved by 3: the last has 9, 10 and no element
            of 12 elements, of which the last is element 10 again, four windows of 3

        A window that chooses the repeated element adds to it what element 10 is to get. It chooses
        it only where it would choose element 10 otherwise, in any order of comparisons.
        """
        value, result, source = op.operands[0], op.results[0], self.of.get(op.results[0])
        sizes, counts = value.type.shape, op.operands[1].type.shape
        before = self.of.get(value)
        if source is None or before is None or not chooses_by_order(op):
            return
        if not (source.is_plain and before.is_plain):
            return
        grid, longer = self.shardings.grid(source.grid), list(sizes)
        along = windows_over(op)
        for dim, axes in enumerate(source.split_axes):
            each, n = along[dim], grid.axes_size(axes)
            is_tiled = each.low == 0 and each.high > 0 and each.extent <= each.stride
            is_split = n > 1 and {*axes} <= {*before.axes} and before.grid == source.grid
            if is_tiled and is_split and counts[dim] % n == 0 and sizes[dim] >= 2 * n:
                longer[dim] = max(sizes[dim], counts[dim] * each.stride)
        dims = [dim for dim, size in enumerate(longer) if size > sizes[dim]]
        if not dims:
            return
        (attribute,) = op.attributes[SHARDINGS]
        annotation = self.shardings.read_annotation(attribute, len(sizes))
        with ir.InsertionPoint(op), op.location:
            builders = [self._builder(dim, annotation, None) for dim in dims]
            for builder in builders:
                value = builder.end_repeated(value, longer[builder.dim] - sizes[builder.dim])
            whole_windows = copy_onto(op, [value])
            whole_windows.results[0].set_type(value.type)
            ends = [(0, 0) if d in dims else (a.low, a.high) for d, a in enumerate(along)]
            write_padding(whole_windows, ends)
            value = whole_windows.results[0]
            for builder in builders:
                value = builder.added_to_end(value, sizes[builder.dim])
        self._replace(op, value)
        self.unused[result] = op

    def _builder(self, dim: int, annotation: Annotation, fill: ir.Value | None) -> ShiftBuilder:
        """The builder of ops along `dim` of tensors with this annotation."""
        write = self.shardings.write
        edges, line = write(_without(annotation, dim)), write(_only(annotation, dim))
        axes = annotation.sharding.split_axes
        others = Sharding(annotation.sharding.grid, (*axes[:dim], *axes[dim + 1 :]))
        total = write(Annotation(others))
        return ShiftBuilder(dim, write(annotation), edges, line, total, fill)

    def _make(self, op: ir.Operation, root: ir.Value, shifted: _Shifted) -> ir.Value:
        """Create the ops that shift `root`, which stands for the root of the view."""
        view, found = shifted.view, shifted.shifts
        (attribute,) = op.attributes[SHARDINGS]
        annotation = Annotation(shifted.sharding)
        if shifted.sharding == self.of[op.results[0]]:
            annotation = self.shardings.read_annotation(attribute, op.results[0].type.rank)
        with ir.InsertionPoint(op), op.location:
            value = root
            for dim in self._in_order(shifted):
                builder = self._builder(dim, annotation, view.fill)
                key = value, dim, found.get(dim)
                known = self.shifted.get(key)
                if known is not None and known.owner.operation.block == op.block:
                    value = known
                elif dim in found:
                    value = self.shifted[key] = builder.shifted(value, found[dim])
                else:
                    value = builder.joined(value, view.dims[dim])
        return value


_ALONE: dict[str, Callable[[_Function, ir.Operation], None]] = {
    "stablehlo.pad": _Function._fill_later,
    "stablehlo.select_and_scatter": _Function._choose_in_whole_windows,
    "stablehlo.slice": _Function._look_up,
}
"""Rewrites of an op by itself."""


def _chosen(cuts: Sequence[Cut], split: Sequence[bool], others: Sequence[Cut]) -> list[Cut]:
    """The cuts of the dimensions that are split, and those of `others` for the rest."""
    return [a if is_split else b for a, is_split, b in zip(cuts, split, others, strict=True)]


def _after(value: ir.Value) -> ir.InsertionPoint:
    """Where `value` is known."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner)
    return ir.InsertionPoint.after(owner.operation)


def _without(annotation: Annotation, dim: int) -> Annotation:
    """The annotation, with dimension `dim` not split."""
    return Annotation(annotation.sharding.with_dim(dim, ()))


def _only(annotation: Annotation, dim: int) -> Annotation:
    """The annotation of a tensor that has only dimension `dim`."""
    sharding = annotation.sharding
    offsets = sharding.offsets[dim] if sharding.offsets else ()
    return Annotation(Sharding(sharding.grid, ((),)).with_dim(0, sharding.split_axes[dim], offsets))
