"""The schedule of a pipeline: the tick in which each stage works on each microbatch.

In a tick each stage does at most one pass of each kind, first the forward pass, then the backward
pass, each on one microbatch. Backward passes are in brackets:

    gpipe     tick      0   1   2   3   4   5   6   7   8   9  10  11
              stage 0   0   1   2   3                  [0] [1] [2] [3]
              stage 1       0   1   2   3          [0] [1] [2] [3]
              stage 2           0   1   2   3  [0] [1] [2] [3]

    1f1b      tick      0   1   2       3       4       5      6   7
              stage 0   0   1   2       3      [0]     [1]    [2] [3]
              stage 1       0   1      2 [0]   3 [1]    [2]   [3]
              stage 2           0 [0]  1 [1]   2 [2]   3 [3]

A pass works on a microbatch one tick after the pass that it waits for. So a value is read a fixed
number of ticks after it is made, its age: stage s of S keeps 2(S-1-s) microbatches for its backward
pass, and with `gpipe` all of them. Consecutive ticks in which passes of the same kinds are done are
a phase. With `1f1b` these are S-1 ticks of forward passes, one tick of both for each microbatch,
and S-1 ticks of backward passes: as long as if stages did not wait for the end of a tick.

With `zero-bubble` the products that make the gradients of weights, for which no other stage waits,
are a third kind of pass. They wait until the stages before have work, too, which shortens the ticks
in which the pipeline fills.

Sources: Huang et al., GPipe (arXiv 1811.06965); Narayanan et al., PipeDream (arXiv 1806.03377),
there called 1F1B; Qi et al., Zero Bubble Pipeline Parallelism (arXiv 2401.10241).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Schedule = Literal["gpipe", "1f1b", "zero-bubble"]
Kind = Literal["forward", "backward", "weights"]
KINDS: tuple[Kind, ...] = ("forward", "backward", "weights")
"""The kinds of passes in the order in which a stage does them in a tick."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one stage does for each microbatch: its forward pass, say."""

    stage: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class Phase:
    """The ticks from `begin` to before `end`, and the passes that work in some of them."""

    begin: int
    end: int
    passes: tuple[Pass, ...]


@dataclass(frozen=True)
class Timetable:
    """When each of the `passes` works on each microbatch.

    >>> both = [Pass(stage, kind) for kind in KINDS[:2] for stage in range(3)]
    >>> [(phase.begin, phase.end) for phase in Timetable("1f1b", 3, 4, both).phases]
    [(0, 2), (2, 6), (6, 8)]
    """

    schedule: Schedule
    stages: int
    microbatches: int
    passes: Sequence[Pass]

    def first(self, each: Pass) -> int:
        """The tick in which a pass works on microbatch 0; on each other one a tick later."""
        last = self.stages - 1
        if each.kind == "forward":
            return each.stage
        if each.kind == "weights":
            return 2 * last
        return last - each.stage + last + (self.microbatches if self.schedule == "gpipe" else 0)

    def age(self, maker: Pass, reader: Pass) -> int:
        """The number of ticks after which `reader` reads what `maker` made of a microbatch."""
        return self.first(reader) - self.first(maker)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in order."""
        bounds = set()
        for kind in {each.kind for each in self.passes}:
            firsts = [self.first(each) for each in self.passes if each.kind == kind]
            bounds |= {min(firsts), max(firsts) + self.microbatches}
        return tuple(
            Phase(begin, end, tuple(each for each in self.passes if self._works(each, begin, end)))
            for begin, end in pairwise(sorted(bounds))
        )

    def _works(self, each: Pass, begin: int, end: int) -> bool:
        first = self.first(each)
        return first < end and begin < first + self.microbatches
