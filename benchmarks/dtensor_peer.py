"""What torch's DTensor communicates for a named program, written in torch, as JSON on stdout.

    python -m benchmarks.dtensor_peer a_mlp_1d

Arguments lie as the program says, so do results, and what it constrains is redistributed; all else
is DTensor's choice. One process stands for the first device: the process group is a fake one, whose
collectives are counted and move nothing.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.tensor as dt
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, placement_types
from torch.distributed.tensor.parallel import loss_parallel
from torch.nn import functional
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchmarks.tally import COSTS
from benchmarks.torch_counting import Counting

Mesh = Any
Tensor = Any
R = Replicate()


class Exchanging(Counting):
    """Counts DTensor's all-to-all, which it leaves to devices that have one, too; CPUs gather."""

    def exchange(self, given: Any, gather_dim: int, shard_dim: int, mesh: Mesh, axis: int) -> Any:
        n = mesh.size(axis)
        self.tally.add("all_to_all", COSTS["all_to_all"](n, given.numel() * given.itemsize))
        return torch.cat([given] * n, gather_dim).chunk(n, shard_dim)[0].contiguous()


def lying(mesh: Mesh, shape: Sequence[int], *placements: Any, dtype: Any = None) -> Tensor:
    return dt.zeros(*shape, device_mesh=mesh, placements=placements, dtype=dtype)


def a_mlp_1d() -> None:
    mesh = init_device_mesh("cpu", (4,))
    x = lying(mesh, (8, 64, 256), Shard(2))
    up, down = lying(mesh, (256, 1024), Shard(1)), lying(mesh, (1024, 256), Shard(0))
    (functional.gelu(x @ up, approximate="tanh") @ down).redistribute(mesh, [Shard(2)])


def b_mlp_2d() -> None:
    mesh = init_device_mesh("cpu", (2, 2, 2))
    x = lying(mesh, (8, 64, 256), *[Shard(2)] * 3)
    up = lying(mesh, (256, 1024), Shard(0), Shard(1), Shard(1))
    down = lying(mesh, (1024, 256), Shard(1), Shard(0), Shard(0))
    (functional.gelu(x @ up, approximate="tanh") @ down).redistribute(mesh, [Shard(2)] * 3)


def c_megatron_fwd() -> None:
    _megatron(Replicate())


def n_megatron_sp_fwd() -> None:
    _megatron(Shard(1))


def _megatron(between: Any) -> None:
    """`between` is how activations lie along `model` outside of the two products of a block."""
    mesh = init_device_mesh("cpu", (2, 4))
    x = lying(mesh, (4, 64, 256), Shard(0), between)
    norms = [lying(mesh, (256,), R, R) for _ in range(2)]
    qkv = [lying(mesh, (256, 8, 32), R, Shard(1)) for _ in range(3)]
    out = lying(mesh, (8, 32, 256), R, Shard(0))
    up, down = lying(mesh, (256, 1024), R, Shard(1)), lying(mesh, (1024, 256), R, Shard(0))

    y = _normed(x, norms[0]).redistribute(mesh, [Shard(0), R])
    q, k, v = (torch.einsum("bse,ehd->bhsd", y, weight) for weight in qkv)
    scores = torch.einsum("bhsd,bhtd->bhst", q, k) / math.sqrt(32)
    position = torch.arange(64)
    mask = dt.distribute_tensor(position[:, None] >= position, mesh, [R, R], src_data_rank=None)
    low = dt.distribute_tensor(torch.tensor(-1e9), mesh, [R, R], src_data_rank=None)
    weights = torch.softmax(torch.where(mask, scores, low), dim=-1)
    heads = torch.einsum("bhst,bhtd->bshd", weights, v)
    x = x + torch.einsum("bshd,hde->bse", heads, out).redistribute(mesh, [Shard(0), between])
    y = _normed(x, norms[1]).redistribute(mesh, [Shard(0), R])
    y = functional.gelu(y @ up, approximate="tanh") @ down
    (x + y.redistribute(mesh, [Shard(0), between])).redistribute(mesh, [Shard(0), between])


def _normed(x: Tensor, scale: Tensor) -> Tensor:
    x = x - x.mean(dim=-1, keepdim=True)
    return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-5) * scale


def f_moe_ep() -> None:
    mesh = init_device_mesh("cpu", (8,))
    x = lying(mesh, (8, 64, 128), Shard(0))
    gate = lying(mesh, (128, 8), R)
    up, down = lying(mesh, (8, 128, 256), Shard(0)), lying(mesh, (8, 256, 128), Shard(0))

    def one_hot(index: Tensor, size: int) -> Tensor:
        numbers = dt.distribute_tensor(torch.arange(size), mesh, [R], src_data_rank=None)
        return (index.unsqueeze(-1) == numbers).to(torch.float32)

    weights = torch.softmax(x @ gate, dim=-1)
    expert = one_hot(weights.argmax(dim=-1), 8)
    place = ((expert.cumsum(dim=1) - 1) * expert).sum(dim=-1)
    dispatch = expert.unsqueeze(-1) * one_hot(place.to(torch.int64), 16).unsqueeze(2)
    share = (weights * expert).sum(dim=-1)
    inputs = torch.einsum("gsd,gsec->egcd", x, dispatch).redistribute(mesh, [Shard(0)])
    hidden = torch.relu(torch.einsum("egcd,edh->egch", inputs, up))
    outputs = torch.einsum("egch,ehd->egcd", hidden, down).redistribute(mesh, [Shard(1)])
    combine = dispatch * share[:, :, None, None]
    torch.einsum("gsec,egcd->gsd", combine, outputs).redistribute(mesh, [Shard(0)])


def g_conv_halo() -> None:
    mesh = init_device_mesh("cpu", (4, 2))
    x = lying(mesh, (2, 16, 64, 64), Shard(2), Shard(3))
    for features, made, stride in ((16, 16, 1), (16, 32, 2), (32, 32, 1)):
        kernel = lying(mesh, (made, features, 3, 3), R, R)
        x = torch.relu(functional.conv2d(x, kernel, stride=stride, padding=1))
    (x.mean(dim=(2, 3)) @ lying(mesh, (32, 10), R, R)).redistribute(mesh, [R, R])


def i1_embed_xent_fwd() -> None:
    mesh = init_device_mesh("cpu", (2, 4))
    words, targets = (lying(mesh, (8, 64), Shard(0), R, dtype=torch.int64) for _ in range(2))
    table, scale = lying(mesh, (2048, 128), R, Shard(0)), lying(mesh, (128,), R, R)
    embedded = functional.embedding(words, table).redistribute(mesh, [Shard(0), R])
    logits = _normed(embedded, scale) @ lying(mesh, (128, 2048), R, Shard(1))
    with loss_parallel():
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    (loss / 512).redistribute(mesh, [R, R])


def j1_split_merge() -> None:
    mesh = init_device_mesh("cpu", (8,))
    x, scale = lying(mesh, (8, 32, 256), Shard(2)), lying(mesh, (4,), R)
    heads = (x.view(8, 32, 4, 64) * scale[:, None]).transpose(1, 2).reshape(32, 32, 64)
    merged = torch.tanh(heads).reshape(8, 4, 32, 64).transpose(1, 2).reshape(8, 32, 256)
    merged.redistribute(mesh, [Shard(2)])


def k1_uneven_vocab() -> None:
    mesh = init_device_mesh("cpu", (8,))
    x, vocabulary = lying(mesh, (64, 64), R), lying(mesh, (64, 1003), R)
    weights = torch.softmax((x @ vocabulary).redistribute(mesh, [Shard(1)]), dim=-1)
    (weights @ vocabulary.T).redistribute(mesh, [R])


PROGRAMS: dict[str, tuple[int, Callable[[], None]]] = {
    "a_mlp_1d": (4, a_mlp_1d),
    "b_mlp_2d": (8, b_mlp_2d),
    "c_megatron_fwd": (8, c_megatron_fwd),
    "f_moe_ep": (8, f_moe_ep),
    "g_conv_halo": (8, g_conv_halo),
    "i1_embed_xent_fwd": (8, i1_embed_xent_fwd),
    "j1_split_merge": (8, j1_split_merge),
    "k1_uneven_vocab": (8, k1_uneven_vocab),
    "n_megatron_sp_fwd": (8, n_megatron_sp_fwd),
}
"""How many devices, and the program. Each has the mesh and the sharding of the StableHLO one."""


def main() -> None:
    devices, program = PROGRAMS[sys.argv[1]]
    dist.init_process_group("fake", rank=0, world_size=devices, store=FakeStore())
    counting = Exchanging()
    placement_types.shard_dim_alltoall = counting.exchange
    try:
        with counting:
            program()
    except (AssertionError, NotImplementedError, RuntimeError, ValueError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        print(json.dumps({"error": lines[-1]}))
    else:
        print(json.dumps(vars(counting.tally)))


if __name__ == "__main__":
    main()
