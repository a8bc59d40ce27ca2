"""Arithmetic on tensors over a prime field.

A real number that a program's text has is a fraction of integers, and so is an element of the
field: sums and products of such are what they are among the reals, whatever their order. A program
of sums, products and quotients is a fraction of polynomials in its inputs. Two that differ agree at
random points with a probability of at most their degree over the prime (Schwartz, Zippel), so that
one evaluation compares them for all inputs.

Other functions are drawn at random: equal arguments give equal results, and nothing else is known
of them. The maximum is a product in disguise: `max(a, b)` is the number whose image under a random
power is the product of the images of `a` and `b`, so that order and grouping do not matter, minus
infinity changes nothing, and an element that is left out or counted twice shows.

Elements are `uint64` arrays of numbers below the prime.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from math import gcd, isnan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Elements: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[Any]

PRIME_GAPS = (19, 99)
"""Primes below 2 to the 31, by how far: the largest two in which -1 is a square."""
_MIDDLE = 30
"""The bits of the number in the middle of the elements."""
_ONE = np.uint64(1)
ZERO, ONE = np.zeros((), np.uint64), np.ones((), np.uint64)


def element(number: int) -> Elements:
    """A number as an array without dimensions."""
    return np.array(number, np.uint64)


_LOW = np.uint64(15)
"""Bits of the lower half of an element; the upper one has 16."""
_MOST_TERMS = 1 << 16
"""So many products with halves of elements have a sum of 64 bits."""
_MOST_AT_ONCE = 1 << 7
"""So many of which one factor is around 0 have a sum that is exact in doubles."""
_DIGITS = (0, 7, 14)
"""Numbers of digits after the binary point, by which elements are put in an order."""
_FEW = 8
"""So many elements are inverted one by one."""


@dataclass
class Calls:
    """The calls of functions that are drawn, in one evaluation; a number is one of a function."""

    redrawn: Elements = dataclasses.field(default_factory=lambda: np.zeros(0, np.uint64))
    """Those that give something else."""
    redraw: int = 0
    _made: list[Elements] = dataclasses.field(default_factory=list)

    def noted(self, numbers: Elements) -> Elements:
        """The calls, those that give something else as others."""
        self._made.append(np.unique(numbers))
        if not self.redrawn.size:
            return numbers
        again = np.isin(numbers, self.redrawn)
        return np.where(again, mixed(self.redraw, numbers), numbers)

    def made(self) -> Elements:
        """All of them."""
        return np.unique(np.concatenate([np.zeros(0, np.uint64), *self._made]))


@dataclass(frozen=True)
class Field:
    """The field of 2**31 - `gap` elements, and functions that `seed` draws."""

    gap: int
    seed: int
    calls: Calls | None = dataclasses.field(default=None, compare=False)
    """What functions were called with, where that is asked."""
    joins: bool = False
    """Whether maxima in an order are joins: on which elements they depend shows, as NaN would."""

    @cached_property
    def prime(self) -> int:
        """The number of elements."""
        return (1 << 31) - self.gap

    def reduced(self, numbers: Elements) -> Elements:
        """The remainders of any 64-bit numbers."""
        numbers, prime = np.asarray(numbers), np.uint64(self.prime)
        rest: Elements = np.floor_divide(numbers, prime, out=np.empty(numbers.shape, np.uint64))
        np.multiply(rest, prime, out=rest)  # much faster than a remainder
        return np.subtract(numbers, rest, out=rest)

    def of_integers(self, numbers: Integers) -> Elements:
        """Integers as elements; one below zero is the prime minus its absolute value."""
        return np.mod(numbers, self.prime).astype(np.uint64)

    def of_floats(self, numbers: NDArray[Any], largest: float) -> Elements:
        """Finite floats as the fractions that they are, others as numbers drawn for them.

        `largest` is the largest finite float of the type, which programs use as an infinity, too.
        """
        values, shape = np.asarray(numbers, np.float64), np.shape(numbers)
        if values.size == 1 or (values.size and not any(values.strides)):
            return np.broadcast_to(element(self._of_float(float(values.flat[0]), largest)), shape)
        mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0))
        whole = np.rint(mantissa * (1 << 53)).astype(np.int64)
        powers = _powers_of_two(self.prime)
        elements = self.mul(self.of_integers(whole), powers[exponent - 53 + 1200])
        elements = np.where(values >= largest, np.uint64(self.infinity), elements)
        elements = np.where(values <= -largest, self.neg(element(self.infinity)), elements)
        return np.where(np.isnan(values), np.uint64(self.key("nan") % self.prime), elements)

    def _of_float(self, number: float, largest: float) -> int:
        if isnan(number):
            return self.key("nan") % self.prime
        if abs(number) >= largest:
            return self.infinity if number > 0 else (-self.infinity) % self.prime
        up, down = number.as_integer_ratio()
        return up * pow(down, -1, self.prime) % self.prime

    def complex(self, real: Elements, imaginary: Elements) -> Elements:
        """Complex numbers, with a root of -1 for the imaginary unit."""
        return self.add(real, self.mul(imaginary, element(self._unit)))

    @cached_property
    def _unit(self) -> int:
        roots = (pow(a, (self.prime - 1) // 4, self.prime) for a in range(2, 100))
        return next(root for root in roots if root * root % self.prime == self.prime - 1)

    @cached_property
    def infinity(self) -> int:
        """What stands for plus infinity: the minimum of it and another number is the other."""
        return (self._shift - 1) % self.prime

    def ranks(self, a: Elements) -> Integers:
        """Numbers by which elements are in an order: small integers are, and the infinities.

        So are small fractions, of more digits with some seeds. A fraction of more digits has a rank
        near an end, as 1/2 has where only integers are in order: hardly any number is beyond it.
        """
        half = self.prime // 2
        scaled = self.mul(a, element(1 << self._digits))
        signed = np.where(
            scaled > half, scaled.astype(np.int64) - self.prime, scaled.astype(np.int64)
        )
        signed = np.where(a == self.infinity, half + 1, signed)
        return np.where(a == self.prime - self.infinity, -half - 1, signed)

    def of_ranks(self, numbers: Elements) -> Elements:
        """The elements that have these ranks, those below zero as elements."""
        return self.div(numbers, element(1 << self._digits))

    def rank_of(self, number: float) -> int:
        """About the rank of a number that is not negative; of one that is not in order it is 0."""
        rank = min(number * (1 << self._digits), self.prime)
        return round(rank) if rank < self.prime // 4 else 0

    @property
    def _digits(self) -> int:
        """After the binary point, of the fractions that are in order."""
        return _DIGITS[self.seed % len(_DIGITS)]

    @cached_property
    def _shift(self) -> int:
        return self.key("shift") % self.prime

    def add(self, a: Elements, b: Elements) -> Elements:
        """The sum."""
        return self.reduced(a + b)

    def neg(self, a: Elements) -> Elements:
        """Minus `a`."""
        return np.where(a == 0, a, np.uint64(self.prime) - a)

    def sub(self, a: Elements, b: Elements) -> Elements:
        """The difference."""
        return self.reduced(a + (np.uint64(self.prime) - b))

    def mul(self, a: Elements, b: Elements) -> Elements:
        """The product."""
        return self.reduced(a * b)

    def div(self, a: Elements, b: Elements) -> Elements:
        """The quotient; one by zero is a number like no other, which depends on `a`."""
        quotient, is_zero = self.mul(a, self._inverse(b)), b == 0
        if not np.any(is_zero):
            return quotient
        factor, none = (element(self.key(each) % self.prime) for each in ("over zero", "no number"))
        return np.where(is_zero, self.add(self.mul(a, factor), none), quotient)

    def _inverse(self, a: Elements) -> Elements:
        """What gives 1 with `a`; of zero it is zero.

        All are made of that of their product: the inverse of `a` is that of `a * b`, times `b`.
        """
        kept = tuple(slice(None) if stride else slice(1) for stride in a.strides)
        few = a[kept].reshape(-1)
        levels = [few + (few == 0)]
        while len(levels[-1]) > _FEW:
            last = levels[-1]
            half = len(last) // 2
            levels.append(np.append(self.mul(last[:half], last[half : 2 * half]), last[2 * half :]))
        inverse = np.array([pow(each, -1, self.prime) for each in levels.pop().tolist()], np.uint64)
        for level in reversed(levels):
            half = len(level) // 2
            paired = inverse[:half]
            inverse = np.concatenate(
                [
                    self.mul(paired, level[half : 2 * half]),
                    self.mul(paired, level[:half]),
                    inverse[half:],
                ]
            )
        inverse = np.where(few == 0, few, inverse)
        return np.broadcast_to(inverse.reshape(a[kept].shape), a.shape)

    def power(self, a: Elements, exponent: int) -> Elements:
        """`a` to an exponent that is not negative."""
        result = np.ones_like(a)
        square = a
        while exponent:
            if exponent & 1:
                result = self.mul(result, square)
            exponent >>= 1
            square = self.mul(square, square) if exponent else square
        return result

    @cached_property
    def _exponents(self) -> tuple[int, int]:
        """A power that is one to one, and the one that undoes it."""
        one_to_one = next(e for e in range(3, 100, 2) if gcd(e, self.prime - 1) == 1)
        return one_to_one, pow(one_to_one, -1, self.prime - 1)

    def disguised(self, a: Elements) -> Elements:
        """What a maximum multiplies; 1 for minus infinity."""
        return self.power(self.add(a, element(self._shift)), self._exponents[0])

    def undisguised(self, a: Elements) -> Elements:
        """The number of which `a` is the disguise."""
        return self.sub(self.power(a, self._exponents[1]), element(self._shift))

    def max(self, a: Elements, b: Elements) -> Elements:
        """The maximum, as an operation that is commutative and associative."""
        return self.undisguised(self.mul(self.disguised(a), self.disguised(b)))

    def min(self, a: Elements, b: Elements) -> Elements:
        """The minimum: minus the maximum of what the numbers are minus."""
        return self.neg(self.max(self.neg(a), self.neg(b)))

    def join(self, a: Elements, axis: int) -> Elements:
        """One that depends on all elements along an axis but infinities, and on none but once."""
        infinity = np.uint64(self.infinity)
        is_identity = (a == infinity) | (a == np.uint64(self.prime) - infinity)
        joined = np.bitwise_or.reduce(np.where(is_identity, np.uint64(0), a), axis=axis)
        return np.where(is_identity.all(axis=axis), a.max(axis=axis), joined)

    def sum(self, a: Elements, axes: tuple[int, ...]) -> Elements:
        """The sum along `axes`."""
        return self.reduced(np.add.reduce(a, axis=axes, dtype=np.uint64))

    def product(self, a: Elements, axis: int) -> Elements:
        """The product along an axis."""
        a = np.moveaxis(a, axis, 0)
        if len(a) == 0:
            return np.ones(a.shape[1:], np.uint64)
        while len(a) > 1:
            rest = a[len(a) & ~1 :]
            a = np.concatenate([self.mul(a[0 : len(a) & ~1 : 2], a[1::2]), rest])
        return a[0]

    def matmul(self, a: Elements, b: Elements) -> Elements:
        """The product of matrices, batched as numpy's."""
        many = range(_MOST_TERMS, a.shape[-1], _MOST_TERMS)
        if many:
            parts = [slice(start, start + _MOST_TERMS) for start in (0, *many)]
            return reduce(self.add, (self.matmul(a[..., p], b[..., p, :]) for p in parts))
        halves = b >> _LOW, b & (_ONE << _LOW) - _ONE
        upper, lower = (_exact_product(a, half) for half in halves)
        return self.reduced((self.reduced(upper) << _LOW) + lower)

    def key(self, *what: object) -> int:
        """The number, of 64 bits, by which the functions of what is named so are drawn."""
        text = "\0".join(map(str, (self.seed, self.gap, *what)))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")

    def drawn(self, key: int, *arguments: Elements) -> Elements:
        """The results of the function `key`, elementwise."""
        numbers = mixed(key, *arguments)
        if self.calls is not None:
            numbers = self.calls.noted(numbers)
        return self.reduced(numbers)

    def random(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Elements:
        """Random elements."""
        return generator.integers(0, self.prime, shape, np.uint64)


def _exact_product(a: Elements, b: Elements) -> Elements:
    """The product of matrices of integers, by doubles: `b` is of 16 bits."""
    around = a.astype(np.float64)
    around -= 1 << _MIDDLE
    small = b.astype(np.float64)
    total = np.add.reduce(b, axis=-2, keepdims=True).view(np.int64) << _MIDDLE
    for start in range(0, max(a.shape[-1], 1), _MOST_AT_ONCE):
        part = slice(start, start + _MOST_AT_ONCE)
        total = total + np.matmul(around[..., part], small[..., part, :]).astype(np.int64)
    return total.view(np.uint64)


@cache
def _powers_of_two(prime: int) -> Elements:
    return np.array([pow(2, power, prime) for power in range(-1200, 1100)], np.uint64)


def mixed(key: int, *arguments: Elements) -> Elements:
    """64 bits that depend on the key and on all of the arguments, elementwise."""
    result: Any = np.array(key, np.uint64)
    for argument in arguments:
        result = _scattered(result ^ _scattered(argument + np.uint64(0x9E3779B97F4A7C15)))
        result = result * np.uint64(0xD6E8FEB86659FD93)
    return _scattered(result)


def _scattered(a: Elements) -> Elements:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, 2014), which is one to one."""
    a = (a ^ (a >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    a = (a ^ (a >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return a ^ (a >> np.uint64(31))
