"""The devices that a program runs on, as `run` sees them: all here, or one here and the others in
other processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from shard_dialect.errors import ShardError
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.collectives import Member
from shard_dialect.runtime.devices import run_devices
from shard_dialect.runtime.executable import Executable

Pieces = Sequence[Array]
MAX_DEVICES = 1024
"""In one process; each is a thread."""
BACKENDS = ("devices", "mpi", "mpi4py", "torch")


class World(ABC):
    """`ranks` are the devices of this process; the process of rank 0 speaks for all."""

    name: str
    ranks: Sequence[int]

    @property
    def speaks(self) -> bool:
        return 0 in self.ranks

    @abstractmethod
    def run(self, executable: Executable, inputs: Sequence[Pieces]) -> list[list[Array]]:
        """Run this process's devices on their pieces; gives their pieces of the results."""

    @abstractmethod
    def gather(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        """Every device's pieces by rank where rank 0 is, nothing elsewhere."""

    @abstractmethod
    def share(self, messages: Sequence[str]) -> list[str]:
        """The messages of all processes, in the order of their ranks, everywhere."""


class InProcess(World):
    """All devices in this process."""

    name = "devices"

    def __init__(self, size: int) -> None:
        if size > MAX_DEVICES:
            raise ShardError(
                f"the grid has {size} devices: in one process there can be {MAX_DEVICES}"
            )
        self.ranks = range(size)

    def run(self, executable: Executable, inputs: Sequence[Pieces]) -> list[list[Array]]:
        return run_devices(executable, inputs)

    def gather(self, pieces: Sequence[Pieces]) -> list[Pieces]:
        return list(pieces)

    def share(self, messages: Sequence[str]) -> list[str]:
        return list(messages)


class Launched(World, Member):
    """One device in this process, started by a launcher together with its peers."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank)
        self.size = size
        self.ranks = (rank,)

    def run(self, executable: Executable, inputs: Sequence[Pieces]) -> list[list[Array]]:
        for site in executable.program.sites.values():
            # By all and in one order, as a stage of a pipeline may not use some.
            self.group(site.grid, site.step.axes)
        outputs = executable.run(inputs[0], self)
        self.rest()
        return [outputs]

    @abstractmethod
    def close(self, *, failed: bool) -> None:
        """Leave the other processes; if this one has failed, end them too."""

    def check_size(self, grid_size: int) -> None:
        """Raise unless there are as many processes as the grid has devices."""
        if self.size != grid_size:
            raise ShardError(
                f"{self.size} {self.name} ranks are running, but the grid has {grid_size} devices: "
                f"start {grid_size}"
            )
