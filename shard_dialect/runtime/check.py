"""Is what the devices computed what the unsharded program computes?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.runtime.arrays import Array, Difference, compare, perturbed, tolerance
from shard_dialect.runtime.executable import Executable
from shard_dialect.runtime.lowered import Program, Site
from shard_dialect.runtime.world import World

_PERTURBATIONS = 4
"""How often the unsharded program runs again, on inputs moved by their last place."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`failure` says where and by how much the results differ; it is empty if they agree."""

    failure: str
    largest_error: float
    """The largest error of a result over the tolerance for it, of this process's devices."""

    @property
    def passed(self) -> bool:
        return not self.failure

    def as_json(self) -> dict[str, object]:
        return {"passed": self.passed, "error_over_tolerance": self.largest_error}

    def __str__(self) -> str:
        if self.passed:
            return "check passed: every device's results are the unsharded program's"
        return f"check failed: {self.failure}"


class Alone:
    """The communicator of a program that has nothing to say."""

    def perform(self, site: Site, source: Array, target: Array) -> None:
        raise ShardError("the unsharded program has a collective")


def check(
    executable: Executable,
    reference: Executable,
    inputs: Sequence[Array],
    outputs: Sequence[Sequence[Array]],
    world: World,
) -> Verdict:
    """Run the unsharded program on `inputs` and compare each device's pieces with its results."""
    program = executable.program
    _check_same_types(program, reference.program)
    expected = reference.run(inputs, Alone())
    nearby = [
        reference.run([perturbed(array, seed) for array in inputs], Alone())
        for seed in range(_PERTURBATIONS)
    ]
    allowed = [tolerance(*each) for each in zip(expected, zip(*nearby, strict=True), strict=True)]
    failures: list[str] = []
    largest = 0.0
    for rank, pieces in zip(world.ranks, outputs, strict=True):
        for number, (piece, whole) in enumerate(zip(pieces, expected, strict=True)):
            place = program.results[number].piece(rank, program.grids)
            held = piece[tuple(map(slice, whole[place].shape))]
            found = compare(held, whole[place], allowed[number][place])
            largest = max(largest, found.error / (found.tolerance or 1.0))
            if not found.passed:
                start = [each.start or 0 for each in place]
                failures.append(_describe(rank, number, start, found))
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


def _describe(rank: int, number: int, start: list[int], found: Difference) -> str:
    index = [at + offset for at, offset in zip(found.index, start, strict=True)]
    return (
        f"result{number} on device {rank} at {index} is {found.actual}, expected "
        f"{found.expected}: the difference {found.error:.3g} is more than {found.tolerance:.3g}"
    )
