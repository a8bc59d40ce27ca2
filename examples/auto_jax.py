"""A feed-forward layer of JAX on eight devices, with no sharding written by hand.

    pip install 'shard-dialect[jax]'
    python examples/auto_jax.py

A search finds the shardings, for devices whose memory does not hold all weights.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import shard_dialect as sd


def layer(x, weights):
    """Return a gated feed-forward layer with a residual."""
    gated = jax.nn.silu(x @ weights["gate"]) * (x @ weights["up"])
    return x + gated @ weights["down"]


def main():
    """Find shardings on a mesh of two by four devices, and compare with one device."""
    jax.config.update("jax_num_cpu_devices", 8)
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    shapes = {"gate": (64, 256), "up": (64, 256), "down": (256, 64)}
    keys = iter(jax.random.split(jax.random.key(0), 4))
    weights = {name: jax.random.normal(next(keys), shape) / 8 for name, shape in shapes.items()}
    x = jax.random.normal(next(keys), (128, 64))

    limit = sd.AutoOptions(objective="bytes", memory_limit=150_000, seconds=10)
    sharded = sd.jax.jit(layer, mesh=mesh, in_shardings=limit)
    print(sharded.found(x, weights))
    for tensor in sd.report(sharded.lower(x, weights)).tensors[:4]:
        print(f"{tensor.name}: {tensor.text}")
    np.testing.assert_allclose(sharded(x, weights), layer(x, weights), rtol=1e-3, atol=1e-4)
    assert jnp.shape(sharded(x, weights)) == x.shape
    print("equal to the unsharded layer")


if __name__ == "__main__":
    main()
