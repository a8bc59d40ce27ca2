"""The process in which a user's file runs: it answers a request after the other."""

from __future__ import annotations

import builtins
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from shard_dialect.ir.bindings import ir
from shard_dialect.proof import (  # noqa: F401 - they say what ops mean
    contractions,
    functions,
    structured_stablehlo,
    tensors,
)
from shard_dialect.proof.field import Field
from shard_dialect.proof.machine import Cancellation, Machine, Sampled, Unproven
from shard_dialect.proof.reading import Grid, Program
from shard_dialect.proof.written import arrays, ranks, torch_arrays
from shard_dialect.proof.written.library import Library
from shard_dialect.proof.written.meeting import Meeting, Stopped, Waiting
from shard_dialect.proof.written.messages import read_message, write_message

_STACK = 64 << 20
_INPUTS, _OUTPUTS = "in.npz", "out.npz"
_LOOKS = 1.0
"""Seconds after which the child looks whether its parent is still there."""


class Refused(Exception):
    """What stands in the way, and where in the file."""

    def __init__(self, kind: str, what: str, line: int = 0, started: int = 0) -> None:
        super().__init__(what)
        self.kind, self.what, self.line, self.started = kind, what, line, started


@dataclass
class Run:
    """One run of a file by all ranks."""

    path: str
    code: Any
    is_torch: bool
    size: int
    library: Callable[[int, Callable[..., Any], Callable[..., None], Callable[[], bool]], Any] = (
        field(init=False)
    )
    """Of a rank its `numpy`."""
    inputs: Callable[[Any], Sequence[Any]] = field(init=False)
    """Of a `numpy` the global arguments."""
    torch: Callable[[Any, Any], Any] = torch_arrays.Torch
    """Of these modules the `torch`."""

    def results(self) -> list[Any]:
        """The global results. Raises `Refused`."""
        self.saved: dict[str, Any] = {}
        self.failures: list[Refused] = []
        meeting = Meeting(self.size)
        threading.stack_size(_STACK)
        threads = [
            threading.Thread(target=self._rank, args=(meeting, rank), daemon=True)
            for rank in range(self.size)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if self.failures:
            order = ("ranks", "refused", "raised", "torn")
            raise min(self.failures, key=lambda each: order.index(each.kind))
        if not self.saved:
            raise Refused("refused", "the file writes no --outputs with np.savez")
        names = sorted(self.saved, key=lambda name: int(name.removeprefix("result")))
        return [self.saved[name] for name in names]

    def _rank(self, meeting: Meeting, rank: int) -> None:
        mpi, world = ranks.library(meeting, rank, self.size)

        def load(name: Any, **_: Any) -> _File:
            arrays.only(str(name) == _INPUTS, f"the file {str(name)!r}")
            return _File({f"arg{n}": each for n, each in enumerate(self.inputs(library))})

        def save(name: Any, **named: Any) -> None:
            arrays.only(str(name) == _OUTPUTS, f"the file {str(name)!r}")
            arrays.only(not self.saved, "what is written twice")
            self.saved.update(named)

        library = self.library(rank, load, save, lambda: world.gathered)
        module = ModuleType("mpi4py")
        vars(module)["MPI"] = mpi
        own = {"numpy": library, "mpi4py": module, "mpi4py.MPI": mpi, "os": self._os(rank)}
        distributed = torch_arrays.Distributed(meeting, world)
        own["torch"] = own["torch.distributed"] = self.torch(library, distributed)

        def imported(name: str, *given: Any) -> Any:
            return own[name] if name in own else builtins.__import__(name, *given)

        space = {
            "__name__": "__main__",
            "__file__": self.path,
            "__builtins__": {
                **vars(builtins),
                "__import__": imported,
                "print": lambda *_, **__: None,
            },
        }
        failure = self._failure(lambda: exec(self.code, space))
        if failure is not None:
            self.failures.append(failure)
        meeting.leave(is_failed=failure is not None)

    def _os(self, rank: int) -> ModuleType:
        """A module `os` whose variables are a rank's, as `torchrun` sets them on one host.

        Others are the prover's own, which say nothing of a rank.
        """
        numbers = {"RANK": rank, "LOCAL_RANK": rank}
        numbers |= {"WORLD_SIZE": self.size, "LOCAL_WORLD_SIZE": self.size}
        known = {name: str(number) for name, number in numbers.items()} if self.is_torch else {}
        environ = _Variables(known)
        module = ModuleType("os")
        vars(module).update({**vars(os), "environ": environ, "getenv": environ.get})
        return module

    def _failure(self, run: Callable[[], None]) -> Refused | None:
        """Run by one rank; what stands in the way, if anything does."""
        try:
            with np.errstate(all="ignore"):
                run()
        except Stopped:
            return None
        except Waiting:
            return Refused("torn", "all ranks wait for each other", self._line())
        except arrays.Differing:
            return Refused("torn", "ranks have different copies of a result", self._line())
        except SystemExit as error:
            match = re.search(r"start (\d+) ranks", str(error.code))
            started = int(match[1]) if match else 0
            kind = "ranks" if started else "raised"
            what = f"it ends with '{error.code}'"
            return Refused(kind, what, self._line(), started) if error.code else None
        except (arrays.NotKnown, Unproven) as error:
            return Refused("refused", f"{error} is not known to the prover", self._line())
        except BaseException as error:
            is_missing = isinstance(error, ImportError)
            return Refused(
                "refused" if is_missing else "raised",
                f"it raises {type(error).__name__}: {error}",
                self._line(),
            )
        return None

    def _line(self) -> int:
        frames = traceback.extract_tb(sys.exc_info()[2])
        lines = [each.lineno for each in frames if each.filename == self.path]
        return (lines[-1] or 0) if lines else 0


class _Variables(dict[str, str]):
    """Variables of the environment, of which only some are known."""

    def __contains__(self, name: object) -> bool:
        arrays.only(super().__contains__(name), f"the variable {name} of the environment")
        return True

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name) if name in self else ""

    def get(self, name: str, default: Any = None) -> Any:
        return self[name]


class _File(dict[str, Any]):
    """What `np.load` returns."""

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _elements(request: Mapping[str, Any], given: Sequence[Any], run: Run) -> tuple[Any, list[Any]]:
    """The results at one point of the field."""
    sampled, cancellation = Sampled(), Cancellation(request["cancels"])
    points = Field(request["gap"], request["seed"], joins=request["joins"])

    def library(rank: int, load: Any, save: Any, assembles: Callable[[], bool]) -> Any:
        generator = np.random.default_rng((4, request["seed"], request["garbage"], rank))
        machine = Machine(
            Program({}, {}, {}, {}), points, Grid((), (0,)), generator, request["is_ordered"],
            request["splits_exponents"], cancellation=cancellation, sampled=sampled,
            is_wide=request["is_wide"],
        )  # fmt: skip

        def unwritten(type_: Any, shape: Any) -> Any:
            if type_.is_integer:
                return generator.integers(0, 2, shape)
            return points.random(generator, shape)

        machine.unwritten = unwritten
        names = frozenset(request["names"])
        array = torch_arrays.Tensor if run.is_torch else arrays.Array
        setting = arrays.Setting(machine, names, _LOCATION, assembles, array)
        return Library(setting, load, save)

    def inputs(numpy: Any) -> list[Any]:
        pairs = zip(given, request["dtypes"], strict=True)
        s = numpy.setting
        return [s.array(s, data.copy(), _dtype(each)) for data, each in pairs]

    run.library, run.inputs, run.torch = library, inputs, torch_arrays.Torch
    found = run.results()
    for each in found:
        if not isinstance(each, arrays.Array):
            raise Refused("refused", "a result that is no array")
    dtypes = [str(each.dtype) for each in found]
    more = {"sampled": sorted(sampled.what), "cancels": cancellation.is_used, "dtypes": dtypes}
    return more, [each.data for each in found]


def _numbers(request: Mapping[str, Any], given: Sequence[Any], run: Run) -> tuple[Any, list[Any]]:
    """The results of numpy itself."""

    def library(rank: int, load: Any, save: Any, assembles: Callable[[], bool]) -> Any:
        def zeros(*given: Any, **more: Any) -> Any:
            made = np.zeros(*given, **more).view(arrays.Kept)
            made.assembles = assembles
            return made

        module = ModuleType("numpy")
        vars(module).update({**vars(np), "load": load, "savez": save, "zeros": zeros})
        return module

    wanted = [_dtype(each) for each in request["dtypes"]]

    def torch(_: Any, distributed: Any) -> Any:
        if not run.is_torch:
            return None
        import torch as own

        module = ModuleType("torch")
        vars(module).update({**vars(own), "distributed": distributed})
        return module

    run.library, run.torch = library, torch
    run.inputs = lambda _: [x.astype(dtype) for x, dtype in zip(given, wanted, strict=True)]
    return {}, [_widened(np.asarray(each)) for each in run.results()]


def _widened(result: Any) -> Any:
    """As the widest numbers of its kind, of which messages have arrays."""
    if result.dtype == np.dtype("V2"):  # as files of numpy have bfloat16
        result = result.view(_dtype("bfloat16"))
    elif result.dtype.type is np.void:
        raise Refused("refused", f"a result of {result.dtype}")
    wide = {"c": np.complex128, "b": np.bool_, "i": np.int64, "u": np.uint64}
    return result.astype(wide.get(result.dtype.kind, np.float64)).view(np.ndarray)


def _dtype(name: str) -> Any:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def _end_with(parent: int) -> None:
    """End when the parent is gone, whatever the file does."""
    while os.getppid() == parent:
        time.sleep(_LOOKS)
    os._exit(1)


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nothing, each)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    first = read_message(requests)
    if first is None:
        return
    path, size = first[0]["path"], first[0]["size"]
    sys.argv = [path, f"--inputs={_INPUTS}", f"--outputs={_OUTPUTS}"]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    while (message := read_message(requests)) is not None:
        request, given = message
        try:
            code = compile(text, path, "exec")
            run = Run(path, code, torch_arrays.is_used(text), size)
            answer = _elements if request["kind"] == "elements" else _numbers
            try:
                more, found = answer(request, given, run)
            except Refused as error:
                if not error.started or error.started == size:
                    raise
                run.size = size = error.started
                more, found = answer(request, given, run)
            write_message(answers, {"ok": True, **more}, found)
        except SyntaxError as error:
            write_message(answers, _refusal("refused", str(error), error.lineno or 0), [])
        except Refused as error:
            write_message(answers, _refusal(error.kind, error.what, error.line), [])
    os._exit(0)


def _refusal(kind: str, what: str, line: int) -> dict[str, Any]:
    return {"ok": False, "kind": kind, "what": what, "line": line}


with ir.Context():
    _LOCATION = ir.Location.unknown()

if __name__ == "__main__":
    main()
