"""One device per process, communicating by torch.distributed: gloo on CPUs, NCCL on GPUs.

torchrun --nproc-per-node=4 -m shard_dialect.run in.mlir --backend=torch --check
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import NoReturn

import numpy as np

from shard_dialect.abi.tensor_types import Array
from shard_dialect.collectives.messages import TAG
from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.communicators.join_shards import (
    all_reduce_in_chunks,
    join,
    reduce_by_rows,
    reduce_scatter_in_chunks,
)
from shard_dialect.runtime.communicators.world import Launched, Shards

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise MissingExtra("torch", "torch") from None

_TIMEOUT = timedelta(seconds=60)
"""The time within which all ranks must join."""
_ON_THEIR_WAY = 1024
"""The most unreceived messages of a device before it waits for the first one."""
_FOREVER = timedelta(days=365)
"""No timeout: a rank may compute for as long as it takes."""


class TorchWorld(Launched):
    """The processes that `torchrun` started; in the user's process group, if there is one."""

    name = "torch"
    launcher = "torchrun --nproc-per-node={} --no-python"
    all_make_groups = True

    def __init__(self) -> None:
        self._was_joined = dist.is_initialized()  # by the user, who also leaves
        if "RANK" not in os.environ and not self._was_joined:
            raise ShardError(
                "the torch backend needs a launcher: "
                "torchrun --nproc-per-node=N -m shard_dialect.run ..."
            )
        local = int(os.environ.get("LOCAL_RANK", "0"))
        has_gpu = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if self._was_joined:
            has_gpu = "nccl" in dist.get_backend()
        self._device = torch.device("cuda", local) if has_gpu else torch.device("cpu")
        if has_gpu:
            torch.cuda.set_device(local)  # objects are exchanged on the current one
        try:
            if not self._was_joined:
                dist.init_process_group("nccl" if has_gpu else "gloo", timeout=_TIMEOUT)
            self._all = dist.new_group(timeout=_FOREVER)
        except (RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ShardError(
                f"cannot join the other torch processes: {reason}{_way_out()}"
            ) from None
        super().__init__(dist.get_rank(), dist.get_world_size())

    def join(self, grid: Grid, axes: Axes) -> _Group:
        """As `Member.join`."""
        ranks = grid.group_of(self.rank, axes)
        process_groups = {
            each: dist.new_group(sorted(each), timeout=_FOREVER) for each in grid.groups(axes)
        }
        return _Group(process_groups[ranks], ranks, self.rank, self._device)

    def gather(self, shards: Sequence[Shards]) -> list[Shards]:
        """As `World.gather`."""
        outputs: list[Shards] = [()] * self.size
        dist.all_gather_object(outputs, list(shards[0]), group=self._all)
        return outputs if self.speaks else []

    def share(self, messages: Sequence[str]) -> list[str]:
        """As `World.share`."""
        gathered: list[Sequence[str]] = [()] * self.size
        dist.all_gather_object(gathered, list(messages), group=self._all)
        return [each for texts in gathered for each in texts]

    def has_lost_others(self, error: BaseException) -> bool:
        """As `Launched.has_lost_others`."""
        if isinstance(error, dist.DistError):
            return True
        return isinstance(error, RuntimeError) and "gloo" in str(error)

    def close(self) -> None:
        """As `Launched.close`."""
        dist.barrier(self._all)  # another rank may still be receiving what this one has sent
        if not self._was_joined:
            dist.destroy_process_group()

    def abort(self) -> NoReturn:
        """As `Launched.abort`."""
        # Destroying the group would wait for peers; torchrun ends them when it sees our status.
        os._exit(1)


def _way_out() -> str:
    """The advice where gloo may have taken a network that other hosts do not reach."""
    numbers = [os.environ.get(name) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")]
    if numbers[0] == numbers[1] or "GLOO_SOCKET_IFNAME" in os.environ:
        return ""
    return ": name the network that all hosts share, as in GLOO_SOCKET_IFNAME=eth0"


class _Group:
    """A process group of the ranks of one device group.

    torch orders a group's members by rank; `_position_of` has each one's position in the device
    group.
    """

    def __init__(
        self, group: dist.ProcessGroup, ranks: tuple[int, ...], rank: int, device: torch.device
    ) -> None:
        self.size = len(ranks)
        self.index = ranks.index(rank)
        self._group = group
        self._ranks = ranks
        self._device = device
        self._is_gloo = device.type == "cpu"
        self._sent: list[tuple[dist.Work, torch.Tensor]] = []
        self._position_of = [ranks.index(each) for each in sorted(ranks)]

    def all_gather(self, send: Array, into: Array) -> None:
        if self._is_gloo:
            blocks = list(into.reshape(self.size, -1))
            blocks[self.index][...] = send.reshape(-1)
            self._swap([send] * self.size, blocks)
            return
        sent = self._bytes(send)
        slices_by_member = self._by_member(into)
        dist.all_gather(
            [slices_by_member[position] for position in self._position_of], sent, group=self._group
        )
        self._fill(into, slices_by_member)

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        if self._is_gloo and self.size == 2:
            received = np.empty_like(send)
            self._swap([send, send], [received, received])
            join((send, received) if self.index == 0 else (received, send), into, reduction)
            return
        if self._is_gloo or not _knows(send, reduction):
            all_reduce_in_chunks(self, send, into, reduction)
            return
        into[...] = send
        tensor = torch.from_numpy(into).to(self._device)
        dist.all_reduce(tensor, _operation(reduction), group=self._group)
        self._fill(into, tensor)

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        if self._is_gloo:
            blocks = list(send.reshape(self.size, -1))
            found = [np.empty_like(each) for each in blocks[1:]]
            found.insert(self.index, blocks[self.index])
            self._swap(blocks, found)
            join(found, into.reshape(-1), reduction)
            return
        if not _knows(send, reduction):
            reduce_scatter_in_chunks(self, send, into, reduction)
            return
        slices_by_member = torch.from_numpy(send.reshape(self.size, *into.shape)).to(self._device)
        result = torch.from_numpy(into).to(self._device)
        sent = [slices_by_member[position] for position in self._position_of]
        dist.reduce_scatter(result, sent, _operation(reduction), group=self._group)
        self._fill(into, result)

    def all_to_all(self, send: Array, into: Array) -> None:
        sent, slices_by_member = self._by_member(send), self._by_member(into)
        if self._position_of == list(range(self.size)):
            dist.all_to_all_single(slices_by_member, sent, group=self._group)
        else:
            received = torch.empty_like(slices_by_member)
            dist.all_to_all_single(received, sent[self._position_of], group=self._group)
            slices_by_member[self._position_of] = received
        self._fill(into, slices_by_member)

    def _swap(self, send: Sequence[Array], into: Sequence[Array]) -> None:
        """Send each other member its block of `send`, and receive its own.

        Of gloo's collectives, all but this one copy what is sent or received once more, and its
        reductions take many times as long as adding what is received.
        """
        talk = []
        for position in (*range(self.index + 1, self.size), *range(self.index)):
            rank = self._ranks[position]
            for do, array in ((dist.isend, send[position]), (dist.irecv, into[position])):
                talk.append(dist.P2POp(do, self._bytes(array), rank, group=self._group))
        for work in dist.batch_isend_irecv(talk) if talk else ():
            work.wait()

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        if to == self.index:
            into[...] = send
            return
        talk = []
        received = self._bytes(into)
        if to is not None:
            sent = self._bytes(send)
            talk.append(dist.P2POp(dist.isend, sent, self._ranks[to], group=self._group))
        if source is not None:
            talk.append(dist.P2POp(dist.irecv, received, self._ranks[source], group=self._group))
        for work in dist.batch_isend_irecv(talk) if talk else ():
            work.wait()
        self._fill(into, received)

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        if self.index == root:
            into[...] = send
        outputs = self._bytes(into)
        dist.broadcast(outputs, self._ranks[root], group=self._group)
        self._fill(into, outputs)

    def gather(self, send: Array, into: Array, root: int) -> None:
        into[...] = 0
        slices_by_member = self._by_member(into)
        outputs = self._if_root(root, slices_by_member)
        dist.gather(self._bytes(send), outputs, self._ranks[root], group=self._group)
        self._fill(into, slices_by_member)

    def scatter(self, send: Array, into: Array, root: int) -> None:
        slices_by_member, received = self._by_member(send), self._bytes(into)
        sent = self._if_root(root, slices_by_member)
        dist.scatter(received, sent, self._ranks[root], group=self._group)
        self._fill(into, received)

    def send(self, send: Array, to: int) -> None:
        sent = self._bytes(send).clone()  # torch reads it until it is received
        work = dist.isend(sent, self._ranks[to], group=self._group, tag=TAG)
        self._sent.append((work, sent))
        if len(self._sent) > _ON_THEIR_WAY:
            self._sent.pop(0)[0].wait()

    def receive(self, into: Array, source: int | None) -> None:
        received = self._bytes(into)
        origin = None if source is None else self._ranks[source]
        dist.recv(received, origin, group=self._group, tag=TAG)
        self._fill(into, received)

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        if not _knows(send, reduction):
            reduce_by_rows(self, send, into, root, reduction)
            return
        into[...] = send
        tensor = torch.from_numpy(into).to(self._device)
        dist.reduce(tensor, self._ranks[root], _operation(reduction), group=self._group)
        self._fill(into, tensor)
        if self.index != root:
            into[...] = 0

    def _if_root(self, root: int, slices: torch.Tensor) -> list[torch.Tensor] | None:
        """The slices in torch's order, on the root; `None` elsewhere."""
        is_root = self.index == root
        return [slices[position] for position in self._position_of] if is_root else None

    def _by_member(self, array: Array) -> torch.Tensor:
        """The bytes of each member's block of an array, one row each, in our order."""
        return self._bytes(array).reshape(self.size, -1)

    def _bytes(self, array: Array) -> torch.Tensor:
        """View as bytes: an exchange needs no element type. On a CPU the memory is shared."""
        return torch.from_numpy(array.reshape(-1).view(np.uint8)).to(self._device)

    def _fill(self, into: Array, tensor: torch.Tensor) -> None:
        """Copy a tensor to the code's buffer, unless it is that buffer."""
        if self._device.type != "cpu":
            received = tensor.cpu().numpy().reshape(-1)
            into.reshape(-1).view(received.dtype)[...] = received


def _operation(reduction: Reduction) -> dist.ReduceOp:
    return {
        "sum": dist.ReduceOp.SUM,
        "product": dist.ReduceOp.PRODUCT,
        "max": dist.ReduceOp.MAX,
        "min": dist.ReduceOp.MIN,
    }[reduction]


def _knows(array: Array, reduction: Reduction) -> bool:
    """Whether torch reduces the elements as MLIR does, with every backend.

    Gloo's maximum of a NaN and a number may be either.
    """
    if str(array.dtype) in ("int32", "int64"):
        return reduction in ("sum", "product", "max", "min")
    return str(array.dtype) in ("float32", "float64") and reduction in ("sum", "product")
