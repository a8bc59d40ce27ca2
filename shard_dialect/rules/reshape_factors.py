"""Reshapes of any dialect: the two shapes decomposed into as many common factors as possible.

    [8, 6] -> [2, 4, 6]    ([ab, c]) -> ([a, b, c])
    [4, 6] -> [3, 8]       ([a, de]) -> ([b, ce]) whole={a, b, c, d}

Where the shapes share no further factor, the shape with fewer elements decomposed so far gets a
factor of its own. Such factors are whole: their shards are not shards of the other shape. Source:
Shardy's rule of stablehlo.reshape.
"""

from __future__ import annotations

from math import gcd

from shard_dialect.model import ShardingRule
from shard_dialect.model.sharding import Shape


def reshaped(operand: Shape, result: Shape) -> ShardingRule:
    """The rule of a reshape; the reshape of an empty tensor has no factors."""
    if 0 in operand:
        return ShardingRule((), (((),) * len(operand),), (((),) * len(result),), role="pass")
    sides = (_Side(operand), _Side(result))
    sizes: list[int] = []

    def add(size: int, *to: _Side) -> None:
        for side in to:
            side.add(len(sizes), size)
        sizes.append(size)

    while sides[0].advance() | sides[1].advance():
        behind, ahead = sorted(sides, key=lambda side: side.done)
        common = gcd(behind.left, ahead.left)
        missing = ahead.done // behind.done
        if behind.done == ahead.done and common > 1:
            add(common, *sides)
        elif behind.done == ahead.done:
            add(behind.left, behind)
            add(ahead.left, ahead)
        elif ahead.done % behind.done == 0 and behind.left % missing == 0:
            add(missing, behind)
        elif behind.left > common:
            add(behind.left // common, behind)
        else:
            add(behind.left, behind)
    first, second = ({factor for dim in side.dims for factor in dim} for side in sides)
    operands, results = ((tuple(side.dims),) for side in sides)
    return ShardingRule(
        tuple(sizes), operands, results, need_replication=frozenset(first ^ second), role="pass"
    )


class _Side:
    """One of the shapes: `done` elements have factors, `left` is left of the current dimension."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.dims: list[tuple[int, ...]] = [() for _ in shape]
        self.done = self.left = 1
        self._dim = -1

    def advance(self) -> bool:
        """Go to the next dimension if nothing is left of this one; returns whether any is left."""
        while self.left == 1 and self._dim + 1 < len(self.shape):
            self._dim += 1
            self.left = self.shape[self._dim]
        return self.left > 1

    def add(self, factor: int, size: int) -> None:
        self.dims[self._dim] += (factor,)
        self.done *= size
        self.left //= size
