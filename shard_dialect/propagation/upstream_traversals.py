"""Upstream MLIR's traversals: each op is decided once, forward or backward through the program.

    %y = exp(%x), %z = exp(%y)         %x is annotated [[0], []], %z [[], [0]]
    our strategies, forward            %y has the sharding of %x: [[0], []]
    backward, backward-forward         %y has the sharding of %z: [[], [0]]

The shardings of an op's tensors, results first, decide how its loops are split. *Must shardings*
are those of annotated results, and of operands annotated for their users. *Optional shardings* are
those of other operands, and for other results the sharding that a user has for them. An optional
sharding is dropped if it contradicts a must sharding or an earlier optional one. It is also dropped
if it would split a must tensor further (unless the must shardings do that to each other). The rest
splits the loops. Each result then gets the sharding that follows from the loops, and the op sees
its operands with theirs. An op whose must shardings contradict each other is not decided, nor is an
op without any sharding.

Upstream itself tries all subsets of the optional shardings, in an order that prefers to include
each of them. It takes the first subset that reshards no annotated tensor, else the first that
reshards no must tensor, else the first. But a set of shardings is consistent if every two of them
are, so adding one optional sharding after the other finds the same subset. (The first case is part
of the second: all tensors are then consistent as they are.)

For ops without upstream's interface upstream's pass fails; here they are decided by their rules.
The dimensions of an annotation after the last split one (or after the first, if none is split) are
unsplit, but do not constrain the loops.

Source: ShardingPropagation.cpp and ShardingInterface.cpp of MLIR's shard dialect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.model.factor_projection import (
    FactorSplit,
    SubAxisTriples,
    axes_of,
    overlaps,
    sub_axes_of,
    unproject,
)
from shard_dialect.propagation.engine import Change, Engine, Strategy
from shard_dialect.propagation.graph import NO_TENSOR, Graph, Node
from shard_dialect.propagation.op_update import PreparedRule, factors_of

Traversal = Literal["forward", "backward", "forward-backward", "backward-forward"]
_Loops = dict[int, SubAxisTriples]


class Upstream(Engine):
    """Propagates through one graph in upstream's order; `settle` does nothing."""

    def __init__(self, graph: Graph, grids: Mapping[str, Grid], traversal: Traversal) -> None:
        super().__init__(graph, grids, Strategy(priorities=False))
        self.traversal = traversal
        self._shardings = {
            value: annotation
            for value, annotation in enumerate(graph.annotations)
            if annotation is not None and not annotation.is_unconstrained
        }
        """The annotation of each value, as the user wrote it or its op decided it."""
        self._seen: dict[tuple[int, int], Annotation] = {}
        """The annotation with which a node, by its number in `_ends`, uses a value."""
        self._last_user: dict[int, int] = {}
        """The user of each value that was decided last."""
        self._for_users: set[int] = set()
        self._decided: set[int] = set()
        self._ends = [*graph.nodes, *graph.exits]
        for number, node in enumerate(self._ends):
            annotation = self._shardings.get(node.values[-1])
            is_exit = number >= len(graph.nodes)
            if annotation is None or annotation.open or not (node.annotates or is_exit):
                continue
            self._decided.add(number)
            if is_exit or node.annotates == "users":
                self._for_users.add(node.values[-1])
                self._see(number, node.values[0], annotation)

    def run(self) -> None:
        """Decide each op once in each direction.

        A value that its own op leaves undecided gets the sharding of its first user.
        """
        numbers = range(len(self.graph.nodes))
        for direction in self.traversal.split("-"):
            for number in numbers if direction == "forward" else reversed(numbers):
                if number not in self._decided:
                    self._decide(number)
        for number, value in sorted(self._seen):
            if value not in self._shardings:
                self._set(value, self._seen[number, value], self._ends[number])
        for node in self.graph.exits:
            value, result = node.values
            if value in self._shardings and result not in self._shardings:
                self._set(result, self._shardings[value], node)
        for group in self.graph.groups:
            known = [self._shardings[value] for value in group if value in self._shardings]
            for value in group if known else ():
                self.learn(value, known[0])

    def settle(self) -> None:
        """Do nothing: each op is decided once."""

    def _see(self, number: int, value: int, annotation: Annotation) -> None:
        """Record that an op uses a value with this annotation; the first record counts."""
        if value != NO_TENSOR and (number, value) not in self._seen:
            self._seen[number, value] = annotation
            self._last_user[value] = number

    def _of_last_user(self, value: int) -> Annotation | None:
        """The annotation with which the user of a value that was decided last uses it."""
        return self._seen.get((self._last_user.get(value, -1), value))

    def _set(self, value: int, annotation: Annotation, node: Node) -> None:
        if value != NO_TENSOR and annotation != self.known(value):
            self.learn(value, annotation)
            self.changes.append(Change(value, self.number(value), node))
        self._shardings[value] = annotation

    def _decide(self, number: int) -> None:
        node = self.graph.nodes[number]
        prepared = self.graph.rules[node.rule_number]
        requirements = list(self._requirements(node, prepared))
        names = {requirement.grid for requirement in requirements} | {prepared.pinned_on} - {None}
        if len(names) != 1:  # no shardings, or on two grids
            return
        grid = self.grids[names.pop() or ""]
        loops = _loops(
            requirements, {factor: sub_axes_of(axes, grid) for factor, axes in prepared.pinned}
        )
        if loops is None:
            return
        self._decided.add(number)
        for index, value in enumerate(node.values):
            split = self._split(prepared, index, value, loops, grid)
            if index >= prepared.results:
                is_asked = split == self._of_last_user(value)
                self._set(value, split, self._ends[self._last_user[value]] if is_asked else node)
            else:
                self._see(number, value, split)

    def _requirements(self, node: Node, prepared: PreparedRule) -> Iterator[_Requirement]:
        """The requirements of a node's tensors, results first, without scalar operands."""
        for index in (*range(prepared.results, len(node.values)), *range(prepared.results)):
            value = node.values[index]
            is_result = index >= prepared.results
            annotation = self._shardings.get(value)
            is_must = annotation is not None if is_result else value in self._for_users
            if is_result and annotation is None:
                annotation = self._of_last_user(value)
            is_barred = node.to not in (None, "both", "backward" if is_result else "forward")
            if annotation is not None and not is_barred and (is_result or prepared.tensors[index]):
                yield _Requirement.of(
                    prepared, index, annotation, self.grids[annotation.grid], is_must
                )

    def _split(
        self, prepared: PreparedRule, index: int, value: int, loops: _Loops, grid: Grid
    ) -> Annotation:
        """The annotation of tensor number `index` when the loops are split like this."""
        annotation = self._shardings.get(value)
        factors = factors_of(prepared, index, annotation, grid)
        for factor in factors.keys() - prepared.blocked:
            factors[factor] = FactorSplit(loops.get(factor, ()))
        sub_axes = unproject(prepared.tensors[index], prepared.sizes, factors)
        split = tuple(axes_of(each, grid) for each in sub_axes)
        if (
            annotation is not None
            and annotation.sharding.split_axes == split
            and _is_plain(annotation)
        ):
            return annotation
        return Annotation(Sharding(grid.name, split))


@dataclass(frozen=True, slots=True)
class _Requirement:
    """The requirements that the sharding of one tensor of an op places on the loops."""

    grid: str
    is_must: bool
    binding: tuple[tuple[int, SubAxisTriples], ...]
    """The splits of loops with which other requirements must agree."""
    exact: tuple[tuple[int, SubAxisTriples], ...] | None
    """The splits of all its loops, for which a must sharding does not change.

    `None` for halos and offsets, which no op gives its result.
    """

    @classmethod
    def of(
        cls, prepared: PreparedRule, index: int, annotation: Annotation, grid: Grid, is_must: bool
    ) -> _Requirement:
        factors = factors_of(prepared, index, annotation, grid)
        split = annotation.sharding.split_axes
        last = max((dim for dim, axes in enumerate(split) if axes), default=0)
        binding, splits = [], []
        for dim, dim_factors in enumerate(prepared.tensors[index]):
            for factor in dim_factors if split[dim] or dim not in annotation.open else ():
                if factor not in prepared.blocked:
                    splits.append((factor, factors[factor].axes))
                    binding += splits[-1:] if dim <= last else []
        exact = tuple(splits) if _is_plain(annotation) else None
        return cls(annotation.grid, is_must, tuple(binding), exact)


def _is_plain(annotation: Annotation) -> bool:
    return not annotation.sharding.halos and not annotation.sharding.offsets


def _loops(requirements: Sequence[_Requirement], pinned: _Loops) -> _Loops | None:
    """How an op splits its loops; `None` without requirements, or if the musts contradict."""
    for may_move in (False, True):
        included = [requirement.is_must for requirement in requirements]
        loops = _loops_satisfying(requirements, included, pinned, may_move)
        if loops is None:
            continue
        for index in range(len(requirements)):
            if not included[index]:
                included[index] = True
                more = _loops_satisfying(requirements, included, pinned, may_move)
                included[index] = more is not None
                loops = loops if more is None else more
        return loops if pinned or any(included) else None
    return None


def _loops_satisfying(
    requirements: Sequence[_Requirement], included: Sequence[bool], pinned: _Loops, may_move: bool
) -> _Loops | None:
    """The loops that satisfy all requirements in `included`; `None` if they contradict each other.

    Also `None` if a must sharding would change and `may_move` is false.
    """
    loops = dict(pinned)
    for requirement, is_taken in zip(requirements, included, strict=True):
        for factor, axes in requirement.binding if is_taken else ():
            axes_before = loops.get(factor)
            others = [sub_axis for other in loops.keys() - {factor} for sub_axis in loops[other]]
            if (axes_before and axes_before != axes) or any(
                overlaps(a, b) for a in axes for b in others
            ):
                return None
            loops[factor] = axes
    if not may_move and any(
        requirement.is_must and not _is_unchanged(requirement, loops)
        for requirement in requirements
    ):
        return None
    return loops


def _is_unchanged(requirement: _Requirement, loops: _Loops) -> bool:
    return requirement.exact is not None and all(
        loops.get(f, ()) == axes for f, axes in requirement.exact
    )
