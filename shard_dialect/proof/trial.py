"""One evaluation of both programs at a random point."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np

from shard_dialect.errors import as_symbol
from shard_dialect.proof.boundary import Place, argument
from shard_dialect.proof.boxes import Boxes
from shard_dialect.proof.comparison import Comparison, Counterexample
from shard_dialect.proof.draws import POSITIONS, TRIALS, integers
from shard_dialect.proof.family import elements, members
from shard_dialect.proof.field import PRIME_GAPS, Calls, Field
from shard_dialect.proof.fitting import check_fit
from shard_dialect.proof.machine import (
    Cancellation,
    Data,
    Machine,
    Sampled,
    Undefined,
    Unproven,
    Value,
)
from shard_dialect.proof.reading import Function, Op, Program, Type

_ALIKE = 3
"""Numbers from minus this to this are drawn where some are to be equal."""
CHOICES = 40
"""Points at which programs are compared that choose by an order, or by what is drawn of few."""
_FEW_CHOICES = 8
"""Of large programs, which have more than `_MANY_ELEMENTS`."""
_MANY_ELEMENTS = 1 << 22
_FEW_ELEMENTS = 1 << 16
_OFTEN = 3
"""Integer arguments of programs with so few elements are drawn so many times as often."""
_MOST_CHOICES = 1 << 21
"""Elements of all points beyond these, at which each element is the largest once."""
_LARGEST_BOUND = 28
"""The digits of the largest rank near which numbers are drawn, where no constant says one."""
_BITS = (None, 0, 1)
"""Which of them bits mostly are, in a trial."""


@dataclass(frozen=True)
class Pair:
    """The two programs, and the functions that are compared."""

    whole: Program
    own: Program
    unsharded: Function
    local: Function
    smaller: str = ""
    """Which devices and sizes are evaluated as others, if any are."""
    kept: str = ""
    """Ops that keep sizes."""

    def members(self) -> Iterator[Pair]:
        """Small programs of the family of these."""
        places = [*self.places("mesh.argument"), *self.places("mesh.result")]
        for made in members(self.whole, self.own, self.unsharded, self.local, places):
            unsharded = made.whole.functions[self.unsharded.name]
            local = made.own.functions[self.local.name]
            yield Pair(made.whole, made.own, unsharded, local, str(made), made.kept)

    @property
    def elements(self) -> int:
        """The elements of all ops' results, loops counted once."""
        return elements([(self.whole, 1), (self.own, len(self.own.grid.devices))])

    def check(self) -> None:
        """Raise a located `ShardError` unless the functions can be compared."""
        check_fit(self.unsharded, self.local)

    def places(self, key: str) -> list[Place]:
        """Where the arguments, or the results, of the local function are."""
        arguments = key == "mesh.argument"
        listed = self.local.argument_attributes if arguments else self.local.result_attributes
        types = self.local.body.types if arguments else self.local.result_types
        places = [Place.of(each, key, type_) for each, type_ in zip(listed, types, strict=True)]
        wholes = self.unsharded.body.types if arguments else self.unsharded.result_types
        return [
            replace(place, whole=replace(place.whole, shape=whole.shape))
            if self.smaller or place.tiles is not None
            else place
            for place, whole in zip(places, wholes, strict=True)
        ]

    @property
    def has_integers(self) -> bool:
        """Whether there are arguments that are drawn, and not all that they can be."""
        return any(type_.is_integer and not type_.is_bit for type_ in self.unsharded.body.types)

    @cached_property
    def bounds(self) -> list[float]:
        """Numbers of the programs, at which they may choose."""
        return sorted({0.0} | self.whole.constants() | self.own.constants())

    @property
    def count(self) -> int:
        """At how many points the programs are compared."""
        if not self.has_integers:
            return len(PRIME_GAPS)
        count = TRIALS if self.local.form == "local" else POSITIONS
        return count if self.elements > _FEW_ELEMENTS else _OFTEN * count

    @property
    def choices(self) -> int:
        """At how many points they are where they choose by what is drawn of few numbers."""
        if self.elements > _MANY_ELEMENTS:
            return max(self.count, _FEW_CHOICES)
        types = self.unsharded.body.types
        sizes = [size for type_ in types if type_.is_float for size in type_.shape]
        return CHOICES + min(max(sizes, default=0), _MOST_CHOICES // max(self.elements, 1))

    def assumptions(self) -> tuple[str, ...]:
        """What the answer is for."""
        listed = ["integer arguments as drawn"] if self.has_integers else []
        return (*listed, f"evaluated with {self.smaller}") if self.smaller else tuple(listed)


@dataclass(eq=False)
class Trial:
    """One evaluation of both programs at one random point."""

    pair: Pair
    field: Field
    is_ordered: bool = False
    splits_exponents: bool = False
    garbage: int = 0
    """Draws what nothing has written."""
    boxes: tuple[Boxes, Boxes] = dataclasses.field(default_factory=lambda: (Boxes(), Boxes()))
    """Draw what ops give that are not known."""
    calls: tuple[Calls | None, Calls | None] = (None, None)
    """Note those of functions."""
    inputs: int = 0
    """Draws the arguments."""
    cancellation: Cancellation = dataclasses.field(default_factory=Cancellation)
    redrawn: tuple[int, Data] | None = None
    """An argument, and which of its elements are others."""
    chooses: bool = False
    """Whether a program chooses by floats: it is given some that are equal, or the largest."""
    sampled: Sampled = dataclasses.field(default_factory=Sampled)
    is_void: bool = False

    @property
    def is_wide(self) -> bool:
        """Whether integers are of all sizes."""
        return self.field.seed >= POSITIONS

    @cached_property
    def comparison(self) -> Comparison | None:
        """The results; `None` where the unsharded program has no meaning for what is drawn."""
        with np.errstate(all="ignore"):  # integers of 64 bits wrap, as those of programs do
            try:
                return self._evaluated()
            except Undefined:
                return None

    @cached_property
    def counterexample(self) -> Counterexample | None:
        """An element that differs, or `None`."""
        if self.comparison is None:
            return None
        return self.comparison.counterexample(self.comparison.differing())

    def forget(self) -> None:
        """Let go of the results, of which nothing more is asked."""
        self.is_void = self.comparison is None
        self.__dict__["comparison"] = None

    def ops(self) -> list[Op]:
        """The ops of both programs of which only the operands are known."""
        return [op for boxes in self.boxes for op in boxes.ops]

    def again(self, **changes: Any) -> Trial:
        """The same point, where something else is drawn."""
        kept = ("is_ordered", "splits_exponents", "garbage", "chooses")
        drawn = {name: getattr(self, name) for name in kept} | changes
        return Trial(self.pair, self.field, **drawn)

    def _evaluated(self) -> Comparison:
        pair = self.pair
        generator = np.random.default_rng((1, self.field.seed, self.inputs))
        one = self._machine(pair.whole, generator, 0)
        one.is_strict = self.is_wide
        given = [self._drawn(one, type_) for type_ in pair.unsharded.body.types]
        if self.redrawn is not None:
            number, elements = self.redrawn
            given[number] = self._with_others(given[number], elements)
        expected = one.call(pair.unsharded, given)
        if any(np.any(each.data != each.data[(slice(1),) * one.axes]) for each in expected):
            raise Unproven(
                f"{as_symbol(pair.unsharded.name)} gives other results on other devices: it is "
                "no program of global tensors, with which others can be compared"
            )
        generator = np.random.default_rng((2, self.field.seed, self.garbage))
        many = self._machine(pair.own, generator, 1)
        shared = [self._again(many, value, one) for value in given]
        arguments = [
            argument(many, value, place, type_)
            for value, place, type_ in zip(
                shared, pair.places("mesh.argument"), pair.local.body.types, strict=True
            )
        ]
        found = many.call(pair.local, arguments)
        return Comparison.of(
            many,
            [self._again(many, each, one) for each in expected],
            found,
            pair.places("mesh.result"),
            pair.local.result_types,
            pair.local.form == "local",
        )

    def _machine(self, program: Program, generator: np.random.Generator, number: int) -> Machine:
        return Machine(
            program,
            replace(self.field, calls=self.calls[number]),
            program.grid,
            generator,
            self.is_ordered,
            self.splits_exponents,
            self.boxes[number],
            self.cancellation,
            unwritten=partial(self._unwritten, generator),
            sampled=self.sampled,
            is_wide=self.is_wide,
        )

    def _unwritten(
        self, generator: np.random.Generator, type_: Type, shape: tuple[int, ...]
    ) -> Data:
        """Numbers for what nothing has written: in each other trial zeros, whose quotient is none.

        Integers are of all sizes where those of arguments are.
        """
        is_zero = self.field.seed % 2 == 1 and not self.garbage
        if type_.is_bit:
            most = _BITS[self.field.seed % len(_BITS)]
            if most is None or self.garbage:
                return generator.integers(0, 2, shape)
            return np.full(shape, 1 - most)  # beside bits that are mostly others
        if type_.is_integer:
            if self.is_wide:
                return integers(generator, type_, shape, [2], POSITIONS + 1)
            return np.zeros(shape, np.int64) if is_zero else generator.integers(0, 2, shape)
        if is_zero:
            return np.zeros(shape, np.uint64)
        return self.field.random(generator, shape)

    def _drawn(self, m: Machine, type_: Type) -> Value:
        if -1 in type_.shape:
            raise Unproven(
                f"an argument of type {type_.text} has sizes that only a run knows: nothing is "
                "proven of it; `--specialize` gives them"
            )
        if type_.is_float or (type_.is_bit and not self.is_ordered):
            drawn = self.field.random(m.generator, type_.shape)
            return Value(m.scalar(self._chosen(m, drawn) if type_.is_float else drawn), True)
        if not type_.is_integer:
            raise Unproven(f"an argument of type {type_.text} cannot be drawn")
        if type_.is_bit:
            return Value(m.scalar(self._bits(m.generator, type_.shape)), False)
        # A function that is parallel by hand may rely on what its integers are.
        is_by_hand = self.pair.local.form != "local"
        number = self.field.seed % POSITIONS if is_by_hand else self.field.seed
        bounds = [round(each) for each in self.pair.bounds if abs(each) < 1 << 62]
        drawn = integers(m.generator, type_, type_.shape, self._sizes(), number, bounds)
        return Value(m.scalar(drawn), False)

    def _bits(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Data:
        """Bits: any, or all alike but for at most one."""
        most = _BITS[self.field.seed % len(_BITS)]
        if most is None:
            return generator.integers(0, 2, shape)
        bits = np.full(prod(shape), most)
        bits[generator.integers(0, max(len(bits), 1)) :][:1] = generator.integers(0, 2)
        return bits.reshape(shape)

    def _chosen(self, m: Machine, drawn: Data) -> Data:
        """The numbers, or for points at which programs choose others in an order."""
        seed, f = self.field.seed, self.field
        if not self.chooses:
            return drawn
        if seed >= CHOICES:
            return f.of_ranks(self._with_extremes(m.generator, drawn))
        if seed % 4 == 1:
            return self._near_bounds(m.generator, drawn)
        if seed < TRIALS:
            return drawn
        if seed % 4 == 0:  # some are equal
            return f.of_integers(m.generator.integers(-_ALIKE, _ALIKE + 1, drawn.shape))
        is_other = (drawn > f.prime // 2) == (seed % 4 == 2)
        return f.of_ranks(np.where(is_other, f.neg(drawn), drawn))  # all have one sign

    def _near_bounds(self, generator: np.random.Generator, drawn: Data) -> Data:
        """Numbers as large as one at which the programs may choose, and half of them next to one.

        Those of all the field are hardly ever between two constants.
        """
        f, listed = self.field, np.array(self.pair.bounds)
        bound = abs(float(generator.choice(listed)))
        most = f.rank_of(bound) if generator.integers(0, 2) else 0
        most = most or 1 << int(generator.integers(1, _LARGEST_BOUND))
        around = generator.integers(-2 * most, 2 * most + 1, drawn.shape)
        near = f.of_floats(generator.choice(listed, drawn.shape), np.inf)
        step = f.of_ranks(f.of_integers(generator.integers(-1, 2, drawn.shape)))
        is_near = generator.integers(0, 2, drawn.shape) == 1
        return np.where(is_near, f.add(near, step), f.of_ranks(f.of_integers(around)))

    def _with_extremes(self, generator: np.random.Generator, drawn: Data) -> Data:
        """The numbers, of which those of one diagonal are the largest, and another's the least.

        So one after the other each element is that once, in all dimensions.
        """
        place = sum(np.indices(drawn.shape), start=np.zeros(drawn.shape, np.int64))
        turn = (place + self.field.seed) % max(drawn.shape, default=1)
        near = generator.integers(0, 1 << 20, drawn.shape, np.uint64)
        largest = np.uint64(self.field.prime // 2) - near
        drawn = np.where(turn == 1, np.uint64(self.field.prime) - largest, drawn)
        return np.where(turn == 0, largest, drawn)

    def _with_others(self, value: Value, elements: Data) -> Value:
        """The value with other numbers at some places of its array, in row-major order."""
        data = value.data.copy().reshape(-1)
        generator = np.random.default_rng((3, self.field.seed))
        data[elements] = self.field.random(generator, data.shape)[elements]
        return value.with_data(data.reshape(value.data.shape))

    def _sizes(self) -> list[int]:
        """The sizes in which an integer argument may be a position."""
        types = self.pair.unsharded.body.types
        return [2, *(size for type_ in types for size in type_.shape if size > 0)]

    @staticmethod
    def _again(m: Machine, value: Value, before: Machine) -> Value:
        """The same global value, on the grid of another program."""
        index = (0,) * before.axes
        return value.with_data(m.scalar(value.data[index]))


def trials(pair: Pair, count: int, **laws: Any) -> Iterator[Trial]:
    """Evaluations at so many points, one after the other."""
    for seed in range(count):
        yield Trial(pair, Field(PRIME_GAPS[seed % 2], seed), **laws)
