"""Modules, meshes and placements that are drawn at random, among them some that split a mesh."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard


class Experts(nn.Module):  # type: ignore[misc]
    """`topk` makes the compiler split a mesh dimension of four into two of two."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 8, bias=False)
        self.up = nn.Parameter(torch.randn(8, 16, 32) / 12)
        self.down = nn.Parameter(torch.randn(8, 32, 16) / 16)

    def forward(self, x: Any) -> Any:
        share = self.router(x).softmax(-1)
        share = share * (share >= share.topk(2, -1).values[..., 1:]).to(share.dtype)
        inner = torch.relu(torch.einsum("btd,edf->betf", x, self.up))
        each = torch.einsum("betf,efd->betd", inner, self.down)
        return (each * share.transpose(1, 2).unsqueeze(-1)).sum(1)


class Heads(nn.Module):  # type: ignore[misc]
    """Merges and splits dimensions, which shards of a mesh dimension follow in parts."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).view(4, 8, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-1, -2) / 3).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(4, 8, 16))


class Pieces(nn.Module):  # type: ignore[misc]
    """Slices, flips and joins."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.shift = nn.Linear(16, 16), nn.Parameter(torch.randn(8, 16))

    def forward(self, x: Any) -> Any:
        y = self.mix(x) + self.shift
        return torch.cat([y[:, 4:].flip(2), y[:, :4]], 1).view(8, 4, 16)


MODULES: Sequence[Callable[[], nn.Module]] = (Experts, Experts, Heads, Pieces)
MESHES = ((4,), (8,), (4, 2), (2, 4), (2, 2, 2), (6,), (1, 4), (3, 2))


@dataclass(frozen=True)
class Drawn:
    module: nn.Module
    x: Any
    mesh: tuple[int, ...]
    plan: Mapping[str, Sequence[Any]]


def draw(seed: int, meshes: Sequence[tuple[int, ...]] = MESHES) -> Drawn:
    """The same for the same seed."""
    torch.manual_seed(seed)
    chosen = random.Random(seed)
    module, x, mesh = chosen.choice(MODULES)(), torch.randn(4, 8, 16), chosen.choice(meshes)
    tensors = {**dict(module.named_parameters()), "x": x, "output": module(x)}
    plan = {
        name: _placements(chosen, tuple(each.shape), mesh)
        for name, each in tensors.items()
        if chosen.random() < 0.7
    }
    return Drawn(module, x, mesh, plan)


def _placements(chosen: random.Random, shape: tuple[int, ...], mesh: tuple[int, ...]) -> list[Any]:
    """Of two mesh dimensions that split one dimension of the tensor, both do so evenly."""
    taken: dict[int, list[int]] = {}
    found = []
    for size in mesh:
        dim = chosen.choice([None, *range(len(shape))])
        if dim is not None:
            by = [*taken.get(dim, []), size]
            if len(by) > 1 and shape[dim] % prod(by):
                dim = None
            else:
                taken[dim] = by
        found.append(Replicate() if dim is None else Shard(dim))
    return found
