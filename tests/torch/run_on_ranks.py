"""What each of four ranks runs: torchrun --nproc-per-node=4 -m tests.torch.run_on_ranks.

Every check compares with the module itself, which each rank runs, too. Rank 0 prints the names of
those that it has done.
"""

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import shard_dialect as sd
from shard_dialect.errors import ShardError
from tests.torch.models import BATCH, assert_close, make

R = Replicate()


def full(each: Any) -> Any:
    return each.full_tensor() if isinstance(each, DTensor) else each


def models(mesh: Any, name: str) -> None:
    model = make(name)
    f = sd.torch.partition(model.module, model.args, model.plan, mesh, kwargs=model.kwargs)
    found = f(*model.args, **model.kwargs)
    expected = model.module(*model.args, **model.kwargs)
    assert all(isinstance(each, DTensor) for each in found.values())
    whole = {key: full(each) for key, each in found.items()}
    assert_close(whole, {key: each.detach() for key, each in expected.items()})


def llama_trained(mesh: Any) -> None:
    """Three steps of SGD on DTensors, and the state that they leave."""
    model = make("llama")
    step = sd.torch.partition(
        model.module, (), model.plan, mesh, kwargs=model.kwargs, loss=lambda out: out.loss
    )
    ours = torch.optim.SGD(step.parameters(), 0.1)
    theirs = torch.optim.SGD(model.module.parameters(), 0.1)
    for _ in range(2):
        value, gradients = step(**model.kwargs)
        for name, parameter in step.named_parameters():
            parameter.grad = gradients[name]
        ours.step()
        theirs.zero_grad()
        expected = model.module(**model.kwargs).loss
        expected.backward()
        theirs.step()
        torch.testing.assert_close(full(value), expected.detach())
    assert_close(step.state_dict(), model.module.state_dict())


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        return self.down(torch.relu(self.up(x)))


TP = {"up": ColwiseParallel(), "down": RowwiseParallel()}


def arguments(mesh: Any) -> None:
    """DTensors in any placements, whole tensors and this rank's shards are the same."""
    module, x = Mlp(), torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    f = sd.torch.partition(module, (x,), {"x": BATCH, "tp": TP}, mesh)
    expected = module(x).detach()
    for placements in (BATCH, [R, Shard(1)], [Shard(0), Shard(1)]):
        found = f(distribute_tensor(x, mesh, placements))
        torch.testing.assert_close(full(found), expected)
    own = distribute_tensor(x, mesh, BATCH).to_local()
    torch.testing.assert_close(full(f(own)), expected)
    result = f(x)
    assert (result.placements, result.shape) == (tuple(BATCH), expected.shape)
    with pytest.raises(ShardError, match=r"has shape \[3, 16\]: expected \[4, 16\] or \[2, 16\]"):
        f(x[:3])


def state(mesh: Any) -> None:
    """Loaded by slices to a module without data, held as shards, and gathered."""
    with torch.device("meta"):
        empty = Mlp()
    module, x = Mlp(), torch.ones(4, 16)
    f = sd.torch.partition(empty, (x,), {"x": BATCH, "tp": TP}, mesh)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(module.state_dict(), path)
        f.load_safetensors(path)
    torch.testing.assert_close(full(f(x)), module(x).detach())
    shards = f.state_dict(full=False)
    assert shards["up.weight"].to_local().shape == (16, 16)
    assert shards["up.weight"].placements == (R, Shard(0))
    assert_close(f.state_dict(), module.state_dict())
    f.load_state_dict({name: each * 2 for name, each in shards.items()})
    torch.testing.assert_close(f.state_dict()["down.bias"], module.down.bias.detach() * 2)


def uneven(mesh: Any) -> None:
    module, x = torch.nn.Linear(6, 7), torch.ones(5, 6)
    dist.broadcast(module.weight.data, 0)
    dist.broadcast(module.bias.data, 0)
    plan = {"input": BATCH, "weight": [Shard(0), R], "bias": [R, Shard(0)]}
    f = sd.torch.partition(module, (x,), plan, mesh)
    torch.testing.assert_close(full(f(x)), module(x).detach())
    assert_close(f.state_dict(), module.state_dict())


def beside_dtensor(mesh: Any) -> None:
    """A plan of parallelize_module by torch itself: equal numbers, and no fewer bytes."""
    model, theirs = make("llama"), make("llama").module
    plan = model.plan["tp"]
    parallelize_module(theirs, mesh["tp"], dict(plan))
    tokens = model.kwargs["input_ids"]
    f = sd.torch.partition(model.module, (tokens,), {"input_ids": [R, R], "tp": plan}, mesh)
    with CommDebugMode() as mode:
        expected = theirs(tokens).logits
    torch.testing.assert_close(full(f(tokens).logits), full(expected).detach())
    counts = {str(op).rpartition(".")[2]: count for op, count in mode.get_comm_counts().items()}
    size, vocabulary = 32, 64
    reduced = counts["all_reduce"] * tokens.numel() * size * 4  # 2 (n - 1) / n of the bytes, n is 2
    gathered = counts["all_gather_into_tensor"] * tokens.numel() * vocabulary * 4 // 2
    assert f.compiled.report.bytes_moved <= reduced + gathered, (counts, f.compiled.report)


CHECKS: dict[str, Callable[[Any], None]] = {
    **{name: lambda mesh, name=name: models(mesh, name) for name in ("llama", "gpt2", "bert")},
    "vit": lambda mesh: models(mesh, "vit"),
    "resnet": lambda mesh: models(mesh, "resnet"),
    "llama_trained": llama_trained,
    "arguments": arguments,
    "state": state,
    "uneven": uneven,
    "beside_dtensor": beside_dtensor,
}


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    only = os.environ.get("CHECKS", " ".join(CHECKS)).split()
    for name in only:
        CHECKS[name](mesh)
        if dist.get_rank() == 0:
            print("done", name, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
