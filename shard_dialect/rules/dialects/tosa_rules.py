"""`tosa` ops: elementwise with broadcasting of dimensions of size 1, contractions, and the rest.

Shapes are operands with a type of their own. Where they hold sizes of split dimensions,
partitioning makes new constants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.rules.dialects import tosa_data_movement, tosa_windows
from shard_dialect.rules.dialects.arith_math import elementwise, no_factors
from shard_dialect.rules.dialects.tosa_data_movement import partition_shape, set_shape
from shard_dialect.rules.factors import Factors, Kind
from shard_dialect.rules.op_record import OpRecord, alike
from shard_dialect.rules.padding import (
    HARMLESS,
    identities,
    identities_without_zero_points,
    in_second_operand,
)
from shard_dialect.rules.partial_values import adds, chooses, moves, reduces
from shard_dialect.rules.partitioned_op import PartitionedOp
from shard_dialect.rules.reshape_factors import reshaped
from shard_dialect.rules.rule_query import Query


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


def along_axis(kind: Kind) -> Callable[[Query], ShardingRule]:
    """All dimensions pass, except the attribute `axis`, whose factor has this kind."""

    def rule(query: Query) -> ShardingRule:
        axis = query.op.attributes["axis"].value
        factors = Factors(query)
        for dim, size in enumerate(factors.results[0]):
            factors.add_to_all(dim, size, kind if dim == axis else "passed")
        return factors.rule("")

    return rule


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


_ELEMENTWISE = (
    "abs add apply_scale arithmetic_right_shift bitwise_and bitwise_not bitwise_or bitwise_xor "
    "cast ceil clamp clz const cos equal erf exp floor greater greater_equal identity intdiv log "
    "logical_and logical_left_shift logical_not logical_or logical_right_shift logical_xor maximum "
    "minimum pow reciprocal rsqrt select sigmoid sin sub tanh"
).split()


RECORDS: dict[str, OpRecord] = {
    **alike("tosa", _ELEMENTWISE, OpRecord(elementwise)),
    **tosa_data_movement.RECORDS,
    **tosa_windows.RECORDS,
    "tosa.add": OpRecord(elementwise, partial=adds),
    "tosa.argmax": OpRecord(argmax),
    "tosa.dim": OpRecord(no_factors),
    "tosa.fft2d": OpRecord(fourier),
    "tosa.gather": OpRecord(gather, padding=in_second_operand(0)),
    "tosa.intdiv": OpRecord(elementwise, padding=in_second_operand(HARMLESS["tosa.intdiv"])),
    "tosa.matmul": OpRecord(matmul("ncw"), padding=identities_without_zero_points(2, 3)),
    "tosa.matmul_t": OpRecord(matmul("nwc"), padding=identities_without_zero_points(2, 3)),
    "tosa.mul": OpRecord(with_parameters(2)),
    "tosa.negate": OpRecord(with_parameters(1)),
    "tosa.reduce_all": OpRecord(reduction("bitwise_and"), padding=identities),
    "tosa.reduce_any": OpRecord(reduction("bitwise_or"), padding=identities),
    "tosa.reduce_max": OpRecord(reduction("max"), padding=identities, partial=reduces),
    "tosa.reduce_min": OpRecord(reduction("min"), padding=identities, partial=reduces),
    "tosa.reduce_product": OpRecord(reduction("product"), padding=identities),
    "tosa.reduce_sum": OpRecord(reduction("sum"), padding=identities, partial=reduces),
    "tosa.rescale": OpRecord(rescale),
    "tosa.reshape": OpRecord(reshape, partition=partition_shape(1), partial=moves),
    "tosa.reverse": OpRecord(along_axis("permuted"), partial=moves),
    "tosa.rfft2d": OpRecord(fourier),
    "tosa.row_gather": OpRecord(gather, padding=in_second_operand(0)),
    "tosa.scatter": OpRecord(scatter, padding=in_second_operand(0)),
    "tosa.select": OpRecord(elementwise, partial=chooses),
    "tosa.sub": OpRecord(elementwise, partial=adds),
    "tosa.table": OpRecord(with_parameters(1)),
    "tosa.tile": OpRecord(tile, partition=partition_tile),
    "tosa.transpose": OpRecord(transpose, partial=moves),
    "tosa.variable_read": OpRecord(no_factors),
    "tosa.variable_write": OpRecord(no_factors),
}
