"""Perturb the values that an equivalent program may round differently, to find the tolerance.

    %y = stablehlo.dot_general %a, %b : (...) -> tensor<4x4xbf16>

gets a factor for each element, a further argument of the function:

    %z = stablehlo.multiply %y, %factors : tensor<4x4xbf16>

Factors of 1 do not change the program. A factor that is one unit in the last place more or less
gives the result of rounding to a neighbour there, as a sum in another order may. These values get
factors: values rounded to 16 bits; sums, which may be added in any order; elementary functions,
which each library computes differently; and f32 or f64 values computed from narrow floats, as if
they were inputs.

Summands also get factors before they are added: each operand of a product, a sum or a solve, if it
is not an input already. For terms may cancel in one order, whatever they are, and not in another:

    stablehlo.triangular_solve(%a, %a)      zeros, or 6e-8, beside the diagonal
    the sum of x - mean(x)                  0, or 1e-7
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import boundary, set_boundary, update_type
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.runtime.checking.tolerance import is_narrow

_KINDS = 3
"""The number of arguments of factors per type, so that adjacent ops are perturbed differently."""
_INLINE = "builtin.module(inline)"
_HOLDS_OPS = ("func.", "scf.", "stablehlo.while", "stablehlo.if", "stablehlo.case")
_MOVES = ("bufferization.", "tensor.")
"""Dialects whose ops compute nothing."""
_DEPENDS = Trait.ELEMENTARY | Trait.SUMS | Trait.VARIES
"""Traits of ops whose result depends on the implementation."""
_SOLVES = ("stablehlo.cholesky", "stablehlo.triangular_solve")
"""Ops that add up what they have computed of floats of any size, in the type of the floats."""


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
    """Whether the op's floats depend on the implementation, as those of its region may."""
    if _adds_two(op):
        return False
    return any(traits_of(each.name) & _DEPENDS for each in (op, *_inside(op)))


def _adds_two(op: ir.Operation) -> bool:
    """Whether each sum is of one element of each operand, whose order does not matter."""
    return Trait.SUMS | Trait.ELEMENTWISE in traits_of(op.name)


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
    adds = not _adds_two(op) and Trait.SUMS in traits_of(op.name)
    if not adds and not (
        _computes(op) and any(Trait.SUMS in traits_of(each.name) for each in _inside(op))
    ):
        return []
    values = list(op.operands)
    if op.name.startswith(("linalg.", "stablehlo.reduce")):  # their inits come last
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
    traits = traits_of(op.name)
    if Trait.EXACT in traits or op.name.startswith((*_MOVES, *_HOLDS_OPS)):
        return False
    if Trait.CONVERTS in traits:
        return isinstance(_element(op.operands[0].type), ir.FloatType)
    inside = _inside(op)
    return not inside or any(map(_rounds_elements, inside))


def _rounds_elements(op: ir.Operation) -> bool:
    is_float = any(isinstance(_element(each.type), ir.FloatType) for each in op.results)
    return is_float and Trait.EXACT not in traits_of(op.name) and not op.name.startswith(_MOVES)


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
