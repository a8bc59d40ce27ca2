"""Expand `stablehlo.fft`: one dimension after the other, row by row, by prime factors of its size.

Let the transforms of length `l` of every `n/l`-th of `n` elements `x` be known:

    y[j, k] = sum over t < l of x[k + (n/l) t] w_l^(j t)        w_l = exp(-2 pi i / l)

This starts from `y = x` with `l = 1`. The transforms of length `p l` are, with `m = n / (p l)`,

    y'[j, k] = sum over q < p of y[j mod l, k + m q] w_(p l)^(j q)

So `n` elements take `n` times the sum of the prime factors of `n` products. Where one of these is
large, the row is instead convolved with a chirp (Bluestein's algorithm),

    y[j] = c[j] sum over k of x[k] c[k] / c[j - k]              c[k] = exp(-pi i k^2 / n)

by transforms whose size is the next power of two of `2 n`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import cos, pi, sin
from typing import TypeAlias

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.model.grid_refinement import prime_factors
from shard_dialect.ops.stablehlo.attribute_reading import integers, numbers
from shard_dialect.passes.lower.expansions import loop_code
from shard_dialect.passes.lower.expansions.loop_code import Number, Values

Load: TypeAlias = Callable[[ir.Value], ir.Value]
Store: TypeAlias = Callable[[ir.Value, ir.Value], object]
Transform: TypeAlias = Callable[[Load, int, Store], None]
"""Takes a function that loads an element, the number of elements to store, and one that stores."""

_LARGE = 256
"""From this prime factor on, Bluestein's algorithm is faster."""


def transform_of(element: ir.ComplexType, size: int, *, is_inverse: bool) -> Transform:
    """The code of a transform of `size` elements: direct, or by a convolution."""
    if max(prime_factors(size), default=1) >= _LARGE:
        return _Convolution.of(element, size, is_inverse=is_inverse).transform
    return _Row.of(element, size, is_inverse=is_inverse).transform


def number(real: ir.Value, imaginary: ir.Value) -> ir.Value:
    """The complex number of two parts."""
    element = ir.ComplexType.get(real.type)
    return build.create_value("complex.create", element, [real, imaginary])


def _op(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return build.create_value(f"complex.{name}", a.type, [a, b])


def _conjugate(value: ir.Value) -> ir.Value:
    return build.create_value("complex.conj", value.type, [value])


def _scaled(value: ir.Value, factor: float) -> ir.Value:
    real = value.type.element_type
    scale = build.number(factor, real)
    return _op("mul", value, number(scale, reductions.identity_value("sum", real)))


@dataclass(frozen=True)
class _Waves:
    """Complex numbers of length 1, by their angles."""

    cosines: ir.Value
    sines: ir.Value

    @classmethod
    def of(cls, element: ir.ComplexType, angles: list[float]) -> _Waves:
        real = element.element_type
        type_ = ir.RankedTensorType.get([len(angles)], real)
        listed = [array("f" if real.width == 32 else "d", map(wave, angles)) for wave in (cos, sin)]
        dense = [ir.DenseElementsAttr.get(each, type=type_) for each in listed]
        return cls(*(build.buffer_of(build.scalar(each)) for each in dense))

    def at(self, index: ir.Value) -> ir.Value:
        return number(loop_code.load(self.cosines, [index]), loop_code.load(self.sines, [index]))


@dataclass(frozen=True)
class _Row:
    """Memory for a row, twice: each stage reads one half of it, and writes the other."""

    halves: ir.Value
    roots: _Waves
    """The powers of the root of unity."""
    scale: float

    @classmethod
    def of(cls, element: ir.ComplexType, size: int, *, is_inverse: bool) -> _Row:
        turn = (2 if is_inverse else -2) * pi / size
        halves = build.allocate(ir.MemRefType.get([2, size], element))
        roots = _Waves.of(element, [turn * k for k in range(size)])
        return cls(halves, roots, 1 / size if is_inverse else 1)

    @property
    def size(self) -> int:
        return int(self.halves.type.shape[1])

    def transform(self, load: Load, results: int, store: Store) -> None:
        def take(index: ir.Value, _: Values) -> Values:
            loop_code.store(load(index), self.halves, [0, index])
            return []

        loop_code.loop(0, self.size, [], take)
        known = [
            loop_code.index(1),
            loop_code.index(0),
        ]  # the length so far, and which half is of that
        for factor, count in Counter(prime_factors(self.size)).items():
            known = loop_code.loop(0, count, known, partial(self._stage, factor))

        def put(index: ir.Value, _: Values) -> Values:
            value = loop_code.load(self.halves, [known[1], index])
            store(value if self.scale == 1 else _scaled(value, self.scale), index)
            return []

        loop_code.loop(0, results, [], put)

    def _stage(self, factor: int, _: ir.Value, known: Values) -> Values:
        """From transforms of `length` to those of `factor` times as many elements."""
        length, source = known
        step = loop_code.joined("divsi", self.size // factor, length)
        target = loop_code.joined("xori", source, 1)
        zero = reductions.identity_value("sum", self.halves.type.element_type)

        def write(indices: Values, _: Values) -> Values:
            turn, start, k = indices
            j = loop_code.joined("addi", loop_code.joined("muli", turn, length), start)
            first = loop_code.joined("muli", loop_code.joined("muli", start, factor), step)
            first = loop_code.joined("addi", first, k)
            more = loop_code.joined("muli", j, step)

            def add(q: ir.Value, carried: Values) -> Values:
                total, power = carried
                at = loop_code.joined("addi", first, loop_code.joined("muli", q, step))
                product = _op(
                    "mul", loop_code.load(self.halves, [source, at]), self.roots.at(power)
                )
                after = loop_code.joined("addi", power, more)
                less = loop_code.joined("subi", after, self.size)
                is_less = loop_code.less(after, self.size)
                return [_op("add", total, product), loop_code.chosen(is_less, after, less)]

            total, _power = loop_code.loop(0, factor, [zero, loop_code.index(0)], add)
            index = loop_code.joined("addi", more, k)
            loop_code.store(total, self.halves, [target, index])
            return []

        loop_code.nest([factor, length, step], write)
        return [loop_code.joined("muli", length, factor), target]


@dataclass(frozen=True)
class _Convolution:
    size: int
    row: _Row
    """The larger transform; its inverse is the conjugate of that of the conjugates."""
    chirp: _Waves
    kernel: ir.Value
    """The factors that multiply the spectrum of a row."""
    spectrum: ir.Value

    @classmethod
    def of(cls, element: ir.ComplexType, size: int, *, is_inverse: bool) -> _Convolution:
        turn = (1 if is_inverse else -1) * pi / size
        row = _Row.of(element, 1 << (2 * size - 1).bit_length(), is_inverse=False)
        # The angle repeats with k^2 mod 2n; k^2 itself would lose its last digits as a float.
        chirp = _Waves.of(element, [turn * (k * k % (2 * size)) for k in range(size)])
        memory = ir.MemRefType.get([row.size], element)
        kernel, spectrum = (build.allocate(memory) for _ in range(2))
        convolution = cls(size, row, chirp, kernel, spectrum)
        scale = 1 / row.size / (size if is_inverse else 1)

        def around(index: ir.Value) -> ir.Value:
            distance = loop_code.joined("minsi", index, loop_code.joined("subi", row.size, index))
            return convolution._inside(distance, lambda near: _conjugate(chirp.at(near)))

        row.transform(
            around,
            row.size,
            lambda value, index: loop_code.store(_scaled(value, scale), kernel, [index]),
        )
        return convolution

    def _inside(self, index: ir.Value, load: Load) -> ir.Value:
        """An element of the row times the chirp; zero past the end of the row."""
        value = load(loop_code.joined("minsi", index, self.size - 1))
        is_inside = loop_code.less(index, self.size)
        return loop_code.chosen(is_inside, value, reductions.identity_value("sum", value.type))

    def transform(self, load: Load, results: int, store: Store) -> None:
        def multiply(value: ir.Value, index: ir.Value) -> None:
            product = _op("mul", value, loop_code.load(self.kernel, [index]))
            loop_code.store(_conjugate(product), self.spectrum, [index])

        self.row.transform(
            lambda index: self._inside(index, lambda at: _op("mul", load(at), self.chirp.at(at))),
            self.row.size,
            multiply,
        )
        self.row.transform(
            lambda index: loop_code.load(self.spectrum, [index]),
            results,
            lambda value, at: store(_op("mul", _conjugate(value), self.chirp.at(at)), at),
        )


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
            conjugate = build.create_value("complex.conj", value.type, [value])
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
    return build.create_value("complex.re", value.type.element_type, [value])
