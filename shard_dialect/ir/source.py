"""Reading a module from a file: the RFC's short forms filled in, parsed, verified.

`#mesh.shard<[[0]]>` becomes `#mesh.shard<@grid, [[0]]>`, with the grid of the function's
`mesh_cluster`, before MLIR sees the text. MLIR calls text that comes from no file `-`; within
`Source.places` the locations in it are shown as those of the file, columns included.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import from_mlir, showing_locations
from shard_dialect.ir.verify import verify

STDIN = "-"
_BYTECODE = b"ML\xefR"
_SHORT_SHARD = re.compile(r"#mesh\.shard<\s*(?=\[)")
_FUNCTION = re.compile(r"\bfunc\.func\b")
_CLUSTER = re.compile(r"\bmesh_cluster\s*=\s*(@[\w$.\-]+|@\"[^\"]*\")")
_SEPARATOR = re.compile(r"^// -----.*\n?", re.MULTILINE)
_ASIDE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
_NAME = re.compile(r'"[\w.$-]+"')
_LOCATION = re.compile(r"-:(\d+):(\d+)$")


@dataclass(frozen=True)
class Source:
    """The text of a file as MLIR is given it, and where it differs from the file's own."""

    name: str
    text: str | bytes
    insertions: tuple[tuple[int, int, int], ...] = ()
    """(line, column after which it stands, length) of each insertion, in order."""
    lines_before: int = 0
    """Lines of the file in front of this text, where it is one part of several."""

    @classmethod
    def read(cls, path: str) -> Source:
        """The source at `path`, or standard input for `-`."""
        return cls._read(path, split=False)[0]

    @classmethod
    def read_parts(cls, path: str) -> list[Source]:
        """The parts of the file between lines `// -----`, each a module of its own."""
        return cls._read(path, split=True)

    @classmethod
    def _read(cls, path: str, split: bool) -> list[Source]:
        try:
            data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ShardError(f"cannot read '{path}': {reason}") from None
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
        for match in _SEPARATOR.finditer(text) if split else ():
            sources.append(cls.of(text[start : match.start()], name, text.count("\n", 0, start)))
            start = match.end()
        return [*sources, cls.of(text[start:], name, text.count("\n", 0, start))]

    @classmethod
    def of(cls, text: str, name: str = "<string>", lines_before: int = 0) -> Source:
        """The source in a string."""
        pieces: list[str] = []
        insertions: list[tuple[int, int, int]] = []
        end = 0
        code = _ASIDE.sub(lambda match: _blank(match[0]), text)
        for match in _SHORT_SHARD.finditer(code):
            at = match.end()
            line_start = text.rfind("\n", 0, at) + 1
            line, column = text.count("\n", 0, at) + 1, at - line_start
            place = f"{name}:{line + lines_before}:{match.start() - line_start + 1}"
            grid = _default_grid(code, at, place)
            pieces += [text[end:at], f"{grid}, "]
            insertions.append((line, column, len(grid) + 2))
            end = at
        return cls(name, "".join(pieces) + text[end:], tuple(insertions), lines_before)

    def parse(self) -> ir.Module:
        """Parse in the current context and verify. Raises a located `ShardError`."""
        with self.places():
            try:
                module = ir.Module.parse(self.text)
            except ir.MLIRError as error:
                raise from_mlir(error) from None
            verify(module.operation)
        return module

    def places(self) -> AbstractContextManager[None]:
        """Show locations in the text that MLIR was given as those of the file."""
        return showing_locations(self._restore)

    def _restore(self, location: str) -> str:
        match = _LOCATION.match(location)
        if not match:
            return location
        line, column = map(int, match.groups())
        shift = 0
        for at, after, length in self.insertions:
            if at == line and after + shift < column:
                shift += min(length, column - 1 - (after + shift))
        return f"{self.name}:{line + self.lines_before}:{column - shift}"


def _blank(aside: str) -> str:
    """Spaces in place of a comment or a string; a quoted name stays, it may be an op's."""
    return aside if _NAME.fullmatch(aside) else " " * len(aside)


def _default_grid(text: str, at: int, location: str) -> str:
    """The `mesh_cluster` of the function around offset `at`, or the file's only one."""
    starts = [match.start() for match in _FUNCTION.finditer(text)]
    index = bisect_right(starts, at)
    start = starts[index - 1] if index else 0
    end = starts[index] if index < len(starts) else len(text)
    near = _CLUSTER.findall(text, start, end) if index else []
    named = near[:1] or sorted(set(_CLUSTER.findall(text)))
    if len(named) == 1:
        return str(named[0])
    raise ShardError(
        "#mesh.shard names no grid, and its function has no mesh_cluster: "
        "write #mesh.shard<@grid, [...]> or give the function {mesh_cluster = @grid}",
        location,
    )
