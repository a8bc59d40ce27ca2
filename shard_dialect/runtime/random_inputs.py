"""Inputs for a run to which the user gives none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from shard_dialect.abi.lowered_program import Program
from shard_dialect.abi.tensor_types import SUB_BYTE_DTYPES, Array, TensorType
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.runtime.compile import NO_SIZES, parsed
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.input_domains import Domain, domains_of

_MOST = 4
"""The largest integer that is drawn where no other is known to be right."""


def drawn_inputs(
    source: Source, program: Program, seed: int, sizes: Sizes = NO_SIZES
) -> list[Array]:
    """Random inputs of a program, drawn from where its source is defined for these sizes."""
    with make_context():
        module, entry = parsed(source, program.entry, sizes)
        domains = domains_of(module.operation, entry)
    return random_inputs([each.global_type for each in program.arguments], seed, domains)


def random_inputs(
    types: Sequence[TensorType], seed: int, domains: Sequence[Domain] = ()
) -> list[Array]:
    """Draw inputs from a normal distribution, or from small integers, the same for one seed.

    Negative integers wrap to the largest ones of unsigned types. `domains` are where the program is
    defined: real numbers that must not be negative are made positive.
    """
    generator = np.random.default_rng(seed)

    def draw(type_: TensorType, domain: Domain) -> Array:
        if type_.dtype == np.bool_:
            return generator.integers(0, 2, type_.shape).astype(np.bool_)
        if np.issubdtype(type_.dtype, np.integer) or type_.dtype in SUB_BYTE_DTYPES:
            low, high = _bounds(domain)
            return generator.integers(low, high + 1, type_.shape).astype(type_.dtype)
        if type_.dtype.kind == "c":
            pairs = generator.standard_normal((*type_.shape, 2))
            return pairs.view(np.complex128)[..., 0].astype(type_.dtype)
        drawn = generator.standard_normal(type_.shape).astype(type_.dtype)
        return drawn if domain.low is None else np.abs(drawn)

    known = [each or Domain() for _, each in zip_longest(types, domains)]
    return [draw(type_, domain) for type_, domain in zip(types, known, strict=True)]


def _bounds(domain: Domain) -> tuple[int, int]:
    """The integers from which, and up to which, are drawn: small ones, as far as these are right.

    >>> _bounds(Domain()), _bounds(Domain(low=0)), _bounds(Domain(0, 9)), _bounds(Domain(high=-7))
    ((-4, 4), (0, 4), (0, 9), (-11, -7))
    """
    low, high = domain.low, domain.high
    if high is None:
        high = _MOST if low is None else max(_MOST, low)
    if low is None:
        low = min(-_MOST, high - _MOST)
    return (low, high) if low <= high else (-_MOST, _MOST)
