"""`tensor` ops: on pieces they are the same op on smaller tensors, the sizes that it has cut too.

    extract_slice [0, 2] [4, 4] [1, 1]    ([a, b]) -> ([a, b]) permuted={b}
    of tensor<4x8xf32>                    on half the rows: [0, 2] [2, 4] [1, 1]

Ops on one element, and those that make a tensor of single ones, are whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.build import constant_value, scalar
from shard_dialect.ir.walk import body
from shard_dialect.model import ShardingRule
from shard_dialect.rules.cut import Cut, CutFunction
from shard_dialect.rules.factors import Factors
from shard_dialect.rules.pointwise import elementwise, no_factors
from shard_dialect.rules.query import Query
from shard_dialect.rules.reshape import reshaped

_DYNAMIC = ir.ShapedType.get_dynamic_size()


def reshape(query: Query) -> ShardingRule | None:
    source, made = query.operands[0], query.results[0]
    return None if source is None or made is None else reshaped(source, made)


def reshape_to_operand(query: Query) -> ShardingRule | None:
    """The second operand is the result's shape: if it is no constant, no other can be made."""
    rule = reshape(query)
    if rule is None:
        return None
    rule = replace(rule, operands=(*rule.operands, ((),)))
    is_known = constant_value(query.op.operands[1]) is not None
    return rule if is_known else replace(rule, whole=frozenset(range(len(rule.sizes))))


def extract_slice(query: Query) -> ShardingRule:
    """What is taken whole passes; of the rest a piece's slice is in part another's.

    Where it begins at an operand it may be anywhere: such a dimension is whole, and nothing passes.
    """
    factors = Factors(query)
    source = factors.operands[0]
    sizes = _static(query.op, "static_sizes")
    at = dict(zip(_kept(sizes), _kept(factors.results[0]), strict=True))
    begins = _static(query.op, "static_offsets")
    for dim, (size, taken) in enumerate(zip(source, sizes, strict=True)):
        if size == taken:
            factors.add(size, (dim,), (at.get(dim),))
        elif begins[dim] == _DYNAMIC:
            factors.add(size, (dim,), (at.get(dim),), "whole", blocked=True)
        else:
            factors.add(size, (dim,), (at.get(dim),), "permuted")
    moves = _DYNAMIC in begins
    is_pass = list(source) == sizes
    return factors.rule("forward" if moves else "pass" if is_pass else "other")


def insert_slice(query: Query) -> ShardingRule:
    """What is filled from end to end passes; the rest stays as it was, and whole."""
    factors = Factors(query)
    into = factors.operands[1]
    sizes = _static(query.op, "static_sizes")
    at = dict(zip(_kept(sizes), _kept(factors.operands[0]), strict=True))
    for dim, (size, taken) in enumerate(zip(into, sizes, strict=True)):
        if size == taken:
            factors.add(size, (at.get(dim), dim), (dim,))
        else:
            factors.add(size, (None, dim), (dim,), "whole")
    return factors.rule()


def _static(op: ir.Operation, name: str) -> list[int]:
    return list(op.attributes[name])


def _kept(sizes: Sequence[int]) -> list[int]:
    """The dimensions that are kept for sure where some of size 1 are dropped."""
    return [dim for dim, size in enumerate(sizes) if size != 1]


def cut_slice(cut: Cut) -> None:
    """What is split is taken from end to end: its size is the piece's.

    Some dimensions of 1 are dropped.
    """
    sizes, made = _static(cut.op, "static_sizes"), cut.result
    for dim, place in zip(_kept(sizes), _kept(made.whole), strict=True):
        sizes[dim] = made.shape[place]
    cut.op.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(sizes)


def cut_insertion(cut: Cut) -> None:
    sizes, made = _static(cut.op, "static_sizes"), cut.result
    changed = [
        new if size == old else size
        for size, old, new in zip(sizes, made.whole, made.shape, strict=True)
    ]
    cut.op.attributes["static_sizes"] = ir.DenseI64ArrayAttr.get(changed)


def pad(query: Query) -> ShardingRule:
    """Dimensions that nothing is added to pass, unless the padding's region reads their index."""
    low, high = (_static(query.op, f"static_{end}") for end in ("low", "high"))
    read = _read_indices(query.op)
    factors = Factors(query)
    for dim, size in enumerate(factors.operands[0]):
        is_other = low[dim] or high[dim] or dim in read
        factors.add(size, (dim,), (dim,), "permuted" if is_other else "passed")
    return factors.rule("")


def concat(query: Query) -> ShardingRule:
    joined = query.op.attributes["dim"].value
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add_to_all(dim, size, "whole" if dim == joined else "passed")
    return factors.rule("")


def generate(query: Query) -> ShardingRule:
    """Dimensions pass whose index is not read: a piece's is not the whole tensor's."""
    read = _read_indices(query.op)
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add(size, (), (dim,), "whole" if dim in read else "passed")
    return factors.rule()


def _read_indices(op: ir.Operation) -> set[int]:
    """The dimensions whose index the op's region reads."""
    indices = body(op).arguments
    return {dim for dim, index in enumerate(indices) if any(True for _ in index.uses)}


def insert(query: Query) -> ShardingRule:
    """Which device has the element is not known: shardings pass, and the tensor is whole."""
    factors = Factors(query)
    for dim, size in enumerate(factors.results[0]):
        factors.add_to_all(dim, size, "whole")
    return factors.rule()


def cut_expansion(cut: Cut) -> None:
    shape = ir.DenseI64ArrayAttr.get(list(cut.result.shape))
    cut.op.attributes["static_output_shape"] = shape


def cut_reshape(cut: Cut) -> None:
    """The result's shape is a constant, which the rule asks for."""
    type_ = cut.op.operands[1].type
    values = [ir.IntegerAttr.get(type_.element_type, size) for size in cut.result.shape]
    with ir.InsertionPoint(cut.op), cut.op.location:
        cut.op.operands[1] = scalar(ir.DenseElementsAttr.get(values, type_)).results[0]


RULES: dict[str, Callable[[Query], ShardingRule | None]] = {
    "tensor.bitcast": elementwise,
    "tensor.cast": elementwise,
    "tensor.collapse_shape": reshape,
    "tensor.concat": concat,
    "tensor.dim": no_factors,
    "tensor.empty": elementwise,
    "tensor.expand_shape": reshape,
    "tensor.extract": no_factors,
    "tensor.extract_slice": extract_slice,
    "tensor.from_elements": no_factors,
    "tensor.gather": no_factors,  # its verifier wants the source's encoding on the result
    "tensor.generate": generate,
    "tensor.insert": insert,
    "tensor.insert_slice": insert_slice,
    "tensor.pad": pad,
    "tensor.rank": no_factors,
    "tensor.reshape": reshape_to_operand,
    "tensor.scatter": no_factors,
    "tensor.splat": elementwise,
}

CUTS: dict[str, CutFunction] = {
    "tensor.expand_shape": cut_expansion,
    "tensor.extract_slice": cut_slice,
    "tensor.insert_slice": cut_insertion,
    "tensor.reshape": cut_reshape,
}
