"""Choose the most independent judge that can run a program.

The last choice is our own code: fast, but it shares its faults with the checked program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

from shard_dialect.abi.lowered_program import find_function
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError, check_one_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.processes.to_parent import doing
from shard_dialect.runtime.checking.reference.by_upstream import compile_by_upstream
from shard_dialect.runtime.checking.reference.by_xla import compile_by_xla
from shard_dialect.runtime.checking.reference.judge import (
    CannotJudge,
    Compiled,
    Reference,
    boundary_types,
)
from shard_dialect.runtime.checking.reference.rounding import add_factors
from shard_dialect.runtime.executable import Alone, Executable


def compile_by_self(module: ir.Operation, entry: str, _: int) -> Compiled:
    """Compile as each device's program is, except its buffers."""
    copy = ir.Module.parse(module.get_asm(enable_debug_info=True), module.context)
    run_pipeline(copy, "lower{copy-before-write=true}")
    executable = Executable(copy, entry)

    def execute(inputs: Sequence[Array]) -> list[Array]:
        return executable.run(inputs, Alone())

    return Compiled("our own code, as the devices are", execute)


Judge = Literal["xla", "upstream", "self"]
JUDGES: tuple[Judge, ...] = get_args(Judge)
"""The judges, from the one that shares least code with what it judges."""
_COMPILE: Mapping[Judge, Callable[[ir.Operation, str, int], Compiled]] = {
    "xla": compile_by_xla,
    "upstream": compile_by_upstream,
    "self": compile_by_self,
}


def judged_by(module: ir.Operation, entry: str, by: Judge | None = None) -> Reference:
    """Compile the function `entry` of an unsharded module for a judge, by default the first able.

    Raises a `ShardError` if `by` cannot run it, or no judge can. The module is consumed.
    """
    if by is not None:
        check_one_of("the judge", by, JUDGES)
    function = find_function(module, entry)
    try:
        arguments, results = boundary_types(function)
    except CannotJudge as error:
        raise error_at(function.location, f"function @{entry} cannot be checked: {error}") from None
    with ir.Location.unknown(module.context):
        add_factors(module, function)
    (argument_types, _) = boundary_types(function)
    reasons: list[str] = []
    for each in (by,) if by else JUDGES:
        doing(f"the compiler of the unsharded program (--reference-by={each})")
        try:
            compiled = _COMPILE[each](module, entry, len(arguments))
        except CannotJudge as error:
            reasons.append(f"--reference-by={each}: {error}")
            continue
        factors = tuple(argument_types[len(arguments) :])
        return Reference(compiled, tuple(arguments), tuple(results), factors)
    raise ShardError(f"cannot run the unsharded program with {'; '.join(reasons)}")
