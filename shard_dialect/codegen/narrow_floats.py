"""Express narrow floats by what every processor supports.

LLVM calls functions of a compiler's runtime library for conversions without an instruction, and
for moving bf16 values. Our code is not linked with such a library.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import walk

_NARROW = ("bf16", "f16")
_LESS, _MORE_OR_LESS = 4, 6
"""Ordered predicates of `arith.cmpf`."""


def convert_by_f32(module: ir.Operation) -> None:
    """Convert between f64 and bf16 or f16 through f32, with the same result.

    A number that f32 cannot represent is rounded to odd: to the neighbour whose last bit is 1. That
    bit tells the second rounding on which side of a tie the number was.
    """
    for op in walk(module):
        if op.name not in ("arith.extf", "arith.truncf"):
            continue
        source, target = (str(each.type) for each in (op.operands[0], op.results[0]))
        with ir.InsertionPoint(op), op.location:
            if source == "f64" and target in _NARROW:
                op.operands[0] = _to_odd(op.operands[0])
            elif source in _NARROW and target == "f64":
                f32 = ir.F32Type.get()
                op.operands[0] = build.cast("arith.extf", op.operands[0], f32)


def add_products_in_f32(module: ir.Operation) -> None:
    """Compute each `math.fma` of bf16 or f16 in f32, and round: upstream widens all others."""
    for op in walk(module):
        if op.name != "math.fma" or str(op.results[0].type) not in _NARROW:
            continue
        with ir.InsertionPoint(op), op.location:
            f32 = ir.F32Type.get()
            wide = [build.cast("arith.extf", each, f32) for each in op.operands]
            (total,) = build.create("math.fma", [f32], wide).results
            narrow = build.cast("arith.truncf", total, op.results[0].type)
        op.results[0].replace_all_uses_with(narrow)
        op.erase()


def _to_odd(value: ir.Value) -> ir.Value:
    f32, f64, i32 = ir.F32Type.get(), ir.F64Type.get(), ir.IntegerType.get_signless(32)
    nearest = build.cast("arith.truncf", value, f32)
    back = build.cast("arith.extf", nearest, f64)
    bits = build.cast("arith.bitcast", nearest, i32)
    sizes = [build.cast("math.absf", each, f64) for each in (value, back)]
    is_farther = build.create("arith.extui", [i32], [_compare(_LESS, *sizes)]).results[0]
    nearer = build.create("arith.subi", [i32], [bits, is_farther]).results[0]
    is_rounded = build.create("arith.extui", [i32], [_compare(_MORE_OR_LESS, back, value)])
    odd = build.create("arith.ori", [i32], [nearer, is_rounded.results[0]]).results[0]
    return build.cast("arith.bitcast", odd, f32)


def _compare(predicate: int, a: ir.Value, b: ir.Value) -> ir.Value:
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
    bit = ir.IntegerType.get_signless(1)
    return build.create("arith.cmpf", [bit], [a, b], {"predicate": number}).results[0]


def move_as_bits(module: ir.Operation) -> None:
    """In the LLVM dialect, represent bf16 values as 16-bit integers.

    Arithmetic on bf16 was converted to f32 before, so it is only loaded, stored and selected.
    """
    bits = ir.IntegerType.get_signless(16)
    for op in walk(module):
        arguments = [each for region in op.regions for block in region for each in block.arguments]
        for value in (*arguments, *op.results):
            if isinstance(value.type, ir.BF16Type):
                value.set_type(bits)
        if op.name == "llvm.func" and "bf16" in str(op.attributes["function_type"]):
            type_ = str(op.attributes["function_type"]).replace("bf16", "i16")
            op.attributes["function_type"] = ir.Attribute.parse(type_)
        elif op.name == "llvm.mlir.constant" and isinstance(op.attributes["value"], ir.FloatAttr):
            _constant_as_bits(op, bits)
    for op in walk(module):
        if op.name == "llvm.bitcast" and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _constant_as_bits(op: ir.Operation, bits: ir.Type) -> None:
    value = op.attributes["value"]
    if isinstance(value.type, ir.BF16Type):
        number = np.array(value.value, ml_dtypes.bfloat16).view(np.int16)
        op.attributes["value"] = ir.IntegerAttr.get(bits, int(number))
