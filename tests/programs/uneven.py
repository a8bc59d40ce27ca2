"""Random straight StableHLO programs, some of whose values are said to lie unevenly."""

from __future__ import annotations

import random

SIZES = (1, 2, 3, 5, 6, 7)
GRIDS = ((4,), (2, 2), (2, 3), (8,))

Shape = tuple[int, ...]


class UnevenProgram:
    """A function of three arguments, as text."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.grid = self.rng.choice(GRIDS)
        self.lines: list[str] = []
        self.arguments = [self._any_shape() for _ in range(3)]
        self.shapes = list(self.arguments)
        for place in range(3):
            if self.rng.random() < 0.7:
                self._say(place, 0)
        ops = [
            self._elementwise,
            self._transpose,
            self._broadcast,
            self._reduce,
            self._dot,
            self._slice,
            self._concatenate,
            self._merge,
            self._say,
        ]
        for _ in range(self.rng.randrange(3, 9)):
            value = self.rng.randrange(len(self.shapes))
            self.rng.choice(ops)(value, self.rng.randrange(len(self.shapes[value])))

    def _any_shape(self) -> Shape:
        return tuple(self.rng.choice(SIZES) for _ in range(self.rng.choice([1, 2, 2, 3])))

    def _type(self, value: int) -> str:
        return f"tensor<{'x'.join(map(str, self.shapes[value]))}xf64>"

    def _emit(self, text: str, *operands: int, shape: Shape, init: bool = False) -> None:
        types = ", ".join([*map(self._type, operands), *["tensor<f64>"] * init])
        self.shapes.append(shape)
        result = len(self.shapes) - 1
        self.lines.append(f"%v{result} = {text} : ({types}) -> {self._type(result)}")

    def _alike(self, value: int) -> int:
        shape = self.shapes[value]
        return self.rng.choice([at for at, each in enumerate(self.shapes) if each == shape])

    def _say(self, value: int, _: int) -> None:
        split: list[list[int]] = [[] for _ in self.shapes[value]]
        for axis in self.rng.sample(range(len(self.grid)), len(self.grid)):
            if self.rng.random() < 0.7:
                self.rng.choice(split).append(axis)
        self._emit(
            f'"mesh.annotate"(%v{value}) {{sharding = #mesh.shard<@g, {split}>, '
            "required = true, as_result = false}",
            value,
            shape=self.shapes[value],
        )

    def _elementwise(self, value: int, _: int) -> None:
        name, other = self.rng.choice(["add", "maximum"]), self._alike(value)
        text = f'"stablehlo.{name}"(%v{value}, %v{other})'
        self._emit(text, value, other, shape=self.shapes[value])

    def _transpose(self, value: int, _: int) -> None:
        shape = self.shapes[value]
        order = self.rng.sample(range(len(shape)), len(shape))
        made = tuple(shape[each] for each in order)
        self._emit(f"stablehlo.transpose %v{value}, dims = {order}", value, shape=made)

    def _broadcast(self, value: int, dim: int) -> None:
        made = list(self.shapes[value])
        if len(made) < 3:
            made.insert(dim, self.rng.choice(SIZES))
            dims = [each for each in range(len(made)) if each != dim]
            text = f"stablehlo.broadcast_in_dim %v{value}, dims = {dims}"
            self._emit(text, value, shape=tuple(made))

    def _reduce(self, value: int, dim: int) -> None:
        shape = self.shapes[value]
        if len(shape) > 1:
            name, init = self.rng.choice([("add", "%zero"), ("maximum", "%low")])
            text = f"stablehlo.reduce(%v{value} init: {init}) applies stablehlo.{name} across "
            text += f"dimensions = [{dim}]"
            self._emit(text, value, shape=shape[:dim] + shape[dim + 1 :], init=True)

    def _dot(self, value: int, dim: int) -> None:
        shape = self.shapes[value]
        fit = [
            (other, at)
            for other, each in enumerate(self.shapes)
            for at, size in enumerate(each)
            if size == shape[dim] and 2 < len(each) + len(shape) < 6
        ]
        if fit:
            other, at = self.rng.choice(fit)
            there = self.shapes[other]
            text = (
                f"stablehlo.dot_general %v{value}, %v{other}, contracting_dims = [{dim}] x [{at}]"
            )
            made = shape[:dim] + shape[dim + 1 :] + there[:at] + there[at + 1 :]
            self._emit(text, value, other, shape=made)

    def _slice(self, value: int, dim: int) -> None:
        shape = self.shapes[value]
        taken = [(0, size) for size in shape]
        start = self.rng.randrange(shape[dim])
        taken[dim] = (start, self.rng.randrange(start, shape[dim]) + 1)
        text = ", ".join(f"{low}:{high}" for low, high in taken)
        made = tuple(high - low for low, high in taken)
        self._emit(f"stablehlo.slice %v{value} [{text}]", value, shape=made)

    def _concatenate(self, value: int, dim: int) -> None:
        shape, other = self.shapes[value], self._alike(value)
        if shape[dim] < 4:
            text = f"stablehlo.concatenate %v{value}, %v{other}, dim = {dim}"
            made = (*shape[:dim], 2 * shape[dim], *shape[dim + 1 :])
            self._emit(text, value, other, shape=made)

    def _merge(self, value: int, dim: int) -> None:
        shape = self.shapes[value]
        if dim + 1 < len(shape):
            made = (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])
            self._emit(f"stablehlo.reshape %v{value}", value, shape=made)

    def __str__(self) -> str:
        last = len(self.shapes) - 1
        given = ", ".join(f"%v{place}: {self._type(place)}" for place in range(3))
        return "\n".join(
            [
                f"shard.grid @g(shape = {'x'.join(map(str, self.grid))})",
                f"func.func @main({given}) -> {self._type(last)} {{",
                "%zero = stablehlo.constant dense<0.0> : tensor<f64>",
                "%low = stablehlo.constant dense<-1.0e300> : tensor<f64>",
                *self.lines,
                f"return %v{last} : {self._type(last)}",
                "}",
            ]
        )
