"""A mixture of experts from JAX: each device has some of the experts, and tokens go to them.

    pip install 'shard-dialect[jax]'
    python examples/experts_jax.py

Two all-to-alls carry tokens to the experts and back. What the devices do is printed.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import shard_dialect as sd

TOKENS, WIDTH, HIDDEN, EXPERTS, CAPACITY = 64, 32, 64, 8, 16


def experts(x, gate, up, down):
    """Each group of tokens sends to every expert the tokens that chose it, up to its capacity."""
    scores = jax.nn.softmax(x @ gate)  # group, token, expert
    chosen = jax.nn.one_hot(scores.argmax(-1), EXPERTS)
    place = (jnp.cumsum(chosen, 1) - 1) * chosen
    slots = jax.nn.one_hot(place.sum(-1).astype(int), CAPACITY)
    send = jnp.einsum("gte,gtc->gtec", chosen, slots)
    inputs = jnp.einsum("gtec,gtd->egcd", send, x)
    hidden = jax.nn.relu(jnp.einsum("egcd,edf->egcf", inputs, up))
    outputs = jnp.einsum("egcf,efd->egcd", hidden, down)
    return jnp.einsum("gtec,egcd->gtd", send * scores[..., None], outputs)


def main():
    """Run on four devices, and compare with one."""
    jax.config.update("jax_num_cpu_devices", 4)
    mesh = Mesh(np.array(jax.devices()[:4]), ("expert",))
    generator = np.random.default_rng(0)
    shapes = [
        (4, TOKENS, WIDTH),
        (WIDTH, EXPERTS),
        (EXPERTS, WIDTH, HIDDEN),
        (EXPERTS, HIDDEN, WIDTH),
    ]
    arguments = [generator.standard_normal(shape, np.float32) / 8 for shape in shapes]

    by_group, by_expert = P("expert"), P("expert")
    f = sd.jax.jit(
        experts,
        mesh=mesh,
        in_shardings=(by_group, P(), by_expert, by_expert),
        out_shardings=by_group,
    )
    print(sd.communication(f.lower(*arguments)))
    np.testing.assert_allclose(f(*arguments), experts(*arguments), rtol=1e-3, atol=1e-5)
    print("equal to the unsharded function")


if __name__ == "__main__":
    main()
