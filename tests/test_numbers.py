"""Programs whose numbers were wrong once, or right and refused by the check."""

from pathlib import Path

import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.checking.check import Verdict, check
from shard_dialect.runtime.checking.reference import JUDGES, Judge
from shard_dialect.runtime.communicators.world import InProcess
from shard_dialect.runtime.compile import compile_reference, compile_sharded
from shard_dialect.runtime.random_inputs import random_inputs
from tests.extras import needs

FOLDER = Path(__file__).parent / "numbers"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.mlir"))
NOT_BY_UPSTREAM = {
    "equal_elements",
    "language_model_in_bf16",
    "narrow_counts",
    "padding_of_padding",
    "windows_of_images",
    "windows_of_rows",
}
"""Windows that select, batched lookups, padding between elements of what is padded, and counting in
narrow floats are what upstream converts to something else."""
JUDGED = [
    pytest.param(name, by, marks=needs("jax") if by == "xla" else ())
    for name in PROGRAMS
    for by in JUDGES
    if by != "upstream" or name not in NOT_BY_UPSTREAM
    if by != "xla" or name != "sum_in_f16_between_f32"  # it is linalg's
]


def run(name: str, by: Judge, inputs: "list[Array] | None" = None) -> "tuple[list[Array], Verdict]":
    source = Source.read(str(FOLDER / f"{name}.mlir"))
    with make_context():
        executable = compile_sharded(source)
        reference = compile_reference(source, "main", by=by)
    file = FOLDER / f"{name}.in.npz"
    if inputs is None and file.exists():
        with np.load(file) as arrays:
            inputs = [arrays[f"arg{number}"] for number in range(len(arrays.files))]
    given = inputs or random_inputs(reference.arguments, 0)
    world = InProcess(executable.program.devices)
    shards = [executable.program.scatter(given, rank) for rank in world.ranks]
    outputs = world.run(executable, shards)
    verdict = check(executable, reference, given, outputs, world)
    return executable.program.gather(outputs), verdict


@needs("jax")
@pytest.mark.parametrize(("name", "by"), JUDGED)
def test_every_judge_says_that_it_is_right(name: str, by: Judge) -> None:
    _, verdict = run(name, by)
    assert verdict.passed, verdict.failure


@needs("jax")
def test_windows_of_images_select_what_numpy_selects() -> None:
    (found,), _ = run("windows_of_images", "self")
    with np.load(FOLDER / "windows_of_images.ref.npz") as arrays:
        np.testing.assert_array_equal(found, arrays["result0"])


@needs("jax")
def test_the_first_of_equal_elements_is_selected() -> None:
    x = np.array([[5, 5], [7, 7]], np.float32)
    y = np.array([[1], [2]], np.float32)
    (found,), _ = run("equal_elements", "self", [x, y])
    np.testing.assert_array_equal(found, [[1, 0], [2, 0]])


@needs("jax")
def test_a_long_product_in_bf16_adds_up_all() -> None:
    source = compile_types("long_product_in_bf16")
    (found,), _ = run("long_product_in_bf16", "self", [np.ones(s, d) for s, d in source])
    np.testing.assert_array_equal(found.astype(np.float32), 4096)


def compile_types(name: str) -> "list[tuple[tuple[int, ...], np.dtype[np.generic]]]":
    with make_context():
        reference = compile_reference(Source.read(str(FOLDER / f"{name}.mlir")), "main", by="self")
    return [(each.shape, each.dtype) for each in reference.arguments]


PADDED_AND_INSERTED = """
func.func @main(%x: tensor<3xf32>) -> tensor<7xf32> {
  %c = arith.constant 0.0 : f32
  %p = tensor.pad %x low[1] high[0] {
  ^bb0(%i: index):
    tensor.yield %c : f32
  } : tensor<3xf32> to tensor<4xf32>
  %e = tensor.empty() : tensor<7xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<7xf32>) -> tensor<7xf32>
  %r = tensor.insert_slice %p into %f[0] [4] [2] : tensor<4xf32> into tensor<7xf32>
  return %r : tensor<7xf32>
}
"""


def test_padding_that_is_inserted_with_strides() -> None:
    """Upstream's canonicalization inserts %x at 1, where %p begins with padding, and not at 2."""
    inputs = [np.array([1, 2, 3], np.float32)]
    with make_context():
        executable = compile_sharded(Source.of(PADDED_AND_INSERTED), "main")
    world = InProcess(1)
    ((result,),) = world.run(executable, [executable.program.scatter(inputs, 0)])
    assert result.tolist() == [0, 0, 1, 0, 2, 0, 3]
