"""torch's device meshes as our grids.

A `DeviceMesh` of 2x4 ranks whose dimensions are dp and tp is `@mesh(2x4)` with these axes.
"""

from __future__ import annotations

from typing import Any

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid

_NAME = "mesh"


def grid_of(mesh: Any) -> Grid:
    """The grid of a `DeviceMesh`, whose dimensions become axes; a grid itself.

    Raises `ShardError` for a mesh whose ranks are not 0, 1, 2, ... in row-major order.
    """
    if isinstance(mesh, Grid):
        if not mesh.is_static:
            raise ShardError(f"the sizes of grid {mesh} must be known")
        return mesh
    if not hasattr(mesh, "mesh_dim_names"):
        raise ShardError(
            f"mesh= is a torch.distributed.device_mesh.DeviceMesh or an sd.Grid, not {mesh!r}"
        )
    ranks = mesh.mesh.flatten().tolist()
    if ranks != list(range(len(ranks))):
        raise ShardError(
            f"the ranks of the mesh are {ranks}: expected each of 0 to {len(ranks) - 1} in order, "
            "as torch.distributed.init_device_mesh makes them"
        )
    return Grid(_NAME, tuple(mesh.mesh.shape), tuple(mesh.mesh_dim_names or ()))
