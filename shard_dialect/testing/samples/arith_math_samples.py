"""Samples of `arith` and `math` ops that are no text of their records."""

from __future__ import annotations

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample, Tensor


def select(draws: Draws) -> Sample:
    x = draws.any()
    if draws.chance(0.3):
        text = "%p = tensor.extract %0[] : $0\n%r = arith.select %p, %1, %2 : $r"
        return Sample.of("arith.select", [Tensor((), "i1"), x, x], text, [x])
    text = "%r = arith.select %0, %1, %2 : $0, $r"
    return Sample.of("arith.select", [x.of("i1"), x, x], text, [x])


def constant(draws: Draws) -> Sample:
    rows, columns = (draws.size() for _ in range(2))
    values = (
        "2.0"
        if draws.chance(0.3)
        else [[float(row * columns + column) for column in range(columns)] for row in range(rows)]
    )
    result = Tensor((rows, columns))
    return Sample.of("arith.constant", [], f"%r = arith.constant dense<{values}> : $r", [result])
