"""Rewrites the pretty ops of Shardy that JAX writes most to ops that bindings without it parse.

    sdy.mesh @mesh = <["x"=2]>
      becomes  "sdy.mesh"() {sym_name = "mesh", mesh = #sdy.mesh<["x"=2]>} : () -> ()
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}]> : tensor<8xf32>
      becomes  %1 = "sdy.sharding_constraint"(%0) {sharding = #sdy.sharding<@mesh, [{"x"}]>}
                   : (tensor<8xf32>) -> tensor<8xf32>

Other ops in their pretty form are read by jaxlib, which takes longer to load than a small file
takes to compile.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from shard_dialect.ir.reading.blank_comments import code_of
from shard_dialect.ir.reading.edits import Edit

_OP = re.compile(r"(?:^|[=({;])[ \t]*(?P<op>sdy\.\w+)(?![\w.]*[ \t]*=)", re.MULTILINE)
"""An op in pretty form, where one may stand; not an attribute, which has a value."""
_MESH = re.compile(r'sdy\.mesh[ \t]+@(?:(?P<name>[\w$.\-]+)|(?P<quoted>"[^"\n]*"))[ \t]*=[ \t]*<')
_CONSTRAINT = re.compile(
    r"sdy\.(?P<op>sharding_constraint|reshard)[ \t]+(?P<operand>%[\w$.\-]+(?:#\d+)?)[ \t]*<"
)
_SPACE = re.compile(r"[ \t]*")
_TYPE = re.compile(r"[ \t]*:[ \t]*(?P<type>tensor<)")
_BRACKETS = {"<": ">", "{": "}"}


class _NotSimple(Exception):
    """The op is written in another way than JAX writes it."""


def pretty_edits(text: str) -> list[Edit] | None:
    """The edits, in order; `None` if some pretty op of Shardy is not rewritten."""
    if "sdy." not in text:
        return []
    code = code_of(text)
    try:
        return [
            edit for match in _OP.finditer(code) for edit in _of_op(code, text, match.start("op"))
        ]
    except _NotSimple:
        return None


def _of_op(code: str, text: str, start: int) -> Iterator[Edit]:
    mesh, constraint = _MESH.match(code, start), _CONSTRAINT.match(code, start)
    if mesh is not None:
        name = mesh["quoted"] or f'"{mesh["name"]}"'
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
        written = text[begin : _end_of(code, type_.end() - 1)]
        if "#" in written:  # which other edits may change
            raise _NotSimple
        yield Edit(begin, 0, f"({written}) -> ")
    else:
        raise _NotSimple


def _attributes(code: str, at: int) -> Generator[Edit, None, int]:
    """Close the attributes after that in the brackets at `at`; returns where they end."""
    end = _end_of(code, at)
    space = _SPACE.match(code, end)
    after = space.end() if space is not None else end
    if not code.startswith("{", after):
        yield Edit(end, 0, "}")
        return end
    close = _end_of(code, after)
    is_empty = not code[after + 1 : close - 1].strip()
    yield Edit(end, after + 1 - end, "" if is_empty else ", ")
    return close


def _end_of(code: str, at: int) -> int:
    """The offset after the bracket that closes the one at `at`, on the same line."""
    opened, closed = code[at], _BRACKETS[code[at]]
    depth = 0
    for match in re.compile(f"->|[{opened}{closed}\n]").finditer(code, at):
        if match[0] == "\n":
            break
        if match[0] != "->":
            depth += 1 if match[0] == opened else -1
        if depth == 0:
            return match.end()
    raise _NotSimple
