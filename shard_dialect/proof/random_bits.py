"""The bits of random generators that count: Philox4x32 with 10 rounds, Threefry2x32 with 20.

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Which number of a
count is which element of the result is as in XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from shard_dialect.proof.machine import Machine, Value, means, wrapped
from shard_dialect.proof.reading import Op

Words = NDArray[np.uint64]
"""Of 32 bits, or of 64."""
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@means("stablehlo.rng_bit_generator")
def _random_bits(m: Machine, op: Op, values: Sequence[Value]) -> Sequence[Value]:
    state_type, type_ = op.types
    if not type_.is_integer:
        return m.black_box(op, values)
    state = m.integers(values[0]).astype(np.int64).view(np.uint64)
    words = [state[..., at, None] for at in range(state.shape[-1])]
    is_wide = type_.width == 64
    draw = _threefry if "THREE_FRY" in str(op.attributes["rng_algorithm"]) else _philox
    after, bits = draw(words, type_.shape, is_wide)
    results = (np.concatenate(after, axis=-1), bits.reshape((*state.shape[:-1], *type_.shape)))
    return [
        Value(wrapped(each.view(np.int64), type_), False)
        for each, type_ in zip(results, (state_type, type_), strict=True)
    ]


def _philox(state: list[Words], shape: tuple[int, ...], is_wide: bool) -> tuple[list[Words], Words]:
    """Elements one after the other; a state of two words has its key as upper half, too."""
    key, low, high = [*state, state[0]][:3]
    each = 2 if is_wide else 4
    counts = _counted(-(-prod(shape) // each))
    ours, theirs = low + counts, low + np.uint64(len(counts))
    upper = high + (ours < low)
    a, b, c, d = ours & _LOW, ours >> _HALF, upper & _LOW, upper >> _HALF
    first, second = key & _LOW, key >> _HALF
    for _ in range(10):
        product, other = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b = other >> _HALF ^ b ^ first, other & _LOW
        c, d = product >> _HALF ^ d ^ second, product & _LOW
        first = first + np.uint64(0x9E3779B9) & _LOW
        second = second + np.uint64(0xBB67AE85) & _LOW
    made = [a | b << _HALF, c | d << _HALF] if is_wide else [a, b, c, d]
    in_order = np.stack(np.broadcast_arrays(*made), axis=-1).reshape((*key.shape[:-1], -1))
    after = [key, theirs, high + (theirs < low)]
    return after[: len(state)], in_order[..., : prod(shape)]


def _threefry(
    state: list[Words], shape: tuple[int, ...], is_wide: bool
) -> tuple[list[Words], Words]:
    """A count makes two neighbours along the first even dimension, else the longest one."""
    key, counter = state
    dim = next((d for d, size in enumerate(shape) if size % 2 == 0), None)
    if dim is None:
        dim = shape.index(max(shape)) if shape else 0
    outer = shape or (1,)
    halved = (*outer[:dim], -(-outer[dim] // 2), *outer[dim + 1 :])
    frame = outer if is_wide else halved
    counts = counter + _counted(prod(frame))
    keys = [key & _LOW, key >> _HALF]
    keys.append(keys[0] ^ keys[1] ^ np.uint64(0x1BD11BDA))
    a, b = (counts & _LOW) + keys[0] & _LOW, (counts >> _HALF) + keys[1] & _LOW
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = a + b & _LOW
            b = a ^ (b << np.uint64(turn) | b >> np.uint64(32 - turn)) & _LOW
        a = a + keys[(group + 1) % 3] & _LOW
        b = b + keys[(group + 2) % 3] + np.uint64(group + 1) & _LOW
    after = [key, counter + np.uint64(prod(frame))]
    if is_wide:
        return after, a | b << _HALF
    lead = key.ndim - 1
    pair = np.stack([each.reshape((*each.shape[:-1], *frame)) for each in (a, b)], lead + dim + 1)
    joined = pair.reshape((*key.shape[:-1], *outer[:dim], 2 * frame[dim], *outer[dim + 1 :]))
    return after, joined[(*(slice(None),) * (lead + dim), slice(outer[dim]))]


def _counted(count: int) -> Words:
    return np.arange(count, dtype=np.uint64)
