"""Custom calls that find the largest elements run on devices; each searches its shard first."""

import numpy as np
import pytest

import shard_dialect as sd

X, V, P = "tensor<4x64xf32>", "tensor<4x3xf32>", "tensor<4x3xi32>"
SPLIT = "{mesh.sharding = #mesh.shard<@g, [[], [0]]>}"
CALLS = {
    "mhlo.topk": f"""
      %v, %p = stablehlo.custom_call @mhlo.topk(%x)
          {{mhlo.attributes = {{k = 3 : i64, largest = true}}}} : ({X}) -> ({V}, {P})""",
    "smallest": f"""
      %v, %p = stablehlo.custom_call @mhlo.topk(%x)
          {{mhlo.attributes = {{k = 3 : i64, largest = false}}}} : ({X}) -> ({V}, {P})""",
    "places of 64 bits": f"""
      %v, %q = stablehlo.custom_call @mhlo.topk(%x)
          {{mhlo.attributes = {{k = 3 : i64}}, mesh.shardings = [unit, #mesh.shard<@g, [[], []]>]}}
          : ({X}) -> ({V}, tensor<4x3xi64>)
      %p = stablehlo.convert %q : (tensor<4x3xi64>) -> {P}""",
    "TopK": f"""
      %t = stablehlo.custom_call @TopK(%x) : ({X}) -> tuple<{V}, {P}>
      %v = stablehlo.get_tuple_element %t[0] : (tuple<{V}, {P}>) -> {V}
      %p = stablehlo.get_tuple_element %t[1] : (tuple<{V}, {P}>) -> {P}""",
}


@pytest.mark.parametrize("kind", CALLS)
def test_the_largest_in_order(kind: str) -> None:
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {X} {SPLIT}) -> ({V}, {P}) {{{CALLS[kind]}
      return %v, %p : {V}, {P}
    }}"""
    x = np.random.default_rng(0).integers(-4, 4, (4, 64)).astype(np.float32)
    compiled = sd.compile(sd.parse(text))
    values, places = compiled(x)
    order = np.argsort(x if kind == "smallest" else -x, 1, kind="stable")[:, :3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    assert compiled.report.bytes_moved < 4 * 64 * 4 // 4  # less than one shard
    assert compiled.check().passed


APPROXIMATE = {
    "ApproxTopK": """mhlo.backend_config = {aggregate_to_topk = true, recall_target = 0.95 : f32,
        reduction_dim = 1 : i64, reduction_input_size_override = -1 : i64, top_k = 3 : i64}""",
    "PartialReduce": r'backend_config = "{\22log2_reduction\22: 4, \22reduction_dim\22: 1}"',
}


@pytest.mark.parametrize("target", APPROXIMATE)
@pytest.mark.parametrize("end", ["return", "stablehlo.return"])
def test_calls_that_may_miss_some_miss_none(target: str, end: str) -> None:
    text = f"""
    shard.grid @g(shape = 4)
    func.func private @less(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>)
        -> tensor<i1> {{
      %0 = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      {end} %0 : tensor<i1>
    }}
    func.func @main(%x: {X} {SPLIT}) -> ({V}, {P}) {{
      %i = stablehlo.iota dim = 1 : tensor<4x64xi32>
      %none = stablehlo.constant dense<-1> : tensor<i32>
      %most = stablehlo.constant dense<0x7F800000> : tensor<f32>
      %v, %p = stablehlo.custom_call @{target}(%x, %i, %most, %none) {{
          called_computations = [@less], {APPROXIMATE[target]}}}
          : ({X}, tensor<4x64xi32>, tensor<f32>, tensor<i32>) -> ({V}, {P})
      return %v, %p : {V}, {P}
    }}"""
    x = np.random.default_rng(0).integers(-4, 4, (4, 64)).astype(np.float32)
    compiled = sd.compile(sd.parse(text))
    values, places = compiled(x)
    order = np.argsort(x, 1, kind="stable")[:, :3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))
    assert compiled.report.bytes_moved < 4 * 64 * 4 // 4  # less than one shard
    assert compiled.check().passed


def test_annotations_of_both_results_are_kept() -> None:
    text = f"""
    "sdy.mesh"() {{sym_name = "g", mesh = #sdy.mesh<["x"=4]>}} : () -> ()
    func.func @main(%x: {X}) -> ({V}, {P}) {{
      %v, %p = stablehlo.custom_call @mhlo.topk(%x) {{
          sdy.sharding = #sdy.sharding_per_value<[<@g, [{{"x"}}, {{}}]>, <@g, [{{?}}, {{?}}]>]>,
          mhlo.attributes = {{k = 3 : i64}}}} : ({X}) -> ({V}, {P})
      return %v, %p : {V}, {P}
    }}"""
    expanded = sd.to_text(sd.run_pipeline(sd.parse(text), "expand-top-k"))
    assert '[<@g, [{"x"}, {}]>]' in expanded
    assert "[<@g, [{?}, {?}]>]" in expanded


def test_all_of_a_dimension_in_order_keeps_its_annotations() -> None:
    whole, places = "tensor<4x8xf32>", "tensor<4x8xi32>"
    rows, both = "#mesh.shard<@g, [[0], []]>", "#mesh.shard<@g, [[], []]>"
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: {whole}) -> ({whole}, {places}) {{
      %v, %p = stablehlo.custom_call @mhlo.topk(%x)
          {{mhlo.attributes = {{k = 8 : i64}}, mesh.shardings = [{rows}, {both}]}}
          : ({whole}) -> ({whole}, {places})
      return %v, %p : {whole}, {places}
    }}"""
    module = sd.parse(text)
    sd.run_pipeline(module, "import,expand-top-k")
    for sharding in (rows, both):
        assert f"mesh.shardings = [{sharding}]" in str(module)
    assert sd.compile(sd.parse(text)).check().passed
