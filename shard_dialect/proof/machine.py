"""Evaluates a program on all devices of a grid at once, in the arithmetic of a field.

A value is an array that has a dimension for each axis of the grid before its own: of size 1 where
it does not vary along the axis, else as large as the axis. So what all devices compute alike is
computed once, and a collective is an operation along these dimensions.

Where devices take different branches, both are evaluated on all, and each device takes its own
results. A collective asks for devices of its group that are all in one branch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import ShardError
from shard_dialect.proof.boxes import Boxes
from shard_dialect.proof.field import Elements, Field, element, mixed
from shard_dialect.proof.reading import Block, Function, Grid, Op, Program, Type

Data: TypeAlias = NDArray[Any]
_MOST_TURNS = 1 << 17
"""A loop that runs on is given up."""
_MOST_STEPS = 1 << 21
"""So is a program, after so many ops: a training step in 16 pipeline stages has 300,000."""
_DRAWN_TURNS = 1 << 8
"""Of a loop that goes on or not as bits that are drawn."""
_FEW_TURNS = 1 << 6
"""Of a loop whose bounds are drawn from all integers."""
_NEAR = 16
"""Integers that floats become are often this near to 0."""
_DRAWS = frozenset(("stablehlo.rng",))
"""Ops that give something else each time."""


class Value:
    """A tensor on all devices: elements of the field if it `is_symbolic`, else integers.

    Floats are elements of the field. So are bits that depend on how two floats compare: what is
    computed with such is a polynomial in them. What nothing has written is drawn when it is read.
    """

    __slots__ = ("_data", "bit", "difference", "is_symbolic")

    def __init__(
        self,
        data: Data | Callable[[], Data],
        is_symbolic: bool,
        difference: tuple[Data, Data] | None = None,
        bit: Data | None = None,
    ) -> None:
        self._data = data
        self.is_symbolic = is_symbolic
        self.difference = difference
        """What it is the difference of, where `Machine.splits_exponents`."""
        self.bit = bit
        """The polynomial of which an integer is the bit."""

    def with_data(self, data: Data) -> Value:
        """A tensor of other elements, which are of the field if its own are."""
        return Value(data, self.is_symbolic)

    @property
    def data(self) -> Data:
        """Elements as `uint64`, integers as `int64`."""
        if callable(self._data):
            self._data = self._data()
        return self._data


def widened(data: Data, rank: int) -> Data:
    """An array with dimensions of size 1 at the end, so that it has `rank` of them."""
    return data.reshape((*data.shape, *(1,) * (rank - data.ndim)))


def boxed(data: Data, box: Sequence[slice]) -> Data:
    """A part of the last dimensions, as a view."""
    index: Any = (..., *box)
    view: Data = data[index]
    return view


def wrapped(numbers: Data, type_: Type) -> Data:
    """Integers of the type's width."""
    width = type_.width
    if width >= 64:
        return numbers
    low = numbers & ((1 << width) - 1)
    if type_.kind == "unsigned" or width == 1:
        return low
    sign = 1 << (width - 1)
    return (low ^ sign) - sign


def clipped(numbers: Data, low: int, high: int) -> Data:
    """Numbers moved inside of bounds; of a few much faster than by `np.clip`."""
    return np.minimum(np.maximum(numbers, low), high)


F = TypeVar("F", bound=Callable[..., Any])
Evaluate: TypeAlias = "Callable[[Machine, Op, Sequence[Value]], Value | Sequence[Value]]"
OPS: dict[str, Evaluate] = {}
"""The meaning of each op, by its name."""


def noted_in(table: dict[str, F]) -> Callable[..., Callable[[F], F]]:
    """A decorator that takes names, by which it notes a function in a table."""

    def of(*names: str) -> Callable[[F], F]:
        def note(function: F) -> F:
            table.update(dict.fromkeys(names, function))
            return function

        return note

    return of


means = noted_in(OPS)
"""Decorates a function as the meaning of these ops."""


class Unproven(ShardError):
    """An op that stands in the way of a proof, and why; the message has its place."""


class Torn(Unproven):
    """A collective that some devices of a group reach and others do not: they wait for ever.

    Of a run in Python also: ranks that have different copies of a result.
    """


class Raised(Unproven):
    """An error that a program in Python raises."""


class Undefined(Unproven):
    """An op that says nothing of its result for the operands that were drawn."""


@dataclass
class Cancellation:
    """Whether a number minus itself is 0, and over itself 1, as no infinity and no NaN is."""

    is_law: bool = True
    is_used: bool = False

    def of(self, field: Field, result: Elements, a: Elements, b: Elements) -> Elements:
        """The difference or quotient of `a` and `b`, or where it is no law, what remembers them."""
        cancels = (a == b) & (a != 0)
        if not np.any(cancels):
            return result
        self.is_used = True
        if self.is_law:
            return result
        return np.where(cancels, field.drawn(field.key("cancelled"), a), result)


@dataclass
class Sampled:
    """What was drawn of few numbers, so that few points do not tell programs apart."""

    what: set[str] = dataclasses.field(default_factory=set)


ORDER, DIGITS, CONTENTS = "the order of floats", "integers made of floats", "unwritten integers"
"""What may be sampled."""


@dataclass
class Letters:
    """What devices have sent by one op."""

    channel: tuple[object, ...]
    to: Data
    """For each device the number of the one that is to receive it; -1 where it has, or if none."""
    data: Data
    """By sender."""
    is_symbolic: bool


@dataclass
class Machine:
    """The devices of one program."""

    program: Program
    field: Field
    devices: Grid
    generator: np.random.Generator
    is_ordered: bool = False
    """Whether floats compare as numbers: what bodies that pick an element need."""
    splits_exponents: bool = False
    """Whether `exp(a - b)` is `exp(a) / exp(b)`, where the text has it so."""
    boxes: Boxes = dataclasses.field(default_factory=Boxes)
    cancellation: Cancellation = dataclasses.field(default_factory=lambda: Cancellation())
    sampled: Sampled = dataclasses.field(default_factory=lambda: Sampled())
    steps: Iterator[int] = dataclasses.field(default_factory=count)
    draws: Iterator[int] = dataclasses.field(default_factory=count)
    """The numbers of ops that give something else each time."""
    loops: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    unwritten: Callable[[Type, tuple[int, ...]], Data] | None = None
    """What is drawn where nothing has written; without it any number."""
    is_wide: bool = False
    """Whether functions that are drawn give integers of all sizes."""
    is_strict: bool = False
    """Whether an op must be defined for its operands, and loops be short."""
    active: Data | None = None
    """Which devices are in the branch that is evaluated, if not all are."""
    choices: tuple[Data, ...] = ()
    """Bits that are polynomials, by which devices chose the branches that are evaluated."""
    calls: tuple[str, ...] = ()
    """The functions in which it is."""
    mail: list[Letters] = dataclasses.field(default_factory=list)
    """What has been sent."""
    constants: dict[tuple[int, int], tuple[Op, Value]] = dataclasses.field(default_factory=dict)
    """Those that have been read, by the identity of the op, and the number of axes."""
    around: dict[int, Value] = dataclasses.field(default_factory=dict)
    """The values outside of the body that is evaluated, in which it may read them."""

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes of the grid's axes."""
        return self.devices.shape

    def on(self, grid: Grid) -> Machine:
        """The same devices, as another grid has them."""
        if grid == self.devices:
            return self
        active = None
        other = replace(self, devices=grid, active=None)
        other.choices = tuple(other.moved(Value(each, True), self).data for each in self.choices)
        if self.active is not None:
            active = other.moved(Value(self.active, False), self).data
        return replace(other, active=active)

    def moved(self, value: Value, before: Machine) -> Value:
        """A value of the devices of `before`, which has another grid of them."""
        if before.devices == self.devices:
            return value
        own = value.data.shape[before.axes :]
        if all(size == 1 for size in value.data.shape[: before.axes]):
            return value.with_data(value.data.reshape((*(1,) * self.axes, *own)))
        flat = before.spread(value.data, before.grid).reshape(prod(before.grid), *own)
        by_device = flat[np.argsort(before.devices.devices)]
        return value.with_data(by_device[list(self.devices.devices)].reshape((*self.grid, *own)))

    @property
    def axes(self) -> int:
        """The number of dimensions that each value has before its own."""
        return len(self.grid)

    def call(self, function: Function, arguments: Sequence[Value]) -> list[Value]:
        """The results of a function."""
        before, self.around = self.around, {}
        within, self.calls = self.calls, (*self.calls, function.name)
        results = self.run(function.body, {}, arguments)
        self.around, self.calls = before, within
        return results

    def run(self, block: Block, known: dict[int, Value], arguments: Sequence[Value]) -> list[Value]:
        """Evaluate a block; the values that its last op passes on."""
        known.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            operands = [
                known[number] if number in known else self._from_around(op, number)
                for number in op.operands
                if number in known or number in self.around
            ]
            if op.name in TERMINATORS:
                return operands
            results = self._evaluated(op, operands, known)
            known.update(zip(op.results, results, strict=True))
        return []

    def _from_around(self, op: Op, number: int) -> Value:
        """A value of outside of the body that is evaluated, whose dimensions are those of loops."""
        value = self.around[number]
        if any(size > 1 for size in value.data.shape):
            raise self.unproven(op, "reads a value of outside of its body that is no constant")
        return value

    def _evaluated(
        self, op: Op, operands: Sequence[Value], known: dict[int, Value]
    ) -> Sequence[Value]:
        if next(self.steps) > _MOST_STEPS and op.regions:
            raise self.unproven(op, f"is reached after {_MOST_STEPS} others: too many to follow")
        if "weight" in op.attributes:
            operands = self._weighted(operands, *op.attributes["weight"])
        with_regions = REGIONS.get("linalg.generic" if op.maps else op.name)
        if with_regions is not None:
            return with_regions(self, op, operands, known)
        evaluate = OPS.get(op.name)
        if evaluate is None:
            return self.black_box(op, operands)
        before = self.around
        if op.regions:
            self.around = {**before, **known}
        results = evaluate(self, op, operands)
        self.around = before
        return [results] if isinstance(results, Value) else results

    def _weighted(self, operands: Sequence[Value], number: int, weight: Fraction) -> list[Value]:
        """The operands of a sum, one of which has elements that stand for several each."""
        up, down = weight.as_integer_ratio()
        times = element(up * pow(down, -1, self.field.prime) % self.field.prime)
        scaled = self.field.mul(self.elements(operands[number]), times)
        return [Value(scaled, True) if n == number else each for n, each in enumerate(operands)]

    def turn(self, op: Op, number: int, *, is_drawn: bool = False) -> None:
        """Raise where a loop comes to a turn that is too many to follow.

        Whether one goes on `is_drawn` where floats decide.
        """
        self.require(op, number < _FEW_TURNS)
        if is_drawn and number >= _DRAWN_TURNS:
            raise self.unproven(op, f"takes more than {_DRAWN_TURNS} turns, as floats decide")
        if number > _MOST_TURNS or next(self.steps) > _MOST_STEPS:
            raise self.unproven(op, "takes too many turns to follow")

    def unproven(self, op: Op, why: str) -> Unproven:
        """The error for an op that cannot be judged."""
        return Unproven(f"'{op.name}' op {why}", op.place)

    def black_box(self, op: Op, operands: Sequence[Value]) -> list[Value]:
        """Results that depend on all elements of all operands, and on nothing else."""
        is_no_tensor = any(type_.kind == "other" for type_ in op.types)
        if op.regions or is_no_tensor or op.name.startswith(("shard.", "mesh.")):
            raise self.unproven(op, "is not known to the prover")
        digests = [
            Value(self.digest(each, len(type_.shape)), True)
            for each, type_ in zip(operands, op.operand_types, strict=True)
        ]
        shapes = [type_.shape for type_ in (*op.operand_types, *op.types)]
        number = next(self.draws) if op.name in _DRAWS else 0
        key = self.field.key("call", op.function, shapes, number)
        called = np.asarray(mixed(key, *(each.data for each in self.aligned(digests))))
        called = called.reshape(called.shape or (1,) * self.axes)
        call = Value(called, True)
        return [
            self.of_box(op, self.mapped(op, [call], [0], type_, len(type_.shape), number), called)
            for number, type_ in enumerate(op.types)
        ]

    def of_box(self, op: Op, value: Value, called: Elements) -> Value:
        """The result of an op of which only the operands are known; `called` numbers its calls."""
        self.boxes.note(op, called)
        own = value.data.shape[self.axes :]
        called = widened(called, value.data.ndim)
        again = self.boxes.is_redrawn(op, called)
        if not np.any(again):
            return value
        places = self.scalar(np.arange(prod(own), dtype=np.uint64).reshape(own))
        key = self.field.key("again", self.boxes.redraw)
        drawn = mixed(key, called, value.data.astype(np.uint64), places)
        if value.is_symbolic:
            return Value(np.where(again, self.field.reduced(drawn), value.data), True)
        # Of bits the first time each is another one, later any: what depends on them shows.
        other = 1 - value.data if self.boxes.redraw == 1 else (drawn % 2).astype(np.int64)
        return Value(np.where(again, other, value.data), False)

    def mapped(
        self,
        op: Op,
        values: Sequence[Value],
        together: Sequence[int],
        type_: Type,
        own: int,
        number: int = 0,
    ) -> Value:
        """The function of the last `together` dimensions of each operand, over those before them.

        `own` is how many of the result's dimensions it makes; `number` is the result's.
        """
        digests = [self.digest(value, count) for value, count in zip(values, together, strict=True)]
        shape = type_.shape[len(type_.shape) - own :] if own else ()
        places = self.scalar(np.arange(prod(shape), dtype=np.uint64).reshape(shape))
        spread = [widened(each, each.ndim + own) for each in digests]
        key = self.field.key("function", op.function, number)
        if type_.is_float:
            return Value(self.field.drawn(key, *spread, places), True)
        return Value(self.as_integers(mixed(key, *spread, places), type_, 2), False)

    def as_integers(self, drawn: Elements, type_: Type, most: int) -> Data:
        """What is drawn as integers below `most`; in some trials others are of all sizes."""
        self.sampled.what.add(DIGITS)
        near = (drawn % np.uint64(most)).astype(np.int64)
        if not self.is_wide:
            return near
        whole = mixed(self.field.key("wide"), drawn)
        signed = (drawn % np.uint64(2 * _NEAR)).astype(np.int64) - _NEAR
        which = (whole >> np.uint64(61)).astype(np.int64)
        number = np.where(which < 3, whole.astype(np.int64), np.where(which < 5, signed, near))
        return wrapped(number, type_)

    def digest(self, value: Value, count: int) -> Elements:
        """One number for each place of the dimensions before the last `count`."""
        data = value.data.astype(np.uint64)
        if not count:
            return data
        own = data.shape[data.ndim - count :]
        positions = np.arange(prod(own), dtype=np.uint64).reshape(own)
        each = mixed(self.field.key("element"), data, positions)
        return np.add.reduce(each, axis=tuple(range(each.ndim - count, each.ndim)), dtype=np.uint64)

    def undefined(self, type_: Type) -> Value:
        """What nothing has written: other numbers on each device, and in each program."""
        if not self.unwritten:
            return self.arbitrary(type_)
        draw, shape = self.unwritten, (*self.grid, *type_.shape)

        def drawn() -> Data:
            if type_.is_integer:
                self.sampled.what.add(CONTENTS)
            return draw(type_, shape)

        return Value(drawn, not type_.is_integer)

    def arbitrary(self, type_: Type) -> Value:
        """Random numbers, others on each device; integers are 0 or 1."""
        shape = (*self.grid, *type_.shape)
        if type_.is_integer:
            return Value(lambda: self.generator.integers(0, 2, shape), False)
        return Value(lambda: self.field.random(self.generator, shape), True)

    def require(self, op: Op, is_defined: Data | bool) -> None:
        """Raise `Undefined` where an op says nothing of its result, if that counts."""
        if self.is_strict and not np.all(is_defined):
            raise Undefined(f"'{op.name}' op is not defined for its operands", op.place)

    def elements(self, value: Value) -> Elements:
        """A value as elements of the field."""
        return value.data if value.is_symbolic else self.field.of_integers(value.data)

    def integers(self, value: Value) -> NDArray[np.int64]:
        """A value as integers; a bit that is a polynomial is drawn by it."""
        if not value.is_symbolic:
            return value.data
        one = np.uint64(1)
        if np.any(value.data > one):
            self.sampled.what.add(DIGITS)
        drawn = self.field.drawn(self.field.key("bit"), value.data) & one
        return np.where(value.data <= one, value.data, drawn).astype(np.int64)

    def positions(self, value: Value, type_: Type) -> NDArray[np.int64]:
        """A value as integers that may be positions: those beyond 63 bits are behind all."""
        numbers = self.integers(value)
        if type_.kind != "unsigned":
            return numbers
        return np.where(numbers < 0, np.iinfo(np.int64).max, numbers)

    def ranks(self, elements: Elements) -> NDArray[np.int64]:
        """Numbers by which elements are in an order."""
        self.sampled.what.add(ORDER)
        return self.field.ranks(elements)

    def scalar(self, array: Data) -> Data:
        """An array with dimensions for the axes of the grid, that does not vary along them."""
        return array.reshape((1,) * self.axes + array.shape)

    def lead(self, *values: Value) -> tuple[int, ...]:
        """The sizes along the grid's axes that these values have together."""
        return np.broadcast_shapes(*(value.data.shape[: self.axes] for value in values))

    def spread(self, data: Data, lead: Sequence[int]) -> Data:
        """The same array with these sizes along the axes of the grid."""
        return np.broadcast_to(data, (*lead, *data.shape[self.axes :]))

    def picked(self, data: Data, indices: Sequence[Data]) -> Data:
        """Elements of a tensor at positions, an array for each dimension.

        The arrays have the axes of the grid, too, and then the dimensions of the result. Positions
        outside are moved inside.
        """
        rank = max([0, *(index.ndim - self.axes for index in indices)])
        where: list[Any] = []
        for axis in range(self.axes):
            shape = [1] * (self.axes + rank)
            shape[axis] = data.shape[axis]
            varies = data.shape[axis] > 1
            where.append(np.arange(data.shape[axis]).reshape(shape) if varies else 0)
        for dim, index in enumerate(indices):
            where.append(clipped(index, 0, data.shape[self.axes + dim] - 1))
        picked = data[tuple(where)]
        missing = self.axes + rank - picked.ndim
        return picked.reshape((1,) * missing + picked.shape) if missing else picked

    def aranges(self, sizes: Sequence[int]) -> list[Data]:
        """For each dimension the positions along it, as `picked` takes them."""
        return [
            np.arange(size).reshape(
                (1,) * self.axes + tuple(size if d == dim else 1 for d in range(len(sizes)))
            )
            for dim, size in enumerate(sizes)
        ]

    def aligned(self, values: Sequence[Value]) -> list[Value]:
        """The values, those of fewer dimensions with dimensions of size 1 at the end.

        In a body that is evaluated for all points of its loops at once, a scalar from outside
        meets values that have a dimension for each loop.
        """
        rank = max((value.data.ndim for value in values), default=0)
        return [
            value if value.data.ndim == rank else value.with_data(widened(value.data, rank))
            for value in values
        ]

    def shaped(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements on each device, in another shape."""
        return value.with_data(value.data.reshape((*value.data.shape[: self.axes], *shape)))

    def full(self, value: Value, shape: Sequence[int]) -> Value:
        """A value with all elements of a shape, of which it may have some dimensions as size 1."""
        data = widened(value.data, self.axes + len(shape))
        return value.with_data(np.broadcast_to(data, (*data.shape[: self.axes], *shape)))

    @contextmanager
    def ordered(self) -> Iterator[None]:
        """Let floats compare as numbers."""
        before, self.is_ordered = self.is_ordered, True
        yield
        self.is_ordered = before

    @contextmanager
    def within(self, devices: Data) -> Iterator[None]:
        """Evaluate a branch that these devices take."""
        before = self.active
        self.active = devices if before is None else devices & before
        yield
        self.active = before

    @contextmanager
    def chosen_by(self, bits: Data) -> Iterator[None]:
        """Evaluate a branch that devices take by these bits."""
        before, self.choices = self.choices, (*self.choices, bits)
        yield
        self.choices = before


Regions: TypeAlias = "Callable[[Machine, Op, Sequence[Value], dict[int, Value]], Sequence[Value]]"
REGIONS: dict[str, Regions] = {}
"""The meaning of ops whose regions read values from outside."""


runs = noted_in(REGIONS)
"""Decorates a function as the meaning of these ops, which run regions."""


TERMINATORS = frozenset(
    (
        "func.return",
        "linalg.yield",
        "scf.condition",
        "scf.yield",
        "sdy.return",
        "stablehlo.return",
        "tensor.yield",
        "tosa.yield",
        "mhlo.return",
        "chlo.return",
    )
)
