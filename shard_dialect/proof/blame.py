"""On what the elements that differ depend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shard_dialect.proof.comparison import Counterexample, Marks, both, neither
from shard_dialect.proof.field import Calls
from shard_dialect.proof.machine import Data
from shard_dialect.proof.reading import Op
from shard_dialect.proof.trial import Trial

_REDRAWS = 6
"""Each leaves a bit that depends on an op that is not known as it is with a chance of a half."""
_MOST_SUSPECTS = 16


@dataclass(frozen=True)
class Blame:
    """What of a difference does not depend on ops that are not known."""

    trial: Trial
    kept: Data
    """The numbers of their calls that both programs make."""
    suspects: tuple[Op, ...]
    """Those with other calls."""
    sure: Marks
    counterexample: Counterexample | None
    """Of what is wrong whatever these compute."""

    @classmethod
    def of(cls, trial: Trial) -> Blame:
        """For a trial with a difference."""
        comparison = trial.comparison
        assert comparison is not None, "it has a counterexample"
        one, many = trial.boxes
        kept = np.intersect1d(one.numbers(), many.numbers())
        suspects = (*one.other_than(kept), *many.other_than(kept))
        sure = comparison.differing()
        for redraw in range(1, _REDRAWS + 1 if suspects else 1):
            changed = _changed(trial, boxes=(one.again(redraw, kept), many.again(redraw, kept)))
            sure = both(sure, neither(changed))
        if comparison.counterexample(sure) is not None:
            sure = both(sure, neither(_changed_by_constants(trial)))
        return cls(trial, kept, suspects, sure, comparison.counterexample(sure))

    def is_of_unwritten(self) -> bool:
        """Whether what is wrong depends on what nothing has written."""
        changed = _changed(self.trial, garbage=1)
        return any(np.any(each) for each in both(self.sure, changed))

    def ops(self) -> tuple[Op, ...]:
        """The ops on which what is wrong depends."""
        if len(self.suspects) > _MOST_SUSPECTS:
            return self.suspects
        return tuple(filter(self._depends_on, self.suspects)) or self.suspects

    def _depends_on(self, op: Op) -> bool:
        one, many = (each.again(1, self.kept, op) for each in self.trial.boxes)
        changed = _changed(self.trial, boxes=(one, many))
        assert self.trial.comparison is not None
        return any(np.any(each) for each in both(self.trial.comparison.differing(), changed))


def _changed(trial: Trial, **changes: Any) -> Marks:
    """The elements that become others with other draws."""
    before, after = trial.comparison, trial.again(**changes).comparison
    assert before is not None
    if after is None:
        return [np.ones_like(each) for each in before.differing()]
    return before.changed(after)


def _changed_by_constants(trial: Trial) -> Marks:
    """The elements that depend on what functions give for constants, which one program has as such.

    A program in which a compiler has folded `acos(0)` has another constant there. What depends on
    the arguments in one program, and in the other does not, differs whatever the constants are.
    """
    first, second = (Calls(), Calls()), (Calls(), Calls())
    none = np.zeros(0, np.uint64)
    one, many = (each.again(1, none) for each in trial.boxes)  # no compiler folds those
    here = trial.again(calls=first).comparison
    there = trial.again(calls=second, inputs=1, boxes=(one, many)).comparison
    if here is None or there is None:
        return [np.zeros((), bool) for _ in trial.pair.local.result_types]
    before, after = [each.made() for each in first], [each.made() for each in second]
    of_constants = [np.intersect1d(before[at], after[at]) for at in range(2)]
    suspects = np.setdiff1d(
        np.union1d(of_constants[0], of_constants[1]), np.intersect1d(before[0], before[1])
    )
    if not suspects.size:
        return [np.zeros((), bool) for _ in trial.pair.local.result_types]
    changed = _changed(trial, calls=(Calls(suspects, 1), Calls(suspects, 1)))
    return both(changed, neither(here.changed_in_one(there)))
