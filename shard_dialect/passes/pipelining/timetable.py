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

Schedules are interleaved where a stage has several chunks of the layers: of S stages, chunk c of
stage s is the (cS + s)th part of the program, and the last stage passes on to the first one. A
stage works on S microbatches with a chunk, then on these with the next one. A tick is shorter by
the number of chunks, and so is the time in which the pipeline fills. The forward passes of two
chunks, a and b:

    tick      0   1   2   3   4   5   6   7   8
    stage 0   0a  1a  0b  1b  2a  3a  2b  3b
    stage 1       0a  1a  0b  1b  2a  3a  2b  3b

Sources: Huang et al., GPipe (arXiv 1811.06965); Narayanan et al., PipeDream (arXiv 1806.03377),
there called 1F1B; Narayanan et al., Efficient Large-Scale Language Model Training (arXiv
2104.04473), section 2.2.2, on chunks; Qi et al., Zero Bubble Pipeline Parallelism (arXiv
2401.10241).
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
    """What one stage does for each microbatch: the forward pass of one of its chunks, say."""

    stage: int
    kind: Kind
    chunk: int = 0


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
    chunks: int = 1

    @property
    def round(self) -> int:
        """The ticks in which a stage works on as many microbatches as there are stages."""
        return self.stages * self.chunks

    def first(self, each: Pass) -> int:
        """The tick in which a pass works on microbatch 0."""
        last, part = self.round - 1, each.chunk * self.stages + each.stage
        if each.kind == "forward":
            return part
        if each.kind == "weights":
            return 2 * last - each.chunk * self.stages
        return 2 * last - part + (self._ticks if self.schedule == "gpipe" else 0)

    def after_first(self, microbatch: int) -> int:
        """The ticks from a pass's first microbatch to another one."""
        rounds, rest = divmod(microbatch, self.stages)
        return rounds * self.round + rest

    @property
    def _ticks(self) -> int:
        """The ticks from the first microbatch of a pass to after its last one."""
        return self.after_first(self.microbatches - 1) + 1

    def turn(self, each: Pass) -> int:
        """Which chunk of its stage, in the order in which they come, a pass is.

        In tick t, a stage does the pass whose turn is (t + S - first % S) / S modulo the chunks,
        where the stages are S, and `first` is that of any of its passes of the kind.
        """
        return (self.first(each) // self.stages + 1) % self.chunks

    def age(self, maker: Pass, reader: Pass) -> int:
        """The number of ticks after which `reader` reads what `maker` made of a microbatch."""
        return self.first(reader) - self.first(maker)

    def waiting(self, age: int) -> int:
        """The most microbatches, of all that a pass works on, in as many ticks as `age`."""
        rounds, rest = divmod(age, self.round)
        return rounds * self.stages + min(rest, self.stages)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in order."""
        bounds = set()
        for kind in {each.kind for each in self.passes}:
            firsts = [self.first(each) for each in self.passes if each.kind == kind]
            bounds |= {min(firsts), max(firsts) + self._ticks}
        return tuple(
            Phase(begin, end, tuple(each for each in self.passes if self._works(each, begin, end)))
            for begin, end in pairwise(sorted(bounds))
        )

    def _works(self, each: Pass, begin: int, end: int) -> bool:
        first = self.first(each)
        return first < end and begin < first + self._ticks
