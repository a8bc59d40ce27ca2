"""Is what the devices computed what the unsharded program computes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import ShardError
from shard_dialect.runtime.arrays import (
    Array,
    Difference,
    compare,
    perturbed,
    tolerance,
)
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.lowered import Program, Site
from shard_dialect.runtime.world import World

_PERTURBATIONS = ((1, 4), (64, 2))
"""By how many units in their last place inputs are moved, and how often the unsharded program runs
on such: what one unit moves may round to nothing beside larger parts of a sum."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failure` says where and by how much the results differ; it is empty if they agree."""

    failure: str
    largest_error: float
    """The largest error of a result over the tolerance for it, of this process's devices."""
    origin: ShardError | None = None
    """Where the difference comes from, if that was asked for."""

    @property
    def passed(self) -> bool:
        return not self.failure

    def as_json(self) -> dict[str, object]:
        found: dict[str, object] = {
            "passed": self.passed,
            "error_over_tolerance": self.largest_error,
        }
        if self.origin is None:
            return found
        return {**found, "origin": self.origin.message, "location": self.origin.location}

    def __str__(self) -> str:
        if self.passed:
            return "check passed: every device's results are the unsharded program's"
        return f"check failed: {self.failure}"

    @property
    def error(self) -> ShardError:
        """What to tell of a check that failed."""
        return self.origin or ShardError(self.failure)


class Alone:
    """The communicator of a program that has nothing to say."""

    rank = 0

    def perform(self, site: Site, source: Array, target: Array) -> None:
        raise ShardError("the unsharded program has a collective")


@dataclass(frozen=True, slots=True)
class Expected:
    """The unsharded program's results, and what each element of a device's may differ by."""

    results: Sequence[Array]
    allowed: Sequence[NDArray[np.float64]]

    @classmethod
    def of(cls, reference: Executable, inputs: Sequence[Array]) -> Expected:
        results = reference.run(inputs, Alone())
        allowed = [np.zeros(each.shape) for each in results]
        for units, count in _PERTURBATIONS:
            nearby = [
                reference.run([perturbed(array, seed, units) for array in inputs], Alone())
                for seed in range(count)
            ]
            for number, others in enumerate(zip(*nearby, strict=True)):
                more = tolerance(results[number], others, units)
                allowed[number] = np.maximum(allowed[number], more)
        return cls(results, allowed)


@dataclass(frozen=True, slots=True)
class Compared:
    """One device's piece of one result: the worst of its elements, counted in the whole tensor."""

    rank: int
    number: int
    index: tuple[int, ...]
    found: Difference

    def __str__(self) -> str:
        found = self.found
        return (
            f"on device {self.rank} at {list(self.index)} is {found.actual}, expected "
            f"{found.expected}: the difference {found.error:.3g} is more than {found.tolerance:.3g}"
        )


def compared(
    program: Program,
    expected: Expected,
    ranks: Sequence[int],
    outputs: Sequence[Sequence[Array]],
) -> Iterator[Compared]:
    """Each result's piece of each of the devices `ranks`, beside the unsharded program's."""
    for rank, pieces in zip(ranks, outputs, strict=True):
        for number, (piece, whole) in enumerate(zip(pieces, expected.results, strict=True)):
            if not program.results[number].is_on(rank, program.grids):
                continue
            place = program.results[number].piece(rank, program.grids)
            held = piece[tuple(map(slice, whole[place].shape))]
            found = compare(held, whole[place], expected.allowed[number][place])
            starts = [each.start or 0 for each in place][: len(found.index)]
            index = tuple(at + start for at, start in zip(found.index, starts, strict=True))
            yield Compared(rank, number, index, found)


def check(
    executable: Executable,
    reference: Executable,
    inputs: Sequence[Array],
    outputs: Sequence[Sequence[Array]],
    world: World,
) -> Verdict:
    """Run the unsharded program on `inputs` and compare each device's pieces with its results."""
    _check_same_types(executable.program, reference.program)
    expected = Expected.of(reference, inputs)
    failures: list[str] = []
    largest = 0.0
    for each in compared(executable.program, expected, world.ranks, outputs):
        largest = max(largest, each.found.error / (each.found.tolerance or 1.0))
        if not each.found.passed:
            failures.append(f"result{each.number} {each}")
    failures = world.share(failures[:1])
    return Verdict(failures[0] if failures else "", largest)


def _check_same_types(program: Program, reference: Program) -> None:
    for what in ("arguments", "results"):
        ours = [str(each.whole) for each in getattr(program, what)]
        theirs = [str(each.whole) for each in getattr(reference, what)]
        if ours != theirs:
            raise ShardError(
                f"the reference program's {what} are {', '.join(theirs)}, "
                f"but the program's are {', '.join(ours)}"
            )
