"""Emit StableHLO's ops that are not elementwise."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from shard_dialect.abi.tensor_types import dtype_of
from shard_dialect.backends.python.element_types import is_complex
from shard_dialect.backends.python.ops import (
    accumulation,
    elementwise,
    indexed_access,
    sorting,
    tensor_ops,
)
from shard_dialect.backends.python.ops.conversions import converted
from shard_dialect.backends.python.writer import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.walk import body, operations
from shard_dialect.ops.library_calls import function_of, letter_of, options_read, routine_of
from shard_dialect.ops.stablehlo.attribute_reading import (
    integers,
    numbers,
    pad_widths,
    slice_bounds,
)
from shard_dialect.ops.stablehlo.custom_call import options_of, target_of


def dot_general(w: Writer, op: ir.Operation) -> None:
    """Write a product of tensors."""
    numbers_read = numbers(op, "dot_dimension_numbers", "DotDimensionNumbers")
    left: dict[int, int] = {}
    right: dict[int, int] = {}
    batch = list(
        zip(numbers_read.lhs_batching_dimensions, numbers_read.rhs_batching_dimensions, strict=True)
    )
    summed = list(
        zip(
            numbers_read.lhs_contracting_dimensions,
            numbers_read.rhs_contracting_dimensions,
            strict=True,
        )
    )
    for number, (i, j) in enumerate([*batch, *summed]):
        left[i] = right[j] = number
    result = list(range(len(batch)))
    count = len(left)
    for held, operand in ((left, op.operands[0]), (right, op.operands[1])):
        for dim in range(len(operand.type.shape)):
            if dim not in held:
                held[dim] = count
                result.append(count)
                count += 1
    dims = [[held[dim] for dim in sorted(held)] for held in (left, right)]
    _multiply(w, op, dims[0], dims[1], result)


def dot(w: Writer, op: ir.Operation) -> None:
    """Write a product of vectors and matrices."""
    rows, columns = (len(each.type.shape) - 1 for each in op.operands)
    left, right = [0, 1] if rows else [1], [1, 2] if columns else [1]
    _multiply(w, op, left, right, [dim for dim in (*left, *right) if dim != 1])


def _multiply(
    w: Writer, op: ir.Operation, left: Sequence[int], right: Sequence[int], of: Sequence[int]
) -> None:
    """Define the product, given the loop for each dimension of the operands and the result."""
    element = op.results[0].type.element_type
    if w.is_torch and str(element) == "i1":
        raise w.refuse(op, "of elements of type i1")
    a, b = (_as_result(w, op, each) for each in op.operands)
    text = accumulation.multiplied(w, a, b, left, right, of, element, op)
    w.define(op.results[0], text, "product")


def _as_result(w: Writer, op: ir.Operation, x: ir.Value) -> str:
    """An operand of a product with the elements of the result, if it loses nothing."""
    source, target = x.type.element_type, op.results[0].type.element_type
    if source == target:
        return w.use(x)
    kinds = [_kind(each) for each in (source, target)]
    if kinds[0] > kinds[1] or (kinds[0] == kinds[1] and source.width > target.width):
        raise w.refuse(op, f"its result has elements of type {target}, an operand {source}")
    text = converted(w, w.use(x), source, target, op, is_unsigned_op=False)
    return w.kept("wide", text)


def _kind(element: ir.Type) -> int:
    """Integers, floats and complex numbers, each of which are among the next."""
    return 2 if is_complex(element) else int(isinstance(element, ir.FloatType))


def _check_same(w: Writer, op: ir.Operation) -> None:
    """Raise if a product accumulates in a wider type than its operands'."""
    if op.operands[0].type.element_type != op.results[0].type.element_type:
        raise w.refuse(op, "its result has other elements than its operands")


def _is_empty(w: Writer, op: ir.Operation) -> bool:
    """Write a result without elements: its windows may be larger than what they are in."""
    type_ = op.results[0].type
    if 0 not in type_.shape:
        return False
    for each in op.results:
        w.define(each, w.full(each.type, "0", op.location), "empty")
    return True


def broadcast_in_dim(w: Writer, op: ir.Operation) -> None:
    """Write a broadcast."""
    x, type_ = op.operands[0], op.results[0].type
    if x in w.literals:
        w.literals[op.results[0]] = w.literals[x]
        w.values[op.results[0]] = w.full(type_, w.literals[x], op.location)
        return
    dims = integers(op, "broadcast_dimensions")
    shape = [1] * len(type_.shape)
    for size, dim in zip(x.type.shape, dims, strict=True):
        shape[dim] = size
    text = w.permuted(w.use(x), sorted(range(len(dims)), key=lambda position: dims[position]))
    if shape != list(x.type.shape):
        text = f"{text}.reshape{tuple(shape)}" if shape else text
    w.define(op.results[0], w.broadcast(text, type_.shape), "broadcast")


def transpose(w: Writer, op: ir.Operation) -> None:
    """Write a transpose."""
    order = integers(op, "permutation")
    w.define(op.results[0], w.permuted(w.use(op.operands[0]), order), "transposed")


def iota(w: Writer, op: ir.Operation) -> None:
    """Write an iota."""
    type_, dim = op.results[0].type, op.attributes["iota_dimension"].value
    size, dtype = type_.shape[dim], w.dtype(type_.element_type, op.location)
    text = w.pick(
        f"np.arange({size}, dtype={dtype})", f"torch.arange({size}, dtype={dtype}, device=device)"
    )
    if len(type_.shape) > 1:
        shape = tuple(each if position == dim else 1 for position, each in enumerate(type_.shape))
        text = w.broadcast(f"{text}.reshape{shape}", type_.shape)
    w.define(op.results[0], text)


def slice_(w: Writer, op: ir.Operation) -> None:
    """Write a static slice."""
    index = ", ".join(
        f"{start}:{end}" if step == 1 else f"{start}:{end}:{step}"
        for start, end, step in zip(*slice_bounds(op), strict=True)
    )
    w.define(op.results[0], f"{w.use(op.operands[0])}[{index or '()'}]", "part")


def reverse(w: Writer, op: ir.Operation) -> None:
    """Write a reversal of dimensions."""
    dims = tuple(integers(op, "dimensions"))
    w.define(op.results[0], f"{w.module}.flip({w.use(op.operands[0])}, {dims})", "reversed")


def pad(w: Writer, op: ir.Operation) -> None:
    """Write a padding, also an interior or a negative one."""
    low, _, holes = pad_widths(op)
    number = w.literals.get(op.operands[1]) or w.use(op.operands[1])
    tensor_ops.padded(w, op, low, number, holes)


def _starts(w: Writer, op: ir.Operation, first: int, sizes: Sequence[int]) -> str:
    """An index of a slice that starts at the operands, clamped to be inside."""
    shape = op.operands[0].type.shape
    starts = []
    for start, size, all_ in zip(list(op.operands)[first:], sizes, shape, strict=True):
        at = w.literals.get(start) or f"int({w.use(start)})"
        name = w.names.new("start")
        w.line(f"{name} = min(max({at}, 0), {all_ - size})")
        starts.append(f"{name} : {name} + {size}")
    return ", ".join(starts) or "()"


def dynamic_slice(w: Writer, op: ir.Operation) -> None:
    """Write a slice at a dynamic start."""
    index = _starts(w, op, 1, op.results[0].type.shape)
    w.define(op.results[0], f"{w.use(op.operands[0])}[{index}]", "part")


def dynamic_update_slice(w: Writer, op: ir.Operation) -> None:
    """Write an update of a slice at a dynamic start."""
    update = w.use(op.operands[1])
    index = _starts(w, op, 2, op.operands[1].type.shape)
    w.define(op.results[0], w.fresh(op.operands[0]), "updated")
    w.line(f"{w.use(op.results[0])}[{index}] = {update}")


def _join(op: ir.Operation) -> str | None:
    """The function by which a body joins two elements, if it is a known reduction."""
    block = op.regions[0].blocks[0]
    join, *rest = operations(block)
    kind = elementwise.function_of(join)
    if (
        kind not in accumulation.REDUCTIONS
        or len(rest) != 1
        or len(op.results) != 1
        or set(join.operands) != set(block.arguments)
        or rest[0].operands[0] != join.results[0]
    ):
        return None
    return kind


def _fold(
    w: Writer, op: ir.Operation, parts: Sequence[str], inits: Sequence[str], dims: Sequence[int]
) -> None:
    """Define the results: elements along `dims` joined, one after the other, by the body."""
    join = elementwise.function(w, op, body(op), "joined_pair")
    listed = ", ".join(parts), ", ".join(inits), ", ".join(map(str, dims))
    text = f"folded({join}, [{listed[0]}], [{listed[1]}], [{listed[2]}])"
    w.define_all(op.results, text, "folded")


_IDENTITIES = {
    "add": ("0", "0.0", "complex(0.0, 0.0)"),
    "mul": ("1", "1.0", "complex(1.0, 0.0)"),
    "and": ("True", "-1"),
    "or": ("False", "0"),
    "xor": ("False", "0"),
}


def _reduced(
    w: Writer, op: ir.Operation, kind: str, text: str, dims: Sequence[int], init: ir.Value
) -> None:
    """Define the result: elements reduced along `dims` and joined with the initial value."""
    element = op.results[0].type.element_type
    number = w.literals.get(init, "")
    extreme = {"max": f"-{w.module}.inf", "min": f"{w.module}.inf"}.get(kind)
    is_nothing = number in (*_IDENTITIES.get(kind, ()), extreme)
    if not dims and is_nothing:
        w.define(op.results[0], text, accumulation.JOINED[kind])
        return
    start = None if is_nothing else w.use(init)
    text = accumulation.reduced(w, kind, text, dims, element, op, init=start)
    w.define(op.results[0], text, accumulation.JOINED[kind])


def reduce(w: Writer, op: ir.Operation) -> None:
    """Write a reduction along dimensions."""
    kind, dims = _join(op), integers(op, "dimensions")
    if kind is None:
        if not sorting.search(w, op):
            texts, count = w.uses(op), len(op.results)
            _fold(w, op, texts[:count], texts[count:], sorted(dims))
        return
    x, init = op.operands
    if any(x.type.shape[dim] == 0 for dim in dims):  # numpy and torch have no largest of nothing
        shape = list(op.results[0].type.shape)
        w.define(op.results[0], w.broadcast(w.use(init), shape), accumulation.JOINED[kind])
        return
    _reduced(w, op, kind, w.use(x), dims, init)


def reduce_window(w: Writer, op: ir.Operation) -> None:
    """Write a reduction in windows."""
    if _is_empty(w, op):
        return
    kind, count = _join(op), len(op.results)
    pairs = zip(list(op.operands)[:count], list(op.operands)[count:], strict=True)
    texts = [_windows(w, op, x, init) for x, init in pairs]
    rank = len(op.results[0].type.shape)
    if kind is None:
        _fold(w, op, texts, w.uses(op)[count:], range(rank, 2 * rank))
        return
    _reduced(w, op, kind, texts[0], range(rank, 2 * rank), op.operands[1])


def _windows(w: Writer, op: ir.Operation, x: ir.Value, init: ir.Value) -> str:
    """The windows of a tensor, of which those at the ends have the init beyond them."""
    size = integers(op, "window_dimensions")
    ones = [1] * len(size)
    apart = integers(op, "window_dilations", ones)
    extent = [(count - 1) * step + 1 for count, step in zip(size, apart, strict=True)]
    dilation = integers(op, "base_dilations", ones)
    text = _padded(w, op, x, integers(op, "padding", [0] * (2 * len(size))), dilation, init)
    text = f"windows({text}, {extent}, {integers(op, 'window_strides', ones)})"
    if apart != ones:
        text += f"[..., {', '.join(f'::{step}' for step in apart)}]"
    return text


def _padded(
    w: Writer,
    op: ir.Operation,
    x: ir.Value,
    padding: Sequence[int],
    dilation: Sequence[int],
    number: ir.Value | None,
) -> str:
    """The name of `x`, padded (by two sizes a dimension) and dilated where it is to be."""
    low, high, holes = padding[::2], padding[1::2], [each - 1 for each in dilation]
    if not any((*padding, *holes)):
        return w.use(x)
    rows = zip(x.type.shape, low, high, dilation, strict=True)
    shape = [max(size - 1, 0) * by + min(size, 1) + sum(ends) for size, *ends, by in rows]
    wide = ir.RankedTensorType.get(shape, x.type.element_type, loc=op.location)
    literal = "0" if number is None else w.literals.get(number) or w.use(number)
    name = w.names.new("padded")
    w.line(f"{name} = {w.full(wide, literal, op.location)}")
    tensor_ops.fill_in(w, name, shape, w.use(x), x.type.shape, low, holes)
    return name


_GROUPED = ("feature", "batch")


def convolution(w: Writer, op: ir.Operation) -> None:
    """Write a convolution."""
    _check_same(w, op)
    if _is_empty(w, op):
        return
    element = op.results[0].type.element_type
    dims = numbers(op, "dimension_numbers", "ConvDimensionNumbers")
    space = list(dims.input_spatial_dimensions)
    ones = [1] * len(space)
    reversal = op.attributes["window_reversal"] if "window_reversal" in op.attributes else ()
    if w.is_torch and not 0 < len(space) <= 3:
        raise w.refuse(op, "its windows are not of one to three dimensions")
    x, kernel = op.operands
    padding, apart = [0] * (2 * len(x.type.shape)), [1] * len(x.type.shape)
    around = integers(op, "padding", [0] * (2 * len(space)))
    for position, dim in enumerate(space):
        padding[2 * dim : 2 * dim + 2] = around[2 * position : 2 * position + 2]
        apart[dim] = integers(op, "lhs_dilation", ones)[position]
    image = _padded(w, op, x, padding, apart, None)
    order_of_image = [dims.input_batch_dimension, dims.input_feature_dimension, *space]
    image = _turned(w, image, "image", order_of_image)
    groups, of_batch = (op.attributes[f"{each}_group_count"].value for each in _GROUPED)
    if of_batch > 1:
        shape = [x.type.shape[dim] for dim in order_of_image]
        image, groups = _grouped(w, image, shape, of_batch), of_batch
    of_kernel = [dims.kernel_output_feature_dimension, dims.kernel_input_feature_dimension]
    of_kernel += dims.kernel_spatial_dimensions
    weights = _turned(w, w.use(kernel), "kernel", of_kernel)
    strides, dilation = (integers(op, each, ones) for each in ("window_strides", "rhs_dilation"))
    reversed_ = tuple(2 + position for position, each in enumerate(reversal) if each)
    if reversed_:
        weights = f"{w.module}.flip({weights}, {reversed_})"
    if not w.is_torch:  # which itself adds up products of 16 bits in f32
        image, weights = (accumulation.widened(w, each, element) for each in (image, weights))
    text = f"conv({image}, {weights}, {strides}, {dilation}, {groups})"
    text = text if w.is_torch else accumulation.narrowed(w, text, element, op)
    kernel_dims = [
        dims.output_batch_dimension,
        dims.output_feature_dimension,
        *dims.output_spatial_dimensions,
    ]
    order = [kernel_dims.index(dim) for dim in range(len(kernel_dims))]
    if order != sorted(order):
        name = w.names.new("convolved")
        w.line(f"{name} = {text}")
        text = w.permuted(name, order)
    w.define(op.results[0], text, "convolved")


def _grouped(w: Writer, image: str, shape: Sequence[int], groups: int) -> str:
    """The name of an image whose groups of the batch, of kernels of their own, are features.

    Its `shape` has batch and features first; the other sizes are those before padding.
    """
    batch, features = shape[0] // groups, shape[1]
    apart, name = w.names.new("apart"), w.names.new("grouped")
    w.line(f"{apart} = {image}.reshape({groups}, {batch}, {features}, *{image}.shape[2:])")
    turned = w.permuted(apart, [1, 0, *range(2, len(shape) + 1)])
    w.line(f"{name} = {turned}.reshape({batch}, {groups * features}, *{image}.shape[2:])")
    return name


def _turned(w: Writer, x: str, preferred: str, order: Sequence[int]) -> str:
    """The name of `x` with its dimensions in this order."""
    text = w.permuted(x, order)
    if text == x:
        return x
    name = w.names.new(preferred)
    w.line(f"{name} = {text}")
    return name


def map_(w: Writer, op: ir.Operation) -> None:
    """Write a map as a call of its body on the tensors."""
    text = f"{elementwise.function(w, op, body(op), 'mapped_element')}({', '.join(w.uses(op))})"
    w.define(op.results[0], w.broadcast(text, op.results[0].type.shape), "mapped")


def select_and_scatter(w: Writer, op: ir.Operation) -> None:
    """Write a scatter to the places that windows select."""
    x, source, init = op.operands
    shape, element = list(x.type.shape), x.type.element_type
    select = elementwise.function(w, op, op.regions[0].blocks[0], "selects_first")
    places = w.kept("places", _numbered(w, shape))
    size, ones = integers(op, "window_dimensions"), [1] * len(shape)
    padding = integers(op, "padding", [0] * (2 * len(size)))
    wide = _padded(w, op, x, padding, ones, None)
    if any(padding):
        rows = zip(shape, padding[::2], padding[1::2], strict=True)
        outside = w.kept("outside", w.pick("np.full({}, {})", "torch.full({}, {}, device=device)"
                  ).format([sum(each) for each in rows], -1))  # fmt: skip
        tensor_ops.fill_in(
            w,
            outside,
            [sum(e) for e in zip(shape, padding[::2], padding[1::2], strict=True)],
            places,
            shape,
            padding[::2],
        )
        places = outside
    given = f"{size}, {integers(op, 'window_strides', ones)}"
    chosen = w.kept(
        "chosen", f"selected({select}, windows({wide}, {given}), windows({places}, {given}))"
    )
    start = w.kept("start", w.broadcast(w.use(init), shape))
    inside = w.kept("inside", f"{chosen} >= 0")
    join = indexed_access.joining(w, op, op.regions[1].blocks[0], element)
    updates = f"[{w.use(source)}[{inside}]]"
    text = f"joined_at({join}, [{start}], {chosen}[{inside}], {updates})"
    w.define_all(op.results, text, "scattered")


def _numbered(w: Writer, shape: Sequence[int]) -> str:
    """The places of the elements of a tensor, counted row by row."""
    count = w.pick("np.arange({})", "torch.arange({}, device=device)").format(prod(shape))
    return f"{count}.reshape({', '.join(map(str, shape)) or '()'})"


def fft(w: Writer, op: ir.Operation) -> None:
    """Write a Fourier transform."""
    if _is_empty(w, op):
        return
    kind, length = hlo.enumerator(op.attributes["fft_type"]).lower(), integers(op, "fft_length")
    rank = len(op.operands[0].type.shape)
    dims = tuple(range(rank - len(length), rank))
    sizes = f"s={length}, " if kind == "irfft" else ""
    text = f"{w.module}.fft.{kind}n({w.use(op.operands[0])}, {sizes}{w.pick('axes', 'dim')}={dims})"
    if not w.is_torch:  # numpy 1 makes f64 of f32
        text = w.cast(text, op.results[0].type.element_type, op.location)
    w.define(op.results[0], text, "transformed")


def _turned_about(w: Writer, x: str, *, is_adjoint: bool) -> str:
    """The transposed matrices, or their conjugates, too."""
    turned = w.pick(f"{x}.swapaxes(-1, -2)", f"{x}.mT")
    return f"{turned}.conj()" if is_adjoint else turned


def cholesky(w: Writer, op: ir.Operation) -> None:
    """Write a Cholesky decomposition."""
    element = op.results[0].type.element_type
    x = accumulation.widened(w, w.use(op.operands[0]), element)
    if "lower" in op.attributes and op.attributes["lower"].value:
        text = f"cholesky({x})"
    else:
        lower = w.kept("lower", f"cholesky({_turned_about(w, x, is_adjoint=is_complex(element))})")
        text = _turned_about(w, lower, is_adjoint=is_complex(element))
    w.define(op.results[0], accumulation.narrowed(w, text, element, op), "triangles")


def triangular_solve(w: Writer, op: ir.Operation) -> None:
    """Write a solution of equations: `x a = b` is `a^T x^T = b^T`."""
    element = op.results[0].type.element_type
    a, b = (accumulation.widened(w, each, element) for each in w.uses(op))
    turn = hlo.enumerator(op.attributes["transpose_a"])
    is_left, is_lower = (op.attributes[name].value for name in ("left_side", "lower"))
    is_adjoint = turn == "ADJOINT" and is_complex(element)
    if (turn != "NO_TRANSPOSE") == is_left:
        a, is_lower = _turned_about(w, a, is_adjoint=is_adjoint), not is_lower
    elif is_adjoint:
        a = f"{a}.conj()"
    b = b if is_left else _turned_about(w, b, is_adjoint=False)
    is_unit = op.attributes["unit_diagonal"].value
    text = w.pick(
        f"triangular_solve({a}, {b}, {is_lower}, {is_unit})",
        f"torch.linalg.solve_triangular({a}, {b}, upper={not is_lower}, unitriangular={is_unit})",
    )
    if not is_left:
        text = _turned_about(w, w.kept("turned", text), is_adjoint=False)
    w.define(op.results[0], accumulation.narrowed(w, text, element, op), "solved")


_BITS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""Of each type of floats, the bits of exponents and of mantissas."""


def reduce_precision(w: Writer, op: ir.Operation) -> None:
    """Write a rounding to fewer bits."""
    element = str(op.results[0].type.element_type)
    if element not in _BITS:
        raise w.refuse(op, f"of elements of type {element}")
    kept = tuple(op.attributes[f"{part}_bits"].value for part in ("exponent", "mantissa"))
    text = f"reduce_precision({w.use(op.operands[0])}, {_BITS[element]}, {kept})"
    w.define(op.results[0], text, "rounded")


def custom_call(w: Writer, op: ir.Operation) -> None:
    """Write a call of LAPACK: by scipy, and of arrays of numpy."""
    routine = routine_of(target_of(op))
    if routine is None:
        raise w.refuse(op)
    letter = letter_of(dtype_of(op.operands[0].type.element_type))
    options = {} if routine in ("Qr", "LuDecomposition") else options_read(options_of(op))
    results = ", ".join(
        f"({tuple(each.type.shape)}, np.{dtype_of(each.type.element_type)})" for each in op.results
    )
    operands = ", ".join(w.pick("{}", "{}.numpy(force=True)").format(each) for each in w.uses(op))
    listed = ", ".join(
        f'"{name}": "{each}"' if isinstance(each, str) else f'"{name}": {each}'
        for name, each in options.items()
    )
    given = f'{function_of(routine)}, "{letter}", {{{listed}}}'
    text = f"lapack({given}, [{operands}], [{results}])"
    if w.is_torch:
        text = f"[torch.from_numpy(each).to(device) for each in {text}]"
    w.define_all(op.results, text, "decomposed")
