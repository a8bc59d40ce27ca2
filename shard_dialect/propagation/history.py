"""The history of propagation: where each sharding came from, and which conflicts remain.

    %x: [[0], []]  annotated
    %1 = add %x, %y         [[0], []]  dimension 0 from operand 0
    %2 = transpose %1       [[], [0]]  dimension 1 from operand 0

A *conflict* is two shardings that one op cannot both have: two tensors split one factor
differently, or two tensors split different factors along one axis.

The shortest way from a split back to the annotation from which propagation brought it.

    %x  [[0]] annotated         propagation went       %x -> %a -> %b -> %c, and back to %b
    %a = negate %x
    %b = add %a, %c             the history of %b      %c, %b, %a, %x
    %c = exponential %b         its shortest chain     %a, %x

`History.chain` follows the changes of the engine, which go back and forth where several ops hand a
split to each other. In the end all of them have it, and a chain may take the shortest way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from shard_dialect.model import Annotation, Axes, Axis, Grid
from shard_dialect.model.factor_projection import FactorSplit, axes_of, is_prefix, overlaps
from shard_dialect.model.grid import overlap
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.propagation.op_update import PreparedRule, factors_of


@dataclass(frozen=True, slots=True)
class Link:
    """`value` got the split of `dim` from `source` through `node`; both are `None` if annotated."""

    value: int
    dim: int
    axes: Axes
    node: Node | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a conflict: tensor number `tensor` of the op splits dimension `dim` along `axes`.

    Tensors are numbered from the first operand to the last result.
    """

    tensor: int
    dim: int
    axes: Axes
    elements: int
    """The number of elements of the tensor."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The op's other tensors have the sharding of `winner`; `None` where they have neither's."""

    node: Node
    sides: tuple[Side, Side]
    winner: Side | None
    reason: str


class History:
    """The history of an engine that has finished."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes: dict[int, list[int]] = {}
        for number, change in enumerate(engine.changes):
            self._changes.setdefault(change.value, []).append(number)

    def chain(self, value: int, dim: int, axis: Axis | None = None) -> list[Link]:
        """The links from the final split of a dimension back to the annotation, the last first.

        With `axis` those of the split along it, whatever else splits the dimension.
        """
        links: list[Link] = []
        now = len(self._engine.changes)
        while True:
            change = self._split_by(value, dim, now, axis)
            axes = self._axes(value, dim, now)
            if change is None:
                return [*links, Link(value, dim, axes)]
            node = self._engine.changes[change].node
            if node is None:  # annotated, with a later priority
                return [*links, Link(value, dim, axes)]
            source = self._source(node, value, dim, change, axis)
            if source is None:  # the op's rule gives the split
                return [*links, Link(value, dim, axes, node)]
            links.append(Link(value, dim, axes, node, source[0]))
            (value, dim), now = source, change

    def _known(self, value: int, before: int) -> Annotation | None:
        """The annotation of a value before change number `before`."""
        numbers = [number for number in self._changes.get(value, ()) if number < before]
        if not numbers:
            if not self._changes.get(value):
                return self._engine.known(value)
            return self._engine.known_first(value)
        return self._engine.state(self._engine.changes[numbers[-1]].state)

    def _axes(self, value: int, dim: int, before: int) -> Axes:
        known = self._known(value, before)
        return known.sharding.split_axes[dim] if known is not None else ()

    def _split_by(self, value: int, dim: int, before: int, axis: Axis | None) -> int | None:
        """The change before `before` that last changed a dimension of a value."""
        for number in reversed(self._changes.get(value, ())):
            if number < before:
                changed = self._engine.state(self._engine.changes[number].state)
                assert changed is not None, "a change makes something known"
                after, earlier = changed.sharding.split_axes[dim], self._axes(value, dim, number)
                if _along(after, axis) != _along(earlier, axis):
                    return number
        return None

    def _source(
        self, node: Node, value: int, dim: int, change: int, axis: Axis | None
    ) -> tuple[int, int] | None:
        """The value of the node, and its dimension, that the split was taken from."""
        prepared = self._engine.graph.rules[node.rule_number]
        indices = [index for index, each in enumerate(node.values) if each == value]
        if not indices:  # through a group, of which the node has another member
            group = next(each for each in self._engine.graph.groups if value in each)
            member = next(each for each in node.values if each in group)
            return member, dim
        own = set(prepared.tensors[indices[0]][dim])
        best: tuple[int, int, int] | None = None
        for index, each in enumerate(node.values):
            if each in (NO_TENSOR, value):
                continue
            for other, factors in enumerate(prepared.tensors[index]):
                axes = _along(self._axes(each, other, change), axis)
                count = len(axes) if own & set(factors) else 0
                if count and (best is None or count > best[0]):
                    best = (count, each, other)
        return best[1:] if best else None

    def conflicts(self) -> Iterator[Conflict]:
        """The conflicts that remain, in the order of the nodes, at most one per node."""
        graph = self._engine.graph
        seen: dict[tuple[int, ...], tuple[tuple[Side, Side], Side | None] | None] = {}
        for node in graph.nodes:
            if node.to is not None:
                continue
            key = (node.rule_number, *[self._engine.number(value) for value in node.values])
            if key not in seen:
                seen[key] = self._conflict(node, graph.rules[node.rule_number])
            conflict = seen[key]
            if conflict is not None:
                sides, winner = conflict
                yield Conflict(node, sides, winner, self._reason(node, sides, winner))

    def _conflict(
        self, node: Node, prepared: PreparedRule
    ) -> tuple[tuple[Side, Side], Side | None] | None:
        known = [self._engine.known(value) for value in node.values]
        names = {each.grid for each in known if each is not None}
        if len(names) != 1:
            return None
        grid = self._engine.grids[names.pop()]
        tensors = [factors_of(prepared, index, each, grid) for index, each in enumerate(known)]
        pair = _on_one_factor(tensors) or _on_one_axis(tensors)
        if pair is None:
            return None
        sides = tuple(_side(prepared, tensors, index, factor, grid) for index, factor in pair)
        return (sides[0], sides[1]), _winner(tensors, pair, sides)

    def _reason(self, node: Node, sides: tuple[Side, Side], winner: Side | None) -> str:
        """Why the winner won: by priority, by being first, or by an order of `step`."""
        if winner is None:
            return "neither wins: the op's tensors are brought together when it is computed"
        loser = sides[1] if winner is sides[0] else sides[0]
        priorities = [self._priority(node, side) for side in (winner, loser)]
        if self._engine.strategy.priorities and priorities[0] < priorities[1]:
            return f"its annotation has priority {priorities[0]}, the other's {priorities[1]}"
        if winner.elements > loser.elements:
            return f"its tensor is the larger one, {winner.elements} elements to {loser.elements}"
        prepared = self._engine.graph.rules[node.rule_number]
        if winner.elements < loser.elements:
            by_cost = self._engine.strategy.by_cost
            return "it came first, or moves fewer bytes" if by_cost else "it came first"
        if prepared.is_elementwise and len(winner.axes) > len(loser.axes):
            return "it is split into more shards"
        return "of two that are as large the first goes first"

    def _priority(self, node: Node, side: Side) -> int:
        """The priority of the annotation that the split of a side came from."""
        origin = self.chain(node.values[side.tensor], side.dim)[-1]
        graph = self._engine.graph
        group = next((each for each in graph.groups if origin.value in each), (origin.value,))
        annotations = [graph.annotations[value] for value in (origin.value, *group)]
        annotation = next(filter(None, annotations), None)
        return (annotation.priority(origin.dim) if annotation is not None else None) or 0


def _along(axes: Axes, axis: Axis | None) -> Axes:
    """Those that overlap with an axis, if one is given."""
    return axes if axis is None else tuple(each for each in axes if overlap(axis, each))


_Tensors = list[dict[int, FactorSplit]]
_At = tuple[int, int]
"""The number of a tensor, and a factor."""


def _on_one_factor(tensors: _Tensors) -> tuple[_At, _At] | None:
    """Two tensors that split one factor along axes of which neither is a prefix of the other."""
    for index, tensor in enumerate(tensors):
        for other, later in enumerate(tensors[index + 1 :], index + 1):
            for factor in tensor.keys() & later.keys():
                a, b = tensor[factor].axes, later[factor].axes
                if a and b and not is_prefix(a, b) and not is_prefix(b, a):
                    return (index, factor), (other, factor)
    return None


def _on_one_axis(tensors: _Tensors) -> tuple[_At, _At] | None:
    """Two tensors that split different factors along one axis, where a third has both factors."""
    split = [
        (index, factor)
        for index, tensor in enumerate(tensors)
        for factor, here in tensor.items()
        if here.axes
    ]
    for number, (index, factor) in enumerate(split):
        for other, second in split[number + 1 :]:
            if factor == second or not any({factor, second} <= each.keys() for each in tensors):
                continue
            a, b = tensors[index][factor].axes, tensors[other][second].axes
            if any(overlaps(x, y) for x in a for y in b):
                return (index, factor), (other, second)
    return None


def _side(prepared: PreparedRule, tensors: _Tensors, index: int, factor: int, grid: Grid) -> Side:
    axes = axes_of(tensors[index][factor].axes, grid)
    elements = prod(prepared.sizes[each] for each in tensors[index])
    dim = next(dim for dim, factors in enumerate(prepared.tensors[index]) if factor in factors)
    return Side(index, dim, axes, elements)


def _winner(tensors: _Tensors, pair: tuple[_At, _At], sides: tuple[Side, ...]) -> Side | None:
    """The side that more of the other tensors follow."""
    votes = [0, 0]
    for index, tensor in enumerate(tensors):
        for number, (at, factor) in enumerate(pair):
            axes = tensors[at][factor].axes
            if index not in (pair[0][0], pair[1][0]) and factor in tensor:
                votes[number] += tensor[factor].axes == axes
    if votes[0] == votes[1]:
        return None
    return sides[0] if votes[0] > votes[1] else sides[1]


_Place = tuple[int, int]
"""A value, and one of its dimensions."""
_Ways = dict[_Place, tuple[Node, _Place]]


class ShortestChains:
    """The chains of an engine that has finished."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.history = History(engine)
        self._nodes_of: dict[int, list[Node]] | None = None
        self._neighbours: dict[_Place, tuple[tuple[Node, _Place], ...]] = {}
        self._searches: dict[tuple[_Place, Axes], tuple[_Ways, deque[_Place]]] = {}

    def chain(self, value: int, dim: int, axis: Axis | None = None) -> list[Link]:
        """The links from a split of a dimension back to its annotation, the last.

        With `axis` the split along it alone. The annotation is that of the history.
        """
        links = self.history.chain(value, dim, axis)
        end = links[-1]
        axes = end.axes if axis is None else (axis,)
        if len(links) < 3 or not axes:
            return links
        now, found = (value, dim), []
        ways = self._ways_to((end.value, end.dim), axes, now)
        while now != (end.value, end.dim):
            if now not in ways:  # through a group, or axes that are gone in the end
                return links
            node, source = ways[now]
            found.append(Link(*now, self._axes(now), node, source[0]))
            now = source
        return [*found, end]

    def _ways_to(self, end: _Place, axes: Axes, start: _Place) -> _Ways:
        """For splits along one of the axes, the node through which the next one is nearest.

        The search goes on breadth first from the annotation, so that each value gets its shortest
        way back, until it has met `start`.
        """
        ways, waiting = self._searches.setdefault((end, axes), ({}, deque([end])))
        while waiting and start not in ways:
            now = waiting.popleft()
            for node, other in self._beside(now):
                if other not in ways and other != end and self._is_along(other, axes):
                    ways[other] = (node, now)
                    waiting.append(other)
        return ways

    def _beside(self, place: _Place) -> tuple[tuple[Node, _Place], ...]:
        """The dimensions of other values that nodes split together with one of a value."""
        if place not in self._neighbours:
            self._neighbours[place] = tuple(self._found_beside(*place))
        return self._neighbours[place]

    def _found_beside(self, value: int, dim: int) -> Iterator[tuple[Node, _Place]]:
        for node in self._nodes(value):
            tensors = self._engine.graph.rules[node.rule_number].tensors
            own = {
                factor
                for index, each in enumerate(node.values)
                if each == value
                for factor in tensors[index][dim]
            }
            for index, each in enumerate(node.values):
                if each in (NO_TENSOR, value):
                    continue
                for other, factors in enumerate(tensors[index]):
                    if own & set(factors):
                        yield node, (each, other)

    def _nodes(self, value: int) -> list[Node]:
        if self._nodes_of is None:
            self._nodes_of = {}
            graph = self._engine.graph
            for node in (*graph.nodes, *graph.exits):
                for each in dict.fromkeys(node.values):
                    self._nodes_of.setdefault(each, []).append(node)
        return self._nodes_of.get(value, [])

    def _is_along(self, place: _Place, axes: Axes) -> bool:
        return any(overlap(axis, each) for axis in axes for each in self._axes(place))

    def _axes(self, place: _Place) -> Axes:
        known = self._engine.known(place[0])
        return known.sharding.split_axes[place[1]] if known is not None else ()
