"""Two processes of four devices each, as on two hosts: `jax.distributed`, and `jit` of ours.

    pip install 'shard-dialect[jax]'
    python examples/processes_jax.py

Each process compiles the same program and holds its own shards; gloo carries what they exchange.
"""

import socket
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shard_dialect as sd


def losses(jit):
    """The losses of three steps of a layer whose weights are split among the processes' devices."""
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    rng = np.random.default_rng(0)

    def put(shape, spec):
        whole, sharding = rng.standard_normal(shape), NamedSharding(mesh, spec)
        return jax.make_array_from_callback(shape, sharding, lambda index: whole[index])

    w, x = put((8, 12), P("data", "model")), put((16, 8), P("data"))

    def step(w, x):
        loss, grad = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        return w - grad, loss

    step, found = jit(step, out_shardings=(w.sharding, NamedSharding(mesh, P()))), []
    for _ in range(3):
        w, loss = step(w, x)
        found.append(float(loss))
    return found


def run(number, address):
    """One of the two processes."""
    jax.config.update("jax_num_cpu_devices", 4)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, num_processes=2, process_id=number)
    ours = losses(sd.jax.jit)
    np.testing.assert_allclose(ours, losses(jax.jit), rtol=1e-5)
    print(f"process {number}, as with jax.jit:", *(f"{loss:.4f}" for loss in ours))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        run(int(sys.argv[1]), sys.argv[2])
    else:
        with socket.socket() as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        started = [subprocess.Popen([sys.executable, __file__, str(n), address]) for n in range(2)]
        sys.exit(max(process.wait(timeout=240) for process in started))
