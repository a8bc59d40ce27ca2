"""`stablehlo.fft`: along one dimension after the other, one prime factor of its size at a time.

Of `n` elements `x`, the transforms of length `l` of every `n/l`-th of them are known,

    y[j, k] = sum over t < l of x[k + (n/l) t] w_l^(j t)        w_l = exp(-2 pi i / l)

from `y = x` with `l = 1` on; those of length `p l` are, with `m = n / (p l)`,

    y'[j, k] = sum over q < p of y[j mod l, k + m q] w_(p l)^(j q)

So `n` elements take `n` times the sum of the prime factors of `n` products.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from shard_dialect.ir import build
from shard_dialect.ir.bindings import ir
from shard_dialect.passes.expansions import code
from shard_dialect.passes.expansions.code import Carried
from shard_dialect.rules.stablehlo.arithmetic import joined, repeated, sliced
from shard_dialect.rules.stablehlo.attributes import integers, numbers


def fft(op: ir.Operation) -> Sequence[ir.Value]:
    (value,) = op.operands
    kind = numbers(op, "fft_type", "FftTypeAttr").value
    made, rank = op.results[0].type, value.type.rank
    count = len(integers(op, "fft_length"))
    dims = list(range(rank - count, rank))
    if 0 in made.shape:
        return [build.empty(made).results[0]]
    match kind:
        case "RFFT":
            value = _complex(value)
            for dim in reversed(dims):
                value = _along(value, dim, is_inverse=False)
            return [sliced(value, rank - 1, 0, made.shape[-1])]
        case "IRFFT":
            for dim in dims[:-1]:
                value = _along(value, dim, is_inverse=True)
            return [_real(_along(_mirrored(value, made.shape[-1]), dims[-1], is_inverse=True))]
    for dim in dims:
        value = _along(value, dim, is_inverse=kind == "IFFT")
    return [value]


def _along(value: ir.Value, dim: int, *, is_inverse: bool) -> ir.Value:
    shape = list(value.type.shape)
    size = shape[dim]
    if size == 1:
        return value
    roots = _roots(value.type, size, is_inverse=is_inverse)
    row = [size if each == dim else 1 for each in range(len(shape))]

    def write(places: list[ir.Value], carried: Carried) -> Carried:
        offsets = [0 if each == dim else place for each, place in enumerate(places)]
        made = code.part(value, offsets, row, [dim])
        length = 1
        for factor in _prime_factors(size):
            made = _stage(made, roots, length, factor)
            length *= factor
        return [code.with_part(carried[0], offsets, row, made)]

    others = [1 if each == dim else count for each, count in enumerate(shape)]
    (made,) = code.nest(others, [build.empty(value.type).results[0]], write)
    return _scaled(made, 1 / size) if is_inverse else made


def _stage(row: ir.Value, roots: ir.Value, length: int, factor: int) -> ir.Value:
    """From transforms of `length` to those of `factor` times as many elements."""
    (size,) = row.type.shape
    whole = length * factor
    step = size // whole
    zero = repeated(0, build.resized(row.type, []))

    def write(places: list[ir.Value], carried: Carried) -> Carried:
        j, k = places
        start = code.joined("muli", code.joined("remsi", j, length), step * factor)
        start = code.joined("addi", start, k)

        def add(q: ir.Value, total: Carried) -> Carried:
            source = code.joined("addi", start, code.joined("muli", q, step))
            power = code.joined("remsi", code.joined("muli", j, q), whole)
            root = code.element(roots, [code.joined("muli", power, step)])
            product = _op("mul", code.element(row, [source]), root)
            return [_op("add", total[0], product)]

        (total,) = code.loop(0, factor, [code.element(zero, [])], add)
        place = code.joined("addi", code.joined("muli", j, step), k)
        return [code.with_element(carried[0], [place], total)]

    return code.nest([whole, step], [build.empty(row.type).results[0]], write)[0]


def _op(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    return build.create(f"complex.{name}", [a.type], [a, b]).results[0]


def _prime_factors(size: int) -> list[int]:
    """From the smallest on."""
    found, factor = [], 2
    while factor * factor <= size:
        while size % factor == 0:
            found.append(factor)
            size //= factor
        factor += 1
    return [*found, size] if size > 1 else found


def _roots(type_: ir.RankedTensorType, size: int, *, is_inverse: bool) -> ir.Value:
    """The powers of the root of unity of `size` elements."""
    turn = (2 if is_inverse else -2) * pi / size
    real = ir.RankedTensorType.get([size], type_.element_type.element_type)
    parts = [_listed(real, [wave(turn * k) for k in range(size)]) for wave in (cos, sin)]
    return _hlo("complex", build.resized(type_, [size]), *parts)


def _listed(type_: ir.RankedTensorType, values: Sequence[float]) -> ir.Value:
    numbers = [ir.FloatAttr.get(type_.element_type, value) for value in values]
    return _hlo("constant", type_, value=ir.DenseElementsAttr.get(numbers, type_))


# Whole tensors


def _hlo(name: str, type_: ir.Type, *operands: ir.Value, **attributes: ir.Attribute) -> ir.Value:
    return build.create(f"stablehlo.{name}", [type_], operands, attributes).results[0]


def _complex(real: ir.Value) -> ir.Value:
    element = ir.ComplexType.get(real.type.element_type)
    made = ir.RankedTensorType.get(real.type.shape, element)
    return _hlo("complex", made, real, repeated(0, real.type))


def _part(name: str, value: ir.Value) -> ir.Value:
    made = ir.RankedTensorType.get(value.type.shape, value.type.element_type.element_type)
    return _hlo(name, made, value)


def _real(value: ir.Value) -> ir.Value:
    return _part("real", value)


def _scaled(value: ir.Value, factor: float) -> ir.Value:
    real, imag = _part("real", value), _part("imag", value)
    scale = repeated(factor, real.type)
    parts = [joined(each, scale, "multiply") for each in (real, imag)]
    return _hlo("complex", value.type, *parts)


def _mirrored(half: ir.Value, size: int) -> ir.Value:
    """The spectrum of real numbers, whose second half is the first one's conjugate, backwards."""
    last = half.type.rank - 1
    inner = sliced(half, last, 1, size - half.type.shape[last])
    real, imag = _part("real", inner), _part("imag", inner)
    other = _hlo("complex", inner.type, real, _hlo("negate", imag.type, imag))
    back = _hlo("reverse", inner.type, other, dimensions=ir.DenseI64ArrayAttr.get([last]))
    whole = build.resized(half.type, [*half.type.shape[:-1], size])
    dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), last)
    return _hlo("concatenate", whole, half, back, dimension=dimension)
