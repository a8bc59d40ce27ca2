"""Random grids, and random shardings of a shape on a grid."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from shard_dialect.model import Axis, Grid, Sharding, SubAxis
from shard_dialect.model.axis import follows
from shard_dialect.model.sharding import Shape
from shard_dialect.testing.random_draws import chance

GRIDS = ((2,), (3,), (4,), (2, 2), (2, 3), (3, 2), (1, 2), (2, 2, 2))


def any_grid(rng: Random, shapes: Sequence[Shape] = GRIDS) -> Grid:
    """A grid `@g` of one of these shapes."""
    return Grid("g", rng.choice(shapes))


def any_grids(rng: Random, shapes: Sequence[Shape] = GRIDS) -> list[Grid]:
    """A grid `@g`, and sometimes a grid `@h` of its devices in another shape or order."""
    first = any_grid(rng, shapes)
    if not chance(rng, 0.3):
        return [first]
    shape = rng.choice([each for each in shapes if prod(each) == first.size])
    devices = rng.sample(range(first.size), first.size) if chance(rng, 0.4) else ()
    return [first, Grid("h", shape, device_ids=tuple(devices))]


def any_sharding(
    rng: Random, shape: Shape, grid: Grid, *, even: bool = False, sub_axes: bool = False
) -> Sharding:
    """A random sharding: any axes split any dimension, in any order; the rest replicate.

    `even`: axes split only sizes that they divide. `sub_axes`: some axes are divided, if possible.
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
    return Sharding(grid.name, tuple(split))
