"""Grids, shardings, sharding rules and reshard plans as plain values; no MLIR in here."""

from shard_dialect.model.annotation import Annotation
from shard_dialect.model.axis import Axes, Axis, SubAxis
from shard_dialect.model.between import Passage, Transfer, plan_between
from shard_dialect.model.grid import Grid
from shard_dialect.model.groups import Moves, axes_of_groups, moves_of_pairs
from shard_dialect.model.halos import halo_steps
from shard_dialect.model.manual import Edge
from shard_dialect.model.part import Part, stage_axis
from shard_dialect.model.plan import Plan, bytes_moved, plan
from shard_dialect.model.rule import Assignment, ShardingRule, Window
from shard_dialect.model.sharding import REDUCTIONS, Reduction, Sharding, ShardingError
from shard_dialect.model.steps import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    CropHalo,
    Mask,
    Permute,
    ReduceScatter,
    ReshardError,
    Step,
    UpdateHalo,
)
from shard_dialect.model.window import Windows

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
    "CropHalo",
    "Edge",
    "Grid",
    "Mask",
    "Moves",
    "Part",
    "Passage",
    "Permute",
    "Plan",
    "ReduceScatter",
    "Reduction",
    "ReshardError",
    "Sharding",
    "ShardingError",
    "ShardingRule",
    "Step",
    "SubAxis",
    "Transfer",
    "UpdateHalo",
    "Window",
    "Windows",
    "axes_of_groups",
    "bytes_moved",
    "halo_steps",
    "moves_of_pairs",
    "plan",
    "plan_between",
    "stage_axis",
]
