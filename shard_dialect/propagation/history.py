"""Where a sharding came from, and which conflicts are left when all is done.

    %x: [[0], []]  annotated
    %1 = add %x, %y         [[0], []]  dimension 0 from operand 0
    %2 = transpose %1       [[], [0]]  dimension 1 from operand 0

A *conflict* is where tensors of one op cannot lie as the op would have them: two that split a
factor in different ways, or two factors that want the same axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from shard_dialect.model import Annotation, Axes, Grid
from shard_dialect.model.projection import FactorSplit, axes_of, is_prefix, overlaps
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NOTHING, Node
from shard_dialect.propagation.step import PreparedRule, factors_of


@dataclass(frozen=True, slots=True)
class Link:
    """`value` has dimension `dim` split through `node` from `source`; both `None`: it was said."""

    value: int
    dim: int
    axes: Axes
    node: Node | None = None
    source: int | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two in a conflict: the tensor at `place` of the op splits its dimension `dim`."""

    place: int
    dim: int
    axes: Axes
    elements: int
    """Of the tensor: moving a smaller one is cheaper."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """`winner` has its way in the op's other tensors; `None` where neither has."""

    node: Node
    sides: tuple[Side, Side]
    winner: Side | None
    reason: str


class History:
    """What happened in a run of an engine that is over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._changes: dict[int, list[int]] = {}
        for number, change in enumerate(engine.changes):
            self._changes.setdefault(change.value, []).append(number)

    def chain(self, value: int, dim: int) -> list[Link]:
        """From what is known of a dimension back to what was said, the last link first."""
        links: list[Link] = []
        now = len(self._engine.changes)
        while True:
            change = self._split_by(value, dim, now)
            axes = self._axes(value, dim, now)
            if change is None:
                return [*links, Link(value, dim, axes)]
            node = self._engine.changes[change].node
            found = self._source(node, value, dim, change)
            if found is None:  # the split is the op's own wish
                return [*links, Link(value, dim, axes, node)]
            links.append(Link(value, dim, axes, node, found[0]))
            (value, dim), now = found, change

    def _known(self, value: int, before: int) -> Annotation | None:
        """What was known of a value before change number `before`."""
        numbers = [number for number in self._changes.get(value, ()) if number < before]
        if not numbers:
            if not self._changes.get(value):
                return self._engine.known(value)
            return self._engine.graph.said[value]
        return self._engine.state(self._engine.changes[numbers[-1]].state)

    def _axes(self, value: int, dim: int, before: int) -> Axes:
        known = self._known(value, before)
        return known.sharding.split_axes[dim] if known is not None else ()

    def _split_by(self, value: int, dim: int, before: int) -> int | None:
        """The change before `before` that last changed a dimension of a value."""
        for number in reversed(self._changes.get(value, ())):
            if number < before:
                changed = self._engine.state(self._engine.changes[number].state)
                assert changed is not None, "a change makes something known"
                if changed.sharding.split_axes[dim] != self._axes(value, dim, number):
                    return number
        return None

    def _source(self, node: Node, value: int, dim: int, change: int) -> tuple[int, int] | None:
        """The value of the node, and its dimension, that the split was taken from."""
        form = self._engine.graph.forms[node.form]
        places = [place for place, each in enumerate(node.values) if each == value]
        if not places:  # through a group, one of whose members is of this node
            group = next(each for each in self._engine.graph.groups if value in each)
            member = next(each for each in node.values if each in group)
            return member, dim
        wanted = set(form.tensors[places[0]][dim])
        best: tuple[int, int, int] | None = None
        for place, each in enumerate(node.values):
            if each in (NOTHING, value):
                continue
            for other, factors in enumerate(form.tensors[place]):
                count = len(self._axes(each, other, change)) if wanted & set(factors) else 0
                if count and (best is None or count > best[0]):
                    best = (count, each, other)
        return best[1:] if best else None

    def conflicts(self) -> Iterator[Conflict]:
        """Those that are left, in the order of the nodes, one a node at most."""
        graph = self._engine.graph
        seen: dict[tuple[int, ...], tuple[tuple[Side, Side], Side | None, str] | None] = {}
        for node in graph.nodes:
            if node.to is not None:
                continue
            key = (node.form, *[self._engine.number(value) for value in node.values])
            if key not in seen:
                seen[key] = self._conflict(node, graph.forms[node.form])
            found = seen[key]
            if found is not None:
                yield Conflict(node, *found)

    def _conflict(
        self, node: Node, form: PreparedRule
    ) -> tuple[tuple[Side, Side], Side | None, str] | None:
        known = [self._engine.known(value) for value in node.values]
        names = {said.grid for said in known if said is not None}
        if len(names) != 1:
            return None
        grid = self._engine.grids[names.pop()]
        tensors = [factors_of(form, place, said, grid) for place, said in enumerate(known)]
        pair = _two_ways(tensors) or _two_factors(tensors)
        if pair is None:
            return None
        sides = tuple(_side(form, tensors, place, factor, grid) for place, factor in pair)
        return (sides[0], sides[1]), *_decided(form, tensors, pair, sides)


_Tensors = list[dict[int, FactorSplit]]
_At = tuple[int, int]
"""A tensor's place and a factor."""


def _two_ways(tensors: _Tensors) -> tuple[_At, _At] | None:
    """Two tensors that split one factor, neither as the beginning of the other."""
    for place, tensor in enumerate(tensors):
        for other, later in enumerate(tensors[place + 1 :], place + 1):
            for factor in tensor.keys() & later.keys():
                a, b = tensor[factor].axes, later[factor].axes
                if a and b and not is_prefix(a, b) and not is_prefix(b, a):
                    return (place, factor), (other, factor)
    return None


def _two_factors(tensors: _Tensors) -> tuple[_At, _At] | None:
    """Two tensors that split different factors along one axis, where a third has both factors."""
    split = [
        (place, factor)
        for place, tensor in enumerate(tensors)
        for factor, here in tensor.items()
        if here.axes
    ]
    for number, (place, factor) in enumerate(split):
        for other, second in split[number + 1 :]:
            if factor == second or not any({factor, second} <= each.keys() for each in tensors):
                continue
            a, b = tensors[place][factor].axes, tensors[other][second].axes
            if any(overlaps(x, y) for x in a for y in b):
                return (place, factor), (other, second)
    return None


def _side(form: PreparedRule, tensors: _Tensors, place: int, factor: int, grid: Grid) -> Side:
    axes = axes_of(tensors[place][factor].axes, grid)
    elements = prod(form.sizes[each] for each in tensors[place])
    dim = next(dim for dim, factors in enumerate(form.tensors[place]) if factor in factors)
    return Side(place, dim, axes, elements)


def _decided(
    form: PreparedRule, tensors: _Tensors, pair: tuple[_At, _At], sides: tuple[Side, ...]
) -> tuple[Side | None, str]:
    """Who has its way in the tensors beside the two, and by which rule of `step`."""
    votes = [0, 0]
    for place, tensor in enumerate(tensors):
        for number, (at, factor) in enumerate(pair):
            axes = tensors[at][factor].axes
            if place not in (pair[0][0], pair[1][0]) and factor in tensor:
                votes[number] += tensor[factor].axes == axes
    if votes[0] == votes[1]:
        return None, "neither gives way: the op's tensors are brought together when it is computed"
    winner, loser = sides if votes[0] > votes[1] else sides[::-1]
    if winner.elements > loser.elements:
        return (
            winner,
            f"its tensor is the larger one, {winner.elements} elements to {loser.elements}",
        )
    if form.is_elementwise and len(winner.axes) > len(loser.axes):
        return winner, "it is split into more shards"
    return winner, "of two that are as large the first goes first"
