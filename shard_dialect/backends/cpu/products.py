"""Replace matrix products of the lowered form by calls of the BLAS in numpy.

    linalg.contract indexing_maps = [(b, m, k), (k, n), (b, m, n)] ins(%a, %b) outs(%c)

becomes a kernel that calls `cblas_sgemm` on the pointers, with b and m as one dimension. Any
contraction whose loops are batch, m, n and k loops is one product for each batch index. An operand
whose dimensions are in another order, or which has a part of each row of a buffer, is copied to a
temporary buffer first.

`forget_zeros` drops fills with zeros before a product that can overwrite its result instead of
adding to it:

    linalg.fill(0, %t)
    memref.copy %t, %u        is nothing, in front of    gemm(%a, %b, 0, %u)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import accumulate
from math import prod
from operator import mul

from shard_dialect.backends.cpu.blas import Gemm, is_for_blas
from shard_dialect.backends.cpu.kernels import Kernels
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building import build
from shard_dialect.ir.building.loops_and_masks import counted
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import body, operations

_LINALG = "linalg."


def forget_zeros(op: ir.Operation, value: ir.Value) -> bool:
    """Whether the buffer holds zeros before `op`; if so, erase the fill unless others read it.

    `op` must write all of the buffer, and not read it. The answer is no unless zeros are certain.
    """
    earlier = _earlier(op, value)
    is_read = False
    while earlier:
        writer = earlier.pop()
        if _only_reads(writer, value):
            is_read = True
            continue
        writers = _writes_zeros(writer, value)
        if writers and not is_read:
            writer.erase()
        return writers
    return False


def _writes_zeros(op: ir.Operation, value: ir.Value) -> bool:
    operands = list(op.operands)
    if op.name == "linalg.fill":
        known = build.constant_value(operands[0])
        return operands[1] == value and isinstance(known, ir.FloatAttr) and known.value == 0.0
    if op.name not in ("memref.copy", "linalg.copy") or operands[1] != value:
        return False
    source = _earlier(op, operands[0])
    while source and _only_reads(source[-1], operands[0]):
        source.pop()
    return bool(source) and _writes_zeros(source[-1], operands[0])


def _earlier(op: ir.Operation, value: ir.Value) -> list[ir.Operation]:
    """The ops before `op` that use the buffer; none if it may be used through an alias."""
    if not isinstance(value.owner, ir.Block) and value.owner.name != "memref.alloc":
        return []
    users = [use.owner.operation for use in value.uses]
    for each in users:
        makes_view = any(isinstance(result.type, ir.MemRefType) for result in each.results)
        if each.block != op.block or makes_view:
            return []
    earlier = [each for each in users if each != op and each.is_before_in_block(op)]
    return sorted(earlier, key=cmp_to_key(_compare))


def _compare(a: ir.Operation, b: ir.Operation) -> int:
    return 0 if a == b else -1 if a.is_before_in_block(b) else 1


def _only_reads(op: ir.Operation, value: ir.Value) -> bool:
    if op.name == "memref.copy":
        return op.operands[1] != value
    if op.name == "memref.extract_aligned_pointer_as_index" or not op.name.startswith(_LINALG):
        return False
    segments = (
        op.attributes["operandSegmentSizes"] if "operandSegmentSizes" in op.attributes else None
    )
    inputs = segments[0] if segments else len(op.operands) - 1
    return value not in list(op.operands)[inputs:]


def is_whole(type_: ir.MemRefType) -> bool:
    """Whether a buffer is contiguous, and begins at its address."""
    return bool(type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank)))


def _is_contiguous(type_: ir.MemRefType) -> bool:
    """Whether a buffer is contiguous; it may be the weights of one layer of many, say."""
    return (
        is_whole(type_)
        or type_.get_strides_and_offset()[0]
        == list(accumulate(type_.shape[:0:-1], mul, initial=1))[::-1]
    )


def advanced(pointer: ir.Value, index: ir.Value | None, stride: int) -> ir.Value:
    """The pointer moved by `index` strides of this many bytes."""
    if index is None:
        return pointer
    type_ = pointer.type
    rounds = build.cast("arith.index_cast", index, type_)
    step = build.number(stride, type_)
    return build.arith("addi", pointer, build.arith("muli", rounds, step))


@dataclass(frozen=True)
class Product:
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
        """The number of iterations of these loops together."""
        return prod(self.sizes[loop] for loop in loops)

    def write(self, gemm: Gemm, kernels: Kernels, *, adds: bool) -> None:
        """Create the product at the insertion point; `adds` accumulates into `c`'s old value."""
        _write(self, gemm, adds, kernels)


def read(op: ir.Operation) -> Product | None:
    """The product that `op` computes; `None` if it is none, or its buffers have dynamic sizes."""
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or len(op.results):
        return None
    types = [operand.type for operand in op.operands]
    if not all(is_for_blas(type_) for type_ in types):
        return None
    element = types[0].element_type
    if not linalg_queries.isa_contraction_op(op) or not is_multiply_add(op):
        return None
    dims = linalg_queries.infer_contraction_dimensions(op)
    if dims is None or any(type_.element_type != element for type_ in types):
        return None
    loops = tuple(positions(map_.value) for map_ in linalg_queries.get_indexing_maps(op))
    kinds = [set(kind) for kind in (dims.batch, dims.m, dims.n, dims.k)]
    batch, m, n, k = kinds
    expected = [batch | m | k, batch | k | n, batch | m | n]
    # A contraction with loops of no kind, or with repeated loops, stays a linalg op.
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
    return Product((left, right, result), loops, batch_loops, rows, columns, summed, sizes, element)


def is_multiply_add(op: ir.Operation) -> bool:
    """Whether the body of a linalg op multiplies two elements and adds the product."""
    names = [inner.name for inner in operations(body(op))]
    return names == ["arith.mulf", "arith.addf", "linalg.yield"]


def positions(map_: ir.AffineMap) -> tuple[int, ...]:
    """The loop of each dimension; -1 for an index that is not a single loop."""
    return tuple(
        expr.position if isinstance(expr, ir.AffineDimExpr) else -1 for expr in map_.results
    )


def _write(p: Product, gemm: Gemm, adds: bool, kernels: Kernels) -> None:
    a, b, c = p.buffers
    a, a_transposed, a_copy = _arranged(p, a, p.loops[0], p.m, p.k)
    b, b_transposed, b_copy = _arranged(p, b, p.loops[1], p.k, p.n)
    c_now, c_transposed, c_copy = _arranged(p, c, p.loops[2], p.m, p.n, is_read=adds)
    turned = a_transposed, b_transposed, c_transposed
    stacks = p.size(p.batch), p.size(p.m), p.size(p.n), p.size(p.k)
    kernels.call_written(
        ("product", gemm.name, turned, stacks, adds),
        (a, b, c_now),
        lambda buffers: _multiply(gemm, p.element, buffers, turned, stacks, adds),
    )
    if c_copy:
        build.transpose(c_now, c, permutation((*p.batch, *p.m, *p.n), p.loops[2]))
    for copy, value in ((a_copy, a), (b_copy, b), (c_copy, c_now)):
        if copy:
            build.create("memref.dealloc", [], [value])


def _multiply(
    gemm: Gemm,
    element: ir.Type,
    buffers: Sequence[ir.Value],
    transposed: tuple[bool, bool, bool],
    stacks: tuple[int, int, int, int],
    adds: bool,
) -> None:
    """Multiply two stacks of matrices: their number, and their m, n and k."""
    count, m, n, k = stacks
    a_transposed, b_transposed, c_transposed = transposed
    scale = build.number(float(adds), element)
    pointers = [build.address(each) for each in buffers]
    strides = [size * itemsize(element) for size in (m * k, k * n, m * n)]
    with _for_each(count) as index:
        at = [
            advanced(pointer, index, stride)
            for pointer, stride in zip(pointers, strides, strict=True)
        ]
        if c_transposed:  # c^T = b^T a^T
            turned = (not b_transposed, not a_transposed)
            gemm.call(turned, (n, m, k), (at[1], at[0], at[2]), scale)
        else:
            gemm.call((a_transposed, b_transposed), (m, n, k), (at[0], at[1], at[2]), scale)


def _arranged(
    product: Product,
    buffer: ir.Value,
    loops: tuple[int, ...],
    rows: tuple[int, ...],
    columns: tuple[int, ...],
    is_read: bool = True,
) -> tuple[ir.Value, bool, bool]:
    """The buffer as a stack of matrices; whether they are transposed, and whether it is a copy.

    Copied is what BLAS cannot read in place: copying costs little beside the product.
    """
    present = [
        tuple(loop for loop in kind if loop in loops) for kind in (product.batch, rows, columns)
    ]
    batch, rows, columns = present
    if _is_contiguous(buffer.type):
        if loops == (*batch, *rows, *columns):
            return buffer, False, False
        if loops == (*batch, *columns, *rows):
            return buffer, True, False
    order = (*batch, *rows, *columns)
    type_ = ir.MemRefType.get([product.sizes[loop] for loop in order], product.element)
    copy = build.allocate(type_)
    if is_read:
        build.transpose(buffer, copy, permutation(loops, order))
    return copy, False, True


def permutation(source: Sequence[int], target: Sequence[int]) -> list[int]:
    """For each dimension of the target, its dimension in the source."""
    return [list(source).index(loop) for loop in target]


@contextmanager
def _for_each(count: int) -> Iterator[ir.Value | None]:
    """Insert the ops of the `with` body in a loop; its index, or `None` for a single iteration."""
    if count == 1:
        yield None
        return
    _, block = counted((0, count, 1))
    with ir.InsertionPoint(block):
        yield block.arguments[0]
        build.create("scf.yield", [], [])
