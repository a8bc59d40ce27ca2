"""Steps from one layout to another, found without a search: correct, and often the cheapest.

Reductions come first, since partial shards are the largest. Slices cost nothing, and come before
the all-to-alls and gathers that they make cheaper. The search compares these steps with its bound.
Where a grid has too many axes for a search, they are the plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Mask,
    ReduceScatter,
    Step,
)
from shard_dialect.planner.layouts.layout import AxisNumbers, Layout, Problem, free_axes


def greedy(problem: Problem) -> list[Step]:
    """The steps from the problem's source to its target."""
    steps: list[Step] = []
    now = problem.source
    while (step := _next_step(problem, now)) is not None:
        now = applied(step, now)
        steps.append(step)
    assert now == problem.target, f"the plan of {problem} ends at {now}"
    return steps


def applied(step: Step, layout: Layout) -> Layout:
    """The layout after `step`."""
    split, partial = list(layout[0]), layout[1]
    axes: AxisNumbers = step.axes  # type: ignore[assignment]  # numbers here
    match step:
        case AllGather(dim=dim):
            split[dim] = split[dim][: -len(axes)]
        case AllSlice(dim=dim):
            split[dim] += axes
        case AllReduce():
            partial = tuple(axis for axis in partial if axis not in axes)
        case ReduceScatter(dim=dim):
            partial = tuple(axis for axis in partial if axis not in axes)
            split[dim] += axes
        case AllToAll(source_dim=dim, target_dim=to):
            split[dim] = split[dim][: -len(axes)]
            split[to] += axes
        case Mask():
            partial = tuple(sorted(partial + axes))
        case _:
            raise AssertionError(f"{step} is no step of this search")
    return tuple(split), partial


def _next_step(problem: Problem, now: Layout) -> Step | None:
    if now == problem.target:
        return None
    return (
        _reduce(problem, now)
        or _slice(problem, now)
        or _exchange(problem, now)
        or _gather(problem, now)
        or Mask(tuple(axis for axis in problem.target[1] if axis not in now[1]))
    )


def _reduce(problem: Problem, now: Layout) -> Step | None:
    pending = tuple(axis for axis in now[1] if axis not in problem.target[1])
    if not pending:
        return None
    for dim, axes in enumerate(_missing(problem, now)):
        leading = _leading(axes, pending)
        if leading and _may_add(problem, now, dim, leading):
            return ReduceScatter(dim, leading)
    return AllReduce(pending)


def _slice(problem: Problem, now: Layout) -> Step | None:
    free = free_axes(problem, now)
    for dim, axes in enumerate(_missing(problem, now)):
        leading = _leading(axes, free)
        if leading and _may_add(problem, now, dim, leading):
            return AllSlice(dim, leading)
    return None


def _exchange(problem: Problem, now: Layout) -> Step | None:
    missing = _missing(problem, now)
    for dim, extra in enumerate(_surplus(problem, now)):
        for start in range(len(extra)):
            suffix = extra[start:]
            for to, axes in enumerate(missing):
                if (
                    axes[: len(suffix)] == suffix
                    and problem.may_join(now, dim, suffix)
                    and _may_add(problem, now, to, suffix)
                ):
                    return AllToAll(dim, to, suffix)
    return None


def _gather(problem: Problem, now: Layout) -> Step | None:
    for dim, extra in enumerate(_surplus(problem, now)):
        if extra:
            return AllGather(dim, extra)
    return None


def _may_add(problem: Problem, now: Layout, dim: int, axes: AxisNumbers) -> bool:
    """Whether `axes` can split `dim` so that the target's shards nest in the new ones."""
    after = problem.count(now[0][dim] + axes)
    target_count = problem.count(problem.target[0][dim])
    return problem.may_split(now, dim, axes) and problem.nests(dim, after, target_count)


def _missing(problem: Problem, now: Layout) -> list[AxisNumbers]:
    """For each dimension, the axes that must still be added at its minor end.

    There are none while a dimension has axes that must be removed first: from [[1]] to [[0, 1]],
    axis 1 goes first.
    """
    return [
        target[len(current) :] if not extra and target[: len(current)] == current else ()
        for current, target, extra in zip(
            now[0], problem.target[0], _surplus(problem, now), strict=True
        )
    ]


def _surplus(problem: Problem, now: Layout) -> list[AxisNumbers]:
    """For each dimension, the axes that must be removed: those after the common major axes.

    These are all its axes where uneven shards do not nest in those of the common major axes.
    """
    surplus = []
    for dim, (current, target) in enumerate(zip(now[0], problem.target[0], strict=True)):
        kept = common_prefix(current, target)
        outer, inner, target_count = map(problem.count, (current[:kept], current, target))
        if current != target and not (
            problem.nests(dim, outer, inner) and problem.nests(dim, outer, target_count)
        ):
            kept = 0
        surplus.append(current[kept:])
    return surplus


def common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """The number of leading axes that `a` and `b` share.

    >>> common_prefix((0, 1, 2), (0, 2))
    1
    """
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _leading(axes: AxisNumbers, allowed: AxisNumbers) -> AxisNumbers:
    count = 0
    while count < len(axes) and axes[count] in allowed:
        count += 1
    return axes[:count]
