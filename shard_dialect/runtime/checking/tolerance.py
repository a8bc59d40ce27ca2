"""How far results may be from the unsharded program's, read off that program itself.

It runs again on inputs that are moved in their last places, and with roundings to 16 bits that go
to a neighbour (`reference.rounding`): an element that this moves is one that a sum in another order
moves, too. All is done a block of elements at a time, so that memory stays what the arrays take.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shard_dialect.codegen.array_types import Array

_BLOCK = 1 << 18
"""Elements that are compared at once."""
_NEIGHBOURS = 64
"""Elements in a row whose spreads are averaged: one that is near 0 by chance moves less than the
roundings of what it is the sum of."""
_ROUNDINGS = {2: 1, 4: 16, 8: 16}
"""Units in the last place that any element may differ by, by the bytes of a real number."""
_ORDERS = 100
"""How many times what moving the inputs by one unit does may a sum in another order do."""
_DEVIATIONS = 10
"""How many times what roundings to neighbours do on average may other roundings do."""

Allowed = NDArray[np.float32]
"""What each element may differ by."""


def is_float(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind in "fc" or dtype == ml_dtypes.bfloat16


def is_narrow(dtype: np.dtype[np.generic]) -> bool:
    """Whether its numbers are floats of 16 bits."""
    return is_float(dtype) and dtype.itemsize == 2


def _epsilon(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def _widened(array: Array) -> NDArray[np.inexact]:
    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


def perturbed(array: Array, seed: int, units: int = 1) -> Array:
    """The array with each float of 32 or 64 bits moved by up to `units` in its last place."""
    if not is_float(array.dtype) or is_narrow(array.dtype):
        return array
    generator = np.random.default_rng(seed)
    given, made = array.reshape(-1), np.empty(array.size, array.dtype)
    for block in _blocks(array.size):
        steps = generator.uniform(-units, units, block.stop - block.start)
        made[block] = _widened(given[block]) * (1 + steps * _epsilon(array.dtype))
    return made.reshape(array.shape)


class Spread:
    """How much results have moved, from run to run: for each element a root mean square."""

    def __init__(self, expected: Sequence[Array]) -> None:
        self._expected = expected
        self._moves = [np.zeros(each.size, np.float32) for each in expected]
        self._runs = 0

    def add(self, others: Sequence[Array]) -> None:
        """The results of one more run."""
        self._runs += 1
        for expected, other, moves in zip(self._expected, others, self._moves, strict=True):
            if not is_float(expected.dtype):
                continue
            mine, theirs = expected.reshape(-1), np.ascontiguousarray(other).reshape(-1)
            with np.errstate(all="ignore"):
                for block in _blocks(mine.size):
                    move = np.abs(_widened(theirs[block]) - _widened(mine[block]))
                    np.hypot(moves[block], move, out=moves[block], casting="same_kind")

    def by_order(self, units: int) -> Iterator[Allowed]:
        """What sums in another order may do, after runs on inputs moved by `units`."""
        for moves in self._moves:
            yield moves * np.float32(_ORDERS / units / max(1, self._runs) ** 0.5)

    def by_rounding(self) -> Iterator[Allowed]:
        """What other roundings to 16 bits may do, after runs that went to neighbours."""
        for moves in self._moves:
            spread = moves / np.float32(max(1, self._runs) ** 0.5)
            yield np.float32(_DEVIATIONS) * np.maximum(spread, _around(spread) / 2)


def _around(spread: Allowed) -> Allowed:
    """The root mean square of each element's neighbours, itself included."""
    if not spread.size:
        return spread
    length = min(_NEIGHBOURS, spread.size)
    starts = np.arange(0, spread.size, length)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.reduceat(np.square(spread, dtype=np.float64), starts)
        counts = np.minimum(length, spread.size - starts)
        means = np.sqrt(sums / counts).astype(np.float32)
    return np.repeat(means, counts)


def least_allowed(expected: Array) -> Allowed:
    """What any element may differ by, flat: some units in the last place; integers by nothing."""
    allowed = np.zeros(expected.size, np.float32)
    if is_float(expected.dtype):
        real = expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1)
        unit = _ROUNDINGS[real] * _epsilon(expected.dtype)
        flat = expected.reshape(-1)
        with np.errstate(all="ignore"):
            for block in _blocks(flat.size):
                allowed[block] = unit * np.abs(_widened(flat[block]))
    return allowed


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two arrays differ most, relative to what each element may differ by."""

    index: tuple[int, ...]
    actual: object
    expected: object
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance


def compare(actual: Array, expected: Array, allowed: NDArray[np.floating]) -> Difference:
    """The worst difference, where `allowed` is what each element may differ by."""
    worst = Difference((), None, None, 0.0, 0.0)
    largest = -1.0
    flat = [np.ascontiguousarray(each).reshape(-1) for each in (actual, expected, allowed)]
    for block in _blocks(actual.size):
        excess, error, may = _excess(*(each[block] for each in flat))
        place = int(np.argmax(excess))
        if excess[place] > largest:
            largest = float(excess[place])
            index = np.unravel_index(block.start + place, actual.shape)
            a, e = actual[index], expected[index]
            at = tuple(map(int, index))
            worst = Difference(at, a, e, float(error[place]), float(may[place]))
    return worst


def _excess(
    actual: Array, expected: Array, allowed: NDArray[np.floating]
) -> tuple[NDArray[np.float64], ...]:
    """For each element the difference over what it may be, the difference, and what it may be."""
    a, e = _widened(actual), _widened(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a - e)
    both_nan = np.isnan(a) & np.isnan(e)
    # Large integers that differ may be one float: what is not equal differs by at least the least.
    least = np.finfo(np.float64).tiny
    error = np.where(np.isnan(error), np.inf, np.maximum(error, least))
    error = np.where((actual == expected) | both_nan, 0.0, error)
    may = np.where(np.isfinite(allowed), allowed, 0.0)
    return np.where(error == 0.0, 0.0, error / np.maximum(may, least)), error, may
