"""The records of StableHLO's ops, one file for each family of ops.

The factors of each rule, their order and which are blocked are Shardy's, so that shardings
propagate as in Shardy. Which factors may be split is stricter than in Shardy: an op that runs on
shards must compute exactly the shards of its result.
"""

from __future__ import annotations

from shard_dialect.rules.op_record import OpRecord, alike
from shard_dialect.rules.padding import anything, identities, identities_of_updates
from shard_dialect.rules.partial_values import (
    adds,
    chooses,
    converts,
    divides,
    joins,
    moves,
    multiplies,
    negates,
    reduces,
    scales,
    takes_maximum,
    takes_minimum,
)
from shard_dialect.rules.stablehlo import (
    collective_rules,
    contractions,
    custom_call,
    data_movement,
    dynamic_slices,
    gather_scatter,
    linear_algebra,
    partition_gather_scatter,
    reduction_rules,
)

_ELEMENTWISE = (
    "abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide "
    "exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum "
    "minimum multiply negate not or popcnt power real reduce_precision remainder round_nearest_afz "
    "round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign "
    "sine sqrt subtract tan tanh xor constant"
).split()
_ON_ALL_DEVICES = ("all_reduce", "collective_broadcast", "collective_permute", "cross-replica-sum")

RECORDS: dict[str, OpRecord] = {
    **alike("stablehlo", _ELEMENTWISE, OpRecord(data_movement.elementwise)),
    **alike("stablehlo", _ON_ALL_DEVICES, OpRecord(data_movement.all_replicated)),
    "stablehlo.add": OpRecord(data_movement.elementwise, partial=adds),
    "stablehlo.all_gather": OpRecord(collective_rules.changing("all_gather_dim")),
    "stablehlo.all_to_all": OpRecord(
        collective_rules.changing("split_dimension", "concat_dimension")
    ),
    "stablehlo.batch_norm_grad": OpRecord(linear_algebra.batch_norm),
    "stablehlo.batch_norm_inference": OpRecord(linear_algebra.batch_norm_inference),
    "stablehlo.batch_norm_training": OpRecord(linear_algebra.batch_norm),
    "stablehlo.bitcast_convert": OpRecord(data_movement.bitcast_convert),
    "stablehlo.broadcast_in_dim": OpRecord(data_movement.broadcast_in_dim, partial=moves),
    "stablehlo.cholesky": OpRecord(data_movement.of_matrices),
    "stablehlo.concatenate": OpRecord(
        data_movement.concatenate, partition=data_movement.partition_concatenate, partial=joins
    ),
    "stablehlo.convert": OpRecord(data_movement.elementwise, partial=converts),
    "stablehlo.convolution": OpRecord(
        contractions.convolution,
        partition=contractions.partition_convolution,
        padding=identities,
        partial=scales,
    ),
    "stablehlo.custom_call": OpRecord(custom_call.custom_call),
    "stablehlo.divide": OpRecord(data_movement.elementwise, partial=divides),
    "stablehlo.dot": OpRecord(contractions.dot, padding=identities),
    "stablehlo.dot_general": OpRecord(contractions.dot_general, padding=identities, partial=scales),
    "stablehlo.dynamic_slice": OpRecord(
        dynamic_slices.dynamic_slice,
        partition=dynamic_slices.partition_dynamic_slice,
        padding=identities,
    ),
    "stablehlo.dynamic_update_slice": OpRecord(
        dynamic_slices.dynamic_update_slice, partition=dynamic_slices.partition_dynamic_update_slice
    ),
    "stablehlo.fft": OpRecord(linear_algebra.fft),
    "stablehlo.gather": OpRecord(
        gather_scatter.gather,
        partition=partition_gather_scatter.partition_gather,
        padding=anything,
        partial=moves,
    ),
    "stablehlo.iota": OpRecord(data_movement.iota, partition=data_movement.partition_iota),
    "stablehlo.map": OpRecord(data_movement.alike),
    "stablehlo.maximum": OpRecord(data_movement.elementwise, partial=takes_maximum),
    "stablehlo.minimum": OpRecord(data_movement.elementwise, partial=takes_minimum),
    "stablehlo.multiply": OpRecord(data_movement.elementwise, partial=multiplies),
    "stablehlo.negate": OpRecord(data_movement.elementwise, partial=negates),
    "stablehlo.pad": OpRecord(data_movement.pad, partition=data_movement.partition_pad),
    "stablehlo.reduce": OpRecord(reduction_rules.reduce, padding=identities, partial=reduces),
    "stablehlo.reduce_scatter": OpRecord(collective_rules.changing("scatter_dimension")),
    "stablehlo.reduce_window": OpRecord(
        reduction_rules.reduce_window, partition=reduction_rules.partition_reduce_window
    ),
    "stablehlo.reshape": OpRecord(data_movement.reshape, partial=moves),
    "stablehlo.reverse": OpRecord(data_movement.reverse, partial=moves),
    "stablehlo.rng": OpRecord(linear_algebra.rng),
    "stablehlo.rng_bit_generator": OpRecord(linear_algebra.rng_bit_generator),
    "stablehlo.scatter": OpRecord(
        gather_scatter.scatter,
        partition=partition_gather_scatter.partition_scatter,
        padding=identities_of_updates,
    ),
    "stablehlo.select": OpRecord(data_movement.elementwise, partial=chooses),
    "stablehlo.select_and_scatter": OpRecord(reduction_rules.select_and_scatter),
    "stablehlo.slice": OpRecord(
        data_movement.slice_, partition=data_movement.partition_slice, partial=moves
    ),
    "stablehlo.sort": OpRecord(linear_algebra.sort),
    "stablehlo.subtract": OpRecord(data_movement.elementwise, partial=adds),
    "stablehlo.transpose": OpRecord(data_movement.transpose, partial=moves),
    "stablehlo.triangular_solve": OpRecord(linear_algebra.triangular_solve),
}
