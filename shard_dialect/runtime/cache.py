"""Compiled programs, kept between processes: a program that was compiled before is loaded.

An entry is a shared library, `<key>.so`, and what is to be known of it, `<key>.program`. The key
is made of all that the code follows from: the source, how it is compiled, the plugins, the files of
this package and of the bindings, and the processor. Entries are written beside their place and
moved there, so that ranks that compile the same at once, or are ended meanwhile, do no harm; one
that cannot be read is none.
"""

from __future__ import annotations

import os
import pickle
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import platformdirs

from shard_dialect.errors import Diagnostic
from shard_dialect.ir.bindings import part
from shard_dialect.ir.diagnostics import give, listening
from shard_dialect.runtime.code import Engine, SharedLibrary
from shard_dialect.runtime.executable import Executable

VARIABLE = "SHARD_DIALECT_CACHE"
"""The folder to use, or `0` for none."""
_MOST_BYTES = 1 << 30
_DIGEST = 32
_ABANDONED = 3600.0
"""Seconds after which nobody writes any more what was begun."""


@dataclass(frozen=True)
class Cache:
    """The entries in a folder, and what they all follow from besides their sources."""

    folder: Path
    parts: tuple[str | bytes, ...] = ()

    @classmethod
    def of_user(cls, parts: Iterable[str | bytes] = ()) -> Cache | None:
        """In the user's own folder for such things, or where `SHARD_DIALECT_CACHE` says."""
        said = os.environ.get(VARIABLE)
        if said == "0":
            return None
        folder = Path(said) if said else platformdirs.user_cache_path("shard_dialect")
        return cls(folder, tuple(parts))

    def executable(
        self, parts: Iterable[str | bytes], compile_it: Callable[[], Executable]
    ) -> Executable:
        """What was compiled of these `parts` before, else what `compile_it` gives.

        What the compilation warned of is said again.
        """
        path = self.folder / _key([*self.parts, *parts])
        found = _load(path)
        if found is not None:
            made, told = found
            for each in told:
                give(each)
            return made
        with listening() as told:
            made = compile_it()
        # A folder that cannot be written to, or is full, is the same as none.
        with suppress(OSError):
            self._store(path, made, told)
        return made

    def _store(self, path: Path, made: Executable, told: list[Diagnostic]) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as beside:
            library = Path(beside, "code.so")
            if not isinstance(made.library, Engine) or not made.library.write_library(library):
                return
            known = pickle.dumps((sha256(library.read_bytes()).digest(), made.code, told))
            described = Path(beside, "program")
            described.write_bytes(sha256(known).digest() + known)
            library.replace(path.with_suffix(".so"))
            described.replace(path.with_suffix(".program"))
        self._trim()

    def _trim(self) -> None:
        """Remove the entries that were not used for longest, if all take too much room.

        And what processes have left that ended while they wrote.
        """
        for each in self.folder.iterdir():
            if each.is_dir() and each.stat().st_mtime < time.time() - _ABANDONED:
                shutil.rmtree(each, ignore_errors=True)
        files = [(each, each.stat()) for each in self.folder.iterdir() if each.is_file()]
        excess = sum(stat.st_size for _, stat in files) - _MOST_BYTES
        for each, stat in sorted(files, key=lambda pair: pair[1].st_mtime):
            if excess <= 0:
                return
            each.unlink(missing_ok=True)
            excess -= stat.st_size


_loaded: WeakValueDictionary[int, Executable] = WeakValueDictionary()
"""By the handles of their libraries: a process has each, and its table of what it calls, once."""


def _load(path: Path) -> tuple[Executable, list[Diagnostic]] | None:
    library = path.with_suffix(".so")
    try:
        data = path.with_suffix(".program").read_bytes()
        if sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
            return None
        digest, code, told = pickle.loads(data[_DIGEST:])
        if sha256(library.read_bytes()).digest() != digest:
            return None
        for each in (library, path.with_suffix(".program")):
            os.utime(each)
        opened = SharedLibrary(library)
        made = _loaded.get(opened.handle) or Executable.of(code, opened)
        _loaded[opened.handle] = made
        return made, told
    except (OSError, pickle.UnpicklingError, AttributeError, ImportError):
        return None


def _key(parts: Iterable[str | bytes]) -> str:
    digest = sha256()
    for each in (*_surroundings(), *parts):
        data = each.encode() if isinstance(each, str) else each
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@cache
def _surroundings() -> tuple[str, ...]:
    """What compiles, and for what."""
    package = Path(__file__).parent.parent
    bindings = Path(part("_mlir_libs._mlir").__file__ or "")
    files = [*sorted(package.rglob("*.py")), *sorted(bindings.parent.iterdir())]
    states = [(each, each.stat()) for each in files if each.is_file()]
    described = [f"{each}:{stat.st_size}:{stat.st_mtime_ns}" for each, stat in states]
    return (sys.version, np.__version__, platform.platform(), _processor(), *described)


def _processor() -> str:
    try:
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(
        line for line in first if line.startswith(("model", "flags", "Features", "CPU"))
    )
