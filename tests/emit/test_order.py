"""Sorts, and searches for the largest: NaNs, zeros of both signs, and what is equal."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.python.python_module import TARGETS
from shard_dialect.backends.python.writer import Target
from shard_dialect.errors import ShardError
from tests.emit.test_emit_python import Batch, batch, emit

pytestmark = pytest.mark.usefixtures("unoptimized")

__all__ = ["batch"]
NAN, INF = float("nan"), float("inf")
FLOATS = np.array(
    [
        [0.0, -0.0, NAN, 1.0, -NAN, -INF, 1.0, INF],
        [-0.0, 0.0, 3.0, 3.0, -0.0, 2.0, 0.0, 3.0],
        [-INF, -INF, -INF, -INF, -INF, -INF, -INF, -INF],
        [INF, NAN, -1.0, NAN, -1.0, -NAN, 0.0, INF],
    ]
)
NONZERO = np.where(FLOATS == 0, 0.5, FLOATS)
NUMBERS = np.where(np.isnan(FLOATS), 2.0, FLOATS)
INTS = np.array(
    [
        [3, -1, 3, 2, 2, 0, -1, 3],
        [-(2**31), 2**31 - 1, 0, -(2**31), 2**31 - 1, 5, 5, 5],
        [-(2**31)] * 8,
        [1, 0, 1, 0, 1, 1, 0, 0],
    ]
)
GRID = "shard.grid @g(shape = 2)\n"


def tensors(*elements: str) -> list[str]:
    return [f"tensor<4x8x{element}>" for element in elements]


# Searches


def searching(direction: str, element: str, kind: str) -> str:
    """The body that JAX writes."""
    a, i = f"tensor<{element}>", "tensor<i32>"
    return f"""
  ^bb0(%a: {a}, %i: {i}, %b: {a}, %j: {i}):
    %2 = stablehlo.compare {direction}, %a, %b, {kind} : ({a}, {a}) -> tensor<i1>
    %3 = stablehlo.compare NE, %a, %a, {kind} : ({a}, {a}) -> tensor<i1>
    %4 = stablehlo.or %2, %3 : tensor<i1>
    %5 = stablehlo.compare EQ, %a, %b, {kind} : ({a}, {a}) -> tensor<i1>
    %6 = stablehlo.compare LT, %i, %j, SIGNED : ({i}, {i}) -> tensor<i1>
    %7 = stablehlo.and %5, %6 : tensor<i1>
    %8 = stablehlo.or %4, %7 : tensor<i1>
    %9 = stablehlo.select %4, %a, %b : tensor<i1>, {a}
    %10 = stablehlo.select %8, %i, %j : tensor<i1>, {i}
    stablehlo.return %9, %10 : {a}, {i}
"""


def search(
    element: str, body: str, init: str, *, dim: int = 1, counted: int | None = None, first: int = 0
) -> str:
    x, places = tensors(element, "i32")
    size = (8, 4)[dim]
    made = f"tensor<{size}x{element}>, tensor<{size}xi32>"
    counted = dim if counted is None else counted
    return f"""
func.func @main(%x: {x} {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> ({made}) {{
  %places = stablehlo.iota dim = {counted} : {places}
  %init = stablehlo.constant dense<{init}> : tensor<{element}>
  %first = stablehlo.constant dense<{first}> : tensor<i32>
  %r:2 = "stablehlo.reduce"(%x, %places, %init, %first) ({{{body}
  }}) {{dimensions = array<i64: {dim}>}}
      : ({x}, {places}, tensor<{element}>, tensor<i32>) -> ({made})
  return %r#0, %r#1 : {made}
}}
"""


IN_ONE_ROW = """
func.func @main(%x: tensor<8xf32>) -> tensor<i32> {{
  %count = stablehlo.iota dim = 0 : tensor<8xi32>
  %places = stablehlo.broadcast_in_dim %count, dims = [1] : (tensor<8xi32>) -> tensor<1x8xi32>
  %row = stablehlo.reshape %x : (tensor<8xf32>) -> tensor<1x8xf32>
  %init = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = "stablehlo.reduce"(%row, %places, %init, %first) ({{{body}
  }}) {{dimensions = array<i64: 1>}}
      : (tensor<1x8xf32>, tensor<1x8xi32>, tensor<f32>, tensor<i32>)
      -> (tensor<1xf32>, tensor<1xi32>)
  %s = stablehlo.reshape %r#1 : (tensor<1xi32>) -> tensor<i32>
  return %s : tensor<i32>
}}
"""
LARGEST = searching("GT", "f32", "FLOAT")
SMALLEST = searching("LT", "f32", "FLOAT")

PLACES = np.array([[3, -2, 1, 9, 0, 4, -4, 7]] * 4, np.int32)
GIVEN_PLACES = (
    search("f32", LARGEST, "0xFF800000")
    .replace("main(", "main(%places: tensor<4x8xi32>, ")
    .replace("%places = stablehlo.iota dim = 1 : tensor<4x8xi32>", "")
)

SEARCHES: dict[str, tuple[Any, ...]] = {
    "largest": (search("f32", LARGEST, "0xFF800000"), FLOATS, "f4"),
    "smallest": (search("f32", SMALLEST, "0x7F800000"), NONZERO, "f4"),
    "the first of equal zeros": (
        search("f32", SMALLEST, "0x7F800000")
        .replace("-> (tensor<4xf32>, tensor<4xi32>) {\n", "-> tensor<4xi32> {\n")
        .replace("return %r#0, %r#1 : tensor<4xf32>, tensor<4xi32>", "return %r#1 : tensor<4xi32>"),
        FLOATS,
        "f4",
    ),
    "largest of each column": (search("f32", LARGEST, "0xFF800000", dim=0), FLOATS, "f4"),
    "place in the other dimension": (
        search("f32", LARGEST, "0xFF800000", counted=0), FLOATS, "f4",
    ),
    "places that are given": (GIVEN_PLACES, FLOATS, "f4", PLACES),
    "largest f64": (
        search("f64", searching("GT", "f64", "FLOAT"), "0xFFF0000000000000"), FLOATS, "f8",
    ),
    "largest integer": (
        search("i32", searching("GT", "i32", "SIGNED"), str(-(2**31))), INTS, "i4",
    ),
    "smallest integer": (
        search("i32", searching("LT", "i32", "SIGNED"), str(2**31 - 1)), INTS, "i4",
    ),
    "largest bit": (
        search("i1", searching("GT", "i1", "UNSIGNED"), "false"), INTS > 0, "?",
    ),
    "in one row": (IN_ONE_ROW.format(body=LARGEST), FLOATS[0], "f4"),
}  # fmt: skip


# Sorts


def canonical(x: str, element: str) -> str:
    """`%kx`: what JAX compares of `%x`."""
    t = f"tensor<{element}>"
    nan = {"f16": "0x7E00", "bf16": "0x7FC0", "f32": "0x7FC00000", "f64": "0x7FF8000000000000"}
    return f"""
    %z{x} = stablehlo.constant dense<0.0> : {t}
    %e{x} = stablehlo.compare EQ, %{x}, %z{x}, FLOAT : ({t}, {t}) -> tensor<i1>
    %s{x} = stablehlo.select %e{x}, %z{x}, %{x} : tensor<i1>, {t}
    %m{x} = stablehlo.compare NE, %{x}, %{x}, FLOAT : ({t}, {t}) -> tensor<i1>
    %n{x} = stablehlo.constant dense<{nan[element]}> : {t}
    %k{x} = stablehlo.select %m{x}, %n{x}, %s{x} : tensor<i1>, {t}"""


def comparing(how: str, a: str, b: str, element: str, result: str = "%r") -> str:
    t = f"tensor<{element}>"
    direction, _, kind = how.partition(" ")
    operands = f"{direction}, %{a}, %{b}" + (f", {kind}" if kind else "")
    return f"\n    {result} = stablehlo.compare {operands} : ({t}, {t}) -> tensor<i1>"


def sorting(elements: Sequence[str], body: str, dim: int = 1) -> str:
    types = tensors(*elements)
    given = ", ".join(
        f"%a{place}: {type_} {{mesh.sharding = #mesh.shard<@g, [[0]]>}}"
        for place, type_ in enumerate(types)
    )
    operands = ", ".join(f"%a{place}" for place in range(len(types)))
    arguments = ", ".join(
        f"%x{place}: tensor<{element}>, %y{place}: tensor<{element}>"
        for place, element in enumerate(elements)
    )
    results = ", ".join(f"%s#{place}" for place in range(len(types)))
    all_ = ", ".join(types)
    return f"""
func.func @main({given}) -> ({all_}) {{
  %s:{len(types)} = "stablehlo.sort"({operands}) ({{
  ^bb0({arguments}):{body}
    stablehlo.return %r : tensor<i1>
  }}) {{dimension = {dim} : i64, is_stable = true}} : ({all_}) -> ({all_})
  return {results} : {all_}
}}
"""


def jax(element: str, how: str = "LT TOTALORDER") -> str:
    keys = canonical("x0", element) + canonical("y0", element)
    return keys + comparing(how, "kx0", "ky0", element)


def first_then(less: str, equal: str, then: str) -> str:
    return f"""{less}{equal}{then}
    %both = stablehlo.and %equal, %then : tensor<i1>
    %r = stablehlo.or %less, %both : tensor<i1>"""


BY_TWO = first_then(
    canonical("x0", "f32") + canonical("y0", "f32")
    + comparing("LT TOTALORDER", "kx0", "ky0", "f32", "%less"),
    comparing("EQ TOTALORDER", "kx0", "ky0", "f32", "%equal"),
    comparing("LT SIGNED", "x1", "y1", "i32", "%then"),
)  # fmt: skip
BY_PLAIN_TWO = first_then(
    comparing("LT SIGNED", "y1", "x1", "i32", "%less"),
    comparing("EQ SIGNED", "y1", "x1", "i32", "%equal"),
    comparing("GT", "x0", "y0", "f32", "%then"),
)
COUNT = np.tile(np.arange(8), (4, 1))

SORTS: dict[str, tuple[str, list[tuple[Array, str]]]] = {
    "as JAX does": (sorting(["f32"], jax("f32")), [(FLOATS, "f4")]),
    "as JAX does, f64": (sorting(["f64"], jax("f64")), [(FLOATS, "f8")]),
    "places": (sorting(["f32", "i32"], jax("f32")), [(FLOATS, "f4"), (COUNT, "i4")]),
    "places in columns": (
        sorting(["f32", "i32"], jax("f32"), 0), [(FLOATS, "f4"), (COUNT, "i4")],
    ),
    "falling, NaNs first": (
        sorting(["f32", "i32"], jax("f32", "GT TOTALORDER")), [(FLOATS, "f4"), (COUNT, "i4")],
    ),
    "numbers": (sorting(["f32"], comparing("LT FLOAT", "x0", "y0", "f32")), [(NUMBERS, "f4")]),
    "numbers, falling": (
        sorting(["f32", "i32"], comparing("GT", "x0", "y0", "f32")),
        [(NUMBERS, "f4"), (COUNT, "i4")],
    ),
    "in the total order": (
        sorting(["f32", "i32"], comparing("LT TOTALORDER", "x0", "y0", "f32")),
        [(FLOATS, "f4"), (COUNT, "i4")],
    ),
    "in the total order, falling": (
        sorting(["f64", "i32"], comparing("GT TOTALORDER", "x0", "y0", "f64")),
        [(FLOATS, "f8"), (COUNT, "i4")],
    ),
    "in the total order, f16": (
        sorting(["f16", "i32"], comparing("LT TOTALORDER", "x0", "y0", "f16")),
        [(FLOATS, "f2"), (COUNT, "i4")],
    ),
    "integers": (sorting(["i32"], comparing("LT", "x0", "y0", "i32")), [(INTS, "i4")]),
    "integers, falling": (
        sorting(["f32", "i32"], comparing("GT SIGNED", "x1", "y1", "i32")),
        [(FLOATS, "f4"), (INTS, "i4")],
    ),
    "bits": (
        sorting(["i1", "i32"], comparing("LT", "x0", "y0", "i1")), [(INTS > 0, "?"), (COUNT, "i4")],
    ),
    "bits, falling": (
        sorting(["i1", "i32"], comparing("GT", "x0", "y0", "i1")), [(INTS > 0, "?"), (COUNT, "i4")],
    ),
    "by two keys": (
        sorting(["f32", "i32", "i32"], BY_TWO), [(FLOATS, "f4"), (INTS % 3, "i4"), (COUNT, "i4")],
    ),
    "by two keys, falling": (
        sorting(["f32", "i32", "i32"], BY_PLAIN_TWO),
        [(NUMBERS, "f4"), (INTS % 3, "i4"), (COUNT, "i4")],
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
def test_what_is_sorted_and_found(batch: Batch) -> None:
    for name, (text, x, dtype, *more) in SEARCHES.items():
        batch.add(name, GRID + text, inputs=[*more, x.astype(dtype)], is_exact=True)
    for name, (text, given) in SORTS.items():
        inputs = [x.astype(dtype) for x, dtype in given]
        batch.add(name, GRID + text, inputs=inputs, is_exact=True)
    assert len(batch) == len(SEARCHES) + len(SORTS), batch.refused
    batch.check()


OWN, COMPARED = (
    "its body combines elements by none of the known reductions",
    "compares elements in no known order",
)
GREATER = LARGEST.replace("GT", "GE")
SEARCHED = {
    "the last of equal ones": search("f32", GREATER, "0xFF800000"),
    "what equals itself": search("f32", LARGEST.replace("NE,", "EQ,"), "0xFF800000"),
    "the larger place": search("f32", LARGEST.replace("LT, %i", "GT, %i"), "0xFF800000"),
    "from zero": search("f32", LARGEST, "0.0"),
    "from a place": search("f32", LARGEST, "0xFF800000", first=3),
    "along two dimensions": (
        search("f32", LARGEST, "0xFF800000").replace("array<i64: 1>", "array<i64: 0, 1>")
        .replace("tensor<4xf32>", "tensor<f32>").replace("tensor<4xi32>", "tensor<i32>")
    ),
}  # fmt: skip
SORTED = {
    "with equality": sorting(["f32"], comparing("LE", "x0", "y0", "f32")),
    "unsigned": sorting(["i32"], comparing("LT UNSIGNED", "x0", "y0", "i32")),
    "of two operands": sorting(["f32", "f32"], comparing("LT", "x0", "y1", "f32")),
    "negative NaNs": sorting(["f32"], jax("f32").replace("0x7FC00000", "0xFFC00000")),
    "of one side": sorting(
        ["f32"], canonical("x0", "f32") + comparing("LT TOTALORDER", "kx0", "y0", "f32")
    ),
    "of magnitudes": sorting(
        ["f32"],
        "\n%a = stablehlo.abs %x0 : tensor<f32>\n%b = stablehlo.abs %y0 : tensor<f32>"
        + comparing("LT", "a", "b", "f32"),
    ),
    "where others are equal": sorting(
        ["f32", "i32", "f32"],
        BY_TWO.replace("EQ, %kx0, %ky0, TOTALORDER", "EQ, %x2, %y2, FLOAT"),
    ),
    "where they are not equal": sorting(["f32", "i32"], BY_TWO.replace("EQ, %kx0", "NE, %kx0")),
}


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
def test_other_searches_go_through_the_elements_in_order(batch: Batch) -> None:
    for name, text in SEARCHED.items():
        batch.add(name, GRID + text)
    assert not batch.refused
    batch.check()


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SORTED)
def test_bodies_that_are_refused(name: str, target: Target) -> None:
    with pytest.raises(ShardError, match=rf"-:\d+:\d+: error: .*{re.escape(COMPARED)}$"):
        emit(GRID + SORTED[name], target)
