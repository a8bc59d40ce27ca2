"""The one root of every error that a user can cause.

`opt` and `run` print a `ShardError` as `file:line:col: error: message` and exit with status 1.
Our own invariants are `assert`s with a message: those are bugs, and their tracebacks are wanted.
"""

from __future__ import annotations


class ShardError(Exception):
    """A mistake in the user's input: a message in lower case, and where it is.

    `location` is `file:line:col`, or `None` where the mistake is in no file (a flag, say).
    """

    def __init__(self, message: str, location: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return (
            f"{self.location}: error: {self.message}" if self.location else f"error: {self.message}"
        )

    def at(self, location: str | None) -> ShardError:
        """The same error with a place, unless it already knows a (more exact) one."""
        return self if self.location else ShardError(self.message, location)


def cannot(do: str, path: str, error: OSError) -> ShardError:
    """What the system said when we tried to `do` (read, write) the file at `path`."""
    return ShardError(f"cannot {do} '{path}': {(error.strerror or str(error)).lower()}")


class ShardWarning(UserWarning):
    """Something that the user should know about and that stops nothing."""

    def __init__(self, message: str, location: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return (
            f"{self.location}: warning: {self.message}"
            if self.location
            else f"warning: {self.message}"
        )


class MissingExtra(ShardError):
    """An optional package is not installed; the message names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: run `pip install 'shard-dialect[{extra}]'`")
