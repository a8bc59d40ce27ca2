"""A backend of your own: numpy computes the local form on all devices, in step with each other.

python examples/library/numpy_backend.py
shard-run in.mlir --load-plugin=examples/library/numpy_backend.py --backend=numpy
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import shard_dialect as sd
from shard_dialect.bindings import ir

# What each op that a perceptron has computes on a device; constants are broadcast from scalars.
OPERATIONS: dict[str, Callable[..., Any]] = {
    "stablehlo.constant": lambda op: np.array(op.attributes["value"]),
    "stablehlo.broadcast_in_dim": lambda op, a: np.broadcast_to(a, op.results[0].type.shape),
    "stablehlo.maximum": lambda op, a, b: np.maximum(a, b),
    "stablehlo.dot_general": lambda op, a, b: a @ b,
}

# What the device at an index in its group has after a collective of the group's parts.
COLLECTIVES: dict[str, Callable[..., Any]] = {
    "all_reduce": lambda step, parts, at: sum(parts),
    "reduce_scatter": lambda step, parts, at: np.split(sum(parts), len(parts), step.cut_dim)[at],
    "all_gather": lambda step, parts, at: np.concatenate(parts, step.joined_dim),
}


@sd.register_backend("numpy")
class NumpyBackend:
    def __init__(self, module: ir.Module, entry: str) -> None:
        self.module = module
        self.block = ir.SymbolTable(module.operation)[entry].regions[0].blocks[0]

    def run(self, shards: list[list[Any]]) -> list[list[Any]]:
        values = [dict(zip(self.block.arguments, each, strict=True)) for each in shards]
        *ops, last = (op.operation for op in self.block.operations)
        for op in ops:
            operands = [[known[each] for each in op.operands] for known in values]
            site = sd.read_collective(op)
            if site is None:
                results = [OPERATIONS[op.name](op, *each) for each in operands]
            else:
                results = list(operands)
                for group in site.groups:
                    parts = [operands[rank][0] for rank in group]
                    for index, rank in enumerate(group):
                        results[rank] = COLLECTIVES[site.step.kind](site.step, parts, index)
            for known, result in zip(values, results, strict=True):
                known[op.results[0]] = result
        return [[known[each] for each in last.operands] for known in values]


if __name__ == "__main__":
    module = sd.parse(Path(__file__).parents[1] / "mlp_stablehlo.mlir")
    x, w1, w2 = (np.random.rand(*each).astype("f") for each in ((8, 16), (16, 64), (64, 16)))
    print(sd.compile(module, NumpyBackend).check(x, w1, w2))
