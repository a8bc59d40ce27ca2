"""Grids, shardings, sharding rules and collectives as plain values; no MLIR in here."""

from shard_dialect.model.annotation import Annotation
from shard_dialect.model.axis import Axes, Axis, SubAxis
from shard_dialect.model.collectives import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    ChangeOffsets,
    CropHalo,
    Mask,
    Permute,
    ReduceScatter,
    ReshardError,
    Step,
    UpdateHalo,
)
from shard_dialect.model.factor_projection import EQUAL, Extents
from shard_dialect.model.grid import Grid
from shard_dialect.model.manual_boundary import ManualBoundary
from shard_dialect.model.rule import Assignment, ShardingRule, Window
from shard_dialect.model.sharding import REDUCTIONS, Reduction, Sharding, ShardingError
from shard_dialect.model.sub_cluster import SubCluster
from shard_dialect.model.window import Windows

__all__ = [
    "EQUAL",
    "REDUCTIONS",
    "AllGather",
    "AllReduce",
    "AllSlice",
    "AllToAll",
    "Annotation",
    "Assignment",
    "Axes",
    "Axis",
    "ChangeOffsets",
    "CropHalo",
    "Extents",
    "Grid",
    "ManualBoundary",
    "Mask",
    "Permute",
    "ReduceScatter",
    "Reduction",
    "ReshardError",
    "Sharding",
    "ShardingError",
    "ShardingRule",
    "Step",
    "SubAxis",
    "SubCluster",
    "UpdateHalo",
    "Window",
    "Windows",
]
