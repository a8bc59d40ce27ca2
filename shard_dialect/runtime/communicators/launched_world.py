"""The backends, and how to join the processes that a launcher started.

`registered_devices` has those of users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from shard_dialect.processes.launchers import MPICH, OPEN_MPI, SLURM, TORCHRUN, Launcher

if TYPE_CHECKING:
    from shard_dialect.runtime.communicators.world import Launched

BACKENDS: Mapping[str, Sequence[Launcher]] = {
    "devices": (),
    "mpi": (OPEN_MPI, MPICH, SLURM),
    "mpi4py": (OPEN_MPI, MPICH, SLURM),
    "torch": (TORCHRUN,),
    "xla": (),
}
"""For each backend, the launchers that may have started its ranks."""


def world_of(
    backend: str, compiler: str | None = None, *, compiles: bool = False
) -> Callable[[], Launched] | None:
    """A function that joins the processes of MPI or torch; `None` for devices in this process.

    With the compiler "torch", the ranks compute with torch, and `compiles` lets torch.compile
    compile the computation.

    Slow work that waits for no other process (importing torch takes seconds) is done before that
    function is called. Raises `MissingExtra` if the backend's package is not installed.
    """
    if backend in ("mpi", "mpi4py"):
        from shard_dialect.runtime.communicators.mpi_world import MpiWorld

        return MpiWorld
    if compiler == "torch":
        from shard_dialect.runtime.torch_executable import TorchRanks

        return partial(TorchRanks, compiles=compiles)
    if backend == "torch":
        from shard_dialect.runtime.communicators.torch_world import TorchWorld

        return TorchWorld
    return None
