"""Grids, shardings and sharding rules as plain values; no MLIR in here."""

from shard_dialect.model.annotation import Annotation
from shard_dialect.model.factor_projection import EQUAL, Extents
from shard_dialect.model.grid import Axes, Axis, Grid, GridAxes, SubAxis
from shard_dialect.model.manual_boundary import ManualBoundary
from shard_dialect.model.rule import Assignment, ShardingRule, Window
from shard_dialect.model.sharding import REDUCTIONS, Reduction, Sharding, ShardingError
from shard_dialect.model.sub_cluster import SubCluster
from shard_dialect.model.windows import Windows

__all__ = [
    "EQUAL",
    "REDUCTIONS",
    "Annotation",
    "Assignment",
    "Axes",
    "Axis",
    "Extents",
    "Grid",
    "GridAxes",
    "ManualBoundary",
    "Reduction",
    "Sharding",
    "ShardingError",
    "ShardingRule",
    "SubAxis",
    "SubCluster",
    "Window",
    "Windows",
]
