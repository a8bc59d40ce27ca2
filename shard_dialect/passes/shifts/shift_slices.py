"""Replace slices of a split tensor that are joined again by shifts, which read halos.

    %a = slice %x [63:64]
    %b = slice %x [0:63]
    %c = concatenate %a, %b, dim = 0                    %x and %c split in dimension 0

becomes

    %c = mesh.roll %x, by 1 along 0                     each device sends its last element

so that neither the slices nor the result are distributed anew. Where the edge is repeated, say, or
the devices do not divide the dimension, the tensor is shifted, and its edges are replaced:

    %a = slice %x [63:64]
    %b = slice %x [1:64]
    %c = concatenate %b, %a, dim = 0
becomes

    %b = pad %x, %zero, low = [-1], high = [1]          reads a halo of one element
    %c = select %is_last, %x, %b

A slice of a padded tensor is a shift that is padded:

    %p = pad %x, %f, low = [1], high = [1]
    %s = slice %p [0:64]                                becomes pad %x, %f, low = [1], high = [-1]

What a stencil computes of the inside of a tensor is computed where it lies there
(`parts_in_place`), and not distributed anew when it is put between the edges.

Elements that come from near by are read in halos; a few from far away are added up, each device
adding zeros for those that it has not. Where both
would be more than a quarter of a shard the ops stay, as one exchange of the tensor, which several
of them share, may be cheaper; so all views of that tensor stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.grids import erase_cluster
from shard_dialect.ir.mesh.attributes import RULE, SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.read_function import read_functions
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Sharding
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.materialize.target_shardings import TargetShardings, read_target_shardings
from shard_dialect.passes.shifts.inline_views import inline_views
from shard_dialect.passes.shifts.parts_in_place import PartsInPlace
from shard_dialect.passes.shifts.placed_parts import ASSEMBLIES, MOVING
from shard_dialect.passes.shifts.shift_building import (
    ShiftBuilder,
    Shifts,
    is_identity,
    may_shift,
    shifts_of,
)
from shard_dialect.passes.shifts.shifted_views import VIEWS, View, view_of


@dataclass(frozen=True)
class ShiftSlices(Pass):
    """Replace slices of a split tensor that are joined again by shifts, which read halos."""

    name = "shift-slices"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite functions in the propagated form; raises a located `ShardError`."""
        inline_views(module)
        functions = [
            function
            for function in functions_of(module)
            if form_of(function) == "propagated" and any(map(_may_change, walk(function)))
        ]
        if not functions:
            return
        shardings = Shardings.of(module)
        grids = set(shardings.grids)
        for each in read_target_shardings(module, read_functions(functions), shardings):
            _Function(each, shardings).rewrite()
        for name in set(shardings.grids) - grids:
            erase_cluster(module, name)  # what is written has the grids that were there


def _is_view(op: ir.Operation) -> bool:
    return op.name in VIEWS and SHARDINGS in op.attributes and RULE not in op.attributes


def _may_change(op: ir.Operation) -> bool:
    return _is_view(op) or op.name in ASSEMBLIES


class _Function:
    """One function, with the sharding of each value by the value."""

    def __init__(self, targets: TargetShardings, shardings: Shardings) -> None:
        self.shardings = shardings
        self.ops = [op.handle.operation for op in targets.function.ops]
        self.of: dict[ir.Value, Sharding] = {}
        self.replaced: dict[ir.Value, ir.Value] = {}
        self.shifted: dict[tuple[ir.Value, int, Shifts | None], ir.Value] = {}
        """What has been shifted along a dimension, for other views that are shifted alike."""
        self.unused: dict[ir.Value, ir.Operation] = {}
        """What is to be erased, users first, by its result: the hash of an op is its contents'."""
        self.far: set[ir.Value] = set()
        """The tensors of which a view needs more than halos: all their views stay."""
        for op in targets.function.ops:
            numbers = (*op.operands, *op.results)
            values = (*op.handle.operands, *op.handle.results)
            if len(numbers) == len(values):
                for number, value in zip(numbers, values, strict=True):
                    if number in targets.of:
                        self.of[value] = targets.of[number]

    def rewrite(self) -> None:
        """Compute parts in place, replace the views whose shifts are near, and drop the rest."""
        views = [op for op in self.ops if _is_view(op)]
        found: dict[ir.Value, tuple[View, dict[int, Shifts]]] = {}
        for op in views:
            view = view_of(op.results[0], found.keys())
            shifts = self._shifts(op, view)
            if shifts is not None:
                found[op.results[0]] = view, shifts
        assemblies = [op for op in self.ops if op.name in ASSEMBLIES]
        self._place_parts([op for op in assemblies if op.results[0] not in found])
        for value, (view, shifts) in found.items():
            root = self._current(view.root)
            if view.root not in self.far and not {value, root} & self.unused.keys():
                op = value.owner.operation
                self._replace(op, self._shifted(op, replace(view, root=root), shifts))
        self._drop(reversed(views))
        for op in self.unused.values():
            if not any(True for _ in op.results[0].uses):  # a constant may have a use again
                op.erase()

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

    def _replace(self, op: ir.Operation, value: ir.Value) -> None:
        self.of[value] = self.of[op.results[0]]
        self.replaced[op.results[0]] = value
        op.results[0].replace_all_uses_with(value)

    def _drop(self, ops: Iterable[ir.Operation]) -> None:
        """Note which of `ops`, users first, and what they read, are used by none that is kept."""
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
        """What took the place of a value, and of that, or itself."""
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def _shifts(self, op: ir.Operation, view: View) -> dict[int, Shifts] | None:
        """How each split dimension that is changed is made; `None` if the op is to stay."""
        result = op.results[0]
        if view.root == result:
            return None
        sharding, source = self.of.get(result), self.of.get(view.root)
        if sharding is None or sharding != source or sharding != sharding.bare:
            return None
        if sharding.partial or sharding.offsets or not may_shift(result.type):
            return None
        if op.name == "stablehlo.pad" and view.root == op.operands[0] and is_identity(view.fill):
            return None
        found: dict[int, Shifts] = {}
        is_root = not any(map(view.is_changed, range(len(view.dims))))
        is_resized = is_root and view.root.type == result.type
        for dim, axes in enumerate(sharding.split_axes):
            size = result.type.shape[dim]
            is_resized |= bool(axes) and op.operands[0].type.shape[dim] != size
            if not axes or not view.is_changed(dim):
                continue
            if size != view.root.type.shape[dim]:
                return None
            grid = self.shardings.grid(sharding.grid)
            shifts = shifts_of(view.dims[dim], size, grid.axes_size(axes))
            if shifts is None:
                self.far.add(view.root)
                return None
            found[dim] = shifts
        return found if found or is_resized else None

    def _shifted(self, op: ir.Operation, view: View, found: dict[int, Shifts]) -> ir.Value:
        (attribute,) = op.attributes[SHARDINGS]
        rank = op.results[0].type.rank
        annotation = self.shardings.read_annotation(attribute, rank)
        with ir.InsertionPoint(op), op.location:
            value = view.root
            for dim in range(rank):
                if not view.is_changed(dim):
                    continue
                edges = self.shardings.write(_without(annotation, dim))
                line = self.shardings.write(_only(annotation, dim))
                builder = ShiftBuilder(dim, attribute, edges, line, view.fill)
                key = value, dim, found.get(dim)
                known = self.shifted.get(key)
                if known is not None and known.owner.operation.block == op.block:
                    value = known
                elif dim in found:
                    value = self.shifted[key] = builder.shifted(value, found[dim])
                else:
                    value = builder.joined(value, view.dims[dim])
        return value


def _without(annotation: Annotation, dim: int) -> Annotation:
    """The annotation, with dimension `dim` not split."""
    sharding = annotation.sharding
    axes = (*sharding.split_axes[:dim], (), *sharding.split_axes[dim + 1 :])
    return Annotation(replace(sharding, split_axes=axes))


def _only(annotation: Annotation, dim: int) -> Annotation:
    """The annotation of a tensor that has only dimension `dim`."""
    sharding = annotation.sharding
    return Annotation(Sharding(sharding.grid, (sharding.split_axes[dim],)))
