"""CPU seconds that `sd.jax.jit` takes to trace, lower and compile, over those of `jax.jit`.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 JAX_PLATFORMS=cpu \
        python -m benchmarks.jax_compile

The programs are those of `tests/jax/programs.py`, on eight virtual devices.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import shard_dialect as sd
from tests.jax.programs import PROGRAMS


def main() -> None:
    warnings.simplefilter("ignore", sd.ShardWarning)
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("a", "b"))
    first = PROGRAMS[next(iter(PROGRAMS))]
    seconds(sd.jax.jit, first(mesh), mesh)  # imports
    ratios = []
    for name, made in PROGRAMS.items():
        program = made(mesh)
        theirs, ours = (seconds(jit, program, mesh) for jit in (jax.jit, sd.jax.jit))
        ratios.append(ours / theirs)
        print(f"{name:40} {theirs:6.2f} {ours:6.2f} {ratios[-1]:6.2f}", flush=True)
    median, least, most = statistics.median(ratios), min(ratios), max(ratios)
    print(f"median {median:.2f}, from {least:.2f} to {most:.2f}, of {len(ratios)} programs")


def seconds(jit: Callable[..., Any], program: Any, mesh: Mesh) -> float:
    """The CPU seconds of one compilation, with nothing cached."""

    def named(spec: Any) -> Any:
        return NamedSharding(mesh, spec) if isinstance(spec, PartitionSpec) else spec

    jax.clear_caches()
    given = {"in_shardings": program.shardings, **program.options}
    for key in ("in_shardings", "out_shardings"):
        if key in given:
            given[key] = jax.tree.map(named, given[key], is_leaf=lambda each: each is None)
    start = time.process_time()
    jit(program.function, **given).lower(*program.arguments).compile()
    return time.process_time() - start


if __name__ == "__main__":
    main()
