"""A small Llama with a plan of `parallelize_module`, trained for three steps.

    python examples/llama_torch.py                          # eight devices in this process
    torchrun --nproc-per-node=4 examples/llama_torch.py     # four ranks, by gloo

Needs `pip install 'shard-dialect[torch]' 'transformers>=4.57'`.
"""

import os

import torch
from torch import distributed as dist
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from transformers import LlamaConfig, LlamaForCausalLM

import shard_dialect as sd

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=4,
    attn_implementation="eager",
    use_cache=False,
)
model = LlamaForCausalLM(config).eval()
tokens = torch.randint(0, 128, (8, 16))
batch = {"input_ids": tokens, "labels": tokens}
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
else:
    mesh = sd.Grid("mesh", (2, 4), ("dp", "tp"))
columns, rows, layer = ColwiseParallel(), RowwiseParallel(), "model.layers.*"
plan = {
    "input_ids": [Shard(0), Replicate()],
    "labels": [Shard(0), Replicate()],
    "tp": {
        "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
        f"{layer}.self_attn.[qkv]_proj": columns,
        f"{layer}.self_attn.o_proj": rows,
        f"{layer}.mlp.gate_proj": columns,
        f"{layer}.mlp.up_proj": columns,
        f"{layer}.mlp.down_proj": rows,
    },
}
step = sd.torch.partition(model, (), plan, mesh, kwargs=batch, loss=lambda output: output.loss)
optimizer = torch.optim.SGD(step.parameters(), lr=0.5)
for number in range(3):
    loss, gradients = step(**batch)
    for name, parameter in step.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()
    if step.compiled.world.speaks:
        print(f"step {number}: loss {loss.item():.4f}")
