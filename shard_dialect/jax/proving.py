"""Whether two functions of JAX are one function: a plain one, and one that is parallel by hand.

sd.jax.prove(layer, jax.shard_map(layer_on_shards, mesh=mesh, ...), x, w1, w2)
sd.jax.prove_partition(jax.jit(layer, in_shardings=...), x, w1, w2)     of XLA's partitioner
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from shard_dialect.errors import ShardError
from shard_dialect.jax.partition_module import read_module
from shard_dialect.jax.xla_partition import xla_partition
from shard_dialect.proof.prove import Proof
from shard_dialect.proof.prove import prove as prove_modules
from shard_dialect.runtime.confirmed_proof import confirmed

_CLOSE = 1e-3
"""How far results may differ, relative to the largest, that are called the same numbers."""


def prove(plain: Callable[..., Any], parallel: Callable[..., Any], *arguments: Any) -> Proof:
    """Say whether `parallel(*arguments)` is `plain(*arguments)` for all values of the arguments.

    `parallel` has `jax.shard_map`s, on a mesh of the devices that there are. Arguments are arrays,
    or shapes and types as `jax.ShapeDtypeStruct`s, of which trees may be. See `sd.prove`; a
    refutation is confirmed by running both functions on random arguments. Raises `ShardError` where
    the functions have other arguments or results.
    """
    whole, own = (
        read_module(jax.jit(each, keep_unused=True).lower(*arguments).compiler_ir("stablehlo"))
        for each in (plain, parallel)
    )
    return confirmed(
        prove_modules(whole, own, explains=True), partial(_difference, plain, parallel, arguments)
    )


def prove_partition(function: Any, *arguments: Any) -> Proof:
    """Say whether what XLA's partitioner makes of a jitted function computes the function.

    Arguments are arrays, or shapes and types as `jax.ShapeDtypeStruct`s, of which trees may be. XLA
    compiles the function, and the program that it has for each device before it optimizes it is
    compared. A refutation is confirmed by running the function as XLA compiles it, on random
    arguments, beside the function that it wraps, on one device. Raises `ShardError` where XLA
    partitions nothing.
    """
    lowered = function.lower(*arguments)
    whole = read_module(lowered.compiler_ir("stablehlo"))
    own = read_module(xla_partition(lowered))
    plain = getattr(function, "__wrapped__", function)
    return confirmed(
        prove_modules(whole, own, explains=True),
        partial(_difference, plain, function, arguments),
    )


def _difference(
    plain: Callable[..., Any], parallel: Callable[..., Any], arguments: Any
) -> str | None:
    """What differs on random arguments. Raises `ShardError` where that is not known."""
    generator = np.random.default_rng(0)
    drawn = jax.tree.map(lambda each: _drawn(each, generator), arguments)
    try:
        results = [jax.tree.leaves(jax.jit(each)(*drawn)) for each in (plain, parallel)]
    except Exception as error:  # what JAX, or a function of the user's, raises
        raise ShardError(str(error)) from None
    for number, (expected, found) in enumerate(zip(*results, strict=True)):
        a, b = (np.asarray(each).astype(np.complex128) for each in (expected, found))
        far = float(np.max(np.abs(a - b), initial=0.0))
        if not far <= _CLOSE * max(float(np.max(np.abs(a), initial=0.0)), 1e-30):
            return f"result {number} is off by {far:.3g}"
    return None


def _drawn(argument: Any, generator: np.random.Generator) -> Any:
    """A random array of the argument's shape and type; integers are as they are, or small."""
    if not hasattr(argument, "dtype"):
        return argument
    if np.issubdtype(argument.dtype, np.integer) or argument.dtype == np.bool_:
        if not isinstance(argument, jax.ShapeDtypeStruct):
            return argument
        return generator.integers(0, 2, argument.shape).astype(argument.dtype)
    return generator.standard_normal(argument.shape).astype(argument.dtype)
