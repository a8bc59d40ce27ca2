"""StableHLO: what its ops make of pieces.

A file holds one family of ops, this one the two tables. The factors of each rule, their order and
which are blocked are Shardy's, so that shardings propagate alike; which of them may be split is
stricter: on pieces an op is simply run, and must make the very pieces of its result.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.model import ShardingRule
from shard_dialect.rules.cut import CutFunction
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo import (
    collective,
    contraction,
    custom_call,
    decomposition,
    dynamic,
    indexing,
    layout,
    pieces,
    reduction,
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
    **dict.fromkeys(_ELEMENTWISE, layout.elementwise),
    **dict.fromkeys(_ON_ALL_DEVICES, layout.all_whole),
    "all_gather": collective.changing("all_gather_dim"),
    "all_to_all": collective.changing("split_dimension", "concat_dimension"),
    "batch_norm_grad": decomposition.batch_norm,
    "batch_norm_inference": decomposition.batch_norm_inference,
    "batch_norm_training": decomposition.batch_norm,
    "bitcast_convert": layout.bitcast_convert,
    "broadcast_in_dim": layout.broadcast_in_dim,
    "cholesky": layout.of_matrices,
    "concatenate": layout.concatenate,
    "convolution": contraction.convolution,
    "custom_call": custom_call.custom_call,
    "dot": contraction.dot,
    "dot_general": contraction.dot_general,
    "dynamic_slice": dynamic.dynamic_slice,
    "dynamic_update_slice": dynamic.dynamic_update_slice,
    "fft": decomposition.fft,
    "gather": indexing.gather,
    "iota": layout.iota,
    "map": layout.alike,
    "pad": layout.pad,
    "reduce": reduction.reduce,
    "reduce_scatter": collective.changing("scatter_dimension"),
    "reduce_window": reduction.reduce_window,
    "reshape": layout.reshape,
    "reverse": layout.reverse,
    "rng": decomposition.rng,
    "rng_bit_generator": decomposition.rng_bit_generator,
    "scatter": indexing.scatter,
    "select_and_scatter": reduction.select_and_scatter,
    "slice": layout.slice_,
    "sort": decomposition.sort,
    "transpose": layout.transpose,
    "triangular_solve": decomposition.triangular_solve,
}

RULES = {f"stablehlo.{name}": rule for name, rule in _BY_NAME.items()}

CUTS: dict[str, CutFunction] = {
    "stablehlo.concatenate": layout.cut_concatenate,
    "stablehlo.convolution": contraction.cut_convolution,
    "stablehlo.dynamic_slice": dynamic.cut_dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic.cut_dynamic_update_slice,
    "stablehlo.reduce_window": reduction.cut_reduce_window,
    "stablehlo.gather": pieces.cut_gather,
    "stablehlo.scatter": pieces.cut_scatter,
    "stablehlo.iota": layout.cut_iota,
    "stablehlo.pad": layout.cut_pad,
    "stablehlo.slice": layout.cut_slice,
}
