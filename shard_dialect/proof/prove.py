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

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Literal, TypeAlias

from shard_dialect.errors import Diagnostic
from shard_dialect.ir.bindings import ir
from shard_dialect.proof import (  # noqa: F401 - they say what ops mean
    collectives,
    contractions,
    control,
    functions,
    manual,
    messages,
    random_bits,
    sizes,
    structured_stablehlo,
    tosa,
)
from shard_dialect.proof.blame import Blame
from shard_dialect.proof.comparison import Counterexample
from shard_dialect.proof.family import has_family
from shard_dialect.proof.field import PRIME_GAPS, Field
from shard_dialect.proof.machine import Cancellation, Torn, Unproven
from shard_dialect.proof.reading import Op, Program, read_program
from shard_dialect.proof.telling import telling
from shard_dialect.proof.trial import Pair, Trial, trials

Answer: TypeAlias = Literal["proven", "refuted", "unknown"]
_MOST_BLAMED = 3
_MANY_ELEMENTS = 1 << 20
"""Programs whose ops have more elements in all are evaluated at smaller sizes first."""
_MUCH_SMALLER = 0.5
"""How many of the elements smaller programs may have, of which several are evaluated."""
_MOST_ELEMENTS = 1 << 29
"""Programs that have more are not evaluated."""
_MOST_OF_MEMBERS = 1 << 32
"""Nor are smaller ones with one size that is larger, which are evaluated once."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer of a proof, its assumptions, and a counterexample if it is refuted."""

    answer: Answer
    evaluations: int
    """The number of random points at which the programs were compared."""
    assumptions: tuple[str, ...] = ()
    reason: str = ""
    """Why it is unknown; of a refutation, what a run on random inputs says."""
    counterexample: Counterexample | None = None
    boxes: tuple[Op, ...] = field(default=(), repr=False)
    """Ops of which only that they are functions was used."""
    is_of_smaller: bool = field(default=False, repr=False)
    """Whether the counterexample is one of smaller programs."""
    diagnostics: tuple[Diagnostic, ...] = field(default=(), repr=False)
    """The warnings that the proof gave."""

    def __str__(self) -> str:
        if self.answer == "proven":
            given = f" ({'; '.join(self.assumptions)})" if self.assumptions else ""
            return f"proven: every device computes the unsharded program, for all inputs{given}"
        if self.answer == "refuted":
            if self.counterexample is None:
                return f"refuted: {self.reason}"
            return f"refuted: {self.counterexample}{self.reason and f' ({self.reason})'}"
        return f"unknown: {self.reason}"

    def as_json(self) -> dict[str, object]:
        """The answer for `--json`."""
        named = ("answer", "assumptions", "reason", "evaluations")
        counterexample = self.counterexample and self.counterexample.as_json()
        return {name: getattr(self, name) for name in named} | {"counterexample": counterexample}


def prove(
    unsharded: ir.Module | Program,
    local: ir.Module | Program,
    entry: str | None = None,
    *,
    explains: bool = False,
) -> Proof:
    """Compare a program with what each device runs, or with another one of global tensors.

    If it `explains`, a counterexample has an element of an argument that tells the programs apart.
    Raises `ShardError` where they do not fit.
    """
    whole = unsharded if isinstance(unsharded, Program) else read_program(unsharded)
    own = local if isinstance(local, Program) else read_program(local)
    if not own.grids and not isinstance(local, Program):  # XLA numbers devices, and has no grid
        own = replace(own, grids=whole.numbered())
    pair = Pair(whole, own, whole.entry(entry), own.entry(entry))
    pair.check()
    _keep_freed_pages()
    try:
        return _answer(pair, explains)
    except Torn as error:
        # In the other forms the tensors are global: the op does not say where it runs.
        is_sure = pair.local.form == "local" and pair.elements <= _MANY_ELEMENTS
        answer: Answer = "refuted" if is_sure else "unknown"
        return Proof(answer, 0, reason=_placed(error))
    except Unproven as error:
        return Proof("unknown", 0, reason=_placed(error))
    except RecursionError:
        return Proof("unknown", 0, reason="the programs are nested too deeply, or call themselves")
    except MemoryError as error:
        return Proof("unknown", 0, reason=f"the programs need too much memory: {error}")


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What glibc's `mallopt` calls them."""


@cache
def _keep_freed_pages() -> None:
    """Let glibc use again what large arrays leave, rather than give it back to the system.

    New pages cost more than the arithmetic on them. These are the thresholds that glibc comes to by
    itself at most; other libraries have none.
    """
    with suppress(AttributeError, OSError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, 1 << 25)
        mallopt(_TRIM_THRESHOLD, 1 << 26)


def _placed(error: Unproven) -> str:
    return f"{error.message}{f' at {error.location}' if error.location else ''}"


def _answer(pair: Pair, explains: bool) -> Proof:
    """By the programs themselves, or by smaller ones of their family where these are large."""
    if pair.elements <= _MANY_ELEMENTS or not (has_family(pair.whole) and has_family(pair.own)):
        return _judged(pair, explains)
    members = pair.members()
    smallest = next(members)
    if min(pair.elements, smallest.elements) > _MOST_ELEMENTS:
        raise Unproven(
            f"the ops have {pair.elements:,} elements in all, of which {smallest.elements:,} are "
            f"left at the smallest sizes: the prover evaluates up to {_MOST_ELEMENTS:,}"
            f"{smallest.kept}"
        )
    is_smaller = smallest.elements <= _MUCH_SMALLER * pair.elements
    if pair.elements <= _MOST_ELEMENTS and not is_smaller:
        return _judged(pair, explains)
    proof, member = _of_members(smallest, members, explains)
    if proof.answer == "proven":
        return proof
    if pair.elements <= _MOST_ELEMENTS:
        found = _by_no_law(pair) if proof.answer == "refuted" else None
        if found is None:
            return _judged(pair, explains)
        return replace(proof, assumptions=pair.assumptions(), counterexample=found)
    proof = replace(proof, is_of_smaller=True)
    if proof.answer == "unknown":
        return proof
    reason = f"with {member.smaller}: {proof.counterexample}{proof.reason and f'; {proof.reason}'}"
    return replace(proof, answer="unknown", reason=reason)


def _by_no_law(pair: Pair) -> Counterexample | None:
    """A difference at one point, if there is one by each law."""
    laws = (
        trials(pair, 1),
        trials(pair, 1, is_ordered=True),
        trials(pair, 1, splits_exponents=True),
    )
    found = [trial.counterexample for law in laws for trial in law]
    return found[0] if all(found) else None


def _of_members(smallest: Pair, others: Iterator[Pair], explains: bool) -> tuple[Proof, Pair]:
    """The proof of the smallest programs, if those with one larger factor are right, too."""
    same, wrong = _evaluated(smallest, 1)
    if not wrong:
        proof = _of_same(smallest, same)
    elif wrong[0].ops() or _law(smallest):
        proof = _of_different(smallest, wrong, explains)
    else:
        outcome = wrong[0].counterexample
        proof = Proof("refuted", 1, smallest.assumptions(), counterexample=outcome)
    if proof.answer != "proven":
        return proof, smallest
    for number, member in enumerate(others):
        if member.elements > _MOST_OF_MEMBERS:
            note = f"not with {member.smaller}, which has too many elements"
            proof = replace(proof, assumptions=(*proof.assumptions, note))
            continue
        trial = Trial(member, Field(PRIME_GAPS[number % 2], number % member.count))
        if trial.counterexample is not None:
            found = _judged(member, explains)
            if found.answer != "proven":
                return found, member
        proof = replace(proof, evaluations=proof.evaluations + 1)
    return proof, smallest


def _judged(pair: Pair, explains: bool) -> Proof:
    """The answer of a few evaluations at random points, and of more where they differ."""
    same, wrong = _evaluated(pair)
    return _of_different(pair, wrong, explains) if wrong else _of_same(pair, same)


def _evaluated(pair: Pair, most: int = _MOST_BLAMED) -> tuple[list[Trial], list[Trial]]:
    """Evaluations at random points: those without a difference, and `most` with one."""
    same, wrong = list[Trial](), list[Trial]()
    for trial in _points(pair):
        if trial.counterexample is not None:
            wrong.append(trial)
        else:
            same.append(trial)
            trial.forget()
        if len(wrong) == most:
            break
    return same, wrong


def _points(pair: Pair, **laws: bool) -> Iterator[Trial]:
    """The evaluations, of which more are needed where few numbers are drawn."""
    most = max(pair.count, pair.choices)
    chooses = laws.get("is_ordered", False)
    count = most if chooses else pair.count
    for number, trial in enumerate(trials(pair, most, **laws)):
        if number >= count:
            return
        trial.chooses = chooses
        yield trial
        if trial.sampled.what:
            count, chooses = most, True


def _sampled(same: Sequence[Trial]) -> list[str]:
    """What is said of that."""
    what = sorted(set[str]().union(*(trial.sampled.what for trial in same)))
    return [f"{', '.join(what)} at {len(same)} random points only"] if what else []


def _of_same(pair: Pair, same: Sequence[Trial]) -> Proof:
    evaluated = sum(not trial.is_void for trial in same)
    if any(trial.cancellation.is_used for trial in same):
        found = same[0].again(cancellation=Cancellation(is_law=False)).counterexample
        if found is not None:
            reason = (
                f"{found}, unless a number minus itself is 0, or over itself 1: no infinity and no "
                "NaN is so, and the programs have these in other elements"
            )
            return Proof("unknown", evaluated, pair.assumptions(), reason, found)
    assumptions = (*pair.assumptions(), *_sampled(same))
    return Proof("proven", evaluated, assumptions, boxes=tuple(same[0].ops()))


def _of_different(pair: Pair, wrong: Sequence[Trial], explains: bool) -> Proof:
    outcome, assumptions = wrong[0].counterexample, pair.assumptions()
    if pair.local.form != "local" and pair.own.parts:
        reason = f"{outcome}, and what parts of the grid hold is known in the local form only"
        return Proof("unknown", 1, assumptions, reason, outcome)
    first = Blame.of(wrong[0])
    others = map(Blame.of, wrong[1:])
    blame = next((each for each in chain([first], others) if each.counterexample), None)
    if blame is not None and blame.is_of_unwritten():
        reason = "it depends on elements that nothing has written, such as padding"
        return Proof("refuted", 2, assumptions, reason, _shown(blame, explains))
    notes = _law(pair)
    if notes and notes[0].startswith("maxima") and (found := _by_joins(pair)) is not None:
        reason = (
            f"{found}, unless no float is NaN: a maximum is not that of numbers that it has not"
        )
        return Proof("unknown", pair.count, assumptions, reason, found)
    if notes:
        return Proof("proven", pair.count, (*assumptions, *notes), boxes=tuple(wrong[0].ops()))
    if blame is not None:
        return Proof("refuted", 1, assumptions, counterexample=_shown(blame, explains))
    ops = first.ops()
    names = ", ".join(dict.fromkeys(f"'{op.name}' at {op.place}" for op in ops))
    what = f"of what these ops compute: {names}" if names else "of functions' numbers at constants"
    reason = f"{outcome}, and nothing is known {what}"
    return Proof("unknown", 1, assumptions, reason, outcome, tuple(ops))


def _shown(blame: Blame, explains: bool) -> Counterexample | None:
    found = blame.counterexample
    if found is None or not explains:
        return found
    return replace(found, why=telling(blame.trial, found))


def _law(pair: Pair) -> list[str]:
    """The law by which programs that differ are the same, if there is one; and at which points."""
    # A program may use that the maximum of a number and itself is the number. In smaller programs
    # positions that are floats would be below all bounds.
    ordered = [] if pair.smaller else _same_by(pair, is_ordered=True)
    if ordered:
        return [f"maxima and comparisons of floats at {len(ordered)} random points only"]
    # Or that a softmax may be made block by block, each with a maximum of its own.
    split = _same_by(pair, splits_exponents=True)
    return ["exp(a - b) = exp(a) / exp(b)", *_sampled(split)] if split else []


def _by_joins(pair: Pair) -> Counterexample | None:
    """An element that is a maximum of other numbers than it should be, as where one is NaN."""
    for number, gap in enumerate(PRIME_GAPS):
        found = Trial(pair, Field(gap, number, joins=True), is_ordered=True).counterexample
        if found is not None:
            return found
    return None


def _same_by(pair: Pair, **laws: bool) -> list[Trial]:
    """Evaluations by a law, or none if one has a difference."""
    same = list[Trial]()
    try:
        for trial in _points(pair, **laws):
            if trial.counterexample is not None:
                return []
            trial.forget()
            same.append(trial)
    except Unproven:  # as where a loop goes on for ever
        return []
    return same
