"""`stablehlo.custom_call`: the rules of the call targets that Shardy knows.

    Eigh    ([a, b, c]) -> ([a, b, c], [a, c]) whole={b, c}

A call of another target has a rule written on it (`mesh.sharding_rule`), or runs replicated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from shard_dialect.model import ShardingRule
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.rule_query import Query
from shard_dialect.rules.stablehlo.data_movement import alike, all_replicated, of_matrices


def custom_call(query: Query) -> ShardingRule | None:
    """The rule of the call's target; `None` for unknown targets and ranks."""
    target = query.op.attributes["call_target_name"].value
    is_its = target not in _RANKS or _has_ranks(query, *_RANKS[target])
    return _TARGETS[target](query) if target in _TARGETS and is_its else None


def _has_ranks(query: Query, operands: _Ranks, results: _Ranks) -> bool:
    """Whether the ranks of the tensors, minus that of the first operand, are these."""
    factors = Factors(query)
    rank = max([*map(len, factors.operands[:1]), 2])
    sides = ((factors.operands, operands), (factors.results, results))
    return all([len(shape) - rank for shape in shapes] == list(ranks) for shapes, ranks in sides)


def eigh(query: Query) -> ShardingRule | None:
    """The rule of `Eigh`: each matrix has eigenvectors and eigenvalues."""
    factors = _batched(query)
    shape = factors.operands[0]
    row, column = len(shape) - 2, len(shape) - 1
    factors.add(shape[row], (row,), (row,), "need_replication")
    factors.add(shape[column], (column,), (column, row), "need_replication")
    return factors.rule()


def qr(query: Query) -> ShardingRule | None:
    """The rule of `Qr`: `q` has the factors of the operand; the other result shares its batch."""
    factors = _batched(query)
    shape, other = factors.operands[0], factors.results[1]
    row, column = len(shape) - 2, len(shape) - 1
    factors.add(shape[row], (row,), (row,), "need_replication")
    factors.add(shape[column], (column,), (column,), "need_replication")
    factors.add(other[row], (), (None, row), "need_replication")
    return factors.rule()


def householder_product(query: Query) -> ShardingRule | None:
    """The rule of a product of Householder reflectors: each batch by itself."""
    factors = _batched(query)
    shape, taus = factors.operands
    row, column = len(shape) - 2, len(shape) - 1
    factors.add(shape[row], (row,), (row,), "need_replication")
    factors.add(shape[column], (column,), (column,), "need_replication")
    factors.add(taus[row], (None, row), (), "need_replication")
    return factors.rule()


def _batched(query: Query) -> Factors:
    """Factors for all dimensions of the first operand except the last two."""
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0][:-2]):
        factors.add_to_all(dim, size)
    return factors


def top_k(query: Query) -> ShardingRule | None:
    """The largest elements along the last dimension, which is whole."""
    factors = Factors(query)
    shape, result = factors.operands[0], factors.results[0]
    if len(shape) != len(result):
        return None
    for dim, size in enumerate(shape):
        kind: Kind = "passed" if dim < len(shape) - 1 else "need_replication"
        factors.add_to_all(dim, size, kind, blocked=size != result[dim])
    return factors.rule()


def approximate_top_k(query: Query) -> ShardingRule | None:
    """The largest elements along one dimension, which is unknown if no dimension shrinks."""
    factors = Factors(query)
    shape, result = factors.operands[0], factors.results[0]
    if len(shape) != len(result):
        return None
    for dim, (size, kept) in enumerate(zip(shape, result, strict=True)):
        if size == kept:
            factors.add_to_all(dim, size, "need_replication" if shape == result else "passed")
        else:
            factors.add(size, (dim, dim), (), "need_replication")
            factors.add(kept, (), (dim, dim), "need_replication", blocked=True)
    return factors.rule()


def combine_words(query: Query) -> ShardingRule | None:
    """Elementwise, except the state of a random generator, which is whole."""
    makes_state = any(
        use.owner.operation.name == "stablehlo.rng_bit_generator"
        for use in query.op.results[0].uses
    )
    if not makes_state:
        return alike(query)
    factors = Factors(query)
    factors.add_to_all(0, factors.results[0][0], "need_replication", blocked=True)
    return factors.rule()


_Ranks = tuple[int, ...]
_RANKS: dict[str, tuple[_Ranks, _Ranks]] = {
    "Eigh": ((0,), (0, -1)),
    "ProductOfElementaryHouseholderReflectors": ((0, -1), (0,)),
    "Qr": ((0,), (0, -1)),
    "QrDecompositionBlock": ((0,), (0, -1)),
}

_TARGETS: dict[str, Callable[[Query], ShardingRule | None]] = {
    **dict.fromkeys(("ApproxTopK", "PartialReduce"), approximate_top_k),
    **dict.fromkeys(
        (
            "LayoutConstraint",
            "X64SplitHigh",
            "X64SplitLow",
            "annotate_device_placement",
            "mhlo.erf",
        ),
        alike,
    ),
    **dict.fromkeys(("MoveToDevice", "MoveToHost"), partial(alike, role="pass")),
    **dict.fromkeys(
        ("Cholesky", "InvertDiagBlocksLowerTriangular", "InvertDiagBlocksUpperTriangular"),
        of_matrices,
    ),
    **dict.fromkeys(
        (
            "CompactWyHelper",
            "InspectSharding",
            "_SPMDInternalOp_MultiPad",
            "_SPMDInternalOp_MultiRotate",
            "_SPMDInternalOp_MultiSlice",
            "_SPMDInternalOp_RotateRight",
            "_SPMDInternalOp_Wrap",
            "xla.megascale.provide_metadata",
        ),
        all_replicated,
    ),
    "Eigh": eigh,
    "ProductOfElementaryHouseholderReflectors": householder_product,
    **dict.fromkeys(("Qr", "QrDecompositionBlock"), qr),
    "X64Combine": combine_words,
    "mhlo.topk": top_k,
}
