"""Compute convolutions, and their gradients, as matrix products.

    linalg.conv_2d_nhwc_hwcf ins(%image, %kernel) outs(%result)

becomes, with `patches` of a size that stays in the processor's cache,

    for n, h:
      patches[w, (kh, kw, c)] = image[n, h + kh, w + kw, c]
      result[n, h, w, f] += patches[w, (kh, kw, c)] @ kernel[(kh, kw, c), f]

Any op that multiplies and adds is such a product if each loop indexes two of the three buffers: *m*
loops the image and the result, *n* loops the kernel and the result, *k* loops the image and the
kernel. An index of the image may be a sum of loops. Sizes alone decide which loops stay outside.

`call_blas` replaces these and plain matrix products (`products`) by calls of BLAS.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from shard_dialect.backends.cpu import products
from shard_dialect.backends.cpu.blas import Gemm, is_for_blas
from shard_dialect.backends.cpu.kernels import Kernels
from shard_dialect.backends.cpu.products import (
    advanced,
    forget_zeros,
    is_multiply_add,
    is_whole,
    permutation,
    positions,
)
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.loops_and_masks import counted, generic
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import walk

_LARGEST = 1 << 18
"""The largest number of bytes of patches."""
_FEWEST_ROWS, _SHORTEST_ROW = 32, 64
"""The fewest rows, and the shortest row, that patches keep when loops are moved outside."""
_FEWEST = 8
"""The least columns of the kernel, and of the patches, for which a product is worth the copies."""

Loops = tuple[int, ...]
Terms = Mapping[int, int]
"""An index as a sum: the coefficient of each loop, by its number."""


@dataclass(frozen=True)
class Convolution:
    """`result[m, n] += image[of m and k] * kernel[k, n]`."""

    image: ir.Value
    kernel: ir.Value
    result: ir.Value
    reads: tuple[Terms, ...]
    """The index of each dimension of the image."""
    kernel_loops: Loops
    result_loops: Loops
    sizes: Mapping[int, int]

    @property
    def m(self) -> Loops:
        """The loops of the image and the result."""
        return tuple(loop for loop in self.result_loops if loop not in self.kernel_loops)

    @property
    def n(self) -> Loops:
        """The loops of the kernel and the result."""
        return tuple(loop for loop in self.result_loops if loop in self.kernel_loops)

    @property
    def k(self) -> Loops:
        """The loops of the image and the kernel, which are reduced."""
        return tuple(loop for loop in self.kernel_loops if loop not in self.result_loops)

    @property
    def element(self) -> ir.Type:
        """The element type."""
        return self.image.type.element_type

    def size(self, loops: Sequence[int]) -> int:
        """The number of iterations of these loops together."""
        return prod(self.sizes[loop] for loop in loops)

    def strides(self, order: Loops) -> dict[int, int]:
        """The strides, in elements, of a contiguous buffer with these dimensions."""
        strides, stride = {}, 1
        for loop in reversed(order):
            strides[loop] = stride
            stride *= self.sizes[loop]
        return strides

    def write(self, gemm: Gemm, _: Kernels, *, adds: bool) -> None:
        """Create the product at the insertion point; with `adds` the result accumulates."""
        _write(self, gemm, adds)

    def outer(self) -> Loops:
        """The loops outside of the patches, from the image's first dimension on.

        Those of the larger side come first, as long as the product keeps enough rows that are long
        enough.
        """
        outer: list[int] = []
        in_order = [loop for terms in self.reads for loop in terms]
        sides = {self.m: _FEWEST_ROWS, self.k: _SHORTEST_ROW}
        while True:
            inside = {
                side: self.size([loop for loop in side if loop not in outer]) for side in sides
            }
            if prod(inside.values()) * itemsize(self.element) <= _LARGEST:
                return tuple(outer)
            candidates = [
                (-inside[side], in_order.index(loop), loop)
                for side, least in sides.items()
                for loop in side
                if loop not in outer and inside[side] >= least * self.sizes[loop]
            ]
            if not candidates:
                return tuple(outer)
            outer.append(min(candidates)[2])


def read(op: ir.Operation) -> Convolution | None:
    """The convolution that `op` computes; `None` if it is none, or not worth a product."""
    if not op.name.startswith("linalg.") or len(op.operands) != 3 or len(op.results):
        return None
    image, kernel, result = op.operands
    types = [operand.type for operand in op.operands]
    if not all(map(is_for_blas, types)) or len({str(type_.element_type) for type_ in types}) > 1:
        return None
    if not is_multiply_add(op):
        return None
    maps = [map_.value for map_ in linalg_queries.get_indexing_maps(op)]
    kernel_loops, result_loops = map(positions, maps[1:])
    reads = [_terms(expression) for expression in maps[0].results]
    known = tuple(terms for terms in reads if terms is not None)
    if -1 in (*kernel_loops, *result_loops) or len(known) < len(reads):
        return None
    sizes = dict(zip(kernel_loops, types[1].shape, strict=True))
    sizes |= dict(zip(result_loops, types[2].shape, strict=True))
    convolution = Convolution(image, kernel, result, known, kernel_loops, result_loops, sizes)
    return convolution if _is_product(convolution) else None


def _terms(expression: ir.AffineExpr) -> dict[int, int] | None:
    """The index as a sum of loops; `None` if it is something else."""
    if isinstance(expression, ir.AffineDimExpr):
        return {expression.position: 1}
    if isinstance(expression, ir.AffineMulExpr):
        sides = (expression.lhs, expression.rhs)
        loops = [each.position for each in sides if isinstance(each, ir.AffineDimExpr)]
        factors = [each.value for each in sides if isinstance(each, ir.AffineConstantExpr)]
        is_multiple = len(loops) == len(factors) == 1 and factors[0] > 0
        return {loops[0]: factors[0]} if is_multiple else None
    if isinstance(expression, ir.AffineAddExpr):
        operands = [_terms(expression.lhs), _terms(expression.rhs)]
        left, right = operands
        if left is None or right is None or left.keys() & right.keys():
            return None
        return left | right
    return None


def _is_product(convolution: Convolution) -> bool:
    read_loops = [loop for terms in convolution.reads for loop in terms]
    is_one = sorted(read_loops) == sorted((*convolution.m, *convolution.k))
    has_once = all(
        len(set(each)) == len(each) for each in (convolution.kernel_loops, convolution.result_loops)
    )
    is_large = (
        convolution.size(convolution.n) >= _FEWEST and convolution.size(convolution.k) >= _FEWEST
    )
    return is_one and has_once and is_large and convolution.size(convolution.m) > 0


@dataclass(frozen=True)
class _Matrix:
    """A buffer that is a matrix, of two kinds of loops, at each index of the outer loops."""

    buffer: ir.Value
    loops: Loops
    is_transposed: bool
    leading: int
    """The number of elements from one row to the next."""

    @classmethod
    def of(
        cls, c: Convolution, buffer: ir.Value, loops: Loops, rows: Loops, columns: Loops
    ) -> _Matrix | None:
        """`None` if the loops of one kind are not adjacent in memory."""
        strides = c.strides(loops)
        for first, second, is_transposed in ((rows, columns, False), (columns, rows, True)):
            between, within = (_merged(c, strides, each) for each in (first, second))
            size = c.size(second)
            if between is None or within is None or (within != 1 and size > 1):
                continue
            leading = between if c.size(first) > 1 else size
            if leading >= size:
                return cls(buffer, loops, is_transposed, leading)
        return None


def _merged(c: Convolution, strides: Mapping[int, int], loops: Loops) -> int | None:
    """The stride of several loops as one; `None` if they cannot be merged."""
    several = [loop for loop in loops if c.sizes[loop] > 1]
    for outer, inner in pairwise(several):
        if strides[outer] != strides[inner] * c.sizes[inner]:
            return None
    return strides[several[-1]] if several else 1


def _write(c: Convolution, gemm: Gemm, adds: bool) -> None:
    outer = c.outer()
    rows, columns = (tuple(loop for loop in each if loop not in outer) for each in (c.m, c.k))
    outer_m, outer_k = (tuple(loop for loop in outer if loop in each) for each in (c.m, c.k))
    kernel = _matrix(c, c.kernel, c.kernel_loops, outer_k, columns, c.n)
    result = _matrix(c, c.result, c.result_loops, outer_m, rows, c.n, is_read=adds)
    # Copying is fastest in the image's order.
    is_turned = any(loop in rows for loop in c.reads[-1])
    order = (*columns, *rows) if is_turned else (*rows, *columns)
    sizes = [c.sizes[loop] for loop in order]
    patches = build.allocate(ir.MemRefType.get(sizes, c.element))
    if outer_k and not adds:  # the iterations of those loops accumulate
        build.fill(reductions.identity_value("sum", c.element), result.buffer)
        adds = True
    scale = build.number(float(adds), c.element)
    pointers = [build.address(each) for each in (patches, kernel.buffer, result.buffer)]
    m, n, k = c.size(rows), c.size(c.n), c.size(columns)

    def product(loop_indices: Mapping[int, ir.Value]) -> None:
        _copy_patches(c, order, loop_indices, patches)
        a = pointers[0]
        b, into = (
            _at(c, pointer, matrix.loops, loop_indices)
            for pointer, matrix in zip(pointers[1:], (kernel, result), strict=True)
        )
        leading = (m if is_turned else k, kernel.leading, result.leading)
        if result.is_transposed:  # the other factor's transpose comes first
            turned = (not kernel.is_transposed, not is_turned)
            swapped = (leading[1], leading[0], leading[2])
            gemm.call(turned, (n, m, k), (b, a, into), scale, swapped)
        else:
            gemm.call((is_turned, kernel.is_transposed), (m, n, k), (a, b, into), scale, leading)

    _nest(c, outer, product)
    if result.buffer != c.result:
        build.transpose(result.buffer, c.result, permutation(result.loops, c.result_loops))
    buffers = ((kernel.buffer, c.kernel), (result.buffer, c.result))
    copies = [packed for packed, original in buffers if packed != original]
    for each in (patches, *copies):
        build.create("memref.dealloc", [], [each])


def _matrix(
    c: Convolution,
    buffer: ir.Value,
    loops: Loops,
    outer: Loops,
    rows: Loops,
    columns: Loops,
    *,
    is_read: bool = True,
) -> _Matrix:
    """The buffer as matrices, or a copy of it in an order in which it is that."""
    matrix = _Matrix.of(c, buffer, loops, rows, columns) if is_whole(buffer.type) else None
    if matrix is not None:
        return matrix
    order = (*outer, *rows, *columns)
    copy = _reordered(c, buffer, loops, order, is_read)
    return _Matrix(copy, order, False, c.size(columns))


def _reordered(
    c: Convolution, buffer: ir.Value, loops: Loops, order: Loops, is_read: bool
) -> ir.Value:
    """A copy of the buffer with its dimensions in this order."""
    type_ = ir.MemRefType.get([c.sizes[loop] for loop in order], buffer.type.element_type)
    copy = build.allocate(type_)
    if is_read:
        build.transpose(buffer, copy, permutation(loops, order))
    return copy


def _nest(c: Convolution, loops: Loops, write: Callable[[Mapping[int, ir.Value]], None]) -> None:
    """Create nested loops; `write` gets the index of each."""

    def inner(loop_indices: dict[int, ir.Value]) -> None:
        if len(loop_indices) == len(loops):
            write(loop_indices)
            return
        loop = loops[len(loop_indices)]
        _, block = counted((0, c.sizes[loop], 1))
        with ir.InsertionPoint(block):
            inner(loop_indices | {loop: block.arguments[0]})
            build.create("scf.yield", [], [])

    inner({})


def _at(
    c: Convolution, pointer: ir.Value, order: Loops, loop_indices: Mapping[int, ir.Value]
) -> ir.Value:
    """The pointer to the matrix at the outer loops' indices."""
    size = itemsize(c.element)
    for loop, stride in c.strides(order).items():
        if loop in loop_indices:
            pointer = advanced(pointer, loop_indices[loop], stride * size)
    return pointer


def _copy_patches(
    c: Convolution, loops: Loops, loop_indices: Mapping[int, ir.Value], patches: ir.Value
) -> None:
    """Fill `patches`, whose dimensions are `loops`, from the image at the outer loops' indices."""
    patch, kept = _static_slice(c, loops, loop_indices)
    numbers = {loop: ir.AffineExpr.get_dim(number) for number, loop in enumerate(loops)}
    read = ir.AffineMap.get(len(loops), 0, [_sum(terms, numbers) for terms in kept])
    maps = [read, ir.AffineMap.get_identity(len(loops))]
    attributes = [ir.AffineMapAttr.get(each) for each in maps]
    generic([patch], patches, attributes, ["parallel"] * len(loops), lambda read, _: read)


def _sum(terms: Terms, numbers: Mapping[int, ir.AffineExpr]) -> ir.AffineExpr:
    terms_of_sum = [numbers[loop] * factor for loop, factor in terms.items()]
    total = terms_of_sum[0]
    for each in terms_of_sum[1:]:
        total = total + each
    return total


def _static_slice(
    c: Convolution, loops: Loops, loop_indices: Mapping[int, ir.Value]
) -> tuple[ir.Value, list[Terms]]:
    """The part of the image that holds the patches, and the index of each of its dimensions."""
    strides, begin = c.image.type.get_strides_and_offset()
    offsets: list[ir.Value] = []
    static: list[int] = []
    sizes: list[int] = []
    kept: list[Terms] = []
    kept_strides: list[int] = []
    for terms, stride in zip(c.reads, strides, strict=True):
        inner = {loop: factor for loop, factor in terms.items() if loop in loops}
        offset = _offset(
            {loop: each for loop, each in terms.items() if loop in loop_indices}, loop_indices
        )
        static.append(0 if offset is None else ir.ShapedType.get_dynamic_size())
        offsets += [] if offset is None else [offset]
        sizes.append(1 + sum((c.sizes[loop] - 1) * factor for loop, factor in inner.items()))
        if inner:
            kept.append(inner)
            kept_strides.append(stride)
    shape = [size for size, terms in zip(sizes, c.reads, strict=True) if terms.keys() & set(loops)]
    layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), kept_strides)
    if not offsets:
        layout = ir.StridedLayoutAttr.get(begin, kept_strides)
    type_ = ir.MemRefType.get(shape, c.element, layout)
    loop_indices_of = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(offsets), 0, 0]),
        "static_offsets": ir.DenseI64ArrayAttr.get(static),
        "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get([1] * len(sizes)),
    }
    return build.create_value("memref.subview", type_, [c.image, *offsets], loop_indices_of), kept


def _offset(terms: Terms, loop_indices: Mapping[int, ir.Value]) -> ir.Value | None:
    """The sum of an index's terms over the outer loops."""
    total = None
    for loop, factor in terms.items():
        term = build.arith("muli", loop_indices[loop], build.index(factor))
        total = term if total is None else build.arith("addi", total, term)
    return total


def _may_be_product(name: str) -> bool:
    return name.startswith("linalg.") and name != "linalg.yield"


def call_blas(module: ir.Operation, kernels: Kernels) -> list[str]:
    """Replace products by calls; return the names of the called functions."""
    called: list[str] = []
    # Not the ops in their bodies, which are erased with a product.
    for op in [each for each in walk(module) if _may_be_product(each.name)]:
        product = products.read(op) or read(op)
        gemm = Gemm.of(product.element) if product else None
        if product is None or gemm is None:
            continue
        if gemm.name not in called:
            gemm.declare(module)
            called.append(gemm.name)
        adds = not forget_zeros(op, op.operands[2])
        with ir.InsertionPoint(op), op.location:
            product.write(gemm, kernels, adds=adds)
        op.erase()
    return called
