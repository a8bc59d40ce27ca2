"""Where a value lies in a larger tensor that it is to become a part of.

The 62 rows that a stencil computes of 64 lie at (1, 0) of a 64x64 tensor:

    Frame(at=(1, 0), shape=(64, 64), ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shard_dialect.model import Sharding
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True)
class Frame:
    """The place of a value, from the indices `at` on, in a tensor of `shape`.

    `sharding` is the tensor's target sharding, on refined grids and without uneven axes;
    `annotated` the sharding that its attribute has.
    """

    at: tuple[int, ...]
    shape: Shape
    sharding: Sharding
    annotated: Sharding

    def is_changed(self, dim: int, size: int) -> bool:
        """Whether dimension `dim` of a value, of this size, is not the tensor's."""
        return self.at[dim] != 0 or self.shape[dim] != size

    def moved(self, by: Sequence[int]) -> Frame:
        """The frame of a part that lies `by` further."""
        return replace(self, at=tuple(a + b for a, b in zip(self.at, by, strict=True)))

    def with_dim(self, dim: int, at: int, size: int) -> Frame:
        """The frame with another place in dimension `dim`."""
        begins, shape = list(self.at), list(self.shape)
        begins[dim], shape[dim] = at, size
        return replace(self, at=tuple(begins), shape=tuple(shape))

    def of_dims(self, dims: Sequence[int]) -> Frame:
        """The frame of a tensor with these dimensions."""
        return Frame(
            tuple(self.at[dim] for dim in dims),
            tuple(self.shape[dim] for dim in dims),
            _of_dims(self.sharding, dims),
            _of_dims(self.annotated, dims),
        )

    def whole(self, dims: Sequence[int]) -> Frame:
        """The frame, whose dimensions `dims` are not split."""
        return replace(
            self,
            sharding=_whole(self.sharding, dims),
            annotated=_whole(self.annotated, dims),
        )


def _of_dims(sharding: Sharding, dims: Sequence[int]) -> Sharding:
    return Sharding(sharding.grid, tuple(sharding.split_axes[dim] for dim in dims))


def _whole(sharding: Sharding, dims: Sequence[int]) -> Sharding:
    axes = [() if dim in dims else each for dim, each in enumerate(sharding.split_axes)]
    return Sharding(sharding.grid, tuple(axes))
