"""The functions of the running MPI that compiled code calls itself."""

from __future__ import annotations

import ctypes
import sys
from typing import NoReturn

from shard_dialect.errors import MissingExtra
from shard_dialect.passes.mpi_code import FAILED

try:
    from mpi4py import MPI
except ImportError:
    raise MissingExtra("mpi4py", "mpi") from None

_NAMES = (
    "Allgather Iallgather Allreduce Iallreduce Reduce_scatter_block Ireduce_scatter_block "
    "Alltoall Ialltoall Sendrecv Isendrecv Bcast Ibcast Gather Igather Scatter Iscatter "
    "Reduce Ireduce Wait"
)


def functions() -> dict[str, int]:
    """Their addresses by name, in the library that mpi4py has loaded."""
    library = ctypes.CDLL(MPI.__file__)
    found = {f"MPI_{name}": getattr(library, f"MPI_{name}") for name in _NAMES.split()}
    return {name: _address(each) for name, each in {**found, FAILED: _FAILED}.items()}


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _failed(code: int) -> NoReturn:
    """End all ranks: the code cannot go on, nor can an exception leave it."""
    print(f"error: MPI failed: {MPI.Get_error_string(code)}", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(1)
    raise SystemExit(1)


_FAILED = ctypes.CFUNCTYPE(None, ctypes.c_int)(_failed)
