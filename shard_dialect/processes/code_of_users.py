"""Calls of users' functions: what they raise is an error that names them, and who watches is told.

A function may never return, or crash the process: then the watch says which one was running.

    error: interrupted in the rule of 'my.op' (my_ops.py:12), at in.mlir:5:8
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from shard_dialect.errors import FAILURES, ShardError, brief, raised_in
from shard_dialect.processes.to_parent import USER, is_watched, tell, what_is_done

T = TypeVar("T")
_now = ""


@contextmanager
def in_code_of_user(what: str, function: Any = None, location: str | None = None) -> Iterator[None]:
    """Tell who watches that `function`, which `what` names, runs in the `with` block."""
    global _now
    if not is_watched():
        yield
        return
    before, location = _now, location or what_is_done()[0]
    _now = f"{what}{_defined(function)}{f', at {location}' if location else ''}"
    tell(USER, _now)
    try:
        yield
    finally:
        _now = before
        tell(USER, before)


def _defined(function: Any) -> str:
    """The file and line of a function, or of a class's."""
    methods = (getattr(function, name, None) for name in ("__init__", "__call__"))
    for each in (function, *methods):
        code = getattr(each, "__code__", None)
        if code is not None:
            return f" ({code.co_filename}:{code.co_firstlineno})"
    return ""


def of_user(
    what: str, call: Callable[[], T], location: str | None = None, function: Any = None
) -> T:
    """What a user's function returns; whatever it raises is a `ShardError` that names `what`."""
    try:
        with in_code_of_user(what, function, location):
            return call()
    except ShardError as error:
        raise (error.at(location) if location else error) from None
    except FAILURES as error:
        raise ShardError(f"{what} raised {brief(error)}", location, raised_in(error)) from error
