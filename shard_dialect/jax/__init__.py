"""JAX functions, partitioned by us and compiled by XLA.

    step = sd.jax.jit(f, mesh=mesh, in_shardings=(P("data"), P(None, "model")))
    y = step(x, w)                          # as jax.jit's, on the mesh's devices
    module = sd.jax.lower(f, x, w, mesh=mesh, in_shardings=...)      # as MLIR, to look at
    module = sd.jax.load("f.jax_export")    # what jax.export has written
    sd.jax.prove(f, g, x, w)                # g, which is parallel by hand, is f
    sd.jax.prove_partition(jax.jit(f), x)   # what XLA's partitioner makes of f is f

`pip install 'shard-dialect[jax]'`. See docs/jax.md.
"""

from shard_dialect.jax.jitted import jit, load, lower, pjit
from shard_dialect.jax.proving import prove, prove_partition

__all__ = ["jit", "load", "lower", "pjit", "prove", "prove_partition"]
