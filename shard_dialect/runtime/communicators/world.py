"""The devices that a program runs on, as `run` sees them.

All are in this process, or one is here and the others are in other processes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import nullcontext
from typing import ClassVar, NoReturn, Protocol

from shard_dialect.abi.lowered_program import Program
from shard_dialect.abi.tensor_types import Array
from shard_dialect.analysis.trace_events import Event
from shard_dialect.errors import ShardError, first_line_of, flush, number_of, say
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.processes import watch
from shard_dialect.processes.startup import message_of
from shard_dialect.processes.to_parent import is_watched
from shard_dialect.runtime.communicators.announce_failures import AnnouncingCommunicator
from shard_dialect.runtime.communicators.perform_collectives import Member
from shard_dialect.runtime.communicators.thread_devices import run_devices
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.profiling.recorder import Recorder

Shards = Sequence[Array]


class Runnable(Protocol):
    """A program that was compiled for a world."""

    @property
    def program(self) -> Program:
        """Its boundary and collectives."""


MAX_DEVICES = 1024
"""The largest number of devices in one process; each is a thread."""
_GRACE = 1.0
"""The seconds that other ranks wait for rank 0 to print an error that all have."""


class World(ABC):
    """The devices `ranks` of this process; the process of rank 0 speaks for all."""

    name: str
    ranks: Sequence[int]

    @property
    def speaks(self) -> bool:
        """Whether this process has rank 0, and so prints and compares."""
        return 0 in self.ranks

    @classmethod
    def compile_local(cls, module: ir.Module, entry: str) -> Runnable:
        """Compile the function `entry` of a module in the local form, which is consumed."""
        run_pipeline(module, "lower")
        return Executable(module, entry)

    @abstractmethod
    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """Run this process's devices on their shards; return their shards of the results."""

    @abstractmethod
    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """As `run`, and what this process's devices did when."""

    @abstractmethod
    def gather(self, shards: Sequence[Shards]) -> list[Shards]:
        """Every device's shards by rank in the process of rank 0; nothing elsewhere."""

    @abstractmethod
    def share(self, messages: Sequence[str]) -> list[str]:
        """The messages of all processes, in the order of their ranks, in every process."""


class InProcess(World):
    """All devices in this process."""

    name = "devices"

    def __init__(self, size: int) -> None:
        if size > MAX_DEVICES:
            raise ShardError(
                f"the grid has {size:,} devices: in one process there can be "
                f"at most {MAX_DEVICES:,}"
            )
        self.ranks = range(size)

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`."""
        assert isinstance(executable, Executable), "compiled for this world"
        return run_devices(executable, inputs)

    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """As `World.profile`."""
        assert isinstance(executable, Executable), "compiled for this world"
        recorders = [Recorder(rank) for rank in self.ranks]
        outputs = run_devices(executable, inputs, recorders)
        return outputs, [event for each in recorders for event in each.events()]

    def gather(self, shards: Sequence[Shards]) -> list[Shards]:
        """As `World.gather`."""
        return list(shards)

    def share(self, messages: Sequence[str]) -> list[str]:
        """As `World.share`."""
        return list(messages)


class Launched(World, Member):
    """One device in this process, which a launcher started with its peers."""

    launcher: ClassVar[str]
    """The command that starts a number of ranks."""

    all_make_groups: ClassVar[bool] = False
    """Whether all processes create every group together, so that they must run one program."""

    def __init__(self, rank: int, size: int) -> None:
        super().__init__(rank)
        self.size = size
        self.ranks = (rank,)

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`, for the one device here."""
        assert isinstance(executable, Executable), "compiled for this world"
        for site in executable.program.sites.values():
            # By all, in one order: a stage of a pipeline may not use some groups.
            self.group(site.grid, site.step.axes)
        with self.recorder.running() if self.recorder else nullcontext():
            outputs = executable.run(inputs[0], AnnouncingCommunicator(self, self.fail))
        self.rest()
        return [outputs]

    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """As `World.profile`."""
        self.recorder = Recorder(self.rank)
        outputs = self.run(executable, inputs)
        events = self.recorder.events()
        self.recorder = None
        return outputs, events

    def fail(self, error: BaseException) -> None:
        """Report why this rank fails, and end all ranks. Returns only in a watched process."""
        is_lost = self.has_lost_others(error)
        text = (
            f"error: rank {self.rank} has lost the others: {first_line_of(error)}"
            if is_lost
            else message_of(error)
        )
        flush()
        if is_watched():
            watch.fail(text, is_lost=is_lost)
            return
        if is_lost or (isinstance(error, ShardError) and not self.speaks):
            time.sleep(_GRACE)
        say(text)
        self.abort()

    @abstractmethod
    def has_lost_others(self, error: BaseException) -> bool:
        """Whether the error may be a consequence of another rank's end."""

    @abstractmethod
    def close(self) -> None:
        """Leave the other processes, once the run is done."""

    @abstractmethod
    def abort(self) -> NoReturn:
        """End this process and the others."""

    def check_size(self, grid_size: int) -> None:
        """Raise unless there are as many processes as the grid has devices."""
        if self.size != grid_size:
            raise ShardError(
                f"{number_of(self.size, f'{self.name} rank')} {'is' if self.size == 1 else 'are'} "
                f"running, but the grid has {number_of(grid_size, 'device')}: start {grid_size}, "
                f"by {self.launcher.format(grid_size)} shard-run ..."
            )
