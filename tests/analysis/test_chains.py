"""The chains of a why: short, each to an annotation that is named, and one for each side."""

from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.analysis.reasons.explained_passes import result_places
from shard_dialect.analysis.report_text import collective_text

CONFLICT = """\
sdy.mesh @mesh = <["a"=2, "b"=4]>
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>},
                %y: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}, {}]>})
    -> tensor<8x16xf32> {
  %m = stablehlo.add %x, %y : tensor<8x16xf32>
  %k = stablehlo.negate %m : tensor<8x16xf32>
  return %k : tensor<8x16xf32>
}
"""


def collectives(text: str) -> tuple[Collective, ...]:
    return sd.report(sd.parse(text)).communication


def test_both_shardings_that_met_have_their_annotation() -> None:
    for each in collectives(CONFLICT):
        ends = {step.text: step.location for step in each.why if step.annotation}
        assert ends == {
            'dimension 0 along ["b"]: annotated': "<string>:3:17",
            'dimension 0 along ["a"]: annotated': "<string>:2:17",
        }


def test_the_last_step_is_an_annotation_and_no_step_is_there_twice() -> None:
    layers = "\n".join(
        f"  %w{n} = stablehlo.add %v{n}, %u{n} : tensor<8x16xf32>\n"
        f"  %u{n + 1} = stablehlo.exponential %w{n} : tensor<8x16xf32>\n"
        f"  %v{n + 1} = stablehlo.tanh %w{n} : tensor<8x16xf32>"
        for n in range(20)
    )
    text = f"""\
shard.grid @g(shape = 2)
func.func @main(%u0: tensor<8x16xf32> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}},
                %v0: tensor<8x16xf32>) -> (tensor<8x16xf32>
                {{mesh.sharding = #mesh.shard<@g, [[0], []]>}}) {{
{layers}
  return %u20 : tensor<8x16xf32>
}}
"""
    (entry,) = collectives(text)
    assert entry.why[-1].annotation
    assert len(set(entry.why)) == len(entry.why)
    shown = collective_text(1, entry, None, asked=False)
    assert "more steps, all of them with --json" in shown
    assert len(shown.splitlines()) < 12 < len(entry.why)


NAMED = """\
module {
  shard.grid @g(shape = 2) {axis_names = ["model"]}
  func.func private @take(%x: tensor<4x8xf32> loc(unknown)) -> tensor<4x8xf32> {
    %0 = stablehlo.exponential %x : tensor<4x8xf32> loc("exp")
    %1 = stablehlo.dot_general %0, %0, contracting_dims = [0] x [0]
        : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32> loc("dot")
    %2 = stablehlo.slice %1 [0:4, 0:8] : (tensor<8x8xf32>) -> tensor<4x8xf32> loc("slice")
    return %2 : tensor<4x8xf32> loc(unknown)
  } loc(unknown)
  func.func @main(%arg0: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}
                  loc("params['wte']")) -> (tensor<4x8xf32>
                  {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
    %0 = func.call @take(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32> loc("layer.py":12:3)
    return %0 : tensor<4x8xf32> loc(unknown)
  } loc(unknown)
} loc(unknown)
"""


def test_a_parameter_without_a_place_is_shown_by_name_and_number() -> None:
    report = sd.report(sd.parse(NAMED))
    entry = report.communication[0]
    assert entry.why[-1].text == (
        "dimension 0 along [\"model\"]: annotated on argument 0, params['wte']"
    )
    assert "params['wte']" in [each.name for each in report.memory.live_at_peak]


def test_an_op_without_a_place_has_that_of_the_call() -> None:
    entry = collectives(NAMED)[0]
    assert entry.location == "layer.py:12:3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("func.func @f() -> tensor<4xf32> {\n}", ["f:1:19"]),
        (
            'func.func @f(%x: t<a -> (b)>) -> (t<1>,\n  u {a = [1, 2], b = "(,"})',
            ["f:1:35", "f:2:3"],
        ),
        ("func.func @f() {}", []),
        ("func.func @f(", []),
        ('"func.func"() ({', []),
    ],
)
def test_places_of_results(text: str, expected: list[str]) -> None:
    assert result_places(text, "f:1:1") == expected


def test_an_annotated_result_is_placed_at_the_result(tmp_path: Path) -> None:
    path = tmp_path / "sum.mlir"
    path.write_text(
        "shard.grid @g(shape = 2)\n"
        "func.func @main(%x: tensor<4x8xf32>)\n"
        "    -> (tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},\n"
        "        tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], []]>}) {\n"
        "  %y = stablehlo.exponential %x : tensor<4x8xf32>\n"
        "  return %y, %y : tensor<4x8xf32>, tensor<4x8xf32>\n"
        "}\n"
    )
    (entry,) = sd.report(sd.parse(path)).communication
    assert {step.location for step in entry.why if "annotated on result" in step.text} <= {
        f"{path}:3:9",
        f"{path}:4:9",
    }
    assert any("annotated on result" in step.text for step in entry.why)


HALO = """\
shard.grid @g(shape = 4) {axis_names = ["h"]}
func.func @main(%x: tensor<1x16x16x1xf32> {mesh.sharding = #mesh.shard<@g, [[], [0], [], []]>},
                %k: tensor<3x3x1x1xf32>) -> tensor<1x16x16x1xf32> {
  %y = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<1x16x16x1xf32>, tensor<3x3x1x1xf32>) -> tensor<1x16x16x1xf32>
  return %y : tensor<1x16x16x1xf32>
}
"""


def test_a_halo_exchange_names_the_halo() -> None:
    entry = next(each for each in collectives(HALO) if each.kind == "update_halo")
    assert entry.why[0].text.endswith(
        'takes it as [[], ["h"], [], []], halo of 1 and 1 in dimension 1'
    )


MAXIMUM = """\
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
    -> (tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %y = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1]
      : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
"""


def test_a_maximum_is_no_sum() -> None:
    (entry,) = collectives(MAXIMUM)
    texts = "\n".join(step.text for step in entry.why)
    assert "partial maxima along [0]" in texts
    assert "takes the maximum over dimension 1" in texts
    assert "sum" not in texts


def test_a_reduction_in_two_says_that_it_moves_as_many_bytes() -> None:
    text = Path("examples/mlp_2d.mlir")
    report = sd.report(sd.parse(Path(__file__).parents[2] / text))
    scatter, gather = report.communication[1:3]
    assert (scatter.kind, gather.kind) == ("reduce_scatter", "all_gather")
    assert "moves as many bytes as an all_reduce" in scatter.why[1].text
