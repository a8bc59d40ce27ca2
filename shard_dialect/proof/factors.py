"""Sizes as products of unknown factors, and the smallest numbers that fit equations of such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, combinations
from math import gcd, prod
from typing import TypeAlias

Term: TypeAlias = tuple[int, ...]
"""A product of factors, by their numbers; `()` is 1."""

_SMALL = 2
"""What a factor becomes."""
_FEW = 4
"""How many times one size may be another and stay so."""


@dataclass
class Factors:
    """Unknown numbers above 1, each of which has a value that fits all equations: its `own` one."""

    own: list[int] = field(default_factory=list)
    _meanings: dict[int, Term] = field(default_factory=dict)
    _pinned: list[Term] = field(default_factory=list)
    _positional: list[tuple[Term, int]] = field(default_factory=list)
    _least: list[tuple[Term, int]] = field(default_factory=list)
    _sums: list[tuple[Term, Term, int]] = field(default_factory=list)
    _found: dict[int, tuple[Term, int]] = field(default_factory=dict)
    """What the sums are, as far as they have been read."""
    _found_of: Sequence[int] = ()

    def new(self, value: int) -> Term:
        """An unknown number whose own value is this."""
        if value == 1:
            return ()
        self.own.append(value)
        return (len(self.own) - 1,)

    def constant(self, value: int) -> Term:
        """A number that stays what it is."""
        term = self.new(value)
        self.pin(term)
        return term

    def pin(self, *terms: Term) -> None:
        """Let these numbers stay what they are."""
        self._pinned.extend(terms)

    def hold_positions(self, *terms: Term, least: int = 3) -> None:
        """Say that positions in sizes of these terms are counted.

        Of three positions one is neither the first nor the last.
        """
        self._positional.extend((term, least) for term in terms)

    def hold_least(self, term: Term, least: int) -> None:
        """Say that a size is at least this, if it is as much: to have room for a window."""
        self._least.append((term, least))

    def add(self, larger: Term, smaller: Term, more: int) -> None:
        """Let a number be another one and so many more."""
        if not larger or not smaller:
            self.pin(larger, smaller)
        self._sums.append((larger, smaller, more))
        self.hold_least(larger, more + _SMALL)

    def value(self, term: Term) -> int:
        """The own value of a product."""
        return prod(self.own[factor] for factor in term)

    def factors(self, term: Term) -> Term:
        """The product by the factors that are left."""
        found: list[int] = []
        for factor in term:
            meaning = self._meanings.get(factor)
            if meaning is None:
                found.append(factor)
            else:
                self._meanings[factor] = self.factors(meaning)
                found.extend(self._meanings[factor])
        return tuple(sorted(found))

    def equate(self, left: Iterable[int], right: Iterable[int]) -> None:
        """Let two products of the same own value be equal."""
        a, b = (Counter(self.factors(tuple(each))) for each in (left, right))
        a, b = a - b, b - a
        while a:
            x, y = max(((x, y) for x in a for y in b), key=self._fit)
            one, other = (tuple(each.elements()) for each in (a, b))
            if len(one) == 1 or len(other) == 1:
                single, many = (one[0], other) if len(one) == 1 else (other[0], one)
                self._meanings[single] = many
                return
            shared = gcd(self.own[x], self.own[y])
            common = self.new(shared)
            for each in (x, y):
                self._meanings[each] = common + self.new(self.own[each] // shared)
            a, b = (Counter(self.factors(each)) for each in (one, other))
            a, b = a - b, b - a

    def _fit(self, pair: tuple[int, int]) -> tuple[bool, int, int]:
        """By how much two factors are preferred as those that share a factor.

        Equal ones are, and then a small one that is a part of a large one: that two axes of a grid
        split one size says nothing of these axes, where it has room for both.
        """
        low, high = sorted(map(self.own.__getitem__, pair))
        return low == high, 0 if high % low else high // low, gcd(low, high)

    def refine(self, left: Sequence[Term], right: Sequence[Term]) -> None:
        """Let two lists of sizes be the digits of one row-major number, as a reshape has them."""
        a, b = ([each for each in side if each] for side in (left, right))
        while a and b:
            x, y = a.pop(), b.pop()
            sizes = self.value(x), self.value(y)
            if sizes[0] % sizes[1] == 0:
                rest = self.new(sizes[0] // sizes[1])
                self.equate(x, rest + y)
                a.extend([rest] if rest else [])
            elif sizes[1] % sizes[0] == 0:
                rest = self.new(sizes[1] // sizes[0])
                self.equate(y, rest + x)
                b.append(rest)
            else:
                self.equate(sum((*a, x), ()), sum((*b, y), ()))
                return

    def weight(self, term: Term, chosen: Mapping[int, int]) -> Fraction:
        """How many elements each one stands for, of those left of these sizes.

        Where positions count each element stands for itself.
        """
        counted = {factor for each, _ in self._positional for factor in self.factors(each)}
        left = [factor for factor in self.factors(term) if factor not in counted]
        left = list(self._roots(tuple(left)))
        return Fraction(prod(self.own[each] for each in left), prod(chosen[each] for each in left))

    def keep_order(self, terms: Sequence[Term]) -> None:
        """Let sizes in which positions are compared be in the order that they are.

        One that is a few times another stays so often it.
        """
        ordered = sorted({self.value(term): term for term in terms}.items())
        for (low, small), (high, large) in combinations(ordered, 2):
            if low > 1 and high % low == 0 and high // low <= _FEW:
                self.equate(large, self.constant(high // low) + small)
        largest = 0
        for value, term in ordered:
            chosen = self._smallest()
            size = prod(chosen[factor] for factor in self.factors(term))
            if size <= largest < value:
                self._positional.append((term, largest + 1))
                chosen = self._smallest()
                size = prod(chosen[factor] for factor in self.factors(term))
            largest = size

    def choices(self) -> Iterator[dict[int, int]]:
        """Small values for the factors, which fit all equations.

        First the least, then one factor after the other is one more, so that no two of them are
        always equal.
        """
        chosen = self._smallest()
        yield chosen
        sums, pinned = self._resolved(), self._pinned_factors()
        for factor, size in chosen.items():
            if size < self.own[factor] and factor not in pinned and factor not in sums:
                yield self._summed({**chosen, factor: size + 1})

    def _pinned_factors(self) -> set[int]:
        return {factor for term in self._pinned for factor in self.factors(term)}

    def _smallest(self) -> dict[int, int]:
        sums, pinned = self._resolved(), self._pinned_factors()
        chosen = self._summed(
            {
                factor: own if factor in pinned else min(own, _SMALL)
                for factor, own in enumerate(self.own)
                if factor not in self._meanings
            }
        )
        for term, least in (*self._positional, *self._least):
            factors = self.factors(term)
            free = list(self._free(factors, chosen))
            while free and prod(chosen[factor] for factor in factors) < least:
                last = free[-1]
                rest = prod(chosen[factor] for factor in factors if factor != last)
                larger = chosen[last] + 1 if sums.keys() & factors else -(-least // rest)
                chosen = self._summed({**chosen, last: min(self.own[last], larger)})
                free = list(self._free(factors, chosen))
        return chosen

    def _free(self, factors: Term, chosen: Mapping[int, int]) -> Iterator[int]:
        """Factors that may be larger."""
        return (each for each in self._roots(factors) if chosen[each] < self.own[each])

    def _roots(self, factors: Term) -> Iterator[int]:
        """The factors, in place of sums those of what they are more than."""
        sums = self._resolved()
        for factor in factors:
            if factor in sums:
                yield from self._roots(sums[factor][0])
            else:
                yield factor

    def _summed(self, chosen: dict[int, int]) -> dict[int, int]:
        """The same numbers, those that are sums what they are."""
        for factor, (term, more) in self._resolved().items():
            chosen[factor] = prod(chosen[each] for each in term) + more
        return chosen

    def _resolved(self) -> dict[int, tuple[Term, int]]:
        """Factors that are a product of others and a number, after those that they are made of."""
        of = [len(each) for each in (self.own, self._meanings, self._pinned, self._sums)]
        if of != self._found_of:
            while (found := self._sums_of_factors()) is None:
                pass
            self._found = found
            self._found_of = [
                len(each) for each in (self.own, self._meanings, self._pinned, self._sums)
            ]
        return self._found

    def _sums_of_factors(self) -> dict[int, tuple[Term, int]] | None:
        """The same, or `None` after two numbers are found to be equal, or to stay."""
        found: dict[int, tuple[Term, int]] = {}
        pinned = self._pinned_factors()

        def based(term: Term) -> tuple[Term, int]:
            factors, more = self.factors(term), 0
            while len(factors) == 1 and factors[0] in found:
                factors, further = found[factors[0]]
                more += further
            return factors, more

        def within(factors: Term) -> Iterator[int]:
            for factor in factors:
                yield factor
                yield from within(found[factor][0] if factor in found else ())

        for larger, smaller, more in self._sums:
            (a, above), (b, below) = based(larger), based(smaller)
            away = more + below - above
            if a == b or pinned.issuperset((*a, *b)):
                continue
            if away == 0:
                self.equate(a, b)
                return None
            if len(a) == 1 and a[0] not in pinned and a[0] not in within(b):
                found[a[0]] = (b, away)
            elif len(b) == 1 and b[0] not in pinned and b[0] not in within(a):
                found[b[0]] = (a, -away)
            else:
                self.pin(a, b)
                return None
        order = list(dict.fromkeys(chain(*(reversed(list(within((each,)))) for each in found))))
        return {each: found[each] for each in order if each in found}
