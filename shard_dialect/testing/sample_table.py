"""The functions that draw an instance of each op: one table per dialect, open to users.

    @sampled("mydialect.scale")
    def _(draws):
        x = draws.any("f32", least=1)
        return Sample.of("mydialect.scale", [x], '%r = "mydialect.scale"(%0) : ($0) -> $r', [x])

Every op with a sharding rule needs a sample: the tests go through the rules. An op of yours is
partitioned, run, and drawn into random programs as soon as both are registered.
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.testing.random_draws import Draws
from shard_dialect.testing.sample import Sample
from shard_dialect.testing.samples import (
    arith_math_samples,
    bufferization_samples,
    linalg_samples,
    stablehlo_samples,
    tensor_samples,
    tosa_samples,
)

SampleFunction = Callable[[Draws], Sample]

_DIALECTS = (
    bufferization_samples,
    linalg_samples,
    arith_math_samples,
    stablehlo_samples,
    tensor_samples,
    tosa_samples,
)
SAMPLES: dict[str, SampleFunction] = {
    name: function for dialect in _DIALECTS for name, function in dialect.SAMPLES.items()
}
NOT_RUN: dict[str, str] = {
    name: reason for dialect in _DIALECTS for name, reason in dialect.NOT_RUN.items()
}
"""Why samples of an op are not run: there is nothing that lowers it."""
JUMPS: set[str] = {name for dialect in _DIALECTS for name in dialect.JUMPS}
"""Ops on floats alone for which rounding may decide the result, such as `floor`."""
MOVES: set[str] = {name for dialect in _DIALECTS for name in dialect.MOVES}
"""Ops that only move elements."""


def sampled(*names: str, not_run: str = "") -> Callable[[SampleFunction], SampleFunction]:
    """Register the decorated function to draw the ops called `names`.

    `not_run` is the reason why their samples cannot be run, if they cannot.
    """

    def register(function: SampleFunction) -> SampleFunction:
        for name in names:
            SAMPLES[name] = function
            NOT_RUN.pop(name, None)
            if not_run:
                NOT_RUN[name] = not_run
        return function

    return register


_ONE_PRECISION = {
    "arith": "bitcast extf fptosi fptoui sitofp truncf uitofp",
    "stablehlo": "batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert"
    " cholesky convert custom_call fft reduce_precision rng rng_bit_generator triangular_solve",
}
"""Ops whose samples choose their float types themselves, or have only one."""


def can_be_narrow(sample: Sample) -> bool:
    """Whether the sample has the same meaning with floats of 16 bits instead of 32."""
    dialect, _, name = sample.op.partition(".")
    return (
        dialect in ("arith", "linalg", "math", "stablehlo")
        and "complex<" not in sample.body
        and name not in _ONE_PRECISION.get(dialect, "").split()
        and any(each.element == "f32" for each in (*sample.operands, *sample.results))
        and not any(each.element == "f64" for each in (*sample.operands, *sample.results))
    )


def runnable() -> list[str]:
    """The names of the ops whose samples are run."""
    return sorted(set(SAMPLES) - set(NOT_RUN))
