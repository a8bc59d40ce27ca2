"""What shardings cost: the bytes that a device moves to compute each op between them.

    ([i, k], [k, j]) -> ([i, j])    [[x], []], [[], []] -> [[], [x]]
    split i along x, then exchange the result         all_to_all of it
    or gather the first operand, split j along x      all_gather of it

The cheapest way counts, as materialization will choose it. What is not known yet costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import inf

from shard_dialect.model import Annotation, Assignment, Grid, Sharding, ShardingError
from shard_dialect.model.axis import Axes, first_overlap
from shard_dialect.planner import plan
from shard_dialect.propagation.graph import Graph
from shard_dialect.propagation.step import PreparedRule

_MOST = 64
"""Ways to compute an op that are tried."""


class Prices:
    """Prices of a graph's nodes, each worked out once for the same shardings around it."""

    def __init__(self, graph: Graph, grids: Mapping[str, Grid]) -> None:
        self._graph = graph
        self._grids = grids
        self._nodes: dict[tuple[object, ...], float] = {}
        self._plans: dict[tuple[object, ...], float] = {}

    def node(self, form: int, values: Sequence[int], known: Sequence[Annotation | None]) -> float:
        """The fewest bytes to compute the op of a node between these shardings."""
        kinds = tuple(self._graph.kinds[value] for value in values)
        key = (form, kinds, *known)
        if key not in self._nodes:
            names = {said.grid for said in known if said is not None}
            grid = self._grids[names.pop()] if len(names) == 1 else None
            self._nodes[key] = self._node(self._graph.forms[form], kinds, known, grid)
        return self._nodes[key]

    def _node(
        self,
        form: PreparedRule,
        kinds: Sequence[int],
        known: Sequence[Annotation | None],
        grid: Grid | None,
    ) -> float:
        if grid is None:
            return 0
        found = min(
            (self._way(form, kinds, known, way, grid) for way in _ways(form, known, grid)),
            default=inf,
        )
        return 0 if found == inf else found

    def _way(
        self,
        form: PreparedRule,
        kinds: Sequence[int],
        known: Sequence[Annotation | None],
        way: Assignment,
        grid: Grid,
    ) -> float:
        total = 0.0
        try:
            for place, said in enumerate(known):
                if said is None:
                    continue
                result = place - form.results
                if result < 0:
                    needed = form.rule.operand_sharding(place, way, grid)
                    total += self._plan(said.sharding, needed, kinds[place], grid)
                else:
                    made = form.rule.result_sharding(result, way, grid)
                    total += self._plan(made, said.sharding, kinds[place], grid)
        except ShardingError:  # no shards, or no plan for them
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


def _ways(
    form: PreparedRule, known: Sequence[Annotation | None], grid: Grid
) -> Iterator[Assignment]:
    """The splits of the factors that the tensors suggest, those that use no axis twice."""
    rule = form.rule
    found: list[set[Axes]] = [{()} for _ in rule.sizes]
    for dims, said in zip((*rule.operands, *rule.results), known, strict=True):
        if dims is None or said is None:
            continue
        for dim, axes in zip(dims, said.sharding.split_axes, strict=True):
            if len(dim) == 1 and axes and dim[0] not in rule.unsplit:
                found[dim[0]].add(axes)
    for factor, axes in form.pinned:
        found[factor] = {axes}
    ways = product(*(sorted(each, key=lambda axes: (-len(axes), str(axes))) for each in found))
    tried = 0
    for way in ways:
        kinds = {kind for factor, kind in rule.reductions if way[factor]}
        if first_overlap([axis for axes in way for axis in axes]) is None and len(kinds) <= 1:
            yield way
            tried += 1
            if tried == _MOST:
                return
