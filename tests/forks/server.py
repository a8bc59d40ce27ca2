"""Imports what a module needs, and runs it in a fork for each client that comes.

python -m tests.forks.server SOCKET MODULE
"""

import gc
import importlib
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_")
"""What begins so in the environment is heeded when a process starts, and a fork does not."""

PACKAGES = {
    "filecheck": ["filecheck"],
    "shard_dialect.opt": [
        "shard_dialect.cli.flags",
        "shard_dialect.cli.printing",
        "shard_dialect.ir.context",
        "shard_dialect.ir.reading.source",
        "shard_dialect.passes",
        "shard_dialect.planner",
        "shard_dialect.propagation",
        "shard_dialect.ops",
    ],
    "shard_dialect.report": ["shard_dialect.analysis"],
    "shard_dialect.prove": ["shard_dialect.runtime.confirmed_proof"],
    "shard_dialect.run": ["shard_dialect.cli.run_command", "shard_dialect.runtime.checking"],
}
"""What is imported for a module, with all modules in it, but never the module itself."""


def load(module: str) -> None:
    if module == "shard_dialect.opt":
        sys.modules["numpy"] = None  # type: ignore[assignment] # as `opt` does
        importlib.import_module("shard_dialect.ir.bindings")
        del sys.modules["numpy"]
    if module in ("shard_dialect.run", "shard_dialect.report", "shard_dialect.prove"):
        load("shard_dialect.opt")
    for name in PACKAGES[module]:
        package = importlib.import_module(name)
        for each in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
            if not each.name.endswith(".__main__"):
                importlib.import_module(each.name)


def receive(link: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    head, streams, _, _ = socket.recv_fds(link, 8, 3)
    size, said = int.from_bytes(head, "little"), b""
    while len(said) < size:
        said += link.recv(size - len(said))
    return *marshal.loads(said), streams


def keep(link: socket.socket, module: str) -> None:
    """Return in a fork that is to go on as the client's program; wait for it in this process."""
    arguments, folder, environment, streams = receive(link)
    program = os.fork()
    if program == 0:
        link.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            reopen(number, name)
        os.chdir(folder)
        if own(environment) != own(dict(os.environ)):
            os.execve(sys.executable, [sys.executable, "-m", module, *arguments], environment)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[1:] = arguments
        sys.path[0] = folder
        return
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(program)
    ready, _, _ = select.select([ended, link], [], [])
    if link in ready:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    if link not in ready:
        link.sendall(status.to_bytes(4, "little"))
    os._exit(0)


def reopen(number: int, name: str) -> None:
    """A stream is what its file lets it be: whether there are places in it, and a terminal."""
    old, lines = getattr(sys, name), 1 if name == "stderr" else -1
    new = open(number, old.mode, lines, old.encoding, old.errors, closefd=False)  # noqa: SIM115
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


def own(environment: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(READ_AT_START)}


def serve(path: str, module: str) -> None:
    """Return in a fork that is to be a client's program; end when standard input does."""
    load(module)
    gc.collect()
    gc.freeze()  # or each fork's collections would copy all pages
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        os.write(1, b"listens\n")
        while True:
            ready, _, _ = select.select([0, listener], [], [])
            if 0 in ready:
                os._exit(0)
            link, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                keep(link, module)
                return
            link.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def run(module: str) -> None:
    """As `python -m`, but for what the interpreter tidies at its end, which takes most of it."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)


if __name__ == "__main__":
    module = sys.argv.pop(2)
    serve(sys.argv.pop(1), module)
    run(module)
