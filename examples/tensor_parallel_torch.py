"""`parallelize_module` and `fully_shard` on a mesh of two dimensions; norms by sequence.

    python examples/tensor_parallel_torch.py                          # 2x2 devices, one process
    torchrun --nproc-per-node=4 examples/tensor_parallel_torch.py     # four ranks, by gloo

A program for torch's functions, with another import. Needs `pip install 'shard-dialect[torch]'`.
"""

import os

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel

import shard_dialect as sd
from shard_dialect.torch import fully_shard, parallelize_module


class Block(nn.Module):
    """A layer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.RMSNorm(32), nn.Linear(32, 32)
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, and beside it a perceptron."""
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (-1, 8)).transpose(1, 2) for f in (self.q, self.k, self.v))
        heads = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return x + self.out(heads.flatten(2)) + self.down(nn.functional.gelu(self.up(y)))


mesh, part, parts = sd.Grid("mesh", (2, 2), ("dp", "tp")), 0, 1
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    part, parts = mesh["dp"].get_local_rank(), 2
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(64, 32), Block(), Block(), nn.RMSNorm(32), nn.Linear(32, 64))
columns, rows = ColwiseParallel(input_layouts=Shard(1)), RowwiseParallel(output_layouts=Shard(1))
embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
head = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
parallelize_module(model, mesh["tp"], {"0": embedding, "3": SequenceParallel(), "4": head})
for block in model[1:3]:
    plan = {"norm": SequenceParallel(), "[qkv]": columns, "up": columns, "out": rows, "down": rows}
    parallelize_module(block, mesh["tp"], plan)
    fully_shard(block, mesh=mesh["dp"])
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
tokens = torch.randint(0, 64, (8, 16)).chunk(parts)[part]  # this rank's part of the batch
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}, of part {part + 1} of {parts} of the batch")
