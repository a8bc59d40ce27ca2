"""Random grids, and random shardings of a shape on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from shard_dialect.model import Axis, Grid, Sharding, SubAxis
from shard_dialect.model.grid import follows
from shard_dialect.model.sharding import Shape
from shard_dialect.testing.random_draws import chance

GRIDS = ((2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (1, 2), (2, 2, 2))


def any_grid(rng: Random, shapes: Sequence[Shape] = GRIDS) -> Grid:
    """A grid `@g` of one of these shapes."""
    return Grid("g", rng.choice(shapes))


def any_grids(rng: Random) -> list[Grid]:
    """A grid `@g`, sometimes a grid `@h` of fewer devices, or of all in another shape or order."""
    first = any_grid(rng)
    if not chance(rng, 0.4):
        return [first]
    smaller = [each for each in GRIDS if prod(each) < first.size]
    if smaller and chance(rng, 0.4):
        return [first, Grid("h", rng.choice(smaller))]
    shape = rng.choice([each for each in GRIDS if prod(each) == first.size])
    devices = rng.sample(range(first.size), first.size) if chance(rng, 0.4) else ()
    return [first, Grid("h", shape, device_ids=tuple(devices))]


def any_sharding(
    rng: Random,
    shape: Shape,
    grid: Grid,
    *,
    even: bool = False,
    sub_axes: bool = False,
    extents: bool = False,
) -> Sharding:
    """A random sharding: any axes split any dimension, in any order; the rest replicate.

    `even`: axes split only sizes that they divide. `sub_axes`: some axes are divided, if possible.
    `extents`: some shards begin at offsets, or have halos.
    """
    axes: list[Axis] = []
    for number, size in enumerate(grid.shape):
        if sub_axes and size == 4 and chance(rng, 0.3):
            axes += [SubAxis(number, 1, 2), SubAxis(number, 2, 2)]
        else:
            axes.append(number)
    split: list[tuple[Axis, ...]] = [()] * len(shape)
    for axis in rng.sample(axes, len(axes)):
        dim = rng.randrange(len(shape) + 1) - 1
        if dim < 0:
            continue
        new_axes = (*split[dim], axis)
        if len(new_axes) > 1 and follows(
            *new_axes[-2:]
        ):  # adjacent halves of an axis are written as one axis
            continue
        if not even or shape[dim] % grid.axes_size(new_axes) == 0:
            split[dim] = new_axes
    sharding = Sharding(grid.name, tuple(split))
    if not extents or not any(split) or not chance(rng, 0.4):
        return sharding
    if chance(rng, 0.6):
        return _with_halos(rng, sharding, shape, grid)
    has_sub_axes = any(isinstance(axis, SubAxis) for axis in sharding.axes)
    return sharding if has_sub_axes else _with_offsets(rng, sharding, shape, grid)


def is_uneven(sharding: Sharding, shape: Shape, grid: Grid) -> bool:
    """Whether some axes do not divide what they split."""
    pairs = zip(shape, sharding.split_axes, strict=True)
    return any(size % grid.axes_size(axes) for size, axes in pairs)


def _with_halos(rng: Random, sharding: Sharding, shape: Shape, grid: Grid) -> Sharding:
    """Halos of all split dimensions, no larger than the smallest shard, as upstream has them."""
    for dim, axes in enumerate(sharding.split_axes):
        if axes:
            most = min(3, shape[dim] // grid.axes_size(axes))
            halo = rng.randint(0, most), rng.randint(0, most)
            sharding = sharding.with_halo(dim, halo, "sum")
    return sharding


def _with_offsets(rng: Random, sharding: Sharding, shape: Shape, grid: Grid) -> Sharding:
    """Offsets in all split dimensions, as upstream has them; shards may be empty."""
    for dim, axes in enumerate(sharding.split_axes):
        if axes:
            inner = sorted(rng.randint(0, shape[dim]) for _ in range(grid.axes_size(axes) - 1))
            sharding = sharding.with_dim(dim, axes, (0, *inner, shape[dim]))
    return sharding
