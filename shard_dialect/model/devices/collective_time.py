"""The seconds that a collective takes on a device model: the cheapest algorithm for its group.

    AllReduce((0,)) of 1 MiB on 16 devices, two nodes of eight H100:

    reduce-scatter in each node, then all-reduce between the nodes of 1/8, then all-gather

A group that spans several levels of the network is taken apart into one phase for each level
(hierarchical), or is one group at the pace of its slowest level (flat). The dimensions of a torus
work at once, each on its part of the data. Messages of n devices over a level with latency a and
bandwidth B take a + m / B for m bytes (Hockney's model). `docs/device-models.md` has the formulas
and their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from shard_dialect.model.collectives import (
    NOBODY,
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    ChangeOffsets,
    CropHalo,
    Mask,
    Permute,
    ReduceScatter,
    Step,
    UpdateHalo,
)
from shard_dialect.model.devices.collective_algorithms import Span, cheapest, worst_case_span
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.grid import Grid
from shard_dialect.model.point_to_point import Message, Receive, Send
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Reduce,
    RootedStep,
    Scatter,
    Shift,
    flat_index,
)
from shard_dialect.model.sharding import Shape

_Group = tuple[int, ...]
_LOCAL = (AllSlice, Mask, CropHalo, Send)
"""Steps without communication; a receiver, not the sender, waits for a message."""
_BY_GROUP = (AllGather, ReduceScatter, AllReduce, AllToAll, Broadcast, Gather, Scatter, Reduce)


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """The seconds from the time when all devices are ready, and the algorithm that needs them."""

    seconds: float
    algorithm: str


def seconds(
    step: Step | RootedStep | Message,
    grid: Grid,
    local_shape: Shape,
    itemsize: int,
    device_model: DeviceModel,
) -> float:
    """The seconds that the step takes, for an operand of this local shape.

    >>> model = DeviceModel.read("h100")
    >>> round(seconds(AllReduce((0,)), Grid("g", (8,)), (1 << 20, 256), 4, model) * 1e6)
    4187
    """
    return time_of(step, grid, local_shape, itemsize, device_model).seconds


def time_of(
    step: Step | RootedStep | Message,
    grid: Grid,
    local_shape: Shape,
    itemsize: int,
    device_model: DeviceModel,
) -> CollectiveTime:
    """The same with the algorithm. All groups communicate at once; the slowest counts."""
    device_model.check_size(grid.size)
    size = grid.axes_size(step.axes)
    if isinstance(step, _LOCAL) or size < 2:
        return CollectiveTime(0.0, "")
    if isinstance(step, _BY_GROUP):
        operand = prod(local_shape) * itemsize
        times = [
            _spanned(step.kind, spans, operand)
            for spans in _distinct_spans(grid, tuple(step.axes), device_model)
        ]
        return max(times, key=lambda each: each.seconds)
    return _by_messages(step, grid, local_shape, itemsize, device_model)


def _spanned(kind: str, spans: tuple[Span, ...], operand: float) -> CollectiveTime:
    """The cheaper of the phases, one for each level, and of one flat group."""
    choices = [_hierarchical(kind, spans, operand)]
    if len(spans) > 1 and not any(span.ring for span in spans):
        choices.append(CollectiveTime(*cheapest(kind, worst_case_span(spans), operand)))
    return min(choices, key=lambda each: each.seconds)


def _hierarchical(kind: str, spans: tuple[Span, ...], operand: float) -> CollectiveTime:
    """The dimensions of a torus are inside of all other levels, and are one unit."""
    rings = tuple(span for span in spans if span.ring)
    switches = tuple(span for span in spans if not span.ring)
    units = ([rings] if rings else []) + [(span,) for span in switches]
    total, names = 0.0, []
    for phase, unit, size in _phases(kind, units, operand):
        took, name = _on_torus(phase, unit, size)
        total += took
        names.append(name)
    return CollectiveTime(total, ", ".join(names))


def _on_torus(kind: str, spans: tuple[Span, ...], operand: float) -> tuple[float, str]:
    """Each part of the data visits the dimensions in another order, so that all work at once."""
    if len(spans) == 1:
        return cheapest(kind, spans[0], operand)
    parts = len(spans)
    orders = [spans[first:] + spans[:first] for first in range(parts)]
    phases = [_phases(kind, [(span,) for span in order], operand / parts) for order in orders]
    total = sum(
        max(cheapest(phase, unit[0], size)[0] for phase, unit, size in at_once)
        for at_once in zip(*phases, strict=True)
    )
    return total, f"torus of {'x'.join(str(span.size) for span in reversed(spans))}"


_Unit = tuple[Span, ...]


def _phases(kind: str, units: Sequence[_Unit], operand: float) -> list[tuple[str, _Unit, float]]:
    """The collectives that together are one over all units, innermost first: kind, unit, operand.

    A gather goes from the outside to the inside: the slower level moves the smaller operand.
    """
    sizes = [prod(span.size for span in unit) for unit in units]
    if kind == "all_reduce" and len(units) > 1:
        first, rest = units[0], units[1:]
        part = operand / sizes[0]
        return [
            ("reduce_scatter", first, operand),
            *_phases(kind, rest, part),
            ("all_gather", first, part),
        ]
    if kind in _OUTSIDE_FIRST:
        units, sizes = units[::-1], sizes[::-1]
    factor: Callable[[int], float] = _OPERAND_AFTER[kind]
    phases = []
    for unit, size in zip(units, sizes, strict=True):
        phases.append((kind, unit, operand))
        operand *= factor(size)
    return phases


_OUTSIDE_FIRST = ("all_gather", "broadcast", "scatter")
_OPERAND_AFTER: dict[str, Callable[[int], float]] = {
    "all_gather": lambda n: n,
    "gather": lambda n: n,
    "reduce_scatter": lambda n: 1 / n,
    "scatter": lambda n: 1 / n,
    "all_to_all": lambda n: 1,
    "all_reduce": lambda n: 1,
    "broadcast": lambda n: 1,
    "reduce": lambda n: 1,
}
"""How much larger the operand of the next phase is, after one with n devices."""


@lru_cache(maxsize=4096)
def _distinct_spans(grid: Grid, axes: tuple[int, ...], model: DeviceModel) -> set[tuple[Span, ...]]:
    places = [model.place(device) for device in range(grid.size)]
    return {_spans([places[each] for each in group], model) for group in grid.groups(axes)}


def _spans(places: Sequence[tuple[int, ...]], model: DeviceModel) -> tuple[Span, ...]:
    """How many devices of a group each level joins, innermost first; one flat span if uneven."""
    spans = []
    for number, level in enumerate(model.network):
        by_outer: dict[tuple[int, ...], set[int]] = {}
        for place in places:
            by_outer.setdefault(place[number + 1 :], set()).add(place[number])
        positions = max(by_outer.values(), key=len)
        span = Span(len(positions), level.bytes_per_second, level.latency, level.ring)
        if level.ring and len(positions) > 1:
            span = replace(span, share=_share_of_ring(sorted(positions), _ring_size(model, number)))
        spans.append(span)
    used = tuple(span for span in spans if span.size > 1)
    if prod(span.size for span in used) != len(places):
        return (replace(worst_case_span(spans), size=len(places)),)
    return used


def _ring_size(model: DeviceModel, number: int) -> int:
    level = model.network[number]
    inner = model.network[number - 1].devices if number else 1
    assert level.devices is not None, "the model was checked"
    assert inner is not None, "the model was checked"
    return level.devices // inner


def _share_of_ring(positions: Sequence[int], ring: int) -> float:
    """The part of the bandwidth that is left to a group on a ring of `ring` devices.

    Groups with a stride share the links. A group that does not go around has no link from its last
    device to its first: half of what it moves on a ring passes each of its links twice.
    """
    stride = max(1, (positions[-1] - positions[0]) // (len(positions) - 1))
    goes_around = len(positions) * stride == ring
    return (1.0 if goes_around else 0.5) / stride


def _by_messages(
    step: Step | RootedStep | Message,
    grid: Grid,
    local_shape: Shape,
    itemsize: int,
    model: DeviceModel,
) -> CollectiveTime:
    """The messages of one round go at once; rounds follow each other."""
    groups = grid.groups(step.axes)
    total = 0.0
    for pairs, size in _rounds(step, grid.sizes_along(step.axes), local_shape, itemsize):
        total += max(
            (
                _message(group[source], group[target], size, model)
                for group in groups
                for source, target in pairs
            ),
            default=0.0,
        )
    return CollectiveTime(total, "messages")


_Round = tuple[list[tuple[int, int]], int]
"""Pairs of members of a group, sender and receiver, and the bytes of each message."""


def _rounds(
    step: Step | RootedStep | Message, sizes: Sequence[int], shape: Shape, itemsize: int
) -> Iterable[_Round]:
    size = prod(sizes)
    members = range(size)
    operand = prod(shape) * itemsize
    if isinstance(step, Permute):
        sent = enumerate(step.permutation)
        yield [(member, to) for member, to in sent if to not in (member, NOBODY)], operand
    elif isinstance(step, Shift):
        partners = [(member, step.partners(member, sizes)[0]) for member in members]
        yield [(member, to) for member, to in partners if to not in (None, member)], operand
    elif isinstance(step, Receive):
        known = None if step.source is None else flat_index(step.source, sizes)
        sources = members if known is None else (known,)
        yield [(source, to) for source in sources for to in members if to != source], operand
    elif isinstance(step, UpdateHalo):
        yield from _halo_rounds(step, size, shape, itemsize)
    elif isinstance(step, ChangeOffsets):
        across = prod(each for dim, each in enumerate(shape) if dim != step.dim) * itemsize
        for distance, count in step.messages().items():
            if distance:
                yield _at_distance(distance, size), count * across


def _halo_rounds(step: UpdateHalo, size: int, shape: Shape, itemsize: int) -> Iterable[_Round]:
    """What neighbour k holds of a halo that spans several shards is in the k-th message."""
    across = prod(each for dim, each in enumerate(shape) if dim != step.dim) * itemsize
    shard = max(1, shape[step.dim] - step.low - step.high)
    for width, direction in ((step.low, 1), (step.high, -1)):
        for distance in range(1, min(size - 1, -(-width // shard)) + 1):
            count = min(shard, width - (distance - 1) * shard)
            yield _at_distance(direction * distance, size), count * across


def _at_distance(distance: int, size: int) -> list[tuple[int, int]]:
    return [(member, member + distance) for member in range(size) if 0 <= member + distance < size]


def _message(source: int, target: int, size: int, model: DeviceModel) -> float:
    """From one device to another: by the outermost level on which they differ.

    On a torus a message passes each link of its way, and takes one of the two directions.
    """
    here, there = model.place(source), model.place(target)
    differs = [number for number, each in enumerate(here) if each != there[number]]
    slowest = 0.0
    along_rings = 0.0
    for number in differs:
        level = model.network[number]
        if level.ring:
            distance = abs(here[number] - there[number])
            hops = min(distance, _ring_size(model, number) - distance)
            along_rings += hops * (level.latency + 2 * size / level.bytes_per_second)
        else:
            slowest = level.latency + size / level.bytes_per_second
    return slowest or along_rings
