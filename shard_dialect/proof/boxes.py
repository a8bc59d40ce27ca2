"""Ops of which only the operands are known, and which results depend on them.

A call of such an op on operands that the other program has, too, gives both the same: it is a
function as good as any other. A call that only one program makes may be another one's in another
form, on a shard for instance. To see what depends on such calls, a program is evaluated again at
the same point, with other results of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from shard_dialect.proof.field import Elements
from shard_dialect.proof.reading import Op


@dataclass
class Boxes:
    """The calls of ops that are not known, in one evaluation of a program."""

    redraw: int = 0
    """By which number the results of calls are drawn again; 0 leaves them as they are."""
    kept: Elements = field(default_factory=lambda: np.zeros(0, np.uint64))
    """The numbers of calls whose results stay."""
    only: Op | None = None
    """The op whose calls are drawn again, if not those of all."""
    calls: dict[int, tuple[Op, list[Elements]]] = field(default_factory=dict)
    """For each op, by identity, the numbers of its calls: of what it is and its operands."""

    def note(self, op: Op, numbers: Elements) -> None:
        """The op is called so, on each device and at each place."""
        self.calls.setdefault(id(op), (op, []))[1].append(np.unique(numbers))

    def is_redrawn(self, op: Op, numbers: Elements) -> Elements:
        """Which of its calls give something else."""
        if not self.redraw or (self.only is not None and op is not self.only):
            return np.zeros_like(numbers, bool)
        return ~np.isin(numbers, self.kept)

    @property
    def ops(self) -> list[Op]:
        """The ops that are called."""
        return [op for op, _ in self.calls.values()]

    def numbers(self) -> Elements:
        """Those of all calls."""
        listed = [each for _, several in self.calls.values() for each in several]
        return np.unique(np.concatenate([np.zeros(0, np.uint64), *listed]))

    def other_than(self, kept: Elements) -> Iterator[Op]:
        """The ops of which not all calls are among these."""
        for op, numbers in self.calls.values():
            if not all(np.isin(each, kept).all() for each in numbers):
                yield op

    def again(self, redraw: int, kept: Elements, only: Op | None = None) -> Boxes:
        """Those of another evaluation, with other results of all but some calls."""
        return replace(self, redraw=redraw, kept=kept, only=only, calls={})
