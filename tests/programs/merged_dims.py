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
