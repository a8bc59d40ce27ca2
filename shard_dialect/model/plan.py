"""The steps from one sharding of a tensor to another, chosen before any IR is made.

    [[], [], [0]]  ->  [[], [], []]          all_gather dim 2 axes [0]
    [[], [], [], [0]]  ->  [[], [], [0]]     reduce_scatter dim 2 axes [0] sum

A step maps a sharding to a sharding (`after`), the shape of a piece to another's
(`local_shape_after`, for a group of n), and moves a number of bytes (`bytes_moved`); a plan is its
steps and their sum. `runtime.collectives` gives the same steps their meaning on arrays, and the
tests run every plan on arrays against the tensor that it should give.

`plan` here is greedy: it is exact for every pair of even shardings on one grid, and refuses the
rest (`ReshardError`); that its bytes are the fewest possible is not promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from shard_dialect.model.axis import Axes, axes_text
from shard_dialect.model.grid import Grid
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError


class ReshardError(ShardingError):
    """No sequence of steps that we know leads from the one sharding to the other."""


@dataclass(frozen=True, slots=True)
class AllGather:
    """Give every device of a group all the group's pieces of dimension `dim`, in group order.

    `axes` are the minor-most axes that split `dim`: [[0, 1]] -> [[0]] gathers axes [1].
    """

    dim: int
    axes: Axes
    kind: ClassVar[str] = "all_gather"

    def after(self, sharding: Sharding) -> Sharding:
        return _without_suffix(sharding, self.dim, self.axes)

    def bytes_moved(self, n: int, operand_bytes: int) -> int:
        return (n - 1) * operand_bytes

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return _scaled(shape, {self.dim: (n, 1)})

    def __str__(self) -> str:
        return f"all_gather dim {self.dim} axes {axes_text(self.axes)}"


@dataclass(frozen=True, slots=True)
class AllSlice:
    """Keep only this device's piece along `dim`; the inverse of `AllGather`, and no one talks."""

    dim: int
    axes: Axes
    kind: ClassVar[str] = "all_slice"

    def after(self, sharding: Sharding) -> Sharding:
        return sharding.with_dim(self.dim, sharding.split_axes[self.dim] + self.axes)

    def bytes_moved(self, n: int, operand_bytes: int) -> int:
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return _scaled(shape, {self.dim: (1, n)})

    def __str__(self) -> str:
        return f"all_slice dim {self.dim} axes {axes_text(self.axes)}"


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Combine the partial values along `axes`; every device gets the result."""

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "all_reduce"

    def after(self, sharding: Sharding) -> Sharding:
        return _without_partial(sharding, self.axes, self.reduction)

    def bytes_moved(self, n: int, operand_bytes: int) -> int:
        return 2 * (n - 1) * operand_bytes // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape

    def __str__(self) -> str:
        return f"all_reduce axes {axes_text(self.axes)} {self.reduction}"


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """Combine the partial values along `axes`; each device gets one piece along `dim`."""

    dim: int
    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "reduce_scatter"

    def after(self, sharding: Sharding) -> Sharding:
        rest = _without_partial(sharding, self.axes, self.reduction)
        return rest.with_dim(self.dim, rest.split_axes[self.dim] + self.axes)

    def bytes_moved(self, n: int, operand_bytes: int) -> int:
        return (n - 1) * operand_bytes // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return _scaled(shape, {self.dim: (1, n)})

    def __str__(self) -> str:
        return f"reduce_scatter dim {self.dim} axes {axes_text(self.axes)} {self.reduction}"


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Move `axes` from the minor end of dimension `source_dim` to that of `target_dim`."""

    source_dim: int
    target_dim: int
    axes: Axes
    kind: ClassVar[str] = "all_to_all"

    def after(self, sharding: Sharding) -> Sharding:
        rest = _without_suffix(sharding, self.source_dim, self.axes)
        return rest.with_dim(self.target_dim, rest.split_axes[self.target_dim] + self.axes)

    def bytes_moved(self, n: int, operand_bytes: int) -> int:
        return (n - 1) * operand_bytes // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return _scaled(shape, {self.source_dim: (n, 1), self.target_dim: (1, n)})

    def __str__(self) -> str:
        return f"all_to_all dim {self.source_dim} to {self.target_dim} axes {axes_text(self.axes)}"


Step = AllGather | AllSlice | AllReduce | ReduceScatter | AllToAll


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of one reshard, and the bytes that they move per device."""

    steps: tuple[Step, ...]
    bytes_moved: int

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps)) or "nothing"


@lru_cache(maxsize=65536)
def plan(source: Sharding, target: Sharding, shape: Shape, itemsize: int, grid: Grid) -> Plan:
    """The steps from `source` to `target` for a tensor of global `shape`, `itemsize` bytes each.

    Partial sums are reduced first (they are the largest pieces), free slices come before the
    exchanges and gathers that they make cheaper.

    Raises `ReshardError` for two grids, for a partial target that the source is not partial over,
    and where a dimension does not divide.
    """
    _refuse_what_no_step_does(source, target, shape, grid)
    steps: list[Step] = []
    now = source
    while (step := _next_step(now, target)) is not None:
        now = step.after(now)
        steps.append(step)
    assert now == target, f"the plan from {source} to {target} ends at {now}"
    return Plan(tuple(steps), bytes_moved(steps, source, shape, itemsize, grid))


def bytes_moved(
    steps: Sequence[Step], source: Sharding, shape: Shape, itemsize: int, grid: Grid
) -> int:
    """The bytes per device that `steps` move, of a tensor of global `shape` lying as `source`."""
    moved, now = 0, source
    for step in steps:
        operand_bytes = now.local_elements(shape, grid) * itemsize
        moved += step.bytes_moved(grid.axes_size(step.axes), operand_bytes)
        now = step.after(now)
    return moved


def _refuse_what_no_step_does(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> None:
    if source.grid != target.grid:
        raise ReshardError(
            f"cannot reshard from grid @{source.grid} to grid @{target.grid}: "
            "both shardings must be on one grid"
        )
    if not set(target.partial) <= set(source.partial):
        raise ReshardError(
            f"cannot reshard from {source} to {target}: "
            "only an op can make its result partial, a reshard cannot"
        )
    if target.partial and source.reduction != target.reduction:
        raise ReshardError(
            f"cannot reshard from {source} to {target}: "
            f"partial {source.reduction} is not partial {target.reduction}"
        )
    for sharding in (source, target):
        dim = sharding.uneven_dim(shape, grid)
        if dim is not None:
            raise ReshardError(
                f"cannot reshard from {source} to {target}: dimension {dim} of size {shape[dim]} "
                f"does not divide by {grid.axes_size(sharding.split_axes[dim])} devices"
            )


def _next_step(now: Sharding, target: Sharding) -> Step | None:
    return (
        _reduce(now, target)
        or _slice(now, target)
        or _exchange(now, target)
        or _gather(now, target)
    )


def _reduce(now: Sharding, target: Sharding) -> Step | None:
    pending = tuple(axis for axis in now.partial if axis not in target.partial)
    if not pending:
        return None
    for dim, axes in enumerate(_wanted(now, target)):
        run = _leading(axes, pending)
        if run:
            return ReduceScatter(dim, run, now.reduction)
    return AllReduce(pending, now.reduction)


def _slice(now: Sharding, target: Sharding) -> Step | None:
    free = tuple(axis for axis in target.axes if axis not in now.axes)
    for dim, axes in enumerate(_wanted(now, target)):
        run = _leading(axes, free)
        if run:
            return AllSlice(dim, run)
    return None


def _exchange(now: Sharding, target: Sharding) -> Step | None:
    wanted = _wanted(now, target)
    for source_dim, extra in enumerate(_unwanted(now, target)):
        for start in range(len(extra)):
            suffix = extra[start:]
            for target_dim, axes in enumerate(wanted):
                if axes[: len(suffix)] == suffix:
                    return AllToAll(source_dim, target_dim, suffix)
    return None


def _gather(now: Sharding, target: Sharding) -> Step | None:
    for dim, extra in enumerate(_unwanted(now, target)):
        if extra:
            return AllGather(dim, extra)
    return None


def _wanted(now: Sharding, target: Sharding) -> list[Axes]:
    """For each dimension the axes that are still to be added at its minor end.

    None while a dimension holds axes that must go first: [[1]] to [[0, 1]] wants nothing yet.
    """
    return [
        want[len(have) :] if want[: len(have)] == have else ()
        for have, want in zip(now.split_axes, target.split_axes, strict=True)
    ]


def _unwanted(now: Sharding, target: Sharding) -> list[Axes]:
    """For each dimension the axes past the common major part, which must go."""
    return [
        have[common_prefix(have, want) :]
        for have, want in zip(now.split_axes, target.split_axes, strict=True)
    ]


def common_prefix(a: Axes, b: Axes) -> int:
    """How many leading axes `a` and `b` share.

    >>> common_prefix((0, 1, 2), (0, 2))
    1
    """
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def _leading(axes: Axes, allowed: Axes) -> Axes:
    count = 0
    while count < len(axes) and axes[count] in allowed:
        count += 1
    return axes[:count]


def _scaled(shape: Shape, factors: dict[int, tuple[int, int]]) -> Shape:
    """Each named dimension times its first factor, divided by its second."""
    sizes = list(shape)
    for dim, (times, by) in factors.items():
        if not 0 <= dim < len(sizes) or sizes[dim] * times % by:
            raise ShardingError(f"dimension {dim} of {list(shape)} cannot be cut in {by}")
        sizes[dim] = sizes[dim] * times // by
    return tuple(sizes)


def _without_suffix(sharding: Sharding, dim: int, axes: Axes) -> Sharding:
    have = sharding.split_axes[dim]
    if not axes or have[-len(axes) :] != axes:
        raise ReshardError(
            f"axes {axes_text(axes)} are not the minor axes of dimension {dim} in sharding "
            f"{sharding}"
        )
    return sharding.with_dim(dim, have[: -len(axes)])


def _without_partial(sharding: Sharding, axes: Axes, reduction: Reduction) -> Sharding:
    if not axes or not set(axes) <= set(sharding.partial) or reduction != sharding.reduction:
        raise ReshardError(
            f"sharding {sharding} is not partial {reduction} over axes {axes_text(axes)}"
        )
    rest = tuple(axis for axis in sharding.partial if axis not in axes)
    return sharding.with_partial(rest, reduction)
