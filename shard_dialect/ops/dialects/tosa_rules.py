"""`tosa` ops: elementwise with broadcasting of dimensions of size 1, contractions, and the rest.

Shapes are operands with a type of their own. Where they hold sizes of split dimensions,
partitioning makes new constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.ops.dialects import tosa_data_movement, tosa_windows
from shard_dialect.ops.dialects.tosa_data_movement import partition_shape, set_shape
from shard_dialect.ops.factors import Factors, Kind, Query, elementwise, no_factors, reshaped
from shard_dialect.ops.op_record import Later, OpRecord, SampleFunction
from shard_dialect.ops.operations import largest, product
from shard_dialect.ops.padding import identities, identities_without_zero_points, in_second_operand
from shard_dialect.ops.partial_values import adds, chooses, moves, reduces
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import NO_TRAIT, Trait
from shard_dialect.ops.window_shards import turned_around


def matmul(rhs: str) -> Callable[[Query], ShardingRule | None]:
    """The rule of `[n, h, c] x rhs -> [n, h, w]`; the zero points are tensors of one element."""

    def rule(query: Query) -> ShardingRule:
        spec = f"nhc,{rhs}{',1' * (len(query.operands) - 2)}->nhw"
        return ShardingRule.einsum(spec, query.operands, query.results, {"c": "sum"})

    return rule


def with_parameters(tensors: int) -> Callable[[Query], ShardingRule | None]:
    """Elementwise on the first `tensors` operands; the rest (shifts, zero points) is not split."""

    def rule(query: Query) -> ShardingRule | None:
        base = elementwise(Query(query.op, query.operands[:tensors], query.results))
        if base is None:
            return None
        rest = tuple(
            None if shape is None else ((),) * len(shape) for shape in query.operands[tensors:]
        )
        return ShardingRule(base.sizes, base.operands + rest, base.results)

    return rule


def rescale(query: Query) -> ShardingRule:
    """Elementwise; multipliers per channel are split like the channels."""
    factors = Factors(query)
    shape = factors.operands[0]
    is_per_channel = query.op.attributes["per_channel"].value
    for dim, size in enumerate(shape):
        scale = 0 if is_per_channel and dim == len(shape) - 1 else None
        factors.add(size, (dim, scale, scale), (dim,))
    return factors.rule("")


def reduction(kind: Reduction) -> Callable[[Query], ShardingRule]:
    """A reduction along the attribute `axis`, which has size 1 in the result."""

    def rule(query: Query) -> ShardingRule:
        axis = query.op.attributes["axis"].value
        of_axis: Kind = "need_replication" if _ignores_nan(query.op) else kind
        factors = Factors(query)
        for dim, size in enumerate(factors.operands[0]):
            if dim == axis:
                factors.add(size, (dim,), kind=of_axis)
            else:
                factors.add(size, (dim,), (dim,))
        return factors.rule()

    return rule


def _ignores_nan(op: ir.Operation) -> bool:
    """Whether the op skips NaN, unlike collectives."""
    return "nan_mode" in op.attributes and "IGNORE" in str(op.attributes["nan_mode"])


def argmax(query: Query) -> ShardingRule:
    """The searched dimension is whole, and not in the result."""
    axis = query.op.attributes["axis"].value
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0]):
        if dim == axis:
            factors.add(size, (dim,), kind="need_replication")
        else:
            factors.add(size, (dim,), (dim - (dim > axis),))
    return factors.rule()


def reverse(query: Query) -> ShardingRule:
    """All dimensions pass, except the attribute `axis`, which is permuted, and read in windows."""
    axis = query.op.attributes["axis"].value
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        if dim == axis:
            factors.add_to_all(dim, size, "permuted", windows=[turned_around(size)])
        else:
            factors.add_to_all(dim, size)
    return factors.rule("")


def reshape(query: Query) -> ShardingRule | None:
    """The rule of a reshape, whose second operand is a shape."""
    source, target = query.operands[0], query.results[0]
    rule = None if source is None or target is None else reshaped(source, target)
    return rule and replace(rule, operands=(*rule.operands, None))


def tile(query: Query) -> ShardingRule:
    """`[4] -> [12]` is `([b]) -> ([ab])`: repetitions are major, the operand's elements minor."""
    factors = Factors(query)
    for dim, (size, tiled) in enumerate(zip(factors.operands[0], factors.results[0], strict=True)):
        if size and tiled != size:
            factors.add(tiled // size, (), (dim,))
        factors.add(size, (dim,), (dim,))
    return factors.rule("broadcast" if factors.operands[0] != factors.results[0] else "")


def transpose(query: Query) -> ShardingRule:
    """One factor per dimension of the result, permuted by `perms`."""
    factors = Factors(query)
    for result_dim, dim in enumerate(query.op.attributes["perms"]):
        factors.add(factors.operands[0][dim], (dim,), (result_dim,))
    return factors.rule("")


def gather(query: Query) -> ShardingRule:
    """`[n, k, c]` at `[n, w]` gives `[n, wr, c]`, r rows for each index; k is whole."""
    factors = Factors(query)
    (count, keys, channels), (_, indices) = factors.operands[0], factors.operands[1]
    factors.add(count, (0, 0), (0,))
    factors.add(keys, (1,), kind="need_replication")
    factors.add(indices, (None, 1), (1,))
    if factors.results[0][1] != indices:
        factors.add(factors.results[0][1] // indices, (), (1,), "need_replication")
    factors.add(channels, (2,), (2,))
    return factors.rule()


def scatter(query: Query) -> ShardingRule:
    """`[n, w, c]` into `[n, k, c]` at `[n, w]`; k and w are whole."""
    factors = Factors(query)
    (count, keys, channels), (_, indices) = factors.operands[0], factors.operands[1]
    factors.add(count, (0, 0, 0), (0,))
    factors.add(keys, (1,), (1,), "need_replication")
    factors.add(indices, (None, 1, 1), kind="need_replication")
    factors.add(channels, (2, None, 2), (2,))
    return factors.rule()


def fourier(query: Query) -> ShardingRule:
    """The batch passes; the other dimensions are whole."""
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0]):
        factors.add_to_all(dim, size, "need_replication" if dim else "passed")
    return factors.rule()


def partition_tile(partitioned: PartitionedOp) -> None:
    """Set the number of repetitions in the shard."""
    sizes = zip(partitioned.result.shape, partitioned.operand(0).shape, strict=True)
    set_shape(partitioned.op, 1, [size // of for size, of in sizes])


def _record(function: str, sample: str | SampleFunction, **facets: Any) -> OpRecord:
    return OpRecord(elementwise, function, sample, **facets)


def _sample(name: str, *given: Any) -> Later:
    return Later(f"testing.samples.tosa_samples:{name}", given)


_AT_START = in_second_operand(0)
_UPSTREAM = "upstream lowers it to nothing that runs"
_WITHOUT_ZERO_POINTS = identities_without_zero_points(2, 3)

_ELEMENTWISE: dict[str, OpRecord] = {
    **{name: _record(name, "f32") for name in "abs ceil cos erf exp floor log reciprocal".split()},
    **{name: _record(name, "f32") for name in "rsqrt sin tanh".split()},
    **{name: _record("compare", "f32 f32 -> i1") for name in ("equal", "greater", "greater_equal")},
    **{
        f"{kind}_{name}": _record(name, f"{element} {element}")
        for kind, element in (("bitwise", "i32"), ("logical", "i1"))
        for name in ("and", "or", "xor")
    },
    "add": _record("add", "f32 f32", partial=adds),
    "apply_scale": _record("other", _sample("apply_scale")),
    "arithmetic_right_shift": _record("right", "i32 3 | round = false"),
    "bitwise_not": _record("not", "i32"),
    "cast": _record("convert", _sample("cast")),
    "clamp": _record("clamp", _sample("clamp")),
    "clz": _record("clz", "i32"),
    "const": _record("constant", _sample("const")),
    "identity": _record("identity", "f32"),
    "intdiv": _record("quotient", "i32 3", harmless=1),
    "logical_left_shift": _record("left", "i32 3"),
    "logical_not": _record("not", "i1"),
    "logical_right_shift": _record("right", "i32 3", traits=Trait.UNSIGNED),
    "maximum": _record("max", "f32 f32"),
    "minimum": _record("min", "f32 f32"),
    "mul": OpRecord(with_parameters(2), "mul", _sample("mul")),
    "negate": OpRecord(with_parameters(1), "neg", _sample("negate")),
    "pow": _record("power", "f32 f32"),
    "rescale": OpRecord(rescale, "other", _sample("rescale")),
    "select": _record("select", _sample("select"), partial=chooses),
    "sigmoid": _record("logistic", "f32"),
    "sub": _record("sub", "f32 f32", partial=adds),
    "table": OpRecord(with_parameters(1), "other", _sample("table")),
}


def _reduction(name: str, kind: Reduction, traits: Trait = NO_TRAIT, **facets: Any) -> OpRecord:
    return OpRecord(
        reduction(kind),
        sample=_sample("reduce", name),
        padding=identities,
        operations=largest,
        traits=traits,
        **facets,
    )


RECORDS: dict[str, OpRecord] = {
    **{f"tosa.{name}": record for name, record in _ELEMENTWISE.items()},
    **tosa_data_movement.RECORDS,
    **tosa_windows.RECORDS,
    "tosa.argmax": OpRecord(argmax, sample=_sample("argmax"), operations=largest),
    "tosa.dim": OpRecord(no_factors, sample=_sample("dim"), operations=0, not_run=_UPSTREAM),
    "tosa.fft2d": OpRecord(fourier, sample=_sample("fft2d"), traits=Trait.SUMS),
    "tosa.gather": OpRecord(
        gather, sample=_sample("gather"), padding=_AT_START, traits=Trait.SLICES
    ),
    "tosa.matmul": OpRecord(
        matmul("ncw"),
        sample=_sample("matmul", "matmul"),
        padding=_WITHOUT_ZERO_POINTS,
        operations=product,
        traits=Trait.SUMS,
    ),
    "tosa.matmul_t": OpRecord(
        matmul("nwc"),
        sample=_sample("matmul", "matmul_t"),
        padding=_WITHOUT_ZERO_POINTS,
        operations=product,
        not_run=_UPSTREAM,
    ),
    "tosa.reduce_all": _reduction("all", "bitwise_and"),
    "tosa.reduce_any": _reduction("any", "bitwise_or"),
    "tosa.reduce_max": _reduction("max", "max", Trait.EXACT, partial=reduces),
    "tosa.reduce_min": _reduction("min", "min", Trait.EXACT, partial=reduces),
    "tosa.reduce_product": _reduction("product", "product"),
    "tosa.reduce_sum": _reduction("sum", "sum", Trait.SUMS, partial=reduces),
    "tosa.reshape": OpRecord(
        reshape,
        sample=_sample("reshape"),
        partition=partition_shape(1),
        partial=moves,
        traits=Trait.RESHAPES,
    ),
    "tosa.reverse": OpRecord(reverse, sample=_sample("reverse"), partial=moves, traits=Trait.MOVES),
    "tosa.rfft2d": OpRecord(fourier, sample=_sample("rfft2d"), traits=Trait.SUMS),
    "tosa.row_gather": OpRecord(
        gather, sample=_sample("row_gather"), padding=_AT_START, operations=0, not_run=_UPSTREAM
    ),
    "tosa.scatter": OpRecord(
        scatter, sample=_sample("scatter"), padding=_AT_START, traits=Trait.MOVES
    ),
    "tosa.tile": OpRecord(
        tile, sample=_sample("tile"), partition=partition_tile, traits=Trait.MOVES
    ),
    "tosa.transpose": OpRecord(
        transpose, sample=_sample("transpose"), partial=moves, traits=Trait.MOVES
    ),
    "tosa.variable_read": OpRecord(
        no_factors, sample=_sample("variable", "variable_read"), operations=0, not_run=_UPSTREAM
    ),
    "tosa.variable_write": OpRecord(
        no_factors, sample=_sample("variable", "variable_write"), operations=0, not_run=_UPSTREAM
    ),
}
WITHOUT_RULE = {
    f"tosa.{name}": OpRecord(operations=0, traits=traits)
    for names, traits in {
        "const_shape": Trait.CONSTANT,
        "cond_if variable while_loop": NO_TRAIT,
        "yield": Trait.EXACT,
    }.items()
    for name in names.split()
}
