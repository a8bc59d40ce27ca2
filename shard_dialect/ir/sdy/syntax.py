"""The text of Shardy's attributes <-> plain values, in which axes are names.

    #sdy.mesh<["x"=2, "y"=4], device_ids=[...]>
    #sdy.sharding<@m, [{"x"}, {"y":(1)2, ?}p1], replicated={"y":(2)2}, unreduced={"z"}>
    #sdy.sharding_per_value<[<@m, [{}]>, <@m, [{?}]>]>
    #sdy<manual_axes{"x", "y"}>
    #sdy<axis_ref_list{"x"}>    #sdy<list_of_axis_ref_lists[{}, {"x"}]>

Source: Shardy, docs/sdy_dialect.md and its parsers.

Shardy's shardings name axes, and annotations number them:

    <@m, [{"x"}, {"y":(1)2, ?}p1], unreduced={"z"}>  <->  [[0], ["1:(1)2"], [2], {open = [1], ...}]

On a maximal mesh, with one device and no axes, a sharding has no dimensions, for tensors of any
rank.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from shard_dialect.errors import as_symbol
from shard_dialect.ir.reading.string_literals import quoted, unquoted
from shard_dialect.model import (
    REDUCTIONS,
    Annotation,
    Axes,
    Axis,
    Grid,
    Reduction,
    Sharding,
    ShardingError,
    SubAxis,
)
from shard_dialect.model.grid import first_overlap, in_order

_TOKEN = re.compile(
    r'\s*(?:(?P<string>"(?:[^"\\]|\\.)*")|(?P<symbol>@(?:[\w$.-]+|"(?:[^"\\]|\\.)*"))|(?P<number>-?\d+)'
    r"|(?P<word>[A-Za-z_]\w*)|(?P<mark>[<>\[\]{}(),=?:#.]))"
)
T = TypeVar("T")
NUMBERED_REDUCTIONS: tuple[Reduction, ...] = ("sum", "max", "min")
"""The reductions by the number that `reduction_op` of a collective has for them."""


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
        mesh = as_symbol(self.mesh) if isinstance(self.mesh, str) else f"mesh{mesh_body(self.mesh)}"
        text = f"<{mesh}, [{', '.join(map(str, self.dims))}]"
        reduction = "" if self.reduction == "sum" else self.reduction
        sides = (("replicated=", self.replicated), (f"unreduced={reduction}", self.unreduced))
        for name, axes in sides:
            if axes:
                text += f", {name}{{{', '.join(map(str, axes))}}}"
        return text + ">"


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


def read_axis_lists(text: str) -> tuple[AxisRef, ...]:
    """The axes in an `axis_ref_list`, or in all lists of a `list_of_axis_ref_lists`, in order."""
    if text.startswith("#sdy<axis_ref_list"):
        return _read_all(text, lambda tokens: tokens.closed(tokens.axes), "#sdy<axis_ref_list")
    lists = _read_all(text, _Tokens.axis_lists, "#sdy<list_of_axis_ref_lists")
    return tuple(axis for axes in lists for axis in axes)


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
        return self.closed(lambda: self.listed("]", self.element))

    def element(self) -> TensorSharding:
        """A sharding in a list, short or with its dialect: `<...>`, or `#sdy.sharding<...>`."""
        for each in ("#", "sdy", ".", "sharding") if self.value == "#" else ():
            self.expect(each)
        return self.sharding()

    def closed(self, read: Callable[[], T]) -> T:
        """What `read` reads, and the `>` behind it."""
        found = read()
        self.expect(">")
        return found

    def axis_lists(self) -> tuple[tuple[AxisRef, ...], ...]:
        self.expect("[")
        return self.closed(lambda: self.listed("]", self.axes))

    def manual_axes(self) -> tuple[str, ...]:
        self.expect("{")
        axes = self.listed("}", self.string)
        self.expect(">")
        return tuple(dict.fromkeys(axes))


@lru_cache(maxsize=4096)
def to_annotation(tensor_sharding: TensorSharding, grid: Grid, rank: int) -> Annotation:
    """The annotation of a value with `rank` dimensions.

    Raises `ShardingError` for a sharding that Shardy's verifier would refuse.
    """
    if is_maximal(grid):
        if tensor_sharding.dims or tensor_sharding.replicated or tensor_sharding.unreduced:
            raise ShardingError(
                f"sharding {tensor_sharding} on the one device of mesh "
                f"{as_symbol(grid.name)}: expected no "
                "dimensions "
                "and no axes"
            )
        return Annotation(Sharding.replicated(grid.name, rank))
    if len(tensor_sharding.dims) != rank:
        raise ShardingError(
            f"sharding {tensor_sharding} has {len(tensor_sharding.dims)} dimensions, but the "
            f"tensor has {rank}"
        )
    split = tuple(_axes(dim.axes, grid, tensor_sharding) for dim in tensor_sharding.dims)
    unreduced = _ordered(tensor_sharding.unreduced, "unreduced", grid, tensor_sharding)
    replicated = _ordered(tensor_sharding.replicated, "replicated", grid, tensor_sharding)
    is_open = tuple(number for number, dim in enumerate(tensor_sharding.dims) if dim.is_open)
    priorities = tuple(dim.priority for dim in tensor_sharding.dims)
    if not any(priority is not None for priority in priorities):
        priorities = ()
    both = first_overlap([*(axis for axes in split for axis in axes), *unreduced, *replicated])
    if both is not None:
        first, second = _refs(both, grid)
        said = "axis {0} is used twice" if first == second else "axes {0} and {1} overlap"
        raise ShardingError(f"{said.format(first, second)} in {tensor_sharding}")
    try:
        sharding = Sharding(grid.name, split, unreduced, tensor_sharding.reduction)
        annotation = Annotation(sharding, is_open, priorities, replicated)
        annotation.check(grid, rank)
    except ShardingError as error:
        raise ShardingError(f"in {tensor_sharding}: {error.message}") from None
    return annotation


def to_sdy(annotation: Annotation, grid: Grid) -> TensorSharding:
    """The annotation as Shardy's sharding. Raises `ShardingError` if Shardy has none."""
    sharding = annotation.sharding
    if sharding.halos or sharding.offsets:
        raise ShardingError(f"sharding {sharding} has halos or offsets, which Shardy cannot say")
    if is_maximal(grid):
        return TensorSharding(grid.name, ())
    dims = tuple(
        Dim(
            _refs(axes, grid),
            number in annotation.open,
            annotation.priorities[number] if annotation.priorities else None,
        )
        for number, axes in enumerate(sharding.split_axes)
    )
    return TensorSharding(
        grid.name,
        dims,
        _refs(annotation.replicated, grid),
        _refs(sharding.partial, grid),
        sharding.reduction,
    )


def is_maximal(grid: Grid) -> bool:
    """Whether the grid is one device without axes; without devices it is a placeholder."""
    return grid.rank == 0 and len(grid.device_ids) == 1


def axis_number(name: str, grid: Grid, where: object) -> int:
    """The number of an axis of `grid`. Raises `ShardingError` if there is no such axis."""
    names = [grid.axis_name(axis) for axis in range(grid.rank)]
    if name not in names:
        known = ", ".join(f'"{each}"' for each in names) or "none"
        raise ShardingError(
            f'axis "{name}" in {where} is not in mesh {as_symbol(grid.name)}; its axes: {known}'
        )
    return names.index(name)


def _axes(refs: Sequence[AxisRef], grid: Grid, where: object) -> Axes:
    return tuple(_axis(ref, grid, where) for ref in refs)


def _axis(ref: AxisRef, grid: Grid, where: object) -> Axis:
    number = axis_number(ref.name, grid, where)
    return number if ref.sub is None else SubAxis(number, *ref.sub)


def _ordered(refs: Sequence[AxisRef], what: str, grid: Grid, where: object) -> Axes:
    axes = _axes(refs, grid, where)
    if list(axes) != sorted(axes, key=in_order):
        raise ShardingError(
            f"{what} axes of {where} are not in the order of mesh {as_symbol(grid.name)}"
        )
    return axes


def _refs(axes: Axes, grid: Grid) -> tuple[AxisRef, ...]:
    return tuple(
        AxisRef(grid.axis_name(axis.axis), (axis.pre, axis.size))
        if isinstance(axis, SubAxis)
        else AxisRef(grid.axis_name(axis))
        for axis in axes
    )
