"""Convolutions as products of matrices: in every layout, and however many loops stay outside."""

import random
import re
from functools import cache

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.cpu import convolutions
from tests.runtime.alone import compiled, run_on

LETTERS = {"f32": 1e-4, "f64": 1e-12}


class Drawn:
    """`result[n, f, h, w] += image[n, c, h s + kh d, w s + kw d] * kernel[f, c, kh, kw]`.

    In three orders of dimensions; `roles` exchange the kernel and the result, as gradients do.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.element = rng.choice(["f32", "f64"])
        count = rng.choice([1, 1, 2, 2, 3])
        rows = [f"h{place}" for place in range(count)]
        taps = [f"k{place}" for place in range(count)]
        self.sizes = {"n": rng.choice([1, 2]), "c": rng.choice([1, 3, 8]), "f": rng.choice([8, 9])}
        self.sizes |= {each: rng.choice([1, 2, 5, 9]) for each in rows}
        self.sizes |= {each: rng.choice([1, 2, 3]) for each in taps}
        reads = [{"n": 1}, {"c": 1}]
        reads += [
            {row: rng.choice([1, 1, 2]), tap: rng.choice([1, 1, 2])}
            for row, tap in zip(rows, taps, strict=True)
        ]
        kernel, result = ["f", "c", *taps], ["n", "f", *rows]
        for each in (reads, kernel, result):
            rng.shuffle(each)
        if rng.random() < 0.4:
            kernel, result = result, kernel
        self.reads, self.kernel, self.result = reads, kernel, result
        self.loops = sorted(self.sizes)
        rng.shuffle(self.loops)
        self.from_zeros = rng.random() < 0.5

    @property
    def image_shape(self) -> list[int]:
        return [
            1 + sum((self.sizes[loop] - 1) * factor for loop, factor in terms.items())
            for terms in self.reads
        ]

    def text(self) -> str:
        shapes = [
            self.image_shape,
            [self.sizes[loop] for loop in self.kernel],
            [self.sizes[loop] for loop in self.result],
        ]
        x, w, y = (f"tensor<{'x'.join([*map(str, shape), self.element])}>" for shape in shapes)
        read = [" + ".join(f"{loop} * {n}" for loop, n in terms.items()) for terms in self.reads]
        loops = ", ".join(self.loops)
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(each)})>"
            for each in (read, self.kernel, self.result)
        )
        kinds = ", ".join(
            f'"{"parallel" if loop in self.result else "reduction"}"' for loop in self.loops
        )
        start = (
            f"%zero = arith.constant 0.0 : {self.element} %e = tensor.empty() : {y} "
            f"%s = linalg.fill ins(%zero : {self.element}) outs(%e : {y}) -> {y}"
        )
        begun = "%s" if self.from_zeros else "%y"
        return f"""
        func.func @main(%x: {x}, %w: {w}, %y: {y}) -> {y} {{
          {start if self.from_zeros else ""}
          %0 = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
            ins(%x, %w : {x}, {w}) outs({begun} : {y}) {{
          ^bb0(%a: {self.element}, %b: {self.element}, %c: {self.element}):
            %p = arith.mulf %a, %b : {self.element}
            %q = arith.addf %c, %p : {self.element}
            linalg.yield %q : {self.element}
          }} -> {y}
          return %0 : {y}
        }}"""


@cache
def by_loops(seed: int) -> tuple[list[Array], Array]:
    """What is given, and what loops make of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convolutions, "read", lambda op: None)
        given, (expected,) = run_on(Drawn(seed).text())
    return given, expected


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("largest", [1, 512, 1 << 17])
def test_convolutions(monkeypatch: pytest.MonkeyPatch, seed: int, largest: int) -> None:
    drawn = Drawn(seed)
    given, expected = by_loops(seed)
    monkeypatch.setattr(convolutions, "_LARGEST", largest)
    for name in ("_FEWEST", "_FEWEST_ROWS", "_SHORTEST_ROW"):
        monkeypatch.setattr(convolutions, name, 1)
    _, (found,) = run_on(drawn.text(), given)
    tolerance = LETTERS[drawn.element]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_most_are_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above compares a way with another one, not with itself."""
    written = []
    monkeypatch.setattr(convolutions, "_FEWEST", 1)
    write = convolutions._write
    monkeypatch.setattr(
        convolutions, "_write", lambda c, gemm, adds: (written.append(c), write(c, gemm, adds))
    )
    for seed in range(40):
        compiled(Drawn(seed).text())
    assert len(written) > 30


def test_what_has_a_loop_in_all_three_is_loops() -> None:
    text = """
    func.func @main(%x: tensor<1x10x10x8xf32>, %w: tensor<3x3x8xf32>) -> tensor<1x8x8x8xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x8x8x8xf32>
      %s = linalg.fill ins(%zero : f32) outs(%e : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
      %0 = linalg.depthwise_conv_2d_nhwc_hwc ins(%x, %w : tensor<1x10x10x8xf32>, tensor<3x3x8xf32>)
        outs(%s : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
      return %0 : tensor<1x8x8x8xf32>
    }"""
    (x, w), (found,) = run_on(text)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    np.testing.assert_allclose(
        found, np.einsum("nhwcij,ijc->nhwc", windows, w), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("seed", range(20))
def test_transposed_operands_are_not_copied(seed: int) -> None:
    torch = pytest.importorskip("torch")
    rng = random.Random(seed)
    rank, groups = rng.choice([1, 2]), rng.choice([1, 1, 2])
    letters = ["0", "1"][:rank]
    taps, stride, pad, dilation = ([rng.randint(1, 3) for _ in range(rank)] for _ in range(4))
    taps, pad = [k + 1 for k in taps], [rng.choice([0, each]) for each in pad]
    shapes = [2, 4 * groups, *(rng.randint(12, 14) for _ in taps)], [8 * groups, 4, *taps]
    names = ["b", "f", *letters], ["o", "i", *letters]
    values = [np.random.default_rng(seed).random(shape, np.float32) for shape in shapes]
    expected = getattr(torch.nn.functional, f"conv{rank}d")(
        *map(torch.from_numpy, values), None, stride, pad, dilation, groups
    ).numpy()
    given, lines, of = [], [], []
    for number, (value, labels) in enumerate(zip(values, names, strict=True)):
        order = [*range(value.ndim)]
        rng.shuffle(order)
        turned = np.ascontiguousarray(value.transpose(order))
        given.append(turned)
        back = [*range(value.ndim)]
        rng.shuffle(back)
        now = turned.transpose(back)
        lines.append(
            f"%t{number} = stablehlo.transpose %x{number}, dims = {back} : "
            f"({_type(turned)}) -> {_type(now)}"
        )
        of.append(f"[{', '.join(labels[order[dim]] for dim in back)}]")
    result = f"[b, f, {', '.join(letters)}]"
    text = f"""
    func.func @main(%x0: {_type(given[0])}, %x1: {_type(given[1])}) -> {_type(expected)} {{
      {lines[0]}
      {lines[1]}
      %y = stablehlo.convolution(%t0, %t1) dim_numbers = {of[0]}x{of[1]}->{result},
        window = {{stride = {stride}, pad = {[[each, each] for each in pad]},
                  rhs_dilate = {dilation}}}
        {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
        : ({", ".join(re.findall(r"-> (.*)", line)[0] for line in lines)}) -> {_type(expected)}
      return %y : {_type(expected)}
    }}"""
    _, (found,) = run_on(text, given)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    module = sd.parse(text)
    sd.run_pipeline(module, "lower")
    assert str(module).count("linalg.generic") == 1


def _type(value: Array) -> str:
    return f"tensor<{'x'.join(map(str, value.shape))}xf32>"
