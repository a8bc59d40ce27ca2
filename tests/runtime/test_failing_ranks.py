"""When one rank fails, all end within ten seconds, the first error is said once, status is 1."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import start_child
from tests.extras import launched
from tests.runtime.launching import Launch, launches

pytestmark = pytest.mark.usefixtures("unoptimized")

RANKS = 2
SECONDS = 10.0
START = 90.0
"""Within this all ranks compute, on a machine that has much else to do."""
PROGRAM = "examples/mlp_1d.mlir"

PLUGIN = '''
"""Faults on rank 1, as the environment says which and where; each rank leaves a mark."""
import ctypes, os, pathlib, signal, time

from shard_dialect.runtime.communicators.perform_collectives import Member
from shard_dialect.runtime.executable import Executable

PLACE, _, FAULT = os.environ["TEST_FAULT"].partition(" ")
MARKS = pathlib.Path(os.environ["TEST_MARKS"])


def reach(place, rank):
    (MARKS / f"{place} {rank} {os.getpid()} {os.getppid()}").touch()
    if place == PLACE and rank == 1:
        (MARKS / "fault").touch()
        FAULTS[FAULT]()


def raise_error():
    raise ValueError("a fault of the test")


def run_out_of_memory():
    raise MemoryError


FAULTS = {
    "exception": raise_error,
    "memory": run_out_of_memory,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": lambda: ctypes.string_at(0),
    "interrupt": lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(600)),
    "exit": lambda: os._exit(0),
    "sleep": lambda: time.sleep(600),
}
perform = Member.perform


def reaching(self, site, source, target):
    reach("collective", self.rank)
    perform(self, site, source, target)


run = Executable.run


def running(self, inputs, communicator):
    if self.program.handles:  # its collectives are none of Python's: others wait in them
        reach("collective", communicator.rank)
    return run(self, inputs, communicator)


Member.perform = reaching
Executable.run = running
reach("load", int(os.environ.get("RANK", os.environ.get("PMI_RANK", os.environ.get(
    "OMPI_COMM_WORLD_RANK", "1")))))
'''

WRAPPER = """
import os, sys, time
from shard_dialect.run import main

names = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
rank = next(int(os.environ[name]) for name in names if name in os.environ)
if rank == 1:
    {fault}
sys.exit(main())
"""


@dataclass
class Job:
    """A launched program, and the marks that its ranks leave."""

    child: "subprocess.Popen[str]"
    marks: Path

    def wait_for(self, *names: str) -> None:
        """Wait until there are marks that begin with the names."""
        deadline = time.monotonic() + START
        while not all(list(self.marks.glob(f"{name}*")) for name in names):
            assert time.monotonic() < deadline, self.end()
            assert self.child.poll() is None, self.end()
            time.sleep(0.05)

    def processes(self, place: str, rank: int) -> tuple[int, int]:
        """The rank's process, and its parent: what the launcher started."""
        found = next(self.marks.glob(f"{place} {rank} *"))
        child, parent = found.name.split()[2:]
        return int(child), int(parent)

    def end(self, since: float | None = None) -> str:
        """Wait for its end; `since` is when the ten seconds began, if there is no mark of it."""
        try:
            out, err = self.child.communicate(timeout=START)
        except subprocess.TimeoutExpired:
            for process in self.left():
                os.kill(process, signal.SIGKILL)
            out, err = self.child.communicate()
            pytest.fail(f"did not end\n{out}\n{err}")
        ended = time.time()
        mark = self.marks / "fault"
        begin = mark.stat().st_mtime if mark.exists() else since
        if begin is not None:
            assert ended - begin < SECONDS, f"{ended - begin:.1f} s\n{out}\n{err}"
        deadline = time.monotonic() + 2
        while self.left() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not self.left(), err
        return err

    def left(self) -> list[int]:
        """The processes that have our marks in their environment."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    environment = (folder / "environ").read_bytes()
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if f"TEST_MARKS={self.marks}\0".encode() in environment and state != "Z":
                    found.append(int(folder.name))
        return found


Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    marks = tmp_path / "marks"
    marks.mkdir()
    plugin = tmp_path / "fault.py"
    plugin.write_text(PLUGIN)

    def call(
        launch: Launch,
        fault: str,
        *arguments: str,
        program: tuple[str, ...] = ("-m", "shard_dialect.run"),
        source: str = PROGRAM,
    ) -> Job:
        run = (*program, source, "--check", *arguments)
        command = launch.command(RANKS, *run, f"--load-plugin={plugin}")
        return Job(start_child(command, TEST_FAULT=fault, TEST_MARKS=str(marks)), marks)

    return call


LAUNCHED = ("mpi", "torch")
"""Native MPI is the harder half: who waits in it hears nothing."""
ALL = ("devices", *LAUNCHED)


def on(
    *backends: str, torch: Collection[tuple[object, ...]] = (), **each: Mapping[str, object]
) -> pytest.MarkDecorator:
    """Every product of the launches of `backends` and the values, which have their names.

    Torch's ranks take seconds to start, and all that is tested is the same on another backend: of
    them every run has only the products `torch`, by name.
    """
    found = []
    for launch, *items in product(
        launched(*backends), *(values.items() for values in each.values())
    ):
        names = tuple(name for name, _ in items)
        is_left = "torch" in str(launch.id) and names not in torch
        found.append(
            pytest.param(
                *launch.values,
                *(value for _, value in items),
                id="-".join([*names[::-1], str(launch.id)]),
                marks=[*launch.marks, *([pytest.mark.exhaustive] if is_left else [])],
            )
        )
    return pytest.mark.parametrize(("launch", *each), found)


def who(launch: Launch) -> str:
    return "the program" if launch.backend == "devices" else "rank 1"


def errors(said: str) -> list[str]:
    """The lines that are errors: launchers and libraries have their own words."""
    return [line for line in said.splitlines() if re.match(r"(\S+:\d+:\d+: )?error: ", line)]


INTERNAL = "error: internal error in the compiled program: ValueError: a fault of the test"


ENDS = {
    "kill": "error: {who} was killed (SIGKILL) in {what}: perhaps the memory ran out",
    "segfault": "error: {who} crashed (SIGSEGV) in {what}",
    "memory": "error: there is not enough memory for {what}",
    "interrupt": "error: interrupted",
    "exit": "error: {who} ended in {what}, with exit status 0",
}


@on(
    *ALL,
    torch=[("kill", "collective"), ("exit", "load")],
    fault={each: each for each in ENDS},
    place={"load": "load", "collective": "collective"},
)
def test_a_rank_that_ends_ends_all(launch: Launch, place: str, fault: str, start: Start) -> None:
    message = ENDS[fault]
    if place == "load" and fault == "memory":
        message = "error: cannot load plugin '{plugin}': MemoryError"
    job = start(launch, f"{place} {fault}")
    said = job.end()
    plugin = job.marks.parent / "fault.py"
    what = f"plugin '{plugin}'" if place == "load" else "the compiled program"
    found = [re.sub(r"^\S+:\d+:\d+: ", "", error) for error in errors(said)]
    assert found == [message.format(who=who(launch), what=what, plugin=plugin)], said
    assert job.child.returncode == 1


@on(*ALL, torch=[("line",)], option={"line": [], "traceback": ["--debug"]})
def test_an_exception_is_shown_once(launch: Launch, option: list[str], start: Start) -> None:
    job = start(launch, "collective exception", *option)
    said = job.end()
    assert len(errors(said)) == 1, said
    line = errors(said)[0]
    assert INTERNAL in line
    assert said.count("--debug shows the traceback") == (not option)
    assert said.count("raise ValueError") == len(option), said
    assert job.child.returncode == 1


@on(*LAUNCHED)
def test_an_error_that_all_have_is_shown_once(launch: Launch, start: Start) -> None:
    job = start(launch, "", "--entry=nothing")
    said = job.end()
    assert len(errors(said)) == 1, said
    assert "nothing" in errors(said)[0]
    assert job.child.returncode == 1


SLOW = """
import sys, time
from datetime import timedelta
from shard_dialect.run import main
from shard_dialect.runtime.communicators import torch_world
from shard_dialect.runtime.communicators.world import Launched

run = Launched.run

def running(self, *arguments):
    found = run(self, *arguments)
    time.sleep(8 * self.rank)
    return found

torch_world._TIMEOUT = timedelta(seconds=4)
Launched.run = running
sys.exit(main())
"""


@pytest.mark.parametrize("launch", launched("torch"))
def test_a_slow_rank_is_waited_for(launch: Launch, start: Start, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper.py"
    wrapper.write_text(SLOW)
    job = start(launch, "", program=(str(wrapper),))
    said = job.end()
    assert job.child.returncode == 0, said


@on(*LAUNCHED)
def test_standard_input_is_refused(launch: Launch, start: Start) -> None:
    job = start(launch, "", source="-")
    said = job.end()
    assert errors(said) == ["error: standard input reaches one rank only: name a file"], said
    assert job.child.returncode == 1


@on(*LAUNCHED, fault={"sleeps": "time.sleep(600)", "exits": "os._exit(0)"})
def test_a_rank_that_never_starts(launch: Launch, fault: str, start: Start, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper.py"
    mark = "open(os.environ['TEST_MARKS'] + '/fault', 'w').close()"
    wrapper.write_text(WRAPPER.format(fault=f"{mark}; {fault}"))
    job = start(launch, "", program=(str(wrapper),))
    said = job.end()
    assert errors(said) == ["error: rank 1 has not started after 6 s"], said
    assert job.child.returncode == 1


@on(*LAUNCHED, torch=[()])
def test_wrong_input_on_one_rank(launch: Launch, start: Start, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper.py"
    wrapper.write_text(WRAPPER.format(fault="sys.argv.append('--inputs=nowhere.npz')"))
    job = start(launch, "", program=(str(wrapper),))
    said = job.end()
    assert errors(said) == ["error: cannot read 'nowhere.npz': no such file or directory"], said
    assert job.child.returncode == 1


@on(*LAUNCHED)
def test_a_patched_main_on_one_rank(launch: Launch, start: Start, tmp_path: Path) -> None:
    """Called with arguments, as by a user's own script."""
    wrapper = tmp_path / "wrapper.py"
    text = WRAPPER.replace("main()", "main(sys.argv[1:])")
    patch = "import shard_dialect.runtime.random_inputs as inputs; inputs.random_inputs = None"
    wrapper.write_text(text.format(fault=patch))
    job = start(launch, "", program=(str(wrapper),))
    said = job.end()
    assert len(errors(said)) == 1, said
    line = errors(said)[0]
    assert "internal error" in line
    assert "TypeError: 'NoneType' object is not callable" in line
    assert job.child.returncode == 1


def test_a_watch_that_is_killed(start: Start) -> None:
    job = start(launches()[0], "collective sleep")
    job.wait_for("fault")
    begin = time.time()
    os.utime(job.marks / "fault", (begin, begin))
    os.kill(job.processes("collective", 1)[1], signal.SIGKILL)
    assert errors(job.end()) == ["error: the program was killed"]
    assert job.child.returncode == -signal.SIGKILL


@on(*LAUNCHED, torch=[("0",)], rank={"0": 0, "1": 1})
def test_a_launched_process_that_is_killed(launch: Launch, rank: int, start: Start) -> None:
    """Not the program, but the process that the launcher knows; its status is the launcher's."""
    job = start(launch, "collective sleep")
    job.wait_for("collective 0", "fault")
    begin = time.time()
    os.utime(job.marks / "fault", (begin, begin))
    os.kill(job.processes("collective", rank)[1], signal.SIGKILL)
    said = job.end()
    assert errors(said) == [f"error: rank {rank} was killed"], said
    assert job.child.returncode != 0


@on(*LAUNCHED, torch=[()], rank={"0": 0, "1": 1})
def test_the_first_of_several_killed_is_named(launch: Launch, rank: int, start: Start) -> None:
    """Launchers kill the others at once, so the watch that has the hub may not see which."""
    job = start(launch, "collective sleep")
    job.wait_for("collective 0", "fault")
    begin = time.time()
    os.utime(job.marks / "fault", (begin, begin))
    killed, other = (job.processes("collective", each)[1] for each in (rank, 1 - rank))
    os.kill(other, signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    with suppress(OSError):  # its launcher has taken note of its end
        while ") Z " not in Path(f"/proc/{killed}/stat").read_text():
            time.sleep(0.01)
    with suppress(ProcessLookupError):  # so has this one's
        os.kill(other, signal.SIGKILL)
    said = job.end()
    assert errors(said) == [f"error: rank {rank} was killed"], said


@on(*ALL, torch=[("SIGTERM",)], number={"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM})
def test_a_rank_that_is_signalled(launch: Launch, number: signal.Signals, start: Start) -> None:
    job = start(launch, "collective sleep")
    job.wait_for("collective 0", "fault")
    begin = time.time()
    os.utime(job.marks / "fault", (begin, begin))
    os.kill(job.processes("collective", 1)[1], number)
    said = job.end()
    expected = "interrupted" if number == signal.SIGINT else "ended by SIGTERM"
    assert errors(said) == [f"error: {expected}"], said
    assert job.child.returncode == 1


@on(
    *LAUNCHED,
    torch=[("SIGINT",)],
    number={each.name: each for each in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)},
)
def test_a_launcher_that_is_signalled(launch: Launch, number: signal.Signals, start: Start) -> None:
    job = start(launch, "collective sleep")
    job.wait_for("collective 0", "fault")
    begin = time.time()
    os.utime(job.marks / "fault", (begin, begin))
    job.child.send_signal(number)
    said = job.end()
    assert len(errors(said)) <= 1, said
    assert job.child.returncode != 0


@on(*ALL)
def test_a_failure_leaves_the_output_that_was_there(
    launch: Launch, start: Start, tmp_path: Path
) -> None:
    outputs = tmp_path / "out.npz"
    np.savez(outputs, result0=np.zeros(3))
    before = outputs.read_bytes()
    job = start(launch, "collective kill", f"--outputs={outputs}")
    job.end()
    assert job.child.returncode == 1
    assert outputs.read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))


HALF_WRITTEN = """
import os, signal
import numpy as np
from shard_dialect.cli.run_command import save_outputs

def savez(file, *_, **__):
    file.write(b"PK")
    file.flush()
    open(os.environ["TEST_MARKS"] + "/fault", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)

np.savez = savez
"""


@on(*ALL)
def test_an_output_that_is_written_in_part_is_removed(
    launch: Launch, start: Start, tmp_path: Path
) -> None:
    outputs, plugin = tmp_path / "out.npz", tmp_path / "half.py"
    plugin.write_text(HALF_WRITTEN)
    job = start(launch, "", f"--outputs={outputs}", f"--load-plugin={plugin}")
    said = job.end()
    assert (job.marks / "fault").exists(), said
    assert job.child.returncode == 1
    assert not list(tmp_path.glob("*.partial"))
    assert not outputs.exists()


NO_COMMUNICATOR = """
from mpi4py import MPI
from shard_dialect.runtime.communicators.mpi_world import MpiWorld

number = MpiWorld._number
MpiWorld._number = lambda world, handle: (
    MPI._handleof(MPI.COMM_NULL) if handle.group else number(world, handle)
)
"""
"""Compiled code is given no communicator: what it calls fails."""


@pytest.mark.parametrize("launch", launched("mpi"))
def test_what_mpi_refuses_compiled_code_is_told(
    launch: Launch, start: Start, tmp_path: Path
) -> None:
    plugin = tmp_path / "null.py"
    plugin.write_text(NO_COMMUNICATOR)
    job = start(launch, "", f"--load-plugin={plugin}")
    said = job.end()
    (error,) = errors(said)
    assert re.match(r"error: rank \d has lost the others: .*communicator", error), said
    assert job.child.returncode == 1


def test_outputs_over_inputs_are_refused(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "in.npz"
    np.savez(file, arg0=np.zeros(3))
    job = start(Launch("devices", "devices"), "", f"--inputs={file}", f"--outputs={file}")
    assert errors(job.end()) == [f"error: '{file}' would be read and written over"]
    assert job.child.returncode == 1
    assert file.exists()


LOOP = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %r = scf.while (%s = %zero) : (tensor<f32>) -> tensor<f32> {
    %sum = linalg.reduce {arith.addf} ins(%x : tensor<4xf32>) outs(%zero : tensor<f32>)
             dimensions = [0]
    %e = tensor.extract %sum[] : tensor<f32>
    %limit = arith.constant 1.0e6 : f32
    %goes_on = arith.cmpf olt, %e, %limit : f32
    scf.condition(%goes_on) %sum : tensor<f32>
  } do {
  ^bb0(%s: tensor<f32>):
    scf.yield %s : tensor<f32>
  }
  return %r : tensor<f32>
}
"""
"""It ends once a sum, which a collective makes, is large: never."""


@on(*ALL)
def test_a_run_that_is_not_done_in_time(launch: Launch, start: Start) -> None:
    job = start(launch, "collective sleep", "--timeout=9.5")
    said = job.end()
    assert errors(said) == ["error: not done after 9.5 s"], said
    assert job.child.returncode == 1


@on(*ALL)
def test_code_that_goes_on_forever_is_ended(launch: Launch, start: Start, tmp_path: Path) -> None:
    program = tmp_path / "loop.mlir"
    program.write_text(LOOP)
    job = start(launch, "collective exception", source=str(program))
    said = job.end()
    assert len(errors(said)) == 1, said
    line = errors(said)[0]
    assert INTERNAL in line
    assert job.child.returncode == 1
