"""Matrix products of the lowered form as calls into the BLAS that numpy carries.

    linalg.contract indexing_maps = [(b, m, k), (k, n), (b, m, n)] ins(%a, %b) outs(%c)

becomes a call of `cblas_sgemm` on the pointers, with b and m as one dimension. Any contraction
whose loops are batch, m, n and k loops is one product for each batch index; operands whose
dimensions do not lie in such an order are transposed into a temporary first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.program import itemsize
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.runtime.zeros import forget_zeros

_ROW_MAJOR, _NO_TRANSPOSE, _TRANSPOSE = 101, 111, 112
_LETTERS = {"f32": "s", "f64": "d"}
_THREADS = (
    "scipy_openblas_set_num_threads64_",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads",
)
_SYMBOLS = ("scipy_cblas_{}gemm64_", "cblas_{}gemm64_", "scipy_cblas_{}gemm", "cblas_{}gemm")


@cache
def _library() -> ctypes.CDLL | None:
    """Numpy's own OpenBLAS, if it carries one."""
    root = Path(np.__file__).parent
    for folder in (root.parent / "numpy.libs", root / ".dylibs"):
        for path in sorted(folder.glob("lib*openblas*")):
            return ctypes.CDLL(str(path))
    return None


def use_one_thread() -> None:
    """Have products run on the thread that asks for them, in the whole process.

    Devices are threads, or processes beside each other: more would be in each other's way.
    """
    for name in _THREADS:
        function = getattr(_library(), name, None)
        if function is not None:
            function(1)
            return


@cache
def gemm(element: str) -> tuple[str, int] | None:
    """The name and the address of the product of `f32` or `f64` matrices, if there is one."""
    library = _library()
    if library is None or element not in _LETTERS:
        return None
    for pattern in _SYMBOLS:
        name = pattern.format(_LETTERS[element])
        function = getattr(library, name, None)
        if function is not None:
            return name, ctypes.cast(function, ctypes.c_void_p).value or 0
    return None


def addresses() -> dict[str, int]:
    """Of all products, by their names."""
    return dict(found for element in _LETTERS if (found := gemm(element)) is not None)


def call_blas(module: ir.Operation) -> list[str]:
    """Replace the matrix products of `module` by calls; gives the names of what is called."""
    called: list[str] = []
    for op in walk(module):
        product = _read(op)
        symbol = gemm(str(product.element)) if product else None
        if product is None or symbol is None:
            continue
        if symbol[0] not in called:
            _declare(module, symbol[0], product.element)
            called.append(symbol[0])
        adds = not forget_zeros(op, op.operands[2])
        with ir.InsertionPoint(op), op.location:
            _emit(product, symbol[0], adds)
        op.erase()
    return called


@dataclass(frozen=True)
class _Product:
    """`c += a @ b`: three buffers, for each the loops of its dimensions, and the loops by kind."""

    buffers: tuple[ir.Value, ir.Value, ir.Value]
    loops: tuple[tuple[int, ...], ...]
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    sizes: dict[int, int]
    element: ir.Type

    def size(self, loops: Sequence[int]) -> int:
        return prod(self.sizes[loop] for loop in loops)


def _read(op: ir.Operation) -> _Product | None:
    """The product that `op` computes, or `None` if it is no product of static buffers."""
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or len(op.results):
        return None
    types = [operand.type for operand in op.operands]
    if not all(_is_plain_buffer(type_) for type_ in types):
        return None
    element = types[0].element_type
    if not linalg_queries.isa_contraction_op(op) or not _is_multiply_add(op):
        return None
    dims = linalg_queries.infer_contraction_dimensions(op)
    if dims is None or any(type_.element_type != element for type_ in types):
        return None
    loops = tuple(_positions(map_.value) for map_ in linalg_queries.get_indexing_maps(op))
    kinds = [set(kind) for kind in (dims.batch, dims.m, dims.n, dims.k)]
    batch, m, n, k = kinds
    expected = [batch | m | k, batch | k | n, batch | m | n]
    # A contraction may also have loops that are of no kind, or repeat one: those stay loops.
    if [sorted(each) for each in loops] != [sorted(each) for each in expected]:
        return None
    sizes = {
        loop: size
        for each, type_ in zip(loops, types, strict=True)
        for loop, size in zip(each, type_.shape, strict=True)
    }
    left, right, result = op.operands
    a, _, c = loops
    # The loops of each kind in the order in which the result (for k: the left operand) has them.
    in_result = [tuple(loop for loop in c if loop in kind) for kind in (batch, m, n)]
    summed = tuple(loop for loop in a if loop in k)
    batch_loops, rows, columns = in_result
    return _Product(
        (left, right, result), loops, batch_loops, rows, columns, summed, sizes, element
    )


def _is_plain_buffer(type_: ir.Type) -> bool:
    return (
        isinstance(type_, ir.MemRefType)
        and type_.has_static_shape
        and type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
        and str(type_.element_type) in _LETTERS
    )


def _is_multiply_add(op: ir.Operation) -> bool:
    names = [inner.name for inner in operations(body(op))]
    return names == ["arith.mulf", "arith.addf", "linalg.yield"]


def _positions(map_: ir.AffineMap) -> tuple[int, ...]:
    """The loops of the dimensions; -1 for one that is no plain loop."""
    return tuple(
        expr.position if isinstance(expr, ir.AffineDimExpr) else -1 for expr in map_.results
    )


def _declare(module: ir.Operation, name: str, element: ir.Type) -> None:
    i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
    size = i64 if name.endswith("64_") else i32
    inputs = [i32, i32, i32, size, size, size, element, i64, size, i64, size, element, i64, size]
    with ir.InsertionPoint.at_block_begin(body(module)), ir.Location.unknown():
        build.declare(name, ir.FunctionType.get(inputs, []))


def _emit(product: _Product, name: str, adds: bool) -> None:
    """`adds`: to what is in the third buffer; else that is not read."""
    p = product
    a, b, c = p.buffers
    scale = build.scalar(ir.FloatAttr.get(p.element, float(adds))).results[0]
    a, a_transposed, a_copy = _arranged(p, a, p.loops[0], p.m, p.k)
    b, b_transposed, b_copy = _arranged(p, b, p.loops[1], p.k, p.n)
    c_now, c_transposed, c_copy = _arranged(p, c, p.loops[2], p.m, p.n, is_read=adds)
    m, n, k = p.size(p.m), p.size(p.n), p.size(p.k)
    pointers = [build.address(each) for each in (a, b, c_now)]
    strides = [size * itemsize(p.element) for size in (m * k, k * n, m * n)]
    with _for_each(p.size(p.batch)) as index:
        at = [
            _advanced(pointer, index, stride)
            for pointer, stride in zip(pointers, strides, strict=True)
        ]
        if c_transposed:  # c^T = b^T a^T
            turned = (not b_transposed, not a_transposed)
            _call(name, p, turned, (n, m, k), (at[1], at[0], at[2]), scale)
        else:
            _call(name, p, (a_transposed, b_transposed), (m, n, k), (at[0], at[1], at[2]), scale)
    if c_copy:
        build.transpose(c_now, c, _permutation((*p.batch, *p.m, *p.n), p.loops[2]))
    for copy, value in ((a_copy, a), (b_copy, b), (c_copy, c_now)):
        if copy:
            build.create("memref.dealloc", [], [value])


def _call(
    name: str,
    product: _Product,
    transposed: tuple[bool, bool],
    sizes: tuple[int, int, int],
    pointers: tuple[ir.Value, ir.Value, ir.Value],
    scale: ir.Value,
) -> None:
    m, n, k = sizes
    i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
    width = i64 if name.endswith("64_") else i32

    def number(value: int, type_: ir.Type) -> ir.Value:
        return build.scalar(ir.IntegerAttr.get(type_, value)).results[0]

    one = build.scalar(ir.FloatAttr.get(product.element, 1.0)).results[0]
    kinds = [_TRANSPOSE if each else _NO_TRANSPOSE for each in transposed]
    leading = (m if transposed[0] else k, k if transposed[1] else n, n)
    head = [number(value, i32) for value in (_ROW_MAJOR, *kinds)]
    head += [number(value, width) for value in (m, n, k)]
    lda, ldb, ldc = (number(max(1, value), width) for value in leading)
    a, b, c = pointers
    operands = [*head, one, a, lda, b, ldb, scale, c, ldc]
    build.call(name, operands)


def _arranged(
    product: _Product,
    buffer: ir.Value,
    loops: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    is_read: bool = True,
) -> tuple[ir.Value, bool, bool]:
    """The buffer as a stack of matrices; whether they are transposed, and whether it is a copy."""
    present = [
        tuple(loop for loop in kind if loop in loops) for kind in (product.batch, rows, columns)
    ]
    batch, rows, columns = present
    if loops == (*batch, *rows, *columns):
        return buffer, False, False
    if loops == (*batch, *columns, *rows):
        return buffer, True, False
    order = (*batch, *rows, *columns)
    type_ = ir.MemRefType.get([product.sizes[loop] for loop in order], product.element)
    copy = build.allocate(type_).results[0]
    if is_read:
        build.transpose(buffer, copy, _permutation(loops, order))
    return copy, False, True


def _permutation(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """For each dimension of the target the dimension of the source that it comes from."""
    return [list(source).index(loop) for loop in target]


@contextmanager
def _for_each(count: int) -> Iterator[ir.Value | None]:
    """Emit what is inside in a loop; its index, or `None` where there is only one round."""
    if count == 1:
        yield None
        return
    bounds = [build.index(each) for each in (0, count, 1)]
    loop = build.create("scf.for", [], bounds, regions=1)
    block = loop.regions[0].blocks.append(ir.IndexType.get(), arg_locs=[loop.location])
    with ir.InsertionPoint(block):
        yield block.arguments[0]
        build.create("scf.yield", [], [])


def _advanced(pointer: ir.Value, index: ir.Value | None, stride: int) -> ir.Value:
    """The pointer `index` strides of so many bytes further on."""
    if index is None:
        return pointer
    type_ = pointer.type
    rounds = build.create("arith.index_cast", [type_], [index]).results[0]
    step = build.scalar(ir.IntegerAttr.get(type_, stride)).results[0]
    offset = build.create("arith.muli", [type_], [rounds, step]).results[0]
    return build.create("arith.addi", [type_], [pointer, offset]).results[0]
