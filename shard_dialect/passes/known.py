"""What propagation knows of each value while it runs."""

from __future__ import annotations

from dataclasses import replace

from shard_dialect.ir.program import Function
from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.model.axis import Axes, Axis
from shard_dialect.passes.facts import Facts, Hint


class State:
    """What is known so far: for each value the axes of each dimension, and which are facts."""

    def __init__(self, function: Function, facts: Facts, grid: Grid) -> None:
        self.grid = grid
        self.facts = facts.known
        self.hints = facts.hints
        self.shapes = [value.shape for value in function.values]
        self.split: list[list[Axes]] = [[()] * len(value.shape or ()) for value in function.values]
        self.closed: list[set[int]] = [set() for _ in function.values]
        self.barred: list[set[Axis]] = [set() for _ in function.values]
        self._withheld: dict[int, list[tuple[int, int]]] = {}
        for value, said in facts.known.items():
            self.take(value, said)

    def take(self, value: int, said: Annotation) -> None:
        """Let the value lie so, and change no more of it than `said` leaves open."""
        self.split[value] = list(said.sharding.split_axes)
        self.closed[value] = set(range(said.sharding.rank)) - set(said.open)
        self.barred[value] = {*said.replicated, *said.sharding.partial}
        for dim, priority in enumerate(said.priorities):
            if priority:
                self._withheld.setdefault(priority, []).append((value, dim))
                self.barred[value] |= set(self.split[value][dim])
                self.split[value][dim] = ()
                self.closed[value].add(dim)

    def priorities(self) -> list[int]:
        """The priorities of dimensions that wait for their turn, the first one first."""
        return sorted(self._withheld)

    def release(self, priority: int) -> None:
        """Let the dimensions of this priority lie as they are annotated, and grow if they may.

        Until then nothing else of their tensors was split along their axes.
        """
        for value, dim in self._withheld[priority]:
            said = self.facts[value]
            axes = said.sharding.split_axes[dim]
            self.split[value][dim] = axes
            self.barred[value] -= set(axes)
            if dim in said.open:
                self.closed[value].discard(dim)

    def follow(self, hint: Hint) -> bool:
        """Let the value lie as the hint has it, as far as it is open to; whether it does."""
        value, said = hint.value, hint.said
        wanted, split = said.sharding.split_axes, self.split[value]
        longest = []
        for dim, (have, want) in enumerate(zip(split, wanted, strict=True)):
            shorter, longer = sorted((have, want), key=len)
            may_differ = dim not in self.closed[value] if longer == want else dim in said.open
            if longer[: len(shorter)] != shorter or (have != want and not may_differ):
                return False
            longest.append(longer)
        used = [axis for axes in longest for axis in axes]
        if said.sharding.partial or said.grid != self.grid.name or len(set(used)) < len(used):
            return False
        if set(used) & (self.barred[value] | set(said.replicated)):
            return False
        self.split[value] = longest
        self.closed[value] |= set(range(said.sharding.rank)) - set(said.open)
        self.barred[value] |= set(said.replicated)
        return True

    def sharding(self, value: int) -> Sharding:
        split = tuple(self.split[value])
        if value in self.facts:
            return replace(self.facts[value].sharding, split_axes=split)
        return Sharding(self.grid.name, split)
