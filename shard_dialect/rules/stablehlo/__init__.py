"""StableHLO: what its ops make of shards.

A file holds one family of ops, this one the two tables. The factors of each rule, their order and
which are blocked are Shardy's, so that shardings propagate alike; which of them may be split is
stricter: on shards an op is simply run, and must make the very shards of its result.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.rules.partitioning import CutFunction
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo import (
    collective_rules,
    contractions,
    custom_call,
    data_movement,
    dynamic_slices,
    gather_scatter,
    linear_algebra,
    reduction_rules,
    sharded_gather_scatter,
)

_ELEMENTWISE = (
    "abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide "
    "exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum "
    "minimum multiply negate not or popcnt power real reduce_precision remainder round_nearest_afz "
    "round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign "
    "sine sqrt subtract tan tanh xor constant"
).split()
_ON_ALL_DEVICES = ("all_reduce", "collective_broadcast", "collective_permute", "cross-replica-sum")

_BY_NAME: dict[str, Callable[[Query], ShardingRule | None]] = {
    **dict.fromkeys(_ELEMENTWISE, data_movement.elementwise),
    **dict.fromkeys(_ON_ALL_DEVICES, data_movement.all_whole),
    "all_gather": collective_rules.changing("all_gather_dim"),
    "all_to_all": collective_rules.changing("split_dimension", "concat_dimension"),
    "batch_norm_grad": linear_algebra.batch_norm,
    "batch_norm_inference": linear_algebra.batch_norm_inference,
    "batch_norm_training": linear_algebra.batch_norm,
    "bitcast_convert": data_movement.bitcast_convert,
    "broadcast_in_dim": data_movement.broadcast_in_dim,
    "cholesky": data_movement.of_matrices,
    "concatenate": data_movement.concatenate,
    "convolution": contractions.convolution,
    "custom_call": custom_call.custom_call,
    "dot": contractions.dot,
    "dot_general": contractions.dot_general,
    "dynamic_slice": dynamic_slices.dynamic_slice,
    "dynamic_update_slice": dynamic_slices.dynamic_update_slice,
    "fft": linear_algebra.fft,
    "gather": gather_scatter.gather,
    "iota": data_movement.iota,
    "map": data_movement.alike,
    "pad": data_movement.pad,
    "reduce": reduction_rules.reduce,
    "reduce_scatter": collective_rules.changing("scatter_dimension"),
    "reduce_window": reduction_rules.reduce_window,
    "reshape": data_movement.reshape,
    "reverse": data_movement.reverse,
    "rng": linear_algebra.rng,
    "rng_bit_generator": linear_algebra.rng_bit_generator,
    "scatter": gather_scatter.scatter,
    "select_and_scatter": reduction_rules.select_and_scatter,
    "slice": data_movement.slice_,
    "sort": linear_algebra.sort,
    "transpose": data_movement.transpose,
    "triangular_solve": linear_algebra.triangular_solve,
}

RULES = {f"stablehlo.{name}": rule for name, rule in _BY_NAME.items()}

CUTS: dict[str, CutFunction] = {
    "stablehlo.concatenate": data_movement.cut_concatenate,
    "stablehlo.convolution": contractions.cut_convolution,
    "stablehlo.dynamic_slice": dynamic_slices.cut_dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_slices.cut_dynamic_update_slice,
    "stablehlo.reduce_window": reduction_rules.cut_reduce_window,
    "stablehlo.gather": sharded_gather_scatter.cut_gather,
    "stablehlo.scatter": sharded_gather_scatter.cut_scatter,
    "stablehlo.iota": data_movement.cut_iota,
    "stablehlo.pad": data_movement.cut_pad,
    "stablehlo.slice": data_movement.cut_slice,
}
