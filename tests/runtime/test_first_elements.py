"""Sorts of which only the first elements are read, as of `top_k`, keep no others in order."""

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir.bindings import ir

SORT = """
func.func @main(%x: tensor<{shape}xf32>) -> (tensor<{of_values}xf32>, tensor<{of_places}xi32>) {{
  %places = stablehlo.iota dim = {dim} : tensor<{shape}xi32>
  %0:2 = "stablehlo.sort"(%x, %places) ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }}) {{dimension = {dim} : i64, is_stable = true}}
    : (tensor<{shape}xf32>, tensor<{shape}xi32>) -> (tensor<{shape}xf32>, tensor<{shape}xi32>)
  %1 = stablehlo.slice %0#0 [{values}] : (tensor<{shape}xf32>) -> tensor<{of_values}xf32>
  %2 = stablehlo.slice %0#1 [{places}] : (tensor<{shape}xi32>) -> tensor<{of_places}xi32>
  return %1, %2 : tensor<{of_values}xf32>, tensor<{of_places}xi32>
}}
"""
TOP_K = """
func.func @main(%x: tensor<6x{size}xf32>) -> (tensor<6x{k}xf32>, tensor<6x{k}xi32>) {{
  %0:2 = chlo.top_k(%x, k = {k}) : tensor<6x{size}xf32> -> (tensor<6x{k}xf32>, tensor<6x{k}xi32>)
  return %0#0, %0#1 : tensor<6x{k}xf32>, tensor<6x{k}xi32>
}}
"""


def by(sizes: tuple[int, ...]) -> str:
    return "x".join(map(str, sizes))


def sort_of(shape: tuple[int, ...], dim: int, values: slice, places: slice) -> str:
    ranges = [
        [(each.start, each.stop) if at == dim else (0, size) for at, size in enumerate(shape)]
        for each in (values, places)
    ]
    texts = [", ".join(f"{begin}:{end}" for begin, end in each) for each in ranges]
    sizes = [by(tuple(end - begin for begin, end in each)) for each in ranges]
    return SORT.format(
        shape=by(shape),
        dim=dim,
        values=texts[0],
        places=texts[1],
        of_values=sizes[0],
        of_places=sizes[1],
    )


def check(shape: tuple[int, ...], dim: int, values: slice, places: slice, seed: int) -> ir.Module:
    random = np.random.default_rng(seed)
    x = random.integers(0, 9, shape).astype(np.float32)  # many are equal
    order = np.argsort(x, axis=dim, kind="stable")
    module = sd.parse(sort_of(shape, dim, values, places))
    first, second = sd.run(module, x)
    cut = [slice(None)] * len(shape)
    np.testing.assert_array_equal(
        first, np.take_along_axis(x, order, dim)[(*cut[:dim], values, *cut[dim + 1 :])]
    )
    np.testing.assert_array_equal(second, order[(*cut[:dim], places, *cut[dim + 1 :])])
    return module


@pytest.mark.parametrize("seed", range(24))
def test_first_elements_in_the_order_of_the_operand(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = tuple(map(int, random.integers(1, 5, 3)))
    dim = int(random.integers(3))
    size = int(random.integers(4, 60))
    shape = (*shape[:dim], size, *shape[dim + 1 :])
    counts = random.integers(1, size // 4 + 1, 2)
    check(shape, dim, slice(0, int(counts[0])), slice(0, int(counts[1])), seed)


@pytest.mark.parametrize(
    ("values", "places"),
    [(slice(0, 3), slice(1, 4)), (slice(0, 3), slice(0, 40)), (slice(37, 40), slice(0, 2))],
)
def test_others_are_read_too(values: slice, places: slice) -> None:
    check((3, 40), 1, values, places, 7)


def test_only_first_elements_are_stored() -> None:
    module = check((2, 4096), 1, slice(0, 5), slice(0, 8), 3)
    lowered = str(sd.run_pipeline(module, "lower"))
    assert "memref<8xf32>" in lowered
    assert "memref<2x8xf32>" in lowered


@pytest.mark.parametrize(("size", "k"), [(8, 2), (8, 1), (40, 10), (300, 64), (300, 65), (16, 16)])
def test_top_k(size: int, k: int) -> None:
    x = np.random.default_rng(size + k).integers(-20, 20, (6, size)).astype(np.float32)
    x[0, :] = np.arange(size)  # each goes before all that are kept
    x[1, ::3] = -np.inf
    x[2, ::2] = -0.0
    values, places = sd.run(sd.parse(TOP_K.format(size=size, k=k)), x)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    rows = [0, 1, 3, 4, 5]  # which order 0 and -0 have is XLA's
    np.testing.assert_array_equal(places[rows], order[rows])
