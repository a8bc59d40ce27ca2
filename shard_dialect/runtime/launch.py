"""Joining the processes that a launcher started."""

from __future__ import annotations

from shard_dialect.runtime.world import Launched


def join(backend: str) -> Launched | None:
    """Join the processes of MPI or torch; `None` for devices in this process.

    Raises `MissingExtra` if the backend's package is not installed.
    """
    if backend in ("mpi", "mpi4py"):
        from shard_dialect.runtime.mpi import MpiWorld

        return MpiWorld()
    if backend == "torch":
        from shard_dialect.runtime.torch_distributed import TorchWorld

        return TorchWorld()
    return None
