"""StableHLO's reductions, over dimensions and over windows.

    reduce by add over [1]           ([a, b], []) -> ([a]) reduction={b: sum}
    argmax over [1]                  ([a, b], [a, b], [], []) -> ([a], [a]) whole={b}
    reduce_window of 1x2             ([a, b], []) -> ([a, b]) permuted={b}, read in windows

A reduced dimension may be split only if a collective can combine the partial results: by one
reduction, with inits that change nothing if they are counted once per device.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.partitioned_op import PartitionedOp
from shard_dialect.rules.rule_query import Query
from shard_dialect.rules.stablehlo.attribute_reading import integers
from shard_dialect.rules.stablehlo.combiner import combiner, may_repeat_inits
from shard_dialect.rules.stablehlo.window_attributes import windows_of, write_padding
from shard_dialect.rules.window_shards import WindowDimension, padding_of


def reduce(query: Query) -> ShardingRule | None:
    """The rule of `reduce(inputs, inits)`: each input has a scalar init, and a result."""
    factors = Factors(query)
    count = len(factors.results)
    gone = integers(query.op, "dimensions")
    joined = combiner(query.op, count)
    inits = list(query.op.operands)[count:]
    kind: Kind = joined if joined and may_repeat_inits(joined, inits) else "need_replication"
    kept = 0
    for dim, size in enumerate(factors.operands[0]):
        if dim in gone:
            factors.add(size, (dim,) * count, (), kind)
        else:
            factors.add(size, (dim,) * count, (kept,) * count)
            kept += 1
    return factors.rule()


def reduce_window(query: Query) -> ShardingRule | None:
    """Dimensions with windows are permuted, and read in windows.

    Beyond the ends of the operand windows read the init. A halo replaces it, so the init must be
    the identity of the reduction.
    """
    factors = Factors(query)
    count = len(factors.results)
    joined = combiner(query.op, count)
    inits = list(query.op.operands)[count:]
    fill = joined if joined and may_repeat_inits(joined, inits) else None
    for dim, along in enumerate(_windows(query.op)):
        size, result_size = factors.operands[0][dim], factors.results[0][dim]
        if along.are_elements:
            factors.add_to_all(dim, result_size)
        else:
            read = along.over(size, result_size, fill)
            factors.add_to_all(dim, result_size, "permuted", windows=[read] * count)
    return factors.rule()


def partition_reduce_window(partitioned: PartitionedOp) -> None:
    """Set the padding of a shard; where the dimension is split, halos hold the padding."""
    padding = [
        padding_of(partitioned, 0, dim, (along.low, along.high))
        for dim, along in enumerate(_windows(partitioned.op))
    ]
    write_padding(partitioned.op, padding)


def select_and_scatter(query: Query) -> ShardingRule | None:
    """Dimensions with windows: permuted in operand and result, and whole in the source."""
    factors = Factors(query)
    operand, source = factors.operands[:2]
    windows_by_dim = _windows(query.op)
    for dim, (size, windows) in enumerate(zip(operand, source, strict=True)):
        if windows_by_dim[dim].are_elements:
            factors.add_to_all(dim, size)
        else:
            factors.add(windows, (None, dim), (), "need_replication")
            factors.add(size, (dim,), (dim,), "permuted")
    return factors.rule()


_NAMES = {"stride": "window_strides", "dilation": "window_dilations", "base": "base_dilations"}


def _windows(op: ir.Operation) -> list[WindowDimension]:
    return windows_of(op, _NAMES, integers(op, "window_dimensions"))
