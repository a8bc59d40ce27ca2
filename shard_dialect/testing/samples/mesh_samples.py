"""Samples of the `mesh` dialect's ops on global tensors."""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample


def _roll(draws: Draws) -> Sample:
    x = draws.any(least=1)
    by = f"tensor_axis = {draws.dim(x)} : i64, by = {draws.number(-9, 9)} : i64"
    return Sample.of("mesh.roll", [x], f'%r = "mesh.roll"(%0) {{{by}}} : ($0) -> $r', [x])


SAMPLES: dict[str, Callable[[Draws], Sample]] = {"mesh.roll": _roll}
NOT_RUN: dict[str, str] = {}
JUMPS: set[str] = set()
MOVES = {"mesh.roll"}
