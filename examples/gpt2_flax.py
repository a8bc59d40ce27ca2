"""A Flax model of `transformers` with random weights, sharded by a rule on its parameters' names.

    pip install 'shard-dialect[examples]'
    python examples/gpt2_flax.py

Megatron's sharding of GPT-2: what widens is split by columns, what narrows by rows.
"""

import re

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from transformers import FlaxGPT2LMHeadModel, GPT2Config

import shard_dialect as sd

RULES = [
    (r"wte/embedding", P("model")),
    (r"(c_attn|c_fc)/kernel", P("model")),  # Flax's GPT-2 keeps kernels transposed
    (r"(c_attn|c_fc)/bias", P("model")),
    (r"c_proj/kernel", P(None, "model")),
]
"""The first pattern that is found in a parameter's name says how it is sharded; others are not."""


def spec_of(path, _):
    """The partition spec for the parameter at `path` of the model's tree."""
    name = "/".join(each.key for each in path)
    return next((spec for pattern, spec in RULES if re.search(pattern, name)), P())


def main():
    """Run the model on a mesh of two by two devices, and compare with one device."""
    jax.config.update("jax_num_cpu_devices", 4)
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("data", "model"))
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    model = FlaxGPT2LMHeadModel(config, seed=0)
    tokens = np.random.default_rng(0).integers(0, config.vocab_size, (4, 32))

    def logits(params, tokens):
        return model(tokens, params=params).logits

    specs = jax.tree_util.tree_map_with_path(spec_of, model.params)
    sharded = sd.jax.jit(logits, mesh=mesh, in_shardings=(specs, P("data")))
    print(sd.communication(sharded.lower(model.params, tokens)))
    expected = jax.jit(logits)(model.params, tokens)
    np.testing.assert_allclose(sharded(model.params, tokens), expected, rtol=1e-3, atol=1e-4)
    print("equal to the unsharded model's logits")


if __name__ == "__main__":
    main()
