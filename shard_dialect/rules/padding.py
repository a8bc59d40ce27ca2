"""What the padding of uneven shards may hold, and what it must.

Where devices do not divide a dimension their last shards are padded. Anything may be there: what an
op makes of it is padding again. But for

    sums over the dimension       they need zeros there, what leaves the reduction alone
    windows past its end          the same
    divisions of integers         they need ones: by zero the program would end
    indices that are not checked  they need zeros, which can be read at

Bodies of `linalg`'s ops take care of themselves (`rules.dialects.linalg_bodies`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import scalar, splat_value
from shard_dialect.ir.building.masking import as_index, keep_first
from shard_dialect.ir.building.reductions import identity_value
from shard_dialect.ir.walk import body, has_own_body, operations, walk
from shard_dialect.model import Reduction, ShardingRule
from shard_dialect.rules.partitioning import Cut


@dataclass(frozen=True, slots=True)
class Filling:
    """What the padding of an operand must hold along the dimensions of some factors."""

    operand: int
    factors: frozenset[int]
    content: Reduction | int
    """What leaves a reduction alone, or an integer."""

    def element(self, type_: ir.Type) -> ir.Value:
        if isinstance(self.content, int):
            return scalar(ir.IntegerAttr.get(type_, self.content)).results[0]
        return identity_value(self.content, type_)


TRAPS = {
    "arith.ceildivsi": 1,
    "arith.ceildivui": 1,
    "arith.divsi": 1,
    "arith.divui": 1,
    "arith.floordivsi": 1,
    "arith.remsi": 1,
    "arith.remui": 1,
    "math.ipowi": 0,
    "tosa.intdiv": 1,
}
"""Ops that end the program for some second operands, and one that they do not mind."""

_READS_AT = {"tosa.gather": (1,), "tosa.row_gather": (1,), "tosa.scatter": (1,)}
"""The operands of which an op reads where to read or write, without looking whether that is."""

_LOADS = ("tensor.extract", "memref.load")


def may_be_uneven(op: ir.Operation, rule: ShardingRule) -> frozenset[int]:
    """The factors of the op that shards of unequal sizes may split."""
    found = rule.may_be_uneven
    if op.name.startswith("linalg.") and not _may_be_padded(op):
        return frozenset()
    reduced = frozenset(rule.reduction_of)
    if not reduced & found or _reduces_padding(op, rule):
        return found
    return found - reduced


def _may_be_padded(op: ir.Operation) -> bool:
    """Whether a body does no harm to elements that are none."""
    inside = walk(op) if has_own_body(op.name) else _body(op)
    names = {inner.name for inner in inside}
    if names & set(_LOADS):
        return False
    return has_own_body(op.name) or not names & set(TRAPS)


def _body(op: ir.Operation) -> list[ir.Operation]:
    has_one = len(op.regions) > 0 and len(op.regions[0].blocks) > 0
    return operations(body(op)) if has_one else []


def _reduces_padding(op: ir.Operation, rule: ShardingRule) -> bool:
    """Whether it is known what leaves the op's reductions alone."""
    if op.name.startswith("linalg."):
        return has_own_body(op.name) or _is_product(op, rule)
    return op.name in _REDUCED and _REDUCED[op.name](op, rule) is not None


def _is_product(op: ir.Operation, rule: ShardingRule) -> bool:
    """Whether a body adds up products of elements, all of tensors that have what is summed over."""
    names = [inner.name for inner in _body(op)]
    reduced = frozenset(rule.reduction_of)
    inputs = [dims or () for place, dims in enumerate(rule.operands) if place not in rule.inits]
    have = all(reduced <= {factor for dim in dims for factor in dim} for dims in inputs)
    computing = [name for name in names if name not in _CASTS]
    products = (["arith.mulf", "arith.addf"], ["arith.muli", "arith.addi"])
    return have and computing[:-1] in products


_CASTS = ("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp")


def fillings(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """What operands must hold in the padding along factors that `may_be_uneven` allows."""
    every = frozenset(range(len(rule.sizes)))
    if op.name in TRAPS:
        return [Filling(1, every, TRAPS[op.name])]
    found = [Filling(at, every, 0) for at in _READS_AT.get(op.name, ())]
    found += _past_ends(rule)
    reduced = _REDUCED.get(op.name)
    if op.name.startswith("linalg.") and not has_own_body(op.name):
        reduced = _identities
    return [*found, *((reduced(op, rule) if reduced else None) or ())]


def _past_ends(rule: ShardingRule) -> list[Filling]:
    """What windows find behind the last element."""
    return [
        Filling(each.operand, frozenset({each.factor}), each.windows.fill)
        for each in rule.windows
        if each.windows.fill is not None and not each.windows.stay_inside
    ]


_Reduced = Callable[[ir.Operation, ShardingRule], "list[Filling] | None"]


def _identities(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """Each operand that has a reduced factor holds what leaves the reduction alone."""
    return [
        Filling(place, frozenset({factor}), kind)
        for factor, kind in rule.reductions
        for place, dims in enumerate(rule.operands)
        if place not in rule.inits and dims is not None and any(factor in dim for dim in dims)
    ]


def _nothing(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """What is looked up is inside of the whole tensor, so in no padding."""
    return []


def _updates(op: ir.Operation, rule: ShardingRule) -> list[Filling]:
    """Where updates of `scatter` are padding, joining them must change nothing."""
    first = len(op.results) + 1
    return [each for each in _identities(op, rule) if each.operand >= first]


def _without_zero_points(*places: int) -> _Reduced:
    """Where the zero points at `places` are zeros, so that elements of zero count for nothing."""

    def filled(op: ir.Operation, rule: ShardingRule) -> list[Filling] | None:
        given = [splat_value(op.operands[place]) for place in places]
        are_zero = all(each is not None and each.value == 0 for each in given)
        return _identities(op, rule) if are_zero else None

    return filled


_REDUCED: dict[str, _Reduced] = {
    "stablehlo.convolution": _identities,
    "stablehlo.dot": _identities,
    "stablehlo.dot_general": _identities,
    "stablehlo.dynamic_slice": _identities,
    "stablehlo.gather": _nothing,
    "stablehlo.reduce": _identities,
    "stablehlo.scatter": _updates,
    "tosa.conv2d": _without_zero_points(3, 4),
    "tosa.conv3d": _without_zero_points(3, 4),
    "tosa.matmul": _without_zero_points(2, 3),
    "tosa.matmul_t": _without_zero_points(2, 3),
    "tosa.reduce_all": _identities,
    "tosa.reduce_any": _identities,
    "tosa.reduce_max": _identities,
    "tosa.reduce_min": _identities,
    "tosa.reduce_product": _identities,
    "tosa.reduce_sum": _identities,
    "tosa.transpose_conv2d": _without_zero_points(3, 4),
}
"""For ops whose reductions are known: what they need, or `None` where an op as it stands cannot."""


def fill_padding(cut: Cut) -> None:
    """Put in front of an op what its operands must hold where they are padded."""
    op, rule = cut.op, cut.rule
    shards = [shard for shard in cut.operands if shard is not None]
    if not any(shard.is_uneven(dim) for shard in shards for dim in range(len(shard.shape))):
        return
    for filling in fillings(op, rule):
        dims, shard = rule.cut_operands[filling.operand], cut.operands[filling.operand]
        if dims is None or shard is None:
            continue
        along = [
            dim
            for dim, factors in enumerate(dims)
            if shard.is_uneven(dim) and filling.factors & set(factors)
        ]
        if along:
            with ir.InsertionPoint(op), op.location:
                ends = {dim: as_index(shard.end(dim)) for dim in along}
                value = op.operands[filling.operand]
                other = filling.element(value.type.element_type)
                op.operands[filling.operand] = keep_first(value, ends, other)
