"""One device a process, talking MPI through mpi4py.

mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi --check
"""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.reductions import (
    all_reduce_by_parts,
    reduce_by_rows,
    reduce_scatter_by_parts,
)
from shard_dialect.runtime.world import Launched, Pieces

try:
    import mpi4py

    mpi4py.rc(initialize=False)  # whoever imports this may still become another process
    from mpi4py import MPI
except ImportError:
    raise MissingExtra("mpi4py", "mpi") from None
except RuntimeError as error:
    raise ShardError(f"mpi4py finds no MPI library: {str(error).splitlines()[0]}") from None

_OPERATIONS = {
    "sum": MPI.SUM,
    "product": MPI.PROD,
    "max": MPI.MAX,
    "min": MPI.MIN,
    "bitwise_and": MPI.BAND,
    "bitwise_or": MPI.BOR,
    "bitwise_xor": MPI.BXOR,
}


class MpiWorld(Launched):
    """The processes of `MPI.COMM_WORLD`."""

    name = "MPI"

    def __init__(self) -> None:
        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
            atexit.register(_finalize)
        super().__init__(MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())

    def join(self, grid: Grid, axes: Axes) -> _Group:
        return _Group(grid.group_of(self.rank, axes), self.rank)

    def gather(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        return MPI.COMM_WORLD.gather(list(pieces[0]), root=0) or []

    def share(self, messages: Sequence[str]) -> list[str]:
        return [each for found in MPI.COMM_WORLD.allgather(list(messages)) for each in found]

    def has_lost_others(self, error: BaseException) -> bool:
        return isinstance(error, MPI.Exception)

    def close(self) -> None:
        """All leave together when they exit."""

    def abort(self) -> NoReturn:
        MPI.COMM_WORLD.Abort(1)
        raise AssertionError("MPI_Abort returned")


def _finalize() -> None:
    if not MPI.Is_finalized():
        MPI.Finalize()


class _Group:
    """A communicator of the ranks of one device group, in the group's order."""

    def __init__(self, ranks: tuple[int, ...], rank: int) -> None:
        self.size = len(ranks)
        self.index = ranks.index(rank)
        world = MPI.COMM_WORLD.Get_group()
        self._comm = MPI.COMM_WORLD.Create_group(world.Incl(ranks))

    def all_gather(self, send: Array, into: Array) -> None:
        self._comm.Allgather(_raw(send), _raw(into))

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        if _knows(send, reduction):
            self._comm.Allreduce(send, into, op=_OPERATIONS[reduction])
        else:
            all_reduce_by_parts(self, send, into, reduction)

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        if _knows(send, reduction):
            self._comm.Reduce_scatter_block(send, into, op=_OPERATIONS[reduction])
        else:
            reduce_scatter_by_parts(self, send, into, reduction)

    def all_to_all(self, send: Array, into: Array) -> None:
        self._comm.Alltoall(_raw(send), _raw(into))

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        dest, origin = (MPI.PROC_NULL if each is None else each for each in (to, source))
        self._comm.Sendrecv(_raw(send), dest=dest, recvbuf=_raw(into), source=origin)

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        if self.index == root:
            into[...] = send
        self._comm.Bcast(_raw(into), root)

    def gather(self, send: Array, into: Array, root: int) -> None:
        self._comm.Gather(_raw(send), _raw(into), root)
        if self.index != root:
            into[...] = 0

    def scatter(self, send: Array, into: Array, root: int) -> None:
        self._comm.Scatter(_raw(send), _raw(into), root)

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        if not _knows(send, reduction):
            reduce_by_rows(self, send, into, root, reduction)
            return
        self._comm.Reduce(send, into, op=_OPERATIONS[reduction], root=root)
        if self.index != root:
            into[...] = 0


def _raw(array: Array) -> Array:
    """The bytes: exchanges need no element type, and MPI has none for half precision."""
    return array.reshape(-1).view(np.uint8)


def _knows(array: Array, reduction: Reduction) -> bool:
    """Whether MPI reduces the elements as MLIR does: it has no half precision, and its maximum of a
    NaN and a number may be either.
    """
    if reduction not in _OPERATIONS:
        return False
    if array.dtype.kind in "iu":
        return True
    is_wide = str(array.dtype) in ("float32", "float64", "complex64", "complex128")
    return is_wide and reduction in ("sum", "product")
