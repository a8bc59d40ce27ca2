"""Loops of our own for linalg ops on buffers: fused, in an order that LLVM vectorizes."""

from shard_dialect.runtime.loops.booleans import store_as_bytes
from shard_dialect.runtime.loops.lower import to_loops
from shard_dialect.runtime.loops.parallel import mark_parallel

__all__ = ["mark_parallel", "store_as_bytes", "to_loops"]
