"""All nodes until nothing changes.

What a node does depends on its rule, the direction and the shardings around it only, and programs
repeat themselves: each such case is worked out once (`_memo`). A node comes back when a value of
its has changed, the last changed first, as in MLIR's greedy rewriter, so that conflicts are met in
the order in which Shardy meets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.model import Annotation, Grid, ShardingError
from shard_dialect.model.rule import Role
from shard_dialect.propagation.cost import Prices
from shard_dialect.propagation.graph import NOTHING, Graph, Node
from shard_dialect.propagation.schedule import STAGES, Directions, Strategy, directions
from shard_dialect.propagation.step import Direction, Outcome, step

_Kind = tuple[int, Role, bool, Direction | None]


@dataclass(frozen=True, slots=True)
class Change:
    """Through `node`, `value` came to lie as number `state`."""

    value: int
    state: int
    node: Node


class Engine:
    """Runs one graph; what is known of a value is read by `known`."""

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
        """Whether what was worked out last hangs on more than the node's own values."""
        self._withheld: dict[int, list[tuple[int, int]]] = {}
        for value, said in enumerate(graph.said):
            if said is not None:
                self._now[value] = self._number(self._first_turn(value, said))
        for group in graph.groups:
            self._agree(group)

    def run(self) -> None:
        """Everything: each priority, and in it each stage."""
        self.settle()
        for priority in sorted(self._withheld):
            self._release(priority)
            self.settle()

    def settle(self) -> None:
        """Let every node have its turns, until nothing changes."""
        for stage in range(STAGES) if self.strategy.stages else (STAGES - 1,):
            turns = [self._turn(kind, stage) for kind in self._kinds]
            exits = [turns[kind] for kind in self._exit_kinds]
            for node, turn in zip(self.graph.exits, exits, strict=True):
                self._visit(node, turn)
            self._to_fixed_point([turns[kind] for kind in self._node_kinds])
            for node, turn in zip(self.graph.exits, exits, strict=True):
                self._visit(node, turn)

    def known(self, value: int) -> Annotation | None:
        """What is known of a value so far; `None` where nothing has reached it."""
        return self._states[self._now[value]]

    def number(self, value: int) -> int:
        """The number of what is known of a value: values with equal ones lie alike."""
        return self._now[value]

    def state(self, number: int) -> Annotation | None:
        return self._states[number]

    def learn(self, value: int, said: Annotation) -> None:
        """Let it be known how a value lies."""
        self._now[value] = self._number(said)

    def _number(self, said: Annotation) -> int:
        if said not in self._numbers:
            self._numbers[said] = len(self._states)
            self._states.append(said)
            self._grid_of.append(said.grid)
        return self._numbers[said]

    def _first_turn(self, value: int, said: Annotation) -> Annotation:
        """What holds before any priority is released: later dimensions are whole until then."""
        later = [dim for dim, priority in enumerate(said.priorities) if priority]
        if not self.strategy.priorities or not later:
            return replace(said, priorities=())
        held = list(said.sharding.split_axes)
        barred = list(said.replicated)
        for dim in later:
            self._withheld.setdefault(said.priorities[dim] or 0, []).append((value, dim))
            barred += held[dim]
            held[dim] = ()
        return replace(
            said,
            sharding=replace(said.sharding, split_axes=tuple(held)),
            open=tuple(dim for dim in said.open if dim not in later),
            priorities=(),
            replicated=tuple(barred),
        )

    def _release(self, priority: int) -> None:
        """Let the dimensions of this priority lie as they are annotated, and grow if they may."""
        for value, dim in self._withheld[priority]:
            said, now = self.graph.said[value], self.known(value)
            assert said is not None, "withheld from an annotation"
            assert now is not None, "known from the start"
            axes = said.sharding.split_axes[dim]
            try:
                released = replace(
                    now,
                    sharding=now.sharding.with_dim(dim, axes),
                    open=(*now.open, dim) if dim in said.open else now.open,
                    replicated=tuple(axis for axis in now.replicated if axis not in axes),
                )
            except ShardingError:  # another member of its group has taken an axis meanwhile
                continue
            for each in self._group_of.get(value, (value,)):
                self.learn(each, released)

    def _agree(self, group: Sequence[int]) -> None:
        """Let the members of a group begin alike, where only one sharding is given."""
        given = {self._now[value] for value in group if self.known(value) is not None}
        if len(given) == 1:
            for value in group:
                self._now[value] = next(iter(given))

    def _kind(self, node: Node) -> int:
        """A number for all nodes that have their turns in the same way."""
        key = (node.form, node.role, node.used_once, node.to)
        return self._kinds.setdefault(key, len(self._kinds))

    def _turn(self, kind: _Kind, stage: int) -> int:
        """The number of the rule with the directions that it has in a stage; 0 for none."""
        number, role, used_once, to = kind
        form = self.graph.forms[number]
        found: Directions = (to,) * len(form.sizes) if to else ()
        if not to:
            found = directions(form, role, used_once, stage)
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
        """Let a node have its turn; the values that changed."""
        now = self._now
        key = (turn, *[now[value] for value in node.values])
        found = self._memo.get(key)
        if found is None:
            found = self._work_out(node, turn)
            if not self._is_by_neighbours:
                self._memo[key] = found
        if not found:
            return ()
        changed = []
        for place, state in found:
            value = node.values[place]
            for each in self._group_of.get(value, (value,)):
                if now[each] != state:
                    now[each] = state
                    self.changes.append(Change(each, state, node))
                    changed.append(each)
        return changed

    def _work_out(self, node: Node, turn: int) -> tuple[tuple[int, int], ...]:
        numbers = [self._now[value] for value in node.values]
        form, found = self._turn_list[turn]
        names = {self._grid_of[number] for number in numbers}
        names |= {self.graph.forms[form].pinned_on} if turn else set()
        names -= {None}
        grid = self.grids.get(next(iter(names)) or "") if len(names) == 1 else None
        self._is_by_neighbours = False
        if turn == 0 or grid is None:  # nothing is known, or of two grids
            return ()
        known = [self._states[number] for number in numbers]
        done = step(self.graph.forms[form], known, found, grid, self.strategy.aggressive)
        made = done.made
        if self._prices and done.contested:
            self._is_by_neighbours = True
            made = self._cheapest(node, found, known, grid, done)
        return tuple(
            (place, self._number(said))
            for place, said in made.items()
            if node.values[place] != NOTHING
        )

    def _cheapest(
        self,
        node: Node,
        found: Directions,
        known: list[Annotation | None],
        grid: Grid,
        done: Outcome,
    ) -> dict[int, Annotation]:
        """Of the ways to resolve a conflict that after which the fewest bytes move near the node.

        Of equals the one that is `done` without looking.
        """
        form = self.graph.forms[node.form]
        others = [step(form, known, found, grid, first=first).made for first in done.contested[1:]]
        ways = [done.made, *others]
        near = self._near(node, ways)
        return min(ways, key=lambda made: self._price_near(node, made, near))

    def _near(self, node: Node, ways: Sequence[Mapping[int, Annotation]]) -> set[int]:
        """The nodes that may move other bytes in one way than in another; the node is one."""
        places = {place for made in ways for place in made}
        differ = [place for place in places if len({made.get(place) for made in ways}) > 1]
        return {
            number
            for place in differ
            if (value := node.values[place]) != NOTHING
            for number in (self._makers[value], *self._users[value])
            if number >= 0
        }

    def _price_near(self, node: Node, made: Mapping[int, Annotation], near: Iterable[int]) -> float:
        """The bytes that the nodes near one move when `made` has become of its values."""
        new = {node.values[place]: said for place, said in made.items()}
        return sum(self._price(self.graph.nodes[number], new) for number in near)

    def _price(self, node: Node, new: Mapping[int, Annotation]) -> float:
        assert self._prices is not None, "asked for by a strategy by cost"
        known = [new.get(value) or self.known(value) for value in node.values]
        return self._prices.node(node.form, node.values, known)

    def price(self) -> float:
        """The bytes that a device moves in all, by the cost model, as things are."""
        prices = self._prices or Prices(self.graph, self.grids)
        return sum(
            prices.node(node.form, node.values, [self.known(value) for value in node.values])
            for node in (*self.graph.nodes, *self.graph.exits)
        )


def _neighbours(graph: Graph) -> tuple[list[list[int]], list[int]]:
    """For each value the nodes that use it, the last one first; and its maker, or -1."""
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
