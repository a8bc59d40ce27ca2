"""What reports say of the inside of a program: uneven values, repeated ops, loops."""

import shard_dialect as sd
from tests.analysis.test_collectives_in_loops import PRODUCT, program

UNEVEN = """\
shard.grid @g(shape = 8) {axis_names = ["x"]}
func.func @main(%x: tensor<4x1003xf32>) -> (tensor<4xf32>
                {mesh.sharding = #mesh.shard<@g, [[]]>}) {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %e = stablehlo.exponential %x : tensor<4x1003xf32>
  %a = shard.shard %e to %s annotate_for_users : tensor<4x1003xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %y = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<4x1003xf32>, tensor<f32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_a_value_inside_is_uneven() -> None:
    report = sd.report(sd.parse(UNEVEN))
    sizes = [(each.local_size, each.sizes) for each in report.compute.uneven]
    assert (126, (126,) * 7 + (121,)) in sizes
    assert "is uneven in dimension 1" in str(report)


REPEATED = """\
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>})
    -> (tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>}) {
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
"""


def test_repeated_ops_are_listed_and_every_op_has_its_bound() -> None:
    report = sd.report(sd.parse(REPEATED))
    lines = str(report).splitlines()
    heads = next(n for n, line in enumerate(lines) if "on devices" in line)
    assert lines[heads + 1].split()[:3] == ["768", "4", "stablehlo.dot_general"]
    assert {each.bound for each in report.compute.ops} <= {"memory", "compute"}


def test_a_loop_of_the_chain_shows_its_inside() -> None:
    report = sd.report(sd.parse(program("%c10", PRODUCT)))
    (loop,) = [each for each in report.schedule.critical_ops if each.inside]
    gather = max(loop.inside, key=lambda each: each.seconds)
    assert (gather.bound, gather.times) == ("network", 10)
    assert gather.seconds <= loop.seconds
