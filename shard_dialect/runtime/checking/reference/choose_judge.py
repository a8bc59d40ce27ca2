"""Choose the most independent judge that can run a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from shard_dialect.codegen.lowered_program import find_function
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.runtime.checking.reference.by_own_code import compile_by_self
from shard_dialect.runtime.checking.reference.by_upstream import compile_by_upstream
from shard_dialect.runtime.checking.reference.by_xla import compile_by_xla
from shard_dialect.runtime.checking.reference.judge import (
    CannotJudge,
    Execute,
    Reference,
    boundary_types,
)
from shard_dialect.runtime.checking.reference.rounding import add_factors

Judge = Literal["xla", "upstream", "self"]
JUDGES: tuple[Judge, ...] = get_args(Judge)
"""The judges, from the one that shares least code with what it judges."""
_COMPILE: Mapping[Judge, Callable[[ir.Operation, str, int], tuple[str, Execute]]] = {
    "xla": compile_by_xla,
    "upstream": compile_by_upstream,
    "self": compile_by_self,
}


def judged_by(module: ir.Operation, entry: str, by: Judge | None = None) -> Reference:
    """Compile the function `entry` of an unsharded module for a judge, by default the first able.

    Raises a `ShardError` if `by` cannot run it, or no judge can. The module is consumed.
    """
    function = find_function(module, entry)
    arguments, results = boundary_types(function)
    with ir.Location.unknown(module.context):
        add_factors(module, function)
    (argument_types, _) = boundary_types(function)
    reasons: list[str] = []
    for each in (by,) if by else JUDGES:
        try:
            judge, execute = _COMPILE[each](module, entry, len(arguments))
        except CannotJudge as error:
            reasons.append(f"--reference-by={each}: {error}")
            continue
        factors = tuple(argument_types[len(arguments) :])
        return Reference(judge, tuple(arguments), tuple(results), factors, execute)
    raise ShardError(f"cannot run the unsharded program with {'; '.join(reasons)}")
