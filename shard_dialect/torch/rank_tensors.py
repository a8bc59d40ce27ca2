"""Shards of this rank as DTensors, and tensors and DTensors as shards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard

from shard_dialect.codegen.array_types import Array
from shard_dialect.codegen.lowered_program import Boundary
from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.runtime.framework_arrays import like, to_numpy
from shard_dialect.torch.plans.placement_lists import placements_of

Tensor = Any


def on_ranks() -> bool:
    """Whether torch.distributed is initialized: this process is then one device."""
    return bool(dist.is_available() and dist.is_initialized())


def device_mesh(mesh: Any, grid: Grid) -> Any:
    """The mesh, or a new one of all ranks for a grid."""
    if not isinstance(mesh, Grid):
        return mesh
    names = tuple(grid.axis_name(axis) for axis in range(grid.rank))
    kind = "cuda" if "nccl" in dist.get_backend() else "cpu"
    return dist.init_device_mesh(kind, tuple(grid.shape), mesh_dim_names=names)


def placements(each: Boundary, grid: Grid) -> list[Any]:
    """DTensor's placements of an argument or a result, one for each mesh dimension."""
    plain = placements_of(each.sharding, each.global_type.shape, grid)
    return [Shard(what[1]) if what[0] == "shard" else Replicate() for what in plain]


@dataclass(frozen=True)
class RankTensors:
    """This rank's view of tensors over a mesh."""

    mesh: Any
    grid: Grid
    grids: Mapping[str, Grid]
    """The grids of the program."""
    rank: int

    def slices(self, each: Boundary) -> tuple[slice, ...]:
        """What this rank holds of the whole tensor."""
        return each.shard(self.rank, self.grids)

    @staticmethod
    def is_distributed(tensor: Any) -> bool:
        """Whether it is a DTensor."""
        return isinstance(tensor, DTensor)

    def distributed(self, tensor: Tensor, each: Boundary) -> Tensor:
        """The DTensor of a whole tensor that this rank has, in memory of its own."""
        own = tensor[self.slices(each)].clone(memory_format=torch.contiguous_format)
        return self._of_local(own, each)

    def result(self, array: Array, each: Boundary) -> Tensor:
        """The DTensor of a shard that the program has computed."""
        own = each.own(array, self.rank, self.grids) if array.shape else array  # not a number
        return self._of_local(like(own, torch.empty(0)), each)

    def _of_local(self, own: Tensor, each: Boundary) -> Tensor:
        shape = torch.Size(each.global_type.shape)
        stride = torch.empty(shape, device="meta").stride()
        return DTensor.from_local(
            own, self.mesh, placements(each, self.grid), run_check=False, shape=shape, stride=stride
        )

    def shard(self, tensor: Tensor, each: Boundary, name: str) -> Array:
        """This rank's padded shard of a DTensor, a whole tensor, or the shard itself.

        Raises `ShardError` for a tensor of another shape or type.
        """
        if isinstance(tensor, DTensor):
            if tensor.device_mesh != self.mesh:
                raise ShardError(f"is on {tensor.device_mesh}: expected {self.mesh}", name)
            _check_shape(tensor, [each.global_type.shape], name)
            own = tensor.redistribute(self.mesh, placements(each, self.grid)).to_local()
        else:
            part = self.slices(each)
            whole = each.global_type.shape
            sizes = zip(part, whole, strict=True)
            local = tuple(len(range(*bounds.indices(size))) for bounds, size in sizes)
            _check_shape(tensor, [whole, local], name)
            own = tensor[part] if tuple(tensor.shape) == whole else tensor
        array = to_numpy(own)
        if array.dtype != each.local.dtype:
            raise ShardError(f"is of {array.dtype}: expected {each.local.dtype}", name)
        if array.shape == each.local.shape:
            return np.ascontiguousarray(array)
        padded = np.zeros(each.local.shape, each.local.dtype)
        padded[tuple(map(slice, array.shape))] = array
        return padded


def _check_shape(tensor: Tensor, allowed: list[tuple[int, ...]], name: str) -> None:
    if tuple(tensor.shape) not in allowed:
        expected = " or ".join(str(list(each)) for each in dict.fromkeys(allowed))
        raise ShardError(f"has shape {list(tensor.shape)}: expected {expected}", name)
