"""Check that the devices computed what the unsharded program computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from shard_dialect.abi.lowered_program import Program
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import Diagnostic, ShardError
from shard_dialect.processes import watch
from shard_dialect.processes.to_parent import counted, doing
from shard_dialect.runtime.checking.reference import Reference
from shard_dialect.runtime.checking.tolerance import (
    Allowed,
    Deviations,
    Difference,
    compare,
    growth_of_errors,
    is_float,
    is_inexact,
    is_narrow,
    is_rounding_alone,
    least_allowed,
    numbers_missing,
    own_error,
    rounding_errors,
)
from shard_dialect.runtime.communicators.world import Runnable, World

_PERTURBATIONS = ((1, 4), (64, 2))
"""How far inputs are perturbed, in units in their last place, and in how many runs each.

A change by one unit may be rounded away beside larger terms of a sum.
"""
_ROUNDED_OTHERWISE = 8
"""The number of runs with other roundings to 16 bits."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check. `failure` is where and by how much results differ, or empty."""

    failure: str
    largest_error: float
    """The largest error of a result, as a multiple of its tolerance."""
    judge: str = ""
    """The judge that ran the unsharded program."""
    origin: ShardError | None = None
    """The op that causes the difference, if `--bisect` was given."""
    note: str = ""
    """The results that no comparison says anything about, and why, if there are such."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The warnings that the check gave, as of compiling the unsharded program."""

    @property
    def passed(self) -> bool:
        """Whether the results agree."""
        return not self.failure

    def as_json(self) -> dict[str, object]:
        """The verdict for `--json`."""
        entries: dict[str, object] = {
            "passed": self.passed,
            "reference": self.judge,
            "error_over_tolerance": self.largest_error,
        }
        if self.note:
            entries["note"] = self.note
        if self.origin is None:
            return entries
        return {**entries, "origin": self.origin.message, "location": self.origin.location}

    def __str__(self) -> str:
        if self.passed:
            judged = f", run by {self.judge}" if self.judge else ""
            note = f"; but {self.note}" if self.note else ""
            return f"check passed: every device's results are the unsharded program's{judged}{note}"
        return f"check failed: {self._judged_failure}"

    @property
    def _judged_failure(self) -> str:
        judged = f" (the unsharded program was run by {self.judge})" if self.judge else ""
        return f"{self.failure}{judged}"

    @property
    def error(self) -> ShardError:
        """The error for a check that failed."""
        return self.origin or ShardError(self._judged_failure)


@dataclass(frozen=True, slots=True)
class Expected:
    """The unsharded program's results, and the tolerance of each of their elements."""

    results: Sequence[Array]
    allowed: Sequence[Allowed]
    inexact: Sequence[NDArray[np.bool_]] = ()
    """Which elements are no roundings of exact ones, if these are known."""

    @classmethod
    def of(
        cls, reference: Reference, inputs: Sequence[Array], *, narrow_sums: bool = True
    ) -> Expected:
        """Run the unsharded program. `narrow_sums`: whether devices add partial values of 16 bits.

        If so, elements that are small sums have the rounding errors of their terms, which perturbed
        inputs show.
        """
        doing(watch.REFERENCE)
        results = reference.run(inputs)
        allowed = [least_allowed(each) for each in results]

        def allow(more: Iterable[Allowed]) -> None:
            for own, other in zip(allowed, more, strict=True):
                np.maximum(own, other, out=own)

        for units, count in _PERTURBATIONS if reference.takes_wide else ():
            deviations = Deviations(results)
            for seed in counted(range(count), "runs"):
                doing("the unsharded program on inputs that are moved a little")
                deviations.add(reference.run_nearby(inputs, seed, units))
            allow(deviations.by_order(units))
        if reference.takes_narrow(move_inputs=narrow_sums):
            deviations = Deviations(results)
            for seed in counted(range(_ROUNDED_OTHERWISE), "runs"):
                doing("the unsharded program with other roundings to 16 bits")
                deviations.add(
                    reference.run_rounding_otherwise(inputs, seed, move_inputs=narrow_sums)
                )
            allow(deviations.by_rounding())
        shaped = zip(allowed, results, strict=True)
        return cls(results, [own.reshape(each.shape) for own, each in shaped])

    def note(self, reference: Reference, inputs: Sequence[Array]) -> str:
        """The first result that is no number, or that another order of sums may change as much.

        A result that is 0 but for rounding is compared, with 0.
        """
        for number, result in enumerate(self.results):
            if missing := numbers_missing(result):
                return (
                    f"result{number} is NaN in {missing} of {result.size} elements of the "
                    "unsharded program, too: give inputs for which it is defined"
                )
        pairs = zip(self.results, self.allowed, strict=True)
        growths = {number: growth_of_errors(*each) for number, each in enumerate(pairs)}
        found = {number: growth for number, growth in growths.items() if growth is not None}
        true = reference.run_in_f64(inputs) if found else None
        for number, growth in found.items():
            if true is None or not is_rounding_alone(self.results[number], true[number]):
                return (
                    f"result{number} cannot be compared: an error in the last place of an input "
                    f"grows {growth:.1g} times, to the size of the result"
                )
        return ""

    def as_inexact_as(self, reference: Reference, inputs: Sequence[Array]) -> tuple[Expected, str]:
        """The same with what the reference's own rounding errors allow, if it can tell.

        Also the first result that is no rounding of the true one: "" if there is none.

        A long sum that is added up in order is farther from the true one than any other, and what
        a perturbation of its terms changes does not show that.
        """
        doing("the unsharded program with 64 bits for each float")
        true = reference.run_in_f64(inputs)
        if true is None:
            return self, ""
        errors = rounding_errors(self.results, true)
        allowed = list(map(np.maximum, self.allowed, errors))
        wrong = list(map(is_inexact, self.results, true))
        return replace(self, allowed=allowed, inexact=wrong), _far_from(true, self.results)

    def unjudged(self, shard: Array, number: int, place: tuple[slice, ...]) -> NDArray[np.bool_]:
        """Which elements of a device's shard of a result say nothing.

        They are infinity or NaN where the unsharded program's is no rounding of the exact one: a
        root or a logarithm of cancelled numbers is either, as the order of sums has it.
        """
        if not self.inexact or not is_float(shard.dtype):
            return np.zeros(shard.shape, np.bool_)
        return self.inexact[number][place] & ~np.isfinite(shard)


def _far_from(true: Sequence[Array], results: Sequence[Array]) -> str:
    for number, (result, exact) in enumerate(zip(results, true, strict=True)):
        far, error = own_error(result, exact)
        if far:
            size = "not finite" if np.isinf(error) else f"{error:.2g} times the largest result"
            return (
                f"result{number} cannot be compared in {far} of {result.size} elements: the "
                f"unsharded program's own error there, beside 64 bits for each float, is {size}"
            )
    return ""


@dataclass(frozen=True, slots=True)
class Compared:
    """One device's shard of one result: its worst element, by its index in the global tensor."""

    rank: int
    number: int
    index: tuple[int, ...]
    difference: Difference
    unjudged: int = 0
    """The number of elements that are not finite and not compared."""

    def __str__(self) -> str:
        difference = self.difference
        what = (
            f"on device {self.rank} at {list(self.index)} is {difference.actual}, expected "
            f"{difference.expected}: "
        )
        if not np.isfinite(np.asarray(difference.expected).astype(np.complex128)):
            return (
                f"{what}the unsharded program's element is not finite: give inputs for "
                "which it is, since another order of a sum that overflows gives inf or NaN"
            )
        return (
            f"{what}the difference {difference.error:.3g} is more than {difference.tolerance:.3g}"
        )


def compared(
    program: Program,
    expected: Expected,
    ranks: Sequence[int],
    outputs: Sequence[Sequence[Array]],
) -> Iterator[Compared]:
    """Compare each result's shard on each of the devices `ranks` with the unsharded program's."""
    for rank, shards in zip(ranks, outputs, strict=True):
        for number, (shard, expected_array) in enumerate(
            zip(shards, expected.results, strict=True)
        ):
            if not program.results[number].is_on(rank, program.grids):
                continue
            shard_slice = program.results[number].shard(rank, program.grids)
            own = program.results[number].own(shard, rank, program.grids)
            skipped = expected.unjudged(own, number, shard_slice)
            allowed = np.where(skipped, np.nan, expected.allowed[number][shard_slice])
            difference = compare(own, expected_array[shard_slice], allowed)
            starts = [each.start or 0 for each in shard_slice][: len(difference.index)]
            index = tuple(at + start for at, start in zip(difference.index, starts, strict=True))
            yield Compared(rank, number, index, difference, int(skipped.sum()))


def check(
    executable: Runnable,
    reference: Reference | None,
    inputs: Sequence[Array],
    outputs: Sequence[Sequence[Array]],
    world: World,
) -> Verdict:
    """Compare `outputs`, all devices' shards, with the reference's results for `inputs`.

    The process that speaks has both, compares them, and shares the verdict with the others.
    """
    verdict = Verdict("", 0.0)
    if world.speaks:
        assert reference is not None, "who speaks judges"
        verdict = _verdict(executable.program, reference, inputs, outputs)
    failures = world.share([verdict.failure] if verdict.failure else [])
    return replace(verdict, failure=failures[0] if failures else "")


def _verdict(
    program: Program,
    reference: Reference,
    inputs: Sequence[Array],
    outputs: Sequence[Sequence[Array]],
) -> Verdict:
    _check_same_types(program, reference)
    expected = Expected.of(reference, inputs, narrow_sums=adds_narrow(program))
    verdict, far = _compared_with(expected, program, reference.judge, outputs), ""
    if not verdict.passed:
        inexact, far = expected.as_inexact_as(reference, inputs)
        verdict = _compared_with(inexact, program, reference.judge, outputs)
    return replace(verdict, note=expected.note(reference, inputs) or far or verdict.note)


def _compared_with(
    expected: Expected, program: Program, judge: str, outputs: Sequence[Sequence[Array]]
) -> Verdict:
    failure, largest, note = _held_by_none(expected, program), 0.0, ""
    for each in compared(program, expected, range(program.devices), outputs):
        largest = max(largest, each.difference.error / (each.difference.tolerance or 1.0))
        if not each.difference.passed and not failure:
            failure = f"result{each.number} {each}"
        if each.unjudged and not note:
            note = (
                f"result{each.number} is not finite on device {each.rank} in {each.unjudged} "
                "elements, in which the unsharded program's are no roundings of exact ones"
            )
    return Verdict(failure, largest, judge, note=note)


def _held_by_none(expected: Expected, program: Program) -> str:
    """The first element of a result that no device has; "" if there is none."""
    for number, (result, array) in enumerate(zip(program.results, expected.results, strict=True)):
        ranks = (rank for rank in range(program.devices) if result.is_on(rank, program.grids))
        places = [result.shard(rank, program.grids) for rank in ranks]
        held = np.zeros(array.shape, np.bool_)
        for place in {str(each): each for each in places}.values():  # many devices have the same
            held[place] = True
        if not held.all():
            index = [int(each) for each in np.unravel_index(int(np.argmin(held)), array.shape)]
            return f"result{number} at {index} is on no device"
    return ""


def adds_narrow(program: Program) -> bool:
    """Whether devices add floats of 16 bits."""
    return any(
        is_narrow(site.source.dtype) and getattr(site.step, "reduction", "max") in _ADDS
        for site in program.calls
    )


_ADDS = ("sum", "product", "average")


def _check_same_types(program: Program, reference: Reference) -> None:
    for what in ("arguments", "results"):
        types = [str(each.global_type) for each in getattr(program, what)]
        reference_types = [str(each) for each in getattr(reference, what)]
        if types != reference_types:
            raise ShardError(
                f"the reference program's {what} are {', '.join(reference_types)}, "
                f"but the program's are {', '.join(types)}"
            )
