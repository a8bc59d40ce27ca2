"""XLA's order of ops, and what it copies, as the model of its memory has them."""

import pytest

import shard_dialect as sd
from shard_dialect.analysis.costs.allocators import breadth_first
from shard_dialect.analysis.costs.local_ops import Op
from shard_dialect.analysis.costs.memory import fused_ops
from tests.analysis.local_programs import local
from tests.conftest import ROOT
from tests.extras import needs


def order(text: str, *, fuse: bool = False) -> list[str]:
    """The names of the ops' results, in XLA's order."""
    program = local(text)
    fused = fused_ops(program.entry.blocks) if fuse else frozenset()

    def is_fused(op: Op) -> bool:
        return id(op) in fused

    ops = breadth_first(program, is_fused).entry.body.ops
    return [each.name for op in ops for each in op.results]


CHAIN = """
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = stablehlo.negate %w : tensor<4x4xf32>
  %d = stablehlo.dot_general %b, %c, contracting_dims = [1] x [0]
    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}
"""


def test_what_reads_arguments_comes_first() -> None:
    assert order(CHAIN) == ["%0", "%2", "%1", "%3"]


def test_what_is_fused_comes_with_its_reader() -> None:
    product = "stablehlo.dot_general %b, %c, contracting_dims = [1] x [0]"
    types = "\n    : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>"
    sum_ = "stablehlo.add %b, %c : tensor<4x4xf32>"
    assert product + types in CHAIN
    text = CHAIN.replace(product + types, sum_)
    assert order(text, fuse=True) == ["%0", "%1", "%2", "%3"]


@needs("jax")
@pytest.mark.parametrize("name", ["mlp_1d", "mlp_2d", "slow_ffn", "convolution", "training_step"])
def test_the_modelled_peak_is_near_that_of_xla(name: str) -> None:
    from benchmarks.memory import by_xla

    path = ROOT / "examples" / f"{name}.mlir"
    modelled = sd.report(sd.parse(path), allocator="xla").memory.peak
    assert modelled == pytest.approx(by_xla(path), rel=0.02)
