"""Helpers that create loops on single elements: indices, buffers, and the regions of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import TypeAlias

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_values
from shard_dialect.ir.building.loops_and_masks import counted

Number: TypeAlias = int | ir.Value
Values: TypeAlias = list[ir.Value]


def index(number: Number) -> ir.Value:
    """The constant index, or the value itself."""
    return build.index(number) if isinstance(number, int) else number


def bit(value: bool) -> ir.Value:
    """The constant `i1`."""
    return build.number(int(value), build.integer(1))


def joined(name: str, a: Number, b: Number) -> ir.Value:
    """The result of the op `arith.name` on two indices, or on two values of another type."""
    return build.arith(name, index(a), index(b))


def less(a: Number, b: Number) -> ir.Value:
    """Whether an index is less than another one, both signed."""
    return build.compare("slt", index(a), index(b))


def is_inside(position: Number, size: int) -> ir.Value:
    """Whether an index is at least zero and less than `size`."""
    return joined("andi", less(-1, position), less(position, size))


def chosen(condition: ir.Value, if_true: Number, if_false: Number) -> ir.Value:
    """Select `if_true` where the condition holds, else `if_false`."""
    return build.select(condition, index(if_true), index(if_false))


def negated(condition: ir.Value) -> ir.Value:
    """Whether the condition does not hold."""
    return joined("xori", condition, bit(True))


def all_of(conditions: Sequence[ir.Value]) -> ir.Value:
    """Whether all conditions hold."""
    return reduce(partial(joined, "andi"), conditions) if conditions else bit(True)


def loop(
    begin: Number,
    end: Number,
    carried: Sequence[ir.Value],
    write: Callable[[ir.Value, Values], Sequence[ir.Value]],
) -> Values:
    """An `scf.for` and its results; `write` returns the values carried to the next iteration."""
    loop_op, block = counted((begin, end, 1), carried)
    with ir.InsertionPoint(block):
        build.create("scf.yield", [], list(write(block.arguments[0], list(block.arguments)[1:])))
    return list(loop_op.results)


def nest(
    sizes: Sequence[Number],
    write: Callable[[Values, Values], Sequence[ir.Value]],
    carried: Sequence[ir.Value] = (),
) -> Values:
    """Nested loops over all positions in a tensor of these sizes, the last dimension innermost."""

    def inner(indices: Values, now: Sequence[ir.Value]) -> Sequence[ir.Value]:
        if len(indices) == len(sizes):
            return write(indices, list(now))
        size = sizes[len(indices)]
        return loop(0, size, now, lambda index, now: inner([*indices, index], now))

    return list(inner([], carried))


def only_if(
    condition: ir.Value,
    write: Callable[[], Sequence[ir.Value]],
    others: Sequence[ir.Value] = (),
) -> Values:
    """An `scf.if` and its results: those of `write` where the condition holds, else `others`."""
    if_op = build.create("scf.if", [value.type for value in others], [condition], regions=2)
    then, otherwise = (region.blocks.append() for region in if_op.regions)
    with ir.InsertionPoint(then):
        build.create("scf.yield", [], list(write()))
    with ir.InsertionPoint(otherwise):
        build.create("scf.yield", [], list(others))
    return list(if_op.results)


def allocated(type_: ir.ShapedType, *more: int) -> ir.Value:
    """Allocate a buffer for a tensor, with leading dimensions `more`."""
    shape = [*more, *type_.shape]
    return build.allocate(ir.MemRefType.get(shape, type_.element_type))


def copy(tensor: ir.Value) -> ir.Value:
    """Allocate a buffer with the elements of the tensor."""
    into = allocated(tensor.type)
    build.copy(build.buffer_of(tensor), into)
    return into


def load(source: ir.Value, indices: Sequence[Number]) -> ir.Value:
    """Load the element at these indices."""
    operands = [source, *map(index, indices)]
    return build.create_value("memref.load", source.type.element_type, operands)


def element(tensor: ir.Value, indices: Sequence[Number]) -> ir.Value:
    """The element of a tensor at these indices."""
    operands = [tensor, *map(index, indices)]
    return build.create_value("tensor.extract", tensor.type.element_type, operands)


def store(value: ir.Value, into: ir.Value, indices: Sequence[Number]) -> None:
    """Store an element at these indices."""
    build.create("memref.store", [], [value, into, *map(index, indices)])


def applied(op: ir.Operation, region: int, elements: Sequence[ir.Value]) -> Values:
    """Inline a region of `op`, which takes tensors of no dimensions, on elements."""
    types = [argument.type for argument in op.regions[region].blocks[0].arguments]
    singles = [
        build.create_value("tensor.from_elements", type_, [value])
        for type_, value in zip(types, elements, strict=True)
    ]
    copied = op.clone()  # after the definitions of values that its code reads
    (block,) = copied.regions[region].blocks
    replace_values(block.arguments, singles)
    results = [
        build.create_value("tensor.extract", value.type.element_type, [value])
        for value in build.inline_before(copied, block)
    ]
    copied.erase()
    return results
