"""The shortest way from a split back to the annotation from which propagation brought it.

    %x  [[0]] annotated         propagation went       %x -> %a -> %b -> %c, and back to %b
    %a = negate %x
    %b = add %a, %c             the history of %b      %c, %b, %a, %x
    %c = exponential %b         its shortest chain     %a, %x

`History.chain` follows the changes of the engine, which go back and forth where several ops hand a
split to each other. In the end all of them have it, and a chain may take the shortest way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from shard_dialect.model import Axes, Axis
from shard_dialect.model.axis import overlap
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.propagation.history import History, Link

_Place = tuple[int, int]
"""A value, and one of its dimensions."""


class ShortestChains:
    """The chains of an engine that has finished."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.history = History(engine)
        self._nodes_of: dict[int, list[Node]] | None = None
        self._ways: dict[tuple[_Place, Axes], Mapping[_Place, tuple[Node, _Place]]] = {}

    def chain(self, value: int, dim: int, axis: Axis | None = None) -> list[Link]:
        """The links from a split of a dimension back to its annotation, the last.

        With `axis` the split along it alone. The annotation is that of the history.
        """
        links = self.history.chain(value, dim, axis)
        end = links[-1]
        axes = end.axes if axis is None else (axis,)
        if len(links) < 3 or not axes:
            return links
        ways = self._ways_to((end.value, end.dim), axes)
        now, found = (value, dim), []
        while now != (end.value, end.dim):
            if now not in ways:  # through a group, or axes that are gone in the end
                return links
            node, source = ways[now]
            found.append(Link(*now, self._axes(now), node, source[0]))
            now = source
        return [*found, end]

    def _ways_to(self, end: _Place, axes: Axes) -> Mapping[_Place, tuple[Node, _Place]]:
        """For each split along one of the axes, the node through which the next one is nearest."""
        key = (end, axes)
        if key not in self._ways:
            ways: dict[_Place, tuple[Node, _Place]] = {}
            waiting = deque([end])
            while waiting:
                now = waiting.popleft()
                for node, other in self._beside(now):
                    if other not in ways and other != end and self._is_along(other, axes):
                        ways[other] = (node, now)
                        waiting.append(other)
            self._ways[key] = ways
        return self._ways[key]

    def _beside(self, place: _Place) -> Iterator[tuple[Node, _Place]]:
        """What the nodes of a value split together with one of its dimensions."""
        value, dim = place
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
