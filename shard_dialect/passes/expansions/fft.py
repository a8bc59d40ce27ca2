"""`stablehlo.fft`: along one dimension after the other, one prime factor of its size at a time.

Of `n` elements `x`, the transforms of length `l` of every `n/l`-th of them are known,

    y[j, k] = sum over t < l of x[k + (n/l) t] w_l^(j t)        w_l = exp(-2 pi i / l)

from `y = x` with `l = 1` on; those of length `p l` are, with `m = n / (p l)`,

    y'[j, k] = sum over q < p of y[j mod l, k + m q] w_(p l)^(j q)

So `n` elements take `n` times the sum of the prime factors of `n` products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import cos, pi, sin

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.expansions import code
from shard_dialect.passes.expansions.code import Number, Values
from shard_dialect.rules.stablehlo.attributes import integers, numbers

_Load = Callable[[ir.Value], ir.Value]
_Store = Callable[[ir.Value, ir.Value], None]


def fft(op: ir.Operation) -> Sequence[ir.Value]:
    source, type_ = code.buffer(op.operands[0]), op.results[0].type
    kind = numbers(op, "fft_type", "FftTypeAttr").value
    count = len(integers(op, "fft_length"))
    made = code.room(type_)
    if 0 in type_.shape:
        return [code.tensor(made)]
    *others, last = range(type_.rank - count, type_.rank)
    is_inverse = kind in ("IFFT", "IRFFT")
    if kind == "RFFT":
        _real_to_half(source, made, last)
        source = made
    elif kind != "IRFFT":
        others.append(last)
    half = code.room(source.type) if kind == "IRFFT" and others else made
    for dim in others:
        _along(source, half, dim, is_inverse=is_inverse)
        source = half
    if kind == "IRFFT":
        _half_to_real(source, made, last)
    return [code.tensor(made)]


def _along(source: ir.Value, into: ir.Value, dim: int, *, is_inverse: bool) -> None:
    """Of complex numbers; from memory into the same or other."""
    size = source.type.shape[dim]
    row = _Row.of(source.type.element_type, size, is_inverse=is_inverse)

    def write(at: Callable[[Number], list[Number]]) -> None:
        row.transform(
            size,
            lambda place: code.load(source, at(place)),
            size,
            lambda value, place: code.store(value, into, at(place)),
        )

    _each_row(source.type, dim, write)


def _real_to_half(source: ir.Value, into: ir.Value, dim: int) -> None:
    """The first half of the spectrum of real numbers: the other one is its mirror image."""
    size = source.type.shape[dim]
    row = _Row.of(into.type.element_type, size, is_inverse=False)
    zero = build.neutral("sum", source.type.element_type)

    def write(at: Callable[[Number], list[Number]]) -> None:
        row.transform(
            size,
            lambda place: row.number(code.load(source, at(place)), zero),
            into.type.shape[dim],
            lambda value, place: code.store(value, into, at(place)),
        )

    _each_row(source.type, dim, write)


def _half_to_real(source: ir.Value, into: ir.Value, dim: int) -> None:
    """Its inverse."""
    half, size = source.type.shape[dim], into.type.shape[dim]
    row = _Row.of(source.type.element_type, size, is_inverse=True)

    def write(at: Callable[[Number], list[Number]]) -> None:
        def load(place: ir.Value) -> ir.Value:
            is_here = code.less(place, half)
            mirrored = code.joined("subi", size, place)
            value = code.load(source, at(code.chosen(is_here, place, mirrored)))
            conjugate = build.create("complex.conj", [value.type], [value]).results[0]
            return code.chosen(is_here, value, conjugate)

        row.transform(
            size,
            load,
            size,
            lambda value, place: code.store(_real(value), into, at(place)),
        )

    _each_row(source.type, dim, write)


def _each_row(
    type_: ir.MemRefType, dim: int, write: Callable[[Callable[[Number], list[Number]]], None]
) -> None:
    """`write` is given what makes a place of one in a row."""

    def inside(places: Values, _: Values) -> Values:
        write(lambda place: [place if each == dim else at for each, at in enumerate(places)])
        return []

    code.nest([1 if each == dim else size for each, size in enumerate(type_.shape)], inside)


def _real(value: ir.Value) -> ir.Value:
    return build.create("complex.re", [value.type.element_type], [value]).results[0]


def _op(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return build.create(f"complex.{name}", [a.type], [a, b]).results[0]


@dataclass(frozen=True)
class _Row:
    """Memory for a row, twice: each stage reads one half of it, and writes the other."""

    halves: ir.Value
    cosines: ir.Value
    """Of the powers of the root of unity."""
    sines: ir.Value
    scale: ir.Value | None

    @classmethod
    def of(cls, element: ir.ComplexType, size: int, *, is_inverse: bool) -> _Row:
        real, turn = element.element_type, (2 if is_inverse else -2) * pi / size
        halves = build.allocate(ir.MemRefType.get([2, size], element)).results[0]
        tables = [_listed(real, [wave(turn * k) for k in range(size)]) for wave in (cos, sin)]
        made = cls(halves, tables[0], tables[1], None)
        if not is_inverse:
            return made
        scale = build.scalar(ir.FloatAttr.get(real, 1 / size)).results[0]
        return replace(made, scale=made.number(scale, build.neutral("sum", real)))

    @property
    def size(self) -> int:
        return int(self.halves.type.shape[1])

    def number(self, real: ir.Value, imaginary: ir.Value) -> ir.Value:
        element = self.halves.type.element_type
        return build.create("complex.create", [element], [real, imaginary]).results[0]

    def transform(self, given: int, load: _Load, wanted: int, store: _Store) -> None:
        """Of `given` elements, in a loop that reads them; `wanted` ones are stored."""

        def take(place: ir.Value, _: Values) -> Values:
            code.store(load(place), self.halves, [0, place])
            return []

        code.loop(0, given, [], take)
        length, factors = 1, _prime_factors(self.size)
        for number, factor in enumerate(factors):
            self._stage(number % 2, length, factor)
            length *= factor

        def put(place: ir.Value, _: Values) -> Values:
            value = code.load(self.halves, [len(factors) % 2, place])
            store(value if self.scale is None else _op("mul", value, self.scale), place)
            return []

        code.loop(0, wanted, [], put)

    def _stage(self, source: int, length: int, factor: int) -> None:
        """From transforms of `length` to those of `factor` times as many elements."""
        whole = length * factor
        step = self.size // whole
        zero = build.neutral("sum", self.halves.type.element_type)

        def write(places: Values, _: Values) -> Values:
            j, k = places
            start = code.joined("muli", code.joined("remsi", j, length), step * factor)
            start = code.joined("addi", start, k)

            def add(q: ir.Value, total: Values) -> Values:
                at = code.joined("addi", start, code.joined("muli", q, step))
                power = code.joined("remsi", code.joined("muli", j, q), whole)
                angle = code.joined("muli", power, step)
                root = self.number(code.load(self.cosines, [angle]), code.load(self.sines, [angle]))
                product = _op("mul", code.load(self.halves, [source, at]), root)
                return [_op("add", total[0], product)]

            (total,) = code.loop(0, factor, [zero], add)
            place = code.joined("addi", code.joined("muli", j, step), k)
            code.store(total, self.halves, [1 - source, place])
            return []

        code.nest([whole, step], write)


def _prime_factors(size: int) -> list[int]:
    """From the smallest on."""
    found, factor = [], 2
    while factor * factor <= size:
        while size % factor == 0:
            found.append(factor)
            size //= factor
        factor += 1
    return [*found, size] if size > 1 else found


def _listed(element: ir.Type, values: Sequence[float]) -> ir.Value:
    type_ = ir.RankedTensorType.get([len(values)], element)
    listed = [ir.FloatAttr.get(element, value) for value in values]
    return code.buffer(build.scalar(ir.DenseElementsAttr.get(listed, type_)).results[0])
