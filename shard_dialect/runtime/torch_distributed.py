"""One device a process, talking through torch.distributed: gloo on CPUs, NCCL where each has a GPU.

torchrun --nproc-per-node=4 -m shard_dialect.run in.mlir --backend=torch --check
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import timedelta

import numpy as np

from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.collectives import REDUCE
from shard_dialect.runtime.world import Launched, Pieces

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise MissingExtra("torch", "torch") from None

_TIMEOUT = timedelta(seconds=60)


class TorchWorld(Launched):
    """The processes that `torchrun` started."""

    name = "torch"

    def __init__(self) -> None:
        if "RANK" not in os.environ:
            raise ShardError(
                "the torch backend needs a launcher: "
                "torchrun --nproc-per-node=N -m shard_dialect.run ..."
            )
        local = int(os.environ.get("LOCAL_RANK", "0"))
        self._has_gpu = torch.cuda.is_available() and local < torch.cuda.device_count()
        self._device = torch.device("cuda", local) if self._has_gpu else torch.device("cpu")
        try:
            dist.init_process_group("nccl" if self._has_gpu else "gloo", timeout=_TIMEOUT)
        except (RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ShardError(f"cannot join the other torch processes: {reason}") from None
        super().__init__(dist.get_rank(), dist.get_world_size())

    def join(self, grid: Grid, axes: Axes) -> _Group:
        ranks = grid.group_of(self.rank, axes)
        # Of its members alone: the devices of another stage may never talk along these axes.
        made = dist.new_group(sorted(ranks), use_local_synchronization=True)
        return _Group(made, ranks, self.rank, self._device)

    def gather(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        found: list[Pieces] = [()] * self.size
        dist.all_gather_object(found, list(pieces[0]))
        return found if self.speaks else []

    def share(self, messages: Sequence[str]) -> list[str]:
        found: list[Sequence[str]] = [()] * self.size
        dist.all_gather_object(found, list(messages))
        return [each for given in found for each in given]

    def close(self, *, failed: bool) -> None:
        if not failed:
            dist.destroy_process_group()
            return
        # Tearing the group down would wait for peers; torchrun ends them when it sees our status.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


class _Group:
    """A process group of the ranks of one device group.

    torch orders a group's members by rank; `_order` is where each member in the device group's
    order stands there.
    """

    def __init__(
        self, group: dist.ProcessGroup, ranks: tuple[int, ...], rank: int, device: torch.device
    ) -> None:
        self.size = len(ranks)
        self.index = ranks.index(rank)
        self._group = group
        self._ranks = ranks
        self._device = device
        self._order = [sorted(ranks).index(each) for each in ranks]

    def all_gather(self, send: Array) -> Array:
        given = self._bits(send)
        rows = [torch.empty_like(given) for _ in range(self.size)]
        dist.all_gather(rows, given, group=self._group)
        return np.stack([self._array(rows[place], send) for place in self._order])

    def all_reduce(self, send: Array, reduction: Reduction) -> Array:
        if not _knows(send, reduction):
            return REDUCE[reduction](self.all_gather(send))
        tensor = torch.from_numpy(send.copy()).to(self._device)
        dist.all_reduce(tensor, _operation(reduction), group=self._group)
        return tensor.cpu().numpy()

    def reduce_scatter(self, send: Array, reduction: Reduction) -> Array:
        if not _knows(send, reduction):
            return REDUCE[reduction](self.all_to_all(send))
        rows = torch.from_numpy(self._by_rank(send)).to(self._device)
        result = torch.empty_like(rows[0])
        dist.reduce_scatter(result, list(rows), _operation(reduction), group=self._group)
        return result.cpu().numpy()

    def all_to_all(self, send: Array) -> Array:
        given = self._bits(self._by_rank(send))
        rows = torch.empty_like(given)
        dist.all_to_all_single(rows, given, group=self._group)
        return self._array(rows, send)[self._order]

    def permute(self, send: Array, to: int | None, source: int | None) -> Array | None:
        if to == self.index:
            return send
        given = self._bits(send)
        got = torch.empty_like(given)
        talk = []
        if to is not None:
            talk.append(dist.P2POp(dist.isend, given, self._ranks[to], group=self._group))
        if source is not None:
            talk.append(dist.P2POp(dist.irecv, got, self._ranks[source], group=self._group))
        for work in dist.batch_isend_irecv(talk) if talk else ():
            work.wait()
        return None if source is None else self._array(got, send)

    def _by_rank(self, rows: Array) -> Array:
        """The rows in the order of torch's members instead of ours."""
        ordered = np.empty_like(rows)
        ordered[self._order] = rows
        return ordered

    def _bits(self, array: Array) -> torch.Tensor:
        """The elements as integers of their size: an exchange need not know what they are."""
        kind = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[array.dtype.itemsize]
        return torch.from_numpy(np.ascontiguousarray(array).view(kind)).to(self._device)

    def _array(self, bits: torch.Tensor, like: Array) -> Array:
        return bits.cpu().numpy().view(like.dtype)


def _operation(reduction: Reduction) -> dist.ReduceOp:
    return {
        "sum": dist.ReduceOp.SUM,
        "product": dist.ReduceOp.PRODUCT,
        "max": dist.ReduceOp.MAX,
        "min": dist.ReduceOp.MIN,
    }[reduction]


def _knows(array: Array, reduction: Reduction) -> bool:
    """Whether torch reduces the elements as MLIR does, with every backend: gloo's maximum of a NaN
    and a number may be either.
    """
    if str(array.dtype) in ("int32", "int64"):
        return reduction in ("sum", "product", "max", "min")
    return str(array.dtype) in ("float32", "float64") and reduction in ("sum", "product")
