"""Backends of users: who executes the local form of a program, on all devices of this process.

    @sd.register_backend("mine")
    class Mine:
        def __init__(self, module, entry): ...  # the local form: what each device runs
        def run(self, shards): ...  # of the arguments, for each device; then of the results

What such a class raises, and results that do not fit the program, are errors that name it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from shard_dialect.abi.tensor_types import Array
from shard_dialect.analysis.trace_events import Event
from shard_dialect.backends.xla.xla_devices import XlaDevices
from shard_dialect.errors import ShardError, did_you_mean
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import later_in
from shard_dialect.processes.code_of_users import of_user
from shard_dialect.runtime.communicators.launched_world import BACKENDS
from shard_dialect.runtime.communicators.world import InProcess, Runnable, Shards
from shard_dialect.runtime.local_programs import read_local_program


class LocalExecutor(Protocol):
    """Executes a program in the local form."""

    def __init__(self, module: ir.Module, entry: str) -> None:
        """Take the function `entry` of a module, which this object may change."""

    def run(self, shards: list[list[Array]]) -> Sequence[Sequence[Array]]:
        """For each device by rank, its shards of the results, given those of the arguments."""


_Executor = TypeVar("_Executor", bound=type[LocalExecutor])
_REGISTERED: dict[str, type[RegisteredDevices]] = {}


def register_backend(name: str) -> Callable[[_Executor], _Executor]:
    """Let a class of the form of `LocalExecutor` be what `--backend` calls `name`.

    `sd.run` and `sd.compile` take the class itself.

    Raises `ShardError` for a name that is taken.
    """
    if name in backend_names():
        raise ShardError(f"backend '{name}' exists already")

    def register(executor: _Executor) -> _Executor:
        _REGISTERED[name] = _devices_by(executor, name)
        return executor

    return register


def _devices_by(executor: type[LocalExecutor], name: str) -> type[RegisteredDevices]:
    return type(executor.__name__, (RegisteredDevices,), {"name": name, "executor": executor})


def backend_names() -> list[str]:
    """Our backends, then those that plugins have registered so far."""
    return [*BACKENDS, *sorted(_REGISTERED)]


def devices_of(backend: str | type[LocalExecutor]) -> type[InProcess]:
    """The kind of devices that this process has for a backend. Raises `ShardError`."""
    if isinstance(backend, type):
        return _devices_by(backend, backend.__name__)
    if backend not in backend_names():
        known = ", ".join(backend_names())
        nearest = did_you_mean(backend, backend_names())
        raise ShardError(
            f"backend '{backend}' is not known: expected {known}, or a plugin's{nearest}"
        )
    of_others: dict[str, type[InProcess]] = {"xla": XlaDevices, **_REGISTERED}
    return of_others.get(backend, InProcess)


class RegisteredExecutable:
    """A program that a user's class executes."""

    def __init__(self, name: str, executor: type[LocalExecutor], module: ir.Module, entry: str):
        self.program = read_local_program(module.operation, entry)
        self._what, self._in_module = f"backend '{name}'", later_in(module)
        self._executor = of_user(self._what, lambda: executor(module, entry), function=executor)

    def run(self, shards: Sequence[Shards]) -> list[list[Array]]:
        """As `LocalExecutor.run`. Raises `ShardError` for results that do not fit the program."""
        most = len(self.program.results) + 1  # there may be no end

        def run() -> list[list[object]]:
            by_device = islice(self._executor.run(list(map(list, shards))), len(shards) + 1)
            return [[*islice(each, most)] for each in by_device]

        with self._in_module():
            results = of_user(self._what, run, function=self._executor.run)
        if len(results) != len(shards):
            raise self._wrong(f"returned the results of {len(results)} devices, not {len(shards)}")
        return [self._checked(rank, each) for rank, each in enumerate(results)]

    def _checked(self, rank: int, results: Sequence[object]) -> list[Array]:
        types = [each.local for each in self.program.results]
        if len(results) != len(types):
            raise self._wrong(f"returned {len(results)} results on device {rank}, not {len(types)}")
        arrays = of_user(self._what, lambda: [np.asarray(each) for each in results])
        for number, (array, type_) in enumerate(zip(arrays, types, strict=True)):
            if (array.shape, array.dtype) != (type_.shape, type_.dtype):
                raise self._wrong(
                    f"returned result{number} on device {rank} as {array.dtype} of shape "
                    f"{list(array.shape)}: expected {type_.dtype} of shape {list(type_.shape)}"
                )
        return arrays

    def _wrong(self, what: str) -> ShardError:
        return ShardError(f"{self._what} {what}")


class RegisteredDevices(InProcess):
    """The devices of a user's backend."""

    executor: ClassVar[type[LocalExecutor]]

    @classmethod
    def compile_local(cls, module: ir.Module, entry: str) -> RegisteredExecutable:
        """As `World.compile_local`, by the user's class."""
        return RegisteredExecutable(cls.name, cls.executor, module, entry)

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`."""
        assert isinstance(executable, RegisteredExecutable), "compiled for this world"
        return executable.run(inputs)

    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """Raise, since only the user's class knows what happens when."""
        raise ShardError(f"--profile is not for backend '{self.name}', which is a plugin's")
