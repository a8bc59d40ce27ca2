"""Detect which launcher started this process, and its rank, by the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Rank:
    """This process among those that a launcher started together.

    `here` counts those on this machine, and `job` identifies them; it is empty, and `here` 1, where
    the launcher does not provide it.
    """

    number: int
    size: int
    here: int = 1
    job: str = ""

    @property
    def is_all_here(self) -> bool:
        """Whether no rank is on another machine."""
        return self.here == self.size


@dataclass(frozen=True, slots=True)
class Launcher:
    """The variables that a launcher sets, and how its jobs are told apart."""

    rank: str
    size: str
    here: str
    job: Callable[[Environment], str]

    def read(self, environment: Environment) -> Rank | None:
        """The rank of this process; `None` if this launcher did not start it."""
        numbers = [environment.get(name, "") for name in (self.rank, self.size)]
        if not all(map(str.isdecimal, numbers)):
            return None
        rank, size = map(int, numbers)
        here, job = environment.get(self.here, ""), self.job(environment)
        return Rank(rank, size, int(here), job) if here.isdecimal() and job else Rank(rank, size)


def _elastic(environment: Environment) -> str:
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    return "/".join(environment.get(name, "") for name in names)


def _namespace(environment: Environment) -> str:
    return environment.get("PMIX_NAMESPACE", "")


def _proxy(_: Environment) -> str:
    """Hydra has no name for a job, but all ranks on a machine come from one process of it."""
    return ancestor("hydra_pmi")


def ancestor(name: str) -> str:
    """The id and the start time of the nearest ancestor whose program's name begins with `name`."""
    process = os.getppid()
    while process > 1:
        try:
            # The name is in parentheses, and may hold some itself.
            begin, _, rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")
        except OSError:
            break
        fields = rest.split()
        if begin.partition("(")[2].startswith(name):
            return f"{process}/{fields[19]}"
        process = int(fields[1])
    return ""


TORCHRUN = Launcher("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", _elastic)
OPEN_MPI = Launcher(
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", _namespace
)
MPICH = Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", _proxy)


def launched_by(
    launchers: Sequence[Launcher], environment: Environment = os.environ
) -> Rank | None:
    """This process's rank if one of the launchers started it.

    >>> by_hand = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "2000"}
    >>> launched_by([MPICH, TORCHRUN], by_hand)
    Rank(number=1, size=2, here=1, job='')
    >>> launched_by([MPICH, OPEN_MPI], by_hand) is None
    True
    """
    for launcher in launchers:
        rank = launcher.read(environment)
        if rank is not None:
            return rank
    return None


def end_job(environment: Environment = os.environ) -> None:
    """Ask the launcher, if there is a way, to end every rank, and itself with status 1.

    Hydra ends the others when one has ended, and exits with the status that it ended them with. A
    message as of MPI_Abort makes that 1.
    """
    if "HYDI_CONTROL_FD" in environment and environment.get("PMI_FD", "").isdecimal():
        with suppress(OSError):  # it may be ending already
            os.write(int(environment["PMI_FD"]), b"cmd=abort exitcode=1\n")


def ends_by_itself(environment: Environment = os.environ) -> bool:
    """Whether the launcher ends all ranks, with our status, once one has ended with status 1."""
    return "HYDI_CONTROL_FD" not in environment
