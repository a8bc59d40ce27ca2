"""What devices have of each result, beside what they should have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from shard_dialect.proof.boundary import Place, on_grid_of, shards, total
from shard_dialect.proof.machine import Data, Machine, Value
from shard_dialect.proof.reading import Type

Marks = list[Data]
"""For each result some of its elements, on each device."""


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
    place: tuple[int, ...] = field(default=(), repr=False)
    """Where it is in the arrays of a comparison."""
    why: str = ""
    """An element of an argument that tells the programs apart."""

    def __str__(self) -> str:
        who = f"the device at {list(self.device)}" if self.device else "the program"
        return (
            f"result {self.result}: {who} has another number at {list(self.element)} than the "
            f"unsharded program{self.why and f': {self.why}'}; {self.wrong} of {self.compared} "
            "elements differ"
        )

    def as_json(self) -> dict[str, object]:
        """The element for `--json`."""
        named = asdict(self)
        del named["place"]
        return named


@dataclass(frozen=True)
class _Sides:
    """One result: all arrays have a dimension for each axis of its grid, and then its own."""

    positions: tuple[Data, ...]
    is_inside: Data
    wanted: Data
    has: Data
    axes: int


@dataclass(frozen=True)
class Comparison:
    """The results of both programs at one point."""

    sides: tuple[_Sides, ...]
    is_local: bool

    @classmethod
    def of(
        cls,
        m: Machine,
        expected: Sequence[Value],
        found: Sequence[Value],
        places: Sequence[Place],
        types: Sequence[Type],
        is_local: bool,
    ) -> Comparison:
        """Of what the unsharded program gives, and the devices of `m` have."""
        listed = zip(expected, found, places, types, strict=True)
        return cls(tuple(_sides(m, *each) for each in listed), is_local)

    def differing(self) -> Marks:
        """The elements that devices have wrong."""
        return [(each.wanted != each.has) & each.is_inside for each in self.sides]

    def changed(self, other: Comparison) -> Marks:
        """The elements that are others in another evaluation, in either program."""
        return [
            (one.wanted != two.wanted) | (one.has != two.has)
            for one, two in zip(self.sides, other.sides, strict=True)
        ]

    def changed_in_one(self, other: Comparison) -> Marks:
        """The elements that are others in another evaluation in one program only."""
        return [
            (one.wanted != two.wanted) ^ (one.has != two.has)
            for one, two in zip(self.sides, other.sides, strict=True)
        ]

    def at(self, found: Counterexample) -> tuple[int, int]:
        """What the element of a counterexample should be, and what it is."""
        side = self.sides[found.result]
        return _at(side.wanted, found.place), _at(side.has, found.place)

    def counterexample(self, marks: Marks) -> Counterexample | None:
        """The first element that is marked, or `None`."""
        wrong = sum(int(each.sum()) for each in marks)
        compared = sum(int(each.is_inside.sum()) for each in self.sides)
        for number, (marked, side) in enumerate(zip(marks, self.sides, strict=True)):
            if np.any(marked):
                at = tuple(int(each) for each in np.argwhere(marked)[0])
                device = at[: side.axes] if self.is_local else ()
                element = _element(side.positions, at)
                return Counterexample(number, device, element, wrong, compared, at)
        return None


def both(some: Marks, others: Marks) -> Marks:
    """The elements that are among both."""
    return [a & b for a, b in zip(some, others, strict=True)]


def neither(marks: Marks) -> Marks:
    """The elements that are not marked."""
    return [~each for each in marks]


def _sides(m: Machine, whole: Value, own: Value, place: Place, type_: Type) -> _Sides:
    here = on_grid_of(m, place)
    own = total(here, here.moved(own, m), place, type_)
    whole = here.moved(whole, m)
    held = shards(here, place, own.data.shape[here.axes :])
    wanted = here.picked(m.elements(whole) if own.is_symbolic else whole.data, held.positions)
    has = m.elements(own) if whole.is_symbolic else own.data
    sizes = np.broadcast_shapes(wanted.shape, has.shape, held.is_inside.shape)
    wanted, has, inside = (np.broadcast_to(each, sizes) for each in (wanted, has, held.is_inside))
    return _Sides(held.positions, inside, wanted, has, here.axes)


def _at(array: Data, place: tuple[int, ...]) -> int:
    """An element of an array, which may not vary along some dimensions."""
    return int(array[tuple(min(i, n - 1) for i, n in zip(place, array.shape, strict=True))])


def _element(positions: Sequence[Data], at: tuple[int, ...]) -> tuple[int, ...]:
    """The global position of a local element."""
    return tuple(_at(each, at) for each in positions)
