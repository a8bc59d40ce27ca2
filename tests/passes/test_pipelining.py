"""Pipelines of stages and microbatches: their schedules, and that they compute the same."""

import re
from itertools import pairwise, product
from typing import get_args

import pytest

import shard_dialect as sd
from shard_dialect import communication, report
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.pipelining.timetable import KINDS, Pass, Schedule, Timetable
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


WRITTEN = """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>, %v: tensor<6x4xf32>, %i: tensor<1xi32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 2] : (tensor<8x6xf32>) -> tensor<8x3x6xf32>
  %2 = stablehlo.tanh %1 : tensor<8x3x6xf32>
  %u = stablehlo.reshape %0 : (tensor<8x6xf32>) -> tensor<8x1x6xf32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %d = stablehlo.concatenate %zero, %i, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %y = "stablehlo.scatter"(%2, %d, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 0>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    stablehlo.return %b : tensor<f32>
  }) : (tensor<8x3x6xf32>, tensor<2xi32>, tensor<8x1x6xf32>) -> tensor<8x3x6xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%y init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x3x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %r = stablehlo.dot_general %s, %v, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  return %r : tensor<8x4xf32>
}
"""  # noqa: E501


def timetable(
    schedule: Schedule, stages: int, microbatches: int, *, backward: bool, chunks: int = 1
) -> Timetable:
    """The timetable of stages that all have all passes of the schedule."""
    kinds = KINDS[: 1 if not backward else 3 if schedule == "zero-bubble" else 2]
    passes = tuple(Pass(*each) for each in product(range(stages), kinds, range(chunks)))
    return Timetable(schedule, stages, microbatches, passes, chunks)


SCHEDULES = get_args(Schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_pass_works_on_each_microbatch_after_what_it_waits_for(schedule: Schedule) -> None:
    for stages, count, chunks in product(range(1, 6), range(1, 9), (1, 2, 3)):
        for backward in (True, False):
            check_order(timetable(schedule, stages, count, backward=backward, chunks=chunks))


def check_order(table: Timetable) -> None:
    assert table.phases[0].begin == 0
    assert all(a.end == b.begin for a, b in pairwise(table.phases))
    done: dict[tuple[int, str, int], tuple[int, Pass]] = {}
    """By part of the program, kind and microbatch: the tick, and the pass."""
    for each in table.passes:
        first, part = table.first(each), each.chunk * table.stages + each.stage
        ticks = {t for p in table.phases if each in p.passes for t in range(p.begin, p.end)}
        for microbatch in range(table.microbatches):
            tick = first + table.after_first(microbatch)
            assert tick in ticks
            done[part, each.kind, microbatch] = tick, each
            turn = (tick + table.stages - first % table.stages) // table.stages % table.chunks
            assert turn == table.turn(each)
    assert len({(tick, each.stage, each.kind) for tick, each in done.values()}) == len(done)
    last = table.stages * table.chunks - 1
    for (part, kind, microbatch), (tick, each) in done.items():
        if kind == "forward" and part:
            assert tick == done[part - 1, kind, microbatch][0] + 1
        if kind == "backward":
            assert tick >= done[part, "forward", microbatch][0]
            if part < last:
                assert tick == done[part + 1, kind, microbatch][0] + 1
        if kind == "weights":
            assert tick >= done[part, "backward", microbatch][0]
        for other in {each.kind for each in table.passes}:
            reader = done[part, other, microbatch]
            if reader[0] > tick:  # what waits in between is no more than there is room for
                waiting = [
                    m
                    for m in range(microbatch, table.microbatches)
                    if done[part, kind, m][0] < reader[0]
                ]
                assert len(waiting) <= table.waiting(table.age(each, reader[1]))


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize(("stages", "count"), [(1, 1), (2, 3), (4, 8), (8, 8), (8, 32), (16, 16)])
def test_a_pipeline_waits_as_long_as_published(stages: int, count: int, chunks: int) -> None:
    """The time of a phase's tick is that of the kinds of passes that work in it, each 1 / chunks.

    Of M microbatches and S stages, a pipeline waits for S - 1 passes (GPipe), of a chunk where
    stages have several (Megatron-LM), which take S microbatches at a time.
    """
    if count % stages and chunks > 1:
        return

    def time(schedule: Schedule) -> int:
        table = timetable(schedule, stages, count, backward=True, chunks=chunks)
        return sum((p.end - p.begin) * len({e.kind for e in p.passes}) for p in table.phases)

    work, idle = count * chunks, stages - 1
    assert time("gpipe") == time("1f1b") == 2 * (work + idle)
    if work + idle >= 2 * (stages * chunks - 1):
        assert time("zero-bubble") == 3 * work + 2 * idle  # with 1f1b 3 * (work + idle)


def test_1f1b_keeps_twice_as_many_microbatches_as_stages_after_it_at_most() -> None:
    for stages, count in product(range(1, 6), range(1, 9)):
        table = timetable("1f1b", stages, count, backward=True)
        for stage in range(stages):
            age = table.age(Pass(stage, "forward"), Pass(stage, "backward"))
            assert table.waiting(age) == age == 2 * (stages - 1 - stage)


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
        (
            training_step(4, 16, 8, "4"),
            "stages=4 microbatches=8 arguments='0,1' schedule=zero-bubble",
        ),
        (training_step(5, 8, 8, "2x2"), "stages=2 microbatches=4 arguments='0,1'"),
        (LINALG, "stages=1 chunks=2 microbatches=4"),
        (FORWARD.format(grid="4"), "stages=2 chunks=2 microbatches=4"),
        *(
            (
                training_step(6, 8, 8, "2x2"),
                f"stages=2 chunks={chunks} microbatches=4 arguments='0,1' schedule={schedule}",
            )
            for chunks, schedule in product((2, 3), SCHEDULES)
        ),
        (training_step(3, 8, 8, "3"), "stages=3 microbatches=2 arguments='0,1'"),
    ],
)
@needs("jax")
def test_a_pipeline_computes_the_same(text: str, options: str) -> None:
    made = pipeline(text, options)
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


X, W = "tensor<8x4xf32>", "tensor<4x4xf32>"
WEIGHTED = f"""
shard.grid @grid(shape = 2)
func.func @main(%x: {X}, %m: tensor<8xf32>, %w: {W}, %v: {W}) -> ({W}, tensor<f32>, tensor<8xf32>) {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({X}, {W}) -> {X}
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : ({X}, {W}) -> {X}
  %b:3 = stablehlo.optimization_barrier %v, %1, %0 : {W}, {X}, {X}
  %k = stablehlo.reduce(%m init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %i = stablehlo.divide %one, %k : tensor<f32>
  %2 = stablehlo.broadcast_in_dim %i, dims = [] : (tensor<f32>) -> tensor<8xf32>
  %3 = stablehlo.multiply %m, %2 : tensor<8xf32>
  %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> {X}
  %5 = stablehlo.multiply %b#1, %4 : {X}
  %6 = stablehlo.dot_general %5, %b#0, contracting_dims = [1] x [1] : ({X}, {W}) -> {X}
  %7 = stablehlo.dot_general %b#2, %6, contracting_dims = [0] x [0] : ({X}, {X}) -> {W}
  return %7, %k, %m : {W}, tensor<f32>, tensor<8xf32>
}}
"""  # noqa: E501


@pytest.mark.parametrize("schedule", SCHEDULES)
@needs("jax")
def test_what_only_arguments_decide_is_computed_before_all_microbatches(schedule: Schedule) -> None:
    """The mean over the tokens that count, as a language model's loss is one, and barriers."""
    made = pipeline(WEIGHTED, f"stages=2 microbatches=4 arguments='0,1' schedule={schedule}")
    before = made[: made.index("stablehlo.while")]
    assert before.count("applies stablehlo.add") == 1
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(WEIGHTED))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_text_does_not_grow_with_microbatches(schedule: Schedule, chunks: int) -> None:
    def made(microbatches: int) -> str:
        options = f"stages=4 chunks={chunks} microbatches={microbatches} arguments='0,1'"
        return pipeline(training_step(8, 64, 8, "4"), f"{options} schedule={schedule}")

    lines = {count: len(made(count).splitlines()) for count in (8, 16, 64)}
    assert len(set(lines.values())) == 1, lines


def transfers(layers: int, options: str) -> int:
    """How often the devices of four stages meet in a step with eight microbatches."""
    with make_context():
        options = f"stages=4 microbatches=8 arguments='0,1' {options}"
        module = Source.of(pipeline(training_step(layers, 16, 8, "4"), options)).parse()
        run_pipeline(module, "spmd")
        return sum(each.times for each in communication(module).entries)


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_gradients_of_a_split_batch_are_reduced_once(schedule: Schedule, chunks: int) -> None:
    """Each stage adds up its own parts of them, which it reduces after the last microbatch."""
    text = training_step(4 * chunks, 64, 8, "4x2")
    for argument in ("%x", "%y"):
        plain = f"{argument}: tensor<64x8xf32>"
        text = text.replace(plain, f"{plain} {{mesh.sharding = #mesh.shard<@grid, [[1]]>}}")
    options = f"stages=4 chunks={chunks} microbatches=8 arguments='0,1' schedule={schedule}"
    made = pipeline(text, options)
    reduced = [each for each in communication(sd.parse(made)).entries if "reduce" in each.kind]
    assert len(reduced) > 1  # gradients, and the loss
    assert {each.times for each in reduced} == {1}
    verdict = run_and_check(made, "spmd,lower", reference=reference_of(text)).verdict
    assert verdict.passed, verdict


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_stages_send_to_their_neighbours_at_once(schedule: Schedule) -> None:
    # In each tick of a phase, one permutation forward and one backward.
    # With zero-bubble the backward pass of stage 0 is gradients of weights alone.
    ticks = {"gpipe": 11 + 11, "1f1b": 11 + 11, "zero-bubble": 11 + 10}
    assert transfers(4, f"schedule={schedule}") == ticks[schedule]


def test_chunks_send_by_one_permutation_in_a_ring() -> None:
    # 19 ticks with forward passes of one of two chunks, and as many with backward passes; in some
    # of these nothing is left to send, but a device does not know it.
    assert transfers(8, "chunks=2") <= 19 + 19


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_device_has_room_for_what_one_stage_carries(schedule: Schedule, chunks: int) -> None:
    """Four stages of one layer a chunk: its gradient, and not four, goes from tick to tick."""
    with make_context():
        options = f"stages=4 chunks={chunks} microbatches=8 arguments='0,1' schedule={schedule}"
        module = Source.of(pipeline(training_step(4 * chunks, 16, 8, "4"), options)).parse()
        run_pipeline(module, "spmd")
        loops = [op for op in walk(module.operation) if op.name == "stablehlo.while"]
        gradients = [sum(str(v.type) == "tensor<8x8xf32>" for v in op.results) for op in loops]
    assert max(gradients) == chunks


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_report_is_of_one_stage_with_its_bubble(schedule: Schedule, chunks: int) -> None:
    """A device does each pass of a chunk M times, and S - 1 times on no microbatch."""
    options = f"stages=4 chunks={chunks} microbatches=8 arguments='0,1' schedule={schedule}"
    made = pipeline(training_step(4 * chunks, 16, 8, "4"), options)
    products = [
        op for op in report(sd.parse(made)).compute.ops if op.name == "stablehlo.dot_general"
    ]
    # A layer is a product of 2x8 and 8x8, and two in its backward pass.
    counted = sum(op.flops for op in products) / (2 * 2 * 8 * 8)
    work, idle = 8 * chunks, 3
    if schedule == "zero-bubble":
        assert 3 * work < counted < 3 * (work + idle)
    else:
        assert counted == 3 * (work + idle)


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
    assert made.count("sharding = #mesh.shard<@stage0, [[], [1]]>}") == 2  # %w, and in the loop


@pytest.mark.parametrize("chunks", [1, 2])
@needs("jax")
def test_devices_that_share_the_batch_share_every_microbatch(chunks: int) -> None:
    whole = FORWARD.format(grid="2x2")
    sharding = "{mesh.sharding = #mesh.shard<@grid, [[1]]>}"
    text = whole.replace("%x: tensor<8x4xf32>", f"%x: tensor<8x4xf32> {sharding}")
    options = f"stages=2 microbatches=2 chunks={chunks}"
    made = pipeline(text, options)
    flops = [report(sd.parse(each)).compute.flops for each in (made, pipeline(whole, options))]
    assert flops[0] < 0.6 * flops[1]
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


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
        (FORWARD.format(grid="2"), "microbatches=0", "at least one stage, chunk and microbatch"),
        (FORWARD.format(grid="2"), "chunks=0", "at least one stage, chunk and microbatch"),
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
func.func @main(%x: tensor<8xi1>, %k: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %false = stablehlo.constant dense<false> : tensor<i1>
  %any = stablehlo.reduce(%x init: %false) applies stablehlo.or across dimensions = [0] : (tensor<8xi1>, tensor<i1>) -> tensor<i1>
  %0 = "stablehlo.if"(%any) ({
    stablehlo.return %k : tensor<8x4xf32>
  }, {
    %1 = stablehlo.negate %k : tensor<8x4xf32>
    stablehlo.return %1 : tensor<8x4xf32>
  }) : (tensor<i1>) -> tensor<8x4xf32>
  %y = stablehlo.convert %x : (tensor<8xi1>) -> tensor<8xf32>
  %z = stablehlo.broadcast_in_dim %y, dims = [0] : (tensor<8xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.add %0, %z : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
""",  # noqa: E501
            "",
            "'stablehlo.add' op reads a microbatch, and what all microbatches make together, by a "
            "'stablehlo.if' op",
        ),
        (
            """
shard.grid @grid(shape = 2)
func.func @main(%a: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %x = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.subtract %x, %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
""",  # noqa: E501
            "",
            "'stablehlo.subtract' op reads a microbatch, and what all microbatches make together, "
            "by a 'stablehlo.dot_general' op",
        ),
    ],
)
def test_what_has_no_pipeline_is_refused(text: str, options: str, expected: str) -> None:
    with pytest.raises(ShardError, match=re.escape(expected)):
        pipeline(text, options)


def test_a_slice_at_the_whole_batch_is_written_in_each_microbatch() -> None:
    with make_context():
        module = Source("-", WRITTEN).parse()
        run_pipeline(module, "pipeline{stages=2 microbatches=4 arguments='0'}")
        outcome = run_and_check(str(module), "spmd,lower", reference=reference_of(WRITTEN))
    assert outcome.verdict.passed, outcome.verdict
