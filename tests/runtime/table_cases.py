"""A program for each row of the table of docs/running.md, run by one backend.

    python -m tests.runtime.table_cases --backend=devices
    torchrun --nproc-per-node=4 -m tests.runtime.table_cases --backend=torch --compiler=torch

prints what each row's program came to: "yes" if its results are right, else the error.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from shard_dialect import plugins
from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.xla.xla_devices import XlaDevices
from shard_dialect.cli.run_command import check_device
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.checking.check import check
from shard_dialect.runtime.communicators.launched_world import BACKENDS, world_of
from shard_dialect.runtime.communicators.registered_devices import devices_of
from shard_dialect.runtime.communicators.world import InProcess, Runnable, World
from shard_dialect.runtime.compile import compile_by, compile_reference, compile_sharded
from shard_dialect.runtime.random_inputs import random_inputs
from tests.conftest import ROOT
from tests.runtime.collective_cases import GRID, cases, inputs_of, program

VECTORS = [np.arange(4, dtype=np.float32) + 10 * rank for rank in range(GRID.size)]
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
INVERSES = {
    "op": "aten.linalg_inv_ex.default",
    "args": [{"tensor": 0, "of": "float32"}],
    "kwargs": {},
}
CALL = """
shard.grid @g(shape = 4)
func.func @main(%x: tensor<4x2x2xf32> {mesh.sharding = #mesh.shard<@g, [[0], [], []]>})
    -> tensor<4x2x2xf32> {
  %0:2 = stablehlo.custom_call @shard_dialect.torch(%x) {
      backend_config = CONFIG,
      mesh.sharding_rule = "([a, *, *]) -> ([a, *, *], [a])"}
    : (tensor<4x2x2xf32>) -> (tensor<4x2x2xf32>, tensor<4xi32>)
  return %0#0 : tensor<4x2x2xf32>
}
""".replace("CONFIG", json.dumps(json.dumps(INVERSES)))
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
COLLECTIVES_ON_BUFFERS = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<8xf32>, tensor<4xf32>)
    attributes {mesh.form = "local"} {
  %b = bufferization.to_buffer %x : tensor<4xf32> to memref<4xf32>
  %c = memref.alloc() : memref<4xf32>
  memref.copy %b, %c : memref<4xf32> to memref<4xf32>
  %sum = shard.all_reduce %c on @g grid_axes = [0, 1] : memref<4xf32> -> memref<4xf32>
  %at = arith.constant 1 : index
  %seven = arith.constant 7.0 : f32
  memref.store %seven, %c[%at] : memref<4xf32>
  %all = shard.all_gather %c on @g grid_axes = [1] gather_axis = 0 : memref<4xf32> -> memref<8xf32>
  %same = shard.update_halo %c on @g split_axes = [[0]] halo_sizes = [1, 0] : memref<4xf32>
  %0 = bufferization.to_tensor %sum restrict : memref<4xf32> to tensor<4xf32>
  %1 = bufferization.to_tensor %all restrict : memref<8xf32> to tensor<8xf32>
  %2 = bufferization.to_tensor %c restrict : memref<4xf32> to tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<8xf32>, tensor<4xf32>
}
"""
POSITIONS = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<4xf32>) -> tensor<11xi64>
    attributes {mesh_cluster = @g, mesh.form = "local"} {
  %i0 = mesh.idx {axis = 0 : index} : index
  %i1 = mesh.idx(1)
  %i10 = mesh.idx {mesh_axis = [1, 0]} : index
  %rank = mesh.idx : index
  %n0 = mesh.size(0)
  %n = mesh.size : index
  %m:2 = shard.process_multi_index on @g : index, index
  %down, %up = shard.neighbors_linear_indices on @g[%i0, %i1] split_axes = [0] : index, index
  %s = shard.sharding @g split_axes = [[1, 0]]
  %size = shard.shard_shape dims = [5] sharding = %s device = [%i0, %i1] : index
  %all = tensor.from_elements %i0, %i1, %i10, %rank, %n0, %n, %m#0, %m#1, %down, %up, %size
    : tensor<11xindex>
  %t = arith.index_cast %all : tensor<11xindex> to tensor<11xi64>
  return %t : tensor<11xi64>
}
"""
PERMUTATION = """
mesh.cluster @g(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<8x6xf32, #mesh.shard<[[1], [0]]>>)
    -> tensor<8x6xf32, #mesh.shard<[[1], [0]]>> attributes {mesh_cluster = @g} {
  %0 = mesh.collective_permute %x {mesh_axis = [0, 1], permutation = [1, 3, 0, 2]}
    : tensor<8x6xf32, #mesh.shard<[[1], [0]]>> -> tensor<8x6xf32, #mesh.shard<[[1], [0]]>>
  return %0 : tensor<8x6xf32, #mesh.shard<[[1], [0]]>>
}
"""


def _on_buffers(given: Sequence[Array], rank: int) -> list[Array]:
    stored = [np.array([x[0], 7, *x[2:]], np.float32) for x in given]
    row, column = divmod(rank, 2)
    haloed = stored[rank].copy()
    if row:  # the device above has the same place along axis 1
        haloed[0] = stored[column][-1]
    total = np.sum(given, axis=0, dtype=np.float32)
    return [total, np.concatenate(stored[2 * row : 2 * row + 2]), haloed]


def _positions(given: Sequence[Array], rank: int) -> list[Array]:
    row, column = divmod(rank, 2)
    size = (2, 1, 2, 0)[rank]  # 5 elements are 2, 2, 1, 0, in the order of axes 1 and 0
    neighbors = (-1 if row == 0 else column, -1 if row == 1 else 2 + column)
    position = 2 * column + row
    return [np.array([row, column, position, rank, 2, 4, row, column, *neighbors, size])]


@dataclass(frozen=True)
class Row:
    """A text for each rank, and what each device must get; else the unsharded program says it."""

    text: Callable[[int], str]
    inputs: Sequence[Array] = ()
    of_device: Sequence[Array] = ()
    """An argument of each device, for a program in the local form."""
    expected: Callable[[Sequence[Array], int], Sequence[Array]] | None = None
    """The results on a device of this rank, from the arguments of all devices."""


def _collectives(*, of_all: bool) -> Row:
    chosen = [case for case in cases() if case.of_all_backends == of_all]
    chosen = [case for case in chosen if not case.reduction.startswith("bitwise")]
    return Row(
        lambda _: program(chosen, "f32", started=False),
        of_device=inputs_of("f32"),
        expected=lambda given, rank: [case.expected(given, rank) for case in chosen],
    )


def _of_one_device(rank: int) -> str:
    with make_context():
        module = Source.read(str(ROOT / "examples/pipeline_mlp.mlir")).parse()
        run_pipeline(module, f"spmd,pick-device{{rank={rank}}}")
        return str(module)


ROWS = {
    "the collectives of [the table](collectives.md#element-types)": _collectives(of_all=True),
    "`shard.send`, `shard.recv`, and roots that the program computes": _collectives(of_all=False),
    "programs of one device (`--pick-device`)": Row(_of_one_device),
    "plugins' ops, by their `lowering`": Row(
        lambda _: (ROOT / "tests/lit/run/plugin_lowering.mlir").read_text()
    ),
    "LAPACK calls of JAX programs (with scipy)": Row(
        lambda _: CHOLESKY, inputs=[np.array([[4, 2], [2, 5]], np.float32)]
    ),
    "[calls of torch](torch.md#calls-of-torch) in programs of `sd.torch`": Row(lambda _: CALL),
    "buffers: `memref`, `bufferization.to_buffer`": Row(lambda _: BUFFERS),
    "collectives on buffers": Row(
        lambda _: COLLECTIVES_ON_BUFFERS, of_device=VECTORS, expected=_on_buffers
    ),
    "a device's index, sizes of groups and of shards": Row(
        lambda _: POSITIONS, of_device=VECTORS, expected=_positions
    ),
    "permutations of shards": Row(lambda _: PERMUTATION),
}


_WHO = {"Executable": "we", "TorchExecutable": "torch", "XlaExecutable": "XLA"}
COMPILERS: set[str] = set()
"""Who has compiled the programs so far."""


def _compiled(options: argparse.Namespace, text: str) -> Runnable:
    source = Source.of(text, "in.mlir")
    if options.compiler == "torch":
        from shard_dialect.runtime.torch_executable import TorchRanks

        return compile_by(TorchRanks, source)
    devices = devices_of(options.backend)
    if devices is not InProcess:
        return compile_by(devices, source)
    return compile_sharded(source, native_mpi=options.backend == "mpi")


def _outcome(row: Row, options: argparse.Namespace, world: World) -> str:
    with make_context():
        executable = _compiled(options, row.text(world.ranks[0]))
    COMPILERS.add(_WHO[type(executable).__name__])
    check_device(executable.program, None if isinstance(world, InProcess) else world)
    program = executable.program
    if row.expected is not None:
        outputs = world.run(executable, [[row.of_device[rank]] for rank in world.ranks])
        right = all(
            np.array_equal(result, expected)
            for rank, results in zip(world.ranks, outputs, strict=True)
            for expected, result in zip(row.expected(row.of_device, rank), results, strict=True)
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
