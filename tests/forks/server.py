"""Imports what some modules need, and runs one in a fork for each client that comes.

python -m tests.forks.server SOCKET MODULE...
"""

import gc
import importlib.util
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from tests.forks import ANY, FOLDER, PYTHONS, TORCHRUN, WITH_MODELS, WITH_TORCH, cold

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_")
"""What begins so in the environment is heeded when a process starts, and a fork does not."""

PACKAGES = {
    "filecheck": ["filecheck"],
    "shard_dialect.opt": [
        "ctypes",
        "encodings.unicode_escape",
        "shard_dialect.cli.flags",
        "shard_dialect.cli.printing",
        "shard_dialect.ir.context",
        "shard_dialect.ir.fatal_errors",
        "shard_dialect.ir.reading.source",
        "shard_dialect.passes",
        "shard_dialect.planner",
        "shard_dialect.processes.supervise",
        "shard_dialect.propagation",
        "shard_dialect.ops",
        "shard_dialect.runtime.confirmed_proof",
    ],
    "shard_dialect.report": ["shard_dialect.analysis"],
    "shard_dialect.prove": [],
    "shard_dialect.run": ["shard_dialect.cli.run_command", "shard_dialect.runtime.checking"],
    ANY: [],
    WITH_TORCH: ["torch.distributed.distributed_c10d"],
    WITH_MODELS: [
        "shard_dialect.torch",
        "torch.distributed.checkpoint.state_dict",
        "torch.distributed.fsdp",
        "torch.distributed.tensor.parallel.style",
        "transformers.models.llama.modeling_llama",
    ],
    TORCHRUN: ["torch.distributed.argparse_util", "torch.distributed.launcher.api"],
}
"""What is imported for a module, but never the module itself; of packages all modules, but for
those of others. jax, which judges, is imported where it is installed."""


@cache
def load(module: str) -> None:
    if module == "shard_dialect.opt":
        sys.modules["numpy"] = None  # type: ignore[assignment] # as `opt` does
        importlib.import_module("shard_dialect.ir.bindings")
        del sys.modules["numpy"]
    if module in ("shard_dialect.run", "shard_dialect.report", "shard_dialect.prove"):
        load("shard_dialect.opt")
    if module in PYTHONS:
        load("shard_dialect.run")
    for name in PACKAGES[module]:
        package = importlib.import_module(name)
        is_whole = name.partition(".")[0] in ("shard_dialect", "filecheck")
        path = getattr(package, "__path__", ()) if is_whole else ()
        for each in pkgutil.walk_packages(path, name + "."):
            if not each.name.endswith(".__main__"):
                importlib.import_module(each.name)
    if module == "shard_dialect.opt":
        warm_up()


def warm_up() -> None:
    """Run what most programs run, so that they find known what does not change: rules, plans."""
    from shard_dialect import plugins
    from shard_dialect.ir.bindings import plain_ops
    from shard_dialect.ir.context import make_context
    from shard_dialect.ir.reading.source import Source
    from shard_dialect.passes.framework.pipeline import run_pipeline
    from shard_dialect.processes.startup import without_notices

    if importlib.util.find_spec("jax") is not None:
        without_notices()
        importlib.import_module("jax")
    plugins.load()
    with plain_ops():
        for name in ("mlp_2d", "megatron"):
            with make_context():
                module = Source.read(f"{FOLDER.parent.parent}/examples/{name}.mlir").parse()
                run_pipeline(module, "spmd,lower")


@dataclass(frozen=True)
class Asked:
    """What a client asks for: `module` with `arguments`, and its surroundings."""

    module: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    streams: list[int]


def receive(link: socket.socket) -> Asked:
    head, streams, _, _ = socket.recv_fds(link, 8, 4)
    size, said = int.from_bytes(head, "little"), b""
    while len(said) < size:
        said += link.recv(size - len(said))
    (module, *arguments), folder, environment = marshal.loads(said)
    return Asked(module, arguments, folder, environment, streams)


def become(asked: Asked) -> None:
    """Have the client's streams, folder, environment and arguments."""
    numbers = [0, 1, 2, *shared(asked.environment)]
    for number, stream in zip(numbers, asked.streams, strict=True):
        if stream != number:
            os.dup2(stream, number)
            os.close(stream)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        reopen(number, name)
    os.chdir(asked.folder)
    if own(asked.environment) != own(dict(os.environ)):
        command = [*cold(asked.module), *asked.arguments]
        os.execve(sys.executable, command, asked.environment)
    os.environ.clear()
    os.environ.update(asked.environment)
    sys.argv[1:] = asked.arguments
    sys.path[0] = asked.folder


@dataclass(frozen=True)
class Started:
    """A program that runs, and the client whose place it takes."""

    process: int
    ended: int
    """What can be read when the program has ended."""
    link: socket.socket

    def finish(self, client_is_there: bool) -> None:
        if not client_is_there:
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        os.close(self.ended)
        with self.link, suppress(BrokenPipeError):
            self.link.sendall(status.to_bytes(4, "little"))


def reopen(number: int, name: str) -> None:
    """A stream is what its file lets it be: whether there are places in it, and a terminal."""
    old, lines = getattr(sys, name), 1 if name == "stderr" else -1
    new = open(number, old.mode, lines, old.encoding, old.errors, closefd=False)  # noqa: SIM115
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


def own(environment: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if key.startswith(READ_AT_START)}


def shared(environment: dict[str, str]) -> list[int]:
    """The number of the open socket, if there is one, by which a rank talks to MPI's launcher."""
    return [int(environment["PMI_FD"])] if "PMI_FD" in environment else []


def serve(path: str, modules: list[str]) -> str:
    """Return in a fork that is to be a client's program, with its module.

    The server ends when its standard input does.
    """
    for module in modules:
        load(module)
    gc.collect()
    gc.freeze()  # or each fork's collections would copy all pages
    started: list[Started] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        os.write(1, b"listens\n")
        while True:
            watched = [part for each in started for part in (each.ended, each.link)]
            ready, _, _ = select.select([0, listener, *watched], [], [])
            if 0 in ready:
                os._exit(0)
            for each in [each for each in started if {each.ended, each.link} & {*ready}]:
                started.remove(each)
                each.finish(client_is_there=each.ended in ready)
            if listener not in ready:
                continue
            link, _ = listener.accept()
            asked = receive(link)
            process = os.fork()
            if process == 0:
                for opened in (listener, link, *(each.link for each in started)):
                    opened.close()
                for each in started:
                    os.close(each.ended)
                become(asked)
                return asked.module
            started.append(Started(process, os.pidfd_open(process), link))
            for stream in asked.streams:
                os.close(stream)


def run(module: str) -> None:
    """As `python -m`, but for what the interpreter tidies at its end, which takes most of it."""
    if module in PYTHONS:
        return run_any()
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ended.code)


def run_any() -> None:
    """As `python -m MODULE` or `python FILE`."""
    if sys.argv[1] == "-m":
        del sys.argv[1]
        runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    else:
        file = sys.argv.pop(1)
        sys.path[0] = os.path.dirname(os.path.abspath(file))
        runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    run(serve(sys.argv.pop(1), sys.argv[1:]))
