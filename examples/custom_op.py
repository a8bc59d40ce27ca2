"""An op of your own: its dialect, how it is sharded, and what it computes.

    pip install shard-dialect
    python examples/custom_op.py

`example.softcap` is tanh(x / cap) * cap, elementwise, so its rule relates each dimension of its
operand to the same of its result, and its lowering writes ops that the compiler knows.
"""

import numpy as np

import shard_dialect as sd
from shard_dialect.ir.bindings import ir

sd.register_dialect(
    "example",
    """
    irdl.dialect @example {
      irdl.operation @softcap {
        %any = irdl.any
        %same = irdl.any
        irdl.operands(x: %any)
        irdl.results(y: %same)
      }
    }
    """,
)


def lower_softcap(op):
    """The values of the op's results, computed by ops of `arith` and `math`."""
    (x,) = op.operands
    number = ir.FloatAttr.get(x.type.element_type, op.attributes["cap"].value)
    dense = ir.DenseElementsAttr.get_splat(x.type, number)
    cap = ir.Operation.create("arith.constant", [x.type], attributes={"value": dense}).result
    value = ir.Operation.create("arith.divf", [x.type], [x, cap]).result
    value = ir.Operation.create("math.tanh", [x.type], [value]).result
    return [ir.Operation.create("arith.mulf", [x.type], [value, cap]).result]


@sd.sharding_rule("example.softcap", lowering=lower_softcap)
def softcap(query):
    """Every dimension may be split."""
    return sd.ShardingRule.einsum("ij->ij", query.operands, query.results)


MODULE = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<8x16xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> tensor<8x16xf32> {
  %y = "example.softcap"(%x) {cap = 2.0 : f32} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
"""

if __name__ == "__main__":
    program = sd.compile(sd.parse(MODULE))
    print(program.report)
    x = np.random.default_rng(0).standard_normal((8, 16), np.float32)
    np.testing.assert_allclose(program(x), np.tanh(x / 2) * 2, rtol=1e-5)
    print("equal to numpy's")
