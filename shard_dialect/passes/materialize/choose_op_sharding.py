"""How to split one op's factors so that the fewest bytes move.

The candidates for a factor are the splits that its operands and results have or want. Every
combination that uses no axis twice is priced: the reshards of the operands from the versions that
there are, those of the results to what is wanted, and a product's arithmetic on each device. Equal
prices are settled by the most devices at work, then by the order of the factors, so that the choice
is the same at every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product, takewhile
from math import inf, prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.numbered import Op
from shard_dialect.model import (
    Assignment,
    Grid,
    Sharding,
    ShardingError,
    ShardingRule,
)
from shard_dialect.model.axis import Axes
from shard_dialect.model.rule import Dims
from shard_dialect.passes.materialize.resharded_values import ReshardedValues
from shard_dialect.rules.uneven import may_be_uneven

FLOPS_PER_BYTE = 100
"""Arithmetic that is as dear as moving a byte: products are not repeated to save a few bytes."""

MAX_COMBINATIONS = 20_000
"""Past this many, the factors keep only their longest candidates."""


@dataclass(frozen=True)
class Choice:
    """What each operand must be and each result is; `None` for what is no tensor.

    `late_inits` are (result, operand place, produced) of the inits to be combined after the
    reduction; their operands are `None` here.
    """

    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    late_inits: tuple[tuple[int, int, Sharding], ...] = ()


def choose(
    op: Op,
    rule: ShardingRule,
    resharded: ReshardedValues,
    wanted: Mapping[int, Sharding],
    loops: Assignment | None = None,
) -> Choice:
    """The cheapest choice for `op`, or that of `loops`. Raises `ShardError` if there is none."""
    problem = _Problem(op, rule, resharded, wanted, loops)
    best: tuple[float, int, Assignment] | None = None
    for assignment in problem.assignments():
        price = problem.price(assignment)
        devices = prod(resharded.grid.axes_size(axes) for axes in assignment)
        if price < inf and (best is None or (price, -devices) < (best[0], -best[1])):
            best = (price, devices, assignment)
    if best is None:
        raise ShardError(
            f"'{op.name}' op cannot give its results the shardings "
            f"{', '.join(str(wanted[value]) for value in op.results if value in wanted)} "
            f"by its rule {rule}"
            + ("; to be partial it must start from a fill with the identity" if rule.inits else "")
        )
    return problem.choice(best[2])


@dataclass(frozen=True)
class _Problem:
    """One op, the versions of its operands that there are, and how its results are wanted."""

    op: Op
    rule: ShardingRule
    resharded: ReshardedValues
    wanted: Mapping[int, Sharding]
    loops: Assignment | None

    def assignments(self) -> Iterator[Assignment]:
        """The combinations of candidates that use no axis twice and reduce in one way."""
        if self.loops is not None:
            yield self.loops
            return
        candidates = self._candidates()
        if prod(map(len, candidates)) > MAX_COMBINATIONS:
            candidates = [[each[-1], ()] if each[-1] else [()] for each in candidates]
        for combination in product(*candidates):
            axes = [axis for each in combination for axis in each]
            kinds = {kind for factor, kind in self.rule.reductions if combination[factor]}
            if len(axes) == len(set(axes)) and len(kinds) <= 1:
                yield combination

    def _candidates(self) -> list[list[Axes]]:
        """For each factor the splits worth trying, the longest last."""
        rule, grid = self.rule, self.resharded.grid
        found: list[set[Axes]] = [{()} for _ in rule.sizes]
        uneven = may_be_uneven(self.op.handle, rule)
        for factor, axes in self._offers():
            if factor in rule.unsplit:
                continue
            found[factor].update(_that_divide(rule.sizes[factor], axes, grid))
            if factor in uneven:
                found[factor].add(axes)
        for value in self.op.results:
            if value in self.wanted:
                partial = self.wanted[value].partial
                for factor, _ in rule.reductions:
                    found[factor].update(_that_divide(rule.sizes[factor], partial, grid))
        if self.rule.is_product:
            self._offer_instead(found)
        return [sorted(each, key=lambda axes: (len(axes), axes)) for each in found]

    def _offer_instead(self, found: list[set[Axes]]) -> None:
        """Offer the axes of a sum to the kept factors: the result is in shards then, not parts."""
        rule, grid = self.rule, self.resharded.grid
        summed = {axes[:1] for factor, _ in rule.reductions for axes in found[factor] if axes}
        for factor, size in enumerate(rule.sizes):
            if factor in rule.unsplit or factor in rule.reduction_of:
                continue
            found[factor] |= {axes for axes in summed if size % grid.axes_size(axes) == 0}

    def _offers(self) -> Iterator[tuple[int, Axes]]:
        """Factors with the axes that an operand or a result splits them by."""
        for value, dims in (
            *zip(self.op.operands, self.rule.cut_operands, strict=True),
            *zip(self.op.results, self.rule.results, strict=True),
        ):
            if dims is None or value not in self.wanted:
                continue
            for sharding in (self.wanted[value], *self.resharded.shardings(value)):
                yield from self._split_by(dims, sharding)

    def _split_by(self, dims: Dims, sharding: Sharding) -> Iterator[tuple[int, Axes]]:
        """How a tensor made of `dims` that lies so splits each factor, in whole grid axes."""
        for dim, axes in zip(dims, sharding.split_axes, strict=True):
            for count in range(len(axes), 0, -1) if dim else ():
                try:
                    found = self.rule.factors_of(
                        (dim,), Sharding(sharding.grid, (axes[:count],)), self.resharded.grid
                    )
                except ShardingError:
                    continue
                for factor, each in found.items():
                    yield factor, tuple(takewhile(lambda axis: isinstance(axis, int), each))
                break

    def choice(self, assignment: Assignment) -> Choice:
        """What `assignment` asks of the operands and makes of the results."""
        rule, grid = self.rule, self.resharded.grid
        operands = [rule.operand_sharding(i, assignment, grid) for i in range(len(rule.operands))]
        results = tuple(rule.result_sharding(i, assignment, grid) for i in range(len(rule.results)))
        late = []
        for result, place in enumerate(rule.inits):
            produced = results[result]
            if produced is None or not produced.partial:
                continue
            if self.resharded.can_be_partial(self.op.operands[place], produced):
                operands[place] = produced
            else:
                operands[place] = None
                late.append((self.op.results[result], place, produced))
        return Choice(tuple(operands), results, tuple(late))

    def price(self, assignment: Assignment) -> float:
        """The bytes that this choice moves, and those that its arithmetic is worth.

        Infinite if there is no plan for it.
        """
        resharded = self.resharded
        try:
            choice = self.choice(assignment)
            total = sum(
                resharded.price(value, target)
                for value, target in zip(self.op.operands, choice.operands, strict=True)
                if target is not None
            )
            total += sum(
                resharded.plan(value, produced, self.wanted[value]).bytes_moved
                for value, produced in zip(self.op.results, choice.results, strict=True)
                if produced is not None
            )
            for value, place, _ in choice.late_inits:
                if self.wanted[value].partial:
                    return inf
                total += resharded.price(self.op.operands[place], self.wanted[value])
        except ShardingError:
            return inf
        return total + self.rule.flops(assignment, resharded.grid) / FLOPS_PER_BYTE


def _that_divide(size: int, axes: Axes, grid: Grid) -> Iterator[Axes]:
    """The axes, and each leading part of them, if they cut `size` evenly."""
    for count in range(1, len(axes) + 1):
        if size % grid.axes_size(axes[:count]) == 0:
            yield axes[:count]
