"""The tolerance of results, measured on the unsharded program itself.

It runs again on inputs perturbed in their last places, and with roundings to 16 bits that go to a
neighbour (`reference.rounding`). An element that this changes would also change in a sum of another
order. All is computed in blocks of elements, so that it takes no more memory than the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shard_dialect.abi.tensor_types import Array

_BLOCK = 1 << 18
"""The number of elements that are compared at once."""
_NEIGHBOURS = 64
"""The number of consecutive elements whose spreads are averaged.

An element that is near 0 by chance moves less than the rounding errors of its terms.
"""
_ROUNDINGS = {1: 1, 2: 1, 4: 16, 8: 16}
"""The units in the last place by which any element may differ, by the bytes of a real number."""
_ORDERS = 100
"""The factor from the effect of perturbing inputs by one unit to that of another order of sums."""
_DEVIATIONS = 10
"""The factor from the average effect of other roundings to the allowed one."""

_ERRORS = 4
"""The factor from the error of the unsharded program to the allowed one."""

Allowed = NDArray[np.float32]
"""The tolerance of each element; NaN for one that is not compared."""


def is_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether its numbers are floats, or complex."""
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat16", "float8"))


def is_narrow(dtype: np.dtype[np.generic]) -> bool:
    """Whether its numbers are floats of 16 or 8 bits."""
    return is_float(dtype) and dtype.itemsize <= 2


def _epsilon(dtype: np.dtype[np.generic]) -> float:
    return float(ml_dtypes.finfo(dtype).eps)


def _widened(array: Array) -> NDArray[np.inexact]:
    return np.asarray(array, np.complex128 if array.dtype.kind == "c" else np.float64)


def _blocks(size: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


def perturbed(array: Array, seed: int | Sequence[int], units: int = 1) -> Array:
    """The array with each float of 32 or 64 bits changed by up to `units` in its last place."""
    if not is_float(array.dtype) or is_narrow(array.dtype):
        return array
    generator = np.random.default_rng(seed)
    flat, result = array.reshape(-1), np.empty(array.size, array.dtype)
    for block in _blocks(array.size):
        steps = generator.uniform(-units, units, block.stop - block.start)
        result[block] = _widened(flat[block]) * (1 + steps * _epsilon(array.dtype))
    return result.reshape(array.shape)


class Deviations:
    """How much results change from run to run: a root mean square per element."""

    def __init__(self, expected: Sequence[Array]) -> None:
        self._expected = expected
        self._moves = [np.zeros(each.size, np.float32) for each in expected]
        self._runs = 0

    def add(self, others: Sequence[Array]) -> None:
        """Add the results of one more run."""
        self._runs += 1
        for expected, other, moves in zip(self._expected, others, self._moves, strict=True):
            if not is_float(expected.dtype):
                continue
            expected_flat, other_flat = (
                expected.reshape(-1),
                np.ascontiguousarray(other).reshape(-1),
            )
            with np.errstate(all="ignore"):
                for block in _blocks(expected_flat.size):
                    move = np.abs(_widened(other_flat[block]) - _widened(expected_flat[block]))
                    # NaN or infinity in both has not moved; in one, it says nothing of others.
                    move[~np.isfinite(move)] = 0.0
                    np.hypot(moves[block], move, out=moves[block], casting="same_kind")

    def by_order(self, units: int) -> Iterator[Allowed]:
        """The tolerance for another order of sums, after runs on inputs perturbed by `units`."""
        for moves in self._moves:
            yield moves * np.float32(_ORDERS / units / max(1, self._runs) ** 0.5)

    def by_rounding(self) -> Iterator[Allowed]:
        """The tolerance for other roundings to 16 bits, after runs that rounded to neighbours."""
        for moves in self._moves:
            deviations = moves / np.float32(max(1, self._runs) ** 0.5)
            yield np.float32(_DEVIATIONS) * np.maximum(deviations, _around(deviations) / 2)


def _around(deviations: Allowed) -> Allowed:
    """The root mean square over each element's neighbourhood."""
    if not deviations.size:
        return deviations
    length = min(_NEIGHBOURS, deviations.size)
    starts = np.arange(0, deviations.size, length)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.add.reduceat(np.square(deviations, dtype=np.float64), starts)
        counts = np.minimum(length, deviations.size - starts)
        means = np.sqrt(sums / counts).astype(np.float32)
    return np.repeat(means, counts)


def least_allowed(expected: Array) -> Allowed:
    """The least tolerance of each element, flat: some units in the last place; 0 for integers.

    Near zero it is larger, since an executor may take denormals for 0.
    """
    allowed = np.zeros(expected.size, np.float32)
    if is_float(expected.dtype):
        real = expected.dtype.itemsize // (2 if expected.dtype.kind == "c" else 1)
        unit = _ROUNDINGS[real] * _epsilon(expected.dtype)
        kind = ml_dtypes.finfo(expected.dtype)
        least = float(kind.tiny) / float(kind.eps) if real > 2 else 0.0
        flat = expected.reshape(-1)
        with np.errstate(all="ignore"):
            for block in _blocks(flat.size):
                allowed[block] = np.fmax(least, unit * np.abs(_widened(flat[block])))
    return allowed


def rounding_errors(results: Sequence[Array], true: Sequence[Array]) -> Iterator[Allowed]:
    """The tolerance for results that are as far from `true`, with 64 bits for each float.

    NaN, so not compared, where the result says nothing of the true one: it is not finite, but
    `true` is another number, or what it allows is as large as all results.
    """
    for result, exact in zip(results, true, strict=True):
        errors = np.zeros(result.shape)
        if is_float(result.dtype):
            with np.errstate(all="ignore"):
                own, right = _widened(result), _widened(exact)
                # Infinities of the same sign are equal, but have no difference.
                errors = np.where(own == right, 0.0, _ERRORS * np.abs(own - right))
                largest = max(_largest(own), _largest(right))
                errors = np.where(errors <= largest, errors, np.nan)
        with np.errstate(over="ignore"):
            yield errors.astype(np.float32)


def own_error(result: Array, true: Array) -> tuple[int, float]:
    """How many elements are no rounding of `true`, and their largest error, over all of `true`.

    An element is one if its error is at most the root of a rounding error, of the largest result.
    """
    if not is_float(result.dtype) or not result.size:
        return 0, 0.0
    with np.errstate(all="ignore"):
        own, right = _widened(result).reshape(-1), _widened(true).reshape(-1)
        errors = np.where(own == right, 0.0, np.abs(own - right)) / (_largest(right) or 1.0)
        far = ~(errors <= _epsilon(result.dtype) ** 0.5)
    return int(far.sum()), float(
        np.nan_to_num(errors[far], nan=np.inf, posinf=np.inf).max(initial=0.0)
    )


def is_inexact(result: Array, true: Array) -> NDArray[np.bool_]:
    """Which elements are farther from `true` than the root of a rounding error of their size."""
    if not is_float(result.dtype):
        return np.zeros(result.shape, np.bool_)
    with np.errstate(all="ignore"):
        own, right = _widened(result), _widened(true)
        few = np.abs(own - right) <= _epsilon(result.dtype) ** 0.5 * np.abs(right)
        return ~(few | (own == right))


def _largest(wide: NDArray[np.inexact]) -> float:
    """The largest finite element, without its sign."""
    sizes = np.abs(wide)
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))


def numbers_missing(result: Array) -> int:
    """How many elements are NaN."""
    if not is_float(result.dtype):
        return 0
    flat = result.reshape(-1)
    return sum(int(np.isnan(_widened(flat[block])).sum()) for block in _blocks(flat.size))


def growth_of_errors(result: Array, allowed: Allowed) -> float | None:
    """How much an error in the last place has grown, where elements may differ by what they are.

    That is where the root mean square of the tolerance is larger than that of the result; `None`
    elsewhere.
    """
    if not is_float(result.dtype) or not result.size:
        return None
    with np.errstate(all="ignore"):
        size, error = map(_root_mean_square, (result, allowed))
    if not 0 < size < error:
        return None
    return error / _ORDERS / (size * _epsilon(result.dtype))


def is_rounding_alone(result: Array, true: Array) -> bool:
    """Whether a result is 0 but for rounding: `true`, with 64 bits for each float, is far smaller.

    >>> is_rounding_alone(np.float32([3e-8]), np.float64([2e-17]))
    True
    >>> is_rounding_alone(np.float32([0.3]), np.float64([0.7]))
    False
    """
    size, true_size = map(_root_mean_square, (result, true))
    return true_size < size * _epsilon(result.dtype) ** 0.5


def _root_mean_square(array: Array) -> float:
    flat, total, count = array.reshape(-1), 0.0, 0
    for block in _blocks(flat.size):
        sizes = np.abs(_widened(flat[block]))
        finite = sizes[np.isfinite(sizes)]
        total += float(np.sum(np.square(finite)))
        count += finite.size
    return float((total / max(1, count)) ** 0.5)


@dataclass(frozen=True, slots=True)
class Difference:
    """The element in which two arrays differ most, relative to its tolerance."""

    index: tuple[int, ...]
    actual: object
    expected: object
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        """Whether the difference is within the tolerance."""
        return self.error <= self.tolerance


def compare(actual: Array, expected: Array, allowed: NDArray[np.floating]) -> Difference:
    """The worst difference, for tolerances `allowed`; NaN: an element is not compared."""
    worst = Difference((), None, None, 0.0, 0.0)
    largest = -1.0
    flat = [np.ascontiguousarray(each).reshape(-1) for each in (actual, expected, allowed)]
    for block in _blocks(actual.size):
        excess, error, may = _excess(*(each[block] for each in flat))
        position = int(np.argmax(excess))
        if excess[position] > largest:
            largest = float(excess[position])
            index = np.unravel_index(block.start + position, actual.shape)
            a, e = actual[index], expected[index]
            at = tuple(map(int, index))
            worst = Difference(at, a, e, float(error[position]), float(may[position]))
    return worst


def _excess(
    actual: Array, expected: Array, allowed: NDArray[np.floating]
) -> tuple[NDArray[np.float64], ...]:
    """For each element the difference over its tolerance, the difference, and the tolerance."""
    a, e = _widened(actual), _widened(expected)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a - e)
    both_nan = np.isnan(a) & np.isnan(e)
    # Different large integers may be the same float: elements that differ count at least this much.
    least = np.finfo(np.float64).tiny
    error = np.where(np.isnan(error), np.inf, np.maximum(error, least))
    error = np.where((actual == expected) | both_nan | np.isnan(allowed), 0.0, error)
    # A tolerance that overflows allows any number; that of an infinite element allows no other.
    most = np.where(np.isinf(allowed) & np.isfinite(e), np.finfo(np.float64).max, 0.0)
    may = np.where(np.isfinite(allowed), allowed, most)
    with np.errstate(over="ignore"):
        excess = error / np.maximum(may, least)
    return np.where(error == 0.0, 0.0, excess), error, may
