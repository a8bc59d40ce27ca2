"""Rewrite patterns of MLIR's bindings, in Python and in PDL, in a pass between ours.

python examples/library/patterns_and_pdl.py
shard-opt in.mlir --load-plugin=examples/library/patterns_and_pdl.py --simplify
"""

from typing import Any

import shard_dialect as sd
from shard_dialect.bindings import ir, submodule

rewrite = submodule("rewrite")


def drop_transposes(op: ir.Operation, rewriter: Any) -> Any:
    inner = op.operands[0].owner
    is_one = not isinstance(inner, ir.Block) and inner.operation.name == op.name
    return not is_one or rewriter.replace_op(op, inner.operation.operands[:1])  # true: no match


PDL = """
pdl.pattern : benefit(1) {
  %type = pdl.type
  %x = pdl.operand : %type
  %inner = pdl.operation "stablehlo.negate"(%x : !pdl.value) -> (%type : !pdl.type)
  %y = pdl.result 0 of %inner
  %op = pdl.operation "stablehlo.negate"(%y : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op { pdl.replace %op with (%x : !pdl.value) }
}
"""


@sd.register_pass
class Simplify(sd.Pass):
    """Drop transposes of transposes of matrices, and negations of negations."""

    name = "simplify"

    def rewrite(self, module: ir.Operation) -> None:
        patterns = rewrite.RewritePatternSet()
        patterns.add("stablehlo.transpose", drop_transposes)
        rewrite.apply_patterns_and_fold_greedily(module, patterns.freeze())
        pdl = ir.Module.parse(PDL)  # has a name: the bindings' patterns end with the module
        rewrite.apply_patterns_and_fold_greedily(module, rewrite.PDLModule(pdl).freeze())


MODULE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<4x6xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %2 = stablehlo.negate %1 : tensor<4x6xf32>
  %3 = stablehlo.negate %2 : tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}
"""
if __name__ == "__main__":
    module = sd.run_pipeline(sd.parse(MODULE), "simplify,spmd")
    assert "stablehlo" not in sd.to_text(module)
    assert sd.prove(sd.parse(MODULE), module).answer == "proven"
