"""Faulty programs on purpose: insert one fault into the local form of a correct program.

    %1 = shard.all_reduce %0 on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
    return %1                                             becomes    return %0

They measure how many faults a check finds. Each is a mistake that a partitioner can make: it keeps
all types, and accesses no invalid memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid
from shard_dialect.model.reached import reached

Change = Callable[[], None]


@dataclass(frozen=True)
class Fault:
    """A possible mistake of some kind at one position in a module."""

    kind: str
    op_text: str
    make: Change


def faults_in(module: ir.Operation) -> list[Fault]:
    """The possible mistakes in a module in the local form, in the order of its text."""
    grids = grids_of(module)
    faults = []
    for function in functions_of(module):
        for op in walk(function):
            for kind, changes in _KINDS.items():
                faults += [Fault(kind, str(op), change) for change in changes(op, grids)]
    return faults


def _missing_reduction(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """Replace a reduction by one device's partial value."""
    if op.name == "shard.all_reduce" and op.operands[0].type == op.results[0].type:
        yield lambda: op.results[0].replace_all_uses_with(op.operands[0])
    elif op.name == "shard.reduce_scatter":
        dim = op.attributes["scatter_dim"].value

        def slice_own() -> None:
            attributes = {
                "grid": op.attributes["grid"],
                "grid_axes": op.attributes["grid_axes"],
                "slice_axis": ir.IntegerAttr.get(ir.IndexType.get(), dim),
            }
            with ir.InsertionPoint(op), op.location:
                own = build.create(
                    "shard.all_slice", [op.results[0].type], [op.operands[0]], attributes
                )
            op.results[0].replace_all_uses_with(own.results[0])

        yield slice_own


def _doubled_reduction(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """Reduce a tensor once more, over the devices that have its sum already."""
    if op.name not in ("shard.all_reduce", "shard.reduce_scatter") or not _is_sum(op):
        return
    if op.name == "shard.all_reduce" and op.operands[0].type != op.results[0].type:
        return

    def repeat() -> None:
        kept = ("grid", "grid_axes", "reduction")
        attributes = {name: op.attributes[name] for name in kept if name in op.attributes}
        type_ = op.operands[0].type
        with ir.InsertionPoint(op), op.location:
            again = build.create("shard.all_reduce", [type_], [op.operands[0]], attributes)
        op.operands[0] = again.results[0]

    yield repeat


def _is_sum(op: ir.Operation) -> bool:
    return "reduction" not in op.attributes or "sum" in str(op.attributes["reduction"])


def _other_axis(op: ir.Operation, grids: Mapping[str, Grid]) -> Iterator[Change]:
    """An exchange along another axis of the same size."""
    if not op.name.startswith("shard.") or "grid_axes" not in op.attributes:
        return
    if _listed(op) is not None:
        return
    grid = grids[op.attributes["grid"].value]
    axes = list(op.attributes["grid_axes"])
    for number, axis in enumerate(axes):
        for other, size in enumerate(grid.shape):
            if other not in axes and size == grid.shape[axis]:
                new = [*axes[:number], other, *axes[number + 1 :]]
                yield partial(_set_axes, op, new, {axis: other})


def _set_axes(op: ir.Operation, axes: Sequence[int], moved: Mapping[int, int]) -> None:
    op.attributes["grid_axes"] = ir.DenseI16ArrayAttr.get(list(axes))
    if "shift_axis" in op.attributes:  # it is one of them
        axis = op.attributes["shift_axis"]
        op.attributes["shift_axis"] = ir.IntegerAttr.get(
            axis.type, moved.get(axis.value, axis.value)
        )


def _other_slice(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """Take a neighbour's slice, or one that begins elsewhere."""
    listed = _listed(op)
    if op.name == "shard.all_slice" and listed is None:
        yield partial(_turn, op)
    elif listed is not None and _is_used_by(op, "tensor.extract_slice"):
        numbers = list(listed)
        if len(set(numbers)) > 1:
            yield partial(_set_list, op, [*numbers[1:], numbers[0]])


def _turn(op: ir.Operation) -> None:
    """Let each device take the slice after its own."""
    value, dim = op.operands[0], op.attributes["slice_axis"].value
    size, count = value.type.shape[dim], op.results[0].type.shape[dim]
    with ir.InsertionPoint(op), op.location:
        slices = [
            build.extract_slice(value, count, size - count, dim),
            build.extract_slice(value, 0, count, dim),
        ]
        op.operands[0] = build.concatenated(slices, dim)


def _halo_off_by_one(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """Insert a shard one element too early in its tensor with a halo."""
    if op.name != "tensor.insert_slice" or not _is_used_by(op, "shard.update_halo"):
        return
    offsets = list(op.attributes["static_offsets"])
    for dim, offset in enumerate(offsets):
        if offset > 0:
            yield partial(_set_offsets, op, [*offsets[:dim], offset - 1, *offsets[dim + 1 :]])


def _set_offsets(op: ir.Operation, offsets: Sequence[int]) -> None:
    op.attributes["static_offsets"] = ir.DenseI64ArrayAttr.get(list(offsets))


def _padding_read(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """One element behind the end of the tensor, on a device that has room for it."""
    listed = _listed(op)
    if listed is None or _is_used_by(op, "tensor.extract_slice"):
        return
    numbers = list(listed)
    shorter = [position for position, number in enumerate(numbers) if number < max(numbers)]
    if shorter:
        position = shorter[0]
        yield partial(
            _set_list, op, [*numbers[:position], numbers[position] + 1, *numbers[position + 1 :]]
        )


def _other_number(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """A float that is half as large again, or a half where it was zero."""
    if not build.is_constant(op) or op.name == "tosa.const":  # it may be a zero point
        return
    if not isinstance(op.results[0].type, ir.RankedTensorType):
        return
    name, type_ = build.CONSTANTS[op.name], op.results[0].type
    given = op.attributes[name]
    if not isinstance(given, ir.DenseFPElementsAttr) or not given.is_splat:
        return
    number = given.get_splat_value().value
    if isfinite(number):
        with op.location:
            other = ir.FloatAttr.get(type_.element_type, 1.5 * number or 0.5)
        splat = ir.DenseElementsAttr.get_splat(type_, other)
        yield lambda: op.attributes.__setitem__(name, splat)


_OTHER_DIRECTION = {"LT": "LE", "LE": "LT", "GT": "GE", "GE": "GT", "EQ": "NE", "NE": "EQ"}


def _other_comparison(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """Less in place of less or equal, and the like."""
    name = "comparison_direction"
    if op.name != "stablehlo.compare":
        return
    text = str(op.attributes[name])
    before = next(each for each in _OTHER_DIRECTION if f" {each}" in text)
    other = text.replace(f" {before}", f" {_OTHER_DIRECTION[before]}")
    yield lambda: op.attributes.__setitem__(name, ir.Attribute.parse(other))


def _other_places(op: ir.Operation, _: Mapping[str, Grid]) -> Iterator[Change]:
    """Two devices that send to each other's, and one that sends to none."""
    name = "permutation"
    if op.name != "mesh.collective_permute" or name not in op.attributes:
        return
    before = [int(each) for each in op.attributes[name]]
    for at in range(len(before)):
        places = [*before[:at], -1, *before[at + 1 :]]
        if before[at] >= 0:
            yield partial(_set_places, op, name, places)
    yield partial(_set_places, op, name, [*before[1::-1], *before[2:]])


def _set_places(op: ir.Operation, name: str, places: Sequence[int]) -> None:
    i64 = build.integer(64)
    listed = [ir.IntegerAttr.get(i64, each) for each in places]
    is_dense = isinstance(op.attributes[name], ir.DenseI64ArrayAttr)
    dense = ir.DenseI64ArrayAttr.get(list(places)) if is_dense else ir.ArrayAttr.get(listed)
    op.attributes[name] = dense


def _listed(op: ir.Operation) -> list[int] | None:
    """Of a slice of a constant, which says for each device a number, these numbers."""
    if op.name != "shard.all_slice" or isinstance(op.operands[0].owner, ir.Block):
        return None
    constant = op.operands[0].owner.operation
    if not build.is_constant(constant) or op.operands[0].type.rank != 1:
        return None
    if not isinstance(op.operands[0].type.element_type, ir.IntegerType):
        return None
    return [int(each) for each in constant.attributes[build.CONSTANTS[constant.name]]]


def _set_list(op: ir.Operation, numbers: Sequence[int]) -> None:
    type_ = op.operands[0].type
    entries = [ir.IntegerAttr.get(type_.element_type, number) for number in numbers]
    with ir.InsertionPoint(op), op.location:
        result = build.scalar(ir.DenseElementsAttr.get(entries, type_))
    op.operands[0] = result


def _is_used_by(op: ir.Operation, name: str) -> bool:
    """Whether such an op uses the result, through single elements and sums."""

    def moved(value: ir.Value) -> list[ir.Value]:
        users = [use.owner.operation for use in value.uses]
        return [each.results[0] for each in users if each.name.startswith(_COMPUTED)]

    found = reached(op.results, moved)
    return any(use.owner.operation.name == name for value in found for use in value.uses)


_COMPUTED = ("arith.", "tensor.extract")


_KINDS: Mapping[str, Callable[[ir.Operation, Mapping[str, Grid]], Iterator[Change]]] = {
    "a reduction is missing": _missing_reduction,
    "a reduction is done twice": _doubled_reduction,
    "an exchange is along another axis": _other_axis,
    "a slice is at another index": _other_slice,
    "a halo is off by one": _halo_off_by_one,
    "an element of padding is read": _padding_read,
    "a number is another one": _other_number,
    "a comparison is another one": _other_comparison,
    "a message goes elsewhere": _other_places,
}
