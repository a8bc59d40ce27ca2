"""Modules and contexts that others made over the same bindings, prepared for our passes."""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, provider
from shard_dialect.ir.context import BASE, STABLEHLO, is_of_users, load_ours
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.mesh.mesh_dialect import NAME
from shard_dialect.ir.walk import walk


def make_ready(module: ir.Module | ir.Operation) -> None:
    """Load into the context of `module` the dialects that passes need, where they are missing.

    Raises `ShardError` for a module of other bindings. Raises a located one for an op that was read
    before its dialect was loaded, as unregistered ones are: MLIR aborts if that is loaded after it.
    """
    require_module(module)
    if module.context.allow_unregistered_dialects:
        with module.context:
            _refuse_early_ops(module.operation)
    make_context_ready(module.context)


def require_module(found: object) -> None:
    """Raise a `ShardError` that says what to give instead of what is no module of the bindings."""
    if isinstance(found, ir.Module | ir.Operation | ir.OpView):
        return
    for attribute, advice in _ADVICE.items():
        if hasattr(found, attribute):
            cls = type(found)
            raise ShardError(f"a {cls.__module__}.{cls.__qualname__} is no module: {advice}")
    raise _is_foreign("module", found)


_ADVICE = {
    "splitlines": "give what sd.parse returns for it",
    "read_text": "give what sd.parse returns for it",
    "bisect": "its report is .report, its text .text('local'); or give the module it is made of",
    "compiled": "its report is .compiled.report; or give what sd.torch.lower returns",
    "named_parameters": "give what sd.torch.lower returns for it",
    "lower": "give what .lower(...) returns for its arguments",
    "as_text": "give what .lower(...) has returned, which .compile() was called on",
    "bytes_moved": "give the module that it is the report on",
}
"""What to give instead of an object that has an attribute: a text, a path, one of torch or JAX."""


def make_context_ready(context: ir.Context) -> None:
    """Load into `context` the dialects that passes need, where they are missing.

    It is single-threaded then, as those that `make_context` returns. Raises `ShardError`.
    """
    if not isinstance(context, ir.Context):
        raise _is_foreign("context", context)
    if not context.is_dialect_loaded(NAME):
        for name in BASE:
            context.dialects[name]
        load_ours(context, is_foreign=True)
    elif not context.is_registered_operation("mesh.annotate"):
        raise ShardError(
            f"the context has another dialect called '{NAME}': use one that sd.make_context made"
        )


def _is_foreign(what: str, found: object) -> ShardError:
    cls = type(found)
    return ShardError(
        f"a {cls.__module__}.{cls.__qualname__} is no {what} of {provider}, the bindings in use: "
        "give the module's text to sd.parse"
    )


def _refuse_early_ops(module: ir.Operation) -> None:
    known: set[str] = set()
    for op in walk(module):
        name = op.name
        if name in known:
            continue
        known.add(name)
        dialect = name.partition(".")[0]
        is_loaded_later = dialect in (NAME, *BASE, *STABLEHLO) or is_of_users(dialect)
        if is_loaded_later and not op.context.is_registered_operation(name):
            raise error_at(
                op.location,
                f"'{name}' op was read before its dialect was loaded: read the module in a context "
                "that sd.make_context made, or give its text to sd.parse",
            )
