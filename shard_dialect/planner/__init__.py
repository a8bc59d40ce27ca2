"""Reshard plans: the cheapest collectives from one sharding of a tensor to another, without MLIR.

reshard_plan           a plan on one grid: the cheapest, or the fastest on a device model
across_grids           a plan from one grid to another
layouts/               the searches, on numbered axes, and the first guess that bounds them
prices                 the objective of plans: bytes, or time
permutation            the `Permute` from one sharding to another
halo_and_offset_steps  steps between shardings that differ in their halos or offsets
device_groups          from lists of devices to grid axes
"""

from shard_dialect.planner.across_grids import (
    CrossGridPlan,
    Transfer,
    permutes_across,
    plan_across_grids,
    plan_between,
)
from shard_dialect.planner.device_groups import Moves, axes_of_groups, moves_of_pairs
from shard_dialect.planner.halo_and_offset_steps import halo_steps
from shard_dialect.planner.layouts.layout import nests
from shard_dialect.planner.prices import BYTES, Prices, bytes_moved
from shard_dialect.planner.reshard_plan import Plan, plan

__all__ = [
    "BYTES",
    "CrossGridPlan",
    "Moves",
    "Plan",
    "Prices",
    "Transfer",
    "axes_of_groups",
    "bytes_moved",
    "halo_steps",
    "moves_of_pairs",
    "nests",
    "permutes_across",
    "plan",
    "plan_across_grids",
    "plan_between",
]
