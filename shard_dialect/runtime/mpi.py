"""One device a process, talking MPI through mpi4py.

mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi --check
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.collectives import REDUCE
from shard_dialect.runtime.world import Launched, Pieces

try:
    from mpi4py import MPI
except ImportError:
    raise MissingExtra("mpi4py", "mpi") from None
except RuntimeError as error:
    raise ShardError(f"mpi4py finds no MPI library: {str(error).splitlines()[0]}") from None

_OPERATIONS = {"sum": MPI.SUM, "product": MPI.PROD, "max": MPI.MAX, "min": MPI.MIN}


class MpiWorld(Launched):
    """The processes of `MPI.COMM_WORLD`."""

    name = "MPI"

    def __init__(self) -> None:
        super().__init__(MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())

    def join(self, grid: Grid, axes: Axes) -> _Group:
        return _Group(grid.group_of(self.rank, axes), self.rank)

    def gather(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        return MPI.COMM_WORLD.gather(list(pieces[0]), root=0) or []

    def share(self, messages: Sequence[str]) -> list[str]:
        return [each for found in MPI.COMM_WORLD.allgather(list(messages)) for each in found]

    def close(self, *, failed: bool) -> None:
        if failed:
            sys.stdout.flush()
            sys.stderr.flush()
            MPI.COMM_WORLD.Abort(1)


class _Group:
    """A communicator of the ranks of one device group, in the group's order."""

    def __init__(self, ranks: tuple[int, ...], rank: int) -> None:
        self.size = len(ranks)
        self.index = ranks.index(rank)
        world = MPI.COMM_WORLD.Get_group()
        self._comm = MPI.COMM_WORLD.Create_group(world.Incl(ranks))

    def all_gather(self, send: Array) -> Array:
        rows = np.empty((self.size, *send.shape), send.dtype)
        self._comm.Allgather(_raw(send), _raw(rows))
        return rows

    def all_reduce(self, send: Array, reduction: Reduction) -> Array:
        if not _knows(send, reduction):
            return REDUCE[reduction](self.all_gather(send))
        result = np.empty_like(send)
        self._comm.Allreduce(send, result, op=_OPERATIONS[reduction])
        return result

    def reduce_scatter(self, send: Array, reduction: Reduction) -> Array:
        if not _knows(send, reduction):
            return REDUCE[reduction](self.all_to_all(send))
        result = np.empty(send.shape[1:], send.dtype)
        self._comm.Reduce_scatter_block(send, result, op=_OPERATIONS[reduction])
        return result

    def all_to_all(self, send: Array) -> Array:
        rows = np.empty_like(send)
        self._comm.Alltoall(_raw(send), _raw(rows))
        return rows

    def permute(self, send: Array, to: int | None, source: int | None) -> Array | None:
        result = np.empty_like(send)
        dest, origin = (MPI.PROC_NULL if each is None else each for each in (to, source))
        self._comm.Sendrecv(_raw(send), dest=dest, recvbuf=_raw(result), source=origin)
        return None if source is None else result


def _raw(array: Array) -> Array:
    """The bytes: exchanges need no element type, and MPI has none for half precision."""
    return array.reshape(-1).view(np.uint8)


def _knows(array: Array, reduction: Reduction) -> bool:
    """Whether MPI reduces the elements as MLIR does: it has no half precision, and its maximum of a
    NaN and a number may be either.
    """
    if array.dtype.kind == "i":
        return reduction in ("sum", "product", "max", "min")
    return str(array.dtype) in ("float32", "float64") and reduction in ("sum", "product")
