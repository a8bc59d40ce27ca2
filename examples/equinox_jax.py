"""An Equinox model: trained by `jit` of ours, exported by `jax.export`, and called again.

    pip install 'shard-dialect[examples]'
    python examples/equinox_jax.py

Weights are split along `model`, the batch along `data`.
"""

import equinox as eqx
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd


def losses(jit):
    """The losses of four steps, and the trained model's results, from a program that was stored."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))
    model = eqx.nn.MLP(16, 8, width_size=64, depth=2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))

    def placed(leaf):
        spec = P("model") if leaf.ndim == 2 and leaf.shape[0] == 64 else P()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    state = jax.tree.map(placed, (params, optimizer.init(params)))
    x = jax.random.normal(jax.random.key(1), (32, 16))
    x = jax.device_put(x, NamedSharding(mesh, P("data")))

    def predict(params, x):
        return jax.vmap(eqx.combine(params, static))(x)

    def step(state, x):
        params, moments = state
        loss, grads = jax.value_and_grad(lambda p: (predict(p, x) ** 2).mean())(params)
        updates, moments = optimizer.update(grads, moments, params)
        return (eqx.apply_updates(params, updates), moments), loss

    step = jit(step, donate_argnums=0)
    found = []
    for _ in range(4):
        state, loss = step(state, x)
        found.append(float(loss))
    leaves, tree = jax.tree.flatten(state[0])
    flat = jit(lambda leaves, x: predict(jax.tree.unflatten(tree, leaves), x))
    stored = jax.export.export(flat)(leaves, x).serialize()
    return found, jax.jit(jax.export.deserialize(stored).call)(leaves, x)


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    (ours, results), (theirs, expected) = losses(sd.jax.jit), losses(jax.jit)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    np.testing.assert_allclose(results, expected, rtol=1e-3, atol=1e-5)
    print("as with jax.jit:", *(f"{loss:.4f}" for loss in ours))
