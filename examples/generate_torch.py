"""Generates text by a small Llama of transformers, with its cache, on devices of this process.

    python examples/generate_torch.py

The weights are random. The partitioned model is a model of transformers, too: `generate` is its
own. The prompt and each length of the cache are compiled when they come first.
"""

import torch
import transformers
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

import shard_dialect as sd

PLAN = {
    "input_ids": [Shard(0), Replicate()],
    "tp": {
        "model.layers.*.self_attn.[qkv]_proj": ColwiseParallel(),
        "model.layers.*.self_attn.o_proj": RowwiseParallel(),
        "model.layers.*.mlp.gate_proj": ColwiseParallel(),
        "model.layers.*.mlp.up_proj": ColwiseParallel(),
        "model.layers.*.mlp.down_proj": RowwiseParallel(),
    },
}


def main() -> None:
    """Print what our model generates, and what the model itself does."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(3, 64, (2, 6))
    mesh = sd.Grid("mesh", (2, 2), axes=("dp", "tp"))
    ours = sd.torch.partition(model, (), PLAN, mesh, kwargs={"input_ids": prompt})
    for each in (ours, model):
        print(each.generate(prompt, max_new_tokens=4, do_sample=False).tolist())


if __name__ == "__main__":
    main()
