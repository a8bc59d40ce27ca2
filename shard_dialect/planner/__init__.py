"""The cheapest collectives from one sharding of a tensor to another; no MLIR in here."""

from shard_dialect.planner.across_grids import Passage, Transfer, plan_between
from shard_dialect.planner.device_groups import Moves, axes_of_groups, moves_of_pairs
from shard_dialect.planner.halos import halo_steps
from shard_dialect.planner.reshard_plan import Plan, bytes_moved, plan

__all__ = [
    "Moves",
    "Passage",
    "Plan",
    "Transfer",
    "axes_of_groups",
    "bytes_moved",
    "halo_steps",
    "moves_of_pairs",
    "plan",
    "plan_between",
]
