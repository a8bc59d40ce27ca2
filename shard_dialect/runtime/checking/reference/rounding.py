"""Perturb the values that an equivalent program may round differently, to find the tolerance.

    %y = stablehlo.dot_general %a, %b : (...) -> tensor<4x4xbf16>

gets a factor for each element, a further argument of the function, or the product of some:

    %z = stablehlo.multiply %y, %factors : tensor<4x4xbf16>

Factors of 1 do not change the program. A factor that is one unit in the last place more or less
gives the result of rounding to a neighbour there, as a sum in another order may. These values get
factors: values rounded to 16 or 8 bits; sums, which may be added in any order; elementary
functions, which each library computes differently; and f32 or f64 values computed from narrow
floats, as if they were inputs.

Summands also get factors before they are added: each operand of a product, a sum or a solve, if it
is not an input already, and products that are summands of a sum of two. For terms may cancel in one
order, whatever they are, and not in another:

    stablehlo.triangular_solve(%a, %a)      zeros, or 6e-8, beside the diagonal
    the sum of x - mean(x)                  0, or 1e-7
    x * y - z, in one instruction or two    0, or 1e-8
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import ml_dtypes
import numpy as np

from shard_dialect.abi.tensor_types import Array, TensorType
from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import boundary, set_boundary, update_type
from shard_dialect.ir.walk import body, is_made_by, operations, walk
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.runtime.checking.tolerance import is_narrow

_ARGUMENTS = 3
"""The number of arguments of factors per type, which take memory."""
_Powers = tuple[int, ...]
_POWERS: list[_Powers] = sorted(
    (each for each in product((0, 1, -1), repeat=_ARGUMENTS) if any(each)),
    key=lambda each: (sum(map(abs, each)), each.count(-1)),
)
"""Which of these arguments multiply a value, and which divide it: one after the other, so that no
two values nearby move alike. If both of a difference did, it would not move."""
_INLINE = "builtin.module(inline)"
_HOLDS_OPS = ("func.", "scf.", "stablehlo.while", "stablehlo.if", "stablehlo.case")
_MOVES = ("bufferization.", "tensor.")
"""Dialects whose ops compute nothing."""
_DEPENDS = Trait.ELEMENTARY | Trait.SUMS | Trait.VARIES
"""Traits of ops whose result depends on the implementation."""
_DIFFERENCES = ("stablehlo.subtract", "arith.subf", "linalg.sub", "tosa.sub")
_SOLVES = ("stablehlo.cholesky", "stablehlo.triangular_solve")
"""Ops that add up what they have computed of floats of any size, in the type of the floats."""


def add_factors(module: ir.Operation, function: ir.Operation) -> None:
    """Multiply the values that may be rounded differently by further, last arguments.

    If there are any, callees are inlined before.
    """
    if not any(map(_may_round_otherwise, walk(module))):
        return
    PassManager.parse(_INLINE).run(module)
    arguments: dict[tuple[ir.Type, int], ir.Value] = {}
    counts: Counter[ir.Type] = Counter()
    before = len(body(function).arguments)

    def factors_for(type_: ir.Type) -> _Factors:
        powers = _POWERS[counts[type_] % len(_POWERS)]
        counts[type_] += 1
        found = []
        for number, power in enumerate(powers):
            if power and (type_, number) not in arguments:
                argument = body(function).add_argument(type_, function.location)
                arguments[type_, number] = argument
            if power:
                found.append((arguments[type_, number], power))
        return found

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
    """The arrays with half of their narrow floats changed by one unit in the last place."""
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
        and isinstance(type_.element_type, ir.FloatType)
        and 8 <= type_.element_type.width <= 16
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
    if _adds_two(op) or op.name in _DIFFERENCES:
        terms = enumerate(op.operands)
        return [number for number, value in terms if _is_float(value) and _is_product(value)]
    adds = Trait.SUMS in traits_of(op.name)
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


def _is_product(value: ir.Value) -> bool:
    """Whether its elements are rounded by an op that has no factors: a product, a quotient.

    A sum with one may be computed without that rounding, and cancel but for it: `1 - 1 / (1 + e)`.
    """
    owner = value.owner
    if isinstance(owner, ir.Block) or _is_narrow(value):
        return False
    return _computes(owner) and not _varies(owner) and not _adds_two(owner)


def _is_moved_already(value: ir.Value) -> bool:
    """Whether each element is perturbed by itself, as an input is; or is given, and exact."""
    return isinstance(value.owner, ir.Block) or _is_constant(value)


def _is_constant(value: ir.Value) -> bool:
    return is_made_by(value, *build.CONSTANTS)


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


_Factors = list[tuple[ir.Value, int]]
"""Arguments, each with 1 if it multiplies, and -1 if it divides."""


def _multiply_operand(op: ir.Operation, number: int, factors: _Factors) -> None:
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = _product(op, op.operands[number], factors)


def _multiply(value: ir.OpResult, factors: _Factors) -> None:
    op = value.owner
    uses = list(value.uses)
    with ir.InsertionPoint.after(op), op.location:
        moved = _product(op, value, factors)
    build.redirect(uses, moved)


def _product(op: ir.Operation, value: ir.Value, factors: _Factors) -> ir.Value:
    is_stablehlo = op.name.startswith("stablehlo.")
    for factor, power in factors:
        if power > 0:
            name = "stablehlo.multiply" if is_stablehlo else "arith.mulf"
        else:
            name = "stablehlo.divide" if is_stablehlo else "arith.divf"
        value = build.create_value(name, value.type, [value, factor])
    return value
