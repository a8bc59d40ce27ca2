"""`bufferization` ops on tensors, and the globals of `ml_program`.

Every device has its own copy of a global. Loads and stores are unsharded, so that all copies stay
equal.
"""

from __future__ import annotations

from shard_dialect.model import ShardingRule
from shard_dialect.ops.factors import Query, elementwise, no_factors
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.ops.scalar_functions import Trait


def materialize_in_destination(query: Query) -> ShardingRule | None:
    """Elementwise where the destination is a tensor; buffers are not split."""
    return elementwise(query) if query.results else no_factors(query)


def _global(name: str) -> OpRecord:
    sample = Later("testing.samples.tensor_samples:global_", (name,))
    return OpRecord(no_factors, sample=sample, not_run="nothing lowers globals of tensors")


def _buffer(name: str) -> OpRecord:
    sample = Later("testing.samples.tensor_samples:buffer", (name,))
    return OpRecord(no_factors, sample=sample, not_run="a program is lowered from tensors alone")


RECORDS: dict[str, OpRecord] = {
    "bufferization.alloc_tensor": OpRecord(
        elementwise,
        sample=Later("testing.samples.tensor_samples:alloc_tensor"),
        stablehlo=Later("passes.lower.to_stablehlo.stablehlo_slices:allocated"),
    ),
    "bufferization.materialize_in_destination": OpRecord(
        materialize_in_destination,
        sample=Later("testing.samples.tensor_samples:materialize"),
        lowering=Later("passes.lower.expansions.upstream_workarounds:materialize"),
        stablehlo=Later("passes.lower.to_stablehlo.stablehlo_slices:same"),
        traits=Trait.MOVES,
    ),
    "bufferization.to_buffer": _buffer("bufferization.to_buffer"),
    "bufferization.to_tensor": _buffer("bufferization.to_tensor"),
    "ml_program.global_load": _global("ml_program.global_load"),
    "ml_program.global_load_const": _global("ml_program.global_load_const"),
    "ml_program.global_load_graph": OpRecord(no_factors),
    "ml_program.global_store": _global("ml_program.global_store"),
    "ml_program.global_store_graph": OpRecord(no_factors),
}
