"""Allocate all buffers of a function in one arena, disjoint only if their lifetimes overlap.

    %a = memref.alloc() : memref<64xf32>          %a = memref.view %arena[0][]
    ... last use of %a                       ->   ...
    %b = memref.alloc() : memref<32xf32>          %b = memref.view %arena[0][]

The caller passes the arena. Arguments that it has donated are in it when a run starts: buffers take
their places after their last use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from shard_dialect.abi.tensor_types import has_numpy_type
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import boundary, set_boundary
from shard_dialect.ir.mesh.attributes import DONATED
from shard_dialect.ir.numbered_function import accesses_memory, itemsize
from shard_dialect.ir.walk import body, operations

ALIGNMENT = 64


@dataclass(frozen=True)
class Buffer:
    """A buffer of the arena: its bytes, and the numbers of the first and the last op in its memory.

    The numbers are those of the ops in the function's block, times two; a last use is odd.
    """

    type: str
    """The type, as `64x32xf32`."""
    location: str | None
    offset: int
    bytes: int
    """Its bytes, with the padding to the alignment."""
    first: int
    last: int


@dataclass(frozen=True)
class Arena:
    """The memory of a function's buffers."""

    bytes: int
    buffers: tuple[Buffer, ...]
    donated: tuple[tuple[int, int], ...]
    """The numbers of the donated arguments, and where each of them is."""


def use_arena(function: ir.Operation) -> Arena:
    """Add an argument to the function, the arena for its buffers, and say where they are in it.

    Buffers are moved to it if their lifetime begins and ends in the function's own block.
    """
    spans = _spans(function)
    size, offsets = _placed(spans)
    buffers = tuple(
        Buffer(
            str(span.value.type).removeprefix("memref<").removesuffix(">"),
            location_text(span.value.location),
            offsets[number],
            span.size,
            span.first,
            span.last,
        )
        for number, span in enumerate(spans)
    )
    donated = tuple(
        (ir.BlockArgument(span.value).arg_number, offsets[number])
        for number, span in enumerate(spans)
        if isinstance(span.value.owner, ir.Block)
    )
    memory = _add_argument(function, size)
    for number, span in enumerate(spans):
        with _right_before(span.value), span.value.location:
            offset = build.index(offsets[number])
            view = build.create("memref.view", [span.value.type], [memory, offset])
        span.value.replace_all_uses_with(view.results[0])
        for op in span.replaced:
            op.erase()
    return Arena(size, buffers, donated)


def _right_before(value: ir.Value) -> ir.InsertionPoint:
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint(value.owner)


def _add_argument(function: ir.Operation, size: int) -> ir.Value:
    type_ = ir.MemRefType.get([size], build.integer(8))
    entries = [*boundary(function, "arg_attrs"), {}]
    for entry in entries:
        entry.pop(DONATED, None)  # LLVM does not know it
    function_type = function.attributes["function_type"].value
    argument = body(function).add_argument(type_, function.location)
    new_type = ir.FunctionType.get([*function_type.inputs, type_], function_type.results)
    function.attributes["function_type"] = ir.TypeAttr.get(new_type)
    set_boundary(function, "arg_attrs", entries)
    return argument


@dataclass(frozen=True)
class _Span:
    """A buffer, and the numbers of the first and the last op of the block that access it.

    Starts are even and ends odd: two buffers of one op are needed at the same time.
    """

    value: ir.Value
    replaced: tuple[ir.Operation, ...]
    """The ops that allocate and free it."""
    size: int
    first: int
    last: int


def _spans(function: ir.Operation) -> list[_Span]:
    """Of the donated arguments those first that are used last: space behind them is free first."""
    ops = operations(body(function))
    donated = [
        argument
        for argument, entry in zip(
            body(function).arguments, boundary(function, "arg_attrs"), strict=True
        )
        if DONATED in entry and _is_plain(argument.type)
    ]
    values: list[ir.Value] = [*donated]
    uses: list[list[int]] = [[] for _ in values]
    deallocs: list[list[ir.Operation]] = [[] for _ in values]
    owners: dict[ir.Value, list[int]] = {each: [number] for number, each in enumerate(values)}
    for position, op in enumerate(ops):
        if op.name == "memref.alloc" and not op.operands and _is_plain(op.results[0].type):
            owners[op.results[0]] = [len(values)]
            values.append(op.results[0])
            uses.append([])
            deallocs.append([])
            continue
        touched = {number for value in _values(op) for number in owners.get(value, ())}
        if op.name == "memref.dealloc":
            for number in touched:
                deallocs[number].append(op)
            continue
        for number in touched if accesses_memory(op) else ():
            uses[number].append(position)
        for result in op.results:
            # A result other than a float may be a view or an address of these buffers: they live as
            # long as it is used.
            if touched and not isinstance(result.type, ir.FloatType):
                owners[result] = sorted(touched)
    found = [
        _Span(value, (*freed, value.owner), _bytes(value.type), min(used) * 2, max(used) * 2 + 1)
        for value, freed, used in list(zip(values, deallocs, uses, strict=True))[len(donated) :]
        if used and len(freed) == 1 and freed[0].operands[0] == value
    ]
    given = [
        _Span(value, (), _bytes(value.type), -1, max(used) * 2 + 1)
        for value, used in zip(donated, uses, strict=False)
        if used
    ]
    return [*sorted(given, key=lambda each: -each.last), *found]


def _values(op: ir.Operation) -> list[ir.Value]:
    """The values that the op uses, also in its regions."""
    values = list(op.operands)
    for region in op.regions:
        for block in region:
            for inner in operations(block):
                values += _values(inner)
    return values


def _is_plain(type_: ir.Type) -> bool:
    is_known = type_.has_static_shape and has_numpy_type(type_.element_type)
    return is_known and "strided" not in str(type_)


def _bytes(type_: ir.Type) -> int:
    size = prod(type_.shape) * itemsize(type_.element_type)
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _placed(spans: Sequence[_Span]) -> tuple[int, list[int]]:
    """The bytes of an arena for buffers, and where each of them is in it.

    They are placed one after the other, the largest first, or the first first, whichever takes less
    memory: steps of training take as much as lives at once in the one order, loops in the other.
    """
    numbers = range(len(spans))
    orders = (
        sorted(numbers, key=lambda each: (-spans[each].size, spans[each].first)),
        sorted(numbers, key=lambda each: spans[each].first),
    )
    return min((_placed_in(order, spans) for order in orders), key=lambda each: each[0])


def _placed_in(order: Sequence[int], spans: Sequence[_Span]) -> tuple[int, list[int]]:
    """The same in an order: each in the smallest hole between those that live with it."""
    first, last, start, end = np.zeros((4, len(spans)), np.int64)
    offsets = [0] * len(spans)
    for number in order:
        span = spans[number]
        (beside,) = ((end > 0) & (first < span.last) & (last > span.first)).nonzero()
        beside = beside[start[beside].argsort(kind="stable")]
        free = np.append(0, np.maximum.accumulate(end[beside]))  # behind those that begin before
        holes = np.append(start[beside], np.iinfo(np.int64).max) - free
        offset = int(free[np.where(holes >= span.size, holes, np.iinfo(np.int64).max).argmin()])
        first[number], last[number] = span.first, span.last
        start[number], end[number] = offset, offset + span.size
        offsets[number] = offset
    return int(end.max(initial=0)), offsets
