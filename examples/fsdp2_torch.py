"""A transformer, changed in place by `fully_shard`: three steps, a checkpoint, another module.

    python examples/fsdp2_torch.py                          # four devices in this process
    torchrun --nproc-per-node=4 examples/fsdp2_torch.py     # four ranks, by gloo

As for torch's `fully_shard`, with another import. Needs `pip install 'shard-dialect[torch]'`.
"""

import os
import tempfile

import torch
from torch import distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy

import shard_dialect as sd
from shard_dialect.torch import fully_shard

mesh, rank, ranks = sd.Grid("mesh", (4,)), 0, 1
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    mesh, rank, ranks = None, dist.get_rank(), dist.get_world_size()


def make() -> nn.Module:
    """Computes in bf16, and has parameters of f32."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(64, 32), body, nn.Linear(32, 64))
    for each in body.layers:
        fully_shard(each, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16))
    policy = MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


torch.manual_seed(0)
model, other = make(), make()
tokens = torch.randint(0, 64, (8, 16)).chunk(ranks)[rank]  # this rank's part of the batch
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"loss {loss.item():.4f}, of part {rank + 1} of {ranks} of the batch")
folder = [tempfile.mkdtemp() if rank == 0 else ""]
if ranks > 1:
    dist.broadcast_object_list(folder)
checkpoint.save(get_model_state_dict(model), checkpoint_id=folder[0], no_dist=ranks == 1)
state = get_model_state_dict(other)
checkpoint.load(state, checkpoint_id=folder[0], no_dist=ranks == 1)
set_model_state_dict(other, state)
assert torch.equal(model.eval()(tokens), other.eval()(tokens))
