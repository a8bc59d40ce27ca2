"""`as_strided` counts in the memory of what it views, whatever views lie in between."""

import random
from math import prod
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard

import shard_dialect as sd
from tests.torch.called import MESH, Called

pytestmark = pytest.mark.usefixtures("unoptimized")


def any_view(rng: random.Random, x: Any) -> Any:
    """One of the views that torch has of a tensor."""
    kinds = ["slice", "narrow", "select", "permute", "unsqueeze", "view", "diagonal", "unfold"]
    dim = rng.randrange(x.dim()) if x.dim() else 0
    size = x.shape[dim] if x.dim() else 1
    kind = rng.choice(kinds if x.dim() > 1 else ["unsqueeze"])
    if kind == "slice":
        return x[(slice(None),) * dim + (slice(rng.randrange(size), None, rng.choice((1, 2))),)]
    if kind == "narrow":
        start = rng.randrange(size)
        return x.narrow(dim, start, rng.randint(1, size - start))
    if kind == "select":
        return x.select(dim, rng.randrange(size))
    if kind == "permute":
        return x.permute(rng.sample(range(x.dim()), x.dim()))
    if kind == "view" and x.is_contiguous():
        return x.view(-1, x.shape[-1])
    if kind == "diagonal":
        return x.diagonal(rng.choice((0, 1)), *rng.sample(range(x.dim()), 2))
    if kind == "unfold":
        return x.unfold(dim, rng.randint(1, size), rng.choice((1, 2)))
    return x.unsqueeze(dim)


def any_strides(rng: random.Random, memory: int) -> tuple[list[int], list[int], int]:
    """A size, strides and the first element of a view in so many elements."""
    offset = rng.randrange(memory)
    left, size, stride = memory - 1 - offset, list[int](), list[int]()
    for _ in range(rng.choice((1, 2, 2, 3))):
        step = rng.choice((0, 1, 1, 2, 4, 5))
        count = rng.randint(1, min(4, 1 + left // step) if step else 3)
        size.append(count)
        stride.append(step)
        left -= (count - 1) * step
    return size, stride, offset


@pytest.mark.parametrize("seed", range(40))
def test_a_view_of_views_equals_torchs(seed: int) -> None:
    computed, writes = seed % 2 == 1, seed % 4 >= 2

    def f(x: Any) -> Any:
        rng = random.Random(seed)
        x = x * 2 if computed else x
        memory = x.numel()
        for _ in range(rng.randint(0, 3)):
            x = any_view(rng, x)
        size, stride, offset = any_strides(rng, memory)
        if writes and x.numel() == memory and x.is_contiguous():
            source = torch.arange(1.0, prod(size) + 1).view(size)
            return x.as_strided_scatter(source, size, source.stride(), memory - prod(size))
        return x.as_strided(size, stride, None if x.numel() == memory and seed % 3 else offset)

    ours, theirs = (torch.arange(24.0).view(2, 3, 4).requires_grad_() for _ in range(2))
    partitioned = sd.torch.partition(Called(f), (ours,), {"x": [Shard(0), Replicate()]}, MESH)
    found, expected = partitioned(ours), f(theirs)
    torch.testing.assert_close(found, expected)
    for result in (found, expected):
        if result.requires_grad:
            (result * torch.arange(1.0, result.numel() + 1).view(result.shape)).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_merged_views_of_windows_that_are_taken_apart_are_copies() -> None:
    def turned(x: Any) -> Any:
        windows = x.unfold(1, 2, 1).movedim(-1, 2).flatten(2, 3)
        one, other = windows.unflatten(-1, (2, -1)).unbind(-2)
        return torch.cat([-other, one], -1)

    x = torch.randn(4, 5, 2, 4)
    f = sd.torch.partition(Called(turned), (x,), {"x": [Shard(0), Replicate()]}, MESH)
    torch.testing.assert_close(f(x), turned(x))


@pytest.mark.filterwarnings("ignore:where received a uint8")
def test_bytes_choose_as_truth_values() -> None:
    def chosen(x: Any) -> Any:
        mask = (x > 0).byte()
        return torch.where(mask, x, -1.0) + x.where(mask, x * 2) + torch.where(mask)[0].numel()

    x = torch.randn(4, 4)
    f = sd.torch.partition(Called(chosen), (x,), {"x": [Shard(0), Replicate()]}, MESH)
    torch.testing.assert_close(f(x), chosen(x))
