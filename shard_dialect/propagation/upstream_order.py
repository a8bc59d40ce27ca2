"""Upstream MLIR's orders: each op once, forwards or backwards through the program.

    %y = exp(%x), %z = exp(%y)         %x is annotated [[0], []], %z [[], [0]]
    our strategies, forward            %y lies as %x: [[0], []]
    backward, backward-forward         %y lies as %z: [[], [0]]

An op is decided from what its tensors say, results first. *Musts* are results that are annotated
themselves, and operands annotated for users. *Wishes* are operands as they lie, and results as
their users have been given them. A wish is left out if it contradicts the musts or a wish before
it, or if it would give a must more than it says (unless the musts do that to each other). All that
is left splits the op's loops; every result then lies as these say, and the op sees its operands
so. An op whose musts contradict each other is left alone, as is one of which nothing is known.

Upstream itself tries all subsets of the wishes, each with before without, for the first that moves
no annotated tensor, else the first that moves no must, else the first. But the loops can be what a
set of tensors says if they can be what any two of them say: adding one wish after the other finds
the same. (The first kind is a case of the second: all tensors then fit together as they are.)

Ops that upstream has no interface for, where its pass fails, go the same way by their rules. The
dimensions of an annotation after the first and the last split one are whole, but do not bind.

Source: ShardingPropagation.cpp and ShardingInterface.cpp of MLIR's shard dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.model.projection import (
    FactorSplit,
    SubAxisTriples,
    axes_of,
    overlaps,
    sub_axes_of,
    unproject,
)
from shard_dialect.propagation.engine import Change, Engine
from shard_dialect.propagation.graph import NOTHING, Graph, Node
from shard_dialect.propagation.schedule import Strategy
from shard_dialect.propagation.step import PreparedRule, factors_of

Traversal = Literal["forward", "backward", "forward-backward", "backward-forward"]
_Loops = dict[int, SubAxisTriples]


class Upstream(Engine):
    """Runs one graph in upstream's way; once it is done nothing more settles."""

    def __init__(self, graph: Graph, grids: Mapping[str, Grid], traversal: Traversal) -> None:
        super().__init__(graph, grids, Strategy(priorities=False))
        self.traversal = traversal
        self._lies = {
            value: said
            for value, said in enumerate(graph.said)
            if said is not None and not said.says_nothing
        }
        """How values lie, as is said or was decided where they are made."""
        self._seen: dict[tuple[int, int], Annotation] = {}
        """How an op sees a value."""
        self._last_user: dict[int, int] = {}
        """Which user of a value was decided last: its maker asks how that sees it."""
        self._for_users: set[int] = set()
        self._decided: set[int] = set()
        self._ends = [*graph.nodes, *graph.exits]
        for number, node in enumerate(self._ends):
            said = self._lies.get(node.values[-1])
            is_exit = number >= len(graph.nodes)
            if said is None or said.open or not (node.annotates or is_exit):
                continue
            self._decided.add(number)
            if is_exit or node.annotates == "users":
                self._for_users.add(node.values[-1])
                self._see(number, node.values[0], said)

    def run(self) -> None:
        """Each op once in each direction; what its maker leaves open lies as its first user."""
        numbers = range(len(self.graph.nodes))
        for direction in self.traversal.split("-"):
            for number in numbers if direction == "forward" else reversed(numbers):
                if number not in self._decided:
                    self._decide(number)
        for number, value in sorted(self._seen):
            if value not in self._lies:
                self._lie(value, self._seen[number, value], self._ends[number])
        for node in self.graph.exits:
            value, result = node.values
            if value in self._lies and result not in self._lies:
                self._lie(result, self._lies[value], node)
        for group in self.graph.groups:
            said = [self._lies[value] for value in group if value in self._lies]
            for value in group if said else ():
                self.learn(value, said[0])

    def settle(self) -> None:
        """Nothing: each op has had its turn."""

    def _see(self, number: int, value: int, said: Annotation) -> None:
        """Let an op see a value so; of several operands that are one value the first counts."""
        if value != NOTHING and (number, value) not in self._seen:
            self._seen[number, value] = said
            self._last_user[value] = number

    def _wish(self, value: int) -> Annotation | None:
        """What the users of a value have been given it as."""
        return self._seen.get((self._last_user.get(value, -1), value))

    def _lie(self, value: int, said: Annotation, node: Node) -> None:
        if value != NOTHING and said != self.known(value):
            self.learn(value, said)
            self.changes.append(Change(value, self.number(value), node))
        self._lies[value] = said

    def _decide(self, number: int) -> None:
        node = self.graph.nodes[number]
        form = self.graph.forms[node.form]
        says = list(self._says(node, form))
        names = {say.grid for say in says} | {form.pinned_on} - {None}
        if len(names) != 1:  # nothing is said, or of two grids
            return
        grid = self.grids[names.pop() or ""]
        loops = _loops(says, {factor: sub_axes_of(axes, grid) for factor, axes in form.pinned})
        if loops is None:
            return
        self._decided.add(number)
        for place, value in enumerate(node.values):
            split = self._split(form, place, value, loops, grid)
            if place >= form.results:
                is_asked = split == self._wish(value)
                self._lie(value, split, self._ends[self._last_user[value]] if is_asked else node)
            else:
                self._see(number, value, split)

    def _says(self, node: Node, form: PreparedRule) -> Iterator[_Say]:
        """What the tensors of a node say, results first; scalars among the operands say nothing."""
        for place in (*range(form.results, len(node.values)), *range(form.results)):
            value = node.values[place]
            is_result = place >= form.results
            said = self._lies.get(value)
            is_must = said is not None if is_result else value in self._for_users
            if is_result and said is None:
                said = self._wish(value)
            is_barred = node.to not in (None, "both", "backward" if is_result else "forward")
            if said is not None and not is_barred and (is_result or form.tensors[place]):
                yield _Say.of(form, place, said, self.grids[said.grid], is_must)

    def _split(
        self, form: PreparedRule, place: int, value: int, loops: _Loops, grid: Grid
    ) -> Annotation:
        """How the tensor at a place lies when the loops are split so."""
        said = self._lies.get(value)
        factors = factors_of(form, place, said, grid)
        for factor in factors.keys() - form.blocked:
            factors[factor] = FactorSplit(loops.get(factor, ()))
        sub_axes = unproject(form.tensors[place], form.sizes, factors)
        split = tuple(axes_of(each, grid) for each in sub_axes)
        if said is not None and said.sharding.split_axes == split and _is_plain(said):
            return said
        return Annotation(Sharding(grid.name, split))


@dataclass(frozen=True, slots=True)
class _Say:
    """What one tensor of an op says of the loops."""

    grid: str
    is_must: bool
    binding: tuple[tuple[int, SubAxisTriples], ...]
    """What others that are taken with it have to agree with."""
    whole: tuple[tuple[int, SubAxisTriples], ...] | None
    """All of it, as a must is to stay; `None` where no op can make it."""

    @classmethod
    def of(
        cls, form: PreparedRule, place: int, said: Annotation, grid: Grid, is_must: bool
    ) -> _Say:
        found = factors_of(form, place, said, grid)
        split = said.sharding.split_axes
        last = max((dim for dim, axes in enumerate(split) if axes), default=0)
        binding, whole = [], []
        for dim, factors in enumerate(form.tensors[place]):
            for factor in factors if split[dim] or dim not in said.open else ():
                if factor not in form.blocked:
                    whole.append((factor, found[factor].axes))
                    binding += whole[-1:] if dim <= last else []
        exact = tuple(whole) if _is_plain(said) else None
        return cls(said.grid, is_must, tuple(binding), exact)


def _is_plain(said: Annotation) -> bool:
    return not said.sharding.halos and not said.sharding.offsets


def _loops(says: Sequence[_Say], pinned: _Loops) -> _Loops | None:
    """How an op splits its loops; `None` where nothing is said, or musts contradict each other."""
    for may_move in (False, True):
        taken = [say.is_must for say in says]
        loops = _taken(says, taken, pinned, may_move)
        if loops is None:
            continue
        for place in range(len(says)):
            if not taken[place]:
                taken[place] = True
                more = _taken(says, taken, pinned, may_move)
                taken[place] = more is not None
                loops = loops if more is None else more
        return loops if pinned or any(taken) else None
    return None


def _taken(
    says: Sequence[_Say], taken: Sequence[bool], pinned: _Loops, may_move: bool
) -> _Loops | None:
    """The loops as all that is taken says, in turn; `None` if they contradict each other.

    Or if a must would move that may not.
    """
    loops = dict(pinned)
    for say, is_taken in zip(says, taken, strict=True):
        for factor, axes in say.binding if is_taken else ():
            have = loops.get(factor)
            others = [sub_axis for other in loops.keys() - {factor} for sub_axis in loops[other]]
            if (have and have != axes) or any(overlaps(a, b) for a in axes for b in others):
                return None
            loops[factor] = axes
    if not may_move and any(say.is_must and not _stays(say, loops) for say in says):
        return None
    return loops


def _stays(say: _Say, loops: _Loops) -> bool:
    return say.whole is not None and all(loops.get(f, ()) == axes for f, axes in say.whole)
