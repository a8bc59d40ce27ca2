"""Ten training steps of a Megatron layer from JAX, on a mesh of data by model.

    pip install 'shard-dialect[jax]'
    python examples/megatron_jax.py

Each loss is that of the same step by `jax.jit` on one device.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import shard_dialect as sd

WIDTH, HIDDEN, ROWS = 64, 256, 32


def layer(weights, x):
    """A feed-forward layer after a normalization, with a residual connection."""
    y = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return x + jax.nn.gelu(y @ weights["up"]) @ weights["down"]


def step(weights, x, y):
    """Return the loss, and the weights after a step of gradient descent."""
    loss, slopes = jax.value_and_grad(lambda w: ((layer(w, x) - y) ** 2).mean())(weights)
    return loss, jax.tree.map(lambda w, slope: w - 0.1 * slope, weights, slopes)


def main():
    """Train, sharded and not, and compare."""
    jax.config.update("jax_num_cpu_devices", 4)
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))
    generator = np.random.default_rng(0)
    draw = lambda *shape: generator.standard_normal(shape, np.float32)  # noqa: E731
    weights = {"up": draw(WIDTH, HIDDEN) / 8, "down": draw(HIDDEN, WIDTH) / 16}
    x, y = draw(ROWS, WIDTH), draw(ROWS, WIDTH)

    shardings = {"up": P(None, "model"), "down": P("model")}
    sharded_step = sd.jax.jit(
        step,
        mesh=mesh,
        in_shardings=(shardings, P("data"), P("data")),
        out_shardings=(P(), shardings),
    )
    print(sd.communication(sharded_step.lower(weights, x, y)))

    ours, theirs = weights, weights
    for number in range(10):
        loss, ours = sharded_step(ours, x, y)
        expected, theirs = jax.jit(step)(theirs, x, y)
        print(f"step {number}: loss {loss:.6f}, by jax.jit {expected:.6f}")
        np.testing.assert_allclose(loss, expected, rtol=1e-5)


if __name__ == "__main__":
    main()
