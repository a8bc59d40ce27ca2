"""The ops that read an empty tensor are named; those that only write to it are not."""

from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.checking.undefined_memory import reads_of_undefined

TEXT = """
func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.exp ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = linalg.matmul ins(%0, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>)
      -> tensor<4x4xf32>
  %2 = arith.addf %1, %e : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
"""


def test_ops_that_read_what_nothing_has_written() -> None:
    source = Source.of(TEXT, "f")
    with make_context(), source.file_locations():
        found = {str(each).partition(" op ")[0] for each in reads_of_undefined(source)}
    assert found == {"f:5:8: note: 'linalg.matmul'", "f:7:8: note: 'arith.addf'"}
