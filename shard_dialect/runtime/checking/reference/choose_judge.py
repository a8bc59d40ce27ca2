"""Choose the most independent judge that can run a program.

The last choice is our own code: fast, but it shares its faults with the checked program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, TypeVar, get_args

import numpy as np

from shard_dialect.abi.lowered_program import find_function
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import ShardError, as_symbol, check_one_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, later_in
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.processes.code_of_users import of_user
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


OwnJudge = Literal["xla", "upstream", "self"]
JUDGES: tuple[OwnJudge, ...] = get_args(OwnJudge)
"""Our judges, from the one that shares least code with what it judges."""
_COMPILE: Mapping[str, Callable[[ir.Operation, str, int], Compiled]] = {
    "xla": compile_by_xla,
    "upstream": compile_by_upstream,
    "self": compile_by_self,
}
UserJudge = Callable[[ir.Module, str], Callable[[list[Array]], Sequence[Array]]]
"""Compiles the function of this name; raises `CannotJudge` for one that it cannot run."""
Judge = OwnJudge | str | UserJudge
"""Ours or a plugin's by name, or a user's function."""
_REGISTERED: dict[str, UserJudge] = {}
_User = TypeVar("_User", bound=UserJudge)


def register_judge(name: str) -> Callable[[_User], _User]:
    """Let a function that compiles unsharded programs be what `--reference-by` calls `name`.

    It takes a module and the name of a function of it, and returns what runs it: a function from
    a list of arrays to the list of its results. `check(judge=...)` takes the function itself.
    It raises `CannotJudge` for what it cannot run.

    Raises `ShardError` for a name that is taken.
    """
    if name in judge_names():
        raise ShardError(f"judge '{name}' exists already")

    def register(compile_it: _User) -> _User:
        _REGISTERED[name] = compile_it
        return compile_it

    return register


def judge_names() -> list[str]:
    """Our judges, then those that plugins have registered so far."""
    return [*JUDGES, *sorted(_REGISTERED)]


def check_judge(by: Judge | None) -> None:
    """Raise a `ShardError` unless it is the name of a judge, or a function that judges."""
    if by is not None and not callable(by):
        check_one_of("the judge", by, judge_names())


def judged_by(module: ir.Operation, entry: str, by: Judge | None = None) -> Reference:
    """Compile the function `entry` of an unsharded module for a judge, by default the first able.

    Raises a `ShardError` if `by` cannot run it, or no judge can. The module is consumed.
    """
    if isinstance(by, str) or not callable(by):
        check_judge(by)
        by = _REGISTERED.get(by or "", by)
    function = find_function(module, entry)
    try:
        arguments, results = boundary_types(function)
    except CannotJudge as error:
        raise error_at(
            function.location, f"function {as_symbol(entry)} cannot be checked: {error}"
        ) from None
    if callable(by):
        return _by_user(by, module, entry, Reference(_NOBODY, tuple(arguments), tuple(results), ()))
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


def _nothing(_: Sequence[Array]) -> Sequence[Array]:
    return ()


_NOBODY = Compiled("nobody", _nothing)


def _arrays(results: Iterable[object], count: int) -> list[Array]:
    """The results as arrays, and one too many where there are more: there may be no end."""
    return [np.asarray(each) for each in islice(results, count + 1)]


def _by_user(by: UserJudge, module: ir.Operation, entry: str, reference: Reference) -> Reference:
    """The reference that a user's judge runs; what it raises and returns is checked."""
    own = getattr(by, "__name__", type(by).__name__)
    name = next((key for key, each in _REGISTERED.items() if each is by), str(own))
    what = f"judge '{name}'"
    copy = ir.Module.parse(module.get_asm(enable_debug_info=True), module.context)
    reasons: list[str] = []

    def compile_it() -> Callable[[list[Array]], Sequence[Array]] | None:
        try:
            return by(copy, entry)
        except CannotJudge as error:
            reasons.append(str(error))
            return None

    run = of_user(what, compile_it, function=by)
    if reasons:
        raise ShardError(f"cannot run the unsharded program with {what}: {reasons[0]}")
    if not callable(run):
        raise ShardError(
            f"{what} returned a {type(run).__name__} for {as_symbol(entry)}: expected a function "
            "from its arguments, a list of arrays, to the list of its results"
        )

    count, in_module = len(reference.results), later_in(copy)

    def execute(inputs: Sequence[Array]) -> list[Array]:
        with in_module():
            copies = [each.copy() for each in inputs]
            found = of_user(what, lambda: _arrays(run(copies), count), function=run)
        given = [f"{each.dtype}{list(each.shape)}" for each in found]
        expected = [f"{each.dtype}{list(each.shape)}" for each in reference.results]
        if given != expected:
            raise ShardError(
                f"{what} returned {', '.join(given) or 'nothing'} for {as_symbol(entry)}: expected "
                f"{', '.join(expected)}"
            )
        return found

    return replace(reference, compiled=Compiled(name, execute))
