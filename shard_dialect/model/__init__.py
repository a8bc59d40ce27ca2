"""Grids, shardings, sharding rules and reshard plans as plain values; no MLIR in here."""

from shard_dialect.model.annotation import Annotation
from shard_dialect.model.axis import Axes, Axis, SubAxis
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
    "Annotation",
    "Assignment",
    "Axes",
    "Axis",
    "Grid",
    "Plan",
    "ReduceScatter",
    "Reduction",
    "ReshardError",
    "Sharding",
    "ShardingError",
    "ShardingRule",
    "Step",
    "SubAxis",
    "bytes_moved",
    "plan",
]
