"""Builds a rule factor by factor, each with its dimension in every tensor.

    factors = Factors(query)                  # of [4, 8] x [8, 2] -> [4, 2]
    factors.add(4, (0, None), (0,))
    factors.add(2, (None, 1), (1,))
    factors.add(8, (1, 0), kind="sum")
    factors.rule()                            # ([a, c], [c, b]) -> ([a, b]) reduction={c: sum}

The order of the factors matters: propagation breaks ties by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from shard_dialect.model import Reduction, ShardingRule, Window, Windows
from shard_dialect.model.factor_projection import Dims
from shard_dialect.model.rule import Role
from shard_dialect.model.sharding import Shape
from shard_dialect.rules.rule_query import Query

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

    def rule(self, role: Role = "other", inits: tuple[int, ...] = ()) -> ShardingRule:
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
        )


def _empty_dims(shape: Shape | None) -> list[tuple[int, ...]] | None:
    return None if shape is None else [()] * len(shape)


def _as_tuples(dims: list[tuple[int, ...]] | None) -> Dims | None:
    return None if dims is None else tuple(dims)
