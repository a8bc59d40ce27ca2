"""Locations and diagnostics: from MLIR's to ours, `file:line:col: error: message`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shard_dialect.errors import Diagnostic, Severity, ShardError, ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.string_literals import quoted


def warn(message: str, location: ir.Location, *notes: Diagnostic) -> None:
    """Tell the user, through Python's `warnings`; `opt` and `run` print it on stderr."""
    give(Diagnostic("warning", message, location_text(location), notes))


def remark(message: str, location: ir.Location, *notes: Diagnostic) -> None:
    """As `warn`, for what is worth knowing and no reason to worry."""
    give(Diagnostic("remark", message, location_text(location), notes))


def give(found: Diagnostic) -> None:
    """Warn of what was found, and tell who is `listening`: whatever filters `warnings` has."""
    heard = _heard.get()
    if heard is not None:
        heard.append(found)
    said = ShardWarning(found.message, found.location, found.notes, found.severity)
    warnings.warn(said, stacklevel=3)


_heard: ContextVar[list[Diagnostic] | None] = ContextVar("_heard", default=None)


@contextmanager
def listening() -> Iterator[list[Diagnostic]]:
    """Collect what is warned of meanwhile."""
    heard: list[Diagnostic] = []
    token = _heard.set(heard)
    try:
        yield heard
    finally:
        _heard.reset(token)


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


def with_file_names(text: str) -> str:
    """Printed IR with the locations that `location_text` gives, where MLIR calls the file `-`."""

    def restored(match: re.Match[str]) -> str:
        file, line, column = _shown.get()(f"-:{match[1]}").rsplit(":", 2)
        return f"loc({quoted(file)}:{line}:{column})"

    return re.sub(r'\bloc\("-":(\d+:\d+)\)', restored, text)


def error_at(location: ir.Location, message: str, *notes: Diagnostic) -> ShardError:
    return ShardError(message, location_text(location), notes)


def note_at(location: ir.Location, message: str) -> Diagnostic:
    return Diagnostic("note", message, location_text(location))


@contextmanager
def located(op: ir.Operation) -> Iterator[None]:
    """Give errors from inside that have no place yet the op's."""
    try:
        yield
    except ShardError as error:
        raise error.at(location_text(op.location)) from None


@contextmanager
def readable_strings(op: ir.Operation) -> Iterator[None]:
    """MLIR's strings are bytes, the bindings' are not: name the op whose string cannot be read."""
    try:
        yield
    except RuntimeError as error:
        raise not_utf8(error, location_text(op.location), f"'{op.name}' op ") from None


def not_utf8(error: RuntimeError, location: str | None, what: str = "") -> ShardError:
    """The error to tell of the bindings' own about a string; raises it again if it is another."""
    if "nanobind" not in str(error):
        raise error
    return ShardError(f"{what}holds a string that is not UTF-8", location)


def from_mlir(error: ir.MLIRError) -> ShardError:
    """The diagnostics of MLIR's exception in our form."""
    found = [_diagnostic(each) for each in error.error_diagnostics]
    return _as_error(found) if found else ShardError(str(error).strip())


@contextmanager
def reporting(context: ir.Context) -> Iterator[None]:
    """Pass MLIR's own warnings and remarks on to Python's `warnings`, where ours go.

    Errors come in MLIR's exceptions, or are raised in the place of exceptions that do not say them;
    one that made nothing fail is raised at the end.
    """
    errors: list[Diagnostic] = []
    raised: list[BaseException] = []  # an exception cannot pass through MLIR

    def handle(found: ir.Diagnostic) -> bool:
        try:
            read = _diagnostic(found)
            if read.severity == "error":
                errors.append(read)
            else:
                give(read)
        except BaseException as error:
            raised.append(error)
        return True

    handler = context.attach_diagnostic_handler(handle)
    try:
        yield
    except RuntimeError:
        if errors:
            raise _as_error(errors) from None
        raise
    finally:
        handler.detach()
    if raised:
        raise raised[0]
    if errors:
        raise _as_error(errors)


def _as_error(found: list[Diagnostic]) -> ShardError:
    first, *further = found
    return ShardError(first.message, first.location, first.notes, further)


def _diagnostic(found: ir.Diagnostic | ir.DiagnosticInfo) -> Diagnostic:
    notes = tuple(_diagnostic(each) for each in found.notes)
    return Diagnostic(_severity(found), found.message, location_text(found.location), notes)


def _severity(found: ir.Diagnostic | ir.DiagnosticInfo) -> Severity:
    names: dict[object, Severity] = {
        ir.DiagnosticSeverity.ERROR: "error",
        ir.DiagnosticSeverity.WARNING: "warning",
        ir.DiagnosticSeverity.REMARK: "remark",
        ir.DiagnosticSeverity.NOTE: "note",
    }
    return names[found.severity]
