"""The functions that draw an instance of each op: those of the ops' records, yours included.

    @sampled("mydialect.scale")
    def _(draws):
        x = draws.any("f32", least=1)
        return Sample.of("mydialect.scale", [x], '%r = "mydialect.scale"(%0) : ($0) -> $r', [x])

Every op with a sharding rule needs a sample: the tests go through the rules. An op of yours is
partitioned, run, and drawn into random programs as soon as its record has one: as `sample=` of
`sharding_rule`, or by `sampled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from shard_dialect.ops.op_record import OpRecord, SampleFunction
from shard_dialect.ops.op_table import RECORDS, named, traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.testing.sample import Sample
from shard_dialect.testing.samples.elementwise_samples import drawn


class _Samples(Mapping[str, SampleFunction]):
    """For each op whose record has a sample, the function that draws one."""

    def __getitem__(self, name: str) -> SampleFunction:
        sample = RECORDS[name].sample
        if sample is None:
            raise KeyError(name)
        return partial(drawn, name, sample) if isinstance(sample, str) else sample

    def __iter__(self) -> Iterator[str]:
        return (name for name, record in RECORDS.items() if record.sample is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


SAMPLES: Mapping[str, SampleFunction] = _Samples()
"""For the name of each op, the function that draws a random instance of it."""


def not_run() -> dict[str, str]:
    """Why samples of some ops are not run: there is nothing that lowers them."""
    return {name: record.not_run for name, record in RECORDS.items() if record.not_run}


def jumps(op: str) -> bool:
    """Whether rounding may decide the result, as that of `floor`, of operands that are floats."""
    return Trait.STEEP in traits_of(op)


def moves(op: str) -> bool:
    """Whether the op only moves elements."""
    return Trait.MOVES in traits_of(op)


def sampled(*names: str, not_run: str = "") -> Callable[[SampleFunction], SampleFunction]:
    """Register the decorated function to draw the ops called `names`.

    `not_run` is the reason why their samples cannot be run, if they cannot.
    """

    def register(function: SampleFunction) -> SampleFunction:
        for name in names:
            record = RECORDS.get(name) or named(name) or OpRecord()
            RECORDS[name] = replace(record, sample=function, not_run=not_run)
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
        and not any(each in sample.body for each in ("complex<", "dot_algorithm<"))
        and name not in _ONE_PRECISION.get(dialect, "").split()
        and any(each.element == "f32" for each in (*sample.operands, *sample.results))
        and not any(each.element == "f64" for each in (*sample.operands, *sample.results))
    )


def runnable() -> list[str]:
    """The names of the ops whose samples are run."""
    return sorted(name for name in SAMPLES if not RECORDS[name].not_run)
