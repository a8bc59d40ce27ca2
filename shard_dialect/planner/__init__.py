"""Reshard plans: the cheapest collectives from one sharding of a tensor to another, without MLIR.

reshard_plan    a plan on one grid
across_grids    a plan from one grid to another
layout, moves   shardings and steps in the form that the searches use
search, greedy  the cheapest steps, and the first guess that bounds them
time_search     the fastest steps on a device model
step_prices     what plans are compared by: bytes, or time
grid_steps      what a search found, as steps on a grid
permutation     the `Permute` from one sharding to another
halos           steps between shardings that differ in their halos
transfer_plan   what a transfer between parts of the devices moves
device_groups   from lists of devices to grid axes
"""

from shard_dialect.planner.across_grids import (
    CrossGridPlan,
    Transfer,
    permutes_across,
    plan_across_grids,
    plan_between,
)
from shard_dialect.planner.device_groups import Moves, axes_of_groups, moves_of_pairs
from shard_dialect.planner.halos import halo_steps
from shard_dialect.planner.layouts.greedy import common_prefix
from shard_dialect.planner.layouts.layout import nests
from shard_dialect.planner.operands import bytes_moved
from shard_dialect.planner.reshard_plan import Plan, plan
from shard_dialect.planner.step_prices import BYTES, Prices

__all__ = [
    "BYTES",
    "CrossGridPlan",
    "Moves",
    "Plan",
    "Prices",
    "Transfer",
    "axes_of_groups",
    "bytes_moved",
    "common_prefix",
    "halo_steps",
    "moves_of_pairs",
    "nests",
    "permutes_across",
    "plan",
    "plan_across_grids",
    "plan_between",
]
