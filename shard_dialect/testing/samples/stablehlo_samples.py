"""Samples of StableHLO's ops, as text in the generic form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from shard_dialect.testing.random_draws import Draws, listed
from shard_dialect.testing.sample import Sample, Tensor


def hlo(
    name: str,
    operands: Sequence[Tensor],
    results: Sequence[Tensor],
    attributes: str = "",
    region: str = "",
    constants: Mapping[int, str] | None = None,
) -> Sample:
    """A sample of `"stablehlo.name"` in generic form; `constants` replaces some operands."""
    return Sample.generic(f"stablehlo.{name}", operands, results, attributes, region, constants)


IDENTITIES = {
    ("add", "f32"): "0.0", ("multiply", "f32"): "1.0", ("maximum", "f32"): "0xFF800000",
    ("minimum", "f32"): "0x7F800000", ("add", "i32"): "0", ("multiply", "i32"): "1",
    ("maximum", "i32"): "-2147483648", ("minimum", "i32"): "2147483647", ("and", "i1"): "true",
    ("or", "i1"): "false", ("add", "ui32"): "0", ("multiply", "ui8"): "1", ("maximum", "ui32"): "0",
    ("minimum", "ui16"): "65535", ("minimum", "ui64"): "18446744073709551615", ("or", "ui32"): "0",
    ("add", "complex<f32>"): "(0.0, 0.0)", ("multiply", "complex<f64>"): "(1.0, 0.0)",
}  # fmt: skip
"""By ops and elements, what changes nothing."""


def joining(name: str, element: str = "f32", count: int = 1) -> str:
    """A region that joins its arguments in pairs, by the op `name`."""
    type_ = f"tensor<{element}>"
    arguments = ", ".join(f"%x{number}: {type_}" for number in range(2 * count))
    lines = "\n".join(
        f"%y{number} = stablehlo.{name} %x{number}, %x{number + count} : {type_}"
        for number in range(count)
    )
    result = ", ".join(f"%y{number}" for number in range(count))
    types = ", ".join([type_] * count)
    return f"\n^bb0({arguments}):\n{lines}\nstablehlo.return {result} : {types}\n"


def compare(direction: str, element: str = "f32", count: int = 1) -> str:
    """A region that compares the first of its pairs of arguments."""
    arguments = ", ".join(f"%x{number}: tensor<{element}>" for number in range(2 * count))
    return (
        f"\n^bb0({arguments}):\n%p = stablehlo.compare {direction}, %x0, %x1 : "
        f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>\nstablehlo.return %p : tensor<i1>\n"
    )


def arithmetic(name: str, *others: Any) -> Sample:
    """Of floats, or of other elements that are named before the draws."""
    *more, draws = others
    x = draws.any(draws.pick("f32", "f32", *more))
    return hlo(name, [x, x], [x])


def convert(draws: Draws) -> Sample:
    source, result = draws.pick(
        ("f32", "i32"), ("i32", "f32"), ("f32", "f64"), ("i1", "f32"), ("ui32", "f32"),
        ("ui8", "i32"), ("i32", "ui16"),
    )  # fmt: skip
    x = draws.any(source)
    return hlo("convert", [x], [x.of(result)])


def reduce_precision(draws: Draws) -> Sample:
    x = draws.any()
    return hlo("reduce_precision", [x], [x], "exponent_bits = 5 : i32, mantissa_bits = 10 : i32")


def compared(draws: Draws) -> Sample:
    x = draws.any(draws.pick("f32", "ui32"))
    direction = draws.pick("LT", "GE", "EQ")
    attributes = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
    return hlo("compare", [x, x], [x.of("i1")], attributes)


def select(draws: Draws) -> Sample:
    x = draws.any()
    return hlo("select", [draws.pick(x.of("i1"), Tensor((), "i1")), x, x], [x])


def clamp(draws: Draws) -> Sample:
    x, scalar = draws.any(), Tensor(())
    if draws.chance(0.5):
        return hlo("clamp", [scalar, x, scalar], [x], constants={0: "-1.0", 2: "2.0"})
    return hlo("clamp", [x, x, x], [x])


def mapped(draws: Draws) -> Sample:
    x = draws.any()
    attributes = f"dimensions = {listed(range(len(x.shape)))}"
    return hlo("map", [x, x], [x], attributes, joining("multiply"))


def constant(draws: Draws) -> Sample:
    result = Tensor((draws.size(), draws.size()))
    rows, columns = result.shape
    values = [[float(row - column) for column in range(columns)] for row in range(rows)]
    text = f"%r = stablehlo.constant dense<{draws.pick(values, 0.5)}> : $r"
    return Sample.of("stablehlo.constant", [], text, [result])


def bitcast_convert(draws: Draws) -> Sample:
    x = draws.any()
    result = draws.pick(x.of("i32"), Tensor((*x.shape, 4), "i8"))
    return hlo("bitcast_convert", [x], [result])


def dot(draws: Draws) -> Sample:
    a = draws.any(least=1, most=2)
    b = draws.fits("f32", a.shape[-1], *draws.pick((), (None,)))
    return hlo("dot", [a, b], [Tensor(a.shape[:-1] + b.shape[1:])])


def dot_general(draws: Draws) -> Sample:
    """Of up to one batch and two contracted dimensions, anywhere."""
    a = draws.any(least=1)
    order = draws.order(len(a.shape))
    batch = order[: draws.number(0, 1)]
    summed = order[len(batch) : len(batch) + draws.number(0, 2)]
    own = [None] * draws.number(0, 1 if len(a.shape) > 2 else 2)
    sizes = [*(a.shape[dim] for dim in (*batch, *summed)), *own]
    positions = draws.order(len(sizes))
    b = draws.fits("f32", *(sizes[number] for number in positions))
    b_batch = [positions.index(at) for at in range(len(batch))]
    b_summed = [positions.index(len(batch) + at) for at in range(len(summed))]
    result = [
        *(a.shape[dim] for dim in batch),
        *a.without(*batch, *summed).shape,
        *b.without(*b_batch, *b_summed).shape,
    ]
    attributes = (
        f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {batch}, "
        f"rhs_batching_dimensions = {b_batch}, lhs_contracting_dimensions = {summed}, "
        f"rhs_contracting_dimensions = {b_summed}>"
    )
    attributes += draws.pick("", "", _ALGORITHM)
    return hlo("dot_general", [a, b], [Tensor(tuple(result))], attributes)


_ALGORITHM = (
    ", algorithm = #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, "
    "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
    "num_primitive_operations = 3, allow_imprecise_accumulation = false>"
)


def broadcast_in_dim(draws: Draws) -> Sample:
    x = draws.any(most=2)
    dims = sorted(draws.order(3)[: len(x.shape)])
    sizes = [draws.size() for _ in range(3)]
    for number, dim in enumerate(dims):
        sizes[dim] = x.shape[number]
    source = Tensor(tuple(1 if draws.chance(0.2) else size for size in x.shape))
    attributes = f"broadcast_dimensions = {listed(dims)}"
    return hlo("broadcast_in_dim", [source], [Tensor(tuple(sizes))], attributes)


def transpose(draws: Draws) -> Sample:
    x = draws.any()
    order = draws.order(len(x.shape))
    result = Tensor(tuple(x.shape[dim] for dim in order))
    return hlo("transpose", [x], [result], f"permutation = {listed(order)}")


def reshape(draws: Draws) -> Sample:
    x = draws.any(least=1)
    size = x.shape[-1]
    major = draws.pick(*(each for each in range(1, size + 1) if size % each == 0))
    result = draws.pick(
        (*x.shape[:-1], major, size // major), (prod(x.shape),),
        (x.shape[0], prod(x.shape[1:])), (prod(x.shape[:-1]), size), (1, *x.shape),
        tuple(reversed(x.shape)),
    )  # fmt: skip
    return hlo("reshape", [x], [Tensor(result)])


def slice_(draws: Draws) -> Sample:
    x = draws.any(least=1)
    bounds = []
    for size in x.shape:
        start = draws.pick(0, 0, draws.number(0, size - 1))
        bounds.append((start, draws.pick(size, draws.number(start + 1, size)), draws.pick(1, 1, 2)))
    result = tuple(-(-(limit - start) // step) for start, limit, step in bounds)
    starts, limits, steps = (listed(each) for each in zip(*bounds, strict=True))
    attributes = f"start_indices = {starts}, limit_indices = {limits}, strides = {steps}"
    return hlo("slice", [x], [Tensor(result)], attributes)


def pad(draws: Draws) -> Sample:
    x = draws.any(least=1)
    edges = [draws.pick((0, 0, 0), (1, 2, 0), (0, 0, 1), (1, -1, 0)) for _ in x.shape]
    result = [
        size + low + high + inside * (size - 1)
        for size, (low, high, inside) in zip(x.shape, edges, strict=True)
    ]
    low, high, inside = (listed(each) for each in zip(*edges, strict=True))
    attributes = (
        f"edge_padding_low = {low}, edge_padding_high = {high}, interior_padding = {inside}"
    )
    return hlo("pad", [x, Tensor(())], [Tensor(tuple(result))], attributes)


def concatenate(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    bounds = [
        x,
        *(x.sized(dim, draws.pick(x.shape[dim], draws.size())) for _ in range(draws.number(0, 2))),
    ]
    result = x.sized(dim, sum(part.shape[dim] for part in bounds))
    return hlo("concatenate", bounds, [result], f"dimension = {dim} : i64")


def reverse(draws: Draws) -> Sample:
    x = draws.any(least=1)
    dims = sorted(draws.order(len(x.shape))[: draws.number(0, len(x.shape))])
    return hlo("reverse", [x], [x], f"dimensions = {listed(dims)}")


def iota(draws: Draws) -> Sample:
    result = Tensor((draws.size(), draws.size()), draws.pick("i32", "f32"))
    return hlo("iota", [], [result], f"iota_dimension = {draws.dim(result)} : i64")


_LARGEST = """
^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
%p = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
%m = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
%k = stablehlo.select %p, %i, %j : tensor<i1>, tensor<i32>
stablehlo.return %m, %k : tensor<f32>, tensor<i32>
"""
_FIRST_OF_THE_LARGEST = """
^bb0(%a: tensor<f32>, %i: tensor<i32>, %b: tensor<f32>, %j: tensor<i32>):
%g = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
%n = stablehlo.compare NE, %a, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
%p = stablehlo.or %g, %n : tensor<i1>
%e = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
%l = stablehlo.compare LT, %i, %j : (tensor<i32>, tensor<i32>) -> tensor<i1>
%f = stablehlo.and %e, %l : tensor<i1>
%q = stablehlo.or %p, %f : tensor<i1>
%m = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
%k = stablehlo.select %q, %i, %j : tensor<i1>, tensor<i32>
stablehlo.return %m, %k : tensor<f32>, tensor<i32>
"""


def reduce(draws: Draws) -> Sample:
    (name, element), init = draws.pick(*IDENTITIES.items())
    is_largest, starts_anywhere = draws.chance(0.1), element == "f32" and draws.chance(0.2)
    x = draws.any("f32" if is_largest else element, least=1)
    dims = sorted(draws.order(len(x.shape))[: draws.number(1, len(x.shape))])
    attributes, result = f"dimensions = {listed(dims)}", x.without(*dims)
    if is_largest:
        both = [x, x.of("i32"), Tensor(()), Tensor((), "i32")]
        starts = {2: "0xFF800000", 3: "0"}
        region = draws.pick(_LARGEST, _FIRST_OF_THE_LARGEST)
        return hlo("reduce", both, [result, result.of("i32")], attributes, region, starts)
    if starts_anywhere:
        return hlo("reduce", [x, Tensor(())], [result], attributes, joining(name))
    return hlo(
        "reduce", [x, Tensor((), element)], [result], attributes, joining(name, element), {1: init}
    )


def sort(draws: Draws) -> Sample:
    x = draws.any(least=1)
    attributes = f"dimension = {draws.dim(x)} : i64, is_stable = true"
    count = draws.number(1, 2)
    return hlo("sort", [x] * count, [x] * count, attributes, compare("LT", count=count))


def complex_(draws: Draws) -> Sample:
    x = draws.any()
    return hlo("complex", [x, x], [x.of("complex<f32>")])


def part_of_complex(name: str, draws: Draws) -> Sample:
    x = draws.any()
    text = (
        f"%z = stablehlo.complex %0, %0 : {x.of('complex<f32>')}\n"
        f"%r = stablehlo.{name} %z : ({x.of('complex<f32>')}) -> $r"
    )
    return Sample.of(f"stablehlo.{name}", [x], text, [x])


def _square(draws: Draws) -> Tensor:
    size = draws.pick(2, 3, 4)
    return Tensor((draws.size(), size, size))


def cholesky(draws: Draws) -> Sample:
    x = _square(draws)
    return hlo("cholesky", [x], [x], "lower = true")


def triangular_solve(draws: Draws) -> Sample:
    a = _square(draws)
    left = draws.pick(True, False)
    b = Tensor(
        (a.shape[0], a.shape[1], draws.size()) if left else (a.shape[0], draws.size(), a.shape[1])
    )
    attributes = (
        f"left_side = {'true' if left else 'false'}, lower = true, unit_diagonal = false, "
        "transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    )
    return hlo("triangular_solve", [a, b], [b], attributes)


def fft(draws: Draws) -> Sample:
    x = Tensor((draws.size(), draws.size(), 6), "complex<f32>")
    return hlo("fft", [x], [x], f"fft_type = #stablehlo<fft_type FFT>, fft_length = {listed([6])}")


def batch_norm(name: str, draws: Draws) -> Sample:
    x = draws.any(least=1)
    dim = draws.dim(x)
    vector = Tensor((x.shape[dim],))
    attributes = f"epsilon = 1.0 : f32, feature_index = {dim} : i64"
    if name == "inference":
        return hlo("batch_norm_inference", [x, *[vector] * 4], [x], attributes)
    if name == "training":
        return hlo("batch_norm_training", [x, *[vector] * 2], [x, vector, vector], attributes)
    return hlo("batch_norm_grad", [x, *[vector] * 3, x], [x, vector, vector], attributes)


def rng(draws: Draws) -> Sample:
    result = Tensor((draws.size(), draws.size()))
    starts: Mapping[int, str] = {0: "0.0", 1: "1.0", 2: str(list(result.shape))}
    operands = [Tensor(()), Tensor(()), Tensor((2,), "i64")]
    attributes = "rng_distribution = #stablehlo<rng_distribution UNIFORM>"
    return hlo("rng", operands, [result], attributes, constants=starts)


def rng_bit_generator(draws: Draws) -> Sample:
    algorithm = draws.pick("DEFAULT", "PHILOX", "THREE_FRY")
    words = 2 if algorithm == "THREE_FRY" else draws.pick(2, 3)
    element = draws.pick("ui8", "ui16", "ui32", "ui64")
    state, result = Tensor((words,), "ui64"), Tensor((draws.size(), draws.size()), element)
    attributes = f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>"
    return hlo("rng_bit_generator", [state], [state, result], attributes)


_PAIR = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"


_ATTRIBUTES = {
    "all_gather": f"all_gather_dim = 0 : i64, {_PAIR}",
    "all_to_all": "split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, "
    f"{_PAIR}",
    "collective_permute": "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>",
    "reduce_scatter": f"scatter_dimension = 0 : i64, {_PAIR}",
}


def collective(name: str, draws: Draws) -> Sample:
    """Of the source program: between devices that it names itself."""
    x = Tensor((4, draws.size()))
    result = {
        "all_gather": x.sized(0, 8), "reduce_scatter": x.sized(0, 2),
        "all_to_all": Tensor((2, 2 * x.shape[1])),
    }.get(name, x)  # fmt: skip
    region = joining("add") if name in ("all_reduce", "reduce_scatter") else ""
    return hlo(name, [x], [result], _ATTRIBUTES.get(name, _PAIR), region)


def custom_call(draws: Draws) -> Sample:
    x = Tensor((draws.size(), 4, 4))
    target = draws.pick("annotate_device_placement", "mhlo.erf", "Cholesky", "MoveToHost")
    return hlo("custom_call", [x], [x], f'call_target_name = "{target}"')


_KINDS = ((3, 1, 1, 1), (2, 2, 0, 0), (1, 1, 0, 0), (3, 2, 1, 0), (1, 2, 0, 0))
"""A window's size, its stride, and the padding in front and behind."""


def _read(result: int, window: int, stride: int, low: int, high: int) -> int:
    """The size that windows go over to make `result`."""
    return (result - 1) * stride + window - low - high


def _padding(pads: list[tuple[int, int]]) -> str:
    return f"padding = dense<{[list(each) for each in pads]}> : tensor<{len(pads)}x2xi64>"


def convolution(draws: Draws) -> Sample:
    """In any layout, of one or two dimensions in space."""
    space = [draws.pick(*_KINDS) for _ in range(draws.number(1, 2))]
    letters = [str(number) for number in range(len(space))]
    result_type = {letter: draws.size() for letter in letters}
    groups = draws.pick(1, 1, 2)
    batch, inputs, outputs = draws.pick(2, 4, 3), draws.pick(4, 3), groups * draws.pick(4, 3)
    tensors = [
        {"b": batch, "f": groups * inputs},
        {"i": inputs, "o": outputs},
        {"b": batch, "f": outputs} | result_type,
    ]
    for letter, kind in zip(letters, space, strict=True):
        tensors[0][letter] = _read(result_type[letter], *kind)
        tensors[1][letter] = kind[0]
    layouts = [[list(each)[number] for number in draws.order(len(each))] for each in tensors]
    element = draws.pick("f32", "f32", "i32", "ui32", "complex<f32>")
    x, kernel, result = (
        Tensor(tuple(sizes[letter] for letter in layout), element)
        for sizes, layout in zip(tensors, layouts, strict=True)
    )
    names = [f"[{', '.join(layout)}]" for layout in layouts]
    attributes = (
        f"dimension_numbers = #stablehlo.conv<{names[0]}x{names[1]}->{names[2]}>, "
        f"window_strides = {listed(kind[1] for kind in space)}, "
        f"{_padding([kind[2:] for kind in space])}, "
        f"batch_group_count = 1 : i64, feature_group_count = {groups} : i64"
    )
    return hlo("convolution", [x, kernel], [result], attributes)


def reduce_window(draws: Draws) -> Sample:
    kinds = [draws.pick(*_KINDS, (1, 1, 0, 0)) for _ in range(draws.number(1, 3))]
    result = Tensor(tuple(draws.size() for _ in kinds))
    x = Tensor(tuple(_read(size, *kind) for size, kind in zip(result.shape, kinds, strict=True)))
    (name, element), start = draws.pick(*IDENTITIES.items())
    if draws.chance(0.3):
        name, element, start = "add", "f32", "1.0"
    attributes = (
        f"window_dimensions = {listed(kind[0] for kind in kinds)}, "
        f"window_strides = {listed(kind[1] for kind in kinds)}, "
        f"{_padding([kind[2:] for kind in kinds])}"
    )
    operands, region = [x.of(element), Tensor((), element)], joining(name, element)
    return hlo("reduce_window", operands, [result.of(element)], attributes, region, {1: start})


def select_and_scatter(draws: Draws) -> Sample:
    kinds = [
        draws.pick((2, 2, 0, 0), (1, 1, 0, 0), (3, 1, 0, 0), (1, 2, 0, 0), (3, 2, 0, 0))
        for _ in range(draws.number(1, 2))
    ]
    source = Tensor(tuple(draws.size() for _ in kinds))
    dims = zip(source.shape, kinds, strict=True)
    x = Tensor(tuple(max(_read(size, *kind), size * kind[1]) for size, kind in dims))
    attributes = (
        f"window_dimensions = {listed(kind[0] for kind in kinds)}, "
        f"window_strides = {listed(kind[1] for kind in kinds)}"
    )
    regions = compare("GE") + "}, {" + joining("add")
    return hlo("select_and_scatter", [x, source, Tensor(())], [x], attributes, regions, {2: "0.0"})


_SECOND = "\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\nstablehlo.return %y : tensor<f32>\n"


def _table(draws: Draws) -> tuple[Tensor, Tensor, int, int, Tensor]:
    """A table, indices into a dimension of it, which one, how many at once, and the result."""
    table = draws.any(least=1)
    dim = draws.dim(table)
    batch = [draws.size() for _ in range(draws.number(1, 1 if len(table.shape) > 2 else 2))]
    count = draws.pick(1, 1, 1, min(2, table.shape[dim]))
    read = table.sized(dim, count) if count > 1 else table.without(dim)
    return table, Tensor((*batch, 1), "i32"), dim, count, Tensor((*batch, *read.shape))


def gather(draws: Draws) -> Sample:
    table, indices, dim, count, result = _table(draws)
    batch = len(indices.shape) - 1
    window = list(range(batch, len(result.shape)))
    attributes = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {window}, "
        f"collapsed_slice_dims = {[dim] if count == 1 else []}, start_index_map = [{dim}], "
        f"index_vector_dim = {batch}>, slice_sizes = {listed(table.sized(dim, count).shape)}"
    )
    return hlo("gather", [table, indices], [result], attributes)


def scatter(draws: Draws) -> Sample:
    table, indices, dim, count, update = _table(draws)
    batch = len(indices.shape) - 1
    attributes = (
        "scatter_dimension_numbers = #stablehlo.scatter<"
        f"update_window_dims = {list(range(batch, len(update.shape)))}, "
        f"inserted_window_dims = {[dim] if count == 1 else []}, "
        f"scatter_dims_to_operand_dims = [{dim}], index_vector_dim = {batch}>"
    )
    name, element = draws.pick(*IDENTITIES)
    region = joining(name, element)
    if draws.chance(0.3):
        region, element = _SECOND, "f32"
    table, update = table.of(element), update.of(element)
    return hlo("scatter", [table, indices, update], [table], attributes, region)


def _slice_of(draws: Draws) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A tensor, one that is a part of it, and where it begins."""
    x = draws.any(least=1)
    slice_ = Tensor(tuple(draws.pick(size, draws.number(1, size)) for size in x.shape))
    return x, slice_, [Tensor((), "i32")] * len(x.shape)


def dynamic_slice(draws: Draws) -> Sample:
    x, slice_, positions = _slice_of(draws)
    attributes = f"slice_sizes = {listed(slice_.shape)}"
    return hlo("dynamic_slice", [x, *positions], [slice_], attributes)


def dynamic_update_slice(draws: Draws) -> Sample:
    x, slice_, positions = _slice_of(draws)
    return hlo("dynamic_update_slice", [x, slice_, *positions], [x])
