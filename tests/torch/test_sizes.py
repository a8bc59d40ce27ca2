"""Modules with sizes and numbers that depend on elements: a program for each that occurs."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.utils import _pytree as pytree

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.decisions import UNKNOWN, Foreseen
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.tensor_trees import arguments_of
from shard_dialect.torch.lower_module import lower_module
from tests.torch.models import BATCH

pytestmark = pytest.mark.usefixtures("unoptimized")
MESH = sd.Grid("mesh", (2, 4), ("dp", "tp"))
PLAN = {"x": BATCH, "first.weight": [Replicate(), Shard(0)]}


class After(nn.Module):  # type: ignore[misc]
    """A function after a linear layer."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.first, self.function = nn.Linear(8, 8), function

    def forward(self, x: Any) -> Any:
        return self.function(self.first(x))


def masked_assignment(h: Any) -> Any:
    h = h.clone()
    h[h > 0] = 0.5 * h[h > 0]
    h[h.sum(1) > 1] = torch.arange(8.0)
    h[h < -1] = -1.0
    return h


def some_rows(h: Any) -> Any:
    out = torch.zeros_like(h)
    mask = h.sum(1) > 0
    out[mask] = h[mask].tanh()
    mask = mask.clone()
    before = h.detach()[mask].mean(0)
    mask[0] = True  # another mask, in the same memory
    return out + before + h.detach()[mask].mean(0)


def experts(h: Any) -> Any:
    """As a mixture of experts in transformers."""
    out = torch.zeros_like(h)
    mask = nn.functional.one_hot(h[:, :3].argmax(1), 3).T
    for expert in mask.sum(1).gt(0).nonzero():
        (rows,) = torch.where(mask[expert].squeeze(0))
        out.index_add_(0, rows, h[rows] * (expert.item() + 2))
    return out


def cross_entropy(h: Any) -> Any:
    mask = h[:, 0] > 0
    return nn.functional.cross_entropy(h[mask], torch.arange(8)[mask])


def whole_numbers(h: Any) -> Any:
    return (h.detach() * 2).abs().to(torch.int64)


FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "elements": lambda h: h[h > 0],
    "rows": lambda h: h[h.sum(1) > 0],
    "columns": lambda h: h[:, h.sum(0) > 0],
    "two dims": lambda h: h.view(8, 2, 4)[:, h.view(8, 2, 4).sum(0) > 0],
    "beside a number": lambda h: h.view(8, 4, 2)[h[:, 0] > 0, 1],
    "beside indices": lambda h: h[h[:, 0] > 0, torch.zeros((), dtype=torch.int64)],
    "masked_select": lambda h: torch.masked_select(h, h.sum(1, keepdim=True) > 0),
    "nonzero": lambda h: h[(h > 0).nonzero()[:, 0]],
    "where": lambda h: h[torch.where(h > 0)],
    "assignment": masked_assignment,
    "rows assigned": some_rows,
    "experts": experts,
    "cross_entropy": cross_entropy,
    "unique": lambda h: (*whole_numbers(h).unique(return_inverse=True, return_counts=True), h),
    "unique rows": lambda h: (
        *(whole_numbers(h)[:, :2] % 2).unique(dim=0, return_inverse=True, return_counts=True),
        h,
    ),
    "unique neighbors": lambda h: (
        *(whole_numbers(h) % 2).unique_consecutive(return_inverse=True, return_counts=True),
        h,
    ),
    "repeat_interleave": lambda h: h.repeat_interleave(whole_numbers(h)[:, 0], 0),
    "int": lambda h: h[: int(h.abs().max().clamp(1, 7))],
    "tolist": lambda h: torch.cat([h[:n].sum(0) for n in whole_numbers(h)[:3, 0].tolist()]),
    "split": lambda h: h.split([int((h[:, 0] > 0).sum()), int((h[:, 0] <= 0).sum())])[0],
    "one_hot": lambda h: nn.functional.one_hot(whole_numbers(h)) * h.unsqueeze(-1),
    "bincount": lambda h: (torch.bincount(whole_numbers(h).flatten()), h),
    "weighted bincount": lambda h: (
        torch.bincount(whole_numbers(h).flatten(), h.detach().flatten(), minlength=20),
        h,
    ),
    "equal": lambda h: h * 2 if torch.equal(h, h.abs()) else h * 3,
    "allclose": lambda h: h * 2 if torch.allclose(h, h.abs(), atol=2.5) else h * 3,
}


def batch(seed: int) -> Any:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sizes_are_those_of_each_call(name: str) -> None:
    torch.manual_seed(0)
    own = After(FUNCTIONS[name])
    f = sd.torch.partition(own, (batch(0),), PLAN, MESH)
    pairs = [(each, torch.optim.SGD(each.parameters(), 0.01)) for each in (f, own)]
    for step in range(3):
        results = []
        for module, optimizer in pairs:
            optimizer.zero_grad()
            found = pytree.tree_leaves(module(batch(step)))
            sum(each.float().square().mean() for each in found).backward()
            optimizer.step()
            results.append([*(each.detach() for each in found), *module.state_dict().values()])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    # The elements of a call are known in one process, so each call compiles once.
    assert len(f._engine.programs) <= 4


def test_the_example_tells_the_path() -> None:
    x = torch.tensor([1.0, -1.0, 2.0, -2.0])
    f = sd.torch.partition(After(lambda h: h)._modules["first"], (batch(0),), {}, MESH)
    assert not f._engine.programs[0].flat.path

    class Chooses(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x[x > 0]

    text = sd.to_text(sd.torch.lower(Chooses(), (x,), {}, MESH))
    assert "tensor<2xf32>" in text
    with torch.device("meta"):
        empty = torch.empty(4)
    text = sd.to_text(sd.torch.lower(Chooses(), (empty,), {}, MESH))
    assert "-> (tensor<4xf32>" in text.replace("{", "").replace(" mesh", "")


def test_masks_that_choose_nothing_and_everything() -> None:
    own = After(lambda h: h[h.sum(1) > 0].sum(1))
    f = sd.torch.partition(own, (batch(0),), PLAN, MESH)
    with torch.no_grad():
        for each in (f.first.bias, own.first.bias):
            each.fill_(100.0)
    torch.testing.assert_close(f(batch(1)), own(batch(1)))
    with torch.no_grad():
        for each in (f.first.bias, own.first.bias):
            each.fill_(-100.0)
    found = f(batch(1))
    assert found.shape == (0,)
    found.sum().backward()
    assert not f.first.weight.grad.any()


def test_a_value_of_another_number_is_refused() -> None:
    def assigned(h: Any) -> Any:
        h = h.clone()
        h[h > 100] = torch.ones(5)
        return h

    with pytest.raises(ShardError, match=r"sizes\.py:\d+: error: .* shape mismatch"):
        sd.torch.partition(After(assigned), (batch(0),), PLAN, MESH)


def test_sizes_that_vary_with_each_call_are_told() -> None:
    class Cuts(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, count: Any) -> Any:
            return x[: int(count)].sum()

    f = sd.torch.partition(Cuts(), (batch(0), torch.tensor(0)), {}, MESH)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for count in (1, 2, 3, 4, 1, 2, 5, 6, 7, 8, 3):
            torch.testing.assert_close(f(batch(0), torch.tensor(count)), batch(0)[:count].sum())
    (warning,) = (each for each in told if "depends on elements" in str(each.message))
    assert "test_sizes.py:" in str(warning.message)
    assert "0, 1, 2, 3, 4, 5, 6, 7 in 8 calls" in str(warning.message)
    assert len(f._engine.programs) == 9


def test_what_follows_a_value_that_the_example_has_not_is_what_the_program_saw() -> None:
    """Where rounding decides, the sizes of an example and of a program would not add up."""

    class Splits(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.split([int((x > 0).sum()), int((x <= 0).sum())])[0]

    module = Splits()
    given = arguments_of(module, (torch.tensor([1.0, -1.0, 2.0, -2.0]),), {}, None, ())
    for foreseen, path in ((Foreseen(known=(3,), likely=(1,)), (3, 1)), (UNKNOWN, (2, 2))):
        flat = FlatModule(module, {}, given, foreseen=foreseen)
        assert lower_module(flat, {}, MESH).flat.path == path
