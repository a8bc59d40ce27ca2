"""The first elements of a sort along a split dimension: shards are sorted, then their first ones.

The integers are few, so that most are equal to others, and a stable sort keeps their order. So do
choices of the largest element by other comparisons than JAX's.
"""

import pytest

import shard_dialect as sd
from tests.extras import needs


def sorted_text(first: int, columns: int, split: str) -> str:
    x, y = f"tensor<4x{columns}xi32>", f"tensor<4x{first}xi32>"
    return f"""
    shard.grid @g(shape = 2x2)
    func.func @main(%x: {x} {{mesh.sharding = #mesh.shard<@g, {split}>}}) -> ({y}, {y}) {{
      %i = stablehlo.iota dim = 1 : {x}
      %s:2 = "stablehlo.sort"(%x, %i) <{{dimension = 1 : i64, is_stable = true}}> ({{
      ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
        %p = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) : ({x}, {x}) -> ({x}, {x})
      %v = stablehlo.slice %s#0 [0:4, 0:{first}] : ({x}) -> {y}
      %w = stablehlo.slice %s#1 [0:4, 0:{first}] : ({x}) -> {y}
      return %v, %w : {y}, {y}
    }}"""


@needs("jax")
@pytest.mark.parametrize(
    ("first", "columns", "split", "moved"),
    [
        (3, 64, "[[], [0, 1]]", 3 * 2 * 4 * 3 * 4),
        (3, 64, "[[], [1]]", 1 * 2 * 4 * 3 * 4),
        (40, 64, "[[], [0, 1]]", None),
        (3, 30, "[[], [0, 1]]", None),
        (2, 64, "[[0], [1]]", None),
    ],
)
def test_first_of_sorts(first: int, columns: int, split: str, moved: int | None) -> None:
    compiled = sd.compile(sd.parse(sorted_text(first, columns, split)))
    assert compiled.check().passed
    if moved is not None:
        assert compiled.report.bytes_moved <= moved


@needs("jax")
@pytest.mark.parametrize("order", ["GT", "GE", "LT", "LE"])
def test_choices(order: str) -> None:
    """Which of equal elements is found tells the place."""
    x, y, e = "tensor<4x32xi32>", "tensor<4xi32>", "tensor<i32>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {x} {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}}) -> ({y}, {y}) {{
      %i = stablehlo.iota dim = 1 : {x}
      %worst = stablehlo.constant dense<{"-9" if order[0] == "G" else "9"}> : {e}
      %zero = stablehlo.constant dense<0> : {e}
      %r:2 = stablehlo.reduce(%x init: %worst), (%i init: %zero) across dimensions = [1]
          : ({x}, {x}, {e}, {e}) -> ({y}, {y})
       reducer(%a: {e}, %b: {e}) (%j: {e}, %k: {e}) {{
        %p = stablehlo.compare {order}, %a, %b : ({e}, {e}) -> tensor<i1>
        %v = stablehlo.select %p, %a, %b : tensor<i1>, {e}
        %w = stablehlo.select %p, %j, %k : tensor<i1>, {e}
        stablehlo.return %v, %w : {e}, {e}
      }}
      return %r#0, %r#1 : {y}, {y}
    }}"""
    compiled = sd.compile(sd.parse(text))
    assert compiled.check().passed
    assert compiled.report.bytes_moved < 4 * 32 * 4


@needs("jax")
@pytest.mark.parametrize("dimension", ["", "dimension = -1 : i64, ", "dimension = 1 : i64, "])
def test_a_sort_may_leave_its_dimension_out_or_count_it_from_the_last(dimension: str) -> None:
    """Of a tensor whose merged dimension is taken apart, and in a report."""
    x = "tensor<4x6xf32>"
    program = sd.compile(
        sd.parse(f"""
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<2x2x6xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0], []]>}}) -> {x} {{
      %y = stablehlo.reshape %x : (tensor<2x2x6xf32>) -> {x}
      %0 = "stablehlo.sort"(%y) <{{{dimension}is_stable = true}}> ({{
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }}) : ({x}) -> {x}
      return %0 : {x}
    }}""")  # noqa: E501
    )
    assert program.check().passed
    assert "stablehlo.sort" in str(sd.report(sd.parse(program.text("distributed"))))
