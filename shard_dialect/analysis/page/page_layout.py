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
from shard_dialect.analysis.page.program_graph import Node, ProgramGraph

NODE_WIDTH, NODE_HEIGHT = 190, 34
_GAP_X, _GAP_Y = 18, 22
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


@dataclass(frozen=True)
class GraphLayout:
    """The boxes of a graph's nodes, and its edges as paths."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    paths: tuple[str, ...]


def layout_of(graph: ProgramGraph) -> GraphLayout:
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


def _path(source: Box, target: Box) -> str:
    x1, y1 = source.x + source.width / 2, source.y + source.height
    x2, y2 = target.x + target.width / 2, target.y
    bend = max(14.0, (y2 - y1) / 3)
    return (
        f"M{x1:.1f} {y1:.1f} C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    )


def memory_areas(memory: Memory) -> tuple[str, str]:
    """The outlines of all live bytes and of temporaries, over the ops of the program."""
    moments = memory.timeline
    highest = max(memory.peak, 1)
    step = CHART_WIDTH / max(len(moments), 1)

    def outline(values: Sequence[int]) -> str:
        points = [f"0,{CHART_HEIGHT}"]
        for number, value in enumerate(values):
            y = CHART_HEIGHT * (1 - value / highest)
            points += [f"{number * step:.2f},{y:.2f}", f"{(number + 1) * step:.2f},{y:.2f}"]
        return " ".join([*points, f"{len(values) * step:.2f},{CHART_HEIGHT}"])

    return (
        outline([each.bytes for each in moments]),
        outline([each.temporaries for each in moments]),
    )


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
