"""The base class of passes: a frozen dataclass with its options as fields, and `rewrite`.

    @register_pass
    @dataclass(frozen=True)
    class DropUnused(Pass):
        \"\"\"Erase functions that nothing calls.\"\"\"

        name = "drop-unused"

        def rewrite(self, module: ir.Operation) -> None: ...

A pass without options may be a function instead. `needs` names the ops, forms and grids without
which the pass has nothing to do:

    @needs(ops=("func.call",))
    def drop_unused(module: ir.Operation) -> None:
        \"\"\"Erase functions that nothing calls.\"\"\"

A sequence of passes with a name and options of its own is a `NamedPipeline`.

Analyses of a module are kept until a pass changes it, as by MLIR's analysis manager:

    names = known(module, ops_of)      reads the module, or returns what an earlier pass read

A pass that returns `UNCHANGED` or `CURRENT` leaves them valid; any other pass invalidates all that
it does not keep by its `needs`, and each that is not ours all of them.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar, cast

from shard_dialect.ir.bindings import ir, plain_ops
from shard_dialect.ir.diagnostics import holding
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.verify import declares_no_grid
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.options import options_of, written

T = TypeVar("T")
Analysis = Callable[[ir.Operation], Any]
_kept: ContextVar[tuple[ir.Operation, dict[Hashable, object]] | None] = ContextVar("_kept")


def keeping_analyses() -> AbstractContextManager[None]:
    """Keep analyses from one pass to the next, in the `with` block."""
    return holding(_kept, None)


def known(module: ir.Operation, find: Callable[[ir.Operation], T]) -> T:
    """The result of the analysis `find` for the module, computed once until the module changes."""
    kept = _kept.get(None)
    if kept is None or kept[0] != module:
        kept = module, {}
        remember(kept)
    if find not in kept[1]:
        kept[1][find] = find(module)
    return cast("T", kept[1][find])


def learn(module: ir.Operation, find: Callable[[ir.Operation], T], result: T) -> None:
    """Let `result` be what `known` gives for `find`.

    A pass that has changed the module forgets the analyses before, and returns `CURRENT`.
    """
    kept = _kept.get(None)
    others = kept[1] if kept is not None and kept[0] == module else {}
    remember((module, {**others, find: result}))


def remember(kept: tuple[ir.Operation, dict[Hashable, object]] | None) -> None:
    """Replace the kept analyses, if a pipeline keeps any."""
    try:
        _kept.get()
    except LookupError:  # a pass that runs by itself: its caller may change the module after it
        return
    _kept.set(kept)


def forget_analyses(keeps: Sequence[Analysis] = ()) -> None:
    """Invalidate all analyses but those in `keeps`: the module has changed."""
    kept = _kept.get(None)
    results = kept[1] if kept is not None else {}
    left: dict[Hashable, object] = {find: results[find] for find in keeps if find in results}
    remember((kept[0], left) if kept is not None and left else None)


def ops_of(module: ir.Operation) -> frozenset[str]:
    """The names of all ops in a module."""
    return frozenset(op.name for op in walk(module))


def is_imported(_: ir.Operation) -> bool:
    """Whether nothing is left to import: `import` learns it, and passes after it keep it."""
    return False


def forms_of(module: ir.Operation) -> frozenset[str]:
    """The forms of the functions that have a body."""
    return frozenset(map(form_of, functions_of(module)))


@dataclass(frozen=True)
class Needs:
    """The requirements on a module without which a pass is skipped, as it has nothing to do."""

    ops: tuple[str, ...] = ()
    """Names of ops, or of dialects as in `cf.`, of which the module must have one."""
    forms: tuple[str, ...] = ()
    """The forms of which a function must be in one."""
    grid: bool = False
    """Whether the module must declare a grid. Raises a located `ShardError` where one is named that
    is not declared."""
    fact: Callable[[ir.Operation], bool] | None = None
    """An analysis of the module that must hold."""
    keeps: tuple[Analysis, ...] = ()
    """What stays as it is known, also where the pass changes the module."""

    def met_by(self, module: ir.Operation) -> bool:
        """Whether the module has all of it."""
        if self.grid and known(module, declares_no_grid):
            return False
        if self.fact is not None and not known(module, self.fact):
            return False
        if self.forms and known(module, forms_of).isdisjoint(self.forms):
            return False
        return not self.ops or any(map(self._is_needed, known(module, ops_of)))

    def _is_needed(self, name: str) -> bool:
        return name in self.ops or f"{name.partition('.')[0]}." in self.ops


ANYTHING = Needs()


@contextmanager
def _without_collection() -> Iterator[None]:
    """No search for garbage meanwhile: what a pass makes lives until it is done.

    For a large module the searches would take a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


UNCHANGED: Literal["unchanged"] = "unchanged"
"""The result of a `rewrite` that has not changed the module: its analyses stay valid."""
CURRENT: Literal["current"] = "current"
"""The result of a `rewrite` that has changed the module, and after that computed its analyses."""
Outcome = Literal["unchanged", "current"] | None


@dataclass(frozen=True)
class _Named(ABC):
    """The base of passes and pipelines: a name, a summary, and options."""

    name: ClassVar[str]

    @classmethod
    def summary(cls) -> str:
        """The first line of the class's docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def __str__(self) -> str:
        """As in a pipeline's text, with all options that are not `None`."""
        settings = [
            f"{option.name}={written(value)}"
            for option in options_of(type(self))
            if (value := getattr(self, option.field)) is not None
        ]
        return f"{self.name}{{{' '.join(settings)}}}" if settings else self.name


@dataclass(frozen=True)
class Pass(_Named):
    """A pass: it takes a module of valid IR, and leaves valid IR; its fields are its options."""

    anchor: ClassVar[str] = "builtin.module"
    """The op that the pass runs on: `func.func` for one function at a time, or `any`."""
    needs: ClassVar[Needs] = ANYTHING
    """The requirements without which the pass is skipped."""

    def run(self, module: ir.Module | ir.Operation) -> Outcome:
        """Change the module in place. Raises a located `ShardError` for what it cannot do."""
        with module.context, ir.Location.unknown(), plain_ops(), _without_collection():
            op = module.operation
            outcome = self.rewrite(op) if self.needs.met_by(op) else UNCHANGED
            if outcome is None:
                forget_analyses(self.needs.keeps)
            return outcome

    @abstractmethod
    def rewrite(self, module: ir.Operation, /) -> Outcome:
        """Change a module (or other `anchor`) in place, in its context."""


@dataclass(frozen=True)
class NamedPipeline(_Named):
    """A name for passes in a row, of which each is shown, timed, and printed by itself."""

    @abstractmethod
    def steps(self) -> tuple[str, ...]:
        """The elements of the pipeline's text, in order: passes, pipelines, or upstream's."""

    def with_options(self, name: str, *fields: str) -> str:
        """The text of a step, with this pipeline's values of options that both have.

        `fields` are the names of these fields. Options that have their default are left out.
        """
        given = [
            f"{option.name}={written(value)}"
            for option in options_of(type(self))
            if option.field in fields and (value := getattr(self, option.field)) != option.default
        ]
        return f"{name}{{{' '.join(given)}}}" if given else name


Decorated = TypeVar("Decorated", bound=Callable[[ir.Operation], Any] | type[Pass])


def needs(
    *,
    ops: tuple[str, ...] = (),
    forms: tuple[str, ...] = (),
    grid: bool = False,
    fact: Callable[[ir.Operation], bool] | None = None,
    keeps: tuple[Analysis, ...] = (),
) -> Callable[[Decorated], Decorated]:
    """State the requirements of a pass, a class or a function, without which it is skipped.

    And the analyses that it keeps.
    """

    def decorate(decorated: Decorated) -> Decorated:
        decorated.needs = Needs(ops, forms, grid, fact, keeps)  # type: ignore[union-attr]  # of a function, too
        return decorated

    return decorate


def pass_of_function(name: str, function: Callable[[ir.Operation], Outcome]) -> type[Pass]:
    """The class of a pass without options that a function of the module is."""
    members = {
        "name": name,
        "needs": getattr(function, "needs", ANYTHING),
        "rewrite": lambda _, module: function(module),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
    }
    return type(function.__name__, (Pass,), members)
