"""The ways in which an op can be partitioned: for each grid axis, what it does to the op.

    dot_general ([i, k], [k, j]) -> ([i, j]) on a grid of one axis
        nothing   ([[], []], [[], []]) -> [[], []]
        i         ([[0], []], [[], []]) -> [[0], []]
        j         ([[], []], [[], [0]]) -> [[], [0]]
        k         ([[], [0]], [[0], []]) -> [[], [], [0]]        the result is partial
        {0}       ([[], [], [0]], [[], []]) -> [[], [], [0]]     operand 0 is partial

Shards are equal, and axes split a dimension in the order of the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from shard_dialect.model import Axes, Grid, Sharding, ShardingError
from shard_dialect.model.rule import Assignment
from shard_dialect.propagation.step import PreparedRule

Mode = int | frozenset[int] | None
"""What an axis splits: a factor, nothing, or the summands of the operands with these numbers."""
Modes = tuple[Mode, ...]
"""One for each axis of the grid."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to partition an op; `None` for what is no tensor, or may have any sharding."""

    modes: Modes
    assignment: Assignment
    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]


@lru_cache(maxsize=4096)
def modes_of(prepared: PreparedRule, carried: tuple[frozenset[int], ...]) -> tuple[Mode, ...]:
    """All that an axis may do to an op."""
    rule = prepared.rule
    factors = [
        factor
        for factor, size in enumerate(rule.sizes)
        if size > 1 and factor not in rule.unsplit and factor not in rule.blocked
    ]
    return (None, *factors, *carried)


@lru_cache(maxsize=16384)
def strategies(
    prepared: PreparedRule, grid: Grid, choices: tuple[Modes, ...]
) -> tuple[Strategy, ...]:
    """The strategies whose mode of each axis is one of the choices for it."""
    found = (_strategy(prepared, grid, modes) for modes in product(*choices))
    return tuple([each for each in found if each is not None])


def _strategy(prepared: PreparedRule, grid: Grid, modes: Modes) -> Strategy | None:
    rule = prepared.rule
    assignment: list[Axes] = [()] * len(rule.sizes)
    for axis, mode in enumerate(modes):
        if isinstance(mode, int):
            assignment[mode] = (*assignment[mode], axis)
    divides = all(
        size % grid.axes_size(axes) == 0 for size, axes in zip(rule.sizes, assignment, strict=True)
    )
    kinds = {kind for factor, kind in rule.reductions if assignment[factor]}
    partial = {axis: mode for axis, mode in enumerate(modes) if isinstance(mode, frozenset)}
    if not divides or len(kinds) > 1 or (partial and kinds - {"sum"}):
        return None
    split = tuple(assignment)
    try:
        operands = [rule.operand_sharding(i, split, grid) for i in range(len(rule.operands))]
        results = [rule.result_sharding(i, split, grid) for i in range(len(rule.results))]
    except ShardingError:  # strided shards, or windows of different layouts
        return None
    for axis, numbers in partial.items():
        operands = list(_with_partial(operands, numbers, axis))
        results = list(_with_partial(results, range(len(results)), axis))
    for number in rule.inits:  # a fill with the identity of the reduction, mostly
        operands[number] = None
    return Strategy(modes, split, tuple(operands), tuple(results))


def _with_partial(
    shardings: Sequence[Sharding | None], numbers: Sequence[int] | frozenset[int], axis: int
) -> Iterator[Sharding | None]:
    for number, each in enumerate(shardings):
        is_partial = each is not None and number in numbers
        yield each.with_partial((*each.partial, axis)) if each and is_partial else each
