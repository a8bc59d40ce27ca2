"""`tensor` ops: on shards they are the same op, with the local sizes in its attributes.

    extract_slice [0, 2] [4, 4] [1, 1]    ([a, b]) -> ([a, b]) permuted={b}
    of tensor<4x8xf32>                    on half the rows: [0, 2] [2, 4] [1, 1]

Ops on single elements, and those that make a tensor of single elements, are not split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import constant_value, create, is_used, scalar
from shard_dialect.ir.building.loops_and_masks import as_index
from shard_dialect.ir.building.reductions import reduction_with_identity
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import ShardingRule, Windows
from shard_dialect.ops.factors import Factors, Query, elementwise, no_factors, reshaped
from shard_dialect.ops.op_record import Later, OpRecord, RuleFunction, of_dialect
from shard_dialect.ops.partial_values import inserts, joins, moves
from shard_dialect.ops.partitioned_op import PartitionedOp
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.ops.window_shards import inside, joined_along, padding_of, partition_joined

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def reshape(query: Query) -> ShardingRule | None:
    """The rule of `collapse_shape` and `expand_shape`."""
    source, target = query.operands[0], query.results[0]
    return None if source is None or target is None else reshaped(source, target)


def reshape_to_operand(query: Query) -> ShardingRule | None:
    """As `reshape`, with the result's shape as an operand; not split unless that is a constant."""
    rule = reshape(query)
    if rule is None:
        return None
    rule = replace(rule, operands=(*rule.operands, ((),)))
    is_known = constant_value(query.op.operands[1]) is not None
    return rule if is_known else replace(rule, need_replication=frozenset(range(len(rule.sizes))))


def extract_slice(query: Query) -> ShardingRule:
    """Dimensions taken in full pass; sliced ones are permuted, and read in windows.

    A dimension that is sliced from a dynamic offset is whole and blocked.
    """
    factors = Factors(query)
    source = factors.operands[0]
    sizes = _static(query.op, "static_sizes")
    at = dict(zip(_kept(sizes), _kept(factors.results[0]), strict=True))
    begins, strides = (_static(query.op, f"static_{name}") for name in ("offsets", "strides"))
    for dim, (size, count) in enumerate(zip(source, sizes, strict=True)):
        if size == count:
            factors.add(size, (dim,), (at.get(dim),))
        elif begins[dim] == _DYNAMIC:
            factors.add(size, (dim,), (at.get(dim),), "need_replication", blocked=True)
        else:
            is_known = dim in at and strides[dim] != _DYNAMIC
            read = Windows(size, count, strides[dim], 1, -begins[dim]) if is_known else None
            factors.add(size, (dim,), (at.get(dim),), "permuted", windows=[read])
    moves = _DYNAMIC in begins
    is_pass = list(source) == sizes
    return factors.rule("forward" if moves else "pass" if is_pass else "other")


def insert_slice(query: Query) -> ShardingRule:
    """Dimensions that the slice fills pass; other dimensions of the destination are whole."""
    factors = Factors(query)
    into = factors.operands[1]
    sizes = _static(query.op, "static_sizes")
    at = dict(zip(_kept(sizes), _kept(factors.operands[0]), strict=True))
    for dim, (size, count) in enumerate(zip(into, sizes, strict=True)):
        if size == count:
            factors.add(size, (at.get(dim), dim), (dim,))
        else:
            factors.add(size, (None, dim), (dim,), "need_replication")
    return factors.rule()


def _static(op: ir.Operation, name: str) -> list[int]:
    return list(op.attributes[name])


def _kept(sizes: Sequence[int]) -> list[int]:
    """The dimensions of size other than 1, which rank reduction never drops."""
    return [dim for dim, size in enumerate(sizes) if size != 1]


def partition_slice(partitioned: PartitionedOp) -> None:
    """Set local sizes and offset 0 in split dimensions: an operand's shard is read as a whole."""
    sizes, begins = (_static(partitioned.op, f"static_{name}") for name in ("sizes", "offsets"))
    for dim, of_result in zip(_kept(sizes), _kept(partitioned.result.global_shape), strict=True):
        if partitioned.result.is_split(of_result):
            sizes[dim], begins[dim] = partitioned.result.shape[of_result], 0
    partitioned.op.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(sizes)
    partitioned.op.attributes["static_offsets"] = ir.DenseI64ArrayAttr.get(begins)


def partition_insertion(partitioned: PartitionedOp) -> None:
    """Set local sizes in dimensions that the slice fills."""
    sizes, result = _static(partitioned.op, "static_sizes"), partitioned.result
    changed = [
        new if size == old else size
        for size, old, new in zip(sizes, result.global_shape, result.shape, strict=True)
    ]
    partitioned.op.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(changed)


def pad(query: Query) -> ShardingRule:
    """Dimensions without padding pass; padded ones are permuted, and read in windows.

    The windows need a padding value that is the identity of a reduction.
    """
    low, high = (_static(query.op, f"static_{end}") for end in ("low", "high"))
    indices = _read_indices(query.op)
    end = operations(body(query.op))[-1]
    fill = reduction_with_identity(end.operands[0])
    factors = Factors(query)
    sizes = zip(factors.operands[0], factors.results[0], strict=True)
    for dim, (size, padded) in enumerate(sizes):
        if low[dim] or high[dim] or dim in indices:
            windows = inside(Windows(size, padded, 1, 1, low[dim], fill=fill))
            is_known = _DYNAMIC not in (low[dim], high[dim]) and dim not in indices
            read = windows if is_known else None
            factors.add(size, (dim,), (dim,), "permuted", windows=[read])
        else:
            factors.add(size, (dim,), (dim,))
    return factors.rule("")


def partition_pad(partitioned: PartitionedOp) -> None:
    """Set the padding of a shard; where the dimension is split, halos hold the padding."""
    low, high = (_static(partitioned.op, f"static_{end}") for end in ("low", "high"))
    ends = [
        padding_of(partitioned, dim, each) for dim, each in enumerate(zip(low, high, strict=True))
    ]
    for name, padding in zip(("low", "high"), zip(*ends, strict=True), strict=False):
        partitioned.op.attributes[f"static_{name}"] = ir.DenseI64ArrayAttr.get(list(padding))


def concat(query: Query) -> ShardingRule:
    """The rule of `concat`, along its attribute `dim`."""
    return joined_along(query, query.op.attributes["dim"].value)


def partition_concat(partitioned: PartitionedOp) -> None:
    """Replace the op on shards: see `partition_joined`."""
    partition_joined(partitioned, partitioned.op.attributes["dim"].value)


def generate(query: Query) -> ShardingRule:
    """One factor per dimension of the result."""
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add(size, (), (dim,))
    return factors.rule()


def partition_generate(partitioned: PartitionedOp) -> None:
    """Turn the local indices that the region reads into global ones."""
    op, block = partitioned.op, body(partitioned.op)
    for dim in sorted(_read_indices(op)):
        if not partitioned.result.is_split(dim):
            continue
        index = block.arguments[dim]
        with ir.InsertionPoint(op), op.location:
            begin = as_index(partitioned.result.begin(dim))
        with ir.InsertionPoint.at_block_begin(block), op.location:
            shifted = create("arith.addi", [index.type], [index, begin])
        index.replace_all_uses_except(shifted.results[0], shifted)


def _read_indices(op: ir.Operation) -> set[int]:
    """The dimensions whose index the op's region reads."""
    indices = body(op).arguments
    return {dim for dim, index in enumerate(indices) if is_used(index)}


def insert(query: Query) -> ShardingRule:
    """All dimensions are whole, since the device that holds the element is unknown."""
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add_to_all(dim, size, "need_replication")
    return factors.rule()


def partition_expansion(partitioned: PartitionedOp) -> None:
    """Set the result's local shape."""
    shape = ir.DenseI64ArrayAttr.get(list(partitioned.result.shape))
    partitioned.op.attributes["static_output_shape"] = shape


def partition_reshape(partitioned: PartitionedOp) -> None:
    """Replace the shape operand by the local shape; the rule requires it to be a constant."""
    if not partitioned.result.shape:
        return
    type_ = partitioned.op.operands[1].type
    values = [ir.IntegerAttr.get(type_.element_type, size) for size in partitioned.result.shape]
    with ir.InsertionPoint(partitioned.op), partitioned.op.location:
        partitioned.op.operands[1] = scalar(ir.DenseElementsAttr.get(values, type_))


def _record(
    rule: RuleFunction,
    traits: Trait = Trait.MOVES,
    python: str = "",
    stablehlo: str = "",
    shapes: str = "",
    **facets: Any,
) -> OpRecord:
    return OpRecord(
        rule,
        traits=traits,
        python=Later(f"backends.python.ops.tensor_ops:{python}") if python else None,
        stablehlo=Later(f"passes.lower.to_stablehlo.{stablehlo}") if stablehlo else None,
        shapes=Later(f"passes.specialize.shape_rules:{shapes}") if shapes else None,
        **facets,
    )


def _slice(name: str) -> str:
    return f"stablehlo_slices:{name}"


_UPSTREAM = "upstream lowers it to nothing that runs"
RECORDS = of_dialect(
    "tensor",
    {
        "bitcast": _record(elementwise, stablehlo=_slice("bitcast_tensor"), not_run=_UPSTREAM),
        "cast": _record(elementwise, python="same", stablehlo=_slice("same")),
        "collapse_shape": _record(
            reshape,
            Trait.RESHAPES,
            python="reshape",
            stablehlo=_slice("reshape_tensor"),
            partial=moves,
        ),
        "concat": _record(
            concat,
            python="concat",
            stablehlo=_slice("concat"),
            shapes="concat",
            partition=partition_concat,
            partial=joins,
            lowering=Later("passes.lower.expansions.upstream_workarounds:concat"),
        ),
        "dim": _record(no_factors, python="dim", stablehlo=_slice("dim")),
        "empty": _record(elementwise, Trait.CONSTANT, python="empty", stablehlo=_slice("empty")),
        "expand_shape": _record(
            reshape,
            Trait.RESHAPES,
            python="reshape",
            stablehlo=_slice("reshape_tensor"),
            partition=partition_expansion,
            partial=moves,
        ),
        "extract": _record(  # it counts in bodies, which compute where they read
            no_factors, python="extract", stablehlo=_slice("extract"), operations=1
        ),
        "extract_slice": _record(
            extract_slice,
            Trait.SLICES,
            python="extract_slice",
            stablehlo=_slice("extract_slice"),
            partition=partition_slice,
            partial=moves,
        ),
        "from_elements": _record(
            no_factors, python="from_elements", stablehlo=_slice("from_elements")
        ),
        # its verifier wants the source's encoding on the result
        "gather": _record(no_factors, not_run=_UPSTREAM),
        "generate": _record(
            generate, stablehlo="structured_ops:generated", partition=partition_generate
        ),
        "insert": _record(insert, python="insert", stablehlo=_slice("insert")),
        "insert_slice": _record(
            insert_slice,
            Trait.UPDATES,
            python="insert_slice",
            stablehlo=_slice("insert_slice"),
            partition=partition_insertion,
            partial=inserts,
            lowering=Later("passes.lower.expansions.upstream_workarounds:insert_slice"),
        ),
        "pad": _record(
            pad,
            Trait.MOVES | Trait.BY_NEIGHBOURS,
            python="pad",
            stablehlo="structured_ops:padded",
            partition=partition_pad,
        ),
        "rank": _record(no_factors, stablehlo=_slice("rank")),
        "reshape": _record(
            reshape_to_operand,
            Trait.RESHAPES | Trait.BY_NEIGHBOURS,
            python="reshape",
            stablehlo=_slice("reshape_tensor"),
            shapes="reshape",
            partition=partition_reshape,
        ),
        "scatter": _record(no_factors, not_run=_UPSTREAM),
        "splat": _record(
            elementwise, Trait.REPEATS, python="splat", stablehlo=_slice("splat"), shapes="splat"
        ),
    },
)
