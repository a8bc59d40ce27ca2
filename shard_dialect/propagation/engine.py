"""The propagation engine: it visits all nodes until nothing changes.

The result of a visit depends only on the node's rule, its directions and the shardings of its
values. Programs repeat themselves, so each such case is computed once (`_memo`). A node is visited
again when one of its values has changed, the last changed first, as in MLIR's greedy rewriter. So
conflicts arise in the same order as in Shardy.

A *state* is an annotation that some value has during propagation. States are numbered from 1; 0 is
that of a value that no sharding has reached.

The schedule of propagation: when each op is visited, and in which direction.

Each strategy adds one thing to the one before it:

    basic           passes along each factor the axes on which all tensors agree
    aggressive      resolves conflicts (`step`)
    op-priority     five stages, each with the visits of those before it; cheap decisions first
    user-priority   all of that for each priority of the annotations, lower numbers first
    cost            resolves a conflict so that the op and its neighbours move the fewest bytes

The directions in each stage, by the role of the rule:

    role            0              1          2                       3          4
    elementwise,    both, of ops   both       both                    both       both
      pass            used once
    forward         forward        forward    both (free factors)     both       both
    broadcast       -              -          backward (free ones)    backward   both
    other           -              -          both (free factors)     both       both

An op is "used once" if its operands have no other user that a change of sharding could affect. A
factor is free if it is not reduced, needed whole, or permuted.

Source: Shardy, docs/propagation.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shard_dialect.model import Annotation, Grid, ShardingError
from shard_dialect.model.rule import Role
from shard_dialect.propagation.cost import Costs
from shard_dialect.propagation.graph import NO_TENSOR, Graph, Node
from shard_dialect.propagation.op_update import Direction, Outcome, PreparedRule, step

Directions = tuple[Direction, ...]
"""A direction for each factor."""
STAGES = 5


@dataclass(frozen=True, slots=True)
class Strategy:
    """The parts of a strategy: resolve conflicts, run in stages, by priority, and by cost.

    With `until_full` a dimension whose shards have one element is not split further. If
    `conservative`, axes are not taken apart, and dimensions that they do not divide not split.
    """

    aggressive: bool = True
    stages: bool = True
    priorities: bool = True
    by_cost: bool = False
    until_full: bool = False
    conservative: bool = False


STRATEGIES = {
    "basic": Strategy(aggressive=False, stages=False, priorities=False),
    "aggressive": Strategy(stages=False, priorities=False),
    "op-priority": Strategy(priorities=False),
    "user-priority": Strategy(),
    "cost": Strategy(by_cost=True, until_full=True),
}

_BY_ROLE: dict[Role, tuple[Direction, ...]] = {
    "elementwise": ("both", "both", "both", "both", "both"),
    "pass": ("both", "both", "both", "both", "both"),
    "forward": ("forward", "forward", "both", "both", "both"),
    "broadcast": ("none", "none", "backward", "backward", "both"),
    "other": ("none", "none", "both", "both", "both"),
}


def directions(prepared: PreparedRule, role: Role, used_once: bool, stage: int) -> Directions:
    """The direction in which a stage passes shardings along each factor."""
    direction = _BY_ROLE[role][stage]
    earlier: Direction = "none"
    if stage == 0 and not used_once:
        direction = "none"
    if stage == 2:
        earlier = _BY_ROLE[role][1]
    count = len(prepared.sizes)
    if stage == 2 and role not in ("elementwise", "pass"):
        return tuple(
            earlier if factor in prepared.special else direction for factor in range(count)
        )
    return (direction,) * count


_Kind = tuple[int, Role, bool, Direction | None]


@dataclass(frozen=True, slots=True)
class Change:
    """A visit of `node` gave `value` the annotation with the number `state`.

    Without a node, it was the value's own annotation, or that of a member of its group, in the turn
    of a later priority.
    """

    value: int
    state: int
    node: Node | None


class Engine:
    """Propagates shardings through one graph; `known` reads the result."""

    def __init__(self, graph: Graph, grids: Mapping[str, Grid], strategy: Strategy) -> None:
        self.graph = graph
        self.grids = grids
        self.strategy = strategy
        self.last_priority: int | None = None
        """If set, annotations of later priorities are applied, but not propagated."""
        self.changes: list[Change] = []
        self._numbers: dict[Annotation | None, int] = {None: 0}
        self._states: list[Annotation | None] = [None]
        self._grid_of: list[str | None] = [None]
        self._state_of = [0] * len(graph.annotations)
        self._memo: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}
        self._turns: dict[tuple[int, Directions], int] = {}
        self._turn_list: list[tuple[int, Directions]] = [(0, ())]
        self._kinds: dict[_Kind, int] = {}
        self._node_kinds = [self._kind(node) for node in graph.nodes]
        self._exit_kinds = [self._kind(node) for node in graph.exits]
        self._users, self._producers = _neighbours(graph)
        self._group_of = {value: group for group in graph.groups for value in group}
        self._is_by_neighbours = False
        """Whether the last computed visit depends on more than the node's own values."""
        self._withheld: dict[int, list[tuple[int, int]]] = {}
        for value, annotation in enumerate(graph.annotations):
            if annotation is not None:
                self._state_of[value] = self._number(self._without_priorities(value, annotation))
        for group in graph.groups:
            self._agree(group)
        self._first_states = list(self._state_of)

    def run(self) -> None:
        """Propagate: each priority in turn, and in it each stage."""
        self.settle()
        for priority in sorted(self._withheld):
            self._release(priority)
            if self.last_priority is None or priority <= self.last_priority:
                self.settle()

    def settle(self) -> None:
        """Visit all nodes, stage by stage, until nothing changes."""
        for stage in range(STAGES) if self.strategy.stages else (STAGES - 1,):
            turns = [self._turn(kind, stage) for kind in self._kinds]
            exits = [turns[kind] for kind in self._exit_kinds]
            # Exits are before and after all other nodes: an annotated result passes its sharding
            # back to the returned value, and a returned value then passes the final one on to its
            # result.
            for node, turn in zip(self.graph.exits, exits, strict=True):
                self._visit(node, turn)
            self._to_fixed_point([turns[kind] for kind in self._node_kinds])
            for node, turn in zip(self.graph.exits, exits, strict=True):
                self._visit(node, turn)

    @property
    def is_uneven(self) -> bool:
        """Whether a value is annotated with shards that are not equal."""
        sizes, kinds = self.graph.sizes, self.graph.kinds
        return any(
            annotation is not None
            and annotation.sharding.uneven_dim(sizes[kind][0], self.grids[annotation.grid])
            is not None
            for annotation, kind in zip(self.graph.annotations, kinds, strict=True)
        )

    @property
    def has_halos(self) -> bool:
        """Whether a value is annotated with halos."""
        return any(each is not None and each.sharding.halos for each in self.graph.annotations)

    def known(self, value: int) -> Annotation | None:
        """The annotation of a value so far; `None` where no sharding has reached it."""
        return self._states[self._state_of[value]]

    def number(self, value: int) -> int:
        """The state of a value: values with equal numbers have equal annotations."""
        return self._state_of[value]

    def known_first(self, value: int) -> Annotation | None:
        """The annotation of a value before the first visit."""
        return self._states[self._first_states[value]]

    def state(self, number: int) -> Annotation | None:
        """The annotation with this number; `None` for 0."""
        return self._states[number]

    def learn(self, value: int, annotation: Annotation) -> None:
        """Give a value this annotation."""
        self._state_of[value] = self._number(annotation)

    def _number(self, annotation: Annotation) -> int:
        if annotation not in self._numbers:
            self._numbers[annotation] = len(self._states)
            self._states.append(annotation)
            self._grid_of.append(annotation.grid)
        return self._numbers[annotation]

    def _without_priorities(self, value: int, annotation: Annotation) -> Annotation:
        """The annotation with its dimensions of later priorities closed and unsplit for now."""
        later = [dim for dim, priority in enumerate(annotation.priorities) if priority]
        if not self.strategy.priorities or not later:
            return replace(annotation, priorities=())
        sharding = annotation.sharding
        # The axes of later priorities must still be free in their turn: until then the tensor
        # counts as replicated along them, so that no earlier dimension takes them.
        barred = list(annotation.replicated)
        for dim in later:
            self._withheld.setdefault(annotation.priorities[dim] or 0, []).append((value, dim))
            barred += sharding.split_axes[dim]
            sharding = sharding.with_halo(dim, (0, 0), sharding.fill).with_dim(dim, ())
        return replace(
            annotation,
            sharding=sharding,
            open=tuple(dim for dim in annotation.open if dim not in later),
            priorities=(),
            replicated=tuple(barred),
        )

    def _release(self, priority: int) -> None:
        """Apply the annotations of the dimensions with this priority."""
        for value, dim in self._withheld[priority]:
            annotation, current = self.graph.annotations[value], self.known(value)
            assert annotation is not None, "withheld from an annotation"
            assert current is not None, "known from the start"
            withheld = annotation.sharding
            axes = withheld.split_axes[dim]
            offsets = withheld.offsets[dim] if withheld.offsets else ()
            try:
                sharding = current.sharding.with_dim(dim, axes, offsets)
                if withheld.halos:
                    sharding = sharding.with_halo(dim, withheld.halo(dim), withheld.fill)
                released = replace(
                    current,
                    sharding=sharding,
                    open=(*current.open, dim) if dim in annotation.open else current.open,
                    replicated=tuple(axis for axis in current.replicated if axis not in axes),
                )
            except ShardingError:  # another member of its group now uses one of the axes
                continue
            for each in self._group_of.get(value, (value,)):
                self.learn(each, released)
                self.changes.append(Change(each, self._state_of[each], None))

    def _agree(self, group: Sequence[int]) -> None:
        """Give all members of a group the same annotation, if the annotated ones agree."""
        states = {self._state_of[value] for value in group if self.known(value) is not None}
        if len(states) == 1:
            for value in group:
                self._state_of[value] = next(iter(states))

    def _kind(self, node: Node) -> int:
        """A number for all nodes with the same directions in every stage."""
        key = (node.rule_number, node.role, node.used_once, node.to)
        return self._kinds.setdefault(key, len(self._kinds))

    def _turn(self, kind: _Kind, stage: int) -> int:
        """A number for the rule with its directions in a stage, the *turn*; 0 for no visit."""
        number, role, used_once, direction = kind
        prepared = self.graph.rules[number]
        found_directions: Directions = (direction,) * len(prepared.sizes) if direction else ()
        if not direction:
            found_directions = directions(prepared, role, used_once, stage)
        if all(each == "none" for each in found_directions):
            return 0
        key = (number, found_directions)
        if key not in self._turns:
            self._turns[key] = len(self._turn_list)
            self._turn_list.append(key)
        return self._turns[key]

    def _to_fixed_point(self, turns: list[int]) -> None:
        # A stack with the first node on top; `waiting` keeps a node from being on it twice.
        nodes = self.graph.nodes
        stack = [number for number in range(len(nodes) - 1, -1, -1) if turns[number]]
        waiting = bytearray(len(nodes))
        for number in stack:
            waiting[number] = 1
        while stack:
            number = stack.pop()
            waiting[number] = 0
            for value in self._visit(nodes[number], turns[number]):
                # The last one pushed is visited first: the first user, then later ones, the
                # producer last.
                for neighbour in (self._producers[value], *self._users[value]):
                    if (
                        neighbour >= 0
                        and neighbour != number
                        and turns[neighbour]
                        and not waiting[neighbour]
                    ):
                        waiting[neighbour] = 1
                        stack.append(neighbour)

    def _visit(self, node: Node, turn: int) -> Sequence[int]:
        """Update the values of a node; returns those that changed."""
        state_of = self._state_of
        key = (turn, *[state_of[value] for value in node.values])
        new_states = self._memo.get(key)
        if new_states is None:
            new_states = self._compute(node, turn)
            # Decided by what the neighbours cost: the same states may end differently elsewhere.
            if not self._is_by_neighbours:
                self._memo[key] = new_states
        if not new_states:
            return ()
        changed = []
        for index, state in new_states:
            value = node.values[index]
            for each in self._group_of.get(value, (value,)):
                if state_of[each] != state:
                    state_of[each] = state
                    self.changes.append(Change(each, state, node))
                    changed.append(each)
        return changed

    def _compute(self, node: Node, turn: int) -> tuple[tuple[int, int], ...]:
        """The new state of each value of the node that changes, by its index in `node.values`."""
        numbers = [self._state_of[value] for value in node.values]
        rule_number, node_directions = self._turn_list[turn]
        names = {self._grid_of[number] for number in numbers}
        names |= {self.graph.rules[rule_number].pinned_on} if turn else set()
        names -= {None}
        grid = self.grids.get(next(iter(names)) or "") if len(names) == 1 else None
        self._is_by_neighbours = False
        if turn == 0 or grid is None:  # no shardings, or on two grids
            return ()
        known = [self._states[number] for number in numbers]
        outcome = step(
            self.graph.rules[rule_number],
            known,
            node_directions,
            grid,
            self.strategy.aggressive,
            until_full=self.strategy.until_full,
            conservative=self.strategy.conservative,
        )
        annotations = outcome.annotations
        if self.strategy.by_cost and outcome.contested:
            self._is_by_neighbours = True
            annotations = self._cheapest(node, node_directions, known, grid, outcome)
        return tuple(
            (index, self._number(annotation))
            for index, annotation in annotations.items()
            if node.values[index] != NO_TENSOR
        )

    def _cheapest(
        self,
        node: Node,
        node_directions: Directions,
        known: list[Annotation | None],
        grid: Grid,
        default: Outcome,
    ) -> dict[int, Annotation]:
        """The resolution of a conflict after which the node and its neighbours move fewest bytes.

        Of equal ones the default, `default`.
        """
        prepared = self.graph.rules[node.rule_number]
        others = [
            step(
                prepared,
                known,
                node_directions,
                grid,
                first=first,
                until_full=self.strategy.until_full,
                conservative=self.strategy.conservative,
            ).annotations
            for first in default.contested[1:]
        ]
        resolutions = [default.annotations, *others]
        affected = self._affected(node, resolutions)
        return min(resolutions, key=lambda resolution: self._cost_near(node, resolution, affected))

    def _affected(self, node: Node, resolutions: Sequence[Mapping[int, Annotation]]) -> set[int]:
        """The nodes whose cost may depend on the resolution, including the node itself."""
        indices = {index for resolution in resolutions for index in resolution}
        differ = [index for index in indices if len({each.get(index) for each in resolutions}) > 1]
        return {
            number
            for index in differ
            if (value := node.values[index]) != NO_TENSOR
            for number in (self._producers[value], *self._users[value])
            if number >= 0
        }

    @cached_property
    def _costs(self) -> Costs:
        return Costs(self.graph, self.grids)

    def _cost_near(
        self, node: Node, annotations: Mapping[int, Annotation], nodes: Iterable[int]
    ) -> float:
        """The bytes that the nodes `nodes` move when this node's values change to `annotations`."""
        new = {node.values[index]: annotation for index, annotation in annotations.items()}
        return sum(self._cost(self.graph.nodes[number], new) for number in nodes)

    def _cost(self, node: Node, new: Mapping[int, Annotation]) -> float:
        known = [new.get(value) or self.known(value) for value in node.values]
        return self._costs.node(node.rule_number, node.values, known)

    def cost(self) -> float:
        """The bytes that a device moves in the program, by the cost model, as values are now."""
        return sum(
            self._costs.node(
                node.rule_number, node.values, [self.known(value) for value in node.values]
            )
            for node in (*self.graph.nodes, *self.graph.exits)
        )


def _neighbours(graph: Graph) -> tuple[list[list[int]], list[int]]:
    """For each value, the nodes that use it, the last one first, and its producer, or -1."""
    users: list[list[int]] = [[] for _ in graph.annotations]
    producers = [-1] * len(graph.annotations)
    for number in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[number]
        results = graph.rules[node.rule_number].results
        for value in node.values[:results]:
            if value != NO_TENSOR:
                users[value].append(number)
        for value in node.values[results:]:
            if value != NO_TENSOR:
                producers[value] = number
    return users, producers
