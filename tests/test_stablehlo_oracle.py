"""What the partitioner makes, run by StableHLO's own interpreter, is the unsharded program.

The interpreter runs as many devices as the machine has processors. All is in f64, so that another
order of a sum does not show.
"""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from shard_dialect.collectives import AllReduce, Step
from shard_dialect.errors import ShardWarning
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.shard.local_collectives import write_local
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.partition import partition_collectives
from tests.programs import runnable_stablehlo
from tests.stablehlo_conversion import NotConverted
from tests.stablehlo_interpreter import Array, Converted, interpret, shard

SEEDS = range(int(os.environ.get("SHARD_DIALECT_ORACLE_PROGRAMS", "30")))
LIT = Path(__file__).parent / "lit"
TWO = ((("x", 2),), (("x", 2), ("y", 1)), (("x", 1), ("y", 2)))
FOUR = ((("x", 2), ("y", 2)), (("x", 4),))
PROCESSORS = len(os.sched_getaffinity(0))
MESHES = (*TWO, *FOUR) if PROCESSORS >= 4 else TWO

pytestmark = pytest.mark.skipif(PROCESSORS < 2, reason="the interpreter wants two processors")


@pytest.fixture(autouse=True)
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        yield


def in_f64(text: str) -> str:
    return text.replace("f32", "f64").replace("0xFF800000", "0xFFF0000000000000")


def random_program(seed: int) -> str:
    with patch.object(runnable_stablehlo, "MESHES", MESHES):
        return in_f64(runnable_stablehlo.runnable_stablehlo(seed))


def random_program_that_stablehlo_can_say(seed: int) -> str:
    """The first from `seed` on whose collectives StableHLO has words for."""
    while True:
        text = random_program(seed)
        try:
            sharded(text)
        except NotConverted:
            seed += 1_000_000
        else:
            return text


def unsharded(text: str) -> tuple[str, list[Array]]:
    """The program for one device, and inputs for it."""
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "import,erase-sharding")
        main = next(op for op in module.body if op.operation.attributes["sym_name"].value == "main")
        types = main.operation.attributes["function_type"].value.inputs
        rng = np.random.default_rng(0)
        inputs = [
            rng.integers(0, 8, type_.shape).astype(np.int32)
            if str(type_.element_type) == "i32"
            else rng.standard_normal(type_.shape)
            for type_ in types
        ]
        return module.operation.get_asm(print_generic_op_form=True), inputs


def sharded(text: str, pipeline: str = "spmd") -> Converted:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, pipeline)
        return Converted(module)


def check(text: str, folder: Path, pipeline: str = "spmd") -> None:
    """Compare what each device has with its shard of what the unsharded program gives."""
    program = sharded(text, pipeline)
    alone, inputs = unsharded(text)
    expected, found = interpret([(alone, inputs), (program.text, program.scatter(inputs))], folder)
    assert len(found) == program.devices * len(expected)
    for place, array in enumerate(found):
        rank, number = divmod(place, len(expected))
        whole, split = expected[number], program.results[number][1]
        mine = shard(whole, split, program.grid, rank)
        is_held = shard(np.ones_like(whole), split, program.grid, rank) == 1
        np.testing.assert_allclose(
            array[is_held],  # not what is beyond the end of the tensor
            mine[is_held],
            rtol=1e-9,
            atol=1e-9 * max(1.0, float(np.max(np.abs(whole), initial=0))),
            err_msg=f"{text}\nresult {number} on device {rank}",
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int, tmp_path: Path) -> None:
    check(random_program_that_stablehlo_can_say(seed), tmp_path)


COLLECTIVES = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "collective_permute",
    "partition_id",
    "reduce_scatter",
)


def test_few_random_programs_are_passed_over_and_all_collectives_are_in_some() -> None:
    skipped, seen = 0, set()
    for seed in range(60):
        try:
            text = sharded(random_program(seed)).text
        except NotConverted:
            skipped += 1
        else:
            seen |= {name for name in COLLECTIVES if f'"stablehlo.{name}"' in text}
    assert skipped <= 3
    assert seen == set(COLLECTIVES)
    # Halos, which are permuted, are in the convolution below.
    assert '"stablehlo.collective_permute"' in sharded(CONVOLUTION).text


CONVOLUTION = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<1x8x6x2xf64> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<3x3x2x2xf64>)
    -> (tensor<1x8x6x2xf64> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x8x6x2xf64>, tensor<3x3x2x2xf64>) -> tensor<1x8x6x2xf64>
  return %0 : tensor<1x8x6x2xf64>
}
"""
UNEVEN = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<5x3xf64> {mesh.sharding = #mesh.shard<@g, [[0]]>})
    -> (tensor<5x3xf64> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
  %0 = stablehlo.tanh %x : tensor<5x3xf64>
  return %0 : tensor<5x3xf64>
}
"""
MASKED = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x6xf64, #mesh.shard<@g, [[0]]>>, %y: tensor<6xf64>)
    -> tensor<6xf64, #mesh.shard<@g, [[0]]>> attributes {mesh.form = "distributed"} {
  %init = stablehlo.constant dense<INIT> : tensor<f64>
  %0 = stablehlo.reduce(%x init: %init) applies stablehlo.OP across dimensions = [0]
    : (tensor<4x6xf64, #mesh.shard<@g, [[0]]>>, tensor<f64>)
    -> tensor<6xf64, #mesh.shard<@g, [[], {KIND = [0]}]>>
  %1 = "mesh.mask"(%y) {mesh_axis = [0], reduction = "KIND"}
    : (tensor<6xf64>) -> tensor<6xf64, #mesh.shard<@g, [[], {KIND = [0]}]>>
  %2 = stablehlo.OP %0, %1 : tensor<6xf64, #mesh.shard<@g, [[], {KIND = [0]}]>>
  %3 = "mesh.reduce_scatter"(%2) {mesh_axis = [0], reduction = "KIND", tensor_axis = 0 : i64}
    : (tensor<6xf64, #mesh.shard<@g, [[], {KIND = [0]}]>>) -> tensor<6xf64, #mesh.shard<@g, [[0]]>>
  return %3 : tensor<6xf64, #mesh.shard<@g, [[0]]>>
}
"""


def masked(kind: str, op: str, init: str) -> str:
    return MASKED.replace("KIND", kind).replace("OP", op).replace("INIT", init)


PROGRAMS = {
    "halos": CONVOLUTION,
    "lookups": in_f64((LIT / "run" / "lookups.mlir").read_text()),
    "uneven": UNEVEN,
    "sum": masked("sum", "add", "0.0"),
    "max": masked("max", "maximum", "0xFFF0000000000000"),
    "min": masked("min", "minimum", "0x7FF0000000000000"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_by_hand(name: str, tmp_path: Path) -> None:
    check(PROGRAMS[name], tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_whole_boundaries(seed: int, tmp_path: Path) -> None:
    boundary = "partition{arguments=whole results=whole}"
    check(random_program(seed), tmp_path, f"propagate,materialize,{boundary}")


def test_what_is_left_out_shows(tmp_path: Path) -> None:
    write = write_local

    def forgetful(step: Step, grid: str, operand: ir.Value, result: ir.Type) -> ir.Value:
        return operand if isinstance(step, AllReduce) else write(step, grid, operand, result)

    check(PROGRAMS["lookups"], tmp_path)
    with (
        patch.object(partition_collectives, "write_local", forgetful),
        pytest.raises(AssertionError, match="result 0 on device 0"),
    ):
        check(PROGRAMS["lookups"], tmp_path)
