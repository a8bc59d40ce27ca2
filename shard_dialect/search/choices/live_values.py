"""Which tensors are live together where a function needs most memory, before it is sharded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate

from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.search.choices.op_classes import Classes
from shard_dialect.search.searched_function import SearchedFunction

_PARTS = 8
"""Each of so many parts of a program has a peak of its own."""

_STORE_NOTHING = ("func.call", "linalg.fill", "stablehlo.dynamic_update_slice", "tensor.empty")
"""Ops whose results others store: what they write into, or the function that they call."""
_VIEWS = ("reshape", "_shape", "bitcast_convert", "insert_slice", "optimization_barrier")
"""The ends of the names of ops whose results may lie where their operands are."""

LiveValues = Mapping[int, int]
"""How many values of each class are live at one point."""


def live_values(function: SearchedFunction, classes: Classes) -> list[LiveValues]:
    """What is live at the peaks of the function's parts, arguments and results included.

    A value is live from the op that makes it to the last one that reads it, an argument all the
    time, a result to the end. No program needs less, however it is sharded: left out is what may be
    stored with another value.
    """
    ranges = _ranges(function)
    if not ranges:
        return []
    end = max(last for _, _, last in ranges) + 1
    changes = [0] * (end + 1)
    for value, first, last in ranges:
        size = classes.values[classes.of_value[value]].bytes
        changes[first] += size
        changes[last + 1] -= size
    totals = list(accumulate(changes))[:end]
    length = -(-end // _PARTS)
    peaks = {
        max(range(begin, min(begin + length, end)), key=totals.__getitem__)
        for begin in range(0, end, length)
    }
    found = [_live_at(peak, ranges, classes) for peak in sorted(peaks)]
    return [dict(each) for each in dict.fromkeys(tuple(sorted(each.items())) for each in found)]


def _live_at(point: int, ranges: Sequence[tuple[int, int, int]], classes: Classes) -> Counter[int]:
    return Counter(
        classes.of_value[value] for value, first, last in ranges if first <= point <= last
    )


def _ranges(function: SearchedFunction) -> list[tuple[int, int, int]]:
    """The graph's number of each value of the function, with the ops that it lives from and to."""
    graph = function.graph
    index = next(n for n, each in enumerate(graph.functions) if each.name == function.name)
    read = graph.functions[index]
    first: dict[int, int] = dict.fromkeys(read.arguments, 0)
    last: dict[int, int] = {}
    for position, op in enumerate(read.ops):
        if not (op.blocks or op.name in _STORE_NOTHING or op.name.endswith(_VIEWS)):
            first.update(dict.fromkeys(op.results, position))
        last.update(dict.fromkeys(op.read, position))
    end = len(read.ops)
    last.update(dict.fromkeys(read.arguments, end))
    last.update({each: end for op in read.returns for each in op.operands})
    numbered = ((graph.number_of(index, value), value) for value in first)
    return [
        (number, first[value], last.get(value, first[value]))
        for number, value in numbered
        if number != NO_TENSOR
    ]
