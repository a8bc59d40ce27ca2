"""Dimensions that are split together, from the rules through which shardings propagate.

    %h = stablehlo.dot_general %x, %w1      %x's columns and %w1's rows, %w1's columns and %h's, ...
    %y = stablehlo.dot_general %h, %w2      ... which are %w2's rows

Whoever splits one dimension of a group splits all, or communicates. So a search decides over
groups, not over tensors. Groups that look alike, as those of the layers of a model do, are one
class, and decided once. (The idea is TOAST's, arXiv 2508.15010.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.search.searched_function import SearchedFunction

Place = tuple[int, int]
"""A tensor of the entry's boundary (arguments, then results), and one of its dimensions."""
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class GroupClass:
    """Groups that look alike, by the dimensions of boundary tensors in them."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class TensorClass:
    """Arguments, or results, of one shape with dimensions in groups of the same classes."""

    tensors: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Dimensions:
    """What a search decides about: classes of a function's boundary tensors and dimensions."""

    arguments: int
    """The number of arguments; results have the numbers after theirs."""
    shapes: tuple[Shape, ...]
    """Of the arguments and results; `()` for one that is no tensor."""
    groups: tuple[GroupClass, ...]
    tensors: tuple[TensorClass, ...]


def dimensions_of(program: SearchedFunction) -> Dimensions:
    """The dimensions of a function."""
    values, shapes = program.boundary, program.shapes
    of_place = _classes_of_places(values, shapes, _Ties(program.graph))
    groups: dict[int, list[Place]] = defaultdict(list)
    for place, number in of_place.items():
        groups[number].append(place)
    alike: dict[object, list[int]] = defaultdict(list)
    for tensor, shape in enumerate(shapes):
        dims = tuple(of_place.get((tensor, dim)) for dim in range(len(shape)))
        if any(each is not None for each in dims):
            alike[tensor < program.arguments, shape, dims].append(tensor)
    return Dimensions(
        program.arguments,
        shapes,
        tuple(GroupClass(tuple(places)) for places in groups.values()),
        tuple(TensorClass(tuple(each), len(shapes[each[0]])) for each in alike.values()),
    )


def _classes_of_places(
    values: Sequence[int], shapes: Sequence[Shape], ties: _Ties
) -> dict[Place, int]:
    """The number of the class of each dimension's group."""
    by_group: dict[_Key, list[Place]] = defaultdict(list)
    for tensor, number in enumerate(values):
        for dim, size in enumerate(shapes[tensor]):
            if size > 1:
                by_group[ties.root((number, dim))].append((tensor, dim))
    numbers: dict[object, int] = {}
    found = {}
    for root, places in by_group.items():
        look = tuple(sorted((shapes[tensor], dim) for tensor, dim in places)), ties.uses[root]
        number = numbers.setdefault(look, len(numbers))
        found.update(dict.fromkeys(places, number))
    return found


class _Ties:
    """Which dimensions of a graph's values have a factor of some rule together (union-find)."""

    def __init__(self, graph: ModuleGraph) -> None:
        self._parents: dict[_Key, _Key] = {}
        self._graph = graph.graph
        nodes = [*self._graph.nodes, *self._graph.exits]
        for number, node in enumerate(nodes):
            for value, dim, factor in self._factors(node):
                self._tie((value, dim), ("factor", number, factor))
        for group in self._graph.groups:
            shape = self._graph.sizes[self._graph.kinds[group[0]]][0]
            for value in group[1:]:
                for dim in range(len(shape)):
                    self._tie((group[0], dim), (value, dim))
        self.uses = self._count(nodes)
        """For each group, the kinds of its uses: which factor of which rule, how often."""

    def root(self, key: _Key) -> _Key:
        """The member that stands for the group of a dimension, a value's number with a position."""
        parents = self._parents
        while key in parents:
            above = parents[key]
            if above in parents:
                parents[key] = parents[above]
            key = above
        return key

    def _tie(self, one: _Key, other: _Key) -> None:
        a, b = self.root(one), self.root(other)
        if a != b:
            parents = self._parents
            parents[b] = a

    def _factors(self, node: Node) -> Iterator[tuple[int, int, int]]:
        """The dimensions of a node's values, each with its major factor."""
        rule = self._graph.rules[node.rule_number]
        for value, dims in zip(node.values, rule.tensors, strict=True):
            if value == NO_TENSOR:
                continue
            for dim, factors in enumerate(dims):
                major = next((each for each in factors if rule.sizes[each] > 1), None)
                if major is not None and major not in rule.blocked:
                    yield value, dim, major

    def _count(self, nodes: Sequence[Node]) -> dict[_Key, frozenset[tuple[object, int]]]:
        counts: dict[_Key, Counter[object]] = defaultdict(Counter)
        for number, node in enumerate(nodes):
            for factor in {factor for _, _, factor in self._factors(node)}:
                root = self.root(("factor", number, factor))
                counts[root][node.rule_number, factor] += 1
        found: dict[_Key, frozenset[tuple[object, int]]] = defaultdict(frozenset)
        found.update({root: frozenset(each.items()) for root, each in counts.items()})
        return found
