"""Which ops may work on partial values: of the parts they make the parts of the result.

    add(x, y), both partial sums              the partial sum of x + y
    multiply(x, y), one of them a partial sum the partial sum of x * y
    transpose(x), partial in any way          partial in that way

`arith` ops have operands of one type, so all or none of them are partial. Rounding differs as it
does with the order of any sum. Narrower floats would round each part, so a conversion to them
counts only where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule

Places = frozenset[int]
_Carry = Callable[[ir.Operation, Places], Places | None]


def carries(
    op: ir.Operation, rule: ShardingRule, places: Places, reduction: Reduction, *, narrow: bool
) -> Places | None:
    """The operands that must be partial with those at `places` for the result to be.

    `None` where it would be something else. With `narrow` conversions may round each part.
    """
    if _is_bool(op):
        return None
    if op.name in _CONVERSIONS:
        return _converted(op, places, reduction, narrow=narrow)
    if op.name in _REDUCTIONS:
        kinds = {kind for _, kind in rule.reductions}
        return _first(op, places) if kinds == {reduction} and len(op.results) == 1 else None
    carry = _ANY.get(op.name) or _TABLES.get(reduction, {}).get(op.name)
    found = carry(op, places) if carry else None
    if found is not None and op.name.startswith("linalg."):
        count = len(op.operands)
        return found | set(range(count - len(op.results), count))
    return found


def _together(op: ir.Operation, places: Places) -> Places | None:
    count = len(op.operands) - (len(op.results) if op.name.startswith("linalg.") else 0)
    return frozenset(range(count))


def _one(op: ir.Operation, places: Places) -> Places | None:
    return places if len(places) == 1 and places <= {0, 1} else None


def _first(op: ir.Operation, places: Places) -> Places | None:
    return places if places == {0} else None


def _arms(op: ir.Operation, places: Places) -> Places | None:
    return frozenset({1, 2}) if places <= {1, 2} else None


def _numerator(op: ir.Operation, places: Places) -> Places | None:
    return _first(op, places) if _is_float(op.operands[0]) else None


def _converted(
    op: ir.Operation, places: Places, reduction: Reduction, *, narrow: bool
) -> Places | None:
    given, made = op.operands[0], op.results[0]
    if reduction == "product" or not (_is_float(given) and _is_float(made)):
        return None
    widens = made.type.element_type.width > given.type.element_type.width
    exact = widens or reduction != "sum"  # rounding keeps an order
    return places if exact or narrow else None


def _is_float(value: ir.Value) -> bool:
    return isinstance(value.type.element_type, ir.FloatType)


def _is_bool(op: ir.Operation) -> bool:
    type_ = op.results[0].type
    return isinstance(type_, ir.ShapedType) and str(type_.element_type) == "i1"


def _table(**groups: tuple[_Carry, str]) -> dict[str, _Carry]:
    return {name: carry for carry, names in groups.values() for name in names.split()}


_CONVERSIONS = ("stablehlo.convert", "arith.extf", "arith.truncf")
_REDUCTIONS = ("stablehlo.reduce", "tosa.reduce_sum", "tosa.reduce_max", "tosa.reduce_min")
_ANY = _table(
    moved=(
        _first,
        "stablehlo.transpose stablehlo.reshape stablehlo.broadcast_in_dim stablehlo.slice "
        "stablehlo.reverse stablehlo.gather linalg.transpose linalg.broadcast linalg.copy "
        "tensor.expand_shape tensor.collapse_shape tensor.extract_slice tosa.transpose "
        "tosa.reshape tosa.slice tosa.reverse",
    ),
    joined=(_together, "stablehlo.concatenate tensor.concat tosa.concat"),
    chosen=(_arms, "stablehlo.select arith.select tosa.select"),
)
_TABLES: dict[Reduction, dict[str, _Carry]] = {
    "sum": _table(
        added=(
            _together,
            "stablehlo.add stablehlo.subtract arith.addf arith.addi arith.subf arith.subi "
            "tosa.add tosa.sub linalg.add linalg.sub",
        ),
        scaled=(
            _one,
            "stablehlo.multiply linalg.mul stablehlo.dot_general "
            "stablehlo.convolution linalg.matmul linalg.batch_matmul linalg.matvec linalg.vecmat "
            "linalg.dot",
        ),
        negated=(_first, "stablehlo.negate arith.negf linalg.negf"),
        divided=(_numerator, "stablehlo.divide linalg.div"),
    ),
    "max": _table(of=(_together, "stablehlo.maximum arith.maximumf arith.maxsi linalg.max")),
    "min": _table(of=(_together, "stablehlo.minimum arith.minimumf arith.minsi linalg.min")),
    "product": _table(of=(_together, "stablehlo.multiply arith.mulf arith.muli linalg.mul")),
}
