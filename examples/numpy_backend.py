"""A backend of your own: numpy computes the local form on all devices, in step with each other.

    python examples/numpy_backend.py

With `--load-plugin examples/numpy_backend.py`, `shard-run --backend=numpy` uses it, too.
"""

from pathlib import Path

import numpy as np

import shard_dialect as sd
from shard_dialect.ir.bindings import ir

ELEMENTWISE = {
    "stablehlo.add": np.add,
    "stablehlo.multiply": np.multiply,
    "stablehlo.maximum": np.maximum,
    "stablehlo.tanh": np.tanh,
}


@sd.register_backend("numpy")
class NumpyBackend:
    """Executes the few ops that a perceptron has."""

    def __init__(self, module, entry):
        self.module = module
        symbols = ir.SymbolTable(module.operation)
        self.block = symbols[entry].regions[0].blocks[0]

    def run(self, shards):
        """Each device's results, in step with the others."""
        values = [dict(zip(self.block.arguments, each, strict=True)) for each in shards]
        *ops, last = (op.operation for op in self.block.operations)
        for op in ops:
            operands = [[known[each] for each in op.operands] for known in values]
            for known, result in zip(values, self.results(op, operands), strict=True):
                known[op.results[0]] = result
        return [[known[each] for each in last.operands] for known in values]

    def results(self, op, operands):
        """The result of an op on each device."""
        site = sd.read_collective(op)
        if site is not None:
            return self.communicated(site, [each[0] for each in operands])
        if op.name == "stablehlo.constant":
            return [np.array(op.attributes["value"])] * len(operands)
        if op.name == "stablehlo.broadcast_in_dim":  # of scalars
            return [np.broadcast_to(each, op.results[0].type.shape) for (each,) in operands]
        if op.name == "stablehlo.dot_general":
            return [a @ b for a, b in operands]
        if op.name in ELEMENTWISE:
            return [ELEMENTWISE[op.name](*each) for each in operands]
        raise NotImplementedError(f"'{op.name}' op")

    def communicated(self, site, operands):
        """What each device has after a collective: of the operands of its group."""
        results = list(operands)
        for group in site.groups:
            for index, rank in enumerate(group):
                parts = [operands[each] for each in group]
                if site.step.kind == "all_reduce":
                    results[rank] = sum(parts)
                elif site.step.kind == "reduce_scatter":
                    results[rank] = np.split(sum(parts), len(group), site.step.dim)[index]
                elif site.step.kind == "all_gather":
                    results[rank] = np.concatenate(parts, site.step.dim)
                else:
                    raise NotImplementedError(site.step.kind)
        return results


def main():
    """Run a perceptron by numpy, and compare."""
    module = sd.parse(Path(__file__).with_name("mlp_stablehlo.mlir"))
    rng = np.random.default_rng(0)
    shapes = ((8, 16), (16, 64), (64, 16))
    x, w1, w2 = (rng.standard_normal(each, np.float32) for each in shapes)
    y = sd.run(module, x, w1, w2, backend=NumpyBackend)
    print("largest difference:", abs(y - np.maximum(x @ w1, 0) @ w2).max())
    print(sd.compile(module, NumpyBackend).check(x, w1, w2))


if __name__ == "__main__":
    main()
