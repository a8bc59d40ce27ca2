"""A program that is compiled for some devices, and called with global arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.backends.cpu.blas import ONE_THREAD
from shard_dialect.backends.xla.xla_devices import XlaExecutable
from shard_dialect.errors import ShardError, as_symbol, check_one_of
from shard_dialect.ir.context import make_context
from shard_dialect.ir.diagnostics import listening
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline, steps_before
from shard_dialect.runtime.checking.bisect import Suspect
from shard_dialect.runtime.checking.check import Verdict, check
from shard_dialect.runtime.checking.reference import Judge
from shard_dialect.runtime.communication_report import Report
from shard_dialect.runtime.communicators.launched_world import world_of
from shard_dialect.runtime.communicators.registered_devices import LocalExecutor, devices_of
from shard_dialect.runtime.communicators.world import InProcess, World
from shard_dialect.runtime.compile import compile_by, compile_reference, compile_sharded
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.program_cache import Cache
from shard_dialect.runtime.random_inputs import drawn_inputs
from shard_dialect.runtime.saved_program import SavedProgram
from shard_dialect.runtime.shards_of_arrays import is_jax, like, to_numpy

Backend = Literal["devices", "mpi", "mpi4py", "torch", "xla"] | type[LocalExecutor]
"""Ours by name, or a user's class."""
Compiler = Literal["cpu", "torch"]
"""What computes on ranks: our own code, or torch where tensors are."""
Form = Literal["annotated", "propagated", "distributed", "local", "lowered", "stablehlo"]
_PIPELINES: dict[Form, str] = {
    "annotated": "import",
    "propagated": ",".join(steps_before("split-reductions")),
    "distributed": ",".join(steps_before("partition")),
    "local": "spmd",
    "lowered": "spmd,lower",
    "stablehlo": "spmd,lower{target=stablehlo}",
}


class CompiledProgram:
    """The result of `sd.compile`: called with global arrays, it returns global arrays."""

    def __init__(
        self,
        source: Source,
        backend: Backend = "devices",
        entry: str | None = None,
        executable: Executable | None = None,
        cache: Cache | None = None,
        compiler: Compiler = "cpu",
    ):
        """Compile, or take what was compiled for this backend.

        The compiler "torch" is for ranks of torch.distributed.
        """
        self._source, self._is_native = source, backend == "mpi"
        joining = world_of(backend, compiler) if isinstance(backend, str) else None
        in_process = devices_of(backend)
        peers = joining() if joining else None
        with make_context(), listening() as heard:
            if executable is not None:
                self._executable: Any = executable
            elif compiler == "torch" and peers:
                self._executable = compile_by(type(peers), source, entry)
            elif in_process is not InProcess:
                self._executable = compile_by(in_process, source, entry)
            else:
                self._executable = compile_sharded(
                    source, entry, cache, native_mpi=self._is_native, in_ranks=peers is not None
                )
        self.program = self._executable.program
        """Its boundary: the global and local types of arguments and results, and how they are
        sharded."""
        if peers:
            peers.check_size(self.program.devices)
        self.diagnostics = tuple(heard)
        """The warnings that compiling it gave."""
        self.world: World = peers or in_process(self.program.devices)
        """The devices."""
        self.is_of_torch = compiler == "torch" and peers is not None
        """Whether torch computes, which takes and gives tensors where they are."""

    def __call__(self, *arguments: Any) -> Any:
        """The global result, or a tuple of several, for the program's arguments.

        Arguments are arrays of numpy, JAX or torch, and the results are of the same kind. With many
        processes, each gives the same arguments, and that of rank 0 gets the results; the others
        get `None`. With the backend "xla", arrays of JAX stay on the devices. Raises `ShardError`
        for arguments of other shapes or types.
        """
        if isinstance(self._executable, XlaExecutable) and all(map(is_jax, arguments)):
            self._check_count(arguments)
            for number, each in enumerate(arguments):
                _check_type(number, each, self.program.arguments[number].global_type)
            found = self._executable.on_global_arrays(*arguments)
            return found[0] if len(found) == 1 else found
        inputs = self._inputs(arguments)
        outputs = self.world.gather(self._run(inputs))
        if not self.world.speaks:
            return None
        example = arguments[0] if arguments else None
        results = [like(each, example) for each in self.program.gather(outputs)]
        return results[0] if len(results) == 1 else tuple(results)

    def save(self, folder: str | Path) -> None:
        """Write what was compiled to a new folder, for `sd.load` on machines of this kind.

        Raises `ShardError` for programs of the backend "xla", or of a plugin's.
        """
        if not isinstance(self._executable, Executable):
            raise ShardError(
                "only what our own code computes can be saved: not XLA's, or a plugin's"
            )
        text, entry = self._source.text, self.program.entry
        assert isinstance(text, str), "a module's text"
        saved = SavedProgram(text, self._source.name, entry, self._is_native, self._executable)
        saved.write(Path(folder))

    @classmethod
    def load(cls, folder: str | Path, backend: Backend = "devices") -> CompiledProgram:
        """The program that `save` wrote. Raises `ShardError` where it does not fit."""
        saved = SavedProgram.read(Path(folder))
        if saved.is_native != (backend == "mpi") or devices_of(backend) is not InProcess:
            expected = '"mpi"' if saved.is_native else '"devices", "mpi4py" or "torch"'
            raise ShardError(
                f"'{folder}' has a program for the backend {expected}, not for \"{backend}\""
            )
        return cls(saved.source, backend, saved.entry, saved.executable)

    @property
    def report(self) -> Report:
        """The communication of one device."""
        return Report.of(self.program.calls)

    def communication(self) -> Report:
        """The same as `report`."""
        return self.report

    def text(self, form: Form) -> str:
        """The program in one of its forms, as text. Raises `ShardError` for what is no form."""
        check_one_of("the form", form, tuple(_PIPELINES))
        with make_context(), self._source.file_locations():
            module = self._source.parse()
            run_pipeline(module, _PIPELINES[form])
            return str(module.operation.get_asm())

    def check(
        self,
        *arguments: Any,
        seed: int = 0,
        judge: Judge | None = None,
        unsharded: Source | None = None,
    ) -> Verdict:
        """Compare each device's results with the unsharded program's.

        Without arguments, they are drawn at random. `judge` runs the unsharded program; by default
        the first of "xla", "upstream" and "self" that can. `unsharded` is another text of it than
        the program's own without its shardings.
        """
        inputs = self._inputs(arguments) if arguments else self._drawn(seed)
        outputs = self.world.gather(self._run(inputs))
        reference = None
        with listening() as heard:
            if self.world.speaks:
                with make_context():
                    source = unsharded or self._source
                    reference = compile_reference(source, self.program.entry, by=judge)
            verdict = check(self._executable, reference, inputs, outputs, self.world)
        return replace(verdict, diagnostics=tuple(heard))

    def bisect(
        self,
        *arguments: Any,
        seed: int = 0,
        judge: Judge | None = None,
        unsharded: Source | None = None,
    ) -> ShardError | None:
        """Find the first op whose value on the devices is wrong; `None` if the check passes.

        `unsharded` is the program that this one was made of, where a pass's output was edited.
        """
        verdict = self.check(*arguments, seed=seed, judge=judge, unsharded=unsharded)
        if verdict.passed:
            return None
        inputs = self._inputs(arguments) if arguments else self._drawn(seed)
        with make_context():
            suspect = Suspect.read(self._source, self.program.entry, Sizes(), judge, unsharded)
            of = unsharded or self._source
            reference = compile_reference(of, self.program.entry, by=judge)
        return suspect.error(reference, inputs, self.world, verdict.failure)

    def _inputs(self, arguments: Sequence[Any]) -> list[Array]:
        types = [each.global_type for each in self.program.arguments]
        self._check_count(arguments)
        pairs = enumerate(zip(arguments, types, strict=True))
        return [_checked(number, argument, type_) for number, (argument, type_) in pairs]

    def _check_count(self, arguments: Sequence[Any]) -> None:
        count = len(self.program.arguments)
        if len(arguments) != count:
            raise ShardError(
                f"{as_symbol(self.program.entry)} takes {count} arguments, and was given "
                f"{len(arguments)}"
            )

    def _drawn(self, seed: int) -> list[Array]:
        return drawn_inputs(self._source, self.program, seed)

    def hand_over(self, following: CompiledProgram, pairs: Mapping[int, int]) -> None:
        """Let results be written where another program takes them, as donated arguments.

        That may overwrite them: it is run once for each of our runs, with what that has returned.
        """
        if not self.is_of_torch:
            self._executable.hand_over(following._executable, pairs)

    def run_shards(self, shards: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """The shards of the results, for those of the arguments, of each device of this process.

        Shards have the local shapes of `program`: where a sharding is uneven, they are padded.
        """
        with ONE_THREAD if self.program.devices > 1 else nullcontext():
            return self.world.run(self._executable, shards)

    def run_tensors(self, shards: Sequence[Any], device: Any) -> list[Any]:
        """The same for tensors of torch on a device of this rank, where it is `is_of_torch`."""
        world: Any = self.world
        return list(world.run_tensors(self._executable, shards, device))

    def _run(self, inputs: Sequence[Array]) -> list[list[Array]]:
        return self.run_shards([self.program.scatter(inputs, rank) for rank in self.world.ranks])


def _checked(number: int, argument: Any, type_: TensorType) -> Array:
    """The argument as an array of numpy; Python's own numbers get the program's type."""
    array = to_numpy(argument)
    if not hasattr(argument, "dtype"):
        array = array.astype(type_.dtype)
    _check_type(number, array, type_)
    return array


def _check_type(number: int, array: Any, type_: TensorType) -> None:
    if (array.shape, array.dtype) != (type_.shape, type_.dtype):
        raise ShardError(
            f"argument {number} is an array of {array.dtype} of shape {list(array.shape)}: "
            f"expected {type_.dtype} of shape {list(type_.shape)}"
        )
