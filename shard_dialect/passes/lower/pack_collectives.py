"""Move collectives of the local form to the first dimension, so that messages are contiguous.

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
           : tensor<4x4xf32> -> tensor<4x8xf32>

becomes, with a block of rows for each device,

    %a = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 0
           : tensor<4x4xf32> -> tensor<8x4xf32>
    %b = tensor.expand_shape %a : tensor<8x4xf32> into tensor<2x4x4xf32>
    %c = linalg.transpose %b permutation = [1, 0, 2] : tensor<4x2x4xf32>
    %1 = tensor.collapse_shape %c : tensor<4x2x4xf32> into tensor<4x8xf32>

A slice or a mask needs no communication: the device looks up its position by its rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.collectives.step import scaled
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.loops_and_masks import elementwise
from shard_dialect.ir.mesh.attributes import LOCAL_TYPES
from shard_dialect.ir.shard.local_collectives import attributes_of, described
from shard_dialect.ir.walk import body
from shard_dialect.model import Grid, Reduction
from shard_dialect.model.sharding import Shape

_Unpack = Callable[[ir.Value], ir.Value]


@dataclass(frozen=True)
class _Packed:
    """The operand and result of a collective that is moved to the first dimension."""

    operand: ir.Value
    shape: Shape
    unpack: _Unpack
    attributes: dict[str, ir.Attribute] = field(default_factory=dict)
    """The attributes that name dimensions."""


def pack_collective(
    op: ir.Operation,
    step: LocalStep,
    grid: Grid,
    function: ir.Operation,
    local_types: Sequence[ir.Type],
) -> None:
    """Replace a collective of `function`, whose step is given, by one along dimension 0.

    It notes `local_types`, of the operand and the result in the local form.
    """
    alone = record_of(step).alone
    if alone is not None:
        with ir.InsertionPoint(op), op.location:
            replace_op(op, alone(_Alone(op.operands[0], step, grid, rank_of(function, grid))))
        return
    with ir.InsertionPoint(op), op.location:
        packed = _packed(op.operands[0], step, grid)
        if packed is None:
            return
        type_ = build.resized(op.results[0].type, packed.shape)
        types = ir.ArrayAttr.get([ir.TypeAttr.get(each) for each in local_types])
        what = {each.name: each.attr for each in described(op)} | packed.attributes
        what[LOCAL_TYPES] = types
        if op.name == "mesh.start":
            attributes = {"collective": ir.DictAttr.get(what)}
        else:
            attributes = {name: each for name, each in what.items() if name != "name"}
        collective = build.create_value(
            op.name, type_, [packed.operand, *list(op.operands)[1:]], attributes
        )
        if op.name != "mesh.start":
            replace_op(op, packed.unpack(collective))
            return
    for use in list(op.results[0].uses):
        done = use.owner.operation
        with ir.InsertionPoint(done), done.location:
            received = build.create_value("mesh.done", type_, [collective])
            replace_op(done, packed.unpack(received))
    op.erase()


def _packed(value: ir.Value, step: LocalStep, grid: Grid) -> _Packed | None:
    """`None` for a collective that is along the first dimension already, or along none."""
    shape, count = tuple(value.type.shape), grid.axes_size(step.axes)
    joined, cut, along = step.joined_dim, step.cut_dim, step.exchanged_dim
    if not (joined or cut or along):
        return None
    first = dict.fromkeys(filter(None, (step.joins, step.cuts, step.exchanges)), 0)
    spelling = record_of(step).local
    assert spelling is not None, "the step is of the local form"
    packed = replace(cast("Any", step), **first)
    attributes = attributes_of(packed, spelling, first)
    if along:
        first_major = _transposed_to(value, along, 0)
        return _Packed(
            first_major,
            tuple(first_major.type.shape),
            lambda received: _transposed_to(received, 0, along),
            attributes,
        )
    operand, piece = value, list(shape)
    if cut is not None:
        operand = _split(value, cut, count)
        piece[cut] //= count
    rows = scaled(
        tuple(operand.type.shape),
        {0: (1 if joined is None else count, 1 if cut is None else count)},
    )
    if joined is None:
        return _Packed(operand, rows, lambda received: received, attributes)
    return _Packed(
        operand, rows, lambda received: _merged(received, count, tuple(piece), joined), attributes
    )


def _split(value: ir.Value, dim: int, count: int) -> ir.Value:
    """Split a dimension in `count` blocks, and stack them along the first dimension."""
    shape = list(value.type.shape)
    split = _reshaped(value, [*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :]])
    sizes = list((first_major := _transposed_to(split, dim, 0)).type.shape)
    return _reshaped(first_major, [sizes[0] * sizes[1], *sizes[2:]])


def _merged(value: ir.Value, count: int, slice_shape: Shape, dim: int) -> ir.Value:
    """Join `count` blocks, stacked along the first dimension, along `dim`."""
    shape = [*slice_shape[:dim], count * slice_shape[dim], *slice_shape[dim + 1 :]]
    return _reshaped(_transposed_to(_reshaped(value, [count, *slice_shape]), 0, dim), shape)


def _transposed_to(value: ir.Value, dim: int, to: int) -> ir.Value:
    """The transposed tensor whose dimension `to` is dimension `dim` of `value`."""
    shape = list(value.type.shape)
    permutation = [each for each in range(len(shape)) if each != dim]
    permutation.insert(to, dim)
    type_ = build.resized(value.type, [shape[each] for each in permutation])
    if _has_same_order(shape, permutation):
        return _reshaped(value, list(type_.shape))
    into = build.empty(type_)
    return build.transpose(value, into, permutation).results[0]


def _has_same_order(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    """Whether a transpose keeps the order of elements: it moves only dimensions of size 1."""
    kept = [dim for dim in permutation if shape[dim] != 1]
    return kept == sorted(kept) or 0 in shape


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    if list(value.type.shape) == list(shape):
        return value
    return build.unflatten(build.flat(value), shape)


@dataclass(frozen=True)
class _Alone:
    """A step without communication: this device's part of what all devices in its group hold."""

    operand: ir.Value
    step: Any
    grid: Grid
    rank: ir.Value

    def _own(self, number_of: Callable[[int], int], type_: ir.Type) -> ir.Value:
        positions = [self.grid.index_along(each, self.step.axes) for each in range(self.grid.size)]
        return of_rank(list(map(number_of, positions)), type_, self.rank)

    def own_slice(self, value: ir.Value, dim: int) -> ir.Value:
        """This device's slice along `dim`."""
        size = value.type.shape[dim] // self.grid.axes_size(self.step.axes)
        begin = self._own(lambda position: position * size, ir.IndexType.get())
        return build.extract_slice(value, begin, size, dim)

    def only_on(self, member: int, value: ir.Value, reduction: Reduction) -> ir.Value:
        """The value on one member of each group; the others have the identity of a reduction."""
        bit = build.integer(1)
        is_member = self._own(lambda position: int(position == member), bit)
        other = reductions.identity_value(reduction, value.type.element_type)
        return elementwise([value], lambda each: build.select(is_member, each, other))


def of_rank(numbers: Sequence[int], type_: ir.Type, rank: ir.Value) -> ir.Value:
    """Of `numbers`, one per rank, this device's."""
    if len(set(numbers)) == 1:
        return build.number(numbers[0], type_)
    listed = build.scalar(build.dense(numbers, type_))
    return build.create_value("tensor.extract", type_, [listed, rank])


def rank_of(function: ir.Operation, grid: Grid) -> ir.Value:
    """This device's rank, requested once in a function."""
    first = body(function).operations[0].operation
    if first.name == "shard.process_linear_index":
        return first.results[0]
    name = {"grid": ir.FlatSymbolRefAttr.get(grid.name)}
    with ir.InsertionPoint(first), first.location:
        return build.create_value("shard.process_linear_index", ir.IndexType.get(), [], name)
