"""A judge of your own: who says what the unsharded program computes, and so what a check finds.

    python examples/library/judge.py
    shard-run in.mlir --load-plugin=examples/library/judge.py --check --reference-by=interpreter

A check compares with what the judge computes, which is not given any sharding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import shard_dialect as sd
from shard_dialect.bindings import ir

OPERATIONS: dict[str, Callable[..., Any]] = {
    "stablehlo.dot_general": lambda a, b: a @ b,
    "stablehlo.tanh": np.tanh,
    "stablehlo.add": np.add,
}


@sd.register_judge("interpreter")
def interpreter(module: ir.Module, entry: str) -> Callable[[list[Any]], list[Any]]:
    """The function `entry`, which has no shardings, as a function from arrays to arrays."""
    block = ir.SymbolTable(module.operation)[entry].regions[0].blocks[0]
    *ops, last = (op.operation for op in block)
    if unknown := {op.name for op in ops} - OPERATIONS.keys():
        raise sd.CannotJudge(f"it does not know {', '.join(unknown)}")

    def run(arrays: list[Any]) -> list[Any]:
        assert module  # which owns the block, and lives as long as this function
        known: dict[ir.Value, Any] = dict(zip(block.arguments, arrays, strict=True))
        for op in ops:
            known[op.result] = OPERATIONS[op.name](*(known[each] for each in op.operands))
        return [known[each] for each in last.operands]

    return run


MODULE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x8xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>},
                %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.tanh %x : tensor<4x8xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
    : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
"""

if __name__ == "__main__":
    program = sd.compile(sd.parse(MODULE))
    print(program.check(judge="interpreter"))
    expected = program.check(judge=lambda *_: lambda each: [np.matmul(np.tanh(each[0]), each[1])])
    wrong = program.check(judge=lambda *_: lambda each: [np.matmul(*each)])
    print(expected, wrong, sep="\n")
    assert expected.passed
    assert not wrong.passed
