"""Pipelines of stages and microbatches: their schedules, and that they compute the same."""

import re
from collections import Counter
from itertools import product

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.pipelining.write_tasks import Kind, Task, schedule
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs
from tests.programs.training import training_step

FORWARD = """
shard.grid @grid(shape = {grid})
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<6x4xf32>)
    -> (tensor<8x4xf32>, tensor<4xf32>) {{
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.tanh %0 : tensor<8x6xf32>
  %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2, %3 : tensor<8x4xf32>, tensor<4xf32>
}}
"""  # noqa: E501
LINALG = """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<6x4xf32>) -> tensor<8x4xf32> {
  %c = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<8x6xf32>
  %f0 = linalg.fill ins(%c : f32) outs(%e0 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<8x4xf32>, tensor<4x6xf32>) outs(%f0 : tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = math.tanh %0 : tensor<8x6xf32>
  %e1 = tensor.empty() : tensor<8x4xf32>
  %f1 = linalg.fill ins(%c : f32) outs(%e1 : tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = linalg.matmul ins(%1, %v : tensor<8x6xf32>, tensor<6x4xf32>) outs(%f1 : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("kind", "stages", "count", "backward"),
    list(product(("gpipe", "1f1b"), range(1, 6), range(1, 9), (True, False))),
)
def test_a_schedule_does_each_task_once_after_those_it_waits_for(
    kind: Kind, stages: int, count: int, backward: bool
) -> None:
    steps = schedule(kind, stages, count, backward=backward)
    when = {task: at for at, step in enumerate(steps) for task in step}
    assert len(when) == sum(map(len, steps)) == stages * count * (2 if backward else 1)
    for step in steps:
        assert len({task.stage for task in step}) == len(step)
    for task, at in when.items():
        before = Task(task.stage + (-1 if task.is_forward else 1), task.microbatch, task.is_forward)
        assert when.get(before, -1) < at
        if not task.is_forward:
            assert when[Task(task.stage, task.microbatch, True)] < at
    # No step is idle that need not be: each stage waits for the pipeline to fill and to drain.
    assert len(steps) == (count + stages - 1) * (2 if backward else 1)


def test_one_after_the_other_keeps_fewer_microbatches() -> None:
    for stages, count in product(range(1, 6), range(1, 9)):
        for stage in range(stages):
            most = now = 0
            for step in schedule("1f1b", stages, count):
                for task in step:
                    now += (1 if task.is_forward else -1) if task.stage == stage else 0
                most = max(most, now)
            assert most == min(stages - stage, count)


def pipeline(text: str, options: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, f"pipeline{{{options}}}")
        return str(module)


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    ("text", "options"),
    [
        (FORWARD.format(grid="2"), "stages=2 microbatches=4"),
        (FORWARD.format(grid="2x2"), "stages=2 microbatches=2"),
        (FORWARD.format(grid="4"), "stages=2 microbatches=1"),
        (FORWARD.format(grid="2"), "stages=1 microbatches=8"),
        (LINALG, "stages=2 microbatches=4 schedule=gpipe"),
        (training_step(4, 16, 8, "4"), "stages=4 microbatches=8 arguments='0,1'"),
        (training_step(4, 16, 8, "4"), "stages=4 microbatches=8 arguments='0,1' schedule=gpipe"),
        (training_step(5, 8, 8, "2x2"), "stages=2 microbatches=4 arguments='0,1'"),
        (training_step(3, 8, 8, "3"), "stages=3 microbatches=2 arguments='0,1'"),
    ],
)
@needs("jax")
def test_a_pipeline_computes_the_same(text: str, options: str) -> None:
    made = pipeline(text, options)
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


@pytest.mark.parametrize("kind", ["gpipe", "1f1b"])
def test_each_microbatch_is_passed_on_once_in_each_direction(kind: Kind) -> None:
    made = pipeline(
        training_step(4, 16, 8, "4"), f"stages=4 microbatches=8 arguments='0,1' schedule={kind}"
    )
    targets = Counter(re.findall(r"collective_permute.*cluster = @stage(\d)", made))
    # Forward to stages 1 to 3, backward to stages 0 to 2.
    assert targets == {"0": 8, "1": 16, "2": 16, "3": 8}


def test_annotations_are_kept() -> None:
    text = FORWARD.format(grid="2x2").replace(
        "%w: tensor<4x6xf32>", "%w: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@grid, [[], [1]]>}"
    )
    inner = '%a = "mesh.annotate"(%1) {sharding = #mesh.shard<@grid, [[], [1]]>} '
    text = text.replace(
        "  %2 =", f"  {inner}: (tensor<8x6xf32>) -> tensor<8x6xf32>\n  %2 =", 1
    ).replace("dot_general %1, %v", "dot_general %a, %v")
    made = pipeline(text, "stages=2 microbatches=2")
    assert "tensor<4x6xf32> {mesh.sharding = #mesh.shard<@stage0, [[], [1]]>}" in made
    assert made.count("sharding = #mesh.shard<@stage0, [[], [1]]>}") == 3


INDEX = LINALG.replace(
    "  return %2",
    """  %e2 = tensor.empty() : tensor<8x4xf32>
  %3 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]
  } ins(%2 : tensor<8x4xf32>) outs(%e2 : tensor<8x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %s = arith.addf %a, %f : f32
    linalg.yield %s : f32
  } -> tensor<8x4xf32>
  return %3""",
)


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("stages", [1, 2])
@needs("jax")
def test_each_microbatch_has_its_own_indices(stages: int) -> None:
    made = pipeline(INDEX, f"stages={stages} microbatches=4")
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(INDEX))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        (FORWARD.format(grid="3"), "", "axis 0 of grid @grid(3) has 3 devices, which 2 stages do"),
        (FORWARD.format(grid="2"), "microbatches=3", "argument 0 of @main has size 8 in dimension"),
        (FORWARD.format(grid="2"), "arguments=9", "there is no argument 9: @main has 3"),
        (FORWARD.format(grid="2"), "arguments=x", "expected numbers, as in arguments='0,3'"),
        (FORWARD.format(grid="2"), "microbatches=0", "at least one stage and one microbatch"),
        (
            FORWARD.format(grid="2").replace("dense<0.0>", "dense<1.0>"),
            "",
            "'stablehlo.reduce' op must not be split along its batch",
        ),
        (
            FORWARD.format(grid="2x2").replace(
                "%w: tensor<4x6xf32>",
                "%w: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@grid, [[0]]>}",
            ),
            "",
            "along axis 0 of @grid(2x2), which the stages divide",
        ),
        (
            FORWARD.format(grid="2x2").replace(
                "%w: tensor<4x6xf32>",
                "%w: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@other, [[0]]>}",
            )
            + "shard.grid @other(shape = 4)",
            "",
            "on @other(4), and the stages are parts of @grid(2x2): annotate tensors on one grid",
        ),
        (
            FORWARD.format(grid="8").replace(
                "%w: tensor<4x6xf32>",
                '%w: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@grid, [["0:(4)2"]]>}',
            ),
            "",
            "along the 8 devices of axis 0 of @grid(8), of which a stage has 4: leave it out",
        ),
        (
            """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<8x4xf32>, %c3: index) -> tensor<8x4xf32> {
  %c0 = arith.constant 0 : index
  %k = stablehlo.constant dense<2.0> : tensor<8x4xf32>
  %0 = scf.for %i = %c0 to %c3 step %c3 iter_args(%a = %k) -> (tensor<8x4xf32>) {
    %1 = stablehlo.multiply %a, %x : tensor<8x4xf32>
    scf.yield %1 : tensor<8x4xf32>
  }
  return %0 : tensor<8x4xf32>
}
""",
            "",
            "'scf.for' op reads a microbatch in its regions",
        ),
        (
            """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %c3 = arith.constant 3 : index
  %0 = scf.for %i = %c0 to %c3 step %c3 iter_args(%a = %w) -> (tensor<4xf32>) {
    %1 = "mesh.annotate"(%a) {sharding = #mesh.shard<@grid, []>} : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  }
  return %0, %x : tensor<4xf32>, tensor<4xf32>
}
""",
            "",
            "'mesh.annotate' op is in a region: in a pipeline, annotate the results of ops",
        ),
        (
            """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
""",  # noqa: E501
            "",
            "'stablehlo.subtract' op reads a microbatch, and what all microbatches make together",
        ),
    ],
)
def test_what_has_no_pipeline_is_refused(text: str, options: str, expected: str) -> None:
    with pytest.raises(ShardError, match=re.escape(expected)):
        pipeline(text, options)
