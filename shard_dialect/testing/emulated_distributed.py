"""The parts of `torch.distributed` that emitted programs use, between threads of one process.

Each device has one object of its own in place of the module. Exchanges are those of
`communicators.thread_devices`, on the memory of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from shard_dialect.abi.tensor_types import Array
from shard_dialect.model import Reduction
from shard_dialect.runtime.communicators.group import Group
from shard_dialect.runtime.communicators.thread_devices import ThreadDevice, in_threads
from shard_dialect.runtime.communicators.world import InProcess, Runnable, Shards
from shard_dialect.runtime.torch_executable import TorchExecutable, TorchFunction

_REDUCTIONS: dict[Any, Reduction] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.MIN: "min",
}


@dataclass(frozen=True)
class _Handle:
    """A process group: `ranks` ascend, as torch's do. Ranks that are in none have no `group`."""

    ranks: tuple[int, ...]
    group: Group | None

    def of(self) -> Group:
        assert self.group is not None, "only members communicate"
        return self.group

    def position(self, rank: int) -> int:
        return self.ranks.index(rank)


class _Done:
    """A request that has been answered."""

    def wait(self) -> None:
        """Return at once."""

    def is_completed(self) -> bool:
        """Always."""
        return True


@dataclass(frozen=True)
class _Talk:
    """One message of a batch."""

    how: Callable[..., object]
    tensor: torch.Tensor
    peer: int
    group: _Handle


@dataclass
class EmulatedDistributed:
    """One device's `torch.distributed`, among `size` devices."""

    device: ThreadDevice
    size: int
    ReduceOp = dist.ReduceOp
    ProcessGroup = dist.ProcessGroup
    Work = dist.Work
    P2POp = _Talk
    _channels: dict[tuple[int, ...], Group] = field(default_factory=dict)

    def is_initialized(self) -> bool:
        """The devices have met."""
        return True

    def get_rank(self) -> int:
        """This device's rank."""
        return self.device.rank

    def get_world_size(self) -> int:
        """The number of devices."""
        return self.size

    def new_group(self, ranks: Sequence[int], timeout: object = None) -> _Handle:
        """The group of these ranks, which all create; nobody waits for long in one process."""
        listed = tuple(ranks)
        group = self.device.group_of(listed) if self.device.rank in listed else None
        return _Handle(listed, group)

    def all_gather(
        self,
        into: Sequence[torch.Tensor],
        x: torch.Tensor,
        group: _Handle,
        async_op: bool = False,
    ) -> _Done:
        """Every member's tensor. What may run beside others has been done when it returns."""
        received = np.empty((len(into), x.numel()), _array(x).dtype)
        group.of().all_gather(_array(x).reshape(1, -1), received)
        _fill(into, received)
        return _Done()

    def all_reduce(self, x: torch.Tensor, op: Any, group: _Handle, async_op: bool = False) -> _Done:
        """The members' tensors, reduced."""
        group.of().all_reduce(_array(x).copy(), _array(x), _REDUCTIONS[op])
        return _Done()

    def reduce_scatter(
        self,
        into: torch.Tensor,
        slices: Sequence[torch.Tensor],
        op: Any,
        group: _Handle,
        async_op: bool = False,
    ) -> _Done:
        """This member's slice of the members' tensors, reduced."""
        sent = np.stack([_array(each) for each in slices])
        group.of().reduce_scatter(sent, _array(into)[None], _REDUCTIONS[op])
        return _Done()

    def all_to_all_single(
        self, into: torch.Tensor, x: torch.Tensor, group: _Handle, async_op: bool = False
    ) -> _Done:
        """This member's slice of each member's tensor."""
        group.of().all_to_all(_array(x), _array(into))
        return _Done()

    def broadcast(self, x: torch.Tensor, root: int, group: _Handle) -> None:
        """The root's tensor."""
        group.of().broadcast(_array(x).copy(), _array(x), group.position(root))

    def gather(
        self, x: torch.Tensor, into: Sequence[torch.Tensor] | None, root: int, group: _Handle
    ) -> None:
        """On the root every member's tensor."""
        received = np.empty((len(group.ranks), x.numel()), _array(x).dtype)
        group.of().gather(_array(x).reshape(1, -1), received, group.position(root))
        _fill(into or (), received)

    def scatter(
        self, into: torch.Tensor, slices: Sequence[torch.Tensor] | None, root: int, group: _Handle
    ) -> None:
        """This member's slice of the root's tensors."""
        shape = (len(group.ranks), into.numel())
        sent = np.zeros(shape, _array(into).dtype)
        for row, each in zip(sent, slices or (), strict=False):
            row[...] = _array(each).reshape(-1)
        group.of().scatter(sent, _array(into).reshape(1, -1), group.position(root))

    def reduce(self, x: torch.Tensor, root: int, op: Any, group: _Handle) -> None:
        """On the root the members' tensors, reduced."""
        group.of().reduce(_array(x).copy(), _array(x), group.position(root), _REDUCTIONS[op])

    def isend(self, x: torch.Tensor, to: int, group: _Handle, tag: int = 0) -> _Done:
        """Send a copy."""
        self._channel(group, tag).send(_array(x).copy(), group.position(to))
        return _Done()

    def irecv(self, into: torch.Tensor, source: int, group: _Handle, tag: int = 0) -> _Done:
        """Wait for a message at once, since no sender waits."""
        self.recv(into, source, group, tag)
        return _Done()

    def recv(self, into: torch.Tensor, source: int | None, group: _Handle, tag: int = 0) -> None:
        """Wait for a message from a rank, or from any."""
        origin = None if source is None else group.position(source)
        self._channel(group, tag).receive(_array(into), origin)

    def batch_isend_irecv(self, talk: Sequence[_Talk]) -> list[_Done]:
        """Send all before receiving."""
        ordered = sorted(talk, key=lambda each: each.how != self.isend)
        for each in ordered:
            each.how(each.tensor, each.peer, group=each.group)
        return [_Done() for _ in talk]

    def _channel(self, group: _Handle, tag: int) -> Group:
        """The group for messages of a tag, which receives none of another."""
        return self.device.group_of(group.ranks, tag + 1)


class TorchThreads(InProcess):
    """Threads of this process that compute with torch."""

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`."""
        assert isinstance(executable, TorchExecutable), "compiled for this world"

        def device(one: ThreadDevice, _: object) -> list[Array]:
            distributed = EmulatedDistributed(one, len(inputs))
            return TorchFunction(executable, distributed)(inputs[one.rank])

        return in_threads(len(inputs), device)


def compute_in_one_thread() -> None:
    """Let each device compute in its own thread alone."""
    torch.set_num_threads(1)


def _array(tensor: torch.Tensor) -> Array:
    """The memory of a contiguous tensor."""
    array: Array = tensor.numpy()
    return array


def _fill(tensors: Sequence[torch.Tensor], rows: Array) -> None:
    for tensor, row in zip(tensors, rows, strict=False):
        _array(tensor).reshape(-1)[...] = row
