"""Expand `stablehlo.fft`: one dimension after the other, row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.dft_of_rows import number, transform_of
from shard_dialect.passes.lower.expansions.loop_code import Number, Values
from shard_dialect.rules.stablehlo.attribute_reading import integers, numbers


def fft(op: ir.Operation) -> Sequence[ir.Value]:
    """The transform of the operand, of any type that `stablehlo.fft` has."""
    source, type_ = build.buffer_of(op.operands[0]), op.results[0].type
    kind = numbers(op, "fft_type", "FftTypeAttr").value
    count = len(integers(op, "fft_length"))
    result = loop_code.allocated(type_)
    if 0 in type_.shape:
        return [build.tensor_of(result)]
    *others, last = range(type_.rank - count, type_.rank)
    is_inverse = kind in ("IFFT", "IRFFT")
    if kind == "RFFT":
        _real_to_half(source, result, last)
        source = result
    elif kind != "IRFFT":
        others.append(last)
    half = loop_code.allocated(source.type) if kind == "IRFFT" and others else result
    for dim in others:
        _along(source, half, dim, is_inverse=is_inverse)
        source = half
    if kind == "IRFFT":
        _half_to_real(source, result, last)
    return [build.tensor_of(result)]


def _along(source: ir.Value, into: ir.Value, dim: int, *, is_inverse: bool) -> None:
    """Transform complex numbers along a dimension, from one buffer to the same or another."""
    size = source.type.shape[dim]
    transform = transform_of(source.type.element_type, size, is_inverse=is_inverse)

    def write(at: Callable[[Number], list[Number]]) -> None:
        transform(
            lambda index: loop_code.load(source, at(index)),
            size,
            lambda value, index: loop_code.store(value, into, at(index)),
        )

    _each_row(source.type, dim, write)


def _real_to_half(source: ir.Value, into: ir.Value, dim: int) -> None:
    """The first half of the spectrum of real numbers; the other half is its mirror image."""
    size = source.type.shape[dim]
    transform = transform_of(into.type.element_type, size, is_inverse=False)
    zero = reductions.identity_value("sum", source.type.element_type)

    def write(at: Callable[[Number], list[Number]]) -> None:
        transform(
            lambda index: number(loop_code.load(source, at(index)), zero),
            into.type.shape[dim],
            lambda value, index: loop_code.store(value, into, at(index)),
        )

    _each_row(source.type, dim, write)


def _half_to_real(source: ir.Value, into: ir.Value, dim: int) -> None:
    """The inverse of `_real_to_half`."""
    half, size = source.type.shape[dim], into.type.shape[dim]
    transform = transform_of(source.type.element_type, size, is_inverse=True)

    def write(at: Callable[[Number], list[Number]]) -> None:
        def load(index: ir.Value) -> ir.Value:
            is_here = loop_code.less(index, half)
            mirrored = loop_code.joined("subi", size, index)
            value = loop_code.load(source, at(loop_code.chosen(is_here, index, mirrored)))
            conjugate = build.create("complex.conj", [value.type], [value]).results[0]
            return loop_code.chosen(is_here, value, conjugate)

        transform(
            load,
            size,
            lambda value, index: loop_code.store(_real(value), into, at(index)),
        )

    _each_row(source.type, dim, write)


def _each_row(
    type_: ir.MemRefType, dim: int, write: Callable[[Callable[[Number], list[Number]]], None]
) -> None:
    """Loop over the rows along `dim`; `write` gets a function from a row's position to indices."""

    def inside(indices: Values, _: Values) -> Values:
        write(lambda index: [index if each == dim else at for each, at in enumerate(indices)])
        return []

    loop_code.nest([1 if each == dim else size for each, size in enumerate(type_.shape)], inside)


def _real(value: ir.Value) -> ir.Value:
    return build.create("complex.re", [value.type.element_type], [value]).results[0]
