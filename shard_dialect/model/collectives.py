"""The steps of a reshard: what each does to a sharding and to a shard, and what it costs.

    [[], [], [0]]  ->  [[], [], []]          all_gather dim 2 axes [0]
    [[], [], [], [0]]  ->  [[], [], [0]]     reduce_scatter dim 2 axes [0] sum
    [[0], []]  ->  [[1], []]                 permute axes [0, 1]

Each step has three methods. `after` maps the sharding before the step to the one after it, and
raises `ReshardError` if the step does not apply. `local_shape_after` maps a local shape to another,
for groups of n devices. `bytes_moved` is what one device of a group of n sends, for an operand of
the given local shape. `runtime.communicators.perform_collectives` performs the steps on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import ClassVar

from shard_dialect.model.axis import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError, Sizes

NOBODY = -1
"""The member to which nothing is sent."""


class ReshardError(ShardingError):
    """No known sequence of steps leads from one sharding to the other."""


@dataclass(frozen=True, slots=True)
class AllGather:
    """Give every device of a group all the group's shards of dimension `dim`, in group order.

    `axes` are the minor-most axes that split `dim`: [[0, 1]] -> [[0]] gathers axes [1]. Where the
    shards begin at offsets, `axes` are all the axes that split `dim`.
    """

    dim: int
    axes: Axes
    kind: ClassVar[str] = "all_gather"

    def after(self, sharding: Sharding) -> Sharding:
        """Removes `axes` from `dim`."""
        return _without_suffix(sharding, self.dim, self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The shards of the n - 1 other devices."""
        return (n - 1) * prod(operand) * itemsize

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """`dim` is n times as large."""
        return scaled(shape, {self.dim: (n, 1)})

    def __str__(self) -> str:
        return f"all_gather dim {self.dim} axes {axes_text(self.axes)}"


@dataclass(frozen=True, slots=True)
class AllSlice:
    """Keep only this device's shard along `dim`, without communication; undoes `AllGather`.

    Where there are `offsets`, the shards begin at them; where there is a `halo`, the shards hold
    it, filled as by `UpdateHalo`. In both cases `dim` must be unsplit before.
    """

    dim: int
    axes: Axes
    offsets: Sizes = ()
    halo: tuple[int, int] = (0, 0)
    fill: Reduction = "sum"
    kind: ClassVar[str] = "all_slice"

    def after(self, sharding: Sharding) -> Sharding:
        """Adds `axes`, and `offsets` or the `halo`, to `dim`."""
        split = sharding.split_axes[self.dim]
        if (self.offsets or any(self.halo)) and split:
            raise ReshardError(f"offsets and halos cut a whole dimension, not one of {sharding}")
        _refuse_offsets(sharding, self.dim, split)
        if any(sharding.halo(self.dim)):
            raise ReshardError(f"dimension {self.dim} of {sharding} has a halo: it is cut no more")
        sliced = sharding.with_dim(self.dim, split + self.axes, self.offsets)
        return sliced.with_halo(self.dim, self.halo, self.fill) if any(self.halo) else sliced

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """Nothing: each device slices what it holds."""
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """`dim` is divided by n."""
        return scaled(shape, {self.dim: (1, n)})

    def __str__(self) -> str:
        at = f" at {list(self.offsets)}" if self.offsets else ""
        at += f" halo {list(self.halo)}" if any(self.halo) else ""
        return f"all_slice dim {self.dim} axes {axes_text(self.axes)}{at}"


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Combine the partial values along `axes`; every device gets the result."""

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "all_reduce"

    def after(self, sharding: Sharding) -> Sharding:
        """Removes `axes` from the partial axes."""
        return _without_partial(sharding, self.axes, self.reduction)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """A reduce-scatter and an all-gather of the operand."""
        return 2 * (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
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
        """Moves `axes` from the partial axes to `dim`."""
        rest = _without_partial(sharding, self.axes, self.reduction)
        _refuse_offsets(rest, self.dim, rest.split_axes[self.dim])
        return rest.with_dim(self.dim, rest.split_axes[self.dim] + self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """All but one of the n shards of the operand."""
        return (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """`dim` is divided by n."""
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
        """Moves `axes` from `source_dim` to `target_dim`."""
        for dim in (self.source_dim, self.target_dim):
            _refuse_offsets(sharding, dim, sharding.split_axes[dim])
        rest = _without_suffix(sharding, self.source_dim, self.axes)
        return rest.with_dim(self.target_dim, rest.split_axes[self.target_dim] + self.axes)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """All but one of the n slices of the operand."""
        return (n - 1) * prod(operand) * itemsize // n

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """`source_dim` is multiplied by n, `target_dim` divided."""
        if self.source_dim == self.target_dim:  # upstream allows it: slices trade positions
            return scaled(shape, {self.source_dim: (n, n)})
        return scaled(shape, {self.source_dim: (n, 1), self.target_dim: (1, n)})

    def __str__(self) -> str:
        return f"all_to_all dim {self.source_dim} to {self.target_dim} axes {axes_text(self.axes)}"


@dataclass(frozen=True, slots=True)
class Permute:
    """Devices of a group exchange shards: that of member i goes to member `permutation[i]`.

    In the local form that may be -1, nobody; a member to which nobody sends gets zeros.

    Afterwards the tensor's sharding is `split_axes` and `partial`, and shards are as large as
    before. Both are empty in the local form, where no sharding is known. If `grid` is not empty,
    the sharding is on that grid of the same devices; `axes` are those of the grid before.
    """

    axes: Axes
    permutation: tuple[int, ...]
    split_axes: tuple[Axes, ...] = ()
    partial: Axes = ()
    reduction: Reduction = "sum"
    grid: str = ""
    kind: ClassVar[str] = "collective_permute"

    def after(self, sharding: Sharding) -> Sharding:
        """The sharding in `split_axes`, `partial` and `reduction`, on `grid`."""
        return replace(
            sharding,
            grid=self.grid or sharding.grid,
            split_axes=self.split_axes,
            partial=self.partial,
            reduction=self.reduction,
        )

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once; nothing where each device keeps its shard."""
        is_move = any(to not in (member, NOBODY) for member, to in enumerate(self.permutation))
        return prod(operand) * itemsize if n > 1 and is_move else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape

    @staticmethod
    def check(permutation: Sequence[int], size: int, *, may_be_nobody: bool = False) -> None:
        """Raise `ShardingError` unless `size` members send to each other, each at most once."""
        members = [to for to in permutation if to != NOBODY or not may_be_nobody]
        is_right = len(permutation) == size and len(set(members)) == len(members)
        if not is_right or not set(members) <= set(range(size)):
            nobody = ", or -1 for nobody" if may_be_nobody else ""
            raise ShardingError(
                f"permutation is {list(permutation)}: expected each of 0 to {size - 1} once{nobody}"
            )

    def __str__(self) -> str:
        to = Sharding("", self.split_axes, self.partial, self.reduction)
        grid = f" on @{self.grid}" if self.grid else ""
        return f"collective_permute axes {axes_text(self.axes)} to {to}{grid}"


@dataclass(frozen=True, slots=True)
class Mask:
    """Make a tensor that is replicated along `axes` partial over them, without communication.

    The first device of each group keeps its shard. The others replace theirs by the identity of the
    reduction (0 for a sum). The inverse of `AllReduce`.
    """

    axes: Axes
    reduction: Reduction = "sum"
    kind: ClassVar[str] = "mask"

    def after(self, sharding: Sharding) -> Sharding:
        """Adds `axes` to the partial axes."""
        if sharding.partial and sharding.reduction != self.reduction:
            raise ReshardError(
                f"sharding {sharding} is partial {sharding.reduction}, it cannot become partial "
                f"{self.reduction} as well"
            )
        return sharding.with_partial(sharding.partial + self.axes, self.reduction)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """Nothing."""
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape."""
        return shape

    def __str__(self) -> str:
        return f"mask axes {axes_text(self.axes)} {self.reduction}"


@dataclass(frozen=True, slots=True)
class UpdateHalo:
    """Fill the halo along `dim`, which `axes` split, with elements of the neighbouring shards.

    The halo is `low` elements before the device's own and `high` after, and may span several
    shards. The operand already has room for it. At the ends of the tensor the halo keeps the
    identity of the reduction `fill`:

        0 | a b c | d        x x | a b c  ->  low 1, high 1  <-  d e f | x x

    Dimensions are updated one after the other. Each update passes on the halos of those before it,
    so that corners arrive from devices that are diagonal neighbours.
    """

    dim: int
    axes: Axes
    low: int
    high: int
    fill: Reduction = "sum"
    kind: ClassVar[str] = "update_halo"

    def after(self, sharding: Sharding) -> Sharding:
        """Adds the halo to `dim`."""
        if sharding.split_axes[self.dim] != self.axes or any(sharding.halo(self.dim)):
            raise ReshardError(
                f"dimension {self.dim} of sharding {sharding} is not split along "
                f"{axes_text(self.axes)}, without a halo"
            )
        return sharding.with_halo(self.dim, (self.low, self.high), self.fill)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """What a device with neighbours on both sides receives."""
        across = prod(size for dim, size in enumerate(operand) if dim != self.dim)
        return (self.low + self.high) * across * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The same shape; raises if the halo leaves no room for a shard."""
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
    """Reduce the halo along `dim` to `low` and `high` elements, without communication."""

    dim: int
    low: int = 0
    high: int = 0
    axes: Axes = ()
    kind: ClassVar[str] = "crop_halo"

    def after(self, sharding: Sharding) -> Sharding:
        """Reduces the halo of `dim`."""
        low, high = sharding.halo(self.dim)
        if self.low > low or self.high > high:
            raise ReshardError(
                f"[{self.low}, {self.high}] is no part of the halo of dimension {self.dim} in "
                f"sharding {sharding}"
            )
        return sharding.with_halo(self.dim, (self.low, self.high), sharding.fill)

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """Nothing."""
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """Always raises: the result depends on the halo before."""
        raise ShardingError("what is left without a halo depends on the halo there was")

    def __str__(self) -> str:
        return f"crop_halo dim {self.dim} to [{self.low}, {self.high}]"


@dataclass(frozen=True, slots=True)
class ChangeOffsets:
    """Let the shards of `dim`, which `axes` split, begin elsewhere: elements change devices.

    `source` and `target` are the bounds of the shards: where each begins, and where the last one
    ends. `offsets` are those of the target sharding, () for equal shards.

        a b c | d e         source (0, 3, 5)
        a | b c d e         target (0, 1, 5): the first device sends b and c to the second
    """

    dim: int
    axes: Axes
    source: tuple[int, ...]
    target: tuple[int, ...]
    offsets: Sizes = ()
    kind: ClassVar[str] = "change_offsets"

    def after(self, sharding: Sharding) -> Sharding:
        """Replaces the offsets of `dim`."""
        if sharding.split_axes[self.dim] != self.axes or any(sharding.halo(self.dim)):
            raise ReshardError(
                f"dimension {self.dim} of sharding {sharding} is not split along "
                f"{axes_text(self.axes)}, without a halo"
            )
        return sharding.with_dim(self.dim, self.axes, self.offsets)

    def overlap(self, device: int, distance: int) -> tuple[int, int]:
        """The elements of a device's shard that are then on the device `distance` positions on.

        From the first to the one after the last; equal numbers where there are none.
        """
        to = device + distance
        if not 0 <= to < len(self.target) - 1:
            return 0, 0
        begin = max(self.source[device], self.target[to])
        return begin, max(begin, min(self.source[device + 1], self.target[to + 1]))

    def messages(self) -> dict[int, int]:
        """The most elements that a device sends, by the distance to the receiver, 0 included."""
        devices = range(len(self.source) - 1)
        counts = {}
        for distance in range(-devices[-1], len(devices)):
            overlaps = [self.overlap(device, distance) for device in devices]
            count = max(end - begin for begin, end in overlaps)
            if count:
                counts[distance] = count
        return counts

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The messages to other devices, each as long as the longest at its distance."""
        across = prod(size for dim, size in enumerate(operand) if dim != self.dim)
        count = sum(count for distance, count in self.messages().items() if distance)
        return count * across * itemsize if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The size of the largest shard."""
        size = max(end - begin for begin, end in pairwise(self.target))
        return (*shape[: self.dim], size, *shape[self.dim + 1 :])

    def __str__(self) -> str:
        bounds = f"{list(self.source)} to {list(self.target)}"
        return f"change_offsets dim {self.dim} axes {axes_text(self.axes)} {bounds}"


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
    | ChangeOffsets
)


def scaled(shape: Shape, factors: dict[int, tuple[int, int]]) -> Shape:
    """`shape` with each dimension of `factors` times the first number, divided by the second.

    Raises `ShardingError` where that leaves a remainder, or `shape` has no such dimension.
    """
    sizes = list(shape)
    for dim, (times, by) in factors.items():
        if not 0 <= dim < len(sizes) or sizes[dim] * times % by:
            raise ShardingError(
                f"dimension {dim} of {list(shape)} cannot be split into {by} shards"
            )
        sizes[dim] = sizes[dim] * times // by
    return tuple(sizes)


def _without_suffix(sharding: Sharding, dim: int, axes: Axes) -> Sharding:
    split = sharding.split_axes[dim]
    if not axes or split[-len(axes) :] != axes:
        raise ReshardError(
            f"axes {axes_text(axes)} are not the minor axes of dimension {dim} in sharding "
            f"{sharding}"
        )
    _refuse_offsets(sharding, dim, split[: -len(axes)])
    return sharding.with_dim(dim, split[: -len(axes)])


def _refuse_offsets(sharding: Sharding, dim: int, kept: Axes) -> None:
    """Raise `ReshardError` if `dim` has offsets and keeps axes.

    Only a gather of all its axes, or a change of offsets, changes such a dimension.
    """
    if kept and sharding.offsets and sharding.offsets[dim]:
        raise ReshardError(f"dimension {dim} of {sharding} has offsets: it is cut no further")


def _without_partial(sharding: Sharding, axes: Axes, reduction: Reduction) -> Sharding:
    if not axes or not set(axes) <= set(sharding.partial) or reduction != sharding.reduction:
        raise ReshardError(
            f"sharding {sharding} is not partial {reduction} over axes {axes_text(axes)}"
        )
    rest = tuple(axis for axis in sharding.partial if axis not in axes)
    return sharding.with_partial(rest, reduction)
