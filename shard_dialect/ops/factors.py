"""Builds a rule factor by factor, each with its dimension in every tensor.

    factors = Factors(query)                  # of [4, 8] x [8, 2] -> [4, 2]
    factors.add(4, (0, None), (0,))
    factors.add(2, (None, 1), (1,))
    factors.add(8, (1, 0), kind="sum")
    factors.rule()                            # ([a, c], [c, b]) -> ([a, b]) reduction={c: sum}

The order of the factors matters: propagation breaks ties by it. `Query` is the argument of rule
functions.

`elementwise` and `no_factors` are rules that dialects share. `reshaped` is the rule of reshapes:
the two shapes decomposed into as many common factors as possible.

    [8, 6] -> [2, 4, 6]    ([ab, c]) -> ([a, b, c])
    [4, 6] -> [3, 8]       ([a, de]) -> ([b, ce]) whole={a, b, c, d}

Where the shapes share no further factor, the shape with fewer elements decomposed so far gets a
factor of its own. Such factors are whole: their shards are not shards of the other shape. Source:
Shardy's rule of stablehlo.reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Reduction, ShardingRule, Window, Windows
from shard_dialect.model.factor_projection import Dims
from shard_dialect.model.rule import Role
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True, slots=True)
class Query:
    """One op, and the global shape of each of its operands and results.

    A shape is `None` where the value is not a tensor.
    """

    op: ir.Operation
    operands: tuple[Shape | None, ...]
    results: tuple[Shape | None, ...]

    @classmethod
    def of(cls, op: ir.Operation) -> Query | None:
        """The query about `op`, or `None` if one of its tensors has an unknown size."""
        types = [value.type for value in (*op.operands, *op.results)]
        if any(
            isinstance(type_, ir.UnrankedTensorType)
            or (isinstance(type_, ir.RankedTensorType) and not type_.has_static_shape)
            for type_ in types
        ):
            return None
        shapes = tuple(
            tuple(type_.shape) if isinstance(type_, ir.RankedTensorType) else None
            for type_ in types
        )
        count = len(op.operands)
        return cls(op, shapes[:count], shapes[count:])


Kind = Reduction | Literal["passed", "need_replication", "permuted"]
"""A passed factor may be split freely, one that needs replication must not be. Nor may a permuted
one, because results belong to other devices' shards. Splitting a reduced one makes the results
partial."""
FactorDims = Sequence[int | None]
"""A factor's dimension in each operand, or each result; `None`, or left out, where it has none."""


class Factors:
    """The factors of an op's rule so far.

    `operands` and `results` are the op's global shapes, () for values that are not tensors.
    """

    def __init__(self, query: Query) -> None:
        self.op = query.op
        self.operands: tuple[Shape, ...] = tuple(shape or () for shape in query.operands)
        self.results: tuple[Shape, ...] = tuple(shape or () for shape in query.results)
        self._sizes: list[int] = []
        self._operands = [_empty_dims(shape) for shape in query.operands]
        self._results = [_empty_dims(shape) for shape in query.results]
        self._reductions: list[tuple[int, Reduction]] = []
        self._need_replication: set[int] = set()
        self._permuted: set[int] = set()
        self._blocked: set[int] = set()
        self._windows: list[Window] = []

    def add(
        self,
        size: int,
        operands: FactorDims,
        results: FactorDims = (),
        kind: Kind = "passed",
        *,
        blocked: bool = False,
        windows: Sequence[Windows | None] = (),
    ) -> None:
        """Add a factor, minor to those before it in the same dimensions.

        A factor that is permuted or needs replication may be split if `windows` has the windows in
        which each operand is read, `None` for an operand that is read without windows.
        """
        factor = len(self._sizes)
        self._sizes.append(size)
        for tensors, tensor_dims in ((self._operands, operands), (self._results, results)):
            for dims, dim in zip(tensors, tensor_dims, strict=False):
                if dims is not None and dim is not None and (size != 1 or not dims[dim]):
                    dims[dim] += (factor,)
        if kind == "need_replication":
            self._need_replication.add(factor)
        elif kind == "permuted":
            self._permuted.add(factor)
        elif kind != "passed":
            self._reductions.append((factor, kind))
        if blocked:
            self._blocked.add(factor)
        self._windows += [
            Window(factor, number, dim, over)
            for number, (dim, over) in enumerate(zip(operands, windows, strict=False))
            if dim is not None and over is not None
        ]

    def add_to_all(
        self,
        dim: int,
        size: int,
        kind: Kind = "passed",
        *,
        blocked: bool = False,
        windows: Sequence[Windows | None] = (),
    ) -> None:
        """Add a factor that is dimension `dim` of every tensor of sufficient rank."""
        operands, results = (
            [dim if dims is not None and dim < len(dims) else None for dims in tensors]
            for tensors in (self._operands, self._results)
        )
        self.add(size, operands, results, kind, blocked=blocked, windows=windows)

    def rule(
        self, role: Role = "other", inits: tuple[int, ...] = (), products: int | None = None
    ) -> ShardingRule:
        """The sharding rule of these factors."""
        return ShardingRule(
            tuple(self._sizes),
            tuple(map(_as_tuples, self._operands)),
            tuple(map(_as_tuples, self._results)),
            tuple(self._reductions),
            frozenset(self._need_replication),
            frozenset(self._permuted),
            frozenset(self._blocked),
            inits,
            role,
            tuple(self._windows),
            products=products,
        )


def _empty_dims(shape: Shape | None) -> list[tuple[int, ...]] | None:
    return None if shape is None else [()] * len(shape)


def _as_tuples(dims: list[tuple[int, ...]] | None) -> Dims | None:
    return None if dims is None else tuple(dims)


def elementwise(query: Query) -> ShardingRule | None:
    """One factor per dimension, shared by all tensors; operands may have dimensions of size 1.

    Scalar operands (`arith.select`'s condition) have no factors. `None` where the ranks differ.
    """
    shape = query.results[0]
    if shape is None:
        return None
    factors = tuple((dim,) for dim in range(len(shape)))

    def dims(other: Shape | None) -> tuple[tuple[int, ...], ...] | None:
        if other is None:
            return None
        return tuple(
            factor if size == full else ()
            for factor, size, full in zip(factors, other, shape, strict=True)
        )

    if any(other is not None and len(other) != len(shape) for other in query.operands):
        return None
    return ShardingRule(shape, tuple(map(dims, query.operands)), tuple(map(dims, query.results)))


def no_factors(query: Query) -> ShardingRule:
    """A rule that splits nothing, for ops on single elements or on state kept between runs."""
    operands, results = (
        tuple(None if shape is None else ((),) * len(shape) for shape in shapes)
        for shapes in (query.operands, query.results)
    )
    return ShardingRule((), operands, results)


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

    # `|`, since both sides have to advance.
    while sides[0].advance() | sides[1].advance():
        behind, ahead = sorted(sides, key=lambda side: side.done)
        common = gcd(behind.left, ahead.left)
        missing = ahead.done // behind.done
        if behind.done == ahead.done and common > 1:
            add(common, *sides)
        elif behind.done == ahead.done:
            # No common part, as of 4x9 and 9x4: a factor of one side alone needs replication.
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
