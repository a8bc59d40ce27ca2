"""A collective in a loop counts as often as the loop runs, wherever communication is reported."""

import json
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.run import main

LOOP = """\
sdy.mesh @mesh = <["a"=4]>
func.func private @product(
    %x: tensor<2x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>},
    %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>})
    -> (tensor<2x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>}) {
  %m = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>
  return %m : tensor<2x16xf32>
}
func.func @main(%x: tensor<2x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>},
                %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}]>},
                %n: tensor<i32>) -> tensor<2x16xf32> {
  %c0 = stablehlo.constant dense<0> : tensor<i32>
  %c10 = stablehlo.constant dense<10> : tensor<i32>
  %c1 = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %c0, %a = %x) : tensor<i32>, tensor<2x16xf32>
  cond {
    %lt = stablehlo.compare LT, %i, BOUND : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %lt : tensor<i1>
  } do {
    %m = BODY
    %j = stablehlo.add %i, %c1 : tensor<i32>
    stablehlo.return %j, %m : tensor<i32>, tensor<2x16xf32>
  }
  return %r#1 : tensor<2x16xf32>
}
"""
PRODUCT = """stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>"""
CALL = "func.call @product(%a, %w) : (tensor<2x16xf32>, tensor<16x16xf32>) -> tensor<2x16xf32>"
ONE_GATHER = 96
"""Each of four devices sends its 2x4 numbers of four bytes to three others."""


def program(bound: str, body: str) -> str:
    return LOOP.replace("BOUND", bound).replace("BODY", body)


@pytest.mark.parametrize("body", [PRODUCT, CALL], ids=["in the loop", "in a callee"])
def test_ten_times(body: str) -> None:
    text = program("%c10", body)
    report = sd.report(sd.parse(text))
    (gather,) = report.communication
    assert (gather.times, gather.bytes, gather.open_loop) == (10, 10 * ONE_GATHER, None)
    assert gather.seconds == pytest.approx(report.schedule.communication)
    assert "all_gather x10" in str(report)
    counted = sd.communication(sd.parse(text))
    assert counted.bytes_moved == 10 * ONE_GATHER
    assert (counted.entries[0].times, counted.entries[0].times_known) == (10, True)
    assert "all_gather x10" in str(counted)


def test_a_loop_of_unknown_length_counts_once_and_is_named() -> None:
    text = program("%n", PRODUCT)
    report = sd.report(sd.parse(text))
    (gather,) = report.communication
    assert (gather.times, gather.bytes) == (1, ONE_GATHER)
    assert gather.open_loop == "<string>:16:10"
    assert "<string>:16:10: this loop counts once" in str(report)
    counted = sd.communication(sd.parse(text))
    assert not counted.entries[0].times_known
    assert "in a loop that counts once" in str(counted)


def test_the_lowered_text_still_says_it() -> None:
    module = sd.parse(program("%c10", PRODUCT))
    sd.run_pipeline(module, "spmd,lower")
    assert sd.communication(sd.parse(sd.to_text(module))).bytes_moved == 10 * ONE_GATHER


def test_a_run_says_it_from_the_cache_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "loop.mlir"
    path.write_text(program("%c10", PRODUCT).replace("%n: tensor<i32>", "%n: tensor<1xi32>"))
    for _ in range(2):
        assert main([str(path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["totals"]["bytes_moved"] == 10 * ONE_GATHER
        assert found["collectives"][0]["times"] == 10
