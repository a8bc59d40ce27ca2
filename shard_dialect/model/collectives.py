"""What one step of a reshard does: to a sharding, to a shard, and what it costs.

    [[], [], [0]]  ->  [[], [], []]          all_gather dim 2 axes [0]
    [[], [], [], [0]]  ->  [[], [], [0]]     reduce_scatter dim 2 axes [0] sum
    [[0], []]  ->  [[1], []]                 permute axes [0, 1]

A step maps a sharding to a sharding (`after`), the shape of a shard to another's
(`local_shape_after`, for a group of n), and moves a number of bytes (`bytes_moved`, of an operand
that has this shape on each device). The meaning of steps on arrays is in
`runtime.communicators.perform_collectives`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from shard_dialect.model.axis import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError, Sizes


class ReshardError(ShardingError):
    """No sequence of steps that we know leads from the one sharding to the other."""


@dataclass(frozen=True, slots=True)
class AllGather:
    """Give every device of a group all the group's shards of dimension `dim`, in group order.

    `axes` are the minor-most axes that split `dim`: [[0, 1]] -> [[0]] gathers axes [1]. All of them
    where the shards begin at offsets.
    """

    dim: int
    axes: Axes
    kind: ClassVar[str] = "all_gather"

    def after(self, sharding: Sharding) -> Sharding:
        return _without_suffix(sharding, self.dim, self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return scaled(shape, {self.dim: (n, 1)})

    def __str__(self) -> str:
        return f"all_gather dim {self.dim} axes {axes_text(self.axes)}"


@dataclass(frozen=True, slots=True)
class AllSlice:
    """Keep only this device's shard along `dim`; the inverse of `AllGather`, and no one talks.

    Shards begin at `offsets`, where there are any; the dimension is whole before.
    """

    dim: int
    axes: Axes
    offsets: Sizes = ()
    kind: ClassVar[str] = "all_slice"

    def after(self, sharding: Sharding) -> Sharding:
        have = sharding.split_axes[self.dim]
        if self.offsets and have:
            raise ReshardError(f"offsets cut a whole dimension, not one of {sharding}")
        _refuse_offsets(sharding, self.dim, have)
        return sharding.with_dim(self.dim, have + self.axes, self.offsets)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return scaled(shape, {self.dim: (1, n)})

    def __str__(self) -> str:
        at = f" at {list(self.offsets)}" if self.offsets else ""
        return f"all_slice dim {self.dim} axes {axes_text(self.axes)}{at}"


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Combine the partial values along `axes`; every device gets the result."""

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "all_reduce"

    def after(self, sharding: Sharding) -> Sharding:
        return _without_partial(sharding, self.axes, self.reduction)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return 2 * (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape

    def __str__(self) -> str:
        return f"all_reduce axes {axes_text(self.axes)} {self.reduction}"


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """Combine the partial values along `axes`; each device gets one shard along `dim`."""

    dim: int
    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "reduce_scatter"

    def after(self, sharding: Sharding) -> Sharding:
        rest = _without_partial(sharding, self.axes, self.reduction)
        return rest.with_dim(self.dim, rest.split_axes[self.dim] + self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return scaled(shape, {self.dim: (1, n)})

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

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        if self.source_dim == self.target_dim:  # as upstream's may be: shards change their places
            return scaled(shape, {self.source_dim: (n, n)})
        return scaled(shape, {self.source_dim: (n, 1), self.target_dim: (1, n)})

    def __str__(self) -> str:
        return f"all_to_all dim {self.source_dim} to {self.target_dim} axes {axes_text(self.axes)}"


@dataclass(frozen=True, slots=True)
class Permute:
    """Devices of a group exchange their shards: that of place i goes to place `permutation[i]`.

    Afterwards the tensor lies as `split_axes` and `partial` say, in shards as large as before; they
    are empty in the local form, where no sharding is known.
    """

    axes: Axes
    permutation: tuple[int, ...]
    split_axes: tuple[Axes, ...] = ()
    partial: Axes = ()
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "collective_permute"

    def after(self, sharding: Sharding) -> Sharding:
        return replace(
            sharding,
            split_axes=self.split_axes,
            partial=self.partial,
            reduction=self.reduction,
        )

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return prod(operand) * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape

    def __str__(self) -> str:
        to = Sharding("", self.split_axes, self.partial, self.reduction)
        return f"collective_permute axes {axes_text(self.axes)} to {to}"


@dataclass(frozen=True, slots=True)
class Mask:
    """Make a partial value of one that is replicated along `axes`; no one talks.

    The first device of a group keeps its shard, the others put what the reduction leaves alone
    (0 for a sum) in its place. The inverse of `AllReduce`.
    """

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "mask"

    def after(self, sharding: Sharding) -> Sharding:
        if sharding.partial and sharding.reduction != self.reduction:
            raise ReshardError(
                f"sharding {sharding} is partial {sharding.reduction}, it cannot become partial "
                f"{self.reduction} as well"
            )
        return sharding.with_partial(sharding.partial + self.axes, self.reduction)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        return shape

    def __str__(self) -> str:
        return f"mask axes {axes_text(self.axes)} {self.reduction}"


@dataclass(frozen=True, slots=True)
class UpdateHalo:
    """Give every device the elements next to its own along `dim`, which `axes` split.

    `low` elements before its own, `high` after, of as many shards as these are in. The operand has
    room for them, where what the reduction `fill` leaves alone stays at the ends of the tensor:

        0 | a b c | d        x x | a b c  ->  low 1, high 1  <-  d e f | x x

    Along one dimension after the other: what the one brought the next passes on, so that corners
    come from two devices away.
    """

    dim: int
    axes: Axes
    low: int
    high: int
    fill: Reduction = "sum"
    kind: ClassVar[str] = "update_halo"

    def after(self, sharding: Sharding) -> Sharding:
        if sharding.split_axes[self.dim] != self.axes or any(sharding.halo(self.dim)):
            raise ReshardError(
                f"dimension {self.dim} of sharding {sharding} is not split along "
                f"{axes_text(self.axes)}, without a halo"
            )
        return sharding.with_halo(self.dim, (self.low, self.high), self.fill)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """What a device between others receives."""
        across = prod(size for dim, size in enumerate(operand) if dim != self.dim)
        return (self.low + self.high) * across * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        if self.low + self.high >= shape[self.dim]:
            raise ShardingError(
                f"halo [{self.low}, {self.high}] of dimension {self.dim} of {list(shape)} leaves "
                "nothing of the shard itself"
            )
        return shape

    def __str__(self) -> str:
        halo = f"[{self.low}, {self.high}]"
        fill = "" if self.fill == "sum" else f" {self.fill}"
        return f"update_halo dim {self.dim} axes {axes_text(self.axes)} {halo}{fill}"


@dataclass(frozen=True, slots=True)
class CropHalo:
    """Keep no more than `low` and `high` of the halo along `dim`; no one talks."""

    dim: int
    low: int = 0
    high: int = 0
    axes: Axes = ()
    kind: ClassVar[str] = "crop_halo"

    def after(self, sharding: Sharding) -> Sharding:
        low, high = sharding.halo(self.dim)
        if self.low > low or self.high > high:
            raise ReshardError(
                f"[{self.low}, {self.high}] is no part of the halo of dimension {self.dim} in "
                f"sharding {sharding}"
            )
        return sharding.with_halo(self.dim, (self.low, self.high), sharding.fill)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        raise ShardingError("what is left without a halo depends on the halo there was")

    def __str__(self) -> str:
        return f"crop_halo dim {self.dim} to [{self.low}, {self.high}]"


Step = (
    AllGather
    | AllSlice
    | AllReduce
    | ReduceScatter
    | AllToAll
    | Permute
    | Mask
    | UpdateHalo
    | CropHalo
)


def scaled(shape: Shape, factors: dict[int, tuple[int, int]]) -> Shape:
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
    _refuse_offsets(sharding, dim, have[: -len(axes)])
    return sharding.with_dim(dim, have[: -len(axes)])


def _refuse_offsets(sharding: Sharding, dim: int, kept: Axes) -> None:
    """Shards with offsets are put together all at once."""
    if kept and sharding.offsets and sharding.offsets[dim]:
        raise ReshardError(f"dimension {dim} of {sharding} has offsets: it is cut no further")


def _without_partial(sharding: Sharding, axes: Axes, reduction: Reduction) -> Sharding:
    if not axes or not set(axes) <= set(sharding.partial) or reduction != sharding.reduction:
        raise ReshardError(
            f"sharding {sharding} is not partial {reduction} over axes {axes_text(axes)}"
        )
    rest = tuple(axis for axis in sharding.partial if axis not in axes)
    return sharding.with_partial(rest, reduction)
