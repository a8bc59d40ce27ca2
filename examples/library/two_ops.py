"""A dialect of two ops: each with its rule, what it computes, and what it costs.

    python examples/library/two_ops.py
    shard-run in.mlir --load-plugin=examples/library/two_ops.py --check

Devices that have parts of rows add up their row sums; `norms.scale` multiplies rows by numbers.
"""

from math import prod

import shard_dialect as sd
from shard_dialect.bindings import ir

sd.register_dialect(
    "norms",
    """
    irdl.dialect @norms {
      irdl.operation @row_sums {
        %a = irdl.any %b = irdl.any irdl.operands(x: %a) irdl.results(sums: %b)
      }
      irdl.operation @scale {
        %a = irdl.any %b = irdl.any irdl.operands(x: %a, by: %b) irdl.results(y: %a)
      }
    }
    """,
)


def lower_row_sums(op: ir.Operation) -> list[ir.Value]:
    axis = {"axis": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)}
    return [ir.Operation.create("tosa.reduce_sum", [op.results[0].type], op.operands, axis).result]


def lower_scale(op: ir.Operation) -> list[ir.Value]:
    x, by = op.operands
    dims = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([0, 1])}
    rows = ir.Operation.create("stablehlo.broadcast_in_dim", [x.type], [by], dims).result
    return [ir.Operation.create("stablehlo.multiply", [x.type], [x, rows]).result]


# Dimensions of one letter are split together; `j` is added up, and `*` is never split.
sums = sd.sharding_rule(
    "norms.row_sums", lowering=lower_row_sums, operations=lambda op: prod(op.shape(0))
)
sums("([i, j]) -> ([i, *]) reduction={j}")
sd.sharding_rule("norms.scale", lowering=lower_scale, operations=1)("([i, j], [i, *]) -> ([i, j])")

MODULE = """
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<8x6xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>}) -> tensor<8x6xf32> {
  %0 = "norms.row_sums"(%x) : (tensor<8x6xf32>) -> tensor<8x1xf32>
  %1 = "norms.scale"(%x, %0) : (tensor<8x6xf32>, tensor<8x1xf32>) -> tensor<8x6xf32>
  return %1 : tensor<8x6xf32>
}
"""

if __name__ == "__main__":
    program = sd.compile(sd.parse(MODULE))
    print(program.report, f"{sd.report(sd.parse(MODULE)).compute.flops} operations", sep="\n")
    assert program.check(judge=lambda *_: lambda x: [x[0] * x[0].sum(1, keepdims=True)]).passed
