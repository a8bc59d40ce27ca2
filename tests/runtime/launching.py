"""The launchers that are installed, and programs under them."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.forks import ANY, TORCHRUN, WITH_TORCH, forks_of

MPI_FLAGS = {
    # Open MPI counts cores, and wants root to say that it means it, as containers often have it;
    # more ranks than cores are to yield where they wait.
    "Open MPI": (
        "--oversubscribe",
        "--allow-run-as-root",
        "--bind-to",
        "none",
        "--mca",
        "mpi_yield_when_idle",
        "1",
    ),
    "MPICH": (),
}
MPI_BACKENDS = ("mpi", "mpi4py")
"""Those of `run` whose ranks `mpiexec` starts."""


@dataclass(frozen=True)
class Launch:
    """Ranks of a backend, as a launcher starts them; without one, devices in one process."""

    name: str
    backend: str
    python: str = sys.executable
    launcher: tuple[str, ...] = ()

    def command(self, ranks: int, *program: str) -> list[str]:
        """`program` is what Python is given."""
        rest = [*program, f"--backend={self.backend}"]
        if not self.launcher:
            return [self.python, *rest]
        if self.backend == "torch":
            return [*self.launcher, f"--nproc-per-node={ranks}", *rest]
        return [*self.launcher, "-n", str(ranks), self.python, *rest]

    def forked(self, ranks: int, *program: str) -> list[str]:
        """The same, with forks of Pythons that have imported what ranks do.

        For tests of programs: how they start is that of `command`. MPICH's ranks of `run` are no
        forks: they know each other by the process that has started them.
        """
        if self.launcher and self.backend != "torch" and "shard_dialect.run" in program:
            return self.command(ranks, *program)
        return self.forks(ranks, *program, f"--backend={self.backend}")

    def forks(
        self,
        ranks: int,
        *program: str,
        torch: str = WITH_TORCH,
        command_of: Callable[..., Sequence[str]] = forks_of,
    ) -> list[str]:
        """`forked` for a program that is for one backend, so that there is no choice."""
        if self.backend == "torch":
            torchrun = [*command_of(TORCHRUN), *self.launcher[1:], f"--nproc-per-node={ranks}"]
            python = command_of(torch, OMP_NUM_THREADS="1")  # as torchrun has it
            return [*torchrun, "--no-python", *python, *program]
        launcher = [*self.launcher, "-n", str(ranks)] if self.launcher else []
        is_known = not self.launcher or "MPICH" in self.name  # how its ranks talk to the launcher
        return [*launcher, *(command_of(ANY) if is_known else [self.python]), *program]


def launches(python: str = sys.executable) -> list[Launch]:
    """Every backend that runs with this Python, on every launcher beside it."""
    found = [Launch("devices", "devices", python)]
    mpiexec, torchrun = (str(Path(python).parent / name) for name in ("mpiexec", "torchrun"))
    library = library_of(mpiexec)
    if library and _has(python, "mpi4py"):
        launcher = (mpiexec, *MPI_FLAGS[library])
        found += [Launch(f"{each}, {library}", each, python, launcher) for each in MPI_BACKENDS]
    if os.access(torchrun, os.X_OK) and _has(python, "torch"):
        found.append(Launch("torch, gloo", "torch", python, (torchrun, "--standalone")))
    return found


@cache
def library_of(mpiexec: str) -> str | None:
    """Whose launcher it is, "MPICH" or "Open MPI"; `None` if there is none."""
    if not os.access(mpiexec, os.X_OK):
        return None
    command = [mpiexec, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    return "Open MPI" if "Open MPI" in said else "MPICH"


@cache
def _has(python: str, module: str) -> bool:
    find = f"import importlib.util, sys; sys.exit(not importlib.util.find_spec({module!r}))"
    return subprocess.run([python, "-c", find], timeout=60).returncode == 0
