"""Some dimensions of a mesh, as `fully_shard` and `parallelize_module` are given them.

    mesh                         all of it
    mesh["tp"]                   one dimension of a DeviceMesh, or of a grid
    None                         all ranks in one dimension

Tensors are on the whole mesh: along the other dimensions they are replicated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

from torch import distributed as dist

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid, GridAxes
from shard_dialect.torch.plans.placement_lists import grid_of
from shard_dialect.torch.rank_tensors import RankTensors, device_mesh, on_ranks


@dataclass(frozen=True)
class MeshAxes:
    """Some dimensions of a mesh."""

    mesh: Any
    """The whole mesh: a `DeviceMesh` on ranks, else a grid."""
    grid: Grid
    axes: tuple[int, ...]

    @classmethod
    def of(cls, mesh: Any) -> MeshAxes:
        """Raises `ShardError` for what is no mesh, or one of which we do not know the whole."""
        if isinstance(mesh, GridAxes):
            return cls(_on_devices(mesh.grid), grid_of(mesh.grid), mesh.axes)
        if mesh is None:
            mesh = _of_all_ranks()
        root = mesh._get_root_mesh() if hasattr(mesh, "_get_root_mesh") else mesh
        grid = grid_of(root)
        if root is mesh:
            return cls(_on_devices(mesh), grid, tuple(range(grid.rank)))
        own = tuple(root.mesh_dim_names or ())
        for name in mesh.mesh_dim_names or ():
            if name not in own:
                raise ShardError(
                    f'"{name}" is no dimension of the whole mesh ({", ".join(own)}): give '
                    "dimensions of it, not flattened ones"
                )
        return cls(root, grid, tuple(own.index(name) for name in mesh.mesh_dim_names))

    @property
    def names(self) -> list[str]:
        """Of the dimensions."""
        return [self.grid.axis_name(axis) for axis in self.axes]

    def ranks(self) -> RankTensors | None:
        """This rank's view of tensors on the whole mesh; `None` in one process."""
        return RankTensors(self.mesh, self.grid, dist.get_rank()) if on_ranks() else None


def size_along(grid: Grid, axes: Sequence[int]) -> int:
    """The number of devices along some axes."""
    return prod(grid.sizes_along(axes))


def _of_all_ranks() -> Any:
    if not on_ranks():
        raise ShardError(
            "without torch.distributed there is no mesh of all ranks: give mesh=sd.Grid(...), "
            "whose devices are threads of this process, or call init_process_group"
        )
    return _on_devices(Grid("mesh", (dist.get_world_size(),)))


def _on_devices(mesh: Any) -> Any:
    """On ranks the `DeviceMesh` of a grid, one for all calls."""
    return _device_mesh(mesh) if isinstance(mesh, Grid) and on_ranks() else mesh


@cache
def _device_mesh(grid: Grid) -> Any:
    return device_mesh(grid, grid)
