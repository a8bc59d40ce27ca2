"""Rewrites spellings that users may write to those that the installed bindings parse.

    #mesh.shard<[[0]]>                    the RFC's short form: adds the grid, the function's
                                          mesh_cluster
    shard.scatter ... scatter_axis = 0    the name of LLVM 22, or `scatter_dim` of later versions:
                                          changes to the installed one
    reduction = <max>                     as in upstream's documentation: becomes `max`
    shard.sharding @g split_axes = [[0]]  adds the type, `: !shard.sharding`
    shard.neighbors_linear_indices ... : index
                                          adds the second result's type: `: index, index`
    shard.grid "private" @g(shape = 2)    as in later versions: becomes an attribute in older ones

Text that upstream's verifier must not see is refused here, too (`ir.shard.text_checks`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import submodule
from shard_dialect.ir.reading.blank_comments import code_of
from shard_dialect.ir.shard.check_text import refuse

_SHORT_SHARD = re.compile(r"#mesh\.shard<\s*(?=\[)")
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
    r'=\s*shard\.sharding\s*@(?:"?[\w$.\-]+"?)?(?:\s*\b(?:split_axes|halo_sizes|'
    r"sharded_dims_offsets)\s*=\s*\[(?:\s|[\w%,#-]|\[[^\[\]]*\])*\])+"
    r"(?!\s*(?::|\{|halo_sizes|sharded_dims_offsets))"
)
_ONE_NEIGHBOR = re.compile(
    r"(?:(,\s*)?(%[\w$.\-]+)\s*=\s*)?\bshard\.neighbors_linear_indices\b[^:{}]*:\s*index\b(?!\s*,)"
)
_VISIBLE_GRID = re.compile(
    r'\bshard\.grid([ \t]+"(private|nested|public)")\s*@[^()]*\([^()]*\)(?!\s*(?:attributes|\{))'
)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `removed` characters at offset `start` by `added`."""

    start: int
    removed: int
    added: str


def edits(text: str, location_at: Callable[[int], str]) -> list[Edit]:
    """The edits that make `text` parse, in order; `location_at` gives the location of an offset.

    Raises a located `ShardError` for a short form without a grid, or text that must not be parsed.
    """
    code = code_of(text)
    refuse(code, location_at)
    changes = [*_short_shards(code, location_at)]
    for edits_of in (_renamed, _kinds, _types, _neighbors, _visibilities):
        changes += edits_of(code)
    return sorted(changes, key=lambda edit: edit.start)


def _short_shards(code: str, location_at: Callable[[int], str]) -> Iterator[Edit]:
    shorts = list(_SHORT_SHARD.finditer(code))
    default = _default_grids(code) if shorts else None
    for match in shorts:
        grid = default(match.start()) if default else None
        if grid is None:
            raise ShardError(
                "#mesh.shard names no grid, and its function has no mesh_cluster: "
                "write #mesh.shard<@grid, [...]> or give the function {mesh_cluster = @grid}",
                location_at(match.start()),
            )
        yield Edit(match.end(), 0, f"{grid}, ")


def _default_grids(code: str) -> Callable[[int], str | None]:
    """For an offset, the `mesh_cluster` of the function around it, or the file's only one."""
    functions = [match.start() for match in _FUNCTION.finditer(code)]
    named: dict[int, str] = {}
    for match in _CLUSTER.finditer(code):
        named.setdefault(bisect_right(functions, match.start()), match[1])
    everywhere = set(named.values())
    only = everywhere.pop() if len(everywhere) == 1 else None
    return lambda at: named.get(bisect_right(functions, at) or -1, only)


def _renamed(code: str) -> Iterator[Edit]:
    for match in _SCATTER.finditer(code):
        if match[1] != scatter_dim():
            yield Edit(match.start(1), len(match[1]), scatter_dim())


@cache
def scatter_dim() -> str:
    """The attribute's name in the installed bindings: `scatter_axis` in LLVM 22."""
    op = submodule("dialects.shard").ReduceScatterOp
    return "scatter_dim" if hasattr(op, "scatter_dim") else "scatter_axis"


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
