"""Reads a module from a file: spelled as the bindings parse it, parsed, and verified.

In text that is not from a file, MLIR's locations have the name `-`. Within `Source.file_locations`
they are mapped to those of the user's file, columns included.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from shard_dialect.errors import ShardError, cannot
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import load_dialects_of, refuse_unregistered
from shard_dialect.ir.diagnostics import from_mlir, not_utf8, reporting, showing_locations
from shard_dialect.ir.reading import jaxlib_reader
from shard_dialect.ir.reading.edits import edited
from shard_dialect.ir.reading.parse_failures import explained
from shard_dialect.ir.reading.spelling import edits
from shard_dialect.ir.sdy.sdy_spelling import edits as sdy_edits
from shard_dialect.ir.verify import verify

STDIN = "-"
_BYTECODE = b"ML\xefR"
_LOCATION = re.compile(r"-:(\d+):(\d+)$")


@dataclass(frozen=True)
class Source:
    """The text of a file as MLIR parses it, and where it differs from the file."""

    name: str
    text: str | bytes
    changes: tuple[tuple[int, int, int, int], ...] = ()
    """(line, column, characters removed, characters added) of each edit, in order."""
    lines_before: int = 0
    """The number of lines of the file before this text, if the file has several modules."""
    problem: ShardError | None = None
    """An error in the spelling, which `parse` raises."""
    file_text: str | None = None
    """As it is in the file; `None` for bytecode."""

    @classmethod
    def read(cls, path: str) -> Source:
        """The source at `path`, or standard input for `-`. Raises `ShardError`."""
        return cls._read(path)[0]

    @classmethod
    def read_split_input(cls, path: str, marker: str = "// -----") -> list[Source]:
        """The modules of a file between lines that begin with `marker`. Raises `ShardError`."""
        return cls._read(path, re.compile(rf"^{re.escape(marker)}.*\n?", re.MULTILINE))

    @classmethod
    def _read(cls, path: str, separator: re.Pattern[str] | None = None) -> list[Source]:
        try:
            data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        except OSError as error:
            raise cannot("read", path, error) from None
        name = "<stdin>" if path == STDIN else path
        if data.startswith(_BYTECODE):
            return [cls(name, data)]
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise ShardError(
                "is neither UTF-8 text nor MLIR bytecode", f"{name}:{line}:1"
            ) from None

        sources, start = [], 0
        for match in separator.finditer(text) if separator else ():
            sources.append(cls.of(text[start : match.start()], name, text.count("\n", 0, start)))
            start = match.end()
        return [*sources, cls.of(text[start:], name, text.count("\n", 0, start))]

    @classmethod
    def of(cls, text: str, name: str = "<string>", lines_before: int = 0) -> Source:
        """The source in a string."""
        starts = [0, *(match.end() for match in re.finditer("\n", text))]

        def position(offset: int) -> tuple[int, int]:
            line = bisect_right(starts, offset)
            return line, offset - starts[line - 1]

        def location_at(offset: int) -> str:
            line, column = position(offset)
            return f"{name}:{line + lines_before}:{column + 1}"

        try:
            pretty_ops = jaxlib_reader.edits_without_jaxlib(text)
            if pretty_ops is None:
                generic = jaxlib_reader.to_generic(text, name, lines_before)
                spelled = edited(generic, sdy_edits(generic))
                return cls(name, spelled, lines_before=lines_before, file_text=text)
            every = (*edits(text, location_at), *sdy_edits(text), *pretty_ops)
            edits_found = sorted(every, key=lambda edit: edit.start)
        except ShardError as error:
            return cls(name, text, lines_before=lines_before, problem=error, file_text=text)
        changes = [(*position(e.start), e.removed, len(e.added)) for e in edits_found]
        return cls(name, edited(text, edits_found), tuple(changes), lines_before, file_text=text)

    def parse(self) -> ir.Module:
        """Parse in the current context and verify. Raises a located `ShardError`."""
        if self.problem:
            raise self.problem
        context = ir.Context.current
        allowed = context.allow_unregistered_dialects
        load_dialects_of(self.text, context)
        with self.file_locations(), reporting(context):
            try:
                module = ir.Module.parse(self.text)
            except ir.MLIRError as error:
                if not error.error_diagnostics:
                    raise self._unexplained() from None
                raise from_mlir(error).at(self._start) from None
            except RuntimeError as error:
                raise not_utf8(error, self._start) from None
            if context.allow_unregistered_dialects and not allowed:
                refuse_unregistered(module.operation)
            verify(module.operation)
        return module

    @property
    def _start(self) -> str:
        """The location of errors without a known location."""
        return f"{self.name}:{self.lines_before + 1}:1"

    def _unexplained(self) -> ShardError:
        """The located error for text that MLIR rejects without a message."""
        if isinstance(self.text, bytes):
            return ShardError("is no MLIR bytecode that these bindings read", self._start)
        offset, message = explained(self.text)
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return ShardError(message, self._restore(f"-:{line}:{column}"))

    def file_locations(self) -> AbstractContextManager[None]:
        """Map locations in the parsed text to those in the file, in a `with` block."""
        return showing_locations(self._restore)

    def _restore(self, location: str) -> str:
        match = _LOCATION.match(location)
        if not match:
            return location
        line, column = map(int, match.groups())
        for at, before, removed, added in self.changes:
            if at == line and column > before + added:
                column += removed - added
            elif at == line and column > before:  # inside of what was added
                column = min(column, before + max(removed, 1))
        return f"{self.name}:{line + self.lines_before}:{column}"
