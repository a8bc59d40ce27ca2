"""How one tensor lies on a grid.

The notation is the RFC's: for each tensor dimension the grid axes that split it, major to minor,
and after them, if the tensor is a partial sum, the axes that it is partial over.

    [[], [0]]           of a matrix: columns split along grid axis 0, rows whole
    [[1, 0], []]        rows split along axis 1, each piece split again along axis 0
    [[], [1], [0]]      columns split along axis 1; the true value is the sum along axis 0
    [[], [], {max = [0]}]    the true value is the maximum along axis 0

Source: RFC "Sharding Framework Design for Device Mesh", MeshShardingAttr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

from shard_dialect.errors import ShardError
from shard_dialect.model.grid import Grid

Reduction = Literal["sum", "max", "min", "product"]
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

Axes = tuple[int, ...]
Shape = tuple[int, ...]


class ShardingError(ShardError):
    """A sharding that no tensor, or not this tensor, can have."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of a tensor of rank `len(split_axes)` over the grid named `grid`.

    Axes that neither split nor are partial replicate the tensor. `reduction` says how the pieces
    along the `partial` axes combine; it is "sum" where there are none. The order of the partial
    axes means nothing, and they are kept sorted.
    """

    grid: str
    split_axes: tuple[Axes, ...]
    partial: Axes = ()
    reduction: Reduction = "sum"

    def __post_init__(self) -> None:
        used = self.axes
        for axis in used:
            if axis < 0:
                raise ShardingError(f"grid axis {axis} is negative in sharding {self}")
            if used.count(axis) > 1:
                raise ShardingError(f"grid axis {axis} is used twice in sharding {self}")
        object.__setattr__(self, "partial", tuple(sorted(self.partial)))
        if not self.partial:
            object.__setattr__(self, "reduction", "sum")

    @classmethod
    def replicated(cls, grid: str, rank: int) -> Sharding:
        """Every device holds the whole tensor.

        >>> str(Sharding.replicated("g", 2))
        '[[], []]'
        """
        return cls(grid, ((),) * rank)

    @property
    def rank(self) -> int:
        return len(self.split_axes)

    @property
    def axes(self) -> Axes:
        """Every axis that splits or is partial, in order."""
        return tuple(axis for axes in self.split_axes for axis in axes) + self.partial

    @property
    def is_replicated(self) -> bool:
        return not self.axes

    def with_dim(self, dim: int, axes: Sequence[int]) -> Sharding:
        """The same sharding but for dimension `dim`, which `axes` split."""
        split = (*self.split_axes[:dim], tuple(axes), *self.split_axes[dim + 1 :])
        return Sharding(self.grid, split, self.partial, self.reduction)

    def with_partial(self, axes: Sequence[int], reduction: Reduction = "sum") -> Sharding:
        """The same split with other partial axes."""
        return Sharding(self.grid, self.split_axes, tuple(axes), reduction)

    def check(self, grid: Grid, rank: int) -> None:
        """Raise `ShardingError` unless a tensor of `rank` dimensions on `grid` can have this."""
        if self.rank > rank:
            raise ShardingError(
                f"sharding {self} has split axes for {self.rank} dimensions, "
                f"but the tensor has {rank}"
            )
        for axis in self.axes:
            if axis >= grid.rank:
                raise ShardingError(
                    f"grid axis {axis} in sharding {self} is not in grid @{grid.name} "
                    f"of rank {grid.rank}"
                )

    def uneven_dim(self, shape: Shape, grid: Grid) -> int | None:
        """The first dimension whose size the devices along its axes do not divide, if any."""
        for dim, axes in enumerate(self.split_axes):
            if axes and shape[dim] % grid.axes_size(axes):
                return dim
        return None

    def local_shape(self, shape: Shape, grid: Grid) -> Shape:
        """The shape of one device's piece of a tensor of global `shape`; it must divide.

        >>> Sharding("g", ((), (0, 1))).local_shape((3, 16), Grid("g", (2, 4)))
        (3, 2)
        """
        dim = self.uneven_dim(shape, grid)
        if dim is not None:
            raise ShardingError(
                f"dimension {dim} of size {shape[dim]} does not divide by "
                f"{grid.axes_size(self.split_axes[dim])} devices in sharding {self}"
            )
        return tuple(
            size // grid.axes_size(axes) for size, axes in zip(shape, self.split_axes, strict=True)
        )

    def piece(self, rank: int, shape: Shape, grid: Grid) -> tuple[slice, ...]:
        """The part of a tensor of global `shape` that device `rank` holds."""
        local = self.local_shape(shape, grid)
        starts = (
            grid.index_along(rank, axes) * size
            for axes, size in zip(self.split_axes, local, strict=True)
        )
        return tuple(slice(start, start + size) for start, size in zip(starts, local, strict=True))

    def local_elements(self, shape: Shape, grid: Grid) -> int:
        """The number of elements in one device's piece."""
        return prod(self.local_shape(shape, grid))

    def __str__(self) -> str:
        parts = [str(list(axes)) for axes in self.split_axes]
        if self.partial:
            axes = str(list(self.partial))
            parts.append(axes if self.reduction == "sum" else f"{{{self.reduction} = {axes}}}")
        return f"[{', '.join(parts)}]"
