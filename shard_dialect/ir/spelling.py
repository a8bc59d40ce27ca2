"""What people write, spelled as the installed bindings parse it.

#mesh.shard<[[0]]>                          the RFC's short form: the grid is the function's
                                            mesh_cluster, and is filled in
shard.scatter ... scatter_axis = 0          LLVM 22's name, or later ones' `scatter_dim`:
                                            the one that is parsed here
reduction = <max>                           upstream's documentation; parsed is `max`
shard.sharding @g split_axes = [[0]]        its type, `: !shard.sharding`, may be left out
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import part

_ASIDE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
_NAME = re.compile(r'"[\w.$-]+"')
_SHORT_SHARD = re.compile(r"#mesh\.shard<\s*(?=\[)")
_FUNCTION = re.compile(r"\bfunc\.func\b")
_CLUSTER = re.compile(r"\bmesh_cluster\s*=\s*(@[\w$.\-]+|@\"[^\"]*\")")
_SCATTER = re.compile(r"\bshard\.(?:reduce_)?scatter\b[^\n]*?\b(scatter_axis|scatter_dim)\s*=")
_KIND = re.compile(
    r"\bshard\.(?:all_reduce|reduce_scatter|reduce)\b[^\n]*?reduction\s*=\s*(<(\w+)>)"
)
_UNTYPED = re.compile(
    r"=\s*shard\.sharding\s+@[\w$.\-]+(?:\s+(?:split_axes|halo_sizes|sharded_dims_offsets)"
    r"\s*=\s*\[(?:\s|[\w%,-]|\[[^\[\]]*\])*\])+(?!\s*:)(?!\s*(?:halo_sizes|sharded_dims_offsets))"
)


@dataclass(frozen=True, slots=True)
class Edit:
    """At offset `start`, `removed` characters give way to `added`."""

    start: int
    removed: int
    added: str


def edits(text: str, place: Callable[[int], str]) -> list[Edit]:
    """The edits that make `text` parse, in order; `place` gives the location of an offset."""
    code = _ASIDE.sub(lambda match: _blank(match[0]), text)
    found = [*_short_shards(code, place), *_renamed(code), *_kinds(code), *_types(code)]
    return sorted(found, key=lambda edit: edit.start)


def _blank(aside: str) -> str:
    """Spaces in place of a comment or a string; a quoted name stays, it may be an op's."""
    return aside if _NAME.fullmatch(aside) else " " * len(aside)


def _short_shards(code: str, place: Callable[[int], str]) -> Iterator[Edit]:
    functions = [match.start() for match in _FUNCTION.finditer(code)]
    for match in _SHORT_SHARD.finditer(code):
        grid = _default_grid(code, match.start(), functions)
        if grid is None:
            raise ShardError(
                "#mesh.shard names no grid, and its function has no mesh_cluster: "
                "write #mesh.shard<@grid, [...]> or give the function {mesh_cluster = @grid}",
                place(match.start()),
            )
        yield Edit(match.end(), 0, f"{grid}, ")


def _default_grid(code: str, at: int, functions: list[int]) -> str | None:
    """The `mesh_cluster` of the function around offset `at`, or the file's only one."""
    index = bisect_right(functions, at)
    start = functions[index - 1] if index else 0
    end = functions[index] if index < len(functions) else len(code)
    near = _CLUSTER.findall(code, start, end) if index else []
    named = near[:1] or sorted(set(_CLUSTER.findall(code)))
    return str(named[0]) if len(named) == 1 else None


def _renamed(code: str) -> Iterator[Edit]:
    for match in _SCATTER.finditer(code):
        if match[1] != scatter_dim():
            yield Edit(match.start(1), len(match[1]), scatter_dim())


@cache
def scatter_dim() -> str:
    """LLVM 22 says `scatter_axis`, later ones `scatter_dim`."""
    op = part("dialects.shard").ReduceScatterOp
    return "scatter_dim" if hasattr(op, "scatter_dim") else "scatter_axis"


def _kinds(code: str) -> Iterator[Edit]:
    for match in _KIND.finditer(code):
        yield Edit(match.start(1), len(match[1]), match[2])


def _types(code: str) -> Iterator[Edit]:
    for match in _UNTYPED.finditer(code):
        yield Edit(match.end(), 0, " : !shard.sharding")
