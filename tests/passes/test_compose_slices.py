"""Random chains of slices, reversals, paddings, concatenations and the like, which compose.

What they mean is worked out by numpy while they are written. Some values are annotated, and some
are read twice.
"""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import shard_dialect as sd

pytestmark = pytest.mark.usefixtures("unoptimized")
Array = NDArray[np.float32]


def listed(**numbers: Sequence[int]) -> str:
    return ", ".join(f"{key} = array<i64: {str([*each])[1:-1]}>" for key, each in numbers.items())


def type_of(value: Array) -> str:
    return f"tensor<{''.join(f'{size}x' for size in value.shape)}f32>"


BRACKETS = str.maketrans("()", "[]")
NO_DIMENSIONS = "broadcast_dimensions = array<i64>"


class Chain:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.known: dict[str, Array] = {}
        shape = [self.rng.choice((1, 4, 8, 12)) for _ in range(self.rng.choice((1, 2)))]
        self.x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
        self.known["%x"] = self.x
        for _ in range(self.rng.randint(2, 7)):
            self.rng.choice(
                (
                    self.slice,
                    self.slice,
                    self.reverse,
                    self.reverse,
                    self.pad,
                    self.join,
                    self.compute,
                )
            )()
        if self.rng.random() < 0.3:
            self.update()
        names = list(self.known)
        self.results = [names[-1], self.rng.choice(names)]

    def add(self, op: str, operands: list[str], value: Array, attributes: str = "") -> None:
        name = f"%{len(self.lines)}"
        scalars = {"%fill": "tensor<f32>", "%zero": "tensor<i32>"}
        types = ", ".join(scalars.get(each) or type_of(self.known[each]) for each in operands)
        note = self.annotation(value) if self.rng.random() < 0.15 else ""
        attributes = ", ".join(each for each in (attributes, note) if each)
        self.lines.append(
            f'{name} = "stablehlo.{op}"({", ".join(operands)}) {{{attributes}}} : '
            f"({types}) -> {type_of(value)}"
        )
        self.known[name] = value

    def annotation(self, value: Array) -> str:
        dims = [[0] if size % 4 == 0 else [] for size in value.shape]
        if sum(map(len, dims)) == 2:
            dims[self.rng.randrange(2)] = []
        return f"mesh.shardings = [#mesh.shard<@g, {dims}>]"

    def pick(self) -> tuple[str, Array]:
        return self.rng.choice(list(self.known.items())[-3:])

    def slice(self) -> None:
        name, value = self.pick()
        cuts = []
        for size in value.shape:
            start = self.rng.randrange(size) if self.rng.random() < 0.6 else 0
            end = self.rng.randint(start + 1, size) if self.rng.random() < 0.6 else size
            cuts.append((start, end, self.rng.choice((1, 1, 1, 2, 3))))
        self.cut(name, cuts)

    def cut(self, name: str, cuts: Sequence[tuple[int, int, int]]) -> str:
        starts, limits, strides = zip(*cuts, strict=True)
        value = self.known[name][tuple(slice(*each) for each in cuts)]
        bounds = listed(start_indices=starts, limit_indices=limits, strides=strides)
        self.add("slice", [name], value, bounds)
        return list(self.known)[-1]

    def reverse(self) -> None:
        name, value = self.pick()
        dims = sorted(self.rng.sample(range(value.ndim), self.rng.randint(1, value.ndim)))
        self.add("reverse", [name], np.flip(value, dims), listed(dimensions=dims))

    def pad(self) -> None:
        name, value = self.pick()
        lows, highs, between = [], [], []
        for size in value.shape:
            lows.append(self.rng.choice((0, 0, 1, 3, -1 if size > 2 else 0)))
            highs.append(self.rng.choice((0, 0, 2, -1 if size > 2 else 0)))
            between.append(self.rng.choice((0, 0, 0, 1)))
        grown = np.full([n + (n - 1) * b for n, b in zip(value.shape, between, strict=True)], 2.5)
        grown[tuple(slice(None, None, b + 1) for b in between)] = value
        edges = [(max(low, 0), max(high, 0)) for low, high in zip(lows, highs, strict=True)]
        padded = np.pad(grown, edges, constant_values=2.5)
        crops = [
            slice(max(-low, 0), size - max(-high, 0))
            for low, high, size in zip(lows, highs, padded.shape, strict=True)
        ]
        self.add(
            "pad",
            [name, "%fill"],
            padded[tuple(crops)].astype(np.float32),
            listed(edge_padding_low=lows, edge_padding_high=highs, interior_padding=between),
        )

    def join(self) -> None:
        name, value = self.pick()
        dim = self.rng.randrange(value.ndim)
        other = self.rng.choice((name, self.pick()[0]))
        fits = [n for d, n in enumerate(self.known[other].shape) if d != dim] == [
            n for d, n in enumerate(value.shape) if d != dim
        ]
        operands = [name, other] if fits else [name, name]
        if self.rng.random() < 0.4 and value.shape[dim] > 1:  # neighbours, or a roll
            at = self.rng.randrange(1, value.shape[dim])
            operands = []
            halves = [(0, at, 1), (at, value.shape[dim], 1)]
            for half in halves if self.rng.random() < 0.5 else halves[::-1]:
                whole = [(0, size, 1) for size in value.shape]
                operands.append(self.cut(name, [*whole[:dim], half, *whole[dim + 1 :]]))
        joined = np.concatenate([self.known[each] for each in operands], dim)
        if joined.size < 400:
            self.add("concatenate", operands, joined, f"dimension = {dim} : i64")

    def compute(self) -> None:
        """Of one value, of two of a shape, or of one and a constant."""
        name, value = self.pick()
        other = self.rng.choice(list(self.known))
        if self.rng.random() < 0.3:
            self.add("negate", [name], -value)
        elif self.known[other].shape == value.shape:
            self.add("maximum", [name, other], np.maximum(value, self.known[other]))
        else:
            self.add("broadcast_in_dim", ["%fill"], np.full_like(value, 2.5), NO_DIMENSIONS)
            self.add("subtract", [name, list(self.known)[-1]], value - np.float32(2.5))

    def window(self) -> None:
        """Sums of neighbours."""
        name, value = self.pick()
        spans = [self.rng.randint(1, min(3, size)) for size in value.shape]
        strides = [self.rng.choice((1, 1, 2)) for _ in spans]
        ends = [(self.rng.randrange(span), self.rng.randrange(span)) for span in spans]
        views = np.lib.stride_tricks.sliding_window_view(np.pad(value, ends), spans)
        sums = views.sum(tuple(range(value.ndim, 2 * value.ndim)))
        total = sums[tuple(slice(None, None, stride) for stride in strides)]
        types = f"({type_of(value)}, tensor<f32>) -> {type_of(total)}"
        attributes = listed(window_dimensions=spans, window_strides=strides)
        self.lines.append(
            f'%{len(self.lines)} = "stablehlo.reduce_window"({name}, %none) <{{{attributes}, '
            f"padding = dense<{str(ends).translate(BRACKETS)}> : tensor<{len(ends)}x2xi64>}}> ({{\n"
            "  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
            "    %c = stablehlo.add %a, %b : tensor<f32>\n"
            f"    stablehlo.return %c : tensor<f32>\n  }}) : {types}"
        )
        self.known[f"%{len(self.lines) - 1}"] = total.astype(np.float32)

    def update(self) -> None:
        name, value = self.pick()
        self.add("negate", [name], -value)
        operands = [name, list(self.known)[-1], *["%zero"] * value.ndim]
        self.add("dynamic_update_slice", operands, -value)

    def text(self) -> str:
        types = ", ".join(type_of(self.known[each]) for each in self.results)
        constants = [
            "%fill = stablehlo.constant dense<2.5> : tensor<f32>",
            "%zero = stablehlo.constant dense<0> : tensor<i32>",
            "%none = stablehlo.constant dense<0.0> : tensor<f32>",
        ]
        lines = "\n  ".join([*constants, *self.lines])
        note = self.annotation(self.x).replace("shardings = [", "sharding = ")[:-1]
        return (
            "shard.grid @g(shape = 4)\n"
            f"func.func @main(%x: {type_of(self.x)} {{{note}}}) -> ({types}) {{\n"
            f"  {lines}\n  return {', '.join(self.results)} : {types}\n}}"
        )


@pytest.mark.parametrize("seed", range(48))
def test_a_chain_is_what_numpy_makes_of_it(seed: int) -> None:
    chain = Chain(seed)
    found = sd.compile(sd.parse(chain.text()))(chain.x)
    for name, value in zip(chain.results, found, strict=True):
        np.testing.assert_array_equal(value, chain.known[name], chain.text())


@pytest.mark.parametrize("seed", range(48))
def test_annotations_stay(seed: int) -> None:
    text = Chain(seed).text()
    module = sd.parse(text)
    sd.run_pipeline(module, "compose-slices")
    assert str(module).count("mesh.shardings") == text.count("mesh.shardings")
