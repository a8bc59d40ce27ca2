"""Locations and diagnostics: from MLIR's to ours, `file:line:col: error: message`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.bindings import ir


def warn(message: str, location: ir.Location) -> None:
    """Tell the user, through Python's `warnings`; `opt` and `run` print it on stderr."""
    warnings.warn(ShardWarning(message, location_text(location)), stacklevel=2)


_shown: ContextVar[Callable[[str], str]] = ContextVar("_shown", default=lambda text: text)


@contextmanager
def showing_locations(show: Callable[[str], str]) -> Iterator[None]:
    """Pass every `file:line:col` through `show`, for text that is not as the user wrote it."""
    token = _shown.set(show)
    try:
        yield
    finally:
        _shown.reset(token)


def location_text(location: ir.Location) -> str | None:
    """`file:line:col` of a location: its own, or that of the innermost one that has it."""
    location = ir.Location.from_attr(location.attr)  # of its own class, which diagnostics lack
    if isinstance(location, ir.FileLineColLoc):
        return _shown.get()(f"{location.filename}:{location.start_line}:{location.start_col}")
    if isinstance(location, ir.NameLoc):
        return location_text(location.child_loc)
    if isinstance(location, ir.CallSiteLoc):
        return location_text(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next((text for inner in location.locations if (text := location_text(inner))), None)
    return None


def error_at(location: ir.Location, message: str) -> ShardError:
    return ShardError(message, location_text(location))


@contextmanager
def located(op: ir.Operation) -> Iterator[None]:
    """Give errors from inside that have no place yet the op's."""
    try:
        yield
    except ShardError as error:
        raise error.at(location_text(op.location)) from None


def from_mlir(error: ir.MLIRError) -> ShardError:
    """The first diagnostic of MLIR's exception, in our form."""
    for diagnostic in error.error_diagnostics:
        return error_at(diagnostic.location, diagnostic.message)
    return ShardError(str(error).strip())
