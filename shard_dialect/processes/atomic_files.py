"""Write output files atomically: complete and checked, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from errno import EISDIR
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from shard_dialect.errors import ShardError, cannot
from shard_dialect.processes.to_parent import WRITES, tell

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True, slots=True)
class Output:
    """The file at `path`, through links; until it is complete, it has another name beside it.

    That name is unique, and reported to the watch of this process, which removes the file if the
    process is ended.
    """

    path: str

    def check(self, reads: Iterable[str]) -> None:
        """Raise `ShardError` if it is one of the files `reads`, by any name, or not writable."""
        for other in reads:
            if _is_same(self.path, other):
                raise ShardError(f"'{self.path}' would be read and written over")
        try:
            target = self._target
            if target.is_dir():
                raise IsADirectoryError(EISDIR, os.strerror(EISDIR))
            target.parent.stat()
        except OSError as error:
            raise cannot("write", self.path, error) from None

    def replace(self, write: Callable[[BinaryIO], object]) -> None:
        """Write a new file, and only then replace the old one. Raises `ShardError`."""
        try:
            if not self._target.exists() or self._target.is_file():
                self._replace(write)
                return
            data = BytesIO()  # a device is not replaced, and cannot seek
            write(data)
            self._target.write_bytes(data.getvalue())
        except OSError as error:
            raise cannot("write", self.path, error) from None

    @property
    def _target(self) -> Path:
        return Path(os.path.realpath(self.path))

    def _replace(self, write: Callable[[BinaryIO], object]) -> None:
        target = self._target
        partial = target.with_name(f".{token_hex(16)}.partial")
        is_there = target.exists()
        if is_there:
            os.close(os.open(target, os.O_WRONLY))  # a write-protected file is not replaced
        tell(WRITES, str(partial.absolute()))
        with open(os.open(partial, _FLAGS, 0o666), "wb") as file:
            try:
                if is_there:
                    os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
                write(file)
                file.close()  # writing may fail only now
                partial.replace(target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        tell(WRITES)


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The folder at `path`, for one file a rank. It is made when the first one is written."""

    path: str

    def check(self, reads: Iterable[str]) -> None:
        """Raise `ShardError` if a file in it is one of `reads`, or it cannot be a folder."""
        named = list(reads)
        for other in named:
            if _is_same(self.path, other):
                raise ShardError(f"'{self.path}' would be read and written over")
        try:
            folder = Path(os.path.realpath(self.path))
            if not folder.exists():
                folder.parent.stat()
                return
            for each in folder.iterdir():  # which must be a folder
                if each.name.startswith("rank"):
                    Output(str(each)).check(named)
        except OSError as error:
            raise cannot("write", self.path, error) from None

    def replace(self, rank: int, write: Callable[[BinaryIO], object]) -> None:
        """Write the new file of a rank, and only then replace the old one. Raises `ShardError`."""
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise cannot("write", self.path, error) from None
        Output(file_of(self.path, rank)).replace(write)


def file_of(folder: str, rank: int) -> str:
    """The file of a rank."""
    return os.path.join(folder, f"rank{rank}.npz")


def _is_same(path: str, other: str) -> bool:
    """Whether two paths name one file, which may have several names, or not exist yet."""
    try:
        return os.path.realpath(path) == os.path.realpath(other) or os.path.samefile(path, other)
    except OSError:  # one is not there, or no folder to begin from
        return False
