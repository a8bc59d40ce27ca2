"""Refuses text for which upstream's verifier would end the process.

MLIR verifies a file as it parses it. Upstream's verifier divides by the number of devices of a
group (`shape = 2x0`). It also looks up dimensions (`slice_axis = 7` of a matrix) and grid axes
without a bounds check. All other checks are made on the parsed module (`shard_checks`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.reading.string_literals import unquoted

MOST_DEVICES = 2**63 - 1
"""Upstream multiplies the sizes of grid axes in 64 bits."""

_MOST_DIMS = 64
"""The rank assumed for a tensor whose type is not found next to its op."""

MOST_NESTED = 1000
"""Types in types: MLIR takes the square of their number to read or print one, and then crashes."""

_OP = re.compile(r'"?\bshard\.(\w+)\b"?')
_TOO_DEEP = re.compile(rf"(?:<[\w.!]*){{{MOST_NESTED + 1}}}")
_SYMBOL = re.compile(r'@([\w$.\-]+|"[^"]*")')
_NAME = re.compile(rf'{_SYMBOL.pattern}|\bsym_name\s*=\s*("[^"]*")')
_SHAPE = re.compile(r"\bshape\s*=\s*(?:array<i64:([^>]*)>|([\d?x ]+))")
_DIMENSION = re.compile(
    r"\b(slice_axis|scatter_axis|scatter_dim|split_axis|concat_axis)\s*=\s*"
    r"(-?0x[0-9a-fA-F]+|-?\d+|#[\w$.\-]+)"
)
_ALIAS = re.compile(r"^[ \t]*([#!][\w$.\-]+)\s*=\s*(\S.*)$", re.MULTILINE)
_TYPE = re.compile(r":\s*\(?\s*(?:tensor\s*<|memref\s*<|(![\w$.\-]+))((?:\s*(?:\?|\d+)\s*x)*)")
_SPLIT = re.compile(r"\bsplit_axes\s*=\s*(?:#shard<axisarray)?(\[[-\d\s,\[\]]*\])")
_READS_A_DIMENSION = ("all_slice", "all_to_all", "reduce_scatter", "scatter")


@dataclass(frozen=True, slots=True)
class _Op:
    """`text` is the code from the op's name to upstream's next op, `written` has its strings."""

    name: str
    start: int
    text: str
    written: str

    def symbol(self, match: re.Match[str]) -> str:
        """The name that is matched, without quotes."""
        name = self.written[slice(*match.span(match.lastindex or 0))]
        return unquoted(name) if name.startswith('"') else name


def refuse(text: str, code: str, location_at: Callable[[int], str]) -> None:
    """Raise a located `ShardError` for text that must not be parsed.

    `code` is the text without comments and strings; `location_at` gives the location of an offset.
    """
    too_deep = _TOO_DEEP.search(code) if code.count("<") > MOST_NESTED else None
    if too_deep:
        message = f"types are nested more than {MOST_NESTED:,} deep"
        raise ShardError(message, location_at(too_deep.start()))
    if "shard." not in code:
        return
    ops, aliases = list(_ops(text, code)), dict(_ALIAS.findall(code))
    ranks = {name: len(sizes) for op in ops if op.name == "grid" for name, sizes in _grid(op)}
    for op in ops:
        problem = _problem(op, ranks, aliases)
        if problem:
            raise ShardError(problem, location_at(op.start))


def _ops(text: str, code: str) -> Iterator[_Op]:
    matches = list(_OP.finditer(code))
    ends = [match.start() for match in matches[1:]] + [len(code)]
    for match, end in zip(matches, ends, strict=False):  # none found, one end
        yield _Op(match[1], match.start(), code[match.end() : end], text[match.end() : end])


def _problem(op: _Op, ranks: Mapping[str, int], aliases: Mapping[str, str]) -> str | None:
    if op.name == "grid":
        return _grid_problem(op)
    if op.name in _READS_A_DIMENSION:
        return _dimension_problem(op, aliases)
    if op.name == "sharding" and "sharded_dims_offsets" in op.text:
        return _offsets_problem(op, ranks)
    return None


def _grid(op: _Op) -> Iterator[tuple[str, list[str]]]:
    """The grid's name, and the text of its sizes."""
    name, shape = _NAME.search(op.text), _SHAPE.search(op.text)
    if name and shape:
        yield (op.symbol(name), re.findall(r"\?|-?\d+", shape[1] or shape[2]))


def _grid_problem(op: _Op) -> str | None:
    for name, written in _grid(op):
        sizes = [int(size) for size in written if size != "?"]
        if 0 in sizes:
            axis = next(axis for axis, size in enumerate(written) if size != "?" and not int(size))
            return f"grid {as_symbol(name)} has size 0 on axis {axis}: sizes are at least 1"
        if prod(size for size in sizes if size > 0) > MOST_DEVICES:
            return f"grid {as_symbol(name)} has more than {MOST_DEVICES} devices"
    return None


def _dimension_problem(op: _Op, aliases: Mapping[str, str]) -> str | None:
    before_result = op.text.partition("->")[0]
    rank = _rank(before_result, aliases)
    for key, written in _DIMENSION.findall(before_result):
        value = _integer(aliases.get(written, written))
        if value is not None and not 0 <= value < rank:
            return f"'shard.{op.name}' op has {key} = {value}, which is no dimension of its operand"
    return None


def _rank(text: str, aliases: Mapping[str, str]) -> int:
    """The rank of the last type before the result's, `: tensor<4x8xf32>` or `: !alias`."""
    types = _TYPE.findall(text)
    if not types:
        return _MOST_DIMS
    alias, dims = types[-1]
    if alias:
        return _rank(f": {aliases[alias]}", {}) if alias in aliases else _MOST_DIMS
    return len(re.findall(r"\?|\d+", dims))


def _integer(text: str) -> int | None:
    match = re.match(r"(-?)(?:0x([0-9a-fA-F]+)|(\d+))", text)
    if not match:
        return None
    value = int(match[2], 16) if match[2] else int(match[3])
    return -value if match[1] else value


def _offsets_problem(op: _Op, ranks: Mapping[str, int]) -> str | None:
    grid, split = _SYMBOL.search(op.text), _SPLIT.search(op.text)
    name = op.symbol(grid) if grid else ""
    if not split or name not in ranks:
        return None
    for axis in map(int, re.findall(r"-?\d+", split[1])):
        if axis >= ranks[name]:
            return (
                f"'shard.sharding' op grid axis {axis} in split axes {split[1]} is not in grid "
                f"{as_symbol(name)} of rank {ranks[name]}"
            )
    return None
