"""Hypothesis strategies: grids, shardings, samples of an op, and whole programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from shard_dialect.errors import MissingExtra
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.testing.random_draws import EVEN, UNEVEN, Draws
from shard_dialect.testing.random_program import Program, any_program
from shard_dialect.testing.random_shardings import GRIDS, any_grid, any_sharding
from shard_dialect.testing.sample import Sample
from shard_dialect.testing.sample_table import SAMPLES

try:
    from hypothesis import strategies as st
    from hypothesis.strategies import SearchStrategy
except ImportError:
    raise MissingExtra("hypothesis", "test") from None


def _randoms() -> SearchStrategy[Random]:
    """Generators whose every draw is one of hypothesis's, that it replays and shrinks."""
    return st.randoms(use_true_random=False)


def grids(shapes: Sequence[Shape] = GRIDS) -> SearchStrategy[Grid]:
    """Grids `@g` of these shapes."""
    return _randoms().map(lambda rng: any_grid(rng, shapes))


def shardings(
    shape: Shape, grid: Grid, *, even: bool = False, sub_axes: bool = False
) -> SearchStrategy[Sharding]:
    """Shardings of this shape on the grid, also uneven ones unless `even`."""
    return _randoms().map(lambda rng: any_sharding(rng, shape, grid, even=even, sub_axes=sub_axes))


def samples(op: str, *, even: bool = False) -> SearchStrategy[Sample]:
    """Samples of the op; with `even`, all of its sizes are ones that most grids divide."""
    function, sizes = SAMPLES[op], EVEN if even else EVEN + UNEVEN
    return _randoms().map(lambda rng: function(Draws(rng, sizes)))


@st.composite
def programs(
    draw: st.DrawFn, ops: Sequence[str] | None = None, rare: Sequence[str] = ()
) -> Program:
    """Annotated programs of these ops, or of all that can be run; most of them `rare` ones."""

    def isolated(step: Callable[[Random], None]) -> None:
        draw(_randoms().map(step))  # in one shard, so that hypothesis can leave it out

    return any_program(draw(_randoms()), ops, isolated, rare)
