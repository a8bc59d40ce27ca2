"""The graph that the page draws: collectives, and between them the ops that need none.

    arguments -> [12 ops] -> all_gather -> [8 ops] -> reduce_scatter -> results

A program has thousands of ops, and few collectives. Ops with no collective between them are one
group, if they are connected; a loop or branch is an op. Each node is in a row below all that it
needs, as near as possible to what needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.analysis.costs.local_ops import Block, LocalProgram
from shard_dialect.analysis.costs.schedule import items_of
from shard_dialect.analysis.costs.timed_ops import TimedOps
from shard_dialect.analysis.costs.timeline import Item
from shard_dialect.model import AllSlice, Mask
from shard_dialect.model.devices.device_model import DeviceModel


@dataclass(frozen=True, slots=True)
class Node:
    """A collective of the report, by its number there, or a group of ops."""

    row: int
    items: tuple[Item, ...]
    collective: int | None
    """The position in the report's list, if it is a collective."""
    inside: tuple[int, ...] = ()
    """The collectives in loops and branches of a group."""

    @property
    def seconds(self) -> float:
        """The time of all its ops."""
        return sum(
            item.time.seconds if item.inside is None else item.inside.total for item in self.items
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that one node makes and another reads; nodes are given by position."""

    source: int
    target: int
    bytes: int
    type: str


@dataclass(frozen=True)
class ProgramGraph:
    """The nodes in the order of the program, and the values between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_of(program: LocalProgram, device_model: DeviceModel) -> ProgramGraph:
    """The graph of the program's entry."""
    items = list(items_of(program.entry.blocks, TimedOps(program, device_model)))
    returns = {number for number, item in enumerate(items) if item.op.name == "func.return"}
    rows = _rows(items)
    owner = _groups(items, rows)
    numbers, inside = _collective_numbers(items)
    kept = [
        number
        for number, item in enumerate(items)
        if number not in returns and (item.needs or _reads_argument(item))
    ]
    first: dict[int, list[int]] = {}
    for number in kept:
        first.setdefault(owner[number], []).append(number)
    position = {root: at for at, root in enumerate(first)}
    nodes = tuple(
        Node(
            rows[root],
            tuple(items[number] for number in members),
            numbers.get(root),
            tuple(each for number in members for each in inside.get(number, ())),
        )
        for root, members in first.items()
    )
    return ProgramGraph(nodes, tuple(_edges(items, kept, owner, position)))


def _is_collective(item: Item) -> bool:
    op = item.op
    is_step = op.step is not None and not isinstance(op.step, AllSlice | Mask)
    return is_step and op.name != "mesh.done"


def _reads_argument(item: Item) -> bool:
    """Whether it reads a tensor that no item makes."""
    return any(value.tensor for value in item.op.reads)


def _rows(items: Sequence[Item]) -> list[int]:
    """Collectives in odd rows, other ops in even ones, each as late as its readers allow."""
    readers: list[list[int]] = [[] for _ in items]
    for number, item in enumerate(items):
        for each in item.needs:
            readers[each].append(number)
    heights = [0] * len(items)  # from below
    for number in range(len(items) - 1, -1, -1):
        is_collective = _is_collective(items[number])
        height = int(is_collective)
        for reader in readers[number]:
            other = heights[reader]
            if is_collective:
                height = max(height, other + (1 if other % 2 == 0 else 2))
            else:
                height = max(height, other + other % 2)
        heights[number] = height
    top = max(heights, default=0) + max(heights, default=0) % 2
    return [top - height for height in heights]


def _groups(items: Sequence[Item], rows: Sequence[int]) -> list[int]:
    """For each item the first of its group: ops of one row that are connected."""
    parent = list(range(len(items)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for number, item in enumerate(items):
        for each in item.needs:
            if rows[each] == rows[number] and not _is_collective(item):
                one, other = sorted((root(each), root(number)))
                parent[other] = one
    return [root(number) for number in range(len(items))]


def _collective_numbers(items: Sequence[Item]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """The report's number of each collective, and of those inside of loops and branches."""
    own: dict[int, int] = {}
    inside: dict[int, list[int]] = {}
    count = 0
    for number, item in enumerate(items):
        if _is_collective(item):
            own[number] = count
            count += 1
        within = _count(item.op.blocks)
        if within:
            inside[number] = list(range(count, count + within))
            count += within
    return own, inside


def _count(blocks: tuple[Block, ...]) -> int:
    total = 0
    for op in (each for block in blocks for each in block.ops):
        is_step = op.step is not None and not isinstance(op.step, AllSlice | Mask)
        total += int(is_step and op.name != "mesh.done")
        total += _count(op.blocks) + (_count(op.callee.blocks) if op.callee else 0)
    return total


def _edges(
    items: Sequence[Item], kept: Sequence[int], owner: Sequence[int], position: dict[int, int]
) -> list[Edge]:
    sizes: dict[tuple[int, int], dict[int, tuple[int, str]]] = {}
    for number in kept:
        for each in items[number].needs:
            source, target = position.get(owner[each]), position[owner[number]]
            results = [value for value in items[each].op.results if value.tensor]
            if source is None or source == target or not results:
                continue
            moved = sum(value.bytes for value in results)
            found = sizes.setdefault((source, target), {})
            found[each] = (moved, str(results[0].tensor))
    return [
        Edge(
            source, target, sum(size for size, _ in values.values()), next(iter(values.values()))[1]
        )
        for (source, target), values in sizes.items()
    ]
