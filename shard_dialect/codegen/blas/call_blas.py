"""Replace matrix products and convolutions by calls of BLAS."""

from __future__ import annotations

from shard_dialect.codegen.blas import convolutions, products
from shard_dialect.codegen.blas.numpy_blas import Gemm
from shard_dialect.codegen.blas.zero_fill import forget_zeros
from shard_dialect.codegen.kernels import Kernels
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk


def call_blas(module: ir.Operation, kernels: Kernels) -> list[str]:
    """Replace products by calls; return the names of the called functions."""
    called: list[str] = []
    for op in walk(module):
        product = products.read(op) or convolutions.read(op)
        gemm = Gemm.of(product.element) if product else None
        if product is None or gemm is None:
            continue
        if gemm.name not in called:
            gemm.declare(module)
            called.append(gemm.name)
        adds = not forget_zeros(op, op.operands[2])
        with ir.InsertionPoint(op), op.location:
            product.write(gemm, kernels, adds=adds)
        op.erase()
    return called
