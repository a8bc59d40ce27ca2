"""A module that torch-mlir imports, annotated and sharded: any MLIR over the same bindings will do.

    pip install 'shard-dialect[torch]'
    python examples/library/torch_mlir_module.py

`sd.torch.partition` does more of it by itself; this is for those who have the MLIR already.
"""

from typing import Any

import numpy as np
import torch
from torch_mlir import fx

import shard_dialect as sd
from shard_dialect.bindings import ir

GRID = sd.Grid("mesh", (2, 2), axes=("data", "model"))


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(torch.nn.functional.gelu(self.up(x)))


def annotated(imported: Any) -> ir.Module:
    """The module with its rows split along one axis, and the columns after `up` along the other."""
    module = sd.parse(imported.operation.get_asm())
    block = ir.SymbolTable(module.operation)["main"].regions[0].blocks[0]
    with module.context:
        sd.annotate(block.arguments[0], GRID, [["data"], []])
        shape = "tensor<8x32xf32>"
        hidden = next(op for op in block if str(op.results[0].type) == shape)
        sd.annotate(hidden.results[0], GRID, [["data"], ["model"]])
    return module


if __name__ == "__main__":
    layer, x = Layer(), torch.randn(8, 16)
    with torch.no_grad():
        expected = layer(x).numpy()
    for kind in ("stablehlo", "linalg-on-tensors", "tosa"):
        imported = fx.export_and_import(layer, x, output_type=kind)
        program = sd.compile(annotated(imported))
        print(kind, program.report, sep="\n")
        np.testing.assert_allclose(program(x.numpy()), expected, rtol=1e-4, atol=1e-5)
