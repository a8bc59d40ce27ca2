"""Elements that numpy or torch computes with otherwise than MLIR: unsigned, complex, 16 bits."""

import ml_dtypes
import numpy as np
import pytest

from shard_dialect.abi.tensor_types import Array
from shard_dialect.ir.bindings import spelled
from tests.emit.test_emit_python import Batch, batch

pytestmark = pytest.mark.usefixtures("unoptimized")

__all__ = ["batch"]
GRID = "shard.grid @g(shape = 1)\n"
_BINARY = ("add subtract multiply divide remainder maximum minimum and or xor").split()
_ORDERS = ("EQ", "NE", "LT", "LE", "GT", "GE")


def unsigned(element: str) -> str:
    """Ops on unsigned integers: arithmetic, order, conversions, reductions, a sort, a search."""
    t, b = f"tensor<8x{element}>", "tensor<8xi1>"
    lines, values, types = [], [], []

    def add(text: str, type_: str) -> None:
        lines.append(f"%r{len(values)} = {text}")
        values.append(f"%r{len(values)}")
        types.append(type_)

    for name in _BINARY:
        add(f"stablehlo.{name} %x, %y : {t}", t)
    for order in _ORDERS:
        add(f"stablehlo.compare {order}, %x, %y, UNSIGNED : ({t}, {t}) -> {b}", b)
    add(f"stablehlo.clamp %y, %x, %x : {t}", t)
    add(f"stablehlo.shift_left %x, %s : {t}", t)
    add(f"stablehlo.shift_right_logical %x, %s : {t}", t)
    for other in ("f32", "f64", "i64", "ui64", "ui16", "i8", "bf16"):
        if other != element:
            add(f"stablehlo.convert %x : ({t}) -> tensor<8x{other}>", f"tensor<8x{other}>")
    add(f"stablehlo.convert %f : (tensor<8xf64>) -> {t}", t)
    for name, init in (("add", 0), ("maximum", 0), ("minimum", "MOST"), ("or", 0), ("and", "MOST")):
        most = 2 ** int(element[2:]) - 1
        value = most if init == "MOST" else init
        lines.append(f"%c{name} = stablehlo.constant dense<{value}> : tensor<{element}>")
        add(
            f"stablehlo.reduce(%x init: %c{name}) applies stablehlo.{name} across dimensions = [0]"
            f" : ({t}, tensor<{element}>) -> tensor<{element}>",
            f"tensor<{element}>",
        )
    lines.append(f"%large = stablehlo.constant dense<{2 ** int(element[2:]) - 3}> : {t}")
    add(f"stablehlo.divide %x, %large : {t}", t)
    add(f"stablehlo.maximum %s, %large : {t}", t)
    s = f"tensor<{element}>"
    add(
        f'"stablehlo.sort"(%x) ({{\n^bb0(%a: {s}, %b: {s}):\n'
        f"%q = stablehlo.compare LT, %a, %b, UNSIGNED : ({s}, {s}) -> tensor<i1>\n"
        f"stablehlo.return %q : tensor<i1>\n}}) {{dimension = 0 : i64}} : ({t}) -> {t}",
        t,
    )
    body = "\n".join([*lines, f"return {', '.join(values)} : {', '.join(types)}"])
    arguments = f"%x: {t}, %y: {t}, %s: {t}, %f: tensor<8xf64>"
    return f"{GRID}func.func @main({arguments}) -> ({', '.join(types)}) {{\n{body}\n}}\n"


def numbers_of(bits: int) -> list[Array]:
    """Numbers with and without the first bit, zeros among the divisors, shifts, and floats."""
    dtype, most = np.dtype(f"u{bits // 8}"), 2**bits - 1
    half = 2 ** (bits - 1)
    x = [0, 1, most, half, half - 1, 77, most - 1, half + 5]
    y = [3, 0, most, 7, half, 5, 2, half + 6]
    shifts = [0, 1, bits - 1, bits, 2, 3, most, 4]
    floats = [0.0, 1.5, most / 2, 2.0 ** (bits - 1), 3.99, 7.0, most * 0.75, 100.0]
    return [*(np.array(each, dtype) for each in (x, y, shifts)), np.array(floats)]


SIGNLESS = f"""
{GRID}
!t = tensor<8xTYPE>
func.func @main(%x: !t, %y: !t)
    -> (!t, !t, !t, !t, !t, tensor<8xi1>, tensor<8xi1>, tensor<8xf64>, tensor<8xf64>, !t) {{
  %0 = arith.divui %x, %y : !t
  %1 = arith.remui %x, %y : !t
  %2 = arith.maxui %x, %y : !t
  %3 = arith.minui %x, %y : !t
  %one = arith.constant dense<1> : !t
  %4 = arith.shrui %x, %one : !t
  %5 = arith.cmpi ult, %x, %y : !t
  %6 = arith.cmpi uge, %x, %y : !t
  %7 = arith.uitofp %x : !t to tensor<8xf64>
  %8 = math.absf %7 : tensor<8xf64>
  %9 = arith.fptoui %8 : tensor<8xf64> to !t
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9
    : !t, !t, !t, !t, !t, tensor<8xi1>, tensor<8xi1>, tensor<8xf64>, tensor<8xf64>, !t
}}
"""


COMPLEX = f"""
{GRID}
!c = tensor<3x4xTYPE>
!f = tensor<3x4xPART>
func.func @main(%x: !c, %y: !c, %f: !f)
    -> (!c, !c, !c, !c, !f, !f, !f, !c, tensor<3x4xi1>, tensor<3xTYPE>, tensor<3x3xTYPE>, !c) {{
  %c = stablehlo.constant dense<(1.5, -2.0)> : !c
  %zero = stablehlo.constant dense<(0.0, 0.0)> : tensor<TYPE>
  %0 = stablehlo.add %x, %c : !c
  %1 = stablehlo.multiply %x, %y : !c
  %2 = stablehlo.divide %x, %y : !c
  %3 = stablehlo.exponential %x : !c
  %4 = stablehlo.abs %x : (!c) -> !f
  %5 = stablehlo.real %x : (!c) -> !f
  %6 = stablehlo.imag %x : (!c) -> !f
  %7 = stablehlo.complex %f, %6 : !c
  %8 = stablehlo.compare EQ, %x, %y : (!c, !c) -> tensor<3x4xi1>
  %9 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (!c, tensor<TYPE>) -> tensor<3xTYPE>
  %10 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (!c, !c) -> tensor<3x3xTYPE>
  %k = stablehlo.constant dense<[[(1.0, 2.0), (3.0, -4.0), (0.5, 0.0), (0.0, 0.25)],
    [(1.0, 2.0), (3.0, -4.0), (0.5, 0.0), (0.0, 0.25)],
    [(9.0, 2.0), (3.0, -4.0), (0.5, 0.0), (0.0, 0.25)]]> : !c
  %11 = stablehlo.subtract %k, %y : !c
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11
    : !c, !c, !c, !c, !f, !f, !f, !c, tensor<3x4xi1>, tensor<3xTYPE>, tensor<3x3xTYPE>, !c
}}
"""


HALVES = f"""
{GRID}
!t = tensor<4x8xTYPE>
func.func @main(%x: !t, %y: !t)
    -> (!t, !t, !t, tensor<4xTYPE>, tensor<4x4xTYPE>, tensor<4x8xf32>, !t, tensor<4x8xi32>, !t) {{
  %zero = stablehlo.constant dense<0.0> : tensor<TYPE>
  %two = stablehlo.constant dense<2.0> : !t
  %least = stablehlo.constant dense<0.5> : !t
  %0 = stablehlo.multiply %x, %two : !t
  %1 = stablehlo.clamp %least, %x, %y : !t
  %2 = stablehlo.logistic %x : !t
  %3 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (!t, tensor<TYPE>) -> tensor<4xTYPE>
  %4 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (!t, !t) -> tensor<4x4xTYPE>
  %5 = stablehlo.convert %x : (!t) -> tensor<4x8xf32>
  %6 = stablehlo.convert %5 : (tensor<4x8xf32>) -> !t
  %7 = stablehlo.convert %x : (!t) -> tensor<4x8xi32>
  %8 = "stablehlo.sort"(%x) ({{
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    %q = stablehlo.compare GT, %a, %b : (tensor<TYPE>, tensor<TYPE>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  }}) {{dimension = 1 : i64}} : (!t) -> !t
  return %0, %1, %2, %3, %4, %5, %6, %7, %8
    : !t, !t, !t, tensor<4xTYPE>, tensor<4x4xTYPE>, tensor<4x8xf32>, !t, tensor<4x8xi32>, !t
}}
"""
ELEMENTS = f"""
{GRID}
func.func @main(%x: tensor<3xTYPE>) -> tensor<3xTYPE> {{
  %c = stablehlo.constant dense<[1.5, -2.0, 0.25]> : tensor<3xTYPE>
  %0 = stablehlo.add %x, %c : tensor<3xTYPE>
  return %0 : tensor<3xTYPE>
}}
"""


def test_every_element_type_is_computed_with(batch: Batch) -> None:
    """By one launch, of one device."""
    for bits in (8, 16, 32, 64):
        batch.add(f"ui{bits}", unsigned(f"ui{bits}"), inputs=numbers_of(bits), is_exact=True)
    for element in ("i8", "i32"):
        x, y, _, _ = (each.view(f"i{each.itemsize}") for each in numbers_of(int(element[1:])))
        inputs = [x, np.where(y == 0, np.int8(9), y).astype(y.dtype)]
        batch.add(element, SIGNLESS.replace("TYPE", element), inputs=inputs, is_exact=True)
    for part in ("f32", "f64"):
        text = COMPLEX.replace("TYPE", f"complex<{part}>").replace("PART", part)
        batch.add(f"complex_{part}", text)
    for element in ("f16", "bf16"):
        batch.add(f"ops_{element}", HALVES.replace("TYPE", element))
        batch.add(f"elements_{element}", ELEMENTS.replace("TYPE", element))
    batch.add("products", PRODUCTS)
    assert len(batch) == 13, batch.refused
    batch.check()


PRODUCTS = """
shard.grid @g(shape = 1)
func.func @main(%x: tensor<3x5xbf16>, %y: tensor<5x2xbf16>, %v: tensor<5xbf16>, %i: tensor<3x5xi8>)
    -> (tensor<3x2xf32>, tensor<3xbf16>, tensor<f32>, tensor<3x3xi32>) {
  %0 = stablehlo.dot %x, %y : (tensor<3x5xbf16>, tensor<5x2xbf16>) -> tensor<3x2xf32>
  %1 = stablehlo.dot %x, %v : (tensor<3x5xbf16>, tensor<5xbf16>) -> tensor<3xbf16>
  %2 = stablehlo.dot %v, %v : (tensor<5xbf16>, tensor<5xbf16>) -> tensor<f32>
  %3 = stablehlo.dot_general %i, %i, contracting_dims = [1] x [1]
    : (tensor<3x5xi8>, tensor<3x5xi8>) -> tensor<3x3xi32>
  return %0, %1, %2, %3 : tensor<3x2xf32>, tensor<3xbf16>, tensor<f32>, tensor<3x3xi32>
}
"""
"""Results as wide as the operands, and wider."""


SUMS = """
shard.grid @g(shape = 4)
!t = tensor<4xTYPE>
!s = tensor<1xTYPE>
func.func @main(%x: !t {mesh.argument = tensor<16xTYPE, #mesh.shard<@g, [[0]]>>})
    -> (!t {mesh.result = tensor<16xTYPE, #mesh.shard<@g, [[0]]>>},
        !s {mesh.result = tensor<4xTYPE, #mesh.shard<@g, [[0]]>>},
        !t {mesh.result = tensor<16xTYPE, #mesh.shard<@g, [[0]]>>})
    attributes {mesh.form = "local"} {
  %0 = shard.all_reduce %x on @g grid_axes = [0] : !t -> !t
  %1 = shard.reduce_scatter %x on @g grid_axes = [0] SCATTER = 0 : !t -> !s
  %2 = shard.reduce %x on @g grid_axes = [0] root = [2] : (!t) -> !t
  return %0, %1, %2 : !t, !s, !t
}
"""


def test_sums_over_devices_are_rounded_once(batch: Batch) -> None:
    """Of the large one and 1, added two at a time, the sum would be the large one."""
    for element, dtype, large in (("bf16", ml_dtypes.bfloat16, 256), ("f16", np.float16, 2048)):
        given = np.repeat([large, 1, 1, 2], 4).astype(dtype)
        total = np.full(16, large + 4).astype(dtype)
        on_root = np.where(np.arange(16) // 4 == 2, total, 0).astype(dtype)
        text = SUMS.replace("TYPE", element).replace("SCATTER", spelled("scatter_axis"))
        found = {"all": total, "a slice": total[:4], "on the root": on_root}
        batch.expect(element, text, [given], found)
    batch.check()
