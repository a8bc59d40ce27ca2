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


def divided(a: int, b: int) -> int | None:
    """Division that rounds to zero, as that of arith and StableHLO; `None` by zero.

    >>> divided(-7, 2)
    -3
    """
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor_divided(a: int, b: int) -> int | None:
    return None if b == 0 else a // b


def _ceil_divided(a: int, b: int) -> int | None:
    return None if b == 0 else -(-a // b)


_SIZE = "tensor.dim"
_SAME = ("arith.extsi", "arith.index_cast", "arith.trunci")
_OPS: Mapping[str, Callable[[int, int], int | None]] = {
    "arith.addi": operator.add,
    "arith.ceildivsi": _ceil_divided,
    "arith.divsi": divided,
    "arith.floordivsi": _floor_divided,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.muli": operator.mul,
    "arith.subi": operator.sub,
}


def constant_integer(value: ir.Value) -> int | None:
    """The integer that `value`, a scalar, is in every run; `None` if constants do not make it.

    `None`, too, where arithmetic leaves the range of its type, or divides by zero.
    """
    known: dict[ir.Value, int | None] = {}  # values may be used often, and chains may be long
    waiting = [value]
    while waiting:
        each = waiting[-1]
        missing = [operand for operand in _read(each) if operand not in known]
        if missing:
            waiting += missing
        else:
            known[each] = _made(each, known)
            waiting.pop()
    return known[value]


def _read(value: ir.Value) -> list[ir.Value]:
    """The integers that `value` is computed from."""
    if isinstance(value.owner, ir.Block):
        return []
    op = value.owner.operation
    if op.name == _SIZE:
        return [op.operands[1]]
    return list(op.operands) if op.name in (*_SAME, *_OPS) else []


def _made(value: ir.Value, known: Mapping[ir.Value, int | None]) -> int | None:
    """The integer that `value` is, given those that it is computed from."""
    constant = constant_value(value)
    if constant is not None:
        return constant.value if isinstance(constant, ir.IntegerAttr) else None
    read = _read(value)
    numbers = [number for each in read if (number := known[each]) is not None]
    if not read or len(numbers) < len(read):
        return None
    op = value.owner.operation
    if op.name == _SIZE:
        return _size(op.operands[0].type, numbers[0])
    number = numbers[0] if op.name in _SAME else _OPS[op.name](*numbers)
    return None if number is None else _in_range(number, value.type)


def _size(type_: ir.Type, dim: int) -> int | None:
    """The size of a dimension, where the type has it."""
    is_known = (
        isinstance(type_, ir.RankedTensorType)
        and 0 <= dim < type_.rank
        and not type_.is_dynamic_dim(dim)
    )
    return type_.get_dim_size(dim) if is_known else None


def _in_range(number: int, type_: ir.Type) -> int | None:
    width = type_.width if isinstance(type_, ir.IntegerType) else 64
    return number if -(1 << (width - 1)) <= number < 1 << (width - 1) else None
