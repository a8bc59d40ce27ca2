"""The text of Shardy's attributes <-> plain values, in which axes are names.

    #sdy.mesh<["x"=2, "y"=4], device_ids=[...]>
    #sdy.sharding<@m, [{"x"}, {"y":(1)2, ?}p1], replicated={"y":(2)2}, unreduced={"z"}>
    #sdy.sharding_per_value<[<@m, [{}]>, <@m, [{?}]>]>
    #sdy<manual_axes{"x", "y"}>

Source: Shardy, docs/sdy_dialect.md and its parsers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from shard_dialect.ir.reading.string_literals import quoted, unquoted
from shard_dialect.model import REDUCTIONS, Grid, Reduction, ShardingError

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<symbol>@(?:[\w$.-]+|"(?:[^"\\]|\\.)*"))|(?P<number>-?\d+)'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<mark>[<>\[\]{}(),=?:#.]))"
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AxisRef:
    """`"x"`, or `"x":(pre)size`."""

    name: str
    sub: tuple[int, int] | None = None

    def __str__(self) -> str:
        return quoted(self.name) + (f":({self.sub[0]}){self.sub[1]}" if self.sub else "")


@dataclass(frozen=True, slots=True)
class Dim:
    """`{"x", ?}p1`: the axes of a dimension, whether it is open, and its priority."""

    axes: tuple[AxisRef, ...] = ()
    is_open: bool = False
    priority: int | None = None

    def __str__(self) -> str:
        items = [*map(str, self.axes), *(["?"] if self.is_open else [])]
        end = "" if self.priority is None else f"p{self.priority}"
        return "{" + ", ".join(items) + "}" + end


@dataclass(frozen=True, slots=True)
class TensorSharding:
    """`<@m, [...], replicated={...}, unreduced={...}>`; `mesh` is a name or written out."""

    mesh: str | Grid
    dims: tuple[Dim, ...]
    replicated: tuple[AxisRef, ...] = ()
    unreduced: tuple[AxisRef, ...] = ()
    reduction: Reduction = "sum"

    def __str__(self) -> str:
        mesh = _symbol(self.mesh) if isinstance(self.mesh, str) else f"mesh{mesh_body(self.mesh)}"
        text = f"<{mesh}, [{', '.join(map(str, self.dims))}]"
        for name, axes in (("replicated", self.replicated), ("unreduced", self.unreduced)):
            if axes:
                text += f", {name}={{{', '.join(map(str, axes))}}}"
        return text + ">"


def _symbol(name: str) -> str:
    return f"@{name}" if re.fullmatch(r"[A-Za-z_$.][\w$.-]*", name) else f"@{quoted(name)}"


def read_mesh(text: str, name: str) -> Grid:
    """The grid `name` in `#sdy.mesh<...>`. Raises `ShardingError` for malformed text."""
    return _read_all(text, lambda tokens: tokens.mesh(name), "#sdy.mesh<")


@lru_cache(maxsize=4096)
def read_sharding(text: str) -> TensorSharding:
    """The sharding in `#sdy.sharding<...>`. Raises `ShardingError` for malformed text."""
    return _read_all(text, _Tokens.sharding, "#sdy.sharding<")


@lru_cache(maxsize=4096)
def read_per_value(text: str) -> tuple[TensorSharding, ...]:
    """The shardings in `#sdy.sharding_per_value<...>`. Raises `ShardingError`."""
    return _read_all(text, _Tokens.per_value, "#sdy.sharding_per_value<")


def read_manual_axes(text: str) -> tuple[str, ...]:
    """The names in `#sdy<manual_axes{...}>`. Raises `ShardingError`."""
    return _read_all(text, _Tokens.manual_axes, "#sdy<manual_axes")


def mesh_body(grid: Grid) -> str:
    """The text `<["x"=2], device_ids=[1, 0]>` of a grid."""
    axes = ", ".join(
        f"{quoted(grid.axis_name(axis))}={size}" for axis, size in enumerate(grid.shape)
    )
    devices = f", device_ids={list(grid.device_ids)}" if grid.device_ids else ""
    return f"<[{axes}]{devices}>"


def _read_all(text: str, read: Callable[[_Tokens], T], start: str) -> T:
    if not text.startswith(start):
        raise ShardingError(f"expected {start}...>, found {text}")
    tokens = _Tokens(text)
    for _ in _TOKEN.findall(start.rstrip("<")):
        tokens.next_token()
    result = read(tokens)
    if tokens.kind == "symbol" or tokens.kind != "end":
        raise tokens.error("the end")
    return result


class _Tokens:
    """The tokens of one attribute, read from the left."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.kind, self.value = "", ""
        self._advance()

    def _advance(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            rest = self.text[self.at :].strip()
            self.kind, self.value = ("unknown", rest) if rest else ("end", "")
            return
        self.kind = match.lastgroup or ""
        self.value = match[self.kind]
        self.at = match.end()

    def error(self, expected: str) -> ShardingError:
        return ShardingError(f"expected {expected} at '{self.value}' in {self.text}")

    def next_token(self) -> str:
        value = self.value
        self._advance()
        return value

    def expect(self, value: str) -> None:
        if self.value != value or self.kind == "string":
            raise self.error(f"'{value}'")
        self._advance()

    def accept(self, value: str) -> bool:
        if self.value != value or self.kind == "string":
            return False
        self._advance()
        return True

    def number(self) -> int:
        if self.kind != "number" or len(self.value) > 18:
            raise self.error("a number")
        return int(self.next_token())

    def string(self) -> str:
        if self.kind != "string":
            raise self.error("a name in quotes")
        return unquoted(self.next_token())

    def listed(self, end: str, item: Callable[[], T]) -> tuple[T, ...]:
        """Items separated by commas, up to `end`."""
        items: list[T] = []
        while not self.accept(end):
            if items:
                self.expect(",")
            items.append(item())
        return tuple(items)

    def mesh(self, name: str) -> Grid:
        self.expect("<")
        self.expect("[")
        axes = self.listed("]", self.mesh_axis)
        devices: tuple[int, ...] = ()
        if self.accept(","):
            self.expect("device_ids")
            self.expect("=")
            self.expect("[")
            devices = self.listed("]", self.number)
        self.expect(">")
        names, sizes = tuple(axis for axis, _ in axes), tuple(size for _, size in axes)
        return Grid(name, sizes, names, devices)

    def mesh_axis(self) -> tuple[str, int]:
        name = self.string()
        self.expect("=")
        return name, self.number()

    def sharding(self) -> TensorSharding:
        self.expect("<")
        mesh: str | Grid
        if self.kind == "symbol":
            name = self.next_token()[1:]
            mesh = unquoted(name) if name.startswith('"') else name
        elif self.accept("mesh"):
            mesh = self.mesh("")
        else:
            raise self.error("a mesh")
        self.expect(",")
        self.expect("[")
        dims = self.listed("]", self.dim)
        replicated: tuple[AxisRef, ...] = ()
        unreduced: tuple[AxisRef, ...] = ()
        reduction: Reduction = "sum"
        while self.accept(","):
            if not replicated and self.accept("replicated"):
                self.expect("=")
                replicated = self.axes()
            elif not unreduced and self.accept("unreduced"):
                self.expect("=")
                reduction = self.reduction()
                unreduced = self.axes()
            else:
                raise self.error("'replicated' or 'unreduced', each once")
        self.expect(">")
        return TensorSharding(mesh, dims, replicated, unreduced, reduction)

    def reduction(self) -> Reduction:
        """The reduction, which newer versions of Shardy name unless it is a sum."""
        for reduction in REDUCTIONS:
            if self.accept(reduction):
                return reduction
        return "sum"

    def axes(self) -> tuple[AxisRef, ...]:
        self.expect("{")
        return self.listed("}", self.axis)

    def axis(self) -> AxisRef:
        name = self.string()
        if not self.accept(":"):
            return AxisRef(name)
        self.expect("(")
        pre = self.number()
        self.expect(")")
        return AxisRef(name, (pre, self.number()))

    def dim(self) -> Dim:
        self.expect("{")
        axes: list[AxisRef] = []
        is_open = False
        while not self.accept("}"):
            if axes or is_open:
                self.expect(",")
            if is_open:
                raise self.error("'}' after '?'")
            if self.accept("?"):
                is_open = True
            else:
                axes.append(self.axis())
        priority = None
        if self.kind == "word":
            if not re.fullmatch(r"p\d{1,18}", self.value):
                raise self.error("a priority")
            priority = int(self.next_token()[1:])
        return Dim(tuple(axes), is_open, priority)

    def per_value(self) -> tuple[TensorSharding, ...]:
        self.expect("<")
        self.expect("[")
        shardings = self.listed("]", self.sharding)
        self.expect(">")
        return shardings

    def manual_axes(self) -> tuple[str, ...]:
        self.expect("{")
        axes = self.listed("}", self.string)
        self.expect(">")
        return tuple(dict.fromkeys(axes))
