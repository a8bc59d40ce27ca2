"""The integers that constants make, also through arithmetic.

%c3 = arith.constant 3 : i64
%n = arith.muli %c3, %c3 : i64                      9
%m = arith.index_cast %n : i64 to index             9
%d = tensor.dim %x, %c0 : tensor<4x8xf32>           4
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import constant_value

_SAME = ("arith.extsi", "arith.index_cast", "arith.trunci")
_OPS: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": operator.add,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.divsi": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "arith.floordivsi": operator.floordiv,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.muli": operator.mul,
    "arith.subi": operator.sub,
}


def constant_integer(value: ir.Value) -> int | None:
    """The integer that `value`, a scalar, is in every run; `None` if constants do not make it.

    `None`, too, where arithmetic leaves the range of its type, or divides by zero.
    """
    constant = constant_value(value)
    if constant is not None:
        return constant.value if isinstance(constant, ir.IntegerAttr) else None
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name == "tensor.dim":
        return _size(*op.operands)
    if op.name not in (*_SAME, *_OPS):
        return None
    known = [number for each in op.operands if (number := constant_integer(each)) is not None]
    if len(known) != len(op.operands):
        return None
    if op.name in _SAME:
        return _in_range(known[0], value.type)
    if "div" in op.name and known[1] == 0:
        return None
    return _in_range(_OPS[op.name](*known), value.type)


def _size(tensor: ir.Value, dim: ir.Value) -> int | None:
    """The size of a dimension, where the type has it."""
    number, type_ = constant_integer(dim), tensor.type
    is_known = (
        isinstance(type_, ir.RankedTensorType)
        and number is not None
        and 0 <= number < type_.rank
        and not type_.is_dynamic_dim(number)
    )
    return type_.get_dim_size(number) if is_known else None


def _in_range(number: int, type_: ir.Type) -> int | None:
    width = type_.width if isinstance(type_, ir.IntegerType) else 64
    return number if -(1 << (width - 1)) <= number < 1 << (width - 1) else None
