"""Decompositions of torch's ops before torch-mlir reads them: torch's own tables, and ours below.

Ours are those that neither has, and those that shard better: of matrices and paddings in the place
of scatters.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from math import copysign, pi, prod
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph import (
    orders,
    reducing_scatters,
    special_functions,
    strided_views,
    torch_calls,
)
from shard_dialect.torch.graph.composed_functions import grouped_mm
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten
Decomposition = Callable[..., Any]


def decompose(op: Any) -> Callable[[Decomposition], Decomposition]:
    """Let a function stand for an op, such as one of `torch.library`, in every program.

        @sd.torch.decompose(torch.ops.mylib.scale.default)
        def _(x, factor):
            return x * factor

    The function gets the arguments of the op, and gives its results by ops of torch. For all of the
    op's overloads, give `torch.ops.mylib.scale` or "mylib::scale"; or give what
    `torch.library.custom_op` has returned. Raises `ShardError` for what is no op of torch.
    """
    overloads = _overloads(op)

    def register(function: Decomposition) -> Decomposition:
        _OF_USERS.update(dict.fromkeys(overloads, function))
        return function

    return register


def _overloads(op: Any) -> list[Any]:
    op = getattr(op, "_opoverload", op)  # of a custom op
    if isinstance(op, torch._ops.OpOverload):
        return [op]
    if isinstance(op, torch._ops.OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    if isinstance(op, str) and "::" in op:
        library, _, name = op.partition("::")
        found = getattr(getattr(torch.ops, library), name.partition(".")[0], None)
        _, _, overload = name.partition(".")
        found = getattr(found, overload, None) if overload else found
        if found is not None:
            return _overloads(found)
    raise ShardError(f"{op!r} is no op of torch: give it as torch.ops.mylib.scale, or its name")


_OF_USERS: dict[Any, Decomposition] = {}


def of_users() -> Mapping[Any, Decomposition]:
    """Those that `decompose` has got, which may do something else at each call."""
    return _OF_USERS


def instead_of(op: Any) -> Decomposition | None:
    """Of an op that is in no table here torch's own decomposition, or a call of torch."""
    if op in table():
        return None
    return decomposition_table.get(op) or torch_calls.torch_call(op)


def _grouped_mm_backward(x: Tensor, weight: Tensor, ends: Tensor, gradient: Tensor) -> Any:
    of_x = grouped_mm(gradient, weight.transpose(1, 2), ends)
    return of_x, grouped_mm(x.transpose(0, 1), gradient, ends)


_OF_LIBRARIES: Mapping[str, Decomposition] = {
    "transformers::grouped_mm_fallback": grouped_mm,
    "transformers::grouped_mm_fallback_backward": _grouped_mm_backward,
}


def table() -> Mapping[Any, Decomposition]:
    """By op. Torch's derivatives come first, then what the importer wants, and then ours."""
    named = {}
    for name, each in _OF_LIBRARIES.items():
        library, _, op = name.partition("::")
        packet = getattr(getattr(torch.ops, library), op, None)
        if packet is not None:
            named[packet.default] = each
    checked = {torch.ops.shard_dialect.in_range.default: lambda x, high: x.clone()}
    return {**_table(), **named, **checked, **_OF_USERS}


@cache
def _table() -> Mapping[Any, Decomposition]:
    importer = importlib.import_module("torch_mlir.extras.fx_decomp_util")
    derivatives = {op: each for op, each in decomposition_table.items() if "backward" in str(op)}
    more = {
        op: decomposition_table[op]
        for name in _ALSO
        for op in (getattr(getattr(aten, name), each) for each in getattr(aten, name).overloads())
        if op in decomposition_table
    }
    return {**derivatives, **importer.get_decomposition_table(), **more, **_OURS}


_ALSO = ("unfold", "upsample_nearest1d", "upsample_nearest3d")
"""Ops of torch's table that the importer leaves alone, and does not know."""


def _slice_backward(
    gradient: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    """Padding; torch's own writes into zeros, which is a scatter."""
    if not gradient.numel():
        return torch.zeros(tuple(sizes), dtype=gradient.dtype)
    size, dim = sizes[dim], dim % len(sizes)
    begin, _, _ = slice(start, end, step).indices(size)
    spread = _spread(gradient, dim, step)
    behind = size - begin - spread.shape[dim]
    return torch.constant_pad_nd(spread, _padding(len(sizes), dim, begin, behind))


def _select_backward(gradient: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    size, dim = sizes[dim], dim % len(sizes)
    before = index % size
    padding = _padding(len(sizes), dim, before, size - before - 1)
    return torch.constant_pad_nd(gradient.unsqueeze(dim), padding)


def _padding(rank: int, dim: int, low: int, high: int) -> list[int]:
    """As torch wants it: of the last dimension first."""
    return [0, 0] * (rank - 1 - dim) + [low, high]


def _convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Of the bias a sum, of the input and of the weight convolutions.

    That of the weight contracts the batch and the positions: shards of these make partial sums.
    """
    space = tuple(range(2, gradient.dim()))
    of_x = of_weight = of_bias = None
    stride, padding, dilation = _of_each_dim(len(space), stride, padding, dilation)
    args = stride, padding, dilation
    if output_mask[0]:
        of_x = _gradient_of_input(gradient, x, weight, *args, transposed, groups)
    if output_mask[1]:
        small, large = (x, gradient) if transposed else (gradient, x)
        of_weight = _gradient_of_weight(small, large, weight, *args, groups)
    if output_mask[2]:
        of_bias = gradient.sum((0, *space))
    return of_x, of_weight, of_bias


def _of_each_dim(rank: int, *numbers: Sequence[int]) -> list[list[int]]:
    """Lists in which one number may stand for all dimensions, with one for each."""
    return [list(each) * (rank if len(each) == 1 else 1) for each in numbers]


def _gradient_of_input(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> Tensor:
    if transposed:
        found = aten.convolution(
            gradient, weight, None, stride, padding, dilation, False, [0], groups
        )
        for dim, size in enumerate(x.shape[2:], start=2):  # an output padding may be a stride
            found = found.narrow(dim, 0, size)
        return found
    taps = weight.shape[2:]
    missing = [
        size - ((out - 1) * s - 2 * p + d * (k - 1) + 1)
        for size, out, s, p, d, k in zip(
            x.shape[2:], gradient.shape[2:], stride, padding, dilation, taps, strict=True
        )
    ]
    # A plain convolution of the gradient, spread by the stride, with the weight turned around.
    around = [d * (k - 1) - p for p, d, k in zip(padding, dilation, taps, strict=True)]
    both, unequal = [max(0, each) for each in around], list[int]()
    for dim, (s, low, padded, more) in enumerate(
        zip(stride, around, both, missing, strict=True), start=2
    ):
        gradient = _spread(gradient, dim, s)
        unequal = [low - padded, low + more - padded, *unequal]
    gradient = torch.constant_pad_nd(gradient, unequal) if any(unequal) else gradient
    rank = len(taps)
    turned = weight.unflatten(0, (groups, -1)).transpose(1, 2).flatten(0, 1)
    turned = turned.flip(tuple(range(2, 2 + rank)))
    one, none = [1] * rank, [0] * rank
    return aten.convolution(gradient, turned, None, one, both, dilation, False, none, groups)


def _spread(x: Tensor, dim: int, step: int) -> Tensor:
    """With `step - 1` zeros between elements."""
    if step == 1:
        return x
    size = x.shape[dim]
    spread = x.unsqueeze(dim + 1)
    spread = torch.constant_pad_nd(spread, _padding(spread.dim(), dim + 1, 0, step - 1))
    return spread.flatten(dim, dim + 1).narrow(dim, 0, (size - 1) * step + 1)


def _gradient_of_weight(
    small: Tensor,
    large: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """`small` has the positions at which the taps of the weight are put on `large`.

    Where no taps overlap, as of patches, it is one product.
    """
    taps, rank = weight.shape[2:], weight.dim() - 2
    if any(k > 1 and (k > s or d > 1) for k, s, d in zip(taps, stride, dilation, strict=True)):
        return _by_convolution(small, large, taps, stride, padding, dilation, groups)
    pads = [each for p in reversed(padding) for each in (p, p)]
    large = torch.constant_pad_nd(large, pads) if any(pads) else large
    windows = list(enumerate(zip(taps, stride, small.shape[2:], strict=True), start=2))
    for dim, (k, s, n) in reversed(windows):
        missing = max(0, n * s - large.shape[dim])
        large = torch.constant_pad_nd(large, _padding(large.dim(), dim, 0, missing))
        tiles = large.narrow(dim, 0, n * s).unflatten(dim, (n, s)).narrow(dim + 1, 0, k)
        large = tiles.movedim(dim + 1, 2 + rank)  # those of later dimensions behind it
    at = small.unflatten(1, (groups, -1)).flatten(3)
    large = large.unflatten(1, (groups, -1)).flatten(3, 2 + rank)
    return torch.einsum("ngop,ngip...->goi...", at, large).flatten(0, 1)


def _by_convolution(
    small: Tensor,
    large: Tensor,
    taps: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The gradient of a weight as a convolution of `large` with `small`, at each tap.

    The taps of `small` are `stride` apart. Channels become the batch, and the batch the channels.
    Of groups, the batch is in space, where its shards stay apart; torch has three dimensions in
    space at most.
    """
    image, kernel = large.transpose(0, 1), small.transpose(0, 1)
    args, is_in_space = (dilation, padding, stride), groups > 1 and len(taps) < 3
    if groups > 1:
        image = image.unflatten(0, (groups, -1)).transpose(0, 1)
        image = image if is_in_space else image.flatten(1, 2)
    if is_in_space:
        kernel, args = kernel.unsqueeze(1), ([1, *dilation], [0, *padding], [1, *stride])
    none = [0] * len(args[0])
    found = aten.convolution(image, kernel, None, *args, False, none, groups)
    found = found.squeeze(2) if is_in_space else found
    for dim, k in enumerate(taps, start=2):
        found = found.narrow(dim, 0, k)
    return found.transpose(0, 1)


def _upsample_nearest(x: Tensor, sizes: Sequence[int], *scales: Any) -> Any:
    """By whole factors, broadcasts; else torch's own, which reads at indices."""
    space = x.shape[2:]
    if any(out % size for out, size in zip(sizes, space, strict=True)):
        return NotImplemented
    factors = [out // size for out, size in zip(sizes, space, strict=True)]
    told = zip(scales, factors, strict=False)
    if any(scale is not None and scale != factor for scale, factor in told):
        return NotImplemented
    for dim in reversed(range(len(space))):
        at = dim + 2
        wide = x.unsqueeze(at + 1)
        repeated = [*wide.shape[: at + 1], factors[dim], *wide.shape[at + 2 :]]
        x = wide.expand(repeated).flatten(at, at + 1)
    return x


def _upsample_backward(
    op: Any, gradient: Tensor, output_size: Sequence[int], input_size: Sequence[int], *args: Any
) -> Tensor:
    """Upsampling is a matrix along each dimension, and its derivative the transposed matrices."""
    return _by_matrices(op, gradient, input_size[2:], output_size, args, 1)


def _upsample(op: Any, x: Tensor, output_size: Sequence[int], *args: Any) -> Any:
    if not x.is_floating_point():  # rounded by other code
        return NotImplemented
    return _by_matrices(op, x, x.shape[2:], output_size, args, 0)


def _by_matrices(
    op: Any, x: Tensor, before: Sequence[int], after: Sequence[int], args: Any, along: int
) -> Tensor:
    """Products with the matrices of an upsampling, along one of their dimensions."""
    rank = len(after)
    flags, scales = list(args[: len(args) - rank]), args[len(args) - rank :]
    for dim in range(rank):
        dtype = torch.promote_types(x.dtype, torch.float32)
        matrix = _matrix(op, dtype, rank, dim, before[dim], after[dim], flags, scales).to(x.dtype)
        x = torch.tensordot(x, matrix, ([2 + dim], [along])).movedim(-1, 2 + dim)
    return x


def _matrix(
    op: Any, dtype: Any, rank: int, dim: int, before: int, after: int, flags: Any, scales: Any
) -> Tensor:
    """`[before, after]`: what the op makes of each unit vector along one dimension."""
    with _disable_current_modes():
        # Others have two elements: with one, antialiasing takes a row's weights for all.
        shape, sizes = [1, before] + [1] * rank, [2] * rank
        shape[2 + dim], sizes[dim] = before, after
        repeated = [1, before] + [2] * rank
        repeated[2 + dim] = before
        own = [scale if each == dim else None for each, scale in enumerate(scales)]
        units = torch.eye(before, dtype=dtype).view(shape).expand(repeated).contiguous()
        found = op(units, sizes, *flags, *own)
        return found[0].movedim(1 + dim, 1).flatten(2)[..., 0]


def _adaptive_average_backward(rank: int) -> Decomposition:
    """The transposed matrices."""

    def decomposed(gradient: Tensor, x: Tensor) -> Tensor:
        for dim, matrix in _adaptive_matrices(rank, x, gradient.shape[-rank:]):
            matrix = matrix.to(gradient.dtype)
            gradient = torch.tensordot(gradient, matrix, ([dim], [1])).movedim(-1, dim)
        return gradient

    return decomposed


def _average_backward(rank: int, gradient: Tensor, x: Tensor, *window: Any) -> Tensor:
    """Along each dimension, each window's part in the places of its elements, tap by tap.

    Not by matrices: a product with 0 would let a NaN of one window reach all others.
    """
    for dim, taps, step, before, weights in _windows(rank, x, *window):
        parts = _spread(gradient * _along(weights.to(gradient.dtype), x, dim), dim, step)
        after = x.shape[dim] - parts.shape[dim] + before
        gradient = reduce(
            torch.add,
            (
                torch.constant_pad_nd(parts, _padding(x.dim(), dim, tap - before, after - tap))
                for tap in range(taps)
            ),
        )
    return gradient / window[-1] if window[-1] else gradient


def _average(
    rank: int,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Any:
    """Tap by tap what the importer does not know: windows that end outside, a divisor."""
    if not ceil_mode and divisor is None:
        return NotImplemented
    window = kernel, stride, padding, ceil_mode, count_include_pad, divisor
    for dim, taps, step, before, weights in _windows(rank, x, *window):
        span = (weights.shape[0] - 1) * step + 1
        after = span + taps - 1 - x.shape[dim] - before
        x = torch.constant_pad_nd(x, _padding(x.dim(), dim, before, after))
        each = [(slice(None),) * dim + (slice(tap, tap + span, step),) for tap in range(taps)]
        x = reduce(torch.add, (x[part] for part in each)) * _along(weights.to(x.dtype), x, dim)
    return x / divisor if divisor else x


def _along(weights: Tensor, x: Tensor, dim: int) -> Tensor:
    """Weights of the elements of one dimension, as factors of `x`."""
    return weights.view(-1, *(1 for _ in range(x.dim() - 1 - dim)))


def _windows(
    rank: int,
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Iterator[tuple[int, int, int, int, Tensor]]:
    """Of each dimension the windows' taps, their step, the padding, and the weight of each window.

    The weights are 1 if there is a divisor.
    """
    numbers = _of_each_dim(rank, kernel, stride or kernel, padding)
    for number, (taps, step, before) in enumerate(zip(*numbers, strict=True)):
        dim = x.dim() - rank + number
        with _disable_current_modes():
            averages = torch.nn.functional.avg_pool2d(
                torch.eye(x.shape[dim]).unsqueeze(1).unsqueeze(3),
                (taps, 1),
                (step, 1),
                (before, 0),
                ceil_mode,
                count_include_pad,
                1 if divisor else None,
            )
        yield dim, taps, step, before, averages[:, 0, :, 0].amax(0)


def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A sum of which all but the diagonal is 0; torch's own reads at strides."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    begin, length, mask = _on_diagonal(x, offset, dim1, dim2)
    rows = torch.where(mask, x, 0).sum(dim2, dtype=x.dtype, keepdim=True)
    return rows.narrow(dim1, begin, length).movedim((dim1, dim2), (-1, -2)).squeeze(-2)


def _diagonal_scatter(
    x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    begin, length, mask = _on_diagonal(x, offset, dim1, dim2)
    after = x.shape[dim1] - begin - length
    rows = torch.constant_pad_nd(source, [begin, after]).unsqueeze(-2)
    return torch.where(mask, rows.movedim((-1, -2), (dim1, dim2)), x)


def _on_diagonal(x: Tensor, offset: int, dim1: int, dim2: int) -> tuple[int, int, Tensor]:
    """The first row of a diagonal, its length, and where it is."""
    rows, columns = x.shape[dim1], x.shape[dim2]
    begin = min(max(-offset, 0), rows)
    length = max(0, min(rows - begin, columns - max(offset, 0)))
    first = torch.arange(rows).view([-1 if dim == dim1 else 1 for dim in range(x.dim())])
    second = torch.arange(columns).view([-1 if dim == dim2 else 1 for dim in range(x.dim())])
    return begin, length, first + offset == second


def _take(x: Tensor, index: Tensor) -> Tensor:
    return x.reshape(-1).index_select(0, index.reshape(-1)).reshape(index.shape)


def _put(x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    flat = x.reshape(-1)
    flat = flat.index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


def _index_put(x: Tensor, indices: Sequence[Any], value: Tensor, accumulate: bool = False) -> Any:
    """Of indices that are apart, along the first dimensions: the importer knows none in between."""
    at = [dim for dim, each in enumerate(indices) if each is not None]
    if len(at) == at[-1] - at[0] + 1:
        return NotImplemented
    order = [*at, *(dim for dim in range(x.dim()) if dim not in at)]
    found = x.permute(order).index_put([indices[dim] for dim in at], value, accumulate)
    return found.permute([order.index(dim) for dim in range(x.dim())])


def _remainder(x: Any, y: Any) -> Tensor:
    """Of the sign of `y`; StableHLO's is of that of `x`, as torch's `fmod`."""
    x, y = _of_one_type(x, y)
    found = _fmod(x, y)
    return torch.where((found != 0) & ((found < 0) != (y < 0)), found + y, found)


def _of_one_type(*values: Any) -> list[Tensor]:
    """Tensors and scalars as tensors of the type that torch computes in."""
    dtype = torch.result_type(*values)
    return [
        each.to(dtype) if isinstance(each, torch.Tensor) else torch.full((), each, dtype=dtype)
        for each in values
    ]


def _compared(op: Any, x: Tensor, scalar: Any) -> Any:
    """With a float: the importer compares constants of floats and integers wrongly."""
    if not x.is_floating_point() or not isinstance(scalar, int):
        return NotImplemented
    return op(x, float(scalar))


def _of_unsigned(op: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """By wider numbers: the importer begins with the least signed one, and any is not 0 or 1.

    Truth values are unsigned numbers of one bit, of which the least signed one is true.
    """
    if x.dtype != torch.uint8 and (x.dtype != torch.bool or op.overloadpacket in _OF_TRUTH):
        return NotImplemented
    narrow = {torch.int32: x.dtype, torch.bool: x.dtype}
    found = pytree.tree_map(
        lambda each: each.to(narrow.get(each.dtype, each.dtype)),
        op(x.to(torch.int32), *args, **kwargs),
    )
    return found if isinstance(found, torch.Tensor) else tuple(found)


def _cumsum(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """By wider numbers, which wrap alike: the importer ends the process where sums have 8 bits."""
    if dtype not in (torch.int8, torch.uint8):
        return NotImplemented
    return x.to(dtype).cumsum(dim, dtype=torch.int32).to(dtype)


def _bounded(of_two: Decomposition, x: Tensor, bound: Tensor) -> Any:
    """The importer compares truth values as signed numbers of one bit, and `uint8` not at all."""
    is_unsigned = x.dtype == bound.dtype and x.dtype in (torch.bool, torch.uint8)
    return of_two(x, bound) if is_unsigned else NotImplemented


def _equal(a: Tensor, b: Tensor) -> Any:
    """The importer takes a float to equal itself, which NaN does not."""
    if not (a.is_floating_point() or b.is_floating_point()):
        return NotImplemented
    return a.ne(b).logical_not()


def _any(x: Tensor, dims: Any = None, keepdim: bool = False) -> Any:
    return NotImplemented if dims is not None else aten.any.dims(x, [*range(x.dim())], keepdim)


def _all(x: Tensor, dims: Any = None, keepdim: bool = False) -> Tensor:
    found = aten.any.dims(x == 0, dims, keepdim).logical_not()
    return found.to(x.dtype) if x.dtype == torch.uint8 else found


def _var(x: Tensor, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """In floats, of which long sums are wide; the importer computes each element in doubles."""
    if x.is_complex():
        return NotImplemented
    dims = [each % x.dim() for each in dims] if dims else list(range(x.dim()))
    count = prod(x.shape[dim] for dim in dims)
    wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
    squares = (wide - wide.mean(dims, keepdim=True)).square().sum(dims, keepdim=keepdim)
    return (squares / max(count - (1 if correction is None else correction), 0.0)).to(x.dtype)


def _std(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    return aten.var.correction(x, *args, **kwargs).sqrt()


def _fmax(pick: Any, a: Tensor, b: Tensor) -> Tensor:
    """NaN where both are."""
    return torch.where(a.isnan(), b, torch.where(b.isnan(), a, pick(a, b)))


def _hypot(a: Tensor, b: Tensor) -> Tensor:
    """By the larger one, whose square may be too large."""
    large = torch.maximum(a.abs(), b.abs())
    small = torch.minimum(a.abs(), b.abs())
    ratio = torch.where(large == 0, 0.0, small / large)
    found = large * (1 + ratio * ratio).sqrt()
    return torch.where(a.isinf() | b.isinf(), float("inf"), found)


def _fmod(a: Any, b: Any) -> Any:
    """In f64, where quotients of other types are not rounded up to the next whole number."""
    a, b = _of_one_type(a, b)
    if not a.is_floating_point():
        return a - torch.div(a, b, rounding_mode="trunc") * b
    wide, by = a.to(torch.float64), b.to(torch.float64)
    found = (wide - (wide / by).trunc() * by).to(a.dtype)
    return torch.where(b.isinf() & a.isfinite(), a, found)


def _empty(size: Sequence[int], *order: Any, dtype: Any = None, **_: Any) -> Tensor:
    return aten.empty.memory_format(list(size), dtype=dtype)


def _zeros(size: Sequence[int], *, dtype: Any = None, **_: Any) -> Tensor:
    return torch.zeros(tuple(size), dtype=dtype)


def _sort(x: Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    """The importer knows only the other; all that it makes are told to be stable."""
    return aten.sort.default(x, dim, descending)


def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, is_sorted: bool = True) -> Any:
    """In order, which the importer knows alone; else any order is right."""
    return NotImplemented if is_sorted else aten.topk.default(x, k, dim, largest)


def _angle(x: Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    found = torch.where(x < 0, pi, 0.0).to(x.dtype if x.is_floating_point() else torch.float32)
    return torch.where(x.isnan(), x, found) if x.is_floating_point() else found


def _replication_pad_backward(gradient: Tensor, x: Tensor, pads: Sequence[int]) -> Tensor:
    """What is outside goes to the first and the last element."""
    for number in range(len(pads) // 2):
        dim = gradient.dim() - 1 - number
        low, high, size = pads[2 * number], pads[2 * number + 1], gradient.shape[dim]
        count = x.shape[dim]
        before = min(max(low, 0), size)
        after = min(max(high, 0), size - before)
        inside, start = size - before - after, min(max(-low, 0), count)
        first, middle, last = gradient.split([before, inside, after], dim)
        gradient = sum(
            torch.constant_pad_nd(each, _padding(x.dim(), dim, at, count - at - each.shape[dim]))
            for each, at in (
                (middle, start),
                (first.sum(dim, keepdim=True), 0),
                (last.sum(dim, keepdim=True), count - 1),
            )
        )
    return gradient


def _adaptive_average(rank: int) -> Decomposition:
    """A matrix along each dimension, as of an upsampling."""

    def decomposed(x: Tensor, sizes: Sequence[int]) -> Tensor:
        for dim, matrix in _adaptive_matrices(rank, x, sizes):
            x = torch.tensordot(x, matrix.to(x.dtype), ([dim], [0])).movedim(-1, dim)
        return x

    return decomposed


def _adaptive_matrices(rank: int, x: Tensor, sizes: Sequence[int]) -> Iterator[tuple[int, Tensor]]:
    for dim, size in zip(range(-rank, 0), sizes, strict=True):
        with _disable_current_modes():
            eye = torch.eye(x.shape[dim]).unsqueeze(0)
            matrix = torch.nn.functional.adaptive_avg_pool1d(eye, size)[0]
        yield dim, matrix


def _var_mean(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """One by one: together, the importer divides 0 by 0 as 0."""
    dims, keepdim = args[0] if args else kwargs.get("dim"), kwargs.get("keepdim", False)
    mean = x.mean(dims, keepdim) if dims else x.mean()
    mean = mean.reshape([1] * x.dim()) if keepdim and not dims else mean
    return aten.var.correction(x, *args, **kwargs), mean


_UPSAMPLING = (
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_trilinear3d",
    "upsample_bicubic2d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)
_COMPARISONS = [getattr(aten, each).Scalar for each in ("lt", "le", "gt", "ge", "eq", "ne")]
_OF_TRUTH = (aten.any, aten.all)
_EXTREMES = [
    getattr(getattr(aten, name), overload)
    for name in ("max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "any", "all")
    for overload in ("default", "dim", "dims")
    if overload in getattr(aten, name).overloads()
]
_OURS: dict[Any, Decomposition] = {
    aten.slice_backward.default: _slice_backward,
    aten.select_backward.default: _select_backward,
    aten.avg_pool2d.default: partial(_average, 2),
    aten.avg_pool3d.default: partial(_average, 3),
    aten.avg_pool2d_backward.default: partial(_average_backward, 2),
    aten.avg_pool3d_backward.default: partial(_average_backward, 3),
    aten.put.default: _put,
    aten.index_put.default: _index_put,
    aten.all.dims: _all,
    aten.any.dims: _any,
    aten._is_all_true.default: torch.all,
    aten._is_any_true.default: torch.any,
    aten.remainder.Tensor: _remainder,
    aten.remainder.Scalar: _remainder,
    aten.remainder.Scalar_Tensor: _remainder,
    aten.cumsum.default: _cumsum,
    aten.clamp_min.Tensor: partial(_bounded, torch.maximum),
    aten.clamp_max.Tensor: partial(_bounded, torch.minimum),
    aten.eq.Tensor: _equal,
    aten.var_mean.correction: _var_mean,
    aten.diagonal.default: _diagonal,
    aten.diagonal_copy.default: _diagonal,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.convolution_backward.default: _convolution_backward,
    aten._adaptive_avg_pool3d.default: _adaptive_average(3),
    aten._adaptive_avg_pool2d_backward.default: _adaptive_average_backward(2),
    aten._adaptive_avg_pool3d_backward.default: _adaptive_average_backward(3),
    aten.replication_pad1d_backward.default: _replication_pad_backward,
    aten.replication_pad2d_backward.default: _replication_pad_backward,
    aten.replication_pad3d_backward.default: _replication_pad_backward,
    aten.var.correction: _var,
    aten.std.correction: _std,
    aten.angle.default: _angle,
    aten._efficientzerotensor.default: _zeros,
    aten.empty_strided.default: _empty,
    aten.empty_permuted.default: _empty,
    aten.sort.stable: _sort,
    aten.topk.default: _topk,
    aten.copysign.Scalar: lambda x, other: x.abs() * copysign(1.0, other),
    torch.ops.prims.fmax.default: partial(_fmax, torch.maximum),
    torch.ops.prims.fmin.default: partial(_fmax, torch.minimum),
    torch.ops.prims.hypot.default: _hypot,
    aten.fmod.Tensor: _fmod,
    aten.fmod.Scalar: _fmod,
    **orders.DECOMPOSITIONS,
    **reducing_scatters.DECOMPOSITIONS,
    **special_functions.DECOMPOSITIONS,
    **strided_views.DECOMPOSITIONS,
    **torch_calls.DECOMPOSITIONS,
    aten.take.default: _take,
    **{op: partial(_compared, op) for op in _COMPARISONS},
    **{
        getattr(aten, f"{name}_backward").default: partial(
            _upsample_backward, getattr(aten, name).default
        )
        for name in _UPSAMPLING
    },
}


def _or(ours: Decomposition, theirs: Decomposition | None) -> Decomposition:
    def decomposed(*args: Any, **kwargs: Any) -> Any:
        found = ours(*args, **kwargs)
        return theirs(*args, **kwargs) if found is NotImplemented and theirs else found

    return decomposed


for _op in _EXTREMES:
    _unsigned = partial(_of_unsigned, _op)
    _OURS[_op] = _or(_OURS[_op], _unsigned) if _op in _OURS else _unsigned
for _name in _UPSAMPLING[:3]:
    _op = getattr(aten, _name).default
    _OURS[_op] = _or(_upsample_nearest, decomposition_table[_op])
for _op in (aten._upsample_bilinear2d_aa.default, aten._upsample_bicubic2d_aa.default):
    _OURS[_op] = _or(partial(_upsample, _op), torch_calls.torch_call(_op))
