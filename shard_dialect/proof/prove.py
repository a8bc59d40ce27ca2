"""Whether the devices' programs compute the unsharded program, for all inputs.

    proof = prove(unsharded, local)
    proof.answer            "proven", "refuted" or "unknown"

Both programs are evaluated at random points of a field (`field`). An answer holds for all inputs,
in real arithmetic: sums and products in any order and grouping, roundings left out. What an op does
that is no sum, product, quotient, maximum or movement of elements counts as a function of its
operands of which nothing is known. Integers are integers of their width; those among the arguments
are drawn, and the answer is for these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from shard_dialect.ir.bindings import ir
from shard_dialect.proof import (  # noqa: F401 - they say what ops mean
    collectives,
    contractions,
    control,
    functions,
    manual,
    sizes,
    structured_stablehlo,
    tosa,
)
from shard_dialect.proof.boundary import Place, argument, on_grid_of, shards, total
from shard_dialect.proof.family import elements, smaller
from shard_dialect.proof.field import PRIME_GAPS, Field
from shard_dialect.proof.fitting import check_fit
from shard_dialect.proof.machine import Data, Machine, Unproven, Value
from shard_dialect.proof.reading import Function, Op, Program, Type, read_program

Answer: TypeAlias = Literal["proven", "refuted", "unknown"]
_INTEGER_TRIALS = 4
_ORDERED_TRIALS = 8
_MANY_ELEMENTS = 1 << 22
"""Programs whose ops have more elements in all are evaluated at smaller sizes first."""
_MOST_ELEMENTS = 1 << 29
"""Programs that have more are not evaluated."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """An element of a result that a device has wrong."""

    result: int
    device: tuple[int, ...]
    element: tuple[int, ...]
    """In the global tensor."""
    wrong: int
    """The number of elements, of all results on all devices, that are wrong."""
    compared: int

    def __str__(self) -> str:
        who = f"the device at {list(self.device)}" if self.device else "the program"
        return (
            f"result {self.result}: {who} has another number at {list(self.element)} than the "
            f"unsharded program; {self.wrong} of {self.compared} elements differ"
        )


@dataclass(frozen=True, slots=True)
class Proof:
    """An answer, and what it rests on."""

    answer: Answer
    evaluations: int
    """The number of random points at which the programs were compared."""
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    """Why it is unknown; of a refutation, what a run on random inputs says."""
    counterexample: Counterexample | None = None
    boxes: tuple[Op, ...] = field(default=(), repr=False)
    """Ops of which only that they are functions was used."""

    def __str__(self) -> str:
        if self.answer == "proven":
            given = f" ({'; '.join(self.assumptions)})" if self.assumptions else ""
            return f"proven: every device computes the unsharded program, for all inputs{given}"
        if self.answer == "refuted":
            return f"refuted: {self.counterexample}{self.reason and f' ({self.reason})'}"
        return f"unknown: {self.reason}"

    def as_json(self) -> dict[str, object]:
        """The answer for `--json`."""
        named = ("answer", "assumptions", "reason", "evaluations")
        counterexample = self.counterexample and asdict(self.counterexample)
        return {name: getattr(self, name) for name in named} | {"counterexample": counterexample}


def prove(unsharded: ir.Module | Program, local: ir.Module, entry: str | None = None) -> Proof:
    """Compare a program with what each device runs, or with another one of global tensors.

    Raises `ShardError` where they do not fit.
    """
    whole = unsharded if isinstance(unsharded, Program) else read_program(unsharded)
    own = read_program(local)
    if not own.grids:  # XLA numbers devices, and has no grid
        own = replace(own, grids=whole.numbered())
    pair = _Pair(whole, own, whole.entry(entry), own.entry(entry))
    pair.check()
    try:
        return _answer(pair)
    except Unproven as error:
        at = f" at {error.location}" if error.location else ""
        return Proof("unknown", 0, reason=f"{error.message}{at}")


def _answer(pair: _Pair) -> Proof:
    """By the programs themselves, or by smaller ones of their family where these are large."""
    if pair.elements <= _MANY_ELEMENTS:
        return _judged(pair)
    less = pair.made_smaller()
    if min(pair.elements, less.elements) > _MOST_ELEMENTS:
        raise Unproven(
            f"the ops have {pair.elements:,} elements in all, of which {less.elements:,} are left "
            f"at the smallest sizes: the prover evaluates up to {_MOST_ELEMENTS:,}{less.kept}"
        )
    proof = _judged(less) if less.elements <= _MOST_ELEMENTS else _judged(pair)
    if proof.answer == "proven":
        return proof
    if pair.elements <= _MOST_ELEMENTS:  # whose sizes may count: laws that did not help may not now
        trials = _plain_trials(pair)
        outcome = _first_difference(trials)
        if outcome is None:
            return Proof("proven", len(trials), pair.assumptions(), boxes=tuple(trials[0].boxes))
        return replace(proof, assumptions=pair.assumptions(), counterexample=outcome)
    if proof.answer == "unknown":
        return proof
    reason = f"with {less.smaller}: {proof.counterexample}{proof.reason and f'; {proof.reason}'}"
    return replace(proof, answer="unknown", reason=reason)


def _plain_trials(pair: _Pair) -> list[_Trial]:
    """Evaluations by the laws of sums and products alone."""
    count = _INTEGER_TRIALS if pair.has_integers else len(PRIME_GAPS)
    return [_Trial(pair, Field(PRIME_GAPS[seed % 2], seed)) for seed in range(count)]


def _judged(pair: _Pair) -> Proof:
    assumptions = pair.assumptions()
    first = _plain_trials(pair)
    outcome = _first_difference(first)
    if outcome is None:
        return Proof("proven", len(first), assumptions, boxes=tuple(first[0].boxes))
    if first[0].boxes:
        names = ", ".join(dict.fromkeys(f"'{op.name}' at {op.place}" for op in first[0].boxes))
        reason = f"{outcome}, and nothing is known of what these ops compute: {names}"
        return Proof("unknown", 1, assumptions, reason, outcome, tuple(first[0].boxes))
    if pair.local.form != "local" and pair.own.parts:
        reason = f"{outcome}, and what parts of the grid hold is known in the local form only"
        return Proof("unknown", 1, assumptions, reason, outcome)
    other = _Trial(pair, first[0].field, garbage=1)
    other.difference()
    if not all(map(np.array_equal, first[0].results, other.results)):
        reason = "it depends on elements that nothing has written, such as padding"
        return Proof("refuted", 2, assumptions, reason, outcome)
    # A program may use that the maximum of a number and itself is the number.
    ordered = [
        _Trial(pair, Field(PRIME_GAPS[seed % 2], seed), is_ordered=True)
        for seed in range(_ORDERED_TRIALS)
    ]
    if _first_difference(ordered) is None:
        note = f"maxima and comparisons of floats at {_ORDERED_TRIALS} random points only"
        return Proof("proven", _ORDERED_TRIALS, (*assumptions, note))
    # Or that a softmax may be made block by block, each with a maximum of its own.
    split = [
        _Trial(pair, Field(PRIME_GAPS[seed % 2], seed), splits_exponents=True)
        for seed in range(len(first))
    ]
    if _first_difference(split) is None:
        return Proof("proven", len(split), (*assumptions, "exp(a - b) = exp(a) / exp(b)"))
    return Proof("refuted", 1, assumptions, counterexample=outcome)


def _first_difference(trials: Sequence[_Trial]) -> Counterexample | None:
    return next((found for trial in trials if (found := trial.difference()) is not None), None)


@dataclass(frozen=True)
class _Pair:
    """The two programs, and the functions that are compared."""

    whole: Program
    own: Program
    unsharded: Function
    local: Function
    smaller: str = ""
    """Which devices and sizes are evaluated as others, if any are."""
    kept: str = ""
    """Ops that keep sizes."""

    def made_smaller(self) -> _Pair:
        """The smallest programs of which these are larger ones."""
        places = [*self.places("mesh.argument"), *self.places("mesh.result")]
        made = smaller(self.whole, self.own, self.unsharded, self.local, places)
        unsharded = made.whole.functions[self.unsharded.name]
        local = made.own.functions[self.local.name]
        return _Pair(made.whole, made.own, unsharded, local, str(made), made.kept)

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

    def assumptions(self) -> tuple[str, ...]:
        """What the answer is for."""
        listed = ["integer arguments as drawn"] if self.has_integers else []
        return (*listed, f"evaluated with {self.smaller}") if self.smaller else tuple(listed)


class _Trial:
    """One evaluation of both programs at one random point."""

    def __init__(
        self,
        pair: _Pair,
        field_: Field,
        *,
        is_ordered: bool = False,
        splits_exponents: bool = False,
        garbage: int = 0,
    ) -> None:
        """`garbage` draws what nothing has written."""
        self.pair, self.field, self.is_ordered = pair, field_, is_ordered
        self.splits_exponents = splits_exponents
        self.garbage = garbage
        self.boxes: list[Op] = []
        self.results: list[Data] = []
        """What the devices have of each result, 0 for what is not of the tensor."""

    def difference(self) -> Counterexample | None:
        """An element that differs, or `None`."""
        with np.errstate(all="ignore"):  # integers of 64 bits wrap, as those of programs do
            return self._evaluated()

    def _evaluated(self) -> Counterexample | None:
        pair = self.pair
        generator = np.random.default_rng(self.field.seed)
        one = self._machine(pair.whole, generator)
        given = [self._drawn(one, type_) for type_ in pair.unsharded.body.types]
        expected = one.call(pair.unsharded, given)
        if any(np.any(each.data != each.data[(slice(1),) * one.axes]) for each in expected):
            raise Unproven(
                f"@{pair.unsharded.name} gives other results on other devices: it is no program of "
                "global tensors, with which others can be compared"
            )
        many = self._machine(pair.own, np.random.default_rng((self.field.seed, self.garbage)))
        shared = [self._again(many, value, one) for value in given]
        arguments = [
            argument(many, value, place, type_)
            for value, place, type_ in zip(
                shared, pair.places("mesh.argument"), pair.local.body.types, strict=True
            )
        ]
        found = many.call(pair.local, arguments)
        self.boxes = [*one.boxes, *many.boxes]
        return self._compared(many, [self._again(many, each, one) for each in expected], found)

    def _machine(self, program: Program, generator: np.random.Generator) -> Machine:
        return Machine(
            program, self.field, program.grid, generator, self.is_ordered, self.splits_exponents
        )

    def _drawn(self, m: Machine, type_: Type) -> Value:
        if -1 in type_.shape:
            raise Unproven(
                f"an argument of type {type_.text} has sizes that only a run knows: nothing is "
                "proven of it; `--specialize` gives them"
            )
        if type_.is_float or (type_.is_bit and not self.is_ordered):
            return Value(m.scalar(self.field.random(m.generator, type_.shape)), True)
        if not type_.is_integer:
            raise Unproven(f"an argument of type {type_.text} cannot be drawn")
        number = self.field.seed
        if not type_.shape and not type_.is_bit and number < _INTEGER_TRIALS - 1:
            return Value(m.scalar(np.array(number)), False)  # it may choose a branch: try each
        most = 2 if type_.is_bit else max(self._sizes())
        return Value(m.scalar(m.generator.integers(0, most, type_.shape)), False)

    def _sizes(self) -> list[int]:
        """The sizes in which an integer argument may be a position."""
        types = self.pair.unsharded.body.types
        return [2, *(size for type_ in types for size in type_.shape if size > 0)]

    @staticmethod
    def _again(m: Machine, value: Value, before: Machine) -> Value:
        """The same global value, on the grid of another program."""
        return Value(m.scalar(value.data[(0,) * before.axes]), value.is_symbolic)

    def _compared(
        self, m: Machine, expected: Sequence[Value], found: Sequence[Value]
    ) -> Counterexample | None:
        places = self.pair.places("mesh.result")
        types = self.pair.local.result_types
        wrong, compared, first = 0, 0, None
        for number, (whole, own, place, type_) in enumerate(
            zip(expected, found, places, types, strict=True)
        ):
            here = on_grid_of(m, place)
            own = total(here, here.moved(own, m), place, type_)
            whole = here.moved(whole, m)
            held = shards(here, place, own.data.shape[here.axes :])
            wanted = here.picked(
                m.elements(whole) if own.is_symbolic else whole.data, held.positions
            )
            has = m.elements(own) if whole.is_symbolic else own.data
            differs = (wanted != has) & held.is_inside
            differs = np.broadcast_to(differs, np.broadcast_shapes(differs.shape, has.shape))
            self.results.append(np.where(held.is_inside, has, 0))
            compared += int(np.broadcast_to(held.is_inside, differs.shape).sum())
            if not np.any(differs):
                continue
            wrong += int(differs.sum())
            if first is None:
                at = tuple(int(each) for each in np.argwhere(differs)[0])
                device = at[: here.axes] if self.pair.local.form == "local" else ()
                first = number, device, _element(held.positions, at)
        if first is None:
            return None
        return Counterexample(*first, wrong, compared)


def _element(positions: Sequence[np.ndarray], at: tuple[int, ...]) -> tuple[int, ...]:
    """The global position of a local element."""
    return tuple(
        int(each[tuple(min(i, size - 1) for i, size in zip(at, each.shape, strict=True))])
        for each in positions
    )
