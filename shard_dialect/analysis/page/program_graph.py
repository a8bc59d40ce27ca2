"""The graphs that the page draws: one for each layer, of the ops and the layers in it.

    decoder:   [layers_0] -> [layers_1] -> [3 ops]
    layers_0:  [12 ops] -> all_gather -> [8 ops] -> reduce_scatter

A program has thousands of ops, and few collectives. Ops of one layer with no collective or other
layer between them are one group, if they are connected. Each node is in a row below all that it
needs, as near as possible to what needs it. What follows on ops of another layer is another node,
so that a graph has no circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.analysis.layers.layered_costs import OpCost
from shard_dialect.analysis.layers.layered_program import LayeredOp, LayeredProgram, Output
from shard_dialect.analysis.layers.scopes import Layers


@dataclass(frozen=True, slots=True)
class Node:
    """An op that communicates, a group of other ops, or all of a layer in it that follow on."""

    row: int
    ops: tuple[int, ...]
    """The positions of its ops in the program."""
    layer: Layers | None = None
    collectives: tuple[int, ...] = ()
    """The positions in the report's list of all collectives in it."""

    @property
    def is_collective(self) -> bool:
        """Whether it is one op that communicates."""
        return self.layer is None and bool(self.collectives)


@dataclass(frozen=True, slots=True)
class Edge:
    """The values that one node makes and another reads; nodes are given by position."""

    source: int
    target: int
    values: tuple[Output, ...]

    @property
    def label(self) -> str:
        """The shardings of the values, each once."""
        return ", ".join(dict.fromkeys(each.sharding for each in self.values if each.sharding))

    @property
    def title(self) -> str:
        """All of the values."""
        return "\n".join(f"{each.name}: {each.type} {each.sharding}" for each in self.values)


@dataclass(frozen=True)
class LayerGraph:
    """The nodes of one layer in the order of the program, and the values between them."""

    layer: Layers
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graphs_of(program: LayeredProgram, costs: Sequence[OpCost]) -> tuple[LayerGraph, ...]:
    """The graph of the whole program, then those of the layers, each after that which it is in."""
    kept = [
        number
        for number, op in enumerate(program.ops)
        if op.inputs and op.name not in ("func.return", "block arguments")
    ]
    paths = dict.fromkeys(
        program.ops[number].layers[:depth]
        for number in kept
        for depth in range(len(program.ops[number].layers) + 1)
    )
    return tuple(_graph(program.ops, costs, kept, path) for path in sorted(paths) or [()])


def _graph(
    ops: Sequence[LayeredOp], costs: Sequence[OpCost], kept: Sequence[int], path: Layers
) -> LayerGraph:
    units = _units(ops, kept, path)
    owner = {number: unit for unit, (_, members) in enumerate(units) for number in members}
    needs = [
        sorted(
            {
                owner[each.op]
                for number in members
                for each in ops[number].inputs
                if owner.get(each.op, unit) != unit
            }
        )
        for unit, (_, members) in enumerate(units)
    ]
    collectives = [
        tuple(sorted({found for number in members for found in costs[number].collectives}))
        for _, members in units
    ]
    alone = [
        layer is not None or bool(found)
        for (layer, _), found in zip(units, collectives, strict=True)
    ]
    rows = _rows(needs, alone)
    groups: dict[int, list[int]] = {}
    for unit, first in enumerate(_groups(needs, rows, alone)):
        groups.setdefault(first, []).append(unit)
    nodes = tuple(
        Node(
            rows[first],
            tuple(number for unit in members for number in units[unit][1]),
            units[first][0],
            collectives[first],
        )
        for first, members in groups.items()
    )
    return LayerGraph(path, nodes, tuple(_edges(ops, nodes)))


def _units(
    ops: Sequence[LayeredOp], kept: Sequence[int], path: Layers
) -> list[tuple[Layers | None, list[int]]]:
    """The ops of a layer, those of a layer in it together as far as they follow each other."""
    depth = len(path)
    units: list[tuple[Layers | None, list[int]]] = []
    for number in kept:
        layers = ops[number].layers
        if layers[:depth] != path:
            continue
        child = layers[: depth + 1] if len(layers) > depth else None
        if child is not None and units and units[-1][0] == child:
            units[-1][1].append(number)
        else:
            units.append((child, [number]))
    return units


def _rows(needs: Sequence[Sequence[int]], alone: Sequence[bool]) -> list[int]:
    """Collectives and layers in odd rows, other ops in even ones, as late as readers allow."""
    readers: list[list[int]] = [[] for _ in needs]
    for number, each in enumerate(needs):
        for source in each:
            readers[source].append(number)
    heights = [0] * len(needs)  # from below
    for number in range(len(needs) - 1, -1, -1):
        height = int(alone[number])
        for reader in readers[number]:
            other = heights[reader]
            if alone[number]:
                height = max(height, other + (1 if other % 2 == 0 else 2))
            else:
                height = max(height, other + other % 2)
        heights[number] = height
    top = max(heights, default=0) + max(heights, default=0) % 2
    return [top - height for height in heights]


def _groups(
    needs: Sequence[Sequence[int]], rows: Sequence[int], alone: Sequence[bool]
) -> list[int]:
    """For each unit the first of its group: ops of one row that are connected."""
    parent = list(range(len(needs)))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for number, sources in enumerate(needs):
        for source in sources:
            if rows[source] == rows[number] and not alone[number]:
                one, other = sorted((root(source), root(number)))
                parent[other] = one
    return [root(number) for number in range(len(needs))]


def _edges(ops: Sequence[LayeredOp], nodes: Sequence[Node]) -> list[Edge]:
    owner = {number: place for place, node in enumerate(nodes) for number in node.ops}
    found: dict[tuple[int, int], dict[Output, None]] = {}
    for target, node in enumerate(nodes):
        for each in (each for number in node.ops for each in ops[number].inputs):
            source = owner.get(each.op)
            outputs = ops[each.op].outputs
            if source is not None and source != target and each.output < len(outputs):
                found.setdefault((source, target), {})[outputs[each.output]] = None
    return [Edge(source, target, tuple(values)) for (source, target), values in found.items()]
