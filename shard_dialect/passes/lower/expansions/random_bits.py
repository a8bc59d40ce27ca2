"""Compute the bits of a random generator that counts from the positions of its result.

The numbers are XLA's: Threefry2x32 with 20 rounds and Philox4x32 with 10, of Salmon et al.,
"Parallel random numbers: as easy as 1, 2, 3" (SC 2011), and Philox where the algorithm is left to
the implementation, as XLA does on CPUs and GPUs. Upstream's conversion makes others: it carries
nothing to the upper half of Philox's counter.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.diagnostics import error_at


def rng_bit_generator(op: ir.Operation) -> Sequence[ir.Value]:
    """The state after the op, and its bits; floats stay as they are."""
    state, bits = op.operands[0], op.results[1].type
    shape, element = list(bits.shape), bits.element_type
    if not isinstance(element, ir.IntegerType):
        return list(op.results)
    draw = _threefry if "THREE_FRY" in str(op.attributes["rng_algorithm"]) else _philox
    after, drawn = draw(_words(op, draw), shape, 64 if element.width == 64 else 32)
    if element.width < 32:
        drawn = hlo.convert(drawn, _unsigned(element.width))
    if state.type.element_type.width == 32:
        after = [half for word in after for half in _halves(word)]
    made = hlo.concatenate([hlo.reshape(each, [1]) for each in after])
    return [hlo.bitcast(made, state.type.element_type), hlo.bitcast(drawn, element)]


def _words(op: ir.Operation, draw: object) -> list[ir.Value]:
    """The state as scalars of type `ui64`; of 32 bits, two elements are one, the lower first."""
    state = op.operands[0]
    width, size = state.type.element_type.width, state.type.shape[0]
    known = (2,) if draw is _threefry else (2, 3)
    if width not in (32, 64) or size * width not in [64 * count for count in known]:
        bits_known = " or ".join(str(64 * count) for count in known)
        raise error_at(
            op.location,
            f"the state of {op.attributes['rng_algorithm']} has {size * width} bits in elements of "
            f"{width}, where it takes {bits_known}, in elements of 32 or 64",
        )
    bits = hlo.bitcast(state, _unsigned(width))
    parts = [hlo.index_along(bits, 0, at) for at in range(size)]
    if width == 64:
        return parts
    return [_whole(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]


# Philox: each count makes four words of 32 bits, or two of 64.


def _philox(
    state: Sequence[ir.Value], shape: list[int], width: int
) -> tuple[list[ir.Value], ir.Value]:
    """The new state, and numbers of this shape and width.

    The state is a key and a counter of 128 bits, the lower half first; where the upper half is left
    out, it is the key.
    """
    key, low, *high = state
    each = 128 // width
    frame = _by_counts(shape, each)
    high = high or [key]
    counts = _plus([low, *high], _positions(frame))
    made = _philox_rounds(
        [half for number in counts for half in _halves(number)],
        [hlo.broadcast(half, frame) for half in _halves(key)],
    )
    if each == 2:
        made = [_whole(*made[:2]), _whole(*made[2:])]
    stacked = hlo.concatenate([hlo.reshape(part, [*frame, 1]) for part in made], len(frame))
    after = _plus([low, *high], hlo.number(prod(frame), low.type))
    return [key, *after[: len(state) - 1]], _first(stacked, shape)


def _by_counts(shape: list[int], each: int) -> list[int]:
    """The shape of the counts that make a result of `shape`, in which `each` are of one count.

    The dimensions before stay as they are, and may be split: 8x6, in fours, is 4x3 counts, of which
    one of the first dimension is of two rows. A number of elements that is no multiple is rounded
    up, and its counts are in one dimension.
    """
    inner = 1
    for dim in reversed(range(len(shape))):
        factor = each // gcd(each, inner)
        if shape[dim] % factor == 0:
            outer = [*shape[:dim], shape[dim] // factor]
            return [*outer, factor * inner // each]
        inner *= shape[dim]
    return [-(-inner // each)]


def _first(value: ir.Value, shape: list[int]) -> ir.Value:
    """The first elements of a tensor in order, in another shape."""
    if prod(value.type.shape) != prod(shape):
        flat = hlo.reshape(value, [prod(value.type.shape)])
        value = hlo.slice_along(flat, 0, 0, prod(shape))
    return hlo.reshape(value, shape)


_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)
"""What is added to the two words of the key after each round."""


def _philox_rounds(counts: list[ir.Value], key: list[ir.Value]) -> list[ir.Value]:
    for _ in range(10):
        (first_low, first_high), (second_low, second_high) = (
            _halves(_times(counts[at], factor))
            for at, factor in zip((0, 2), _PHILOX_FACTORS, strict=True)
        )
        counts = [
            _xor(second_high, counts[1], key[0]),
            second_low,
            _xor(first_high, counts[3], key[1]),
            first_low,
        ]
        key = [_add(part, step) for part, step in zip(key, _PHILOX_STEPS, strict=True)]
    return counts


# Threefry: each count makes two words of 32 bits, or one of 64.


def _threefry(
    state: Sequence[ir.Value], shape: list[int], width: int
) -> tuple[list[ir.Value], ir.Value]:
    """The new state, and numbers of this shape and width. The state is a key and a counter."""
    key, counter = state
    wide = width == 64
    frame, dim = (shape, None) if wide else _in_halves(shape)
    counts = hlo.elementwise("add", hlo.broadcast(counter, frame), _positions(frame))
    made = _threefry_rounds(_halves(counts), [hlo.broadcast(half, frame) for half in _halves(key)])
    after = _add(counter, prod(frame))
    if dim is None:
        return [key, after], _whole(*made) if wide else hlo.reshape(made[0], shape)
    # The two words of a count are neighbours along the dimension that was halved.
    pairs = hlo.concatenate(
        [hlo.reshape(part, [*frame[: dim + 1], 1, *frame[dim + 1 :]]) for part in made], dim + 1
    )
    joined = hlo.reshape(pairs, [*frame[:dim], 2 * frame[dim], *frame[dim + 1 :]])
    return [key, after], hlo.slice_along(joined, dim, 0, shape[dim])


def _in_halves(shape: list[int]) -> tuple[list[int], int | None]:
    """The shape with one dimension halved, rounded up, and that: the first even, or the largest."""
    if not shape:
        return [], None
    even = [dim for dim, size in enumerate(shape) if size % 2 == 0]
    dim = even[0] if even else shape.index(max(shape))
    return [*shape[:dim], -(-shape[dim] // 2), *shape[dim + 1 :]], dim


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _threefry_rounds(counts: list[ir.Value], key: list[ir.Value]) -> list[ir.Value]:
    parity = hlo.number(_PARITY, key[0].type)
    keys = [*key, _xor(*key, parity)]
    a, b = (hlo.elementwise("add", *pair) for pair in zip(counts, key, strict=True))
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            a = hlo.elementwise("add", a, b)
            left = _shift("shift_left", b, distance)
            b = _xor(
                a, hlo.elementwise("or", left, _shift("shift_right_logical", b, 32 - distance))
            )
        a = hlo.elementwise("add", a, keys[(group + 1) % 3])
        b = _add(hlo.elementwise("add", b, keys[(group + 2) % 3]), group + 1)
    return [a, b]


# Arithmetic of unsigned integers, modulo their width.


def _unsigned(width: int) -> ir.IntegerType:
    return ir.IntegerType.get_unsigned(width)


def _positions(shape: list[int]) -> ir.Value:
    """The position of each element, in order, as `ui64`."""
    type_ = hlo.tensor(shape, _unsigned(64))
    found = hlo.number(0, type_)
    for dim, size in enumerate(shape):
        if size > 1:
            along = hlo.convert(hlo.iota(shape, dim), type_.element_type)
            step = hlo.number(prod(shape[dim + 1 :]), type_)
            found = hlo.elementwise("add", found, hlo.elementwise("multiply", along, step))
    return found


def _plus(number: list[ir.Value], added: ir.Value) -> list[ir.Value]:
    """The 128 bits of two scalars, the lower first, plus a tensor of 64 bits."""
    low, high = (hlo.broadcast(half, added.type.shape) for half in number)
    total = hlo.elementwise("add", low, added)
    return [total, hlo.select(hlo.compare("LT", total, low), _add(high, 1), high)]


def _halves(value: ir.Value) -> list[ir.Value]:
    """The lower and the upper 32 bits of 64."""
    upper = _shift("shift_right_logical", value, 32)
    return [hlo.convert(each, _unsigned(32)) for each in (value, upper)]


def _whole(low: ir.Value, high: ir.Value) -> ir.Value:
    """The 64 bits of two times 32."""
    low, high = (hlo.convert(each, _unsigned(64)) for each in (low, high))
    return hlo.elementwise("or", low, _shift("shift_left", high, 32))


def _times(value: ir.Value, factor: int) -> ir.Value:
    """The 64 bits of a product of 32."""
    wide = hlo.convert(value, _unsigned(64))
    return hlo.elementwise("multiply", wide, hlo.number(factor, wide.type))


def _add(value: ir.Value, number: int) -> ir.Value:
    return hlo.elementwise("add", value, hlo.number(number, value.type))


def _shift(name: str, value: ir.Value, distance: int) -> ir.Value:
    return hlo.elementwise(name, value, hlo.number(distance, value.type))


def _xor(first: ir.Value, *others: ir.Value) -> ir.Value:
    for each in others:
        first = hlo.elementwise("xor", first, each)
    return first
