"""A folder that the user owns, and files in it that nobody else can have written.

Checks are made on the opened file, so that nobody can replace it between the check and the use.
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
"""Non-blocking, so that opening a pipe does not wait for its writer."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotOwnError(Exception):
    """Others may have written the file or folder: the message says how."""


@dataclass(frozen=True, slots=True)
class OwnFolder:
    """An open folder, with its descriptor `handle`."""

    path: Path
    handle: int

    def fixed(self, name: str) -> Path:
        """The path of a file in this very folder, even if the folder's path is replaced.

        It is valid in this process only.
        """
        here = Path(f"/proc/self/fd/{self.handle}")
        return (here if here.is_dir() else self.path) / name

    @contextmanager
    def below(self, name: str) -> Iterator[OwnFolder]:
        """Open a folder in this one, as `opened` does."""
        with _opened(self.path / name, name, self.handle) as folder:
            yield folder

    def read(self, name: str, most: int) -> bytes:
        """Return a file's bytes.

        Raises `OSError` if there is no regular file of up to `most` bytes, and `NotOwnError`.
        """
        path = self.path / name
        handle = _handle(path, name, _FILE, self.handle)
        with open(handle, "rb") as file:
            state = os.fstat(handle)
            _refuse_others(path, state)
            if not stat.S_ISREG(state.st_mode) or state.st_size > most:
                raise OSError(f"'{path}' is no file of ours")
            os.utime(handle)  # marks it as used
            return file.read(most)

    def write(self, name: str, data: bytes) -> None:
        """Write a new file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, 0o600, dir_fd=self.handle), "wb") as file:
            file.write(data)

    def move(self, name: str, to: OwnFolder, new: str) -> None:
        """Move a file to another folder, accessible to the user alone."""
        os.chmod(name, 0o600, dir_fd=self.handle)
        os.replace(name, new, src_dir_fd=self.handle, dst_dir_fd=to.handle)

    def states(self, names: re.Pattern[str]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the entries whose names match, with their states; links are not followed."""
        for name in filter(names.fullmatch, os.listdir(self.handle)):
            try:
                yield name, os.stat(name, dir_fd=self.handle, follow_symlinks=False)
            except FileNotFoundError:  # another process removed it
                continue


@contextmanager
def opened(path: Path) -> Iterator[OwnFolder]:
    """Open the folder for the `with` body. Raises `OSError` if there is none, or `NotOwnError`."""
    with _opened(path, str(path), None) as folder:
        yield folder


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
        # A link is not accepted as a folder.
        if error.errno == ELOOP or (error.errno == ENOTDIR and path.is_symlink()):
            raise NotOwnError(f"'{path}' is a symbolic link") from None
        raise


def _refuse_others(path: Path, state: os.stat_result) -> None:
    if state.st_uid != os.getuid():
        raise NotOwnError(f"'{path}' belongs to user {state.st_uid}")
    if state.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(state.st_mode)
        raise NotOwnError(f"others can write to '{path}' (its mode is {mode:o})")
