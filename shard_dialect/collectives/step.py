"""The base classes of steps on shards: each kind of collective is a frozen dataclass of its own.

    AllGather(dim=1, axes=(0,))      on a grid of 2x4: two groups of devices

A step has `axes`: the devices that differ along these only are a group, and exchange data. The
other methods give the bytes that one device of a group of n sends, and its local shape after. The
steps of reshards are `Step`s: they also give the sharding afterwards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

from shard_dialect.model.grid import Axes, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError

if TYPE_CHECKING:
    from typing import Self  # Python 3.10 has none

NOBODY = -1
"""The member to which nothing is sent."""
Index = tuple[int | None, ...]
"""A device's index along each axis of its group, `None` where the program computes it."""


class ReshardError(ShardingError):
    """No known sequence of steps leads from one sharding to the other."""


class LocalStep:
    """A step on the shards of devices; each kind is a frozen dataclass."""

    __slots__ = ()
    axes: Axes
    kind: ClassVar[str]
    joins: ClassVar[str] = ""
    """The field with the dimension that is n times as large afterwards, if there is one."""
    cuts: ClassVar[str] = ""
    """The field with the dimension that is cut into n, if there is one."""
    exchanges: ClassVar[str] = ""
    """The field with the dimension along which devices exchange parts, if it keeps its size."""
    communicates: ClassVar[bool] = True
    """Whether devices exchange anything."""
    reduces: ClassVar[bool] = False
    """Whether it joins what devices have, by its `reduction`."""
    is_message: ClassVar[bool] = False
    """Whether one device takes the step, and not all of a group together."""
    names: ClassVar[str] = ""
    """The field with the index of one member of the group, if there is one."""

    @property
    def is_computed(self) -> bool:
        """Whether the program computes which member the step names."""
        return None in ((getattr(self, self.names) if self.names else None) or ())

    def member(self, sizes: Sequence[int]) -> int | None:
        """The number in its group of the member that the step names.

        `None` for any member, and for one that the program computes.
        """
        index: Index | None = getattr(self, self.names)
        return None if index is None or self.is_computed else flat_index(index, sizes)

    def naming(self, member: int, sizes: Sequence[int]) -> Self:
        """The step that names this member of its group."""
        index: list[int] = []
        for size in reversed(sizes):
            member, at = divmod(member, size)
            index.insert(0, at)
        return replace(cast("Any", self), **{self.names: tuple(index)})

    @property
    def joined_dim(self) -> int | None:
        """The dimension that is n times as large afterwards."""
        return getattr(self, self.joins) if self.joins else None

    @property
    def cut_dim(self) -> int | None:
        """The dimension that is divided by n."""
        return getattr(self, self.cuts) if self.cuts else None

    @property
    def exchanged_dim(self) -> int | None:
        """The dimension along which devices exchange parts."""
        return getattr(self, self.exchanges) if self.exchanges else None

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The bytes that one device of a group of n sends, for an operand of this local shape."""
        return 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The local shape of the result. Raises `ShardingError` if `shape` cannot be cut."""
        joined, cut = self.joined_dim, self.cut_dim
        factors = {} if joined is None else {joined: (n, 1)}
        if cut is not None:
            factors[cut] = (factors[cut][0] if cut in factors else 1, n)
        return scaled(shape, factors)

    def check_fits(self, shape: Shape, n: int) -> None:
        """Raise `ShardingError` for numbers that make no sense for this local shape."""


class Step(LocalStep, ABC):
    """A step of a reshard."""

    __slots__ = ()

    @abstractmethod
    def after(self, sharding: Sharding) -> Sharding:
        """The sharding afterwards. Raises `ReshardError` if the step does not apply to this one."""


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


def without_suffix(sharding: Sharding, dim: int, axes: Axes) -> Sharding:
    """The sharding without `axes`, which must be the minor-most of `dim`."""
    split = sharding.split_axes[dim]
    if not axes or split[-len(axes) :] != axes:
        raise ReshardError(
            f"axes {axes_text(axes)} are not the minor axes of dimension {dim} in sharding "
            f"{sharding}"
        )
    refuse_offsets(sharding, dim, split[: -len(axes)])
    return sharding.with_dim(dim, split[: -len(axes)])


def is_within(axes: Axes, split: Axes) -> bool:
    """Whether `split` has `axes`, in their order.

    >>> is_within((0, 2), (0, 1, 2)), is_within((2, 0), (0, 1, 2))
    (True, False)
    """
    return tuple(axis for axis in split if axis in axes) == axes


def refuse_offsets(sharding: Sharding, dim: int, kept: Axes) -> None:
    """Raise `ReshardError` if `dim` has offsets and keeps axes.

    Only a gather of all its axes, or a change of offsets, changes such a dimension.
    """
    if kept and sharding.offsets and sharding.offsets[dim]:
        raise ReshardError(f"dimension {dim} of {sharding} has offsets: it is cut no further")


def without_partial(sharding: Sharding, axes: Axes, reduction: Reduction) -> Sharding:
    """The sharding that is no longer partial over `axes`."""
    if not axes or not set(axes) <= set(sharding.partial) or reduction != sharding.reduction:
        raise ReshardError(
            f"sharding {sharding} is not partial {reduction} over axes {axes_text(axes)}"
        )
    rest = tuple(axis for axis in sharding.partial if axis not in axes)
    return sharding.with_partial(rest, reduction)


def flat_index(index: Iterable[int | None], sizes: Sequence[int]) -> int:
    """The number within a group, in row-major order, of the member with this index.

    >>> flat_index((1, 2), (2, 3))
    5
    """
    number = 0
    for each, size in zip(index, sizes, strict=True):
        assert each is not None, "a member that the program computes has no number yet"
        number = number * size + each
    return number
