"""Perturb the values that an equivalent program may round differently, to find the tolerance.

    %y = stablehlo.dot_general %a, %b : (...) -> tensor<4x4xbf16>

gets a factor for each element, a further argument of the function:

    %z = stablehlo.multiply %y, %factors : tensor<4x4xbf16>

Factors of 1 do not change the program. A factor that is one unit in the last place more or less
gives the result of rounding to a neighbour there, as a sum in another order may. These values get
factors: values rounded to 16 bits; sums, which may be added in any order; elementary functions,
which each library computes differently; and f32 or f64 values computed from narrow floats, as if
they were inputs.

What is added up also gets factors before it is: each operand of a product, a sum or a solve, if it
is not an input already. For terms may cancel in one order, whatever they are, and not in another:

    stablehlo.triangular_solve(%a, %a)      zeros, or 6e-8, beside the diagonal
    the sum of x - mean(x)                  0, or 1e-7
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from shard_dialect.codegen.array_types import Array, TensorType
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import boundary, set_boundary, update_type
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.runtime.checking.tolerance import is_narrow

_KINDS = 3
"""The number of arguments of factors per type, so that adjacent ops are perturbed differently."""
_INLINE = "builtin.module(inline)"
_HOLDS_OPS = ("scf.", "stablehlo.while", "stablehlo.if", "stablehlo.case")
_MOVES = ("bufferization.", "tensor.")
"""Dialects whose ops compute nothing."""
_EXACT = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "arith": "bitcast constant maximumf maxnumf minimumf minnumf negf select",
        "func": "call",
        "linalg": "broadcast copy fill index transpose yield",
        "math": "absf ceil copysign floor round roundeven trunc",
        "stablehlo": "abs bitcast_convert broadcast broadcast_in_dim ceil clamp compare concatenate"
        " constant copy dynamic_broadcast_in_dim dynamic_gather dynamic_iota dynamic_pad"
        " dynamic_reshape dynamic_slice dynamic_update_slice floor gather get_dimension_size iota"
        " maximum minimum negate optimization_barrier pad real_dynamic_slice reshape return reverse"
        " round_nearest_afz round_nearest_even select sign slice transpose",
        "tosa": "abs ceil clamp concat const floor gather identity max_pool2d maximum minimum"
        " negate pad reduce_max reduce_min reshape reverse scatter select slice tile transpose"
        " yield",
    }.items()
    for name in names.split()
)
"""Ops that return their operands' elements, or round to integers."""
_VARYING = frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "linalg": "erf exp log powf rsqrt softmax sqrt tanh",
        "arith": "addf",
        "math": "acos acosh asin asinh atan atan2 atanh cbrt cos cosh erf erfc exp exp2 expm1 log"
        " log10 log1p log2 powf rsqrt sin sinh sqrt tan tanh",
        "stablehlo": "add atan2 batch_norm_grad batch_norm_inference batch_norm_training cbrt"
        " cholesky convolution cosine dot dot_general exponential exponential_minus_one fft log"
        " log_plus_one logistic power rsqrt sine sqrt tan tanh triangular_solve",
        "tosa": "avg_pool2d conv2d conv3d cos depthwise_conv2d erf exp fft2d log matmul pow"
        " reciprocal reduce_sum rfft2d rsqrt sigmoid sin tanh transpose_conv2d",
    }.items()
    for name in names.split()
)
"""Ops whose result depends on the implementation, by themselves or in their regions."""


_SOLVES = frozenset(f"stablehlo.{name}" for name in ("cholesky", "triangular_solve"))
"""Ops that add up what they have computed of floats of any size, in the type of the floats."""
_SUMS = _SOLVES | frozenset(
    f"{dialect}.{name}"
    for dialect, names in {
        "arith": "addf",
        "stablehlo": "add batch_norm_grad batch_norm_training convolution dot dot_general fft",
        "tosa": "avg_pool2d conv2d conv3d depthwise_conv2d fft2d matmul reduce_sum rfft2d"
        " transpose_conv2d",
    }.items()
    for name in names.split()
)
"""Ops that add up their operands' elements, by themselves or in their regions."""


def add_factors(module: ir.Operation, function: ir.Operation) -> None:
    """Multiply the values that may be rounded differently by further, last arguments.

    If there are any, callees are inlined before.
    """
    if not any(map(_may_round_otherwise, walk(module))):
        return
    PassManager.parse(_INLINE).run(module)
    factors: dict[tuple[ir.Type, int], ir.Value] = {}
    counts: Counter[ir.Type] = Counter()
    before = len(body(function).arguments)

    def factors_for(type_: ir.Type) -> ir.Value:
        key = type_, counts[type_] % _KINDS
        counts[type_] += 1
        if key not in factors:
            factors[key] = body(function).add_argument(type_, function.location)
        return factors[key]

    for op in _ops(function):
        for number in _added_up(op):
            _multiply_operand(op, number, factors_for(op.operands[number].type))
        for value in _rounded(op):
            _multiply(value, factors_for(value.type))
    entries = boundary(function, "arg_attrs")
    update_type(function)
    added = len(body(function).arguments) - before
    set_boundary(function, "arg_attrs", [*entries, *({} for _ in range(added))])


def ones(types: Sequence[TensorType]) -> list[Array]:
    """Arrays of ones of these types."""
    return [np.ones(each.shape, each.dtype) for each in types]


def perturbed_floats(arrays: Sequence[Array], seed: int) -> list[Array]:
    """The arrays with half of their floats of 16 bits changed by one unit in the last place."""
    generator = np.random.default_rng(seed)
    return [_perturbed(each, generator) if is_narrow(each.dtype) else each for each in arrays]


def _perturbed(array: Array, generator: np.random.Generator) -> Array:
    unit = float(ml_dtypes.finfo(array.dtype).eps)
    factors = np.array([1 - unit / 2, 1, 1, 1 + unit]).astype(array.dtype)
    drawn = factors[generator.integers(0, len(factors), array.shape, np.uint8)]
    with np.errstate(all="ignore"):
        return np.asarray(np.multiply(array, drawn, dtype=array.dtype))


def _may_round_otherwise(op: ir.Operation) -> bool:
    return _varies(op) or any(map(_is_narrow, (*op.operands, *op.results)))


def _varies(op: ir.Operation) -> bool:
    """Whether the op's floats depend on the implementation; a sum of two does not."""
    if op.name in ("arith.addf", "stablehlo.add"):
        return False
    return any(each.name in _VARYING for each in (op, *_inside(op)))


def _is_narrow(value: ir.Value) -> bool:
    type_ = value.type
    return (
        isinstance(type_, ir.RankedTensorType)
        and type_.has_static_shape
        and isinstance(type_.element_type, ir.BF16Type | ir.F16Type)
    )


def _ops(op: ir.Operation) -> list[ir.Operation]:
    """The ops in regions through which tensors flow, without reducers."""
    ops = []
    for inner in _inside(op):
        ops.append(inner)
        if inner.name.startswith(_HOLDS_OPS):
            ops += _ops(inner)
    return ops


def _inside(op: ir.Operation) -> list[ir.Operation]:
    """The ops of the op's own blocks, also those of linalg's named ops."""
    return [each for region in op.regions for block in region for each in operations(block)]


def _rounded(op: ir.Operation) -> list[ir.OpResult]:
    """The results of the op whose elements may be rounded differently."""
    if not _computes(op):
        return []
    concerned = _is_float if _varies(op) or any(map(_is_narrow, op.operands)) else _is_narrow
    return [each for each in op.results if concerned(each)]


def _is_float(value: ir.Value) -> bool:
    type_ = value.type
    is_static = isinstance(type_, ir.RankedTensorType) and type_.has_static_shape
    return is_static and isinstance(type_.element_type, ir.FloatType)


def _added_up(op: ir.Operation) -> list[int]:
    """The numbers of the operands whose elements the op adds up, unless they are inputs already."""
    is_sum = op.name in _SUMS and op.name not in ("arith.addf", "stablehlo.add")
    if not is_sum and not (_computes(op) and any(each.name in _SUMS for each in _inside(op))):
        return []
    values = list(op.operands)
    if op.name.startswith(("linalg.", "stablehlo.reduce")):  # what they start from comes last
        values = values[: len(values) - len(op.results)]
    return [
        number
        for number, value in enumerate(values)
        if _is_float(value)
        and (op.name in _SOLVES or not _is_narrow(value))
        and (values.count(value) > 1 or not _is_moved_already(value))
        and not (op.name.startswith("tosa.") and _is_constant(value))  # a zero point stays one
    ]


def _is_moved_already(value: ir.Value) -> bool:
    """Whether each element is perturbed by itself, as an input is; or is given, and exact."""
    return isinstance(value.owner, ir.Block) or _is_constant(value)


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name in build.CONSTANTS


def _computes(op: ir.Operation) -> bool:
    """Whether the op computes new elements, rather than moving its operands'."""
    if op.name in _EXACT or op.name.startswith((*_MOVES, *_HOLDS_OPS)):
        return False
    if op.name in ("stablehlo.convert", "tosa.cast", "arith.sitofp", "arith.uitofp"):
        return isinstance(_element(op.operands[0].type), ir.FloatType)
    inside = _inside(op)
    return not inside or any(map(_rounds_elements, inside))


def _rounds_elements(op: ir.Operation) -> bool:
    is_float = any(isinstance(_element(each.type), ir.FloatType) for each in op.results)
    return is_float and op.name not in _EXACT and not op.name.startswith(_MOVES)


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.ShapedType) else type_


def _multiply_operand(op: ir.Operation, number: int, factors: ir.Value) -> None:
    name = "stablehlo.multiply" if op.name.startswith("stablehlo.") else "arith.mulf"
    value = op.operands[number]
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = build.create(name, [value.type], [value, factors]).results[0]


def _multiply(value: ir.OpResult, factors: ir.Value) -> None:
    op = value.owner
    name = "stablehlo.multiply" if op.name.startswith("stablehlo.") else "arith.mulf"
    uses = list(value.uses)
    with ir.InsertionPoint.after(op), op.location:
        product = build.create(name, [value.type], [value, factors]).results[0]
    build.redirect(uses, product)
