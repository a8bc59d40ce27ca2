"""Reshard plans: the cheapest steps from one sharding of a tensor to another, without any IR.

    [[0], []]  ->  [[], [0]]        all_to_all dim 0 to 1 axes [0]
    [[0], []]  ->  [[1], []]        collective_permute axes [0, 1] to [[1], [], []]
    [[], []]   ->  [[0], [], {halo = [[1, 2], []]}]
                                    all_slice dim 0 axes [0]; update_halo dim 0 axes [0] [1, 2]

`plan` compares bytes moved, or time on a device model, then the number of steps, then peak memory.
A plan is exact if no sequence of steps with at most one permutation is better. It is exact as long
as each search visits at most `EXACT` layouts. Beyond that, the plan comes from the search on full
axes, or from the greedy steps: it is correct, but maybe not the cheapest (`Plan.exact` is false).

A search numbers axes within its problem; `steps_on_grid` translates its steps to axes of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, reduce

from shard_dialect.collectives import (
    AllReduce,
    Exchange,
    Mask,
    ReduceScatter,
    ReshardError,
    Step,
)
from shard_dialect.collectives.exchange import fewest_elements
from shard_dialect.errors import as_symbol
from shard_dialect.model.grid import Grid, SubAxis
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.notebook_html import print_text, table_html
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError
from shard_dialect.planner.halo_and_offset_steps import (
    halo_steps,
    sliced_with_halos,
    ways_through_equal_shards,
)
from shard_dialect.planner.layouts.layout import AxisNumbers, Layout
from shard_dialect.planner.layouts.reshard_problem import reduced_problem, solve, whole_problem
from shard_dialect.planner.layouts.search import SearchTooLong, TimedProblem, fastest
from shard_dialect.planner.permutation import may_permute, permute, without_size_one
from shard_dialect.planner.prices import BYTES, PICOSECONDS, Prices, bytes_moved


def steps_on_grid(
    steps: Sequence[Step | Layout],
    source: Sharding,
    target: Sharding,
    kind: Reduction,
    axes: AxisNumbers,
    grid: Grid,
) -> tuple[Step, ...]:
    """The steps that the search found, on the axes of the grid, and the mask that ends them."""
    found: list[Step] = []
    now = source
    for each in steps:
        step = step_on_grid(each, now, kind, axes, grid)
        found.append(step)
        now = step.after(now)
    if now != target:
        found.append(Mask(target.partial, target.reduction))
        now = found[-1].after(now)
    assert now == target, f"the plan from {source} to {target} ends at {now}"
    return tuple(found)


def step_on_grid(
    step: Step | Layout, now: Sharding, kind: Reduction, axes: AxisNumbers, grid: Grid
) -> Step:
    """The step of a reshard for a step of the search, which numbers axes within its problem.

    `axes` are the grid axes of the problem's, `now` is the sharding before, `kind` the reduction.
    """
    if isinstance(step, tuple):
        return _permute(step, now, kind, axes, grid)
    on_grid = replace(step, axes=tuple(axes[axis] for axis in step.axes))  # type: ignore[index, type-var]
    if isinstance(on_grid, AllReduce | ReduceScatter | Mask):
        return replace(on_grid, reduction=kind)
    return on_grid


def _permute(layout: Layout, now: Sharding, kind: Reduction, axes: AxisNumbers, grid: Grid) -> Step:
    fixed = [tuple(axis for axis in split if axis not in axes) for split in now.split_axes]
    split = tuple(
        stays + tuple(axes[axis] for axis in split)
        for stays, split in zip(fixed, layout[0], strict=True)
    )
    partial = tuple(axis for axis in now.partial if axis not in axes)
    partial += tuple(axes[axis] for axis in layout[1])
    return permute(now, Sharding(now.grid, split, partial, kind), grid)


BYTES_OF_ROUND = 32
"""What an exchange saves for each of its rounds, at least, in the place of one collective."""
MAX_EXCHANGED = 256
"""The most devices among which an exchange is compared with other plans, which takes time."""
EXACT = 2000
"""The most layouts that one search may visit."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one reshard, and the bytes that they move per device.

    The steps use axes of `grid`: the grid of the shardings, or a refined grid
    (`model.grid_refinement`) where the plan is cheaper on sub-axes.
    """

    steps: tuple[Step, ...]
    bytes_moved: int
    grid: Grid
    exact: bool = True
    picoseconds: int | None = None
    """The time on the device model, of a plan for time."""

    @property
    def seconds(self) -> float | None:
        """The time on the device model, of a plan for time."""
        return None if self.picoseconds is None else self.picoseconds / PICOSECONDS

    @property
    def cost(self) -> int:
        """The objective: the plan's bytes, or its picoseconds."""
        return self.bytes_moved if self.picoseconds is None else self.picoseconds

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps)) or "nothing"

    _repr_pretty_ = print_text

    def _repr_html_(self) -> str:
        return table_html(
            f"a device sends {self.bytes_moved:,} bytes",
            ["step", f"on {self.grid}"],
            enumerate(self.steps, 1),
        )


@lru_cache(maxsize=65536)
def plan(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    sub_axes: bool = True,
    limit: int = EXACT,
    prices: Prices = BYTES,
) -> Plan:
    """The cheapest steps from `source` to `target` for a tensor of global `shape` on `grid`.

    `itemsize` is in bytes. Without `sub_axes` the steps use no finer axes than the shardings do. A
    search visits at most `limit` layouts. A plan from or to offsets is correct, but may not be the
    cheapest. `prices` are the objective. Raises `ReshardError` for shardings on two grids, and
    `ShardingError` for halos and offsets of unknown size.
    """
    if source.grid != target.grid:
        raise ReshardError(
            f"cannot reshard from grid {as_symbol(source.grid)} to grid {as_symbol(target.grid)}: "
            "both shardings must be on one grid"
        )
    return _Planner(shape, itemsize, grid, limit, prices).plan(source, target, sub_axes)


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans reshards of a tensor of global `shape`, between shardings on `grid`."""

    shape: Shape
    itemsize: int
    grid: Grid
    limit: int
    prices: Prices

    def plan(self, source: Sharding, target: Sharding, sub_axes: bool) -> Plan:
        """The cheapest plan; it may use finer axes than the shardings do with `sub_axes`."""
        if source == target:
            return self._planned((), source)
        used = [axis for axis in (*source.axes, *target.axes) if isinstance(axis, SubAxis)]
        has_halos = bool(source.halos or target.halos)
        if used and not has_halos and (source.offsets or target.offsets):
            raise ReshardError(f"cannot reshard from {source} to {target}: offsets beside sub-axes")
        coarse = Refinement.of(self.grid, used) if used else None
        if coarse is not None:
            planner = replace(self, grid=coarse.fine)
            return planner.plan(coarse.refined(source), coarse.refined(target), sub_axes)
        if has_halos:
            return self._with_halos(source, target)
        if source.offsets or target.offsets:
            return self._with_offsets(source, target)
        if any(_without_ones(each, self.grid) != each for each in (source, target)):
            return self._ignoring_ones(source, target, sub_axes)
        best, bound = self._on_full_axes(source, target)
        if best.cost > bound:
            best = self._or_exchange(best, source, target)
        finest = Refinement.finest(self.grid) if sub_axes else None
        # One step at the lower bound: no plan on finer axes is better, which saves most searches.
        if finest is None or (best.cost <= bound and len(best.steps) == 1):
            return best
        planner = replace(self, grid=finest.fine)
        fine, _ = planner._on_full_axes(finest.refined(source), finest.refined(target))
        cheaper = (fine.cost, len(fine.steps)) < (best.cost, len(best.steps))
        return fine if cheaper else replace(best, exact=fine.exact)

    def _between(
        self, source: Sharding, target: Sharding, shape: Shape, sub_axes: bool = False
    ) -> Plan:
        """A part of a plan, for a tensor of this shape."""
        return plan(
            source, target, shape, self.itemsize, self.grid, sub_axes, self.limit, self.prices
        )

    def _planned(self, steps: tuple[Step, ...], source: Sharding, exact: bool = True) -> Plan:
        """The plan of these steps, with its cost."""
        total = bytes_moved(steps, source, self.shape, self.itemsize, self.grid)
        time = None
        if self.prices.is_time:
            time = self.prices.steps(steps, source, self.shape, self.itemsize, self.grid)
        return Plan(steps, total, self.grid, exact, time)

    def _ignoring_ones(self, source: Sharding, target: Sharding, sub_axes: bool) -> Plan:
        """The plan without the axes of size 1, which permutations that move nothing add or remove.

        Or the plan that treats them like other axes, if it has fewer steps.
        """
        bare_source, bare_target = (_without_ones(each, self.grid) for each in (source, target))
        between = self._between(bare_source, bare_target, self.shape, sub_axes)
        if between.grid == self.grid and _leads(between.steps, source, target):
            return between
        best, _ = self._on_full_axes(source, target)
        grid = self.grid
        fine = Refinement.finest(grid) if between.grid != grid else None
        if fine is not None:
            grid, source, target = fine.fine, fine.refined(source), fine.refined(target)
        begin, end = _without_ones(source, grid), _without_ones(target, grid)
        steps = [
            *([permute(source, begin, grid)] if source != begin else []),
            *between.steps,
            *([permute(end, target, grid)] if target != end else []),
        ]
        if (between.cost, len(steps)) < (best.cost, len(best.steps)):
            return replace(between, steps=tuple(steps))
        return replace(best, exact=between.exact and best.cost == between.cost)

    def _with_halos(self, source: Sharding, target: Sharding) -> Plan:
        """A plan that crops halos first, reshards without halos, and then updates missing halos."""
        if source.bare == target.bare:
            return self._planned(halo_steps(source, target), source)
        # Dimensions that are whole stay so until the end: a slice then has its halo for nothing.
        slices = sliced_with_halos(source, target)
        last = target.bare
        for each in slices:
            last = last.with_dim(each.dim, ())
        between = self._between(source.bare, last, self.shape)
        for each in slices:
            last = each.after(last)
        crops, updates = halo_steps(source, source.bare), halo_steps(last, target)
        steps = (*crops, *between.steps, *slices, *updates)
        return self._planned(steps, source, between.exact)

    def _with_offsets(self, source: Sharding, target: Sharding) -> Plan:
        """The cheapest plan whose steps between equal shards are planned without the offsets."""
        best: Plan | None = None
        for way in ways_through_equal_shards(source, target, self.shape, self.grid):
            try:
                between = self._between(way.first, way.last, way.shape)
                steps = (*way.before, *between.steps, *way.after)
                found = self._planned(steps, source, exact=False)
            except ReshardError:  # a step would cut a dimension further whose offsets stay
                continue
            if best is None or (found.cost, len(steps)) < (best.cost, len(best.steps)):
                best = found
        if best is None:
            raise ReshardError(f"cannot reshard from {source} to {target}")
        return self._or_exchange(best, source, target)

    def _or_exchange(self, best: Plan, source: Sharding, target: Sharding) -> Plan:
        """The plan, or an exchange of the elements that devices lack, if that is much cheaper.

        Of shards that are not equal, other steps move padding, too, or gather them to cut them
        anew. Of equal shards they move some elements twice where both dimensions and axes change:

            [[], [0]] to [[0, 1], []] on 2x2: an all-to-all of half the shard, then a permutation
            of all of it, or one message of the quarter that a device lacks

        But a collective is one, and an exchange is rounds of messages: among equal shards, no more
        than the plan has collectives.
        """
        many = self.grid.axes_size(tuple({*source.axes, *target.axes})) > MAX_EXCHANGED
        if many or not best.cost or [*map(type, best.steps)] == [Exchange]:
            return best
        is_even = all(each.uneven_dim(self.shape, self.grid) is None for each in (source, target))
        if is_even and len(best.steps) == 1:
            return best
        ends = (source, target, self.shape, self.grid)
        try:
            if not self._saves(best, fewest_elements(*ends) * self.itemsize, 1):
                return best
            step = Exchange.between(*ends)
        except ShardingError:
            return best
        rounds = len(step.plan.sent)
        if is_even and rounds > sum(each.communicates for each in best.steps):
            return best
        found = self._planned((step,), source, best.exact)
        if self.prices.is_time:
            return min(best, found, key=lambda plan: plan.cost)
        return found if self._saves(best, found.bytes_moved, rounds) else best

    def _saves(self, best: Plan, moved: int, rounds: int) -> bool:
        """Whether an exchange in so many rounds is worth its messages."""
        saved = best.bytes_moved - moved
        return saved > max(best.bytes_moved // 10, BYTES_OF_ROUND * rounds)

    def _on_full_axes(self, source: Sharding, target: Sharding) -> tuple[Plan, int]:
        """The best plan on the axes of `grid`; and a lower bound without permutations."""
        between = target
        # No step leads from a partial sum to a partial maximum: the search ends at the reduced
        # tensor, and a mask, which is free, makes it partial again.
        if source.partial and target.partial and source.reduction != target.reduction:
            between = target.with_partial(())
        problem, axes, scale = reduced_problem(source, between, self.shape, self.grid)
        solution = solve(problem, self.limit)
        kind = source.reduction if source.partial else between.reduction
        steps = steps_on_grid(solution.steps, source, target, kind, axes, self.grid)
        found = self._planned(steps, source, solution.exact)
        if self.prices.is_time:
            return self._fastest(found, source, between, target), 0
        return found, solution.bound * scale * self.itemsize // problem.unit

    def _fastest(self, known: Plan, source: Sharding, between: Sharding, target: Sharding) -> Plan:
        """The fastest plan, or the `known` one, which is for bytes, if the search takes too long.

        From `between` a mask leads to the target.
        """
        grid = self.grid
        problem, axes = whole_problem(source, between, self.shape, grid)
        kind = source.reduction if source.partial else between.reduction

        @cache
        def sharding(layout: Layout) -> Sharding:
            split = tuple(tuple(axes[axis] for axis in each) for each in layout[0])
            return Sharding(source.grid, split, tuple(axes[axis] for axis in layout[1]), kind)

        @cache
        def price(step: Step | Layout, layout: Layout) -> int:
            now = sharding(layout)
            if isinstance(step, tuple) and not may_permute(now, sharding(step), grid):
                return known.cost + 1  # which is too much
            taken = step_on_grid(step, now, kind, axes, grid)
            return self.prices.step(taken, now, self.shape, self.itemsize, grid)

        try:
            path = fastest(TimedProblem(problem, price), known.cost, self.limit)
        except SearchTooLong:
            return replace(known, exact=False)
        return self._planned(steps_on_grid(path.steps, source, target, kind, axes, grid), source)


def _leads(steps: Sequence[Step], source: Sharding, target: Sharding) -> bool:
    """Whether the steps lead from `source` to `target` as they are."""
    try:
        return reduce(lambda now, step: step.after(now), steps, source) == target
    except ShardingError:
        return False


def _without_ones(sharding: Sharding, grid: Grid) -> Sharding:
    """The sharding without split axes of size 1."""
    split = tuple(without_size_one(axes, grid) for axes in sharding.split_axes)
    return replace(sharding, split_axes=split)
