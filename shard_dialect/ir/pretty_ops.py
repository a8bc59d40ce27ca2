"""Writes printed MLIR in the pretty spelling of ops that the bindings know in generic form only.

    "mesh.cluster"() {dim_sizes = [2, 4], rank = 2 : i64, sym_name = "m"} : () -> ()
      becomes  mesh.cluster @m(rank = 2, dim_sizes = [2, 4])
    %1 = "mesh.annotate"(%0) {sharding = #mesh.shard<@m, [[0]]>} : (tensor<8xf32>) -> tensor<8xf32>
      becomes  %1 = mesh.annotate %0 {sharding = #mesh.shard<[[0]]>}
                   : tensor<8xf32> -> tensor<8xf32>
    %1 = "sdy.sharding_constraint"(%0) {sharding = #sdy.sharding<@m, [{"x"}]>}
           : (tensor<8xf32>) -> tensor<8xf32>
      becomes  %1 = sdy.sharding_constraint %0 <@m, [{"x"}]> : tensor<8xf32>

if @m is the function's `mesh_cluster`. `mesh_spelling` reads all ops of `mesh` in the RFC's
spelling. Of Shardy's those are written that `sdy_spelling` reads, without jaxlib. Only ops in the
way that MLIR prints them are changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from shard_dialect.errors import as_symbol
from shard_dialect.ir.mesh.mesh_spelling import QUERIES, SYMBOLS, WITHOUT_RESULTS, ops
from shard_dialect.ir.reading.edits import Edit, edited
from shard_dialect.ir.reading.spelling import ClustersOfFunctions, code_of
from shard_dialect.ir.reading.string_literals import unquoted

_GENERIC_OP = re.compile(
    r'"(?P<name>(?:mesh|sdy)\.\w+)"\((?P<operands>[^()]*)\) (?:(?P<attributes>\{)|:) ?'
)
_MESH = "sdy.mesh"
_SHARDY = (_MESH, "sdy.sharding_constraint", "sdy.reshard")
_LONG_SHARD = re.compile(r'#mesh\.shard<((@(?:[\w$.\-]+|"[^"]*")), )\[')
_BRACKET = re.compile(r"->|[(){}\[\]<>,]")
_OPENING = "({[<"


def pretty(text: str) -> str:
    """The text of a printed module with ops in their pretty spelling."""
    if '"mesh.' not in text and '"sdy.' not in text:
        return text
    code = code_of(text)
    edits = [edit for match in _GENERIC_OP.finditer(code) for edit in _of_op(text, code, match)]
    short = edited(text, edits)
    return edited(short, [*_without_default_grids(short)])


def _of_op(text: str, code: str, match: re.Match[str]) -> Iterator[Edit]:
    name, after = match["name"], match.end()
    if name not in _SHARDY and name not in ops():
        return
    attributes: dict[str, str] = {}
    if match["attributes"]:
        opened = match.start("attributes")
        entries, closed = _entries(code, opened)
        attributes = dict(_named(text[slice(*entry)]) for entry in entries)
        after = closed + len("} : ")
    if name in _SHARDY:
        yield from _of_shardy(text, code, match, attributes, after)
        return
    if name in SYMBOLS:
        yield Edit(
            match.start(), after - match.start() + len("() -> ()"), _symbol(name, attributes)
        )
        return
    yield Edit(match.start(), 1, "")
    operands = text[match.start("operands") : match.end("operands")]
    start = match.end("name")
    yield Edit(start, match.end("operands") + 1 - start, f" {operands}" if operands else "")
    _, closed = _entries(code, after)
    result = closed + len(") -> ")
    if name in QUERIES:
        yield Edit(after, result - after, "")
        return
    yield Edit(after, 1, "")
    yield Edit(closed, result + len("()") - closed if name in WITHOUT_RESULTS else 1, "")


def _of_shardy(
    text: str, code: str, match: re.Match[str], attributes: dict[str, str], types: int
) -> Iterator[Edit]:
    """Edit an op whose types begin at `types`, if the result is simple enough to be read back."""
    start, operand = match.start(), text[match.start("operands") : match.end("operands")]
    if match["name"] == _MESH:
        mesh = attributes.pop("mesh").removeprefix("#sdy.mesh")
        added = f"sdy.mesh {_symbol_of(attributes)} = {mesh}{_rest(attributes)}"
        yield Edit(start, types + len("() -> ()") - start, added)
        return
    _, closed = _entries(code, types)
    type_ = text[types + 1 : closed]
    sharding = attributes.pop("sharding", "")
    if "#" in type_ or not sharding.startswith("#sdy.sharding<"):
        return
    sharding = sharding.removeprefix("#sdy.sharding")
    end = closed + len(") -> ") + len(type_)
    yield Edit(
        start, end - start, f"{match['name']} {operand} {sharding}{_rest(attributes)} : {type_}"
    )


def _symbol(name: str, attributes: dict[str, str]) -> str:
    """The text of an op that declares a name."""
    symbol = _symbol_of(attributes)
    fields = {key: attributes.pop(key) for key in SYMBOLS[name] if key in attributes}
    if "rank" in fields:
        fields["rank"] = fields["rank"].removesuffix(" : i64")
    return f"{name} {symbol}({_listed(fields)}){_rest(attributes)}"


def _rest(attributes: dict[str, str]) -> str:
    return f" {{{_listed(attributes)}}}" if attributes else ""


def _symbol_of(attributes: dict[str, str]) -> str:
    """The symbol that an op declares, whose name is taken out of its attributes."""
    return as_symbol(unquoted(attributes.pop("sym_name")))


def _listed(attributes: dict[str, str]) -> str:
    return ", ".join(f"{key} = {value}" if value else key for key, value in attributes.items())


def _named(entry: str) -> tuple[str, str]:
    """The name and the value of an attribute; one without a value has none."""
    name, _, value = entry.partition(" = ")
    return name, value


def _entries(code: str, at: int) -> tuple[list[tuple[int, int]], int]:
    """The spans of the entries in the brackets at `at`, and where the brackets close."""
    entries, start, depth = [], at + 1, 0
    for match in _BRACKET.finditer(code, at):
        if match[0] in _OPENING:
            depth += 1
        elif match[0] == "," and depth == 1:
            entries.append((start, match.start()))
            start = match.end() + 1
        elif match[0] not in ("->", ","):
            depth -= 1
        if depth == 0:
            return [*entries, (start, match.start())], match.start()
    raise AssertionError("MLIR prints closed brackets")


def _without_default_grids(text: str) -> Iterator[Edit]:
    code = code_of(text)
    clusters = ClustersOfFunctions(text, code)
    for match in _LONG_SHARD.finditer(code):
        if clusters.around(match.start()) == text[slice(*match.span(2))]:
            yield Edit(match.start(1), len(match[1]), "")
