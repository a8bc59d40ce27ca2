"""Products and convolutions of `linalg` as StableHLO's.

%a[d0, d2] * %b[d2, d1] summed over d2           dot_general
%a[n, y + ky, x + kx, c] * %b[ky, kx, c, f]      convolution
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import i64
from shard_dialect.ir.walk import operations
from shard_dialect.passes.lower.to_stablehlo.structured_ops import Loops, generic, loop_of

_EXTENDS = ("arith.extf", "arith.extsi", "arith.sitofp")


def structured(op: ir.Operation) -> list[ir.Value]:
    """The results of a `linalg.generic`."""
    product = contraction(op)
    return generic(op) if product is None else [product]


def contraction(op: ir.Operation) -> ir.Value | None:
    """The result of a `linalg.generic` that is a product or a convolution; else `None`."""
    if len(op.operands) != 3 or not _multiplies_and_adds(op):
        return None
    loops = Loops.of(op)
    result_dims = loops.dims_of(2)
    if result_dims is None or sorted(result_dims) != loops.kept:
        return None
    result = _product(loops, result_dims) or _convolution(loops, result_dims)
    return (
        None if result is None else hlo.stablehlo_op("add", result.type, [loops.inits[0], result])
    )


def _multiplies_and_adds(op: ir.Operation) -> bool:
    """Whether the body adds the product of its inputs, which may be extended, to its result."""
    block = op.regions[0].blocks[0]
    a, b, accumulator = block.arguments
    if str(accumulator.type) == "i1":
        return False
    body = operations(block)
    if len(body) < 3:
        return False
    *extensions, multiply, add, last = body
    factors = {a, b}
    for each in extensions:
        if each.name not in _EXTENDS or each.operands[0] not in (a, b):
            return False
        factors = (factors - {each.operands[0]}) | {each.results[0]}
    return (
        multiply.name in ("arith.mulf", "arith.muli", "complex.mul")
        and add.name in ("arith.addf", "arith.addi", "complex.add")
        and set(multiply.operands) == factors
        and set(add.operands) == {accumulator, multiply.results[0]}
        and last.operands[0] == add.results[0]
    )


def _factors(loops: Loops) -> list[ir.Value]:
    element = loops.inits[0].type.element_type
    return [hlo.convert(each, element) for each in loops.inputs]


def _precision() -> dict[str, ir.Attribute]:
    """The precision of the elements: linalg's ops promise it, and XLA's default may be less."""
    return {"precision_config": ir.Attribute.parse(f"[{', '.join([_HIGHEST] * 2)}]")}


_HIGHEST = "#stablehlo<precision HIGHEST>"


def _product(loops: Loops, of_c: Sequence[int]) -> ir.Value | None:
    of_a, of_b = loops.dims_of(0), loops.dims_of(1)
    if of_a is None or of_b is None:
        return None
    batch = [loop for loop in of_a if loop in of_b and loop in of_c]
    contracted = [loop for loop in of_a if loop in of_b and loop not in of_c]
    free = [[loop for loop in of if loop not in (*batch, *contracted)] for of in (of_a, of_b)]
    order = [*batch, *free[0], *free[1]]
    if sorted(order) != sorted(of_c):
        return None
    listed = {
        "lhs_batching_dimensions": [of_a.index(loop) for loop in batch],
        "rhs_batching_dimensions": [of_b.index(loop) for loop in batch],
        "lhs_contracting_dimensions": [of_a.index(loop) for loop in contracted],
        "rhs_contracting_dimensions": [of_b.index(loop) for loop in contracted],
    }
    text = ", ".join(f"{name} = {dims}" for name, dims in listed.items())
    dims = {"dot_dimension_numbers": ir.Attribute.parse(f"#stablehlo.dot<{text}>")}
    type_ = hlo.tensor([loops.sizes[loop] for loop in order], loops.inits[0].type.element_type)
    result = hlo.stablehlo_op("dot_general", type_, _factors(loops), dims | _precision())
    return hlo.transpose(result, [order.index(loop) for loop in of_c])


@dataclass(frozen=True)
class _Window:
    """One spatial dimension: output position * stride + kernel position * dilation."""

    position: int
    kernel: int
    stride: int
    dilation: int


def _convolution(loops: Loops, of_c: Sequence[int]) -> ir.Value | None:
    of_b = loops.dims_of(1)
    read = [_window_or_loop(each) for each in loops.maps[0].results]
    if of_b is None or None in read:
        return None
    windows = [each for each in read if isinstance(each, _Window)]
    spatial, kernel = [each.position for each in windows], [each.kernel for each in windows]
    plain = [each for each in read if isinstance(each, int)]
    batch = [loop for loop in plain if loop in of_c and loop not in of_b]
    group = [loop for loop in plain if loop in of_c and loop in of_b]
    inner = [loop for loop in plain if loop in of_b and loop not in of_c]
    outer = [loop for loop in of_b if loop in of_c and loop not in group]
    named = [*batch, *group, *inner, *outer, *spatial, *kernel]
    if sorted(named) != list(range(len(loops.sizes))):
        return None
    if sorted(of_b) != sorted([*kernel, *inner, *group, *outer]):
        return None
    if sorted(of_c) != sorted([*batch, *spatial, *group, *outer]):
        return None
    image, weights = _factors(loops)
    loops_read = [each.position if isinstance(each, _Window) else each for each in read]
    image = hlo.transpose(
        image, [loops_read.index(each) for each in (*batch, *spatial, *group, *inner)]
    )
    weights = hlo.transpose(
        weights, [of_b.index(each) for each in (*kernel, *inner, *group, *outer)]
    )

    def sizes(of: Sequence[int]) -> int:
        return prod(loops.sizes[each] for each in of)

    extents = list(image.type.shape)[len(batch) : len(batch) + len(spatial)]
    image = hlo.reshape(image, [sizes(batch), *extents, sizes((*group, *inner))])
    kernels = [loops.sizes[each] for each in kernel]
    weights = hlo.reshape(weights, [*kernels, sizes(inner), sizes((*group, *outer))])
    out = [loops.sizes[each] for each in spatial]
    type_ = hlo.tensor(
        [sizes(batch), *out, sizes((*group, *outer))], loops.inits[0].type.element_type
    )
    letters = ", ".join(map(str, range(len(windows))))
    between = f", {letters}, " if letters else ", "
    kernel_letters = f"{letters}, i, o" if letters else "i, o"
    numbers = f"[b{between}f]x[{kernel_letters}]->[b{between}f]"
    attributes = {
        "dimension_numbers": ir.Attribute.parse(f"#stablehlo.conv<{numbers}>"),
        "window_strides": hlo.i64s([each.stride for each in windows]),
        "rhs_dilation": hlo.i64s([each.dilation for each in windows]),
        "feature_group_count": i64(sizes(group)),
        "batch_group_count": i64(1),
    }
    image = _cropped(image, windows, out, kernels)
    result = hlo.stablehlo_op("convolution", type_, [image, weights], attributes | _precision())
    order = [*batch, *spatial, *group, *outer]
    result = hlo.reshape(result, [loops.sizes[each] for each in order])
    return hlo.transpose(result, [order.index(each) for each in of_c])


def _cropped(
    image: ir.Value, windows: Sequence[_Window], out: Sequence[int], kernels: Sequence[int]
) -> ir.Value:
    """The image without elements that no window reads: a convolution reads as far as it can."""
    for dim, (window, count, size) in enumerate(zip(windows, out, kernels, strict=True), start=1):
        read = (count - 1) * window.stride + (size - 1) * window.dilation + 1
        if read < image.type.shape[dim]:
            image = hlo.slice_along(image, dim, 0, read)
    return image


def _window_or_loop(expression: ir.AffineExpr) -> _Window | int | None:
    if (loop := loop_of(expression)) is not None:
        return loop
    if not isinstance(expression, ir.AffineAddExpr):
        return None
    pair = expression
    left, right = _term(pair.lhs), _term(pair.rhs)
    return None if left is None or right is None else _Window(left[0], right[0], left[1], right[1])


def _term(expression: ir.AffineExpr) -> tuple[int, int] | None:
    """A loop, and the constant by which it is multiplied."""
    if (loop := loop_of(expression)) is not None:
        return loop, 1
    if not isinstance(expression, ir.AffineMulExpr):
        return None
    pair = expression
    loop = loop_of(pair.lhs)
    if loop is None or not isinstance(pair.rhs, ir.AffineConstantExpr):
        return None
    return loop, int(pair.rhs.value)
