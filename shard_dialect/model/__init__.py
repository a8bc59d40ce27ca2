"""Grids, shardings, sharding rules and reshard plans as plain values; no MLIR in here."""

from shard_dialect.model.grid import Grid
from shard_dialect.model.plan import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Plan,
    ReduceScatter,
    ReshardError,
    Step,
    bytes_moved,
    plan,
)
from shard_dialect.model.rule import Assignment, ShardingRule
from shard_dialect.model.sharding import REDUCTIONS, Reduction, Sharding, ShardingError

__all__ = [
    "REDUCTIONS",
    "AllGather",
    "AllReduce",
    "AllSlice",
    "AllToAll",
    "Assignment",
    "Grid",
    "Plan",
    "ReduceScatter",
    "Reduction",
    "ReshardError",
    "Sharding",
    "ShardingError",
    "ShardingRule",
    "Step",
    "bytes_moved",
    "plan",
]
