"""Integer programs, built variable by variable and solved by HiGHS, by way of scipy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import MissingExtra

GAP = 1e-6
"""A solution is the best one if no other can be better by this part of it."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The best solution that was found."""

    values: NDArray[np.float64]
    """Of each variable."""
    objective: float
    bound: float
    """No solution has less."""


@dataclass
class IntegerProgram:
    """Minimize the sum of `cost * variable`; variables are from 0 to 1, or from 0 on."""

    costs: list[float] = field(default_factory=list)
    """Of each variable."""
    _limits: list[float] = field(default_factory=list)
    _choices: list[int] = field(default_factory=list)
    _lower: list[float] = field(default_factory=list)
    _upper: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _indices: list[int] = field(default_factory=list)
    _factors: list[float] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of variables."""
        return len(self.costs)

    def variable(self, cost: float = 0.0, most: float = 1.0) -> int:
        """Add a variable from 0 to `most`; returns its number."""
        self.costs.append(cost)
        self._limits.append(most)
        return len(self.costs) - 1

    def choice(self, cost: float = 0.0) -> int:
        """Add a variable that is 0 or 1; returns its number."""
        number = self.variable(cost)
        self._choices.append(number)
        return number

    def row(
        self,
        variables: Sequence[int],
        factors: Sequence[float],
        lower: float = -inf,
        upper: float = inf,
    ) -> None:
        """Bound the sum of `factor * variable`."""
        self._indices += variables
        self._factors += factors
        self._starts.append(len(self._indices))
        self._lower.append(lower)
        self._upper.append(upper)

    def equal(self, one: Sequence[int], other: Sequence[int]) -> None:
        """The sums of two lists of variables are equal."""
        self.row([*one, *other], [1.0] * len(one) + [-1.0] * len(other), 0.0, 0.0)

    def solve(self, seconds: float, *, relaxed: bool = False) -> Solved | None:
        """The best solution that is found in this time; `None` if none is.

        If `relaxed`, choices may be anything from 0 to 1, which is much faster: the linear program.
        Deterministic where the time suffices. Raises `ShardError` if scipy is not installed.
        """
        optimize, sparse = _scipy()
        shape = len(self._lower), len(self.costs)
        matrix = sparse.csr_array((self._factors, self._indices, self._starts), shape)
        kinds = np.zeros(len(self.costs))
        if not relaxed:
            kinds[self._choices] = 1
        found = optimize.milp(
            np.asarray(self.costs),
            integrality=kinds,
            bounds=optimize.Bounds(0.0, np.asarray(self._limits)),
            constraints=optimize.LinearConstraint(matrix, self._lower, self._upper),
            options={"time_limit": max(seconds, 0.1), "mip_rel_gap": GAP},
        )
        if found.x is None:
            return None
        is_best = found.status == 0
        bound = found.fun if is_best and relaxed else found.mip_dual_bound
        if bound is None:  # there was nothing to choose
            bound = found.fun if is_best else 0.0
        return Solved(found.x, found.fun, bound)


def _scipy() -> tuple[Any, Any]:
    try:
        from scipy import optimize, sparse
    except ImportError:
        raise MissingExtra("scipy", "search") from None
    return optimize, sparse


def is_available() -> bool:
    """Whether scipy is installed, which has HiGHS."""
    try:
        _scipy()
    except MissingExtra:
        return False
    return True
