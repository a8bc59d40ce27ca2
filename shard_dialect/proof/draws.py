"""Integers that are drawn: those among the arguments, and those that nothing has written."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shard_dialect.proof.machine import Data, wrapped
from shard_dialect.proof.reading import Type

POSITIONS = 4
"""So many trials draw positions in tensors only: indices, and what chooses a branch."""
TRIALS = 8
"""The others draw integers of all sizes, too."""


def integers(
    generator: np.random.Generator,
    type_: Type,
    shape: tuple[int, ...],
    sizes: Sequence[int],
    trial: int,
    bounds: Sequence[int] = (),
) -> Data:
    """Integers for a trial; `sizes` are those of tensors in which one may be a position.

    Programs may choose at `bounds`, too.
    """
    most = max(sizes)
    if not shape and trial < POSITIONS - 1:
        return np.array(trial)  # it may choose a branch: try each
    positions = generator.integers(0, most, shape)
    # The last trials choose for each argument, so that one may be wide beside one that is not.
    kind = trial if trial < POSITIONS + 2 else int(generator.integers(POSITIONS - 1, POSITIONS + 2))
    if kind < POSITIONS:
        return positions
    whole = generator.integers(-(1 << 63), (1 << 63) - 1, shape, np.int64, endpoint=True)
    if kind == POSITIONS:
        near = generator.integers(-most, 2 * most, shape)
        edges = generator.choice(_edges(type_, [*sizes, *bounds]), shape)
        which = generator.integers(0, 4, shape)
        whole = np.choose(which, [positions, near, edges, whole])
    return wrapped(whole, type_)


def _edges(type_: Type, sizes: Sequence[int]) -> Data:
    """The least and the largest of the type, and those at the ends of tensors."""
    bound = (1 << (type_.width - 1)) - 1
    ends = [end for size in sizes for end in (size - 1, size, size + 1)]
    return np.array([-bound - 1, -bound, bound, bound - 1, -1, 0, 1, *ends], np.int64)
