"""Random programs that move elements along split dimensions, as StableHLO with `sdy` annotations.

Each op maps positions of its result to positions of an operand: pads, slices, strides, reversals,
concatenations, updates, rolls, windows and their gradients. Dimensions of any size are split on
grids of two to eight devices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

_GRIDS = ((2,), (3,), (4,), (8,), (2, 2), (2, 4))
_LARGEST = 400
"""The most elements of a dimension."""

Shape = tuple[int, ...]


def _type(shape: Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


@dataclass
class AffineProgram:
    """Writes a program of one to four ops on one tensor; the same seed gives the same text.

    `is_even`: every split dimension of an argument or a result divides, which XLA wants.
    """

    seed: int
    is_even: bool = True
    random: Random = field(init=False)
    lines: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.grid = self.random.choice(_GRIDS)

    def text(self) -> str:
        """The module, with one function @main of one result."""
        unit = 8 if self.is_even else 1
        rank = self.random.choice((1, 1, 2))
        shape = tuple(
            unit * self.random.randint(1, 64 // unit) if self.random.random() < 0.7 else 24
            for _ in range(rank)
        )
        value = self.argument(shape)
        for _ in range(self.random.choice((1, 1, 2, 3, 4))):
            value, shape = self.random.choice(_STEPS)(self, value, shape)
        result = self.sharding(shape) if self.random.random() < 0.8 else ""
        mesh = ", ".join(f'"a{axis}"={size}' for axis, size in enumerate(self.grid))
        body = "\n  ".join([*self.lines, f"return {value} : {_type(shape)}"])
        return (
            f"sdy.mesh @m = <[{mesh}]>\n"
            f"func.func @main({', '.join(self.arguments)}) -> ({_type(shape)}{result}) {{\n"
            f"  {body}\n}}\n"
        )

    def argument(self, shape: Shape) -> str:
        """A new argument, sharded in a way that its shape allows."""
        name = f"%x{len(self.arguments)}"
        self.arguments.append(f"{name}: {_type(shape)}{self.sharding(shape)}")
        return name

    def sharding(self, shape: Shape) -> str:
        """An attribute that splits some dimensions."""
        axes = list(range(len(self.grid)))
        self.random.shuffle(axes)
        split: list[list[int]] = [[] for _ in shape]
        for axis in axes:
            dim = self.random.randrange(len(shape))
            count = self.grid[axis]
            for other in split[dim]:
                count *= self.grid[other]
            if shape[dim] % count == 0 or (not self.is_even and shape[dim] >= count):
                split[dim].append(axis)
        dims = ", ".join("{" + ", ".join(f'"a{axis}"' for axis in each) + "}" for each in split)
        return f" {{sdy.sharding = #sdy.sharding<@m, [{dims}]>}}"

    def add(self, op: str) -> str:
        """Add an op; returns its result."""
        self.lines.append(f"%v{len(self.lines)} = {op}")
        return f"%v{len(self.lines) - 1}"

    def constant(self, number: float) -> str:
        """A scalar."""
        return self.add(f"stablehlo.constant dense<{number!r}> : tensor<f32>")

    def pad(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """Pad near or far, in front, behind or in between; negative padding drops elements."""
        dim = self.random.randrange(len(shape))
        low, high = (self._padding(shape[dim]) for _ in range(2))
        between = self.random.choice((0, 0, 0, 1))
        size = low + high + shape[dim] + between * (shape[dim] - 1)
        if not 1 <= size <= _LARGEST:
            return value, shape
        fill = self.constant(self.random.choice((0.0, 0.0, 1.0, 2.5)))
        lists = ([amount if d == dim else 0 for d in range(len(shape))] for amount in (low, high))
        inner = [between if d == dim else 0 for d in range(len(shape))]
        after = tuple(size if d == dim else each for d, each in enumerate(shape))
        written = ", ".join(
            f"{name} = {each}"
            for name, each in zip(("low", "high", "interior"), (*lists, inner), strict=True)
        )
        types = f"({_type(shape)}, tensor<f32>) -> {_type(after)}"
        return self.add(f"stablehlo.pad {value}, {fill}, {written} : {types}"), after

    def _padding(self, size: int) -> int:
        return self.random.choice((0, 0, 1, 2, 8, size // 2, size, -1, -(size // 3)))

    def slice(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """A part of each dimension, at times a small one, at times with a stride."""
        bounds, after = [], []
        for size in shape:
            begin = self.random.randrange(size)
            end = self.random.choice((size, min(size, begin + 2), self.random.randint(begin, size)))
            stride = self.random.choice((1, 1, 1, 2, 3))
            if self.random.random() < 0.5 or end <= begin:
                begin, end, stride = 0, size, 1
            bounds.append(f"{begin}:{end}:{stride}")
            after.append(-(-(end - begin) // stride))
        types = f"({_type(shape)}) -> {_type(tuple(after))}"
        return self.add(f"stablehlo.slice {value} [{', '.join(bounds)}] : {types}"), tuple(after)

    def reverse(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """One dimension backwards."""
        dim = self.random.randrange(len(shape))
        return self.add(f"stablehlo.reverse {value}, dims = [{dim}] : {_type(shape)}"), shape

    def concatenate(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """The tensor and another one, or itself."""
        dim = self.random.randrange(len(shape))
        other = value if self.random.random() < 0.5 else self.argument(shape)
        after = tuple(2 * size if d == dim else size for d, size in enumerate(shape))
        if after[dim] > _LARGEST:
            return value, shape
        types = f"({_type(shape)}, {_type(shape)}) -> {_type(after)}"
        return self.add(f"stablehlo.concatenate {value}, {other}, dim = {dim} : {types}"), after

    def roll(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """The last elements in front of the others, at times as gradients have it."""
        dim = self.random.randrange(len(shape))
        size = shape[dim]
        if size < 2:
            return value, shape
        by = self.random.randint(1, size - 1)
        parts, types = [], []
        for begin, end in ((size - by, size), (0, size - by)):
            bounds = [f"{begin}:{end}" if d == dim else f"0:{n}" for d, n in enumerate(shape)]
            part = _type(tuple(end - begin if d == dim else n for d, n in enumerate(shape)))
            parts.append(
                self.add(
                    f"stablehlo.slice {value} [{', '.join(bounds)}] : ({_type(shape)}) -> {part}"
                )
            )
            types.append(part)
        if self.random.random() < 0.5:
            op = f"stablehlo.concatenate {', '.join(parts)}, dim = {dim}"
            return self.add(f"{op} : ({', '.join(types)}) -> {_type(shape)}"), shape
        zero, none = self.constant(0.0), [0] * len(shape)
        for number, (low, high) in enumerate(((0, size - by), (by, 0))):
            lows, highs = ([n if d == dim else 0 for d in range(len(shape))] for n in (low, high))
            parts[number] = self.add(
                f"stablehlo.pad {parts[number]}, {zero}, low = {lows}, high = {highs}, "
                f"interior = {none} : ({types[number]}, tensor<f32>) -> {_type(shape)}"
            )
        return self.add(f"stablehlo.add {', '.join(parts)} : {_type(shape)}"), shape

    def update(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """A part is written over, at constant indices."""
        sizes = tuple(self.random.randint(1, size) for size in shape)
        update = self.argument(sizes)
        starts = [
            self.add(f"stablehlo.constant dense<{self.random.randint(0, a - b)}> : tensor<i32>")
            for a, b in zip(shape, sizes, strict=True)
        ]
        indices = ", ".join(["tensor<i32>"] * len(shape))
        types = f"({_type(shape)}, {_type(sizes)}, {indices}) -> {_type(shape)}"
        op = f"stablehlo.dynamic_update_slice {value}, {update}, {', '.join(starts)}"
        return self.add(f"{op} : {types}"), shape

    def windows(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """Sums of windows along one dimension, which may overlap."""
        dim = self.random.randrange(len(shape))
        size, stride = self.random.choice((2, 3)), self.random.choice((1, 1, 2))
        low, high = self.random.choice(((0, 0), (1, 1), (size - 1, 0)))
        count = (shape[dim] + low + high - size) // stride + 1
        if count < 1:
            return value, shape
        after = tuple(count if d == dim else each for d, each in enumerate(shape))
        lists = (
            ", ".join(str(each if d == dim else 1) for d in range(len(shape)))
            for each in (size, stride)
        )
        names = ("window_dimensions", "window_strides")
        written = ", ".join(
            f"{name} = array<i64: {each}>" for name, each in zip(names, lists, strict=True)
        )
        padding = [[low, high] if d == dim else [0, 0] for d in range(len(shape))]
        zero = self.constant(0.0)
        return (
            self.add(
                f'"stablehlo.reduce_window"({value}, {zero}) <{{{written}, padding = '
                f"dense<{padding}> : tensor<{len(shape)}x2xi64>}}> ({{\n"
                "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
                "    %s = stablehlo.add %a, %b : tensor<f32>\n"
                "    stablehlo.return %s : tensor<f32>\n"
                f"  }}) : ({_type(shape)}, tensor<f32>) -> {_type(after)}"
            ),
            after,
        )

    def apply(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """A function of each element, between the moves."""
        return self.add(f"stablehlo.tanh {value} : {_type(shape)}"), shape


_STEPS: tuple[Callable[[AffineProgram, str, Shape], tuple[str, Shape]], ...] = (
    AffineProgram.pad,
    AffineProgram.pad,
    AffineProgram.slice,
    AffineProgram.slice,
    AffineProgram.reverse,
    AffineProgram.concatenate,
    AffineProgram.roll,
    AffineProgram.update,
    AffineProgram.windows,
    AffineProgram.apply,
)
