"""The seconds that a collective takes on a device model: the cheapest algorithm for its group.

    AllReduce((0,)) of 1 MiB on 16 devices, two nodes of eight H100:

    reduce-scatter in each node, then all-reduce between the nodes of 1/8, then all-gather

A group that spans several levels of the network is taken apart into one phase for each level
(hierarchical), or is one group at the pace of its slowest level (flat). The dimensions of a torus
work at once, each on its part of the data. Messages of n devices over a level with latency a and
bandwidth B take a + m / B for m bytes (Hockney's model). `docs/device-models.md` has the formulas
and their sources.

Among the devices of one level, the cheapest algorithm counts:

    all_gather of m bytes a device among n    ring       (n - 1) (a + m / B)
                                              doubling   log2(n) a + (n - 1) m / B

Source of the formulas on a switch: Thakur, Rabenseifner, Gropp, "Optimization of Collective
Communication Operations in MPICH", 2005; Chan and others, "Collective communication: theory,
practice, and experience", 2007. On a ring a device talks to its two neighbours only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from shard_dialect.collectives.collective_record import Algorithms, RoundsFunction
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.collectives.step import LocalStep
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.grid import Axes, Grid
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class Span:
    """`size` devices of a group, joined by one level; `share` of its bandwidth is theirs."""

    size: int
    bytes_per_second: float
    latency: float
    ring: bool = False
    share: float = 1.0

    @property
    def bandwidth(self) -> float:
        """The bytes per second that one device of the group sends."""
        return self.bytes_per_second * self.share


def worst_case_span(spans: Sequence[Span]) -> Span:
    """All devices of the spans as one group, with the slowest links of any."""
    size = 1
    for span in spans:
        size *= span.size
    return Span(
        size,
        min(span.bandwidth for span in spans if span.size > 1),
        max(span.latency for span in spans if span.size > 1),
    )


def cheapest(algorithms: Algorithms, span: Span, operand: float) -> tuple[float, str]:
    """The seconds of a collective among the devices of a span, and the name of the algorithm.

    `operand` is the bytes of the operand on one device, on the root if only it has one.
    """
    n, a = span.size, span.latency
    if n == 1:
        return 0.0, ""
    known = algorithms.on_ring if span.ring else algorithms.on_switch
    b = operand / span.bandwidth
    return min((time(n, a, b), name) for name, time in known if _applies(name, n))


def _applies(name: str, n: int) -> bool:
    """Halving and doubling are exact for powers of two only."""
    return name not in ("recursive halving", "recursive doubling") or n & (n - 1) == 0


@dataclass(frozen=True, slots=True)
class CollectiveTime:
    """The seconds from the time when all devices are ready, and the algorithm that needs them."""

    seconds: float
    algorithm: str


def seconds(
    step: LocalStep,
    grid: Grid,
    local_shape: Shape,
    itemsize: int,
    device_model: DeviceModel,
) -> float:
    """The seconds that the step takes, for an operand of this local shape.

    >>> from shard_dialect.collectives import AllReduce
    >>> model = DeviceModel.read("h100")
    >>> round(seconds(AllReduce((0,)), Grid("g", (8,)), (1 << 20, 256), 4, model) * 1e6)
    5231
    """
    return time_of(step, grid, local_shape, itemsize, device_model).seconds


def time_of(
    step: LocalStep,
    grid: Grid,
    local_shape: Shape,
    itemsize: int,
    device_model: DeviceModel,
) -> CollectiveTime:
    """The same with the algorithm. All groups communicate at once; the slowest counts."""
    device_model.check_size(grid.size)
    record = record_of(step)
    if grid.axes_size(step.axes) > 1 and record.algorithms is not None:
        operand = prod(local_shape) * itemsize
        times = [
            _spanned(record.algorithms, spans, operand)
            for spans in _distinct_spans(grid, tuple(step.axes), device_model)
        ]
        return max(times, key=lambda each: each.seconds)
    if grid.axes_size(step.axes) > 1 and record.rounds is not None:
        return _by_messages(record.rounds, step, grid, local_shape, itemsize, device_model)
    return CollectiveTime(0.0, "")


def _spanned(algorithms: Algorithms, spans: tuple[Span, ...], operand: float) -> CollectiveTime:
    """The cheaper of the phases, one for each level, and of one flat group."""
    choices = [_hierarchical(algorithms, spans, operand)]
    if len(spans) > 1 and not any(span.ring for span in spans):
        choices.append(CollectiveTime(*cheapest(algorithms, worst_case_span(spans), operand)))
    return min(choices, key=lambda each: each.seconds)


def _hierarchical(
    algorithms: Algorithms, spans: tuple[Span, ...], operand: float
) -> CollectiveTime:
    """The dimensions of a torus are inside of all other levels, and are one unit."""
    rings = tuple(span for span in spans if span.ring)
    switches = tuple(span for span in spans if not span.ring)
    units = ([rings] if rings else []) + [(span,) for span in switches]
    total, names = 0.0, []
    for phase, unit, size in _phases(algorithms, units, operand):
        took, name = _on_torus(phase, unit, size)
        total += took
        names.append(name)
    return CollectiveTime(total, ", ".join(names))


def _on_torus(algorithms: Algorithms, spans: tuple[Span, ...], operand: float) -> tuple[float, str]:
    """Each part of the data visits the dimensions in another order, so that all work at once."""
    if len(spans) == 1:
        return cheapest(algorithms, spans[0], operand)
    parts = len(spans)
    orders = [spans[first:] + spans[:first] for first in range(parts)]
    phases = [_phases(algorithms, [(span,) for span in order], operand / parts) for order in orders]
    total = sum(
        max(cheapest(phase, unit[0], size)[0] for phase, unit, size in at_once)
        for at_once in zip(*phases, strict=True)
    )
    return total, f"torus of {'x'.join(str(span.size) for span in reversed(spans))}"


_Unit = tuple[Span, ...]


def _phases(
    algorithms: Algorithms, units: Sequence[_Unit], operand: float
) -> list[tuple[Algorithms, _Unit, float]]:
    """The collectives that together are one over all units, innermost first, with their operands.

    A gather goes from the outside to the inside: the slower level moves the smaller operand.
    """
    sizes = [prod(span.size for span in unit) for unit in units]
    if algorithms.around and len(units) > 1:
        before, after = algorithms.around
        first, rest = units[0], units[1:]
        part = operand / sizes[0]
        inner = _phases(algorithms, rest, part)
        return [(before, first, operand), *inner, (after, first, part)]
    if algorithms.outside_first:
        units, sizes = units[::-1], sizes[::-1]
    phases = []
    for unit, size in zip(units, sizes, strict=True):
        phases.append((algorithms, unit, operand))
        operand *= algorithms.growth(size)
    return phases


@lru_cache(maxsize=4096)
def _distinct_spans(grid: Grid, axes: tuple[int, ...], model: DeviceModel) -> set[tuple[Span, ...]]:
    places = [model.place(device) for device in range(grid.size)]
    return {_spans([places[each] for each in group], model) for group in grid.groups(axes)}


def _spans(places: Sequence[tuple[int, ...]], model: DeviceModel) -> tuple[Span, ...]:
    """How many devices of a group each level joins, innermost first; one flat span if uneven."""
    spans = []
    for number, level in enumerate(model.links):
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
    rounds: RoundsFunction,
    step: LocalStep,
    grid: Grid,
    local_shape: Shape,
    itemsize: int,
    model: DeviceModel,
) -> CollectiveTime:
    """The messages of one round go at once; rounds follow each other."""
    total = 0.0
    for pairs, size in rounds(step, grid.sizes_along(step.axes), local_shape, itemsize):
        ways = _ways(grid, step.axes, tuple(pairs), model)
        total += max((_message(way, size, model) for way in ways), default=0.0)
    return CollectiveTime(total, "messages")


_Way = tuple[tuple[int, int], ...]
"""The levels of the network on which two devices differ, and how many places they are apart."""


@lru_cache(maxsize=256)
def _ways(
    grid: Grid, axes: Axes, pairs: tuple[tuple[int, int], ...], model: DeviceModel
) -> frozenset[_Way]:
    """The ways that messages between these members of each group go: few, of many messages."""
    places = [[model.place(device) for device in group] for group in grid.groups(axes)]
    return frozenset(
        tuple(
            (level, abs(here - there))
            for level, (here, there) in enumerate(zip(group[source], group[target], strict=True))
            if here != there
        )
        for group in places
        for source, target in pairs
    )


def _message(way: _Way, size: int, model: DeviceModel) -> float:
    """From one device to another: by the outermost level on which they differ.

    On a torus a message passes each link of its way, and takes one of the two directions.
    """
    slowest = 0.0
    along_rings = 0.0
    for number, distance in way:
        level = model.links[number]
        if level.ring:
            hops = min(distance, _ring_size(model, number) - distance)
            along_rings += hops * (level.latency + 2 * size / level.bytes_per_second)
        else:
            slowest = level.latency + size / level.bytes_per_second
    return slowest or along_rings
