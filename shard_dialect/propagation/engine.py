"""The propagation engine: it visits all nodes until nothing changes.

The result of a visit depends only on the node's rule, its directions and the shardings of its
values. Programs repeat themselves, so each such case is computed once (`_memo`). A node is visited
again when one of its values has changed, the last changed first, as in MLIR's greedy rewriter. So
conflicts arise in the same order as in Shardy.

A *state* is an annotation that some value has during propagation. States are numbered from 1; 0 is
that of a value that no sharding has reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.model import Annotation, Grid, ShardingError
from shard_dialect.model.rule import Role
from shard_dialect.propagation.cost import Prices
from shard_dialect.propagation.graph import NOTHING, Graph, Node
from shard_dialect.propagation.step import Direction, Outcome, step
from shard_dialect.propagation.visit_order import STAGES, Directions, Strategy, directions

_Kind = tuple[int, Role, bool, Direction | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A visit of `node` gave `value` the annotation with the number `state`."""

    value: int
    state: int
    node: Node


class Engine:
    """Propagates shardings through one graph; `known` reads the result."""

    def __init__(self, graph: Graph, grids: Mapping[str, Grid], strategy: Strategy) -> None:
        self.graph = graph
        self.grids = grids
        self.strategy = strategy
        self.changes: list[Change] = []
        self._numbers: dict[Annotation | None, int] = {None: 0}
        self._states: list[Annotation | None] = [None]
        self._grid_of: list[str | None] = [None]
        self._now = [0] * len(graph.said)
        self._memo: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}
        self._turns: dict[tuple[int, Directions], int] = {}
        self._turn_list: list[tuple[int, Directions]] = [(0, ())]
        self._kinds: dict[_Kind, int] = {}
        self._node_kinds = [self._kind(node) for node in graph.nodes]
        self._exit_kinds = [self._kind(node) for node in graph.exits]
        self._users, self._makers = _neighbours(graph)
        self._group_of = {value: group for group in graph.groups for value in group}
        self._prices = Prices(graph, grids) if strategy.by_cost else None
        self._is_by_neighbours = False
        """Whether the last computed visit depends on more than the node's own values."""
        self._withheld: dict[int, list[tuple[int, int]]] = {}
        for value, annotation in enumerate(graph.said):
            if annotation is not None:
                self._now[value] = self._number(self._before_priorities(value, annotation))
        for group in graph.groups:
            self._agree(group)

    def run(self) -> None:
        """Propagate: each priority in turn, and in it each stage."""
        self.settle()
        for priority in sorted(self._withheld):
            self._release(priority)
            self.settle()

    def settle(self) -> None:
        """Visit all nodes, stage by stage, until nothing changes."""
        for stage in range(STAGES) if self.strategy.stages else (STAGES - 1,):
            turns = [self._turn(kind, stage) for kind in self._kinds]
            exits = [turns[kind] for kind in self._exit_kinds]
            for node, turn in zip(self.graph.exits, exits, strict=True):
                self._visit(node, turn)
            self._to_fixed_point([turns[kind] for kind in self._node_kinds])
            for node, turn in zip(self.graph.exits, exits, strict=True):
                self._visit(node, turn)

    def known(self, value: int) -> Annotation | None:
        """The annotation of a value so far; `None` where no sharding has reached it."""
        return self._states[self._now[value]]

    def number(self, value: int) -> int:
        """The state of a value: values with equal numbers have equal annotations."""
        return self._now[value]

    def state(self, number: int) -> Annotation | None:
        """The annotation with this number; `None` for 0."""
        return self._states[number]

    def learn(self, value: int, said: Annotation) -> None:
        """Give a value this annotation."""
        self._now[value] = self._number(said)

    def _number(self, annotation: Annotation) -> int:
        if annotation not in self._numbers:
            self._numbers[annotation] = len(self._states)
            self._states.append(annotation)
            self._grid_of.append(annotation.grid)
        return self._numbers[annotation]

    def _before_priorities(self, value: int, annotation: Annotation) -> Annotation:
        """The annotation with its dimensions of later priorities closed and unsplit for now."""
        later = [dim for dim, priority in enumerate(annotation.priorities) if priority]
        if not self.strategy.priorities or not later:
            return replace(annotation, priorities=())
        split = list(annotation.sharding.split_axes)
        barred = list(annotation.replicated)
        for dim in later:
            self._withheld.setdefault(annotation.priorities[dim] or 0, []).append((value, dim))
            barred += split[dim]
            split[dim] = ()
        return replace(
            annotation,
            sharding=replace(annotation.sharding, split_axes=tuple(split)),
            open=tuple(dim for dim in annotation.open if dim not in later),
            priorities=(),
            replicated=tuple(barred),
        )

    def _release(self, priority: int) -> None:
        """Apply the annotations of the dimensions with this priority."""
        for value, dim in self._withheld[priority]:
            annotation, now = self.graph.said[value], self.known(value)
            assert annotation is not None, "withheld from an annotation"
            assert now is not None, "known from the start"
            axes = annotation.sharding.split_axes[dim]
            try:
                released = replace(
                    now,
                    sharding=now.sharding.with_dim(dim, axes),
                    open=(*now.open, dim) if dim in annotation.open else now.open,
                    replicated=tuple(axis for axis in now.replicated if axis not in axes),
                )
            except ShardingError:  # another member of its group now uses one of the axes
                continue
            for each in self._group_of.get(value, (value,)):
                self.learn(each, released)

    def _agree(self, group: Sequence[int]) -> None:
        """Give all members of a group the same annotation, if the annotated ones agree."""
        given = {self._now[value] for value in group if self.known(value) is not None}
        if len(given) == 1:
            for value in group:
                self._now[value] = next(iter(given))

    def _kind(self, node: Node) -> int:
        """A number for all nodes with the same directions in every stage."""
        key = (node.form, node.role, node.used_once, node.to)
        return self._kinds.setdefault(key, len(self._kinds))

    def _turn(self, kind: _Kind, stage: int) -> int:
        """A number for the rule with its directions in a stage, the *turn*; 0 for no visit."""
        number, role, used_once, to = kind
        prepared = self.graph.forms[number]
        found: Directions = (to,) * len(prepared.sizes) if to else ()
        if not to:
            found = directions(prepared, role, used_once, stage)
        if all(direction == "none" for direction in found):
            return 0
        key = (number, found)
        if key not in self._turns:
            self._turns[key] = len(self._turn_list)
            self._turn_list.append(key)
        return self._turns[key]

    def _to_fixed_point(self, turns: list[int]) -> None:
        nodes = self.graph.nodes
        stack = [number for number in range(len(nodes) - 1, -1, -1) if turns[number]]
        waiting = bytearray(len(nodes))
        for number in stack:
            waiting[number] = 1
        while stack:
            number = stack.pop()
            waiting[number] = 0
            for value in self._visit(nodes[number], turns[number]):
                for near in (self._makers[value], *self._users[value]):
                    if near >= 0 and near != number and turns[near] and not waiting[near]:
                        waiting[near] = 1
                        stack.append(near)

    def _visit(self, node: Node, turn: int) -> Sequence[int]:
        """Update the values of a node; returns those that changed."""
        now = self._now
        key = (turn, *[now[value] for value in node.values])
        found = self._memo.get(key)
        if found is None:
            found = self._compute(node, turn)
            if not self._is_by_neighbours:
                self._memo[key] = found
        if not found:
            return ()
        changed = []
        for index, state in found:
            value = node.values[index]
            for each in self._group_of.get(value, (value,)):
                if now[each] != state:
                    now[each] = state
                    self.changes.append(Change(each, state, node))
                    changed.append(each)
        return changed

    def _compute(self, node: Node, turn: int) -> tuple[tuple[int, int], ...]:
        """The new state of each value of the node that changes, by its index in `node.values`."""
        numbers = [self._now[value] for value in node.values]
        form, found = self._turn_list[turn]
        names = {self._grid_of[number] for number in numbers}
        names |= {self.graph.forms[form].pinned_on} if turn else set()
        names -= {None}
        grid = self.grids.get(next(iter(names)) or "") if len(names) == 1 else None
        self._is_by_neighbours = False
        if turn == 0 or grid is None:  # no shardings, or on two grids
            return ()
        known = [self._states[number] for number in numbers]
        done = step(self.graph.forms[form], known, found, grid, self.strategy.aggressive)
        made = done.made
        if self._prices and done.contested:
            self._is_by_neighbours = True
            made = self._cheapest(node, found, known, grid, done)
        return tuple(
            (index, self._number(annotation))
            for index, annotation in made.items()
            if node.values[index] != NOTHING
        )

    def _cheapest(
        self,
        node: Node,
        found: Directions,
        known: list[Annotation | None],
        grid: Grid,
        done: Outcome,
    ) -> dict[int, Annotation]:
        """The resolution of a conflict after which the node and its neighbours move fewest bytes.

        Of equal ones the default, `done`.
        """
        prepared = self.graph.forms[node.form]
        others = [
            step(prepared, known, found, grid, first=first).made for first in done.contested[1:]
        ]
        resolutions = [done.made, *others]
        near = self._near(node, resolutions)
        return min(resolutions, key=lambda made: self._price_near(node, made, near))

    def _near(self, node: Node, resolutions: Sequence[Mapping[int, Annotation]]) -> set[int]:
        """The nodes whose cost may depend on the resolution, including the node itself."""
        indices = {index for made in resolutions for index in made}
        differ = [index for index in indices if len({each.get(index) for each in resolutions}) > 1]
        return {
            number
            for index in differ
            if (value := node.values[index]) != NOTHING
            for number in (self._makers[value], *self._users[value])
            if number >= 0
        }

    def _price_near(self, node: Node, made: Mapping[int, Annotation], near: Iterable[int]) -> float:
        """The bytes that the nodes `near` move when this node's values change to `made`."""
        new = {node.values[index]: annotation for index, annotation in made.items()}
        return sum(self._price(self.graph.nodes[number], new) for number in near)

    def _price(self, node: Node, new: Mapping[int, Annotation]) -> float:
        assert self._prices is not None, "asked for by a strategy by cost"
        known = [new.get(value) or self.known(value) for value in node.values]
        return self._prices.node(node.form, node.values, known)

    def price(self) -> float:
        """The bytes that a device moves in the program, by the cost model, as values are now."""
        prices = self._prices or Prices(self.graph, self.grids)
        return sum(
            prices.node(node.form, node.values, [self.known(value) for value in node.values])
            for node in (*self.graph.nodes, *self.graph.exits)
        )


def _neighbours(graph: Graph) -> tuple[list[list[int]], list[int]]:
    """For each value, the nodes that use it, the last one first, and its producer, or -1."""
    users: list[list[int]] = [[] for _ in graph.said]
    makers = [-1] * len(graph.said)
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        results = graph.forms[node.form].results
        for value in node.values[:results]:
            if value != NOTHING:
                users[value].append(number)
        for value in node.values[results:]:
            if value != NOTHING:
                makers[value] = number
    return users, makers
