"""The launchers that are installed, and programs under them."""

import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MPI_FLAGS = {
    # Open MPI counts cores, and wants root to say that it means it, as containers often have it.
    "Open MPI": ("--oversubscribe", "--allow-run-as-root"),
    "MPICH": (),
}


@dataclass(frozen=True)
class Launch:
    """Ranks of a backend, as a launcher starts them; without one, devices in one process."""

    name: str
    backend: str
    launcher: str = ""
    flags: tuple[str, ...] = ()

    def command(self, ranks: int, *program: str) -> list[str]:
        """`program` is what Python is given."""
        if self.backend == "devices":
            return [sys.executable, *program, "--backend=devices"]
        if self.launcher.endswith("torchrun"):
            start = [self.launcher, "--standalone", f"--nproc-per-node={ranks}"]
        else:
            start = [self.launcher, *self.flags, "-n", str(ranks), sys.executable]
        return [*start, *program, f"--backend={self.backend}"]


def beside_python(program: str) -> str:
    return str(Path(sys.executable).parent / program)


def library_of(mpiexec: str) -> str | None:
    """Whose launcher it is: "MPICH" or "Open MPI"."""
    if not os.access(mpiexec, os.X_OK):
        return None
    command = [mpiexec, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    return "Open MPI" if "Open MPI" in said or "OpenRTE" in said else "MPICH"


def launches() -> list[Launch]:
    """Every backend that can run here, on every launcher beside this Python."""
    found = [Launch("devices", "devices")]
    mpiexec = beside_python("mpiexec")
    library = library_of(mpiexec)
    if library and importlib.util.find_spec("mpi4py"):
        found.append(Launch(f"mpi, {library}", "mpi", mpiexec, MPI_FLAGS[library]))
    torchrun = beside_python("torchrun")
    if importlib.util.find_spec("torch") and os.access(torchrun, os.X_OK):
        found.append(Launch("torch, gloo", "torch", torchrun))
    return found
