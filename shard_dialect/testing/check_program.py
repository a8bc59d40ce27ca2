"""Compare a program, sharded and run on devices in this process, with the unsharded program.

reference = reference_of(text)
run_and_check(text, "spmd,lower", reference=reference).verdict.passed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from shard_dialect.abi.lowered_program import find_function
from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.xla.xla_devices import XlaDevices, XlaExecutable
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.function import form_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.check import Verdict, check
from shard_dialect.runtime.checking.reference import Judge, Reference
from shard_dialect.runtime.checking.reference.by_xla import is_open
from shard_dialect.runtime.communication_report import Report
from shard_dialect.runtime.communicators.world import InProcess, Runnable
from shard_dialect.runtime.compile import compile_reference
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.random_inputs import random_inputs

_SEED = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run."""

    verdict: Verdict
    collectives: Counter[str]
    """The number of collectives of each kind in the program that each device runs."""


def compile_unsharded(text: str) -> Executable:
    """Compile the program without its shardings; it writes to no buffer twice."""
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "import,erase-sharding,lower{copy-before-write=true}")
        return Executable(module, "main")


def reference_of(text: str, by: Judge | None = None) -> Reference:
    """The program without its shardings, compiled for the most independent judge."""
    with make_context():
        return compile_reference(Source.of(text), "main", by=by)


Compiler = Literal["xla", "torch"]
"""The backends that run the local form."""


def run_and_check(
    text: str,
    *extra_arguments: str,
    reference: Reference | None = None,
    compiler: Compiler = "xla",
) -> Outcome:
    """Run `@main` through a pipeline, or its sections with text in between, and compare.

    XLA, or torch, runs a program that the pipeline leaves in the local form.
    Raises `ShardError` for a program that is refused.
    """
    with make_context():
        now = text
        for argument in extra_arguments:
            module = Source.of(now).parse()
            run_pipeline(module, argument)
            now = str(module)
        is_lowered = form_of(find_function(module.operation, "main")) == "lowered"
        executable, in_process = (Executable, InProcess) if is_lowered else _others(compiler)
        if not is_lowered:
            _refuse_open(module.operation)
        sharded: Runnable = executable(module, "main")
        reference = reference or reference_of(text)
    program = sharded.program
    inputs = inputs_of(sharded)
    world = in_process(program.devices)
    outputs = world.run(sharded, [program.scatter(inputs, rank) for rank in world.ranks])
    again = inputs_of(sharded)
    assert all(map(_are_same, inputs, again)), "the program writes to its inputs"
    collectives = Counter(entry.kind for entry in Report.of(program.calls).entries)
    return Outcome(check(sharded, reference, inputs, outputs, world), collectives)


def _others(compiler: Compiler) -> tuple[Callable[[ir.Module, str], Runnable], type[InProcess]]:
    """How a program in the local form is compiled, and the devices that it runs on."""
    if compiler == "xla":
        return XlaExecutable, XlaDevices
    from shard_dialect.runtime.torch_executable import TorchExecutable
    from shard_dialect.testing.emulated_distributed import TorchThreads

    return TorchExecutable, TorchThreads


def _refuse_open(module: ir.Operation) -> None:
    for op in walk(module):
        if is_open(op):
            raise error_at(
                op.location, f"XLA may do otherwise what such a '{op.name}' op leaves open"
            )


def inputs_of(executable: Runnable) -> list[Array]:
    """The inputs for a program, the same each time."""
    return random_inputs([each.global_type for each in executable.program.arguments], _SEED)


def has_numbers_only(reference: Reference) -> bool:
    """Whether all elements of the results are finite; others cannot be compared well."""
    results = reference.run(random_inputs(reference.arguments, _SEED))
    return all(np.isfinite(np.asarray(each, np.float64)).all() for each in results)


def _are_same(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b))
