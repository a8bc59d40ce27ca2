"""`python -m MODULE` as a fork of a process that has imported already what the module needs.

    server -- program     the server has imported what some modules need, and waits for programs
    client ---'           has the server's socket, MODULE's name and its arguments

The client takes the program's place: its arguments, environment, folder and standard streams are
the program's, it ends as that does, and the program is killed when the client is. Importing takes
most of the time of a short program, and of a test suite that starts a thousand of them.
"""

import atexit
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

CHILD = {"PYTHONWARNINGS": "default"}
"""What is in the environment of each program that a test starts."""
FOLDER = Path(__file__).parent
PROGRAMS = tuple(f"shard_dialect.{name}" for name in ("opt", "run", "report", "prove"))
MODULES = (*PROGRAMS, "filecheck")
TORCHRUN = "torch.distributed.run"
ANY = "python"
"""Stands for Python with any module or file; it has what `shard_dialect.run` needs."""
WITH_TORCH = "python-torch"
WITH_MODELS = "python-models"
"""`ANY` with torch, and with what distributed training and models take, too."""
PYTHONS = (ANY, WITH_TORCH, WITH_MODELS)


def cold(module: str) -> list[str]:
    """The command that a fork stands for."""
    return [sys.executable, *(() if module in PYTHONS else ("-m", module))]


def servers_of(modules: Iterable[str]) -> list[list[str]]:
    """The modules of each server: our programs have one, as they import the same."""
    ours = [each for each in modules if each in PROGRAMS]
    return [*([ours] if ours else []), *([each] for each in modules if each not in PROGRAMS)]


class Forks:
    """The servers of some modules, for as long as this is open."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        self._stack = ExitStack()
        self._folder = ""
        self.commands = {module: cold(module) for module in modules}
        """What stands for `python -m MODULE`."""

    def __enter__(self) -> "Forks":
        if hasattr(os, "pidfd_open"):
            self._folder = self._stack.enter_context(TemporaryDirectory())
            client = [sys.executable, "-I", "-S", str(FOLDER / "client.py")]
            self.commands = {
                module: [*client, f"{self._folder}/{modules[0]}", module]
                for modules in servers_of(self.commands)
                for module in modules
            }
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, environment: Mapping[str, str]) -> None:
        """With the environment that the programs will have."""
        for modules in servers_of(self.commands) if self._folder else ():
            path = f"{self._folder}/{modules[0]}"
            server = subprocess.Popen(
                [sys.executable, "-m", "tests.forks.server", path, *modules],
                cwd=FOLDER.parent.parent,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._stack.enter_context(server)  # closes its input, with which it ends, and waits
            assert server.stdout
            assert server.stdout.readline() == "listens\n"


@cache
def forks_of(module: str, **environment: str) -> list[str]:
    """What stands for `python -m MODULE` until this process ends; its server starts when asked."""
    forks = Forks([module]).__enter__()
    atexit.register(forks.__exit__)
    forks.start({**os.environ, **CHILD, **environment})
    return forks.commands[module]
