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
    the launcher does not provide it. `store` is the `host:port` of torchrun's store.
    """

    number: int
    size: int
    here: int = 1
    job: str = ""
    store: str = ""

    @property
    def is_all_here(self) -> bool:
        """Whether no rank is on another machine."""
        return self.here == self.size

    @property
    def has_own_stderr(self) -> bool:
        """Whether each machine shows what its ranks print. Others than torchrun show all on one."""
        return bool(self.store)


@dataclass(frozen=True, slots=True)
class Launcher:
    """The variables that a launcher sets, and how its jobs are told apart."""

    rank: str
    size: str
    here: str
    job: Callable[[Environment], str]
    store: Callable[[Environment], str] = lambda _: ""

    def read(self, environment: Environment) -> Rank | None:
        """The rank of this process; `None` if this launcher did not start it."""
        numbers = [environment.get(name, "") for name in (self.rank, self.size)]
        if not all(map(str.isdecimal, numbers)):
            return None
        rank, size = map(int, numbers)
        here, job = environment.get(self.here, ""), self.job(environment)
        here = _tasks_here(environment, here) if self.here == _TASKS_PER_NODE else here
        if not here.isdecimal() or not job:
            return Rank(rank, size)
        return Rank(rank, size, int(here), job, self.store(environment))


def _elastic(environment: Environment) -> str:
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    return "/".join(environment.get(name, "") for name in names)


def _elastic_store(environment: Environment) -> str:
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    return f"{address}:{port}" if address and port.isdecimal() else ""


def _step(environment: Environment) -> str:
    job, step = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_STEP_ID", "")
    return f"slurm/{job}.{step}" if job and step else ""


def _tasks_here(environment: Environment, per_node: str) -> str:
    """How many tasks are on this node.

    >>> _tasks_here({"SLURM_NODEID": "2"}, "4(x2),3")
    '3'
    """
    tasks: list[str] = []
    for each in per_node.split(","):
        number, _, times = each.partition("(x")
        times = times.rstrip(")")
        tasks += [number] * (int(times) if times.isdecimal() else 1)
    node = environment.get("SLURM_NODEID", "")
    return tasks[int(node)] if node.isdecimal() and int(node) < len(tasks) else ""


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


TORCHRUN = Launcher("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", _elastic, _elastic_store)
OPEN_MPI = Launcher(
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", _namespace
)
MPICH = Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", _proxy)
_TASKS_PER_NODE = "SLURM_STEP_TASKS_PER_NODE"
SLURM = Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", _TASKS_PER_NODE, _step)


def launched_by(
    launchers: Sequence[Launcher], environment: Environment = os.environ
) -> Rank | None:
    """This process's rank if one of the launchers started it.

    The first one counts, since it may itself have been started by another; unless it does not
    identify its job, and a later one that gives the same rank does: `srun` as MPICH sees it.

    >>> by_hand = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "2000"}
    >>> launched_by([MPICH, TORCHRUN], by_hand)
    Rank(number=1, size=2, here=1, job='', store='')
    >>> launched_by([MPICH, OPEN_MPI], by_hand) is None
    True
    """
    found = [rank for each in launchers if (rank := each.read(environment)) is not None]
    alike = [each for each in found if (each.number, each.size) == (found[0].number, found[0].size)]
    return next((each for each in alike if each.job), found[0] if found else None)


def end_job() -> None:
    """Ask the launcher, if there is a way, to end every rank, and itself with status 1.

    Hydra ends the others when one has ended, and exits with the status that it ended them with. A
    message as of MPI_Abort makes that 1.
    """
    if not ends_by_itself() and os.environ.get("PMI_FD", "").isdecimal():
        with suppress(OSError):  # it may be ending already
            os.write(int(os.environ["PMI_FD"]), b"cmd=abort exitcode=1\n")


def ends_by_itself(environment: Environment = os.environ) -> bool:
    """Whether the launcher ends all ranks, with our status, once one has ended with status 1.

    Hydra does not. It gives `HYDI_CONTROL_FD` to the ranks on its own machine only.
    """
    return "HYDI_CONTROL_FD" not in environment and MPICH.here not in environment
