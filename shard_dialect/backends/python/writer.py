"""The writer that all emitters use: names of values, statements, numbers, helpers.

Lines are folded as by a formatter, and names are unique.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from shard_dialect.backends.python.element_types import as_held, held_by
from shard_dialect.errors import shown
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.model import Grid

WIDTH = 100
"""That of what programs import, which is copied from `written`, too."""
_LONGEST = 60
"""The largest number of characters of a name, without the number that makes it unique."""


def folded(line: str, comment: str = "", after: str = "") -> list[str]:
    r"""Return the lines of a statement; if it is too long, its last brackets' content is folded.

    `after` follows the last line. The comment may come from the source: whatever it contains, it
    ends with the line.

    >>> print(*folded("y = join(" + "a_long_name, " * 7 + "z)"), sep="\n")
    y = join(
        a_long_name, a_long_name, a_long_name, a_long_name, a_long_name, a_long_name, a_long_name, z
    )
    """
    end = after + (f"  # {shown(comment)}" if comment else "")
    if len(line) + len(end) <= WIDTH:
        return [line + end]
    indent = " " * (len(line) - len(line.lstrip()))
    returned = line.strip().removeprefix("return ")
    if len(_items(returned)) > 1 and returned != line.strip():
        return [
            f"{indent}return (",
            *[f"{indent}    {each}," for each in _items(returned)],
            f"{indent})",
        ]
    target = re.match(r"(\s*\w+\[)(.+)(\] = \w+)$", line)
    if target:
        head, inside, tail = target.groups()
        return [head, *[f"{indent}    {each}," for each in _items(inside)], indent + tail + end]
    opening = _opening(line)
    if opening is None:
        return [line + end]
    head, inside, tail = line[: opening + 1], line[opening + 1 : -1], line[-1]
    inner = indent + "    "
    if len(inner) + len(inside) <= WIDTH:
        return [head, inner + inside, indent + tail + end]
    items = _items(inside)
    # A comma after a single element would make a tuple, except in a call.
    comma = "," if len(items) > 1 or _is_call(head, inside) else ""
    rows = [row for item in items for row in folded(inner + item, after=comma)]
    return [head, *rows, indent + tail + end]


def _is_call(head: str, inside: str) -> bool:
    """Whether the bracket at the end of `head` opens the arguments of a call."""
    return bool(re.search(r"\w\($", head)) and " for " not in inside


def _opening(line: str) -> int | None:
    """The position of the bracket that the last character closes, or `None`."""
    if not line or line[-1] not in ")]":
        return None
    line = _without_strings(line)
    depth = 0
    for position in range(len(line) - 1, -1, -1):
        depth += (line[position] in ")]}") - (line[position] in "([{")
        if not depth:
            return position if position < len(line) - 2 else None
    return None


def _without_strings(text: str) -> str:
    """The text with the content of string literals replaced by letters."""
    return re.sub(r'"[^"]*"', lambda match: "x" * len(match[0]), text)


def _items(inside: str) -> list[str]:
    """Split the text at commas outside of brackets."""
    items, depth, begin = [], 0, 0
    for position, character in enumerate(_without_strings(inside)):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            items.append(inside[begin:position].strip())
            begin = position + 1
    return [*items, inside[begin:].strip()]


def in_docstring(text: str) -> str:
    r"""Escape the text, whatever it contains, for a docstring.

    >>> print(in_docstring('a "b" \\ \n'))
    a \"b\" \\ \n
    """
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return shown(quoted)  # its escapes are Python's


class Names:
    """Unique names."""

    def __init__(self, used: set[str]) -> None:
        self.used = set(used)

    def new(self, preferred: str) -> str:
        """A name like `preferred`, with a number appended if it is taken."""
        base = re.sub(r"\W", "_", preferred, flags=re.ASCII).strip("_").lower() or "value"
        base = base[:_LONGEST]
        base = f"_{base}" if base[0].isdecimal() else base
        base = f"{base}_" if keyword.iskeyword(base) else base
        name, number = base, 1
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name


Target = Literal["mpi4py", "torch"]


_LARGE = 1e38
"""Numbers beyond it may be the largest of their type, which must not be rounded up."""


@dataclass
class Writer:
    """Writes the statements of one file. `module` is the array library's name, `np` or `torch`."""

    target: Target
    grids: Mapping[str, Grid]
    names: Names
    values: dict[ir.Value, str] = field(default_factory=dict)
    literals: dict[ir.Value, str] = field(default_factory=dict)
    """The text of values that are one number."""
    groups: dict[tuple[str, tuple[int, ...]], str] = field(default_factory=dict)
    extents: dict[ir.Value, tuple[int, ...]] = field(default_factory=dict)
    """The shapes of values in a body that is written as ops on tensors."""
    lines: list[str] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)
    """The lines of functions that the one that is written calls."""
    called: set[str] = field(default_factory=set)
    """Their names, and those of constants that it uses."""
    started: set[str] = field(default_factory=set)
    """The names of collectives that run beside others, until they are waited for."""
    functions: dict[str, str] = field(default_factory=dict)
    grid_names: dict[str, str] = field(default_factory=dict)
    """The names of functions and grids in the file."""
    _indent: str = ""

    @property
    def module(self) -> str:
        """The array library's name: `np` or `torch`."""
        return "torch" if self.is_torch else "np"

    @property
    def is_torch(self) -> bool:
        """Whether the target is torch."""
        return self.target == "torch"

    def line(self, text: str, comment: str = "") -> None:
        """Write a line, folded if it is too long."""
        self.lines += folded(self._indent + text, comment)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent the lines of the `with` body."""
        before, self._indent = self._indent, self._indent + "    "
        yield
        self._indent = before

    def name(self, value: ir.Value, preferred: str) -> str:
        """Name the value: by its own name in the source if it has one."""
        self.values[value] = self.names.new(own_name(value) or preferred)
        return self.values[value]

    def define(self, value: ir.Value, expression: str, preferred: str = "") -> None:
        """Write the statement that defines the value."""
        preferred = preferred or value.owner.name.partition(".")[2]
        comment = described(value.type)
        if value in self.extents:
            comment = "x".join([*map(str, self.extents[value]), str(value.type)])
        self.line(f"{self.name(value, preferred)} = {expression}", comment)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Write the lines of the `with` body in front of the function."""
        lines, indent, self.lines, self._indent = self.lines, self._indent, [], ""
        yield
        self.bodies += [*self.lines, "", ""]
        self.lines, self._indent = lines, indent

    def define_all(self, values: Sequence[ir.Value], expression: str, preferred: str) -> None:
        """Write the statement that defines the values, which the expression gives as a list."""
        names = ", ".join(self.name(each, preferred) for each in values)
        self.line(f"({names},) = {expression}" if len(values) == 1 else f"{names} = {expression}")

    def kept(self, preferred: str, expression: str) -> str:
        """Write a statement for a part of an expression, and return the part's name."""
        name = self.names.new(preferred)
        self.line(f"{name} = {expression}")
        return name

    def use(self, value: ir.Value) -> str:
        """The text of a value; a constant tensor is written before its use."""
        if value not in self.literals or not isinstance(value.type, ir.ShapedType):
            return self.values[value]
        name = self.names.new("full")
        self.line(f"{name} = {self.values[value]}", described(value.type))
        return name

    def uses(self, op: ir.Operation) -> list[str]:
        """The text of each operand."""
        return [self.use(each) for each in op.operands]

    def pick(self, numpy: str, torch: str) -> str:
        """The text for the target."""
        return torch if self.is_torch else numpy

    def dtype(self, element: ir.Type, location: ir.Location) -> str:
        """The target's element type; raise if there is none."""
        name = held_by(self.target, str(element))
        if name is None:
            raise error_at(location, f"elements of type {element} have no {self.target} type")
        return name

    def number(self, value: Any, element: ir.Type) -> str:
        """A literal; infinities and NaN are the library's constants."""
        if isinstance(value, complex):
            component = ir.ComplexType(element).element_type
            parts = [self.number(each, component) for each in (value.real, value.imag)]
            return f"complex({', '.join(parts)})"
        if isinstance(value, bool) or str(element) == "i1":
            return str(bool(value))
        if not isinstance(value, float):
            return str(as_held(int(value), element) if self.is_torch else int(value))
        if value != value or abs(value) == float("inf"):
            name = "nan" if value != value else "inf"
            return f"-{self.module}.{name}" if value < 0 else f"{self.module}.{name}"
        if str(element) in ("f32", "f16", "bf16"):
            import numpy as np

            short = float(str(np.float32(value)))
            value = short if abs(short) <= abs(value) or abs(value) < _LARGE else value
        return repr(value).replace("e+", "e")

    def full(self, type_: ir.RankedTensorType, number: str, location: ir.Location) -> str:
        """A tensor of one number."""
        if not type_.has_static_shape:
            raise error_at(location, f"a {type_} of one number cannot be written in Python")
        dtype, shape = self.dtype(type_.element_type, location), tuple(type_.shape)
        if self.is_torch and number.isidentifier() and number not in ("True", "False"):
            # torch.full would read it on the host.
            one = f"torch.as_tensor({number}, dtype={dtype}, device=device)"
            return f"{one}.expand({shape}).clone()"
        if self.is_torch:
            return f"torch.full({shape}, {number}, dtype={dtype}, device=device)"
        return f"np.full({shape}, {number}, {dtype})"

    def fresh(self, value: ir.Value) -> str:
        """The value in memory of its own, to write to; a literal has that already."""
        x = self.values[value]
        if value in self.literals:
            return x
        # numpy's results without dimensions are scalars, which cannot be written to.
        return self.pick(f"{x}.copy()" if value.type.shape else f"np.array({x})", f"{x}.clone()")

    def has_literals(self, element: ir.Type) -> bool:
        """Whether a Python number among elements of the type keeps it: numpy makes f32 of bf16."""
        return self.is_torch or str(element) != "bf16"

    @staticmethod
    def is_python(type_: ir.Type) -> bool:
        """Whether values of the type may be Python's numbers: indices, and their comparisons."""
        return isinstance(type_, ir.IndexType) or str(type_) == "i1"

    def scalar(self, x: str, element: ir.Type, location: ir.Location) -> str:
        """A Python number as one of the target's."""
        dtype = self.dtype(element, location)
        return self.pick(f"{dtype}({x})", f"torch.as_tensor({x}, dtype={dtype}, device=device)")

    def permuted(self, x: str, order: Sequence[int]) -> str:
        """`x` with its dimensions in this order."""
        if list(order) == list(range(len(order))):
            return x
        return self.pick(f"{x}.transpose{tuple(order)}", f"{x}.permute{tuple(order)}")

    def broadcast(self, x: str, shape: Sequence[int]) -> str:
        """`x` broadcast to this shape."""
        return f"{self.module}.broadcast_to({x}, {tuple(shape)})"

    def cast(self, x: str, element: ir.Type, location: ir.Location) -> str:
        """`x` with this element type."""
        method = self.pick("astype", "to")
        return f"{x}.{method}({self.dtype(element, location)})"

    def group(self, grid: str, axes: tuple[int, ...]) -> str:
        """The name of the group of devices that a collective runs in."""
        if (grid, axes) not in self.groups:
            names = self.grids[grid].axes
            words = [names[axis] if names else str(axis) for axis in axes]
            of = "" if len(self.grids) == 1 else f"{grid}_"
            self.groups[grid, axes] = self.names.new("_".join(["along", of + "_".join(words)]))
        return self.groups[grid, axes]

    def refuse(self, op: ir.Operation, why: str = "there is no Python for it") -> Exception:
        """The located error for an op that has no Python."""
        return error_at(op.location, f"'{op.name}' op cannot be written in Python: {why}")


def own_name(value: ir.Value) -> str | None:
    """The name in a value's location, where frontends keep the names of their source."""
    location = value.location
    name = getattr(location, "name_str", None)
    return str(name).rpartition("/")[2] if name else None


def described(type_: ir.Type) -> str:
    """The comment for a value: its shape and element type."""
    if isinstance(type_, ir.RankedTensorType):
        return "x".join([*map(str, type_.shape), str(type_.element_type)])
    return ""
