"""Expand `stablehlo.cholesky` and `stablehlo.triangular_solve`, for each matrix of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ops.stablehlo.attribute_reading import numbers
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Number, Values


def _op(name: str, *operands: ir.Value) -> ir.Value:
    """The arith or complex op (`sub`, `mul`, `div`) on elements of one type."""
    type_ = operands[0].type
    full = f"complex.{name}" if isinstance(type_, ir.ComplexType) else f"arith.{name}f"
    return build.create_value(full, type_, operands)


def _root(value: ir.Value) -> ir.Value:
    dialect = "complex" if isinstance(value.type, ir.ComplexType) else "math"
    return build.create_value(f"{dialect}.sqrt", value.type, [value])


def _conjugate(value: ir.Value) -> ir.Value:
    if not isinstance(value.type, ir.ComplexType):
        return value
    return build.create_value("complex.conj", value.type, [value])


def _is_positive(value: ir.Value) -> ir.Value:
    """Whether the real part is greater than zero; false for a NaN."""
    if isinstance(value.type, ir.ComplexType):
        value = build.create_value("complex.re", value.type.element_type, [value])
    zero = reductions.identity_value("sum", value.type)
    return build.compare("ogt", value, zero)


def _nan(type_: ir.Type) -> ir.Value:
    is_complex = isinstance(type_, ir.ComplexType)
    component = ir.FloatAttr.get(type_.element_type if is_complex else type_, math.nan)
    one = build.scalar(component)
    return build.create_value("complex.create", type_, [one, one]) if is_complex else one


def _less_products(
    start: ir.Value, begin: Number, end: Number, factors: Callable[[ir.Value], Sequence[ir.Value]]
) -> ir.Value:
    """`start` minus the sum of the products of the `factors` at `begin` to `end`."""

    def subtract(index: ir.Value, rest: Values) -> Values:
        return [_op("sub", rest[0], _op("mul", *factors(index)))]

    return loop_code.loop(begin, end, [start], subtract)[0]


def cholesky(op: ir.Operation) -> Sequence[ir.Value]:
    """The lower triangle `l` of `a = l l^H`, or the upper one `l^H`; the other triangle is zeros.

    l[j, j] = sqrt(a[j, j] - sum of l[j, k] conj(l[j, k]), k < j)
    l[i, j] = (a[i, j] - sum of l[i, k] conj(l[j, k]), k < j) / l[j, j]

    All elements are NaN if the matrix is not positive definite, as in XLA; StableHLO leaves this
    open.
    """
    a = build.buffer_of(op.operands[0])
    result = loop_code.allocated(a.type)
    *batch, size, _ = a.type.shape
    is_lower = "lower" in op.attributes and op.attributes["lower"].value

    def matrix(indices: Values, _: Values) -> Values:
        def at(row: ir.Value, column: ir.Value) -> Values:
            return [*indices, row, column] if is_lower else [*indices, column, row]

        def read(source: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
            value = loop_code.load(source, at(row, column))
            return value if is_lower else _conjugate(value)

        def write(row: ir.Value, column: ir.Value, value: ir.Value) -> Values:
            loop_code.store(value if is_lower else _conjugate(value), result, at(row, column))
            return []

        def rest(row: ir.Value, column: ir.Value) -> ir.Value:
            return _less_products(
                read(a, row, column),
                0,
                column,
                lambda k: (read(result, row, k), _conjugate(read(result, column, k))),
            )

        def column_of(column: ir.Value, is_definite: Values) -> Values:
            square = rest(column, column)
            root = _root(square)
            write(column, column, root)
            zero = reductions.identity_value("sum", a.type.element_type)
            loop_code.loop(0, column, [], lambda row, _: write(row, column, zero))
            below = loop_code.joined("addi", column, 1)
            loop_code.loop(
                below,
                size,
                [],
                lambda row, _: write(row, column, _op("div", rest(row, column), root)),
            )
            return [loop_code.joined("andi", is_definite[0], _is_positive(square))]

        (is_definite,) = loop_code.loop(0, size, [loop_code.bit(True)], column_of)
        nan = _nan(a.type.element_type)
        loop_code.only_if(
            loop_code.negated(is_definite),
            lambda: loop_code.nest([size, size], lambda at, _: write(at[0], at[1], nan)),
        )
        return []

    loop_code.nest(batch, matrix)
    return [build.tensor_of(result)]


@dataclass(frozen=True)
class _Solve:
    is_left: bool
    is_lower: bool
    """Whether `op(a)` is lower triangular; if it is on the right, whether its transpose is."""
    has_unit_diagonal: bool
    is_transposed: bool
    """Whether `a` is read transposed to get `op(a)`, or the transpose of one on the right."""
    is_conjugated: bool

    @classmethod
    def of(cls, op: ir.Operation) -> _Solve:
        left, lower, unit = (
            op.attributes[name].value for name in ("left_side", "lower", "unit_diagonal")
        )
        kind = numbers(op, "transpose_a", "TransposeAttr").value
        is_transposed = (kind != "NO_TRANSPOSE") == left
        return cls(left, lower != is_transposed, unit, is_transposed, kind == "ADJOINT")


def triangular_solve(op: ir.Operation) -> Sequence[ir.Value]:
    """`op(a) x = b`, or `x op(a) = b`, which is `op(a)^T x^T = b^T`.

    x[i] = (b[i] - sum of a[i, k] x[k]) / a[i, i], over the k that are solved already. Rows are
    solved from the first on if the matrix is lower triangular, else from the last on.
    """
    a, b = map(build.buffer_of, op.operands)
    x = loop_code.allocated(b.type)
    how = _Solve.of(op)
    *batch, size, _ = a.type.shape
    columns = b.type.shape[-1 if how.is_left else -2]

    def column(indices: Values, _: Values) -> Values:
        *of_batch, other = indices

        def coefficient(row: ir.Value, k: ir.Value) -> ir.Value:
            element_index = (k, row) if how.is_transposed else (row, k)
            value = loop_code.load(a, [*of_batch, *element_index])
            return _conjugate(value) if how.is_conjugated else value

        def at(row: ir.Value) -> Values:
            return [*of_batch, row, other] if how.is_left else [*of_batch, other, row]

        def solve(number: ir.Value, _: Values) -> Values:
            row = number if how.is_lower else loop_code.joined("subi", size - 1, number)
            value = _less_products(
                loop_code.load(b, at(row)),
                0 if how.is_lower else loop_code.joined("addi", row, 1),
                row if how.is_lower else size,
                lambda k: (coefficient(row, k), loop_code.load(x, at(k))),
            )
            if not how.has_unit_diagonal:
                value = _op("div", value, coefficient(row, row))
            loop_code.store(value, x, at(row))
            return []

        return loop_code.loop(0, size, [], solve)

    loop_code.nest([*batch, columns], column)
    return [build.tensor_of(x)]
