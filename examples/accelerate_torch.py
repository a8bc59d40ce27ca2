"""A training loop of accelerate; in its middle, a checkpoint moves from one mesh to another.

    python examples/accelerate_torch.py

The loop is as for any module. Needs `pip install 'shard-dialect[accelerate]'`.
"""

import tempfile

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.utils.data import DataLoader, TensorDataset

import shard_dialect as sd

PLAN = {
    "input": [Shard(0), Replicate()],
    "model": {"0": ColwiseParallel(), "2": RowwiseParallel()},
}


def make(*shape: int) -> nn.Module:
    """A perceptron, on a mesh of this shape if there is one."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4))
    mesh = sd.Grid("mesh", shape, axes=("data", "model")) if shape else None
    return sd.torch.partition(module, (torch.ones(8, 16),), PLAN, mesh) if mesh else module


def train(module: nn.Module, folder: str, *, resumes: bool = False) -> list[float]:
    """The losses of an epoch; reads the state from the folder first, or writes it there."""
    torch.manual_seed(1)
    x = torch.randn(64, 16)
    loader = DataLoader(TensorDataset(x, x[:, :4].sin()), batch_size=8)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    module, optimizer, loader = accelerator.prepare(module, optimizer, loader)
    if resumes:
        accelerator.load_state(folder)
    losses = []
    for inputs, targets in loader:
        with accelerator.accumulate(module):
            loss = nn.functional.mse_loss(module(inputs), targets)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    if not resumes:
        accelerator.save_state(folder)
    return losses


with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
    found = train(make(2, 4), ours) + train(make(4, 1), ours, resumes=True)
    expected = train(make(), theirs) + train(make(), theirs, resumes=True)
print("on 2x4, then on 4x1:", *(f"{each:.4f}" for each in found))
torch.testing.assert_close(found, expected)
