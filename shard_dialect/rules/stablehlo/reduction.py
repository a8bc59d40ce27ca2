"""StableHLO's reductions, over whole dimensions and over windows.

    reduce by add over [1]           ([a, b], []) -> ([a]) reduction={b: sum}
    argmax over [1]                  ([a, b], [a, b], [], []) -> ([a], [a]) whole={b}
    reduce_window of 1x2             ([a, b], []) -> ([a, b]) permuted={b}

A dimension reduced is split only where the partial results join into the very result: by one kind
that collectives do, from inits that change nothing however often they are counted.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.query import Query
from shard_dialect.rules.stablehlo.attributes import integers
from shard_dialect.rules.stablehlo.combiner import combiner, may_start_often


def reduce(query: Query) -> ShardingRule | None:
    """`reduce(inputs, inits)`: each input has its init, a scalar, and its result."""
    factors = Factors(query)
    count = len(factors.results)
    gone = integers(query.op, "dimensions")
    joined = combiner(query.op, count)
    inits = list(query.op.operands)[count:]
    kind: Kind = joined if joined and may_start_often(joined, inits) else "whole"
    kept = 0
    for dim, size in enumerate(factors.operands[0]):
        if dim in gone:
            factors.add(size, (dim,) * count, (), kind)
        else:
            factors.add(size, (dim,) * count, (kept,) * count)
            kept += 1
    return factors.rule()


def reduce_window(query: Query) -> ShardingRule | None:
    """Along a window a piece of the result needs elements of its neighbours' pieces."""
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add_to_all(dim, size, "passed" if _is_beside(query.op, dim) else "permuted")
    return factors.rule()


def select_and_scatter(query: Query) -> ShardingRule | None:
    """Along a window the source has one element for several of the operand and the result."""
    factors = Factors(query)
    operand, source = factors.operands[:2]
    for dim, (size, windows) in enumerate(zip(operand, source, strict=True)):
        if _is_beside(query.op, dim):
            factors.add_to_all(dim, size)
        else:
            factors.add(windows, (None, dim), (), "whole")
            factors.add(size, (dim,), (dim,), "permuted")
    return factors.rule()


def _is_beside(op: ir.Operation, dim: int) -> bool:
    """Whether the window is one element along `dim`, and each element has its own."""
    names = ("window_dimensions", "window_strides", "base_dilations")
    rates = [integers(op, name) for name in names]
    padding = integers(op, "padding")  # two for each dimension, in one list
    is_padded = any(padding[2 * dim : 2 * dim + 2])
    return not is_padded and all(not each or each[dim] == 1 for each in rates)
