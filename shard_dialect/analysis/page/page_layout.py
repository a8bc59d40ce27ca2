"""Where the page draws things: nodes and edges of the graph, memory over the program, ops in time.

All numbers are pixels of an SVG; y grows downwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from shard_dialect.analysis.costs.memory import Memory
from shard_dialect.analysis.costs.schedule import Schedule
from shard_dialect.analysis.costs.timeline import TimedOp
from shard_dialect.analysis.page.program_graph import LayerGraph, Node

NODE_WIDTH, NODE_HEIGHT = 190, 34
_GAP_X, _GAP_Y = 18, 34
_IN_LINE = 5
"""The most nodes beside each other: a row with more takes several lines."""
CHART_WIDTH, CHART_HEIGHT = 960, 180
LANE_HEIGHT = 26


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, and the position in its list of what it stands for."""

    number: int
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The path of an edge, and where its label is."""

    path: str
    x: float
    y: float


@dataclass(frozen=True)
class GraphLayout:
    """The boxes of a graph's nodes, and its edges as paths."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[Curve, ...]


def layout_of(graph: LayerGraph) -> GraphLayout:
    """Rows from top to bottom, each centred."""
    lines = list(_lines(graph.nodes))
    widest = max((len(line) for line in lines), default=1)
    width = widest * (NODE_WIDTH + _GAP_X) + _GAP_X
    boxes: dict[int, Box] = {}
    for at, line in enumerate(lines):
        left = (width - len(line) * (NODE_WIDTH + _GAP_X) + _GAP_X) / 2
        for place, number in enumerate(line):
            x = left + place * (NODE_WIDTH + _GAP_X)
            y = _GAP_Y + at * (NODE_HEIGHT + _GAP_Y)
            boxes[number] = Box(number, x, y, NODE_WIDTH, NODE_HEIGHT)
    paths = tuple(_path(boxes[edge.source], boxes[edge.target]) for edge in graph.edges)
    height = _GAP_Y + len(lines) * (NODE_HEIGHT + _GAP_Y)
    return GraphLayout(width, height, tuple(boxes.values()), paths)


def _lines(nodes: Sequence[Node]) -> Iterator[list[int]]:
    order = sorted(range(len(nodes)), key=lambda number: nodes[number].row)
    for _, row in groupby(order, key=lambda number: nodes[number].row):
        members = list(row)
        for start in range(0, len(members), _IN_LINE):
            yield members[start : start + _IN_LINE]


def _path(source: Box, target: Box) -> Curve:
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    bend = max(14.0, (y2 - y1) / 3)
    start, end = f"{x1:.1f} {y1:.1f}", f"{x2:.1f} {y2:.1f}"
    path = f"M{start} C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {end}"
    return Curve(path, x2 + (x1 - x2) * 0.2, y2 - 8)


@dataclass(frozen=True, slots=True)
class Area:
    """The bytes of one kind over the program, on top of those before it."""

    kind: str
    points: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark at an axis: where it is, and the number that is there."""

    at: float
    value: int


def memory_areas(memory: Memory) -> list[Area]:
    """What is live while each op runs, by kind: arguments below, temporaries on top."""
    moments = memory.timeline
    step = CHART_WIDTH / max(len(moments), 1)
    kinds = {
        "argument": [each.arguments for each in moments],
        "result": [each.results for each in moments],
        "constant": [each.constants for each in moments],
        "temporary": [each.temporaries for each in moments],
    }
    below = [0] * len(moments)
    areas = []
    for kind, values in kinds.items():
        top = [one + other for one, other in zip(below, values, strict=True)]
        if any(values):
            points = [*_steps(top, step, memory), *reversed(list(_steps(below, step, memory)))]
            areas.append(Area(kind, " ".join(points)))
        below = top
    return areas


def _steps(values: Sequence[int], step: float, memory: Memory) -> Iterator[str]:
    for number, value in enumerate(values):
        y = CHART_HEIGHT * (1 - value / max(memory.peak, 1))
        yield f"{number * step:.2f},{y:.2f}"
        yield f"{(number + 1) * step:.2f},{y:.2f}"


def memory_ticks(memory: Memory) -> list[Tick]:
    """Marks at the axis of bytes: the peak, and quarters of it."""
    shares = [memory.peak * quarter // 4 for quarter in range(5)]
    return [Tick(CHART_HEIGHT * (1 - each / max(memory.peak, 1)), each) for each in shares]


def op_ticks(memory: Memory) -> list[Tick]:
    """Marks at the axis of ops, by their number in the program."""
    count = len(memory.timeline)
    step = max(1, -(-count // 8))
    return [Tick(CHART_WIDTH * each / count, each) for each in range(0, count, step)]


def time_boxes(schedule: Schedule) -> list[tuple[Box, TimedOp]]:
    """The ops in time: computation in the upper lane, collectives in the lower one."""
    total = schedule.total or 1.0
    return [
        (
            Box(
                number,
                event.start / total * CHART_WIDTH,
                LANE_HEIGHT * 1.4 if event.bound == "network" else 0,
                max(event.seconds / total * CHART_WIDTH, 0.3),
                LANE_HEIGHT,
            ),
            event,
        )
        for number, event in enumerate(schedule.events)
    ]
