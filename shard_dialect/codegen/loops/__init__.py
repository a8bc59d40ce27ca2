"""Loops of our own for linalg ops on buffers: fused, in an order that LLVM vectorizes."""

from shard_dialect.codegen.loops.lower_loops import to_loops
from shard_dialect.codegen.loops.padded_accesses import store_padded
from shard_dialect.codegen.loops.parallel import mark_parallel

__all__ = ["mark_parallel", "store_padded", "to_loops"]
