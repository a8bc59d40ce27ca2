"""A folder that is the user's own, and files in it that nobody else can have written.

What is looked at is what was opened: nobody can put something else in its place between the look
and the use.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ELOOP, ENOTDIR
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""Not to wait for who writes to a pipe."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotOwnError(Exception):
    """Others may have written it: the message says how."""


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """A folder that is open, as `handle`."""

    path: Path
    handle: int

    def fixed(self, name: str) -> Path:
        """The path of a file in this very folder, wherever the folder's own path leads meanwhile.

        For this process only.
        """
        here = Path(f"/proc/self/fd/{self.handle}")
        return (here if here.is_dir() else self.path) / name

    @contextmanager
    def below(self, name: str) -> Iterator[OwnFolder]:
        """As `opened`, for a folder in this one."""
        with _opened(self.path / name, name, self.handle) as found:
            yield found

    def read(self, name: str, most: int) -> bytes:
        """A file's bytes. Raises `OSError` if there is none, or is none of ours of up to `most`
        bytes, and `NotOwnError`.
        """
        path = self.path / name
        handle = _handle(path, name, _FILE, self.handle)
        with open(handle, "rb") as file:
            state = os.fstat(handle)
            _refuse_others(path, state)
            if not stat.S_ISREG(state.st_mode) or state.st_size > most:
                raise OSError(f"'{path}' is no file of ours")
            os.utime(handle)  # it is in use
            return file.read(most)

    def write(self, name: str, data: bytes) -> None:
        """Write a new file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=self.handle), "wb") as file:
            file.write(data)

    def move(self, name: str, to: OwnFolder, new: str) -> None:
        """Give a file another place, and make it the user's alone."""
        os.chmod(name, 0o600, dir_fd=self.handle)
        os.replace(name, new, src_dir_fd=self.handle, dst_dir_fd=to.handle)

    def states(self, names: re.Pattern[str]) -> Iterator[tuple[str, os.stat_result]]:
        """What is in it under such names; links are not followed."""
        for name in filter(names.fullmatch, os.listdir(self.handle)):
            try:
                yield name, os.stat(name, dir_fd=self.handle, follow_symlinks=False)
            except FileNotFoundError:  # another process was faster
                continue


@contextmanager
def opened(path: Path) -> Iterator[OwnFolder]:
    """The folder, while it is used. Raises `OSError` if there is none, or `NotOwnError`."""
    with _opened(path, str(path), None) as found:
        yield found


@contextmanager
def _opened(path: Path, name: str, within: int | None) -> Iterator[OwnFolder]:
    handle = _handle(path, name, _FOLDER, within)
    try:
        _refuse_others(path, os.fstat(handle))
        yield OwnFolder(path, handle)
    finally:
        os.close(handle)


def _handle(path: Path, name: str, flags: int, within: int | None) -> int:
    try:
        return os.open(name, flags, dir_fd=within)
    except OSError as error:
        # Where a folder is wanted, a link is none.
        if error.errno == ELOOP or (error.errno == ENOTDIR and path.is_symlink()):
            raise NotOwnError(f"'{path}' is a symbolic link") from None
        raise


def _refuse_others(path: Path, state: os.stat_result) -> None:
    if state.st_uid != os.getuid():
        raise NotOwnError(f"'{path}' belongs to user {state.st_uid}")
    if state.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(state.st_mode)
        raise NotOwnError(f"others can write to '{path}' (its mode is {mode:o})")
