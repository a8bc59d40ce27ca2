"""Random programs that merge dimensions and go on with the merged one."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from random import Random

Shape = tuple[int, ...]


def type_of(shape: Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


@dataclass
class MergedDims:
    """Writes a program: a merge, then some ops on the merged tensor, and at times a split."""

    random: Random
    devices: int = 4
    moves: bool = True
    """Whether there are slices, sorts and the like, at which a split may end whatever is done."""
    lines: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)

    def text(self) -> str:
        random = self.random
        shape = tuple(random.choice((1, 2, 3, 4, 6, 8)) for _ in range(random.randint(2, 4)))
        start = random.randrange(len(shape) - 1)
        end = random.randint(start + 2, len(shape))
        split = random.randrange(start + 1, end)  # a minor part of the merged dimension
        shape = tuple(8 if dim == split else size for dim, size in enumerate(shape))
        merged = (*shape[:start], prod(shape[start:end]), *shape[end:])
        value = self.argument(shape, split)
        value = self.op("reshape", value, shape, merged)
        for _ in range(random.randint(1, 4)):
            value, merged = self.step(value, merged)
        if random.random() < 0.5 and merged and merged[0] % 2 == 0:
            parts = (2, merged[0] // 2, *merged[1:])
            value, merged = self.op("reshape", value, merged, parts), parts
        arguments = ", ".join(self.arguments)
        body = "\n  ".join([*self.lines, f"return {value} : {type_of(merged)}"])
        return (
            f"shard.grid @g(shape = {self.devices})\n"
            f"func.func @main({arguments}) -> {type_of(merged)} {{\n  {body}\n}}\n"
        )

    def argument(self, shape: Shape, split: int | None = None) -> str:
        name = f"%a{len(self.arguments)}"
        axes = ["[0]" if dim == split else "[]" for dim in range(len(shape))]
        sharding = f" {{mesh.sharding = #mesh.shard<@g, [{', '.join(axes)}]>}}"
        self.arguments.append(f"{name}: {type_of(shape)}{sharding if split is not None else ''}")
        return name

    def op(self, name: str, value: str, before: Shape, after: Shape, attributes: str = "") -> str:
        result = f"%v{len(self.lines)}"
        types = f"({type_of(before)}) -> {type_of(after)}"
        self.lines.append(f"{result} = stablehlo.{name} {value}{attributes} : {types}")
        return result

    def step(self, value: str, shape: Shape) -> tuple[str, Shape]:
        steps = [self.elementwise, self.product, self.batched_product, self.transpose]
        if self.moves:
            steps += [self.moved, self.moved, self.clamp, self.cumulative, self.sorted]
        if len(shape) > 1:
            steps += [self.reduce, self.softmax]
        return self.random.choice(steps)(value, shape)

    def elementwise(self, value: str, shape: Shape) -> tuple[str, Shape]:
        result = f"%v{len(self.lines)}"
        other = self.random.choice((value, self.argument(shape)))
        self.lines.append(f"{result} = stablehlo.multiply {value}, {other} : {type_of(shape)}")
        return result, shape

    def product(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """A product that sums any dimension, with a matrix on its left or right."""
        dim, columns = self.random.randrange(len(shape)), self.random.choice((4, 5, 8))
        kept = shape[:dim] + shape[dim + 1 :]
        matrix = (shape[dim], columns)
        split = self.random.choice((None, 0, 1))
        other = self.argument(matrix, split if split is None or not matrix[split] % 4 else None)
        result = f"%v{len(self.lines)}"
        sides = ((value, dim, shape), (other, 0, matrix))
        after = (*kept, columns)
        if self.random.random() < 0.5:
            sides, after = (sides[1], sides[0]), (columns, *kept)
        (a, dim_a, shape_a), (b, dim_b, shape_b) = sides
        self.lines.append(
            f"{result} = stablehlo.dot_general {a}, {b}, contracting_dims = [{dim_a}] x [{dim_b}] "
            f": ({type_of(shape_a)}, {type_of(shape_b)}) -> {type_of(after)}"
        )
        return result, after

    def batched_product(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """A product with all dimensions but the last as batch."""
        dims = list(range(len(shape) - 1))
        other, after = self.argument((*shape, 3)), (*shape[:-1], 3)
        result = f"%v{len(self.lines)}"
        self.lines.append(
            f"{result} = stablehlo.dot_general {value}, {other}, batching_dims = {dims} x {dims}, "
            f"contracting_dims = [{len(shape) - 1}] x [{len(shape) - 1}] "
            f": ({type_of(shape)}, {type_of((*shape, 3))}) -> {type_of(after)}"
        )
        return result, after

    def transpose(self, value: str, shape: Shape) -> tuple[str, Shape]:
        order = list(range(len(shape)))
        self.random.shuffle(order)
        after = tuple(shape[dim] for dim in order)
        return self.op("transpose", value, shape, after, f", dims = {order}"), after

    def moved(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """A slice, a concatenation, a padding or a reversal along a dimension."""
        dim, size = (at := self.random.randrange(len(shape))), shape[at]
        kind = self.random.choice(("slice", "concatenate", "pad", "reverse"))
        if kind == "reverse":
            return self.op("reverse", value, shape, shape, f", dims = [{dim}]"), shape
        if kind == "slice":
            begin = self.random.randrange(size)
            bounds = [f"{begin if d == dim else 0}:{n}" for d, n in enumerate(shape)]
            after = (*shape[:dim], size - begin, *shape[dim + 1 :])
            return self.op("slice", value, shape, after, f" [{', '.join(bounds)}]"), after
        if kind == "concatenate":
            other = self.random.choice((value, self.argument(shape)))
            after = (*shape[:dim], 2 * size, *shape[dim + 1 :])
            result = f"%v{len(self.lines)}"
            types = f"({type_of(shape)}, {type_of(shape)}) -> {type_of(after)}"
            self.lines.append(
                f"{result} = stablehlo.concatenate {value}, {other}, dim = {dim} : {types}"
            )
            return result, after
        zero, result = f"%v{len(self.lines)}", f"%v{len(self.lines) + 1}"
        low = [self.random.choice((-1, 1, 2)) if d == dim else 0 for d in range(len(shape))]
        low[dim] = max(low[dim], 1 - size)
        after = (*shape[:dim], size + low[dim], *shape[dim + 1 :])
        none = [0] * len(shape)
        types = f"({type_of(shape)}, tensor<f32>) -> {type_of(after)}"
        self.lines.append(f"{zero} = stablehlo.constant dense<0.5> : tensor<f32>")
        self.lines.append(
            f"{result} = stablehlo.pad {value}, {zero}, low = {low}, high = {none}, "
            f"interior = {none} : {types}"
        )
        return result, after

    def clamp(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """Elementwise, between scalars."""
        low, high, result = (f"%v{len(self.lines) + number}" for number in range(3))
        scalar = type_of(())
        types = f"({scalar}, {type_of(shape)}, {scalar}) -> {type_of(shape)}"
        self.lines.append(f"{low} = stablehlo.constant dense<-0.5> : {scalar}")
        self.lines.append(f"{high} = stablehlo.constant dense<0.5> : {scalar}")
        self.lines.append(f"{result} = stablehlo.clamp {low}, {value}, {high} : {types}")
        return result, shape

    def cumulative(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """The sums of the elements up to each, as JAX lowers them."""
        dim = self.random.randrange(len(shape))
        sizes = [n if d == dim else 1 for d, n in enumerate(shape)]
        widths = [[n - 1 if d == dim else 0, 0] for d, n in enumerate(shape)]
        zero, result = f"%v{len(self.lines)}", f"%v{len(self.lines) + 1}"
        scalar, type_ = type_of(()), type_of(shape)
        self.lines.append(f"{zero} = stablehlo.constant dense<0.0> : {scalar}")
        self.lines.append(
            f'{result} = "stablehlo.reduce_window"({value}, {zero}) <{{'
            f"padding = dense<{widths}> : tensor<{len(shape)}x2xi64>, "
            f"window_dimensions = array<i64: {', '.join(map(str, sizes))}>}}> ({{\n"
            f"  ^bb0(%l: {scalar}, %r: {scalar}):\n    %s = stablehlo.add %l, %r : {scalar}\n"
            f"    stablehlo.return %s : {scalar}\n  }}) : ({type_}, {scalar}) -> {type_}"
        )
        return result, shape

    def sorted(self, value: str, shape: Shape) -> tuple[str, Shape]:
        dim, result = self.random.randrange(len(shape)), f"%v{len(self.lines)}"
        scalar, type_ = type_of(()), type_of(shape)
        self.lines.append(
            f'{result} = "stablehlo.sort"({value}) <{{dimension = {dim} : i64}}> ({{\n'
            f"  ^bb0(%l: {scalar}, %r: {scalar}):\n"
            f"    %s = stablehlo.compare LT, %l, %r : ({scalar}, {scalar}) -> tensor<i1>\n"
            f"    stablehlo.return %s : tensor<i1>\n  }}) : ({type_}) -> {type_}"
        )
        return result, shape

    def reduce(self, value: str, shape: Shape) -> tuple[str, Shape]:
        dim = self.random.randrange(len(shape))
        return self._reduced(value, shape, dim), shape[:dim] + shape[dim + 1 :]

    def softmax(self, value: str, shape: Shape) -> tuple[str, Shape]:
        """The quotient of each element and the sum along a dimension, broadcast as JAX does."""
        dim = self.random.randrange(len(shape))
        rest = shape[:dim] + shape[dim + 1 :]
        ones = (*shape[:dim], 1, *shape[dim + 1 :])
        total = self._reduced(value, shape, dim)
        dims = [each for each in range(len(shape)) if each != dim]
        total = self.op("broadcast_in_dim", total, rest, ones, f", dims = {dims}")
        every = list(range(len(shape)))
        total = self.op("broadcast_in_dim", total, ones, shape, f", dims = {every}")
        result = f"%v{len(self.lines)}"
        self.lines.append(f"{result} = stablehlo.subtract {value}, {total} : {type_of(shape)}")
        return result, shape

    def _reduced(self, value: str, shape: Shape, dim: int) -> str:
        zero, result = f"%v{len(self.lines)}", f"%v{len(self.lines) + 1}"
        kind, start = self.random.choice((("add", "0.0"), ("maximum", "0xFF800000")))
        after = shape[:dim] + shape[dim + 1 :]
        self.lines.append(f"{zero} = stablehlo.constant dense<{start}> : tensor<f32>")
        self.lines.append(
            f"{result} = stablehlo.reduce({value} init: {zero}) applies stablehlo.{kind} across "
            f"dimensions = [{dim}] : ({type_of(shape)}, tensor<f32>) -> {type_of(after)}"
        )
        return result
