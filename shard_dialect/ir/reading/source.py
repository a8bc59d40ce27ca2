"""Reads a module from a file: spelled as the bindings parse it, parsed, and verified.

In text that is not from a file, MLIR's locations have the name `-`. Within `Source.file_locations`
they are mapped to those of the user's file, columns included.

`explained` locates errors in text that MLIR's parser rejects without a message:

    toy.op @g(rank = 2)
    ^ dialects that IRDL defines have no short form: the parser fails here without a message

The parser reads from the left. For text that ends before the error, it reports the end of the text.
So the error is at the last token of the shortest prefix that it rejects without a message.

Most of Shardy's pretty text is read by jaxlib's bindings, since others cannot.
"""

from __future__ import annotations

import codecs
import re
import sys
from bisect import bisect_right
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, BinaryIO

from shard_dialect.errors import MissingExtra, ShardError, cannot
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import load_dialects_of, refuse_unregistered
from shard_dialect.ir.diagnostics import (
    from_mlir,
    location_text,
    not_utf8,
    reporting,
    showing_locations,
)
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.reading.edits import edited
from shard_dialect.ir.reading.spelling import code_of, edits
from shard_dialect.ir.sdy.sdy_spelling import edits as sdy_edits
from shard_dialect.ir.sdy.sdy_spelling import numbered_reductions, pretty_edits
from shard_dialect.ir.unread_annotations import warn_of_unread
from shard_dialect.ir.verify import verify
from shard_dialect.processes.startup import without_notices
from shard_dialect.processes.to_parent import during

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#!^]?[\w.$-]+|\S')
_OP = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # the process was started with it closed
        raise ShardError("cannot read standard input: it is closed")
    return sys.stdin.buffer


def _whole(file: BinaryIO) -> bytes:
    """What a file holds, up to what cannot be text: a device such as `/dev/zero` has no end."""
    data = bytearray()
    while piece := file.read(2**20):
        data += piece
        if b"\0" in piece and not data.startswith(_BYTECODE):
            break
    return bytes(data)


def explained(text: str) -> tuple[int, str]:
    """The offset in `text` where MLIR fails without a message, and a message."""
    tokens = list(_TOKEN.finditer(code_of(text)))
    low, high = 0, len(tokens)  # the shortest such prefix has more than `low` tokens
    while high - low > 1:
        middle = (low + high) // 2
        if _is_refused_silently(text[: tokens[middle - 1].end()]):
            high = middle
        else:
            low = middle
    if not tokens:
        return 0, "expected a module"
    last = tokens[high - 1]
    if _OP.fullmatch(last[0]):
        return last.start(), (
            f"'{last[0]}' op has no short form: write it as \"{last[0]}\"(...) {{...}} : "
            "(...) -> (...)"
        )
    return last.start(), f"MLIR does not read on from '{last[0]}', and does not say why"


def _is_refused_silently(text: str) -> bool:
    try:
        ir.Module.parse(text)
    except ir.MLIRError as error:
        return not error.error_diagnostics
    except ShardError:
        return False
    return False


_JAXLIB_LOCATION = re.compile(r'"-":(\d+):(\d+)')


def to_generic(text: str, name: str, lines_before: int) -> str:
    """The module in generic text, as jaxlib reads it, with locations in `text`.

    Raises a located `ShardError` for text that does not parse, `MissingExtra` without jaxlib.
    """
    bindings = _bindings()
    context = _context()
    try:
        module = bindings.Module.parse(edited(text, numbered_reductions(text)), context)
    except bindings.MLIRError as error:
        start = f"{name}:{lines_before + 1}:1"
        for diagnostic in error.error_diagnostics:
            match = _JAXLIB_LOCATION.search(str(diagnostic.location))
            at = f"{name}:{int(match[1]) + lines_before}:{match[2]}" if match else start
            raise ShardError(_named(diagnostic.message), at) from None
        raise ShardError(str(error), start) from None
    return generic_text(module)


def generic_text(module: Any) -> str:
    """A module of jaxlib's bindings in generic text, with its locations."""
    text: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return text


def _named(message: str) -> str:
    if "Dialect `shard' not found" not in message:
        return message
    return (
        "ops of 'shard' stand beside those of 'sdy', which only jaxlib reads: it does "
        "not know them; annotate shardings by 'sdy' or 'mesh' attributes"
    )


@cache
def _bindings() -> Any:
    """Jaxlib's `ir`."""
    without_notices()
    try:
        from jaxlib.mlir import ir
    except ImportError:
        raise MissingExtra("jaxlib, which reads text of Shardy,", "jax") from None
    return ir


def _context() -> Any:
    """A context with all dialects of jaxlib."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context = ir.Context()
    context.enable_multithreading(False)  # a thread with an error would wait for the interpreter
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    return context


STDIN = "-"
PARSER = "the parser"
"""What is done while a file is read, where a crash is reported."""
_BYTECODE = b"ML\xefR"
_OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
"""The byte order marks of text that is not UTF-8; that of UTF-32, little-endian, begins as one."""
_LOCATION = re.compile(r"-:(\d+):(\d+)$")
_PLACE = re.compile(r":(\d+):(\d+)$")
_OTHER_TYPE = re.compile("use of value .* expects different type than prior uses: '(.*)' vs '(.*)'")
_NAME = re.compile(r"%(?!arg\d)([\w$.-]*[^\W\d][\w$.-]*)")


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
        name = "<stdin>" if path == STDIN else path
        try:
            with during(f"the reader of {name}"):  # which waits where a pipe has no writer yet
                if path == STDIN:
                    data = _whole(_standard_input())
                else:
                    with open(path, "rb") as file:
                        data = _whole(file)
        except OSError as error:
            raise cannot("read", path, error) from None
        if data.startswith(_BYTECODE):
            return [cls(name, data)]
        if data.startswith(_OTHER_MARKS):
            raise ShardError(
                "is UTF-16 or UTF-32 text, by its byte order mark: save it as UTF-8", f"{name}:1:1"
            )
        try:
            text = data.decode("utf-8-sig")  # without the mark that some editors begin a file with
            end = data.find(b"\0")
        except UnicodeDecodeError as error:
            end = error.start
        if end >= 0:
            line = data.count(b"\n", 0, end) + 1
            raise ShardError("is neither UTF-8 text nor MLIR bytecode", f"{name}:{line}:1")

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
            with during(PARSER, f"{name}:{lines_before + 1}:1"):
                pretty_ops = pretty_edits(text)
                if pretty_ops is None:
                    generic = to_generic(text, name, lines_before)
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
        with during(PARSER, self._start), self.file_locations(), reporting(context):
            try:
                module = ir.Module.parse(self.text)
            except ir.MLIRError as error:
                if not error.error_diagnostics:
                    raise self._unexplained() from None
                raise _of_mixed_forms(from_mlir(error)).at(self._start) from None
            except RuntimeError as error:
                raise not_utf8(error, self._start) from None
            if context.allow_unregistered_dialects and not allowed:
                refuse_unregistered(module.operation)
            verify(module.operation)
            warn_of_unread(module.operation)
            self._name_arguments(module)
        return module

    def _name_arguments(self, module: ir.Module) -> None:
        """Give arguments their names in the file in their locations, where frameworks have theirs.

        A name that is only a number tells nothing.
        """
        lines = (self.file_text or "").split("\n")
        arguments = (
            argument
            for function in functions_of(module.operation)
            for region in function.regions
            for block in list(region.blocks)[:1]
            for argument in block.arguments
        )
        for argument in arguments:
            match = _PLACE.search(location_text(argument.location) or "")
            if not match:
                continue
            line, column = int(match[1]) - self.lines_before, int(match[2])
            name = _NAME.match(lines[line - 1], column - 1) if 0 < line <= len(lines) else None
            if name:
                argument.set_location(ir.Location.name(name[1], argument.location))

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
        line, column = (max(int(each), 1) for each in match.groups())  # a module's are 0
        for at, before, removed, added in self.changes:
            if at == line and column > before + added:
                column += removed - added
            elif at == line and column > before:  # inside of the added text
                column = min(column, before + max(removed, 1))
        return f"{self.name}:{line + self.lines_before}:{column}"


def _of_mixed_forms(error: ShardError) -> ShardError:
    """The parser's error, with the reason where one use of a value has a sharding in its type."""
    types = _OTHER_TYPE.fullmatch(error.message)
    if types is None or ("#mesh.shard" in types[1]) == ("#mesh.shard" in types[2]):
        return error
    return ShardError(
        f"{error.message}: a type has a sharding in the distributed form alone, and an annotated "
        "value has none; annotations and collectives do not mix",
        error.location,
        error.notes,
        error.further,
    )
