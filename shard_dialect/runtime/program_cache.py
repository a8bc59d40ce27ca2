"""Cache compiled programs between processes: a program that was compiled before is loaded.

An entry is a shared library, `shard-<key>.so`, and its description, `shard-<key>.json`. The key is
a digest of everything that the code depends on: the source, the options, the files of
this package and of the bindings, and the processor. Entries are written to a temporary folder and
moved, so that ranks that compile the same program at once, or are ended meanwhile, do no harm. An
entry that cannot be read counts as missing.

A library is code, so only a file that nobody else can have written is loaded. The folder may hold
other files: only names of entries are touched.

`OwnFolder` is a folder that the user owns, with files that nobody else can have written. Checks are
made on the opened file, so that nobody can replace it between the check and the use.
"""

from __future__ import annotations

import json
import os
import platform
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from errno import ELOOP, ENOTDIR
from functools import cache
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from weakref import WeakValueDictionary

import numpy as np
import platformdirs

from shard_dialect.abi.typed_json import MisfitError, from_json, to_json
from shard_dialect.backends.cpu.machine_code import Code, SharedLibrary, opt_level
from shard_dialect.errors import Diagnostic
from shard_dialect.ir.bindings import submodule
from shard_dialect.ir.diagnostics import give, listening
from shard_dialect.runtime.executable import Executable

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


VARIABLE = "SHARD_DIALECT_CACHE"
"""The environment variable with the folder to use, or `0` for no cache."""
_MOST_BYTES, _MOST_DESCRIBED = 1 << 30, 1 << 26
_ABANDONED = 3600.0
"""The seconds after which an unfinished entry counts as abandoned."""
_ENTRY = re.compile(r"shard-[0-9a-f]{64}\.(so|json)")
_BEGUN = re.compile(r"shard-[0-9a-f]{16}\.tmp")
_LIBRARY, _DESCRIBED = "code.so", "code.json"
_FILES = (_LIBRARY, _DESCRIBED, "code.o")
"""The files in the temporary folder of an entry."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The description of a library in an entry."""

    library: str
    """The library's digest."""
    code: Code
    """The description of the code, without the program's calls."""
    calls: tuple[tuple[str, int, bool], ...]
    """The collectives that the program calls: their names, and how often they run."""
    diagnostics: tuple[Diagnostic, ...]
    """The warnings of the compilation."""

    @classmethod
    def of(cls, code: Code, library: bytes, diagnostics: Iterable[Diagnostic]) -> _Known:
        names = {site: name for name, site in code.program.sites.items()}
        calls = tuple(
            (names[replace(site, times=1, times_known=True)], site.times, site.times_known)
            for site in code.program.calls
        )
        bare = replace(code, program=replace(code.program, calls=()))
        return cls(sha256(library).hexdigest(), bare, calls, tuple(diagnostics))

    @classmethod
    def read(cls, text: bytes) -> _Known:
        """Raises one of `UNFIT` for a text that `write` did not produce."""
        data = json.loads(text)
        known = from_json(cls, data["known"])
        if data["digest"] != _digest(data["known"]):
            raise ValueError("it was damaged")
        return known

    def write(self) -> bytes:
        known = to_json(self)
        return json.dumps({"digest": _digest(known), "known": known}).encode()

    def with_calls(self) -> Code:
        """The description of the code, with the program's calls."""
        sites = self.code.program.sites
        calls = [
            replace(sites[name], times=times, times_known=known)
            for name, times, known in self.calls
        ]
        return replace(self.code, program=replace(self.code.program, calls=calls))


def _digest(data: object) -> str:
    return sha256(json.dumps(data).encode()).hexdigest()


UNFIT = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MisfitError)
"""The exceptions that reading an invalid entry may raise."""


@dataclass(frozen=True)
class Cache:
    """The entries in a folder."""

    folder: Path
    _warnings: list[str] = field(default_factory=list, compare=False)

    @classmethod
    def of_user(cls) -> Cache | None:
        """The cache in the user's own folder, or where `SHARD_DIALECT_CACHE` says.

        `None` if it is switched off, or the system has no owners of files.
        """
        setting = os.environ.get(VARIABLE)
        if setting == "0" or not hasattr(os, "getuid"):
            return None
        folder = Path(setting) if setting else platformdirs.user_cache_path("shard_dialect")
        return cls(folder.absolute())

    def executable(
        self, parts: Iterable[str | bytes], compile_it: Callable[[], Executable]
    ) -> Executable:
        """The cached program for these `parts`, else the one that `compile_it` returns.

        The warnings of the compilation are repeated.
        """
        name = f"shard-{_key(parts)}"
        entry = self._load(name)
        if entry is not None:
            executable, diagnostics = entry
            for each in diagnostics:
                give(each)
            return executable
        with listening() as heard:
            executable = compile_it()
        self._store(name, executable, heard)
        return executable

    def _load(self, name: str) -> tuple[Executable, tuple[Diagnostic, ...]] | None:
        try:
            with opened(self.folder) as folder:
                return load_entry(folder, name)
        except NotOwnError as error:
            self._say(error)
        except UNFIT:
            pass
        return None

    def _store(self, name: str, executable: Executable, diagnostics: list[Diagnostic]) -> None:
        """Store an entry; a folder that cannot be written to, or is full, is ignored."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with opened(self.folder) as folder:
                store_entry(folder, name, executable, diagnostics)
                _trim(folder)
        except NotOwnError as error:
            self._say(error)
        except OSError:
            pass

    def _say(self, error: NotOwnError) -> None:
        """Warn once that a folder is not used."""
        if not self._warnings:
            advice = f"make it yours alone, or name another folder with {VARIABLE}"
            give(Diagnostic("warning", f"what is kept is not used: {error}: {advice}"))
            self._warnings.append(str(error))


_loaded: WeakValueDictionary[int, Executable] = WeakValueDictionary()
"""The loaded programs by the handles of their libraries, which a process loads only once."""


def load_entry(folder: OwnFolder, name: str) -> tuple[Executable, tuple[Diagnostic, ...]]:
    """Load an entry. Raises one of `UNFIT` if there is none that can be used."""
    known = _Known.read(folder.read(f"{name}.json", _MOST_DESCRIBED))
    if sha256(folder.read(f"{name}.so", _MOST_BYTES)).hexdigest() != known.library:
        raise ValueError("the library is another entry's")
    code = known.with_calls()
    file = f"{name}.so"
    library = SharedLibrary(folder.fixed(file), folder.path / file, known.library)
    executable = _loaded.get(library.handle) or Executable.of(code, library)
    if executable.code != code:
        raise ValueError("it says something else of a library than before")
    _loaded[library.handle] = executable
    return executable, known.diagnostics


def store_entry(
    folder: OwnFolder, name: str, executable: Executable, diagnostics: Iterable[Diagnostic]
) -> bool:
    """Store an entry, and return whether its library could be written. Raises `OSError`."""
    with _begun(folder) as temporary:
        if not executable.library.write_library(temporary.path / _LIBRARY):
            return False
        os.chmod(_LIBRARY, 0o600, dir_fd=temporary.handle)  # the umask may let others write
        known = _Known.of(executable.code, temporary.read(_LIBRARY, _MOST_BYTES), diagnostics)
        temporary.write(_DESCRIBED, known.write())
        temporary.move(_LIBRARY, folder, f"{name}.so")
        temporary.move(_DESCRIBED, folder, f"{name}.json")
    return True


@contextmanager
def _begun(folder: OwnFolder) -> Iterator[OwnFolder]:
    """Create a temporary folder for an entry; it is removed at the end."""
    name = f"shard-{token_hex(8)}.tmp"
    os.mkdir(name, 0o700, dir_fd=folder.handle)
    try:
        with folder.below(name) as temporary:
            yield temporary
    finally:
        _remove(folder, name)


def _remove(folder: OwnFolder, name: str) -> None:
    """Remove a folder of `_begun`, unless it holds other files."""
    with suppress(OSError, NotOwnError):
        with folder.below(name) as temporary:
            for each in _FILES:
                with suppress(FileNotFoundError):
                    os.unlink(each, dir_fd=temporary.handle)
        os.rmdir(name, dir_fd=folder.handle)


def _trim(folder: OwnFolder) -> None:
    """Remove the least recently used entries, if all take too much space.

    Also remove the temporary folders of processes that ended while they wrote.
    """
    for name, state in folder.states(_BEGUN):
        if state.st_mtime < time.time() - _ABANDONED:
            _remove(folder, name)
    entries = [each for each in folder.states(_ENTRY) if stat.S_ISREG(each[1].st_mode)]
    excess = sum(state.st_size for _, state in entries) - _MOST_BYTES
    for name, state in sorted(entries, key=lambda each: each[1].st_mtime):
        if excess <= 0:
            return
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder.handle)
        excess -= state.st_size


def _key(parts: Iterable[str | bytes]) -> str:
    digest = sha256()
    for each in (*_surroundings(), str(opt_level()), *parts):
        data = each.encode() if isinstance(each, str) else each
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@cache
def _surroundings() -> tuple[str, ...]:
    """All that compiled code depends on besides its source: files, versions, and the processor."""
    package = Path(__file__).parents[2]
    bindings = Path(submodule("_mlir_libs._mlir").__file__ or "")
    files = [*sorted(package.rglob("*.py")), *sorted(bindings.parent.iterdir())]
    states = [(each, each.stat()) for each in files if each.is_file()]
    described = [f"{each}:{stat.st_size}:{stat.st_mtime_ns}" for each, stat in states]
    return (sys.version, np.__version__, platform.platform(), processor(), *described)


def processor() -> str:
    """The kind of processor, with what it can do."""
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(
        line for line in first if line.startswith(("model", "flags", "Features", "CPU"))
    )
