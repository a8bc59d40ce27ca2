"""From a solution of the sharding program to a plan: the annotations with which the passes follow.

    solution    %x [[0], []], %w1 [[], [1]], %h [[0], [1]], %w2 [[1], []], %y [[0], []]
    plan        %x, %w1, %w2, %y        %h follows: propagation gives it the same

All arguments and results are annotated as the solution has them. Where propagation would then give
a value inside the function another sharding, it is annotated, too, the first such one in the order
of the program that is not small beside others; and so on, until none is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from shard_dialect.model import Annotation, Sharding
from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.search.choices.op_strategies import strategies
from shard_dialect.search.choices.sharding_program import ShardingProgram, Solution
from shard_dialect.search.plan import Plan
from shard_dialect.search.searched_function import SearchedFunction

MOST_CLASSES = 8
"""The most classes of values inside a function that a plan annotates."""
_SMALL = 0.5
"""A class of values is not annotated while another one has twice its bytes, or more."""


@dataclass(frozen=True)
class PlanMaker:
    """Makes plans of a program's solutions; only tensors in `free` of the boundary get any."""

    function: SearchedFunction
    program: ShardingProgram
    free: frozenset[int]

    def plan(self, solution: Solution) -> Plan:
        """The plan whose annotations lead to the solution, or near to it."""
        of_value = self.program.classes.of_value
        splits = {
            tensor: solution.shardings[of_value[value]].split_axes
            for tensor, value in enumerate(self.function.boundary)
            if tensor in self.free and of_value[value] in solution.shardings
        }
        plan = Plan().with_splits(splits)
        return plan.with_inner(
            {value: each.split_axes for value, each in self._inner(solution).items()}
        )

    def _inner(self, solution: Solution) -> dict[int, Sharding]:
        """The values inside the function to annotate."""
        wanted = self._wanted(solution)
        boundary = {
            value: solution.shardings[self._class(value)]
            for value in self.function.boundary
            if self._class(value) in solution.shardings
        }
        chosen: dict[int, Sharding] = {}
        for _ in range(MOST_CLASSES):
            annotations = {value: Annotation(each) for value, each in (boundary | chosen).items()}
            known = self.function.propagated(annotations)
            others = {
                number: sharding
                for number, sharding in wanted.items()
                if any(
                    value not in chosen and not _is(known(value), sharding)
                    for value in self._members[number]
                )
            }
            if not others:
                break
            most = max(map(self._bytes, others))
            number = next(each for each in others if self._bytes(each) >= _SMALL * most)
            chosen.update(dict.fromkeys(self._members[number], others[number]))
        return chosen

    def _wanted(self, solution: Solution) -> Mapping[int, Sharding]:
        """The sharding in which ops make or read each class of values, if it is one."""
        read: dict[int, set[Sharding]] = defaultdict(set)
        grid = self.program.prices.grid
        for op, modes in zip(self.program.classes.ops, solution.modes, strict=True):
            (strategy,) = strategies(op.prepared, grid, tuple((mode,) for mode in modes))
            for value, sharding in zip(op.operands, strategy.operands, strict=True):
                if sharding is not None:
                    read[value].add(sharding.bare)
        found = {}
        for number in self._members:
            sharding = solution.shardings.get(number)
            if sharding is not None and sharding.partial:
                sharding = next(iter(read[number])) if len(read[number]) == 1 else None
            if sharding is not None and not sharding.partial:
                found[number] = sharding.bare
        return found

    @cached_property
    def _members(self) -> Mapping[int, list[int]]:
        """The values that can be annotated of each class, in the order of the program."""
        members: dict[int, list[int]] = defaultdict(list)
        for value, _ in sorted(self.function.sites.items(), key=lambda each: each[1]):
            if value != NO_TENSOR and self.program.classes.values[self._class(value)].shape:
                members[self._class(value)].append(value)
        return members

    def _class(self, value: int) -> int:
        return self.program.classes.of_value[value]

    def _bytes(self, number: int) -> int:
        value = self.program.classes.values[number]
        return value.bytes * value.count


def _is(known: Annotation | None, sharding: Sharding) -> bool:
    """Whether propagation has given a value this sharding."""
    axes = known.sharding.split_axes if known else ((),) * sharding.rank
    return axes == sharding.split_axes
