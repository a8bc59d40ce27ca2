"""Rewrites spellings that users may write to those that the installed bindings parse.

    #mesh.shard<[[0]]>                    adds the grid, the function's mesh_cluster
    #mesh.shard<[0], []>                  as on the RFC's slides: [[0], []]
    tensor<4x8xf32, #mesh.shard<[[0]]>>   a list for each dimension, [[0], []]
    mesh_axis = [(), [0]]                 as on the slides: [[], [0]]
    shard.scatter ... scatter_axis = 0    LLVM 22's name, or `scatter_dim`: the installed one
    reduction = <max>                     as in upstream's documentation: `max`
    shard.sharding @g split_axes = [[0]]  adds the type, `: !shard.sharding`
    shard.neighbors_linear_indices ... : index
                                          adds the second result's type: `: index, index`
    shard.grid "private" @g(shape = 2)    of later versions: an attribute in older ones
    mesh.cluster @g(rank = 1)             the RFC's ops: generic ones (`ir.mesh.mesh_spelling`)
    mhlo.maximum %0, %1, #mhlo.dot<...>   of the RFC's examples: StableHLO's
    mhlo.ragged_dot                       as XLA writes it: CHLO's
    mhlo.original_value = #mhlo...<...>   as XLA writes it, for debuggers: dropped
    slice_sizes = dense<[4]> : tensor<1xi64>
                                          `array<i64: 4>`, as StableHLO now has it

Text that upstream's verifier must not see is refused here, too (`ir.shard.check_text`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import spelled, submodule
from shard_dialect.ir.reading.edits import Edit
from shard_dialect.ir.shard.check_text import refuse

_ASIDE = re.compile(r'//[^\n]*|"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_NAME = re.compile(r'"(?!0x)[\w.$-]+"')
"""Not the hexadecimal data of a constant, of which there may be much."""


def code_of(text: str) -> str:
    """The text with spaces for comments and in strings, except plain names, as of an op."""
    return _ASIDE.sub(lambda match: _blank(match[0]), text)


def _blank(aside: str) -> str:
    if _NAME.fullmatch(aside):
        return aside
    quote = aside[0].replace("/", " ")
    return quote + " " * (len(aside) - 2) + quote


_SHORT_SHARD = re.compile(r"#mesh\.shard<\s*(?=\[)")
_SLIDES = re.compile(
    r"#mesh\.shard<\s*(?P<grid>@(?:[\w$.\-]+|\"[^\"]*\")\s*,\s*)?"
    r"(?P<lists>\[[^\[\]]*\](?:\s*,\s*\[[^\[\]]*\])+)\s*>"
)
"""A sharding whose lists are not in a list of their own."""
_AXES_OF_OP = re.compile(
    r"\b(?:mesh_axis|sharding)\s*=\s*\[(?:[^\[\]]|\[[^\[\]]*\])*?\(\s*\)(?:[^\[\]]|\[[^\[\]]*\])*\]"
)
_NONE = re.compile(r"\(\s*\)")
_LISTS = re.compile(r'#mesh\.shard<\s*(?:@(?:[\w$.\-]+|"[^"]*")\s*,\s*)?\[[^\[\]]*\]\s*,')
"""A sharding whose first list is of axes, with another one behind it."""
_ENCODED = re.compile(
    r"\btensor<(?P<dims>(?:[\d?]+\s*x\s*)*)[^,<>]+(?:<[^<>]*>)?\s*,\s*#mesh\.shard<\s*"
    r"(?:@(?:[\w$.\-]+|\"[^\"]*\")\s*,\s*)?"
    r"(?:\[\s*(?P<lists>(?:\[[^\[\]]*\](?:\s*,\s*\[[^\[\]]*\])*)?)"
    r"(?=\s*(?:,?\s*\{[^{}]*\}\s*)?\]\s*>)"
    r"|(?P<slides>\[[^\[\]]*\](?:\s*,\s*\[[^\[\]]*\])+)(?=\s*>))"
)
"""A tensor's type with a sharding, up to the end of its lists."""
_LIST = re.compile(r"\s*,?\s*\[([^\[\]]*)\]")
_FUNCTION = re.compile(r"\bfunc\.func\b")
_CLUSTER = re.compile(r"\bmesh_cluster\s*=\s*(@[\w$.\-]+|@\"[^\"]*\")")
_REST = r"\b(?:(?!\bshard\.|->).)*?\b"
"""Matches from an op's name to one of its attributes, on any line."""
_SCATTER = re.compile(
    rf"\bshard\.(?:reduce_)?scatter{_REST}(scatter_axis|scatter_dim)\s*=", re.DOTALL
)
_KIND = re.compile(
    rf"\bshard\.(?:all_reduce|reduce_scatter|reduce){_REST}reduction\s*=\s*(<[ \t]*(\w+)[ \t]*>)",
    re.DOTALL,
)
_UNTYPED = re.compile(
    r'=\s*shard\.sharding\s*@(?:[\w$.\-]+|"[^"\n]*")(?:\s*\b(?:split_axes|halo_sizes|'
    r"sharded_dims_offsets)\s*=\s*\[(?:\s|[\w%,#-]|\[[^\[\]]*\])*\])+"
    r"(?!\s*(?::|\{|halo_sizes|sharded_dims_offsets))"
)
_ONE_NEIGHBOR = re.compile(
    r"(?:(,\s*)?(%[\w$.\-]+)\s*=\s*)?\bshard\.neighbors_linear_indices\b[^:{}]*:\s*index\b(?!\s*,)"
)
_VISIBLE_GRID = re.compile(
    r'shard\.grid(?<!\wshard\.grid)([ \t]+"(private|nested|public)")\s*@[^()]*\([^()]*\)'
    r"(?!\s*(?:attributes|\{))"
)
_MHLO = re.compile(
    r'mhlo(?:(?<=[\s={({]mhlo)(?=\.\w+(?!\w*[ \t]*[=,}]))|(?<="mhlo)(?=\.\w+"\s*\()|'
    r"(?<=#mhlo)(?=[.<]))"
)
"""Where an op or an attribute of MHLO begins; not the name of a module's attribute."""
_ORIGIN = re.compile(r"\bmhlo\.original_value\s*=\s*#mhlo\.original_value\s*<")
"""Which value of the program before XLA's passes a result is, for its debuggers."""
_RAGGED_DOT = re.compile(r"\bmhlo\.ragged_dot\b(?!\s*<)[^:]*")
"""A `mhlo.ragged_dot` up to its types, which CHLO has, and StableHLO has not."""
_DOT_IN_RAGGED = re.compile(r"(?<!_)(\bdot_dimension_numbers\s*=\s*#mhlo\.dot\s*<)[^<>]*>")
"""The dimensions that the attribute of CHLO has beside the ragged ones."""
_DENSE = re.compile(
    r"\b(?:broadcast_dimensions|broadcast_sizes|permutation|dimensions|start_indices|limit_indices|"
    r"strides|slice_sizes|window_strides|lhs_dilation|rhs_dilation|window_reversal|"
    r"window_dimensions|base_dilations|window_dilations|edge_padding_low|edge_padding_high|"
    r"interior_padding|fft_length)\s*=\s*"
    r"(dense<\s*\[?([^<>\[\]]*)\]?\s*>\s*:\s*tensor<(\d+)x(i64|i1)>)"
)
"""An attribute that MHLO had as a dense tensor, and StableHLO as an array."""
_OP_NAME = re.compile(r"(?<![\w.#!$%@])([a-z_]\w*)\.\w+(?![\w.]|\s*=)")
_PRETTY = re.compile(r"mesh\.(?<![\w.$%@#!\"\-]mesh\.)\w+(?![\w.$]|[ \t]*=)")
"""The name of a `mesh` op that is not in quotes; not that of an attribute, which has a value."""


def edits(text: str, location_at: Callable[[int], str]) -> list[Edit]:
    """The edits that make `text` parse, in order; `location_at` gives the location of an offset.

    Raises a located `ShardError` for a short form without a grid, or text that must not be parsed.
    """
    code = code_of(text)
    refuse(text, code, location_at)
    changes: list[Edit] = []
    if "mesh" in code:
        changes += (*_full_lists(text, code), *_short_shards(text, code, location_at))
    for word, edits_of in _EDITS.items():
        if word in code:
            changes += edits_of(code)
    changes.sort(key=lambda edit: edit.start)
    pretty = list(_PRETTY.finditer(code))
    if pretty:  # imported late, as few files have any
        from shard_dialect.ir.mesh.mesh_spelling import pretty_edits

        every = [*changes, *pretty_edits(text, code, pretty, changes, location_at)]
        return sorted(every, key=lambda edit: edit.start)
    return changes


def _full_lists(text: str, code: str) -> Iterator[Edit]:
    """Give the sharding of a type a list for each dimension, and no empty one of partial axes."""
    for match in _ENCODED.finditer(code):
        group = "slides" if match["slides"] else "lists"
        lists = list(_LIST.finditer(code, match.start(group), match.end(group)))
        missing = match["dims"].count("x") - len(lists)
        if missing > 0:
            before = ", " if lists else ""
            behind = ", " if not lists and code[match.end() :].lstrip().startswith("{") else ""
            yield Edit(match.end(), 0, f"{before}{', '.join(['[]'] * missing)}{behind}")
        elif missing == -1 and not text[slice(*lists[-1].span(1))].strip():
            yield Edit(lists[-1].start(), len(lists[-1][0]), "")


def _short_shards(text: str, code: str, location_at: Callable[[int], str]) -> Iterator[Edit]:
    opened: set[int] = set()
    for match in _SLIDES.finditer(code):
        yield Edit(match.end("lists"), 0, "]")
        if match["grid"] is None:
            opened.add(match.start("lists"))  # the grid comes before the bracket
        else:
            yield Edit(match.start("lists"), 0, "[")
    for match in _AXES_OF_OP.finditer(code):
        for none in _NONE.finditer(code, match.start(), match.end()):
            yield Edit(none.start(), len(none[0]), "[]")
    for match in _LISTS.finditer(code):
        if _SLIDES.match(code, match.start()):
            continue
        raise ShardError(
            "#mesh.shard holds several lists: write them as one, #mesh.shard<[[...], [...]]>",
            location_at(match.start()),
        )
    shorts = list(_SHORT_SHARD.finditer(code))
    default = _default_grids(text, code) if shorts else None
    for match in shorts:
        grid = default(match.start()) if default else None
        if grid is None:
            raise ShardError(
                "#mesh.shard names no grid, and its function has no mesh_cluster: "
                "write #mesh.shard<@grid, [...]> or give the function {mesh_cluster = @grid}",
                location_at(match.start()),
            )
        yield Edit(match.end(), 0, f"{grid}, {'[' if match.end() in opened else ''}")


def _default_grids(text: str, code: str) -> Callable[[int], str | None]:
    """For an offset, the `mesh_cluster` of the function around it, or the file's only one."""
    clusters = ClustersOfFunctions(text, code)
    everywhere = set(clusters.named.values())
    only = everywhere.pop() if len(everywhere) == 1 else None
    return lambda at: clusters.around(at) or only


class ClustersOfFunctions:
    """The `mesh_cluster` of each function in a text; `code` is that of `code_of`."""

    def __init__(self, text: str, code: str) -> None:
        self.functions = [match.start() for match in _FUNCTION.finditer(code)]
        self.named: dict[int, str] = {}
        for match in _CLUSTER.finditer(code):
            name = text[slice(*match.span(1))]
            self.named.setdefault(bisect_right(self.functions, match.start()), name)

    def around(self, at: int) -> str | None:
        """That of the function around an offset."""
        return self.named.get(bisect_right(self.functions, at) or -1)


def _mhlo(code: str) -> Iterator[Edit]:
    origins = [_with_comma(code, match) for match in _ORIGIN.finditer(code)]
    ragged = [match.span() for match in _RAGGED_DOT.finditer(code)]
    dots = [match.span(1) for span in ragged for match in _DOT_IN_RAGGED.finditer(code, *span)]
    for begin, end in (*origins, *dots):
        yield Edit(begin, end - begin, "")
    for _, end in dots:
        yield Edit(code.index(">", end), 1, "")
    dropped, of_chlo = (
        {match.start() for span in spans for match in _MHLO.finditer(code, *span)}
        for spans in ([*origins, *dots], ragged)
    )
    for match in _MHLO.finditer(code):
        if match.start() not in dropped:
            dialect = "chlo" if match.start() in of_chlo else "stablehlo"
            yield Edit(match.start(), len(match[0]), dialect)


def _with_comma(code: str, attribute: re.Match[str]) -> tuple[int, int]:
    """Where an attribute begins and ends, of which the match ends at the opening bracket."""
    depth, begin, end = 1, attribute.start(), attribute.end()
    while depth and end < len(code):
        depth += (code[end] == "<") - (code[end] == ">")
        end += 1
    before = begin
    while code[before - 1].isspace():
        before -= 1
    if code[before - 1] == ",":
        return before - 1, end
    return begin, end + code.startswith(",", end)


def _arrays(code: str) -> Iterator[Edit]:
    end = 0
    dialect = ""
    for match in _DENSE.finditer(code):
        for op in _OP_NAME.finditer(code, end, match.start()):
            dialect = op[1]
        end = match.end()
        if dialect in ("mhlo", "stablehlo"):  # linalg has such attributes, too
            items = [item.strip() for item in match[2].split(",") if item.strip()]
            if len(items) == 1:
                items *= int(match[3])
            values = f": {', '.join(items)}" if items else ""
            yield Edit(match.start(1), len(match[1]), f"array<{match[4]}{values}>")


def _renamed(code: str) -> Iterator[Edit]:
    for match in _SCATTER.finditer(code):
        if match[1] != spelled("scatter_axis"):
            yield Edit(match.start(1), len(match[1]), spelled("scatter_axis"))


def _kinds(code: str) -> Iterator[Edit]:
    for match in _KIND.finditer(code):
        yield Edit(match.start(1), len(match[1]), match[2])


def _types(code: str) -> Iterator[Edit]:
    for match in _UNTYPED.finditer(code):
        yield Edit(match.end(), 0, " : !shard.sharding")


def _neighbors(code: str) -> Iterator[Edit]:
    """Add the second result's type; one name for both results becomes `%i:2`."""
    for match in _ONE_NEIGHBOR.finditer(code):
        if match[2] and not match[1]:
            yield Edit(match.end(2), 0, ":2")
        yield Edit(match.end(), 0, ", index")


def _visibilities(code: str) -> Iterator[Edit]:
    matches = [] if "sym_visibility" in _grid_attributes() else _VISIBLE_GRID.finditer(code)
    for match in matches:
        yield Edit(match.start(1), len(match[1]), "")
        yield Edit(match.end(), 0, f' {{sym_visibility = "{match[2]}"}}')


@cache
def _grid_attributes() -> list[str]:
    return dir(submodule("dialects.shard").GridOp)


_EDITS: Mapping[str, Callable[[str], Iterator[Edit]]] = {
    "mhlo": _mhlo,
    "hlo.": _arrays,
    "scatter_": _renamed,
    "reduction": _kinds,
    "shard.sharding": _types,
    "neighbors_linear_indices": _neighbors,
    "shard.grid": _visibilities,
}
"""By a word without which there are none, as it is found sooner than a pattern."""
