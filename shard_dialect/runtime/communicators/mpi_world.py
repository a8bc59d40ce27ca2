"""One device per process, communicating by MPI: natively, or through mpi4py.

mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi --check
mpiexec -n 4 python -m shard_dialect.run in.mlir --backend=mpi4py --check
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from shard_dialect.abi.lowered_program import Handle
from shard_dialect.abi.tensor_types import Array
from shard_dialect.collectives.messages import TAG
from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.passes.lower.mpi.mpi_code import FAILED, FUNCTIONS
from shard_dialect.processes import watch
from shard_dialect.runtime.communicators.join_shards import (
    all_reduce_in_chunks,
    reduce_by_rows,
    reduce_scatter_in_chunks,
)
from shard_dialect.runtime.communicators.world import Launched, Runnable, Shards
from shard_dialect.runtime.executable import Executable

try:
    import mpi4py

    mpi4py.rc(initialize=False)  # the importing process may still fork
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


_TYPES = {
    "i8": MPI.INT8_T,
    "i16": MPI.INT16_T,
    "i32": MPI.INT32_T,
    "i64": MPI.INT64_T,
    "f32": MPI.FLOAT,
    "f64": MPI.DOUBLE,
    "complex<f32>": MPI.C_FLOAT_COMPLEX,
    "complex<f64>": MPI.C_DOUBLE_COMPLEX,
}


class MpiWorld(Launched):
    """The processes of `MPI.COMM_WORLD`."""

    name = "MPI"
    launcher = "mpiexec -n {}"

    def __init__(self) -> None:
        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
            atexit.register(_finalize)
        super().__init__(MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size())
        self._communicators: list[MPI.Comm] = []

    def join(self, grid: Grid, axes: Axes) -> _Group:
        """As `Member.join`."""
        group = _Group(grid.group_of(self.rank, axes), self.rank)
        self._communicators.append(group.communicator)
        return group

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`; native code gets its handles first."""
        assert isinstance(executable, Executable), "compiled for this world"
        if executable.program.handles:
            numbers = [self._number(each) for each in executable.program.handles]
            executable.bind(numbers, functions())
        return super().run(executable, inputs)

    def _number(self, handle: Handle) -> int:
        """The number that a handle of native code describes."""
        if handle.group:
            group = self.group(*handle.group)
            assert isinstance(group, _Group), "this world joins no others"
            return MPI._handleof(group.communicator)
        match handle.kind:
            case "rank":
                return self.rank
            case "no_one":
                return MPI.PROC_NULL
            case "anyone":
                return MPI.ANY_SOURCE
            case "op":
                return MPI._handleof(_OPERATIONS[handle.name])
        return MPI._handleof(_TYPES[handle.name])

    def gather(self, shards: Sequence[Shards]) -> list[Shards]:
        """As `World.gather`."""
        return MPI.COMM_WORLD.gather(list(shards[0]), root=0) or []

    def share(self, messages: Sequence[str]) -> list[str]:
        """As `World.share`."""
        return [each for texts in MPI.COMM_WORLD.allgather(list(messages)) for each in texts]

    def has_lost_others(self, error: BaseException) -> bool:
        """As `Launched.has_lost_others`."""
        return isinstance(error, MPI.Exception)

    def close(self) -> None:
        """Leave all together: another rank may still be receiving what this one has sent."""
        MPI.COMM_WORLD.Barrier()
        for communicator in self._communicators:
            communicator.Free()

    def abort(self) -> NoReturn:
        """As `Launched.abort`, by `MPI_Abort`."""
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
        self.communicator = MPI.COMM_WORLD.Create_group(world.Incl(ranks))
        self._sent: list[tuple[MPI.Request, Array]] = []

    def all_gather(self, send: Array, into: Array) -> None:
        self.communicator.Allgather(_raw(send), _raw(into))

    def all_reduce(self, send: Array, into: Array, reduction: Reduction) -> None:
        if _knows(send, reduction):
            self.communicator.Allreduce(send, into, op=_OPERATIONS[reduction])
        else:
            all_reduce_in_chunks(self, send, into, reduction)

    def reduce_scatter(self, send: Array, into: Array, reduction: Reduction) -> None:
        if _knows(send, reduction):
            self.communicator.Reduce_scatter_block(send, into, op=_OPERATIONS[reduction])
        else:
            reduce_scatter_in_chunks(self, send, into, reduction)

    def all_to_all(self, send: Array, into: Array) -> None:
        self.communicator.Alltoall(_raw(send), _raw(into))

    def permute(self, send: Array, into: Array, to: int | None, source: int | None) -> None:
        dest, origin = (MPI.PROC_NULL if each is None else each for each in (to, source))
        # With a tag of its own, so that it cannot match another message from the same device.
        self.communicator.Sendrecv(_raw(send), dest, 0, _raw(into), origin, 0)

    def broadcast(self, send: Array, into: Array, root: int) -> None:
        if self.index == root:
            into[...] = send
        self.communicator.Bcast(_raw(into), root)

    def gather(self, send: Array, into: Array, root: int) -> None:
        self.communicator.Gather(_raw(send), _raw(into), root)
        if self.index != root:
            into[...] = 0

    def scatter(self, send: Array, into: Array, root: int) -> None:
        self.communicator.Scatter(_raw(send), _raw(into), root)

    def send(self, send: Array, to: int) -> None:
        copy = _raw(send).copy()  # MPI reads it until it has been received
        request = self.communicator.Isend(copy, to, TAG)
        self._sent = [each for each in self._sent if not each[0].Test()]
        self._sent.append((request, copy))

    def receive(self, into: Array, source: int | None) -> None:
        self.communicator.Recv(_raw(into), MPI.ANY_SOURCE if source is None else source, TAG)

    def reduce(self, send: Array, into: Array, root: int, reduction: Reduction) -> None:
        if not _knows(send, reduction):
            reduce_by_rows(self, send, into, root, reduction)
            return
        self.communicator.Reduce(send, into, op=_OPERATIONS[reduction], root=root)
        if self.index != root:
            into[...] = 0


def _raw(array: Array) -> Array:
    """View as bytes: exchanges need no element type, and MPI has none for half precision."""
    return array.reshape(-1).view(np.uint8)


def _knows(array: Array, reduction: Reduction) -> bool:
    """Whether MPI reduces the elements as MLIR does.

    MPI has no half precision, and its maximum of a NaN and a number may be either.
    """
    if reduction not in _OPERATIONS:
        return False
    if array.dtype.kind in "iu":
        return True
    is_wide = str(array.dtype) in ("float32", "float64", "complex64", "complex128")
    return is_wide and reduction in ("sum", "product")


def functions() -> dict[str, int]:
    """The addresses of MPI's functions, by name, in the library that mpi4py has loaded."""
    library = ctypes.CDLL(MPI.__file__)
    others = {FAILED: _FAILED}
    return {name: _address(others.get(name) or getattr(library, name)) for name in FUNCTIONS}


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _failed(code: int) -> NoReturn:
    """End all ranks: the code cannot continue, and an exception cannot leave it."""
    MpiWorld().fail(MPI.Exception(code))
    watch.leave()


_FAILED = ctypes.CFUNCTYPE(None, ctypes.c_int)(_failed)
