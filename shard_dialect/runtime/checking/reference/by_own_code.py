"""Our own code as the judge: fast, but it shares its faults with the checked program."""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.codegen.array_types import Array
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.reference.judge import Execute
from shard_dialect.runtime.executable import Alone, Executable


def compile_by_self(module: ir.Operation, entry: str, _: int) -> tuple[str, Execute]:
    """The judge's name, and the function: lowered as each device's program, except its buffers."""
    copy = ir.Module.parse(module.get_asm(enable_debug_info=True), module.context)
    run_pipeline(copy, "lower{copy-before-write=true}")
    executable = Executable(copy, entry)

    def execute(inputs: Sequence[Array]) -> list[Array]:
        return executable.run(inputs, Alone())

    return "our own code, as the devices are", execute
