"""Memory as our own code allocates it, and as XLA does."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.runtime.executable import Executable
from shard_dialect.testing import any_program
from tests.conftest import ROOT
from tests.extras import needs

EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))


def allocated(source: str | Path) -> int:
    module = sd.parse(source)
    sd.run_pipeline(module, "spmd,lower")
    return Executable(module, "main").code.arena


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_arena_is_what_the_compiled_program_has(path: Path) -> None:
    memory = sd.report(sd.parse(path), allocator="arena").memory
    outside = sum(each.bytes for each in memory.live_at_peak if each.name == "on its own")
    assert memory.temporaries - outside == allocated(path)
    held = memory.arguments + memory.results + memory.constants
    assert memory.peak == held + memory.temporaries
    assert max(moment.temporaries for moment in memory.timeline) <= allocated(path)


@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
def test_arenas_of_random_programs() -> None:
    compared = 0
    for seed in range(40):
        text = any_program(random.Random(seed)).text
        with suppress(ShardError):
            memory = sd.report(sd.parse(text), allocator="arena").memory
            outside = sum(each.bytes for each in memory.live_at_peak if each.name == "on its own")
            assert memory.temporaries - outside == allocated(text)
            compared += 1
    assert compared >= 20


CHAIN = """\
func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.tanh %0 : tensor<64x64xf32>
  %2 = stablehlo.add %1, %1 : tensor<64x64xf32>
  %3 = stablehlo.dot_general %2, %x, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %3 : tensor<64x64xf32>
}
"""
TENSOR = 64 * 64 * 4


def test_xla_stores_what_products_read() -> None:
    """One temporary: the first product, over which the sum is written."""
    memory = sd.report(sd.parse(CHAIN), allocator="xla").memory
    assert (memory.arguments, memory.results, memory.temporaries) == (TENSOR, TENSOR, TENSOR)
    assert memory.peak == 3 * TENSOR
    unfused = sd.report(sd.parse(CHAIN)).memory
    assert unfused.temporaries == 2 * TENSOR


CLOSE = ("convolution", "megatron", "mlp_1d", "mlp_2d", "mlp_stablehlo", "training_step")


@needs("jax")
@pytest.mark.parametrize("name", CLOSE)
def test_close_to_what_xla_says(name: str) -> None:
    from shard_dialect.backends.xla.xla_devices import XlaExecutable
    from shard_dialect.ir.bindings import ir

    path = ROOT / "examples" / f"{name}.mlir"
    modelled = sd.report(sd.parse(path), allocator="xla").memory.peak
    module = sd.parse(path)
    sd.run_pipeline(module, "spmd")
    with module.context, ir.Location.unknown():
        said = XlaExecutable(module, "main").memory()
    assert abs(modelled / said - 1) <= 0.1
