"""Rewrites the RFC's spelling of `mesh` ops to the generic one, which MLIR parses for IRDL's ops.

    mesh.cluster @m(rank = 2, dim_sizes = [2, 4])
      becomes  "mesh.cluster"() {sym_name = "m", rank = 2, dim_sizes = [2, 4]} : () -> ()
    %1 = mesh.annotate %0 {#mesh.shard<[[0]]>, required = true} : tensor<8xf32> -> tensor<8xf32>
      becomes  %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<[[0]]>, required = true}
                   : (tensor<8xf32>) -> tensor<8xf32>
    %2 = mesh.idx {axis = 0 : index} : index
      becomes  %2 = "mesh.idx"() {axis = 0 : index} : () -> index

An op whose result has its operand's type may name it once. No edit removes or adds a line.
`pretty_ops` writes this spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from shard_dialect.collectives.collective_table import ops_of_mesh
from shard_dialect.errors import ShardError
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.reading.edits import Edit, edited, on_one_line

SYMBOLS = {
    "mesh.cluster": ("rank", "dim_sizes"),
    "mesh.sub_cluster": ("cluster", "offsets", "sizes"),
}
"""Ops that declare a name, and the attributes in the brackets behind it."""
QUERIES = ("mesh.idx", "mesh.size")
"""Ops without operands."""
WITHOUT_RESULTS = ("mesh.sharding_group",)
_OF_ONE_TYPE = (
    "mesh.annotate",
    "mesh.collective_permute",
    "mesh.done",
    "mesh.propagation_barrier",
    "mesh.reshard",
    "mesh.roll",
)
_WITH_SHARDING = ("mesh.annotate", "mesh.reshard")
"""Ops whose attribute `sharding` may stand without its name, as on the RFC's slides."""

_NAME = re.compile(r'@(?:(?P<bare>[\w$.\-]+)|(?P<quoted>"(?:[^"\\\n]|\\.)*"))')
_OPERAND = re.compile(r"%[\w$.\-]+(?:#\d+)?")
_TYPE = re.compile(r"!?[A-Za-z_][\w$.]*")
_SHAPE = re.compile(r"\w+\s*=\s*(\d+(?:x\d+)+)")
"""A shape where a list is expected."""
_BRACKETS = {"(": ")", "{": "}", "[": "]", "<": ">"}
_ANY_BRACKET = re.compile(r"->|[(){}\[\]<>,]")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def ops() -> set[str]:
    """The names of all ops that have a spelling."""
    others = ("mesh.start", "mesh.to_global", "mesh.to_local", TRANSFER)
    return {*SYMBOLS, *QUERIES, *WITHOUT_RESULTS, *_OF_ONE_TYPE, *ops_of_mesh(), *others}


def pretty_edits(
    text: str,
    code: str,
    ops: Sequence[re.Match[str]],
    other_edits: Sequence[Edit],
    location_at: Callable[[int], str],
) -> Iterator[Edit]:
    """The edits of these `ops`, matched by their names; `code` is `text` without comments.

    Raises a `ShardError`, located by `location_at`, for an op in another spelling. `other_edits`
    are made to the text that an edit copies.
    """
    for match in ops:
        yield from _Op(text, code, match, other_edits, location_at).edits()


class _Op:
    """Reads one op from left to right; `at` is the offset that is read next."""

    def __init__(
        self,
        text: str,
        code: str,
        name: re.Match[str],
        other_edits: Sequence[Edit],
        location_at: Callable[[int], str],
    ) -> None:
        self.text, self.code, self.location_at = text, code, location_at
        self.other_edits = other_edits
        self.name = name[0]
        self.start, self.at = name.span()

    def edits(self) -> Iterator[Edit]:
        """The edits of the op."""
        if self.name not in ops():
            raise ShardError(
                f"unknown op '{self.name}': docs/dialect.md lists the ops of 'mesh'",
                self.location_at(self.start),
            )
        yield Edit(self.start, 0, '"')
        if self.name in SYMBOLS:
            yield Edit(self.at, 0, '"()')
            yield from self._symbol()
        elif self.name in QUERIES:
            yield from self._query()
        else:
            yield from self._of_operands()

    def _symbol(self) -> Iterator[Edit]:
        self._skip()
        name = _NAME.match(self.text, self.at)
        if name is None:
            raise self._expected("a name, as @m")
        written = name["quoted"] or f'"{name["bare"]}"'
        yield Edit(name.start(), len(name[0]), f"{{sym_name = {written}")
        self.at = name.end()
        opened = self._next("(", f"({SYMBOLS[self.name][0]} = ...)")
        starts, closed = self._entries(opened)
        for start in starts:
            shape = _SHAPE.match(self.code, start)
            if shape is not None:
                self.at = shape.start(1)
                raise self._expected(f"a list, as [{shape[1].replace('x', ', ')}]")
        yield Edit(opened, 1, ", " if starts else "")
        self.at = closed + 1
        end = closed
        if self._is_next("{"):
            end = self.at
            starts, last = self._entries(end)
            yield Edit(closed, 1, ", " if starts else "")
            yield Edit(end, 1, "")
            self.at = end = last
        yield Edit(end, 1, "} : () -> ()")

    def _query(self) -> Iterator[Edit]:
        if self._is_next("("):
            opened = self.at
            starts, closed = self._entries(opened)
            if len(starts) != 1:
                raise self._expected("one axis")
            yield Edit(opened, 1, '"() {axis = ')
            self.at = closed + 1
            if not self._is_next(":"):
                yield Edit(closed, 1, " : index} : () -> index")
                return
            yield Edit(closed, 1, " : index}")
        else:
            yield Edit(self.at, 0, '"()')
            if self._is_next("{"):
                self.at = self._entries(self.at)[1] + 1
        self.at = self._next(":", ": index") + 1
        begin, _ = self._types()
        yield Edit(begin, 0, "() -> ")

    def _of_operands(self) -> Iterator[Edit]:
        yield Edit(self.at, 0, '"')
        self._skip()
        begin = self.at
        end = self._operands()
        yield Edit(begin, 0, "(")
        yield Edit(end, 0, ")")
        if self._is_next("{"):
            starts, closed = self._entries(self.at)
            if self.name in _WITH_SHARDING:
                yield from (
                    Edit(at, 0, "sharding = ") for at in starts if self.code.startswith("#", at)
                )
            self.at = closed + 1
        self.at = self._next(":", ": type -> type") + 1
        begin, end = self._types()
        yield Edit(begin, 0, "(")
        if self._is_next("->"):
            yield Edit(end, 0, ")")
            self.at += len("->")
            self._types()
        elif self.name in WITHOUT_RESULTS:
            yield Edit(end, 0, ") -> ()")
        elif self.name in _OF_ONE_TYPE:
            yield Edit(end, 0, f") -> {self._copied(begin, end)}")
        else:
            raise self._expected("-> and the type of the result")

    def _operands(self) -> int:
        """Read operands, with commas between them; returns where they end."""
        while True:
            operand = _OPERAND.match(self.code, self.at)
            if operand is None:
                raise self._expected("an operand, as %0")
            self.at = end = operand.end()
            if not self._is_next(","):
                return end
            self.at += 1
            self._skip()

    def _types(self) -> tuple[int, int]:
        """Read types, with commas between them; returns where they begin and end."""
        self._skip()
        begin = self.at
        while True:
            type_ = _TYPE.match(self.code, self.at)
            if type_ is None:
                raise self._expected("a type")
            self.at = end = type_.end()
            if self.code.startswith("<", end):
                self.at = end = self._entries(end)[1] + 1
            if not self._is_next(","):
                return begin, end
            self.at += 1
            self._skip()

    def _entries(self, at: int) -> tuple[list[int], int]:
        """Where each entry in the brackets at `at` begins, and where the brackets close."""
        starts, entry, expected = [], at + 1, []
        for match in _ANY_BRACKET.finditer(self.code, at):
            found = match[0]
            if found in _BRACKETS:
                expected.append(_BRACKETS[found])
            elif found == "," and len(expected) == 1:
                starts.append(self._after_space(entry))
                entry = match.end()
            elif found in _BRACKETS.values():
                if found != expected.pop():
                    break
                if not expected and "%" in _STRING.sub("", self.code[at : match.start()]):
                    break  # a value is in no attribute: the brackets are closed too late
                if not expected:
                    is_empty = not starts and not self.code[entry : match.start()].strip()
                    last = [] if is_empty else [self._after_space(entry)]
                    return starts + last, match.start()
        self.at = at
        raise self._expected(f"'{_BRACKETS[self.code[at]]}' that closes '{self.code[at]}'")

    def _copied(self, begin: int, end: int) -> str:
        """The text between two offsets, as it is after the other edits, on one line."""
        inside = [
            Edit(edit.start - begin, edit.removed, edit.added)
            for edit in self.other_edits
            if begin <= edit.start < end
        ]
        return on_one_line(edited(self.text[begin:end], inside))

    def _next(self, sign: str, what: str) -> int:
        """The offset of `sign`, which must come next."""
        if not self._is_next(sign):
            raise self._expected(what)
        return self.at

    def _is_next(self, sign: str) -> bool:
        """Whether `sign` comes next; if so, skip the space before it."""
        after = self._after_space(self.at)
        if not self.code.startswith(sign, after):
            return False
        self.at = after
        return True

    def _skip(self) -> None:
        self.at = self._after_space(self.at)

    def _after_space(self, at: int) -> int:
        while at < len(self.code) and self.code[at].isspace():
            at += 1
        return at

    def _expected(self, what: str) -> ShardError:
        if self.name in SYMBOLS:
            fields = ", ".join(f"{field} = ..." for field in SYMBOLS[self.name])
            usage = f"{self.name} @name({fields})"
        elif self.name in QUERIES:
            usage = f"{self.name} {{axis = 0 : index}} : index"
        else:
            result = "" if self.name in WITHOUT_RESULTS else " -> type"
            usage = f"{self.name} %0 {{...}} : type{result}"
        message = f"'{self.name}' op: expected {what}; it is written as {usage}"
        return ShardError(message, self.location_at(self.at))
