"""Shards of this rank as DTensors, and tensors and DTensors as shards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, get_args
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import distributed as dist
from torch.distributed.tensor import DTensor

from shard_dialect.abi.lowered_program import Boundary
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError, check_one_of
from shard_dialect.model import Grid, Sharding
from shard_dialect.runtime.compiled_program import Compiler
from shard_dialect.runtime.shards_of_arrays import like, to_numpy
from shard_dialect.torch.graph.complex_parts import as_real
from shard_dialect.torch.graph.forward_and_backward import SAVED
from shard_dialect.torch.plans.placement_lists import placements_of

Tensor = Any


def on_ranks() -> bool:
    """Whether torch.distributed is initialized: this process is then one device."""
    return bool(dist.is_available() and dist.is_initialized())


def value_of_first(value: Any) -> Any:
    """What rank 0 has, on all ranks."""
    held = [value]
    dist.broadcast_object_list(held, 0)
    return held[0]


def local_of(tensor: Tensor) -> Tensor:
    """This rank's part of a DTensor, in the same memory; another tensor as it is."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def device_mesh(mesh: Any, grid: Grid) -> Any:
    """The mesh, or a new one of all ranks for a grid."""
    if not isinstance(mesh, Grid):
        return mesh
    shape, names = tuple(grid.shape), grid.axes or None
    return dist.init_device_mesh(device_type(mesh), shape, mesh_dim_names=names)


def device_type(mesh: Any) -> str:
    """Of what a rank's tensors are on, as "cpu" or "cuda"."""
    if isinstance(mesh, Grid):
        return "cuda" if "nccl" in dist.get_backend() else "cpu"
    return str(mesh.device_type)


def compiler_for(asked: Compiler | None, mesh: Any) -> Compiler:
    """What computes where nothing was asked for: torch on ranks whose tensors are not on the host.

    Raises `ShardError` for what it cannot be.
    """
    if asked is not None:
        check_one_of("compiler", asked, get_args(Compiler))
    if asked == "torch" and not on_ranks():
        raise ShardError(
            'compiler="torch" is for ranks of torch.distributed: start them by torchrun'
        )
    if asked is not None or not on_ranks():
        return asked or "cpu"
    return "cpu" if device_type(mesh) == "cpu" else "torch"


@dataclass(frozen=True, eq=False)
class PlacedTensor:
    """An argument or a result of the program, as torch says how it is split."""

    name: str
    boundary: Boundary
    sharding: Sharding
    """On the user's mesh; the program's own may be on a finer grid of the same devices."""
    placements: Sequence[Any]
    """DTensor's, one for each mesh dimension."""
    is_complex: bool = False
    """Whether the last dimension of the program's tensor has the parts of complex numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor, as torch has it."""
        shape = self.boundary.global_type.shape
        return shape[:-1] if self.is_complex else shape

    def of_program(self, tensor: Tensor) -> Tensor:
        """A result of the program, as torch has it."""
        if not self.is_complex:
            return tensor
        if not tensor.numel():  # of any strides
            return torch.complex(*tensor.unbind(-1))
        return torch.view_as_complex(tensor.contiguous())

    def check(self, rank: int, grid: Grid, grids: Mapping[str, Grid]) -> None:
        """Assert that the program holds what the placements say."""
        shape = self.boundary.global_type.shape
        said, held = self.sharding.shard(rank, shape, grid), self.boundary.shard(rank, grids)
        sizes = list(shape)
        pairs = zip(said, held, sizes, strict=True)
        same = all(a.indices(size) == b.indices(size) for a, b, size in pairs)
        assert same, f"{self.name} is {held} on device {rank}, and its placements say {said}"


@dataclass(frozen=True)
class RankTensors:
    """This rank's view of tensors over a mesh."""

    mesh: Any
    grid: Grid
    rank: int
    _held: Any = field(default_factory=WeakKeyDictionary, init=False, repr=False, compare=False)
    """What `held` has found."""
    _specs: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What DTensor knows of tensors of a shape, with placements and a type."""

    @cached_property
    def device(self) -> torch.device:
        """Where this rank's tensors are."""
        kind = self.mesh.device_type
        if kind == "cpu":
            return torch.device(kind)
        return torch.device(kind, torch.get_device_module(kind).current_device())

    def held(self, each: PlacedTensor) -> tuple[tuple[slice, ...], tuple[int, ...]]:
        """The part of the whole tensor that this rank holds, and its shape."""
        found: Any = self._held.get(each)
        if found is None:
            whole = each.boundary.global_type.shape
            slices = each.sharding.shard(self.rank, whole, self.grid)[: len(each.shape)]
            sizes = zip(slices, each.shape, strict=True)
            shape = tuple(len(range(*part.indices(size))) for part, size in sizes)
            found = self._held[each] = slices, shape
        return found

    def slices(self, each: PlacedTensor) -> tuple[slice, ...]:
        """The part of the whole tensor that this rank holds."""
        return self.held(each)[0]

    @staticmethod
    def is_distributed(tensor: Any) -> bool:
        """Whether it is a DTensor."""
        return isinstance(tensor, DTensor)

    def distributed(self, tensor: Tensor, sharding: Sharding) -> Tensor:
        """The DTensor of a whole tensor that this rank has, in memory of its own."""
        # The program has one more dimension of complex numbers, their parts, which nothing splits.
        sharding = Sharding(sharding.grid, sharding.split_axes[: tensor.dim()])
        own = tensor[sharding.shard(self.rank, tuple(tensor.shape), self.grid)]
        own = own.clone(memory_format=torch.contiguous_format)
        return self._of_local(own, tensor.shape, placements_of(sharding, self.grid))

    def result(self, shard: Any, each: PlacedTensor) -> Tensor:
        """The DTensor of a shard that the program has computed; a plain tensor if it is saved."""
        if each.name.startswith(SAVED):
            return _as_tensor(shard)
        own = each.of_program(_as_tensor(self.own(shard, each)))
        return self._of_local(own, each.shape, each.placements)

    def own(self, array: Any, each: PlacedTensor) -> Any:
        """A shard that the program has computed, without padding."""
        if not array.shape:
            return array  # not a number
        return array[tuple(map(slice, self.held_shape(each)))]

    def write(self, tensor: Tensor, value: Tensor) -> None:
        """Copy a DTensor to a DTensor, to a whole tensor, or to this rank's shard."""
        if isinstance(tensor, DTensor):
            tensor.copy_(value.redistribute(tensor.device_mesh, tensor.placements))
        elif tensor.shape == value.shape:
            tensor.copy_(value.full_tensor())
        else:
            tensor.copy_(value.to_local())

    def of_first(self, tensor: Tensor) -> Tensor:
        """The tensor of rank 0, on all ranks' devices."""
        tensor = tensor.to(self.device)
        dist.broadcast(tensor, 0)
        return tensor

    def are_shards(self, tensors: Iterable[Tensor], placed: Sequence[PlacedTensor]) -> bool:
        """Whether each tensor has the shape of the whole one, or of this rank's shard."""
        return all(
            tuple(tensor.shape) == each.shape
            or (tuple(tensor.shape) == self.held_shape(each) and not self.is_distributed(tensor))
            for tensor, each in zip(tensors, placed, strict=True)
        )

    def held_shape(self, each: PlacedTensor) -> tuple[int, ...]:
        """The shape of this rank's shard."""
        return self.held(each)[1]

    def _of_local(self, own: Tensor, sizes: Sequence[int], placements: Sequence[Any]) -> Tensor:
        key = (*sizes, *placements, own.dtype)
        if key in self._specs and own.device.type == self.mesh.device_type:
            return DTensor(own, self._specs[key], requires_grad=False)
        shape = torch.Size(sizes)
        stride = torch.empty(shape, device="meta").stride()
        with torch.no_grad():  # else it is a call in autograd's graph
            found = DTensor.from_local(
                own, self.mesh, placements, run_check=False, shape=shape, stride=stride
            )
        self._specs[key] = found._spec
        return found

    def shard(self, tensor: Tensor, each: PlacedTensor) -> Array:
        """This rank's padded shard of a DTensor, a whole tensor, or the shard itself.

        Raises `ShardError` for a tensor of another shape or type.
        """
        return np.ascontiguousarray(to_numpy(self.shard_tensor(tensor, each)))

    def shard_tensor(self, tensor: Tensor, each: PlacedTensor) -> Tensor:
        """The same as a tensor, where it is."""
        own, shape = self._held_of(tensor, each), each.boundary.local.shape
        if tuple(own.shape) == shape:
            return own
        padded = own.new_zeros(shape)
        padded[tuple(map(slice, own.shape))] = own
        return padded

    def _held_of(self, tensor: Tensor, each: PlacedTensor) -> Tensor:
        """What this rank holds of a tensor, as the program has it, without padding."""
        name, whole, local = each.name, each.shape, each.boundary.local
        if name.startswith(SAVED):
            return tensor
        if isinstance(tensor, DTensor):
            if tensor.device_mesh != self.mesh:
                raise ShardError(f"is on {tensor.device_mesh}: expected {self.mesh}", name)
            _check_shape(tensor, [whole], name)
            if tuple(tensor.placements) != tuple(each.placements):
                tensor = tensor.redistribute(self.mesh, each.placements)
            own = local_of(tensor)
        else:
            _check_shape(tensor, [whole, self.held_shape(each)], name)
            own = tensor[self.slices(each)] if tuple(tensor.shape) == whole else tensor
        own = as_real(own)
        dtype = _numpys(own.dtype)
        if dtype != local.dtype:
            raise ShardError(f"is of {dtype}: expected {local.dtype}", name)
        return own


@cache
def _numpys(dtype: torch.dtype) -> Any:
    return to_numpy(torch.empty(0, dtype=dtype, device="cpu")).dtype


def _as_tensor(shard: Any) -> Tensor:
    return shard if isinstance(shard, torch.Tensor) else like(shard, torch.empty(0, device="cpu"))


def _check_shape(tensor: Tensor, allowed: list[tuple[int, ...]], name: str) -> None:
    if tuple(tensor.shape) not in allowed:
        expected = " or ".join(str(list(each)) for each in dict.fromkeys(allowed))
        raise ShardError(f"has shape {list(tensor.shape)}: expected {expected}", name)
