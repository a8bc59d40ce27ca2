"""A program for each row of the table of docs/running.md, run by one backend.

    python -m tests.runtime.table_cases --backend=devices
    torchrun --nproc-per-node=4 -m tests.runtime.table_cases --backend=torch --compiler=torch

prints what each row's program came to: "yes" if its results are right, else the error.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from shard_dialect import plugins
from shard_dialect.cli.run_command import check_device
from shard_dialect.codegen.array_types import Array
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.array_files import random_inputs
from shard_dialect.runtime.checking.check import check
from shard_dialect.runtime.communicators.launched_world import BACKENDS, world_of
from shard_dialect.runtime.communicators.world import InProcess, Runnable, World
from shard_dialect.runtime.compile import (
    compile_for_torch,
    compile_for_xla,
    compile_reference,
    compile_sharded,
)
from shard_dialect.runtime.xla.xla_devices import XlaDevices
from tests.conftest import ROOT
from tests.runtime.collective_cases import GRID, Case, cases, inputs_of, program

WHO = "who compiles what a device computes"
PLUGIN = ROOT / "tests/lit/driver/Inputs/toy.py"
CHOLESKY = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%x) {
      mhlo.backend_config = {uplo = 76 : ui8},
      operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
      result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]}
    : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)
  return %0#0 : tensor<2x2xf32>
}
"""
BUFFERS = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %b = bufferization.to_buffer %x : tensor<8xf32> to memref<8xf32>
  %c = memref.alloc() : memref<8xf32>
  memref.copy %b, %c : memref<8xf32> to memref<8xf32>
  %0 = bufferization.to_tensor %c restrict : memref<8xf32> to tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""


@dataclass(frozen=True)
class Row:
    """A text for each rank, and what each device must get; else the unsharded program says it."""

    text: Callable[[int], str]
    inputs: Sequence[Array] = ()
    of_device: Sequence[Array] = ()
    """An argument of each device, for a program in the local form."""
    cases: Sequence[Case] = field(default_factory=tuple)


def _collectives(*, are_sent: bool) -> Row:
    chosen = [case for case in cases() if (case.name == "send/recv") == are_sent]
    chosen = [case for case in chosen if not case.reduction.startswith("bitwise")]
    return Row(
        lambda _: program(chosen, "f32", started=False), of_device=inputs_of("f32"), cases=chosen
    )


def _of_one_device(rank: int) -> str:
    with make_context():
        module = Source.read(str(ROOT / "examples/pipeline_mlp.mlir")).parse()
        run_pipeline(module, f"spmd,pick-device{{rank={rank}}}")
        return str(module)


ROWS = {
    "the collectives of [the table](collectives.md#element-types)": _collectives(are_sent=False),
    "`shard.send` and `shard.recv`": _collectives(are_sent=True),
    "programs of one device (`--pick-device`)": Row(_of_one_device),
    "plugins' ops, by their `lowering`": Row(
        lambda _: (ROOT / "tests/lit/run/plugin_lowering.mlir").read_text()
    ),
    "LAPACK calls of JAX programs": Row(
        lambda _: CHOLESKY, inputs=[np.array([[4, 2], [2, 5]], np.float32)]
    ),
    "buffers: `memref`, `bufferization.to_buffer`": Row(lambda _: BUFFERS),
}


_WHO = {"Executable": "we", "TorchExecutable": "torch", "XlaExecutable": "XLA"}
COMPILERS: set[str] = set()
"""Who has compiled the programs so far."""


def _compiled(options: argparse.Namespace, text: str) -> Runnable:
    source = Source.of(text, "in.mlir")
    if options.compiler == "torch":
        return compile_for_torch(source)
    if options.backend == "xla":
        return compile_for_xla(source)
    return compile_sharded(source, native_mpi=options.backend == "mpi")


def _outcome(row: Row, options: argparse.Namespace, world: World) -> str:
    with make_context():
        executable = _compiled(options, row.text(world.ranks[0]))
    COMPILERS.add(_WHO[type(executable).__name__])
    check_device(executable.program, None if isinstance(world, InProcess) else world)
    program = executable.program
    if row.of_device:
        outputs = world.run(executable, [[row.of_device[rank]] for rank in world.ranks])
        right = all(
            np.array_equal(result, case.expected(row.of_device, rank))
            for rank, results in zip(world.ranks, outputs, strict=True)
            for case, result in zip(row.cases, results, strict=True)
        )
        return "yes" if right else "other results"
    given = row.inputs or random_inputs([each.global_type for each in program.arguments], 0)
    outputs = world.run(executable, [program.scatter(given, rank) for rank in world.ranks])
    whole = Source.of(row.text(0), "in.mlir")
    if program.device is not None:
        whole = Source.read(str(ROOT / "examples/pipeline_mlp.mlir"))
    with make_context():
        reference = compile_reference(whole, "main") if world.speaks else None
    verdict = check(executable, reference, given, world.gather(outputs), world)
    return "yes" if verdict.passed else verdict.failure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler")
    parser.add_argument("--backend", choices=BACKENDS, default="devices")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    plugins.load([str(PLUGIN)])
    joining = world_of(options.backend, options.compiler)
    peers = joining() if joining else None
    in_process = XlaDevices if options.backend == "xla" else InProcess
    world: World = peers or in_process(GRID.size)
    found: dict[str, str] = {}
    for name, row in ROWS.items():
        try:
            found[name] = _outcome(row, options, world)
        except ShardError as error:
            found[name] = str(error)
        outcomes = world.share([found[name]])
        found[name] = next((each for each in outcomes if each != "yes"), "yes")
    if world.speaks:
        print(json.dumps({WHO: " and ".join(COMPILERS), **found}))
    if peers:
        peers.close()


if __name__ == "__main__":
    main()
