"""Lower linalg ops on buffers to our own loops: fused, in an order that LLVM vectorizes."""

from shard_dialect.codegen.loops.lower_loops import to_loops
from shard_dialect.codegen.loops.outline_loops import outline_loops
from shard_dialect.codegen.loops.padded_accesses import store_padded
from shard_dialect.codegen.loops.parallel import mark_parallel

__all__ = ["mark_parallel", "outline_loops", "store_padded", "to_loops"]
