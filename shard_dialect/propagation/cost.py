"""The cost of shardings: the bytes that a device moves to compute an op.

    ([i, k], [k, j]) -> ([i, j])    [[x], []], [[], []] -> [[], [x]]
    split i along x, then exchange the result         all_to_all of it
    or gather the first operand, split j along x      all_gather of it

The cost of an op is that of its cheapest assignment, which is what materialization will choose.
Values without a sharding cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import inf

from shard_dialect.model import Annotation, Assignment, Grid, Sharding, ShardingError
from shard_dialect.model.grid import Axes, first_overlap
from shard_dialect.planner import plan
from shard_dialect.propagation.graph import Graph
from shard_dialect.propagation.op_update import PreparedRule

_MOST = 64
"""The most assignments that are tried for one op."""


class Costs:
    """The costs of a graph's nodes, each computed once for the same rule and shardings."""

    def __init__(self, graph: Graph, grids: Mapping[str, Grid]) -> None:
        self._graph = graph
        self._grids = grids
        self._nodes: dict[tuple[object, ...], float] = {}
        self._plans: dict[tuple[object, ...], float] = {}

    def node(
        self, rule_number: int, values: Sequence[int], known: Sequence[Annotation | None]
    ) -> float:
        """The fewest bytes that a device moves to compute a node whose values have these shardings.

        `rule_number` is the number of its prepared rule; 0 where shardings are on several grids.
        """
        kinds = tuple(self._graph.kinds[value] for value in values)
        key = (rule_number, kinds, *known)
        if key not in self._nodes:
            names = {each.grid for each in known if each is not None}
            grid = self._grids[names.pop()] if len(names) == 1 else None
            self._nodes[key] = self._node(self._graph.rules[rule_number], kinds, known, grid)
        return self._nodes[key]

    def _node(
        self,
        prepared: PreparedRule,
        kinds: Sequence[int],
        known: Sequence[Annotation | None],
        grid: Grid | None,
    ) -> float:
        if grid is None:
            return 0
        lowest = min(
            (
                self._bytes(prepared, kinds, known, assignment, grid)
                for assignment in _assignments(prepared, known, grid)
            ),
            default=inf,
        )
        return 0 if lowest == inf else lowest

    def _bytes(
        self,
        prepared: PreparedRule,
        kinds: Sequence[int],
        known: Sequence[Annotation | None],
        assignment: Assignment,
        grid: Grid,
    ) -> float:
        """The bytes that the reshards of operands and results move under `assignment`."""
        total = 0.0
        try:
            for index, annotation in enumerate(known):
                if annotation is None:
                    continue
                result = index - prepared.results
                if result < 0:
                    needed_sharding = prepared.rule.operand_sharding(index, assignment, grid)
                    total += self._plan(annotation.sharding, needed_sharding, kinds[index], grid)
                    if needed_sharding is not None and prepared.rule.exchanging:
                        shape, itemsize = self._graph.sizes[kinds[index]]
                        sent = prepared.rule.exchanged(
                            index, needed_sharding, shape, assignment, grid
                        )
                        total += itemsize * sum(sent)
                else:
                    given_sharding = prepared.rule.result_sharding(result, assignment, grid)
                    total += self._plan(given_sharding, annotation.sharding, kinds[index], grid)
        except ShardingError:  # the assignment is invalid, or has no reshard plan
            return inf
        return total

    def _plan(
        self, source: Sharding | None, target: Sharding | None, kind: int, grid: Grid
    ) -> float:
        if source is None or target is None or source == target:
            return 0
        key = (source, target, kind)
        if key not in self._plans:
            shape, itemsize = self._graph.sizes[kind]
            self._plans[key] = plan(source, target, shape, itemsize, grid, False).bytes_moved
        return self._plans[key]


def _assignments(
    prepared: PreparedRule, known: Sequence[Annotation | None], grid: Grid
) -> Iterator[Assignment]:
    """Assignments that split each factor as some tensor does, or not, and use no axis twice."""
    rule = prepared.rule
    axes_by_factor: list[set[Axes]] = [{()} for _ in rule.sizes]
    for dims, annotation in zip((*rule.operands, *rule.results), known, strict=True):
        if dims is None or annotation is None:
            continue
        for dim, axes in zip(dims, annotation.sharding.split_axes, strict=True):
            if len(dim) == 1 and axes and dim[0] not in rule.unsplit:
                axes_by_factor[dim[0]].add(axes)
    for factor, axes in prepared.pinned:
        axes_by_factor[factor] = {axes}
    # The longest splits first, since only the first assignments are tried.
    choices = [sorted(each, key=lambda axes: (-len(axes), str(axes))) for each in axes_by_factor]
    tried = 0
    for assignment in product(*choices):
        kinds = {kind for factor, kind in rule.reductions if assignment[factor]}
        used = [axis for axes in assignment for axis in axes]
        if first_overlap(used) is None and len(kinds) <= 1:
            yield assignment
            tried += 1
            if tried == _MOST:
                return
