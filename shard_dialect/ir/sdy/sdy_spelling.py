"""Spells Shardy's text so that bindings without Shardy parse it: generic and pretty ops.

Generic text:

    "sdy.reshard"(%0) <{sharding = ...}>            properties become attributes, since the
                                                    bindings cannot read those of unregistered ops
    "sdy.named_computation"(%0) <{...}> ({ call })  gets a second, empty region, since MLIR does not
                                                    resolve symbols in the only region of such an op

The number of lines stays the same, so that locations stay valid.

Of the pretty ops, those that JAX writes most:

    sdy.mesh @mesh = <["x"=2]>
      becomes  "sdy.mesh"() {sym_name = "mesh", mesh = #sdy.mesh<["x"=2]>} : () -> ()
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : tensor<8xf32>
      becomes  %1 = "sdy.sharding_constraint"(%0) {sharding = #sdy.sharding<@mesh, [{"x"}]>}
                   : (tensor<8xf32>) -> tensor<8xf32>

Other ops in their pretty form are read by jaxlib, which takes longer to load than a small file
takes to compile. A reduction that newer versions of Shardy name is numbered for it, since it does
not know the name:

    sdy.all_reduce max {"x"} %0 out_sharding=<@mesh, [{}]>
      becomes  sdy.all_reduce {"x"} %0 out_sharding=<@mesh, [{}]> {reduction_op = 1 : i32}
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from itertools import pairwise

from shard_dialect.ir.reading.edits import Edit, on_one_line
from shard_dialect.ir.reading.spelling import code_of
from shard_dialect.ir.sdy.syntax import NUMBERED_REDUCTIONS

_OP = re.compile(r'"sdy\.\w+"\s*\([^()]*\)\s*')
_CALL = re.compile(r'\bcall\b|"func\.call"')
_PAIRS = {"{": "}", "(": ")", "<": ">"}


def edits(text: str) -> list[Edit]:
    """The edits that make Shardy's ops in `text` parse, in order.

    An op with regions has edits before and after those of the ops inside it.
    """
    if '"sdy.' not in text:
        return []
    code = code_of(text)
    changes = [edit for match in _OP.finditer(code) for edit in _of_op(code, text, match.end())]
    return sorted(changes, key=lambda edit: edit.start)


def without_second_regions(text: str) -> str:
    """Printed text without the second, empty regions that `edits` gives to Shardy's ops."""
    if '"sdy.' not in text:
        return text
    lines = text.split("\n")
    opened: list[str] = []
    kept = []
    for line, after in pairwise([*lines, ""]):
        if match := _OPENED.match(line):
            opened.append(match[1])
        is_second = opened and line == opened[-1] + "}, {" and after.startswith(opened[-1] + "})")
        if opened and line.startswith(opened[-1] + "})"):
            opened.pop()
        if not is_second:
            kept.append(line)
    return "\n".join(kept)


_OPENED = re.compile(r'( *)(?:%[\w:, %]+ = )?"sdy\.\w+"\([^()]*\) \(\{$')


def _of_op(code: str, text: str, at: int) -> Iterator[Edit]:
    """The edits of one op, whose operands end at `at`."""
    properties = ""
    if code.startswith("<{", at):
        end = _end_of(code, at + 1)
        if end is None or code[end : end + 1] != ">":
            return  # not MLIR; the parser reports it
        # The properties move to one line, and their newlines stay: locations stay valid.
        properties = on_one_line(text[at + 2 : end - 1])
        yield Edit(at, end + 1 - at, "\n" * text.count("\n", at, end + 1))
        at = _skip(code, end + 1)
    if code.startswith("(", at):
        end = _end_of(code, at)
        if end is None:
            return
        if _CALL.search(code, at, end) and _has_one_region(code, at):
            yield Edit(end - 1, 0, ", {}")
        at = end
    if not properties.strip():
        return
    dictionary = _skip(code, at)
    if code.startswith("{", dictionary):
        is_empty = code.startswith("}", _skip(code, dictionary + 1))
        yield Edit(dictionary + 1, 0, properties if is_empty else f"{properties}, ")
    else:
        yield Edit(at, 0, f" {{{properties}}} ")


def _has_one_region(code: str, at: int) -> bool:
    """Whether the list that opens at `at` has one region; text that we printed has two."""
    first = _skip(code, at + 1)
    end = _end_of(code, first) if code.startswith("{", first) else None
    return end is not None and code.startswith(")", _skip(code, end))


def _end_of(code: str, at: int, *, on_line: bool = False) -> int | None:
    """The offset after the bracket that closes the one at `at`; `on_line`: in the same line."""
    opened, closed = code[at], _PAIRS[code[at]]
    depth = 0
    for match in re.compile(f"->|[{re.escape(opened + closed)}\n]").finditer(code, at):
        if match[0] == "\n" and on_line:
            break
        depth += (match[0] == opened) - (match[0] == closed)
        if depth == 0:
            return match.end()
    return None


def _skip(code: str, at: int) -> int:
    while at < len(code) and code[at].isspace():
        at += 1
    return at


_PRETTY_OP = re.compile(r"(?:^|[=({;])[ \t]*(?P<op>sdy\.\w+)(?![\w.]*[ \t]*=)", re.MULTILINE)
"""An op in pretty form, where one may stand; not an attribute, which has a value."""
_MESH = re.compile(r'sdy\.mesh[ \t]+@(?P<name>[\w$.\-]+|"[^"\n]*")[ \t]*=[ \t]*<')
_CONSTRAINT = re.compile(
    r"sdy\.(?P<op>sharding_constraint|reshard)[ \t]+(?P<operand>%[\w$.\-]+(?:#\d+)?)[ \t]*<"
)
_REDUCED = re.compile(
    rf"sdy\.(?:all_reduce|reduce_scatter)(?P<kind>[ \t]+(?:{'|'.join(NUMBERED_REDUCTIONS)}))"
    r"(?=[ \t]*[{\[])[^\n]*?out_sharding[ \t]*=[ \t]*(?=<)"
)
_SPACE = re.compile(r"[ \t]*")
_TYPE = re.compile(r"[ \t]*:[ \t]*(?P<type>tensor<)")


class _NotSimple(Exception):
    """The op is written in another way than JAX writes it."""


def pretty_edits(text: str) -> list[Edit] | None:
    """The edits, in order; `None` if some pretty op of Shardy is not rewritten."""
    if "sdy." not in text:
        return []
    code = code_of(text)
    try:
        return [
            edit
            for match in _PRETTY_OP.finditer(code)
            for edit in _of_pretty_op(code, text, match.start("op"))
        ]
    except _NotSimple:
        return None


def numbered_reductions(text: str) -> list[Edit]:
    """The edits that number the named reductions of pretty collectives, in order."""
    code, found = code_of(text), []
    for match in _REDUCED.finditer(code):
        kind = match["kind"]
        number = f"reduction_op = {NUMBERED_REDUCTIONS.index(kind.strip())} : i32"
        try:
            end = _end_of_pretty_op(code, match.end())
        except _NotSimple:
            continue  # not MLIR; the parser reports it
        found.append(Edit(match.start("kind"), len(kind), ""))
        dictionary = _skip(code, end)
        if code.startswith("{", dictionary):
            found.append(Edit(dictionary + 1, 0, f"{number}, "))
        else:
            found.append(Edit(end, 0, f" {{{number}}}"))
    return found


def _of_pretty_op(code: str, text: str, start: int) -> Iterator[Edit]:
    mesh, constraint = _MESH.match(code, start), _CONSTRAINT.match(code, start)
    if mesh is not None:
        written = text[slice(*mesh.span("name"))]
        name = written if written.startswith('"') else f'"{written}"'
        added = f'"sdy.mesh"() {{sym_name = {name}, mesh = #sdy.mesh<'
        yield Edit(start, mesh.end() - start, added)
        end = yield from _attributes(code, mesh.end() - 1)
        yield Edit(end, 0, " : () -> ()")
    elif constraint is not None:
        operand = text[slice(*constraint.span("operand"))]
        added = f'"sdy.{constraint["op"]}"({operand}) {{sharding = #sdy.sharding<'
        yield Edit(start, constraint.end() - start, added)
        end = yield from _attributes(code, constraint.end() - 1)
        type_ = _TYPE.match(code, end)
        if type_ is None:
            raise _NotSimple
        begin = type_.start("type")
        written = text[begin : _end_of_pretty_op(code, type_.end() - 1)]
        if "#" in written:  # which other edits may change
            raise _NotSimple
        yield Edit(begin, 0, f"({written}) -> ")
    else:
        raise _NotSimple


def _attributes(code: str, at: int) -> Generator[Edit, None, int]:
    """Close the attributes after that in the brackets at `at`; returns where they end."""
    end = _end_of_pretty_op(code, at)
    space = _SPACE.match(code, end)
    after = space.end() if space is not None else end
    if not code.startswith("{", after):
        yield Edit(end, 0, "}")
        return end
    close = _end_of_pretty_op(code, after)
    is_empty = not code[after + 1 : close - 1].strip()
    yield Edit(end, after + 1 - end, "" if is_empty else ", ")
    return close


def _end_of_pretty_op(code: str, at: int) -> int:
    """The offset after the bracket that closes the one at `at`, on the same line."""
    end = _end_of(code, at, on_line=True)
    if end is None:
        raise _NotSimple
    return end
