"""Models of `transformers` in Flax as modules, with an expert's annotations on 2x4 devices.

    python -m benchmarks.flax_models gpt2 [--training] [--grid 16x32] > gpt2.mlir

The expert is Megatron: what widens is split by columns, what narrows by rows, embeddings by the
vocabulary, along the last axis of the grid; the batch is split along the first. A training step is
a forward pass, its gradients, and SGD.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

WIDTH, LAYERS, HEADS, HIDDEN, VOCABULARY = 256, 2, 8, 1024, 2048
LENGTH = 64
RATE = 1e-2
NAMES = ("gpt2", "llama", "mistral", "bert", "opt")
_COLUMNS = r"(query|key|value|q_proj|k_proj|v_proj|gate_proj|up_proj|fc1|intermediate/dense)/kernel"
_ROWS = r"(o_proj|out_proj|down_proj|fc2|output/dense)/kernel"
_RULES = [
    (r"(wte|word_embeddings|embed_tokens)/embedding", P("model")),
    (r"(c_attn|c_fc)/kernel", P("model")),  # Flax's GPT-2 keeps kernels transposed
    (r"c_proj/kernel", P(None, "model")),
    (_COLUMNS, P(None, "model")),
    (_ROWS, P("model")),
    (r"lm_head/kernel", P(None, "model")),
]


def model_of(name: str) -> Any:
    """A model with random weights."""
    import transformers

    common = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": LAYERS}
    common |= {"num_attention_heads": HEADS, "max_position_embeddings": LENGTH}
    sizes: dict[str, dict[str, int]] = {
        "gpt2": {
            "vocab_size": VOCABULARY,
            "n_positions": LENGTH,
            "n_embd": WIDTH,
            "n_layer": LAYERS,
            "n_head": HEADS,
        },
        "llama": common | {"intermediate_size": HIDDEN},
        "mistral": common | {"intermediate_size": HIDDEN, "num_key_value_heads": HEADS},
        "bert": common | {"intermediate_size": HIDDEN},
        "opt": common | {"ffn_dim": HIDDEN, "word_embed_proj_dim": WIDTH},
    }
    classes = {
        "gpt2": ("GPT2Config", "FlaxGPT2LMHeadModel"),
        "llama": ("LlamaConfig", "FlaxLlamaForCausalLM"),
        "mistral": ("MistralConfig", "FlaxMistralForCausalLM"),
        "bert": ("BertConfig", "FlaxBertForMaskedLM"),
        "opt": ("OPTConfig", "FlaxOPTForCausalLM"),
    }
    config, model = (getattr(transformers, each) for each in classes[name])
    return model(config(**sizes[name]), seed=0)


def _spec_of(path: Any, _: Any) -> P:
    name = "/".join(each.key for each in path)
    return next((spec for pattern, spec in _RULES if re.search(pattern, name)), P())


def flax_module(
    name: str, training: bool, grid: tuple[int, int] = (2, 4), *, scopes: bool = False
) -> str:
    """The module's text, as JAX lowers it with Shardy; with `scopes`, also where each op is."""
    mesh = AbstractMesh(grid, ("data", "model"))
    model = model_of(name)
    tokens = jax.ShapeDtypeStruct((max(8, grid[0]), LENGTH), np.int32)

    def logits(params: Any, tokens: Any) -> Any:
        return model(tokens, params=params).logits

    def step(params: Any, tokens: Any, targets: Any) -> Any:
        def loss(params: Any) -> Any:
            found = jax.nn.log_softmax(logits(params, tokens))
            return -jnp.mean(jnp.take_along_axis(found, targets[..., None], -1))

        found, gradients = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda w, g: w - RATE * g, params, gradients), found

    def sharded(each: Any, spec: P) -> Any:
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=sharding)

    specs = jax.tree_util.tree_map_with_path(_spec_of, model.params)
    params = jax.tree.map(sharded, model.params, specs)
    rows = sharded(tokens, P("data"))
    traced = (
        jax.jit(step).trace(params, rows, rows) if training else jax.jit(logits).trace(params, rows)
    )
    return str(traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=scopes))


def main() -> None:
    """Print one module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--grid", default="2x4")
    options = parser.parse_args()
    first, second = map(int, options.grid.split("x"))

    print(flax_module(options.name, options.training, (first, second)), end="")


if __name__ == "__main__":
    main()
