"""The arithmetic of one op on one device, from its local shapes: a table by op name.

| op | operations |
|---|---|
| a matrix product, a convolution | 2 for each step of its loops: a multiplication and an addition |
| an elementwise op | 1 for each element of the result |
| a reduction | for each element of the operands, what its body computes |
| a reduction over windows | for each element of each window, what its body computes |
| `linalg` ops | for each step of the loops, what the body computes |
| a sort | for each of n log2(n) comparisons, what its comparator computes |
| data movement, conversion, constants | none |

An operation is a flop whatever the element type; elementary functions (`exp`, `tanh`) are one, and
are counted apart, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod

from shard_dialect.analysis.costs.local_ops import Flops, TensorInfo
from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.walk import operations
from shard_dialect.rules import rule_of
from shard_dialect.rules.stablehlo.attribute_reading import integers, numbers

_CONVERSIONS = frozenset(
    "bitcast bitcast_convert cast convert convertf constant extf extsi extui fptosi fptoui "
    "identity index index_cast index_castui real imag complex reducePrecision reduce_precision "
    "scaling_extf scaling_truncf sitofp truncf trunci uitofp yield return condition".split()
)
"""Ops on elements that do no arithmetic, without their dialect."""
_ELEMENTARY = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh cosine erf erfc exp exp2 expm1 "
    "exponential exponential_minus_one log log10 log1p log2 log_plus_one logistic pow "
    "power powf rsqrt sigmoid sin sincos sine sinh sqrt tan tanh".split()
)
"""The elementary functions, without their dialect."""
STABLEHLO_ELEMENTWISE = (
    "abs add and atan2 cbrt ceil clamp compare cosine count_leading_zeros divide exponential "
    "exponential_minus_one floor is_finite log log_plus_one logistic maximum minimum multiply "
    "negate not or popcnt power remainder round_nearest_afz round_nearest_even rsqrt select "
    "shift_left shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh "
    "xor".split()
)
_TOSA_ELEMENTWISE = (
    "abs add arithmetic_right_shift bitwise_and bitwise_not bitwise_or bitwise_xor ceil clamp clz "
    "cos equal erf exp floor greater greater_equal intdiv log logical_and logical_left_shift "
    "logical_not logical_or logical_right_shift logical_xor maximum minimum mul negate pow "
    "reciprocal rescale rsqrt select sigmoid sin sub table tanh".split()
)


@dataclass(frozen=True, slots=True)
class Query:
    """An op, and the local types of its operands and results; `None` for those of scalars."""

    name: str
    handle: ir.Operation
    operands: tuple[TensorInfo | None, ...]
    results: tuple[TensorInfo | None, ...]


NONE = Flops()


def flops_of(op: Query) -> Flops | None:
    """The arithmetic of one run of the op; `None` for an op of which nothing is known.

    Regions that are blocks of the program (of a loop, say) count by themselves.
    """
    if op.name in _TABLE:
        return _TABLE[op.name](op)
    dialect, _, name = op.name.partition(".")
    if dialect in ("arith", "math", "chlo", "complex"):
        return _elementwise(op)
    if dialect == "linalg":
        return _loops(op)
    if dialect == "tosa" and name.startswith("reduce_"):
        return Flops(_largest(op))
    if dialect in _WITHOUT_ARITHMETIC or op.name in _MOVEMENT:
        return NONE
    return None


def _elementwise(op: Query) -> Flops:
    if not op.results or op.results[0] is None:
        return NONE  # a scalar
    return _arithmetic(op.name) * op.results[0].elements


def _arithmetic(name: str) -> Flops:
    """Of one element."""
    short = name.partition(".")[2]
    return Flops(0 if short in _CONVERSIONS else 1, 1 if short in _ELEMENTARY else 0)


def _body(op: ir.Operation, number: int = 0) -> Flops:
    """What one run of a region computes, nested regions included."""
    total, elementary = 0, 0
    for block in op.regions[number].blocks:
        for inner in operations(block):
            found = _arithmetic(inner.name)
            total += found.total
            elementary += found.elementary
            for region in range(len(inner.regions)):
                nested = _body(inner, region)
                total += nested.total
                elementary += nested.elementary
    return Flops(total, elementary)


def _loops(op: Query) -> Flops | None:
    """A `linalg` op: each step of its loops runs its body, which named ops have, too."""
    sizes = _loop_sizes(op)
    if sizes is None:
        return None
    if not len(op.handle.regions):
        return NONE
    return _body(op.handle) * prod(sizes)


def _loop_sizes(op: Query) -> tuple[int, ...] | None:
    """The sizes of the loops; on buffers, of which a rule knows nothing, from the maps."""
    if not any(isinstance(each.type, ir.MemRefType) for each in op.handle.operands):
        rule = rule_of(op.handle)
        return rule.sizes if rule else None
    sizes: dict[int, int] = {}
    maps = [each.value for each in linalg_queries.get_indexing_maps(op.handle) or ()]
    for map_, tensor in zip(maps, op.operands, strict=False):
        for expr, size in zip(map_.results, tensor.shape if tensor else (), strict=False):
            if isinstance(expr, ir.AffineDimExpr):
                sizes[expr.position] = size
    loops = range(maps[0].n_dims if maps else 0)
    return tuple(sizes[loop] for loop in loops) if all(loop in sizes for loop in loops) else None


def _product(op: Query) -> Flops | None:
    rule = rule_of(op.handle)
    return Flops(2 * prod(rule.sizes)) if rule else None


def _convolution(op: Query) -> Flops:
    """Each output element is a sum over the kernel, without its output features."""
    given = numbers(op.handle, "dimension_numbers", "ConvDimensionNumbers")
    kernel = _shape(op, 1)
    return Flops(2 * _result(op) * prod(kernel) // kernel[given.kernel_output_feature_dimension])


def _tosa_convolution(op: Query) -> Flops:
    return Flops(2 * _result(op) * prod(_shape(op, 1)[1:]))


def _depthwise(op: Query) -> Flops:
    """The kernel has height, width, channels and a multiplier."""
    return Flops(2 * _result(op) * prod(_shape(op, 1)[:2]))


def _transposed_convolution(op: Query) -> Flops:
    """Each input element is multiplied with the whole kernel."""
    return Flops(2 * prod(_shape(op, 0)) * prod(_shape(op, 1)) // _shape(op, 1)[-1])


def _pool(op: Query) -> Flops:
    return Flops(_result(op) * prod(integers(op.handle, "kernel")))


def _reduce(op: Query) -> Flops:
    """The body reduces all operands at once, the first half of them."""
    return _body(op.handle) * prod(_shape(op, 0))


def _reduce_window(op: Query) -> Flops:
    return _body(op.handle) * (_result(op) * prod(integers(op.handle, "window_dimensions")))


def _select_and_scatter(op: Query) -> Flops:
    """For each element of the source a selection from its window, and one addition."""
    source = prod(_shape(op, 1))
    selects = _body(op.handle, 0).total * max(0, prod(integers(op.handle, "window_dimensions")) - 1)
    return Flops(source * (selects + _body(op.handle, 1).total))


def _scatter(op: Query) -> Flops:
    """The body runs once for each element of the updates, which are the last operands."""
    return _body(op.handle) * prod(_shape(op, len(op.operands) - 1))


def _map(op: Query) -> Flops:
    return _body(op.handle) * _result(op)


def _sort(op: Query) -> Flops:
    shape = _shape(op, 0)
    size = shape[int(op.handle.attributes["dimension"].value)] if shape else 1
    return _body(op.handle) * (prod(shape) * max(0, size - 1).bit_length())


def _fourier(op: Query) -> Flops:
    """5 n log2(n) for a transform of n complex numbers, half of it for real ones."""
    tensor = op.results[0]
    lengths = integers(op.handle, "fft_length")
    n = prod(lengths)
    source = op.operands[0]
    assert tensor is not None
    assert source is not None
    is_real = not (source.element.startswith("complex") and tensor.element.startswith("complex"))
    count = max(source.elements, tensor.elements) // max(1, prod(lengths))
    return Flops(5 * n * max(0, n - 1).bit_length() * count // (2 if is_real else 1))


def _cholesky(op: Query) -> Flops:
    *batch, n, _ = _shape(op, 0)
    return Flops(prod(batch) * n**3 // 3)


def _triangular_solve(op: Query) -> Flops:
    n = _shape(op, 0)[-1]
    return Flops(prod(_shape(op, 1)) * n)


def _batch_norm(count: int) -> Callable[[Query], Flops]:
    """About as many operations for each element of the operand."""
    return lambda op: Flops(count * prod(_shape(op, 0)))


def _softmax(op: Query) -> Flops:
    """A maximum, a subtraction, an exponential, a sum and a division for each element."""
    return Flops(5, 1) * _result(op)


def _random(op: Query) -> Flops:
    """About ten operations on integers for each number."""
    return Flops(10 * sum(each.elements for each in op.results if each))


def _largest(op: Query) -> int:
    return max((each.elements for each in op.operands if each), default=0)


def _shape(op: Query, operand: int) -> tuple[int, ...]:
    tensor = op.operands[operand]
    assert tensor is not None, f"{op.name} takes tensors"
    return tensor.shape


def _result(op: Query) -> int:
    tensor = op.results[0]
    assert tensor is not None, f"{op.name} gives a tensor"
    return tensor.elements


def _named(dialect: str, names: Iterable[str]) -> list[str]:
    return [f"{dialect}.{name}" for name in names]


_WITHOUT_ARITHMETIC = ("bufferization", "cf", "func", "memref", "mesh", "scf", "shard", "tensor")
_MOVEMENT = frozenset(
    _named(
        "stablehlo",
        "all_gather all_reduce all_to_all bitcast_convert broadcast broadcast_in_dim case "
        "collective_broadcast collective_permute complex concatenate constant convert "
        "dynamic_slice dynamic_update_slice gather get_tuple_element if imag iota "
        "optimization_barrier pad partition_id real reduce_precision reduce_scatter "
        "replica_id reshape return reverse slice transpose tuple while".split(),
    )
    + _named(
        "tosa",
        "cast concat cond_if const const_shape dim gather identity pad reshape reverse row_gather "
        "scatter slice tile transpose variable variable_read variable_write while_loop "
        "yield".split(),
    )
)
_TABLE: dict[str, Callable[[Query], Flops | None]] = {
    **dict.fromkeys(_named("stablehlo", STABLEHLO_ELEMENTWISE), _elementwise),
    **dict.fromkeys(_named("tosa", _TOSA_ELEMENTWISE), _elementwise),
    "linalg.softmax": _softmax,
    "stablehlo.batch_norm_grad": _batch_norm(10),
    "stablehlo.batch_norm_inference": _batch_norm(4),
    "stablehlo.batch_norm_training": _batch_norm(7),
    "stablehlo.cholesky": _cholesky,
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _product,
    "stablehlo.dot_general": _product,
    "stablehlo.fft": _fourier,
    "stablehlo.map": _map,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.rng": _random,
    "stablehlo.rng_bit_generator": _random,
    "stablehlo.scatter": _scatter,
    "stablehlo.select_and_scatter": _select_and_scatter,
    "stablehlo.sort": _sort,
    "stablehlo.triangular_solve": _triangular_solve,
    "tosa.argmax": lambda op: Flops(_largest(op)),
    "tosa.avg_pool2d": _pool,
    "tosa.conv2d": _tosa_convolution,
    "tosa.conv3d": _tosa_convolution,
    "tosa.depthwise_conv2d": _depthwise,
    "tosa.matmul": _product,
    "tosa.matmul_t": _product,
    "tosa.max_pool2d": _pool,
    "tosa.transpose_conv2d": _transposed_convolution,
}
