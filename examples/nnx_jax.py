"""A Flax NNX model trained with optax, stopped, and resumed by orbax: only `jit` is ours.

    pip install 'shard-dialect[examples]'
    python examples/nnx_jax.py

Parameters and the optimizer's state are split over all devices, as FSDP does.
"""

import tempfile
from pathlib import Path

import jax
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import nnx
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd


def losses(jit, folder):
    """The losses of six steps; after three, all state goes through a checkpoint."""
    mesh, rngs = Mesh(np.array(jax.devices()[:8]), ("fsdp",)), nnx.Rngs(0)
    up, down = nnx.Linear(32, 128, rngs=rngs), nnx.Linear(128, 32, rngs=rngs)
    attention = nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
    model = nnx.Sequential(nnx.LayerNorm(32, rngs=rngs), attention, up, nnx.gelu, down)
    (graph, params), optimizer = nnx.split(model), optax.adamw(1e-3)

    def placed(leaf):
        dims = [None if size % 8 else "fsdp" for size in leaf.shape]
        spec = P(*dims[: dims.index("fsdp") + 1]) if "fsdp" in dims else P()
        return jax.device_put(leaf, NamedSharding(mesh, spec))

    state = jax.tree.map(placed, (params, optimizer.init(params)))
    x = placed(jax.random.normal(jax.random.key(1), (16, 8, 32)))

    def step(state, x):
        params, moments = state
        loss, grads = jax.value_and_grad(lambda p: (nnx.merge(graph, p)(x) ** 2).mean())(params)
        updates, moments = optimizer.update(grads, moments, params)
        return (optax.apply_updates(params, updates), moments), loss

    step, found = jit(step, donate_argnums=0), []
    for number in range(6):
        state, loss = step(state, x)
        found.append(float(loss))
        if number == 2:
            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(folder, state)
                checkpointer.wait_until_finished()
                state = checkpointer.restore(folder, state)
    return found


if __name__ == "__main__":
    jax.config.update("jax_num_cpu_devices", 8)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = (losses(jit, Path(folder, jit.__module__)) for jit in (sd.jax.jit, jax.jit))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    print("as with jax.jit:", *(f"{loss:.4f}" for loss in ours))
