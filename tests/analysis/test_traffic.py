"""What an op moves to and from the memory, where some of it stays on the chip."""

from collections import Counter

import pytest

import shard_dialect as sd
from shard_dialect.analysis.costs.local_program import read_program
from shard_dialect.analysis.costs.traffic import traffic_of

T, ROWS, ONE = "tensor<16x16xf32>", "tensor<16xf32>", "tensor<f32>"
ALONG = f"across dimensions = [1] : ({T}, {ONE}) -> {ROWS}"
SOFTMAX = f"""
func.func @main(%x: {T}) -> {T} {{
  %m = stablehlo.constant dense<0xFF800000> : {ONE}
  %z = stablehlo.constant dense<0.0> : {ONE}
  %0 = stablehlo.reduce(%x init: %m) applies stablehlo.maximum {ALONG}
  %1 = stablehlo.broadcast_in_dim %0, dims = [0] : ({ROWS}) -> {T}
  %2 = stablehlo.subtract %x, %1 : {T}
  %3 = stablehlo.exponential %2 : {T}
  %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add {ALONG}
  %5 = stablehlo.broadcast_in_dim %4, dims = [0] : ({ROWS}) -> {T}
  %6 = stablehlo.divide %3, %5 : {T}
  return %6 : {T}
}}
"""
SQUARE = f"stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({T}, {T}) -> {T}"
PRODUCTS = f"""
func.func @main(%x: {T}) -> {T} {{
  %0 = {SQUARE}
  %1 = call @again(%0) : ({T}) -> {T}
  return %1 : {T}
}}
func.func private @again(%x: {T}) -> {T} {{
  %0 = {SQUARE}
  return %0 : {T}
}}
"""


def moved(text: str, cache_bytes: int) -> Counter[str]:
    """The bytes that the ops of each name move."""
    module = sd.parse(text)
    with module.context:
        program = read_program(module.operation, "main")
    of = traffic_of(program, cache_bytes)
    found: Counter[str] = Counter()
    for op, _, _ in program.walk():
        found[op.name.removeprefix("stablehlo.")] += of.get(id(op), 0)
    return +found


def test_without_a_cache_all_that_is_stored_moves() -> None:
    assert moved(PRODUCTS, 0) == {"dot_general": 2 * 2048}
    assert moved(SOFTMAX, 0)["exponential"] == 1024  # what two ops read is stored


@pytest.mark.parametrize(("cache_bytes", "expected"), [(1023, 4096), (2048, 2048)])
def test_a_result_stays_on_the_chip_until_it_is_read(cache_bytes: int, expected: int) -> None:
    """%x is read and the last product is written; what is between is in a called function."""
    assert moved(PRODUCTS, cache_bytes)["dot_general"] == expected


def test_a_row_is_kept_until_it_is_divided() -> None:
    found = moved(SOFTMAX, 4096)
    assert found["exponential"] == 0
    assert sum(found.values()) <= 2 * 1024 + 256  # read once, written once


def test_a_cache_never_adds_traffic() -> None:
    for text in (SOFTMAX, PRODUCTS):
        totals = [sum(moved(text, size).values()) for size in (0, 1, 1024, 4096, 1 << 20)]
        assert totals == sorted(totals, reverse=True)
