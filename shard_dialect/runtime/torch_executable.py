"""A program in the local form that is written in Python over torch, and called.

    executable = TorchExecutable(module, "main")
    function = TorchFunction(executable)         # on each device, which has joined the others
    outputs = function(shards)

The text is that of `opt --emit-python=torch`, without its `main`: the caller has the shards.

`TorchRanks` are the ranks of `run --backend=torch --compiler=torch`, which compute with torch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from inspect import signature
from types import CodeType, FunctionType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.analysis.trace_events import Event
from shard_dialect.backends.python.element_types import held_by_torch
from shard_dialect.backends.python.python_module import emit_functions
from shard_dialect.errors import MissingExtra, ShardError, first_line_of
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.torch_world import TorchWorld
from shard_dialect.runtime.communicators.world import Runnable, Shards
from shard_dialect.runtime.local_programs import read_local_program
from shard_dialect.runtime.profiling.kernel_traces import traced_by_torch

try:
    import torch
    import torch.distributed as dist
except ImportError:
    raise MissingExtra("torch", "torch") from None


class TorchExecutable:
    """The function `entry` of a module in the local form. The module is consumed."""

    def __init__(self, module: ir.Module, entry: str) -> None:
        self.program = read_local_program(module.operation, entry)
        emitted = emit_functions(module, "torch", entry)
        self.entry = emitted.entry
        # Not by the threads of devices: Python 3.11 counts the depth of all their trees as one.
        self.imports, self.start = _code(emitted.imports), _code(emitted.start)
        self.body = _code(_released(emitted.body))


class TorchFunction:
    """The function of one device: its shards in, its shards of the results out.

    `distributed` takes the place of the module `torch.distributed`. Without a `device`, it is this
    rank's GPU if it has one, and torch is set to compute as exactly there as our own code does;
    what torch is set to is the caller's business on a device that is given. With `compiles`,
    torch.compile compiles the code between collectives; these are called as they are.
    """

    def __init__(
        self,
        executable: TorchExecutable,
        distributed: Any = None,
        *,
        device: Any = None,
        compiles: bool = False,
    ) -> None:
        self._program = executable.program
        names: dict[str, Any] = {"__name__": "emitted"}
        exec(executable.imports, names)
        if distributed is not None:
            names["dist"] = distributed
        if device is None:
            exec(executable.start, names)
        else:
            names |= {"device": device, "rank": names["dist"].get_rank()}
        exec(executable.body, names)
        self._names = names
        self._function = names[executable.entry]
        self._own = {
            each.untyped_storage().data_ptr()
            for each in names.values()
            if isinstance(each, torch.Tensor)
        }
        """The memory of constants."""
        if compiles:
            check_compiler(names["device"])
            for name, each in list(names.items()):
                if isinstance(each, FunctionType) and _COMMUNICATES & {*signature(each).parameters}:
                    names[name] = torch.compiler.disable(each)
            self._function = torch.compile(self._function, options=_AS_WRITTEN)

    def __call__(self, shards: Sequence[Array]) -> list[Array]:
        """The shards of the results. Those of the arguments are not changed."""
        pairs = zip(shards, self._program.arguments, strict=True)
        found = self._run([self._tensor(shard, each.local) for shard, each in pairs])
        results = self._program.results
        return [_array(each, own.local) for each, own in zip(found, results, strict=True)]

    def on_tensors(self, shards: Sequence[Any]) -> list[Any]:
        """The same of tensors on any device; the results are on that of the function.

        No result is in the memory of an argument, or of a constant.
        """
        given = []
        for shard, each in zip(shards, self._program.arguments, strict=True):
            held = getattr(torch, held_by_torch(each.local.element))
            given.append(shard.to(self._names["device"]).contiguous().view(held))
        places = self._own.union(each.untyped_storage().data_ptr() for each in given)
        return [
            each.clone() if each.untyped_storage().data_ptr() in places else each
            for each in self._run(given)
        ]

    def _run(self, tensors: Sequence[Any]) -> Sequence[Any]:
        with _torchs_errors():
            found = self._function(*tensors)
        for work, _ in self._names.get("on_the_way", ()):
            work.wait()
        count = len(self._program.results)
        return found if count > 1 else [found] if count else []

    def profile(self, shards: Sequence[Array], rank: int) -> tuple[list[Array], list[Event]]:
        """As a call, with the events of torch's profiler, as those of the device `rank`."""
        return traced_by_torch(torch, rank, lambda: self(shards))

    def _tensor(self, shard: Array, type_: TensorType) -> Any:
        own = np.array(shard, order="C")  # which may be a part of a file
        held = getattr(torch, held_by_torch(type_.element))
        tensor = torch.from_numpy(own.reshape(-1).view(np.uint8)).view(held).reshape(type_.shape)
        return tensor.to(self._names["device"])


@contextmanager
def _torchs_errors() -> Iterator[None]:
    """Raise Python's own error where torch has not enough memory, and ours for an assertion."""
    try:
        yield
    except AssertionError as error:
        raise ShardError(f"an assertion of the program fails: {error}") from None
    except torch.OutOfMemoryError:
        raise MemoryError from None
    except RuntimeError as error:
        if "allocate memory" in str(error):
            raise MemoryError from None
        raise


def _array(tensor: Any, type_: TensorType) -> Array:
    contiguous = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    flat = contiguous.as_strided((contiguous.numel(),), (1,))  # an expanded element has stride 0
    held: Array = flat.view(torch.uint8).numpy()
    return held.view(type_.dtype).reshape(type_.shape)


_AS_WRITTEN = {"emulate_precision_casts": True}
"""Round to 16 bits where the program does."""


def check_compiler(device: Any) -> None:
    """Raise `ShardError` unless torch.compile works for tensors on the device."""
    try:
        torch.compile(_doubled, options=_AS_WRITTEN)(torch.ones(8, device=device))
    except Exception as error:  # whatever torch and the compilers that it calls raise
        raise ShardError(
            f"--torch-compile: torch.compile does not work here: {first_line_of(error)}"
        ) from None


def _doubled(x: Any) -> Any:
    return x + x


def _code(text: str | ast.Module) -> CodeType:
    return compile(text, "<emitted>", "exec", dont_inherit=True)  # without this file's __future__


_SCOPES = (ast.FunctionDef, ast.Lambda)


def _released(text: str) -> ast.Module:
    """The program, whose functions forget each tensor after the last statement that uses it."""
    tree = ast.parse(text)
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            function.body = [*_releasing(function.body)]
    return ast.fix_missing_locations(tree)


def _releasing(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    last: dict[str, int] = {}
    """The statement that uses a name last; one that is in a function inside stays."""
    made: set[str] = set()
    for number, line in enumerate(body):
        inside = [*ast.walk(line)]
        is_kept = any(isinstance(each, _SCOPES) for each in inside)
        for each in inside:
            if isinstance(each, ast.Name):
                last[each.id] = len(body) if is_kept else max(number, last.get(each.id, 0))
        if isinstance(line, ast.Assign):
            targets = [part for target in line.targets for part in ast.walk(target)]
            made.update(each.id for each in targets if isinstance(each, ast.Name) and _stores(each))
    ends: dict[int, list[ast.expr]] = {}
    for name in made:
        ends.setdefault(last[name], []).append(ast.Name(name, ast.Del()))
    for number, line in enumerate(body):
        yield line
        if number in ends and number < len(body) - 1:
            yield ast.Delete(ends[number])


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


_COMMUNICATES = {"group", "started"}
"""The parameters that tell the helpers that call torch.distributed."""


class _Shared:
    """`torch.distributed` with one process group of the same ranks for all programs.

    All ranks ask for the same groups in one order. A group of NCCL takes memory of the device.
    """

    _of_groups: ClassVar[WeakKeyDictionary[Any, _Shared]] = WeakKeyDictionary()

    def __init__(self) -> None:
        self._made: dict[tuple[int, ...], Any] = {}

    @classmethod
    def of_all(cls) -> _Shared:
        """That of the process group that there is, as of no other before it."""
        return cls._of_groups.setdefault(dist.group.WORLD, cls())

    def __getattr__(self, name: str) -> Any:
        return getattr(dist, name)

    def new_group(self, ranks: Sequence[int], timeout: timedelta) -> Any:
        """As torch's function of this name."""
        key = tuple(ranks)
        if key not in self._made:
            self._made[key] = dist.new_group(ranks, timeout=timeout)
        return self._made[key]


class TorchRanks(TorchWorld):
    """The processes that `torchrun` started. Tensors are on the rank's GPU where it has one."""

    def __init__(self, *, compiles: bool = False) -> None:
        super().__init__()
        self._compiles = compiles
        self._functions: WeakKeyDictionary[TorchExecutable, TorchFunction] = WeakKeyDictionary()

    @classmethod
    def compile_local(cls, module: ir.Module, entry: str) -> TorchExecutable:
        """As `World.compile_local`; collectives run beside what does not wait for them."""
        with module.context, ir.Location.unknown():
            run_pipeline(module, "bundle-collectives{gathers=true},overlap-collectives")
        return TorchExecutable(module, entry)

    def run(self, executable: Runnable, inputs: Sequence[Shards]) -> list[list[Array]]:
        """As `World.run`, for the one device here."""
        assert isinstance(executable, TorchExecutable), "compiled for this world"
        return [self._function(executable)(inputs[0])]

    def run_tensors(
        self, executable: TorchExecutable, shards: Sequence[Any], device: Any
    ) -> list[Any]:
        """The shards of the results as tensors, for those of the arguments, on a device."""
        return self._function(executable, device).on_tensors(shards)

    def _function(self, executable: TorchExecutable, device: Any = None) -> TorchFunction:
        if executable not in self._functions:
            self._functions[executable] = TorchFunction(
                executable, _Shared.of_all(), device=device, compiles=self._compiles
            )
        return self._functions[executable]

    def profile(
        self, executable: Runnable, inputs: Sequence[Shards]
    ) -> tuple[list[list[Array]], list[Event]]:
        """As `World.profile`, by torch's profiler."""
        assert isinstance(executable, TorchExecutable), "compiled for this world"
        function = self._function(executable)
        function(inputs[0])  # which compiles
        outputs, events = function.profile(inputs[0], self.rank)
        return [outputs], events
