"""`stablehlo.custom_call`: the rules of the call targets that Shardy knows.

    Eigh    ([a, b, c]) -> ([a, b, c], [a, c]) whole={b, c}

A call of another target has a rule written on it (`mesh.sharding_rule`), or runs replicated. Where
nothing but a written rule is known of a call, each device computes it whole along unknown factors:

    @lapack_sgeev_ffi   ([i, j, k]) -> ([i, l], [i, m, n], [i])      as JAX writes it
                        whole={j, k, l, m, n}: each call reads whole matrices, and makes whole ones

A rule of a call relates dimensions, and says nothing of the computation. A factor is free to
be split only where the rule and the attributes of the call both hold for its shards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingRule
from shard_dialect.model.factor_projection import Dims
from shard_dialect.ops.factors import Factors, Kind, Query
from shard_dialect.ops.library_calls import TORCH_TARGET, routine_of
from shard_dialect.ops.op_record import OpRecord
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.stablehlo.attribute_reading import of_class
from shard_dialect.ops.stablehlo.data_movement import alike, all_replicated, of_matrices
from shard_dialect.ops.stablehlo.facets import python


def custom_call(query: Query) -> ShardingRule | None:
    """The rule of the call's target; `None` for unknown targets and ranks."""
    target = target_of(query.op)
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


def lu(query: Query) -> ShardingRule | None:
    """The rule of `LuDecomposition`: each matrix has its pivots and its permutation."""
    factors = _batched(query)
    _add_apart(factors, len(factors.operands[0]) - 2, "need_replication", blocked=False)
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


def unrelated(query: Query, kind: Kind = "need_replication") -> ShardingRule:
    """No dimension is another tensor's; all are whole, where nothing is known of the call."""
    factors = Factors(query)
    _add_apart(factors, 0, kind, blocked=True)
    return factors.rule()


def _add_apart(factors: Factors, first: int, kind: Kind, *, blocked: bool) -> None:
    """A factor for each dimension from `first` on of each tensor, which no other tensor has."""
    for side, tensors in enumerate((factors.operands, factors.results)):
        for number, shape in enumerate(tensors):
            for dim in range(first, len(shape)):
                dims: list[list[int | None]] = [[], []]
                dims[side] = [None] * number + [dim]
                factors.add(shape[dim], dims[0], dims[1], kind, blocked=blocked)


_Ranks = tuple[int, ...]
_RANKS: dict[str, tuple[_Ranks, _Ranks]] = {
    "Eigh": ((0,), (0, -1)),
    "LuDecomposition": ((0,), (0, -1, -1)),
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
    "LuDecomposition": lu,
    "ProductOfElementaryHouseholderReflectors": householder_product,
    **dict.fromkeys(("Qr", "QrDecompositionBlock"), qr),
    **dict.fromkeys(("xla_ffi_python_cpu_callback", "xla_ffi_python_gpu_callback"), unrelated),
    **dict.fromkeys(
        ("xla_ffi_partitioned_python_cpu_callback", "xla_ffi_partitioned_python_gpu_callback"),
        partial(unrelated, kind="passed"),  # each device calls with its shards
    ),
    "X64Combine": combine_words,
    "mhlo.topk": top_k,
}


def _may_be_padded(op: ir.Operation, rule: ShardingRule) -> bool:
    """Whether a call may read padding: torch raises for matrices that it may hold."""
    return rule.is_elementwise or not is_call_of_torch(op)


RECORDS: dict[str, OpRecord] = {
    "custom_call": OpRecord(
        custom_call,
        may_be_padded=_may_be_padded,
        python=python("custom_call"),
        traits=Trait.BY_NEIGHBOURS,
        not_run="nothing is known of it but its name",
    )
}


CUSTOM_CALL = "stablehlo.custom_call"
"""An op whose rule relates its dimensions, while its computation is unknown."""

_CONFIGS = ("backend_config", "mhlo.backend_config")
_LINEAR_ALGEBRA = re.compile(
    r"shard_dialect\.torch$|(lapack|cusolver|hipsolver|cublas|hipblas|cusparse|hipsparse|cu)_"
)
"""The calls of torch and of jaxlib: configurations tell modes and sides, no sizes of a batch."""


def target_of(op: ir.Operation) -> str:
    """The name of what a custom call calls."""
    target: str = op.attributes["call_target_name"].value
    return target


def is_call_of_torch(op: ir.Operation) -> bool:
    """Whether torch's own code computes the op."""
    return op.name == CUSTOM_CALL and target_of(op) == TORCH_TARGET


def calls_library(op: ir.Operation) -> bool:
    """Whether a device can run the custom call by a library (`ops.library_calls`)."""
    target = target_of(op)
    if target.startswith("lapack_"):
        return routine_of(target) is not None and _is_by_columns(op)
    return target == TORCH_TARGET or routine_of(target) is not None


def _is_by_columns(op: ir.Operation) -> bool:
    """Whether a call says that its matrices are stored by columns, as LAPACK's are."""
    sides = ("operand_layouts", op.operands), ("result_layouts", op.results)
    ranks = [each.type.rank for each in op.operands]
    return all(
        key in op.attributes
        and all(
            value.type.rank < max(ranks) or list(map(int, layout)) == _columns(value.type.rank)
            for layout, value in zip(op.attributes[key], values, strict=True)
        )
        for key, values in sides
    )


def _columns(rank: int) -> list[int]:
    """The layout of matrices stored by columns, one matrix after the other: the minor dim first."""
    return [rank - 2, rank - 1, *reversed(range(rank - 2))]


def options_of(op: ir.Operation) -> str:
    """The configuration of a call: its text, or JSON of the numbers that it has by name."""
    if "mhlo.backend_config" not in op.attributes:
        return op.attributes["backend_config"].value if "backend_config" in op.attributes else ""
    named = op.attributes["mhlo.backend_config"]
    return json.dumps({each.name: each.attr.value for each in named})


def of_unknown_body(op: ir.Operation, rule: ShardingRule) -> ShardingRule:
    """The rule of a custom call, where each factor that is not free is needed whole.

    Free are reductions, which the rule names, and the factors that some operand and all results
    have, unless an attribute of the call speaks of their size.
    """
    in_operands = set().union(*map(_factors, rule.operands))
    in_results = [_factors(dims) for dims in rule.results]
    everywhere = in_operands.intersection(*in_results) if in_results else set()
    free = everywhere | set(rule.reduction_of)
    free -= set(_in_aliases(op, rule))
    free -= set(_in_config(op, rule))
    whole = frozenset(range(len(rule.sizes))) - free - rule.permuted
    reductions = tuple(each for each in rule.reductions if each[0] in free)
    need_replication = rule.need_replication | whole
    return replace(rule, role="other", reductions=reductions, need_replication=need_replication)


def _factors(dims: Dims | None) -> set[int]:
    return {factor for dim in dims or () for factor in dim}


def _in_aliases(op: ir.Operation, rule: ShardingRule) -> Iterator[int]:
    """The factors by which an operand and the result in its place could differ in shape."""
    for attribute in op.attributes.get("output_operand_aliases", ()):
        alias = of_class(attribute, "OutputOperandAlias")
        operand, result = alias.operand_index, (*alias.output_tuple_indices, 0)[0]
        pairs = zip(rule.operands[operand] or (), rule.results[result] or (), strict=True)
        for of_operand, of_result in pairs:
            if of_operand != of_result:
                yield from (*of_operand, *of_result)


def _in_config(op: ir.Operation, rule: ShardingRule) -> Iterator[int]:
    """The factors of the dimensions whose size may stand in the call's configuration."""
    if _LINEAR_ALGEBRA.match(target_of(op)):
        return
    text = " ".join(str(op.attributes[key]) for key in _CONFIGS if key in op.attributes)
    named = set(map(int, re.findall(r"\d+", text)))
    types = [value.type for value in (*op.operands, *op.results)]
    for dims, type_ in zip((*rule.operands, *rule.results), types, strict=True):
        for dim, factors in enumerate(dims or ()):
            if ir.RankedTensorType(type_).shape[dim] in named:
                yield from factors
