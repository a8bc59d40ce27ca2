"""Shardings of a program's boundary as JAX has them: a mesh, and partition specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from shard_dialect.codegen.lowered_program import Boundary, Program
from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.runtime.xla.local_function import jax_of_user


@dataclass(frozen=True)
class JaxSpecs:
    """The shardings of a program's arguments and results on a mesh of JAX."""

    mesh: Any
    """A `jax.sharding.Mesh` with the axes of the program's grid, or of the finest of its grids."""
    arguments: Sequence[Any]
    """A `jax.sharding.PartitionSpec` for each argument."""
    results: Sequence[Any]

    @classmethod
    def of(cls, program: Program, mesh: Any) -> JaxSpecs:
        """The specs on `mesh`, or on a finer mesh of its devices if the program's grid is finer.

        Raises `ShardError` for shards of unequal sizes, which JAX does not have.
        """
        jax = jax_of_user()
        boundary = (*program.arguments, *program.results)
        used = {each.sharding.grid for each in boundary if each.sharding}
        grids = sorted((program.grids[name] for name in used), key=lambda grid: grid.rank)
        finest = grids[-1] if grids else Grid("devices", (mesh.size,))
        names = [finest.axis_name(axis) for axis in range(finest.rank)]
        if (finest.shape, tuple(names)) != (mesh.devices.shape, mesh.axis_names):
            placed = mesh.devices.flatten()[list(finest.device_ids) or slice(None)]
            mesh = jax.sharding.Mesh(placed.reshape(finest.shape), names)

        def specs(entries: Sequence[Boundary]) -> list[Any]:
            return [
                jax.sharding.PartitionSpec(*_axes(each, program, finest, names)) for each in entries
            ]

        return cls(mesh, specs(program.arguments), specs(program.results))


def _axes(each: Boundary, program: Program, finest: Grid, names: Sequence[str]) -> list[Any]:
    """For each dimension, the names of the axes that split it."""
    sharding = each.sharding
    if sharding is None:
        return []
    grid = program.grids[sharding.grid]
    found: list[Any] = []
    for dim, axes in enumerate(sharding.split_axes):
        count = grid.axes_size(axes)
        shape = each.global_type.shape
        if each.local.shape[dim] * count != shape[dim]:
            raise ShardError(
                f"a tensor of shape {list(shape)} is sharded as {sharding}: jax has no arrays "
                f"whose shards along dimension {dim} differ in size"
            )
        fine = [one for axis in axes for one in refined_axes(grid, axis, finest)]
        found.append(tuple(names[axis] for axis in fine) or None)
    return found


def refined_axes(grid: Grid, axis: Any, finest: Grid) -> range:
    """The axes of `finest` that one axis of `grid`, on the same devices, consists of.

    >>> refined_axes(Grid("g", (4, 2)), 0, Grid("h", (2, 2, 2)))
    range(0, 2)
    """
    inner = prod(size or 1 for size in grid.shape[axis + 1 :])
    size = grid.shape[axis] or 1
    sizes = [each or 1 for each in finest.shape]
    inside = [prod(sizes[each + 1 :]) for each in range(len(sizes))]
    members = [
        each
        for each in range(len(sizes))
        if inside[each] >= inner and inside[each] * sizes[each] <= inner * size
    ]
    if prod(sizes[each] for each in members) != size or grid.device_ids != finest.device_ids:
        raise ShardError(f"axes of grid {grid} are no unions of those of grid {finest}")
    return range(members[0], members[-1] + 1) if members else range(0)
