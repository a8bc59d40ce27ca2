"""Loops that are fused compute what upstream's loops do, one op after the other.

Chains of `linalg.generic` at random: reductions along any dimension, innermost or not; several
results, one of which says whether another was written yet; transposed and repeated reads.
"""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.runtime.random_inputs import random_inputs
from shard_dialect.testing import reference_of
from tests.runtime.alone import run_on

SIZES = (2, 3, 5, 17)
COMBINERS = ("arith.addf", "arith.maximumf", "arith.minimumf", "arith.mulf")


class Nests:
    """A function under construction."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.sizes = [self.draw.choice(SIZES) for _ in range(3)]
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, ...]]] = []
        """Names, and for each dimension which of the three sizes it has."""
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def type(self, dims: Sequence[int], element: str = "f32") -> str:
        return f"tensor<{'x'.join([*(str(self.sizes[dim]) for dim in dims), element])}>"

    def generic(
        self,
        inputs: Sequence[tuple[str, Sequence[int]]],
        outputs: Sequence[tuple[str, Sequence[int], str]],
        loops: Sequence[int],
        body: str,
    ) -> str:
        """Over `loops`; each input and output by its name and the loops of its dimensions."""
        names = ", ".join(f"d{loop}" for loop in loops)
        maps = [
            f"affine_map<({names}) -> ({', '.join(f'd{dim}' for dim in dims)})>"
            for dims in (*(dims for _, dims in inputs), *(dims for _, dims, _ in outputs))
        ]
        kept = {dim for _, dims, _ in outputs for dim in dims}
        kinds = ", ".join('"parallel"' if each in kept else '"reduction"' for each in loops)
        name = self.fresh()
        types = [self.type(dims, element) for _, dims, element in outputs]
        several = f":{len(types)}" if len(types) > 1 else ""
        given = f"ins({', '.join(n for n, _ in inputs)} : " + (
            ", ".join(self.type(dims) for _, dims in inputs) + ")"
        )
        self.lines.append(
            f"{name}{several} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
            f"iterator_types = [{kinds}]}} {given} outs({', '.join(n for n, _, _ in outputs)} : "
            f"{', '.join(types)}) {{\n{body}\n}} -> ({', '.join(types)})"
        )
        return name

    def order(self, dims: Sequence[int]) -> list[int]:
        return self.draw.sample(list(dims), len(dims))

    def filled(self, dims: Sequence[int], constant: str, element: str) -> str:
        made = self.fresh()
        self.lines.append(
            f"{made}e = tensor.empty() : {self.type(dims, element)}\n"
            f"{made} = linalg.fill ins({constant} : {element}) outs({made}e : "
            f"{self.type(dims, element)}) -> {self.type(dims, element)}"
        )
        return made

    def elementwise(self) -> None:
        name, dims = self.draw.choice(self.values[-4:])
        out = self.order(dims)
        others = [each for each in self.values if set(each[1]) <= set(dims)]
        other = self.draw.choice(others)
        into = self.filled(out, "%zero", "f32")
        op = self.draw.choice(("arith.addf", "arith.subf", "arith.maximumf"))
        body = f"^bb0(%a: f32, %b: f32, %o: f32):\n%r = {op} %a, %b : f32\nlinalg.yield %r : f32"
        loops = self.order(dims)
        made = self.generic([(name, dims), other], [(into, out, "f32")], loops, body)
        self.values.append((made, tuple(out)))

    def reduction(self) -> None:
        name, dims = self.draw.choice([each for each in self.values if each[1]])
        out = [dim for dim in self.order(dims) if self.draw.random() < 0.5]
        op = self.draw.choice(COMBINERS)
        start = "%one" if op == "arith.mulf" else self.draw.choice(("%zero", "%one"))
        into = self.filled(out, start, "f32")
        body = f"^bb0(%a: f32, %o: f32):\n%r = {op} %a, %o : f32\nlinalg.yield %r : f32"
        made = self.generic([(name, dims)], [(into, out, "f32")], self.order(dims), body)
        self.values.append((made, tuple(out)))

    def search(self) -> None:
        """The first largest element and its place; nothing is in the former before."""
        name, dims = self.draw.choice([each for each in self.values if each[1]])
        loop = self.draw.choice(dims)
        out = [dim for dim in self.order(dims) if dim != loop]
        most, place = self.fresh(), self.filled(out, "%none", "i32")
        self.lines.append(f"{most} = tensor.empty() : {self.type(out)}")
        loops = self.order(dims)
        body = f"""^bb0(%a: f32, %o: f32, %p: i32):
          %more = arith.cmpf ogt, %a, %o : f32
          %first = arith.cmpi eq, %p, %none : i32
          %takes = arith.ori %more, %first : i1
          %n = linalg.index {loops.index(loop)} : index
          %here = arith.index_cast %n : index to i32
          %q = arith.select %takes, %here, %p : i32
          %m = arith.select %takes, %a, %o : f32
          linalg.yield %m, %q : f32, i32"""
        made = self.generic([(name, dims)], [(most, out, "f32"), (place, out, "i32")], loops, body)
        if self.draw.random() < 0.4:  # else nobody reads it but the search itself
            self.values.append((f"{made}#0", tuple(out)))
        as_float = self.fresh()
        self.lines.append(
            f"{as_float} = arith.sitofp {made}#1 : {self.type(out, 'i32')} to {self.type(out)}"
        )
        self.values.append((as_float, tuple(out)))

    def text(self) -> str:
        shapes = [(0, 1, 2), (1, 0), (2, 1)]
        self.values = [(f"%a{number}", dims) for number, dims in enumerate(shapes)]
        for _ in range(self.draw.randint(2, 7)):
            self.draw.choice((self.elementwise, self.reduction, self.search))()
        given = ", ".join(f"%a{n}: {self.type(dims)}" for n, dims in enumerate(shapes))
        results = self.values[3:][-4:]
        types = ", ".join(self.type(dims) for _, dims in results)
        lines = "\n".join(self.lines)
        return f"""func.func @main({given}) -> ({types}) {{
          %zero = arith.constant 0.0 : f32
          %one = arith.constant 1.0 : f32
          %none = arith.constant -1 : i32
          {lines}
          return {", ".join(name for name, _ in results)} : {types}
        }}"""


def whole_numbers(arrays: Sequence[Array]) -> list[Array]:
    """Small ones, many of them equal: sums and products are exact, and searches have ties."""
    return [np.round(each).astype(np.float32).clip(-1, 1) for each in arrays]


@pytest.mark.parametrize("seed", range(40))
def test_fused_loops_are_upstreams_loops(seed: int) -> None:
    text = Nests(seed).text()
    theirs = reference_of(text, "upstream")
    inputs = whole_numbers(random_inputs(theirs.arguments, seed))
    _, ours = run_on(text, inputs)
    for found, expected in zip(ours, theirs.run(inputs), strict=True):
        np.testing.assert_array_equal(found, expected, err_msg=text)
