"""Arguments, state and results in the same memory: what is written to one is in the others."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import shard_dialect as sd
from tests.torch.called import MESH

Forward = Callable[..., Any]


class Module(nn.Module):  # type: ignore[misc]
    """Has a layer and two buffers; its forward is a function of itself and of two tensors."""

    def __init__(self, function: Forward) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function
        self.register_buffer("sums", torch.zeros(4))
        self.register_buffer("other", torch.zeros(4))

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(self, x, y)


def both(function: Forward, change: Callable[[Any], None] = lambda _: None) -> Any:
    module, plain = Module(function), Module(function)
    for each in (module, plain):
        change(each)  # whose parameters torch itself would copy apart
    plain.load_state_dict(module.state_dict())
    return sd.torch.partition(module, (torch.randn(4, 4), torch.randn(4, 4)), {}, MESH), plain


def counts(module: Any, x: Any, y: Any) -> Any:
    module.sums += x.mean(0).detach()
    return module.linear(x) + y


def writes(module: Any, x: Any, y: Any) -> Any:
    y.mul_(2)
    return module.linear(x)


WHOLE = torch.randn(5, 8)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (writes, lambda _: (WHOLE[:4, :4], WHOLE[1:, :4])),
        (writes, lambda _: (WHOLE[:4, :4],) * 2),
        (writes, lambda f: (WHOLE[:4, :4], f.sums.expand(4, 4))),
        (counts, lambda f: (WHOLE[:4, :4], f.sums.expand(4, 4))),
        (counts, lambda f: (f.sums.expand(4, 4), WHOLE[:4, :4])),
    ],
)
def test_writes_to_memory_of_others_are_refused(function: Forward, arguments: Any) -> None:
    f, _ = both(function)
    before = WHOLE.clone(), f.sums.clone()
    with pytest.raises(sd.ShardError, match=r"(sums|y) is written to or trained, and .* clone\(\)"):
        f(*arguments(f))
    assert torch.equal(before[0], WHOLE)
    assert torch.equal(before[1], f.sums)


@pytest.mark.parametrize(
    "arguments", [lambda whole: (whole[:4, :4], whole[:4, 4:]), lambda whole: whole[:4].chunk(2, 1)]
)
def test_writes_beside_others_are_as_in_torch(arguments: Any) -> None:
    f, plain = both(writes)
    ours, theirs = WHOLE.clone(), WHOLE.clone()
    with torch.no_grad():
        torch.testing.assert_close(f(*arguments(ours)), plain(*arguments(theirs)))
    assert torch.equal(ours, theirs)


def _overlapping(module: Any) -> None:
    whole = torch.zeros(6)
    module.sums, module.other = whole[:4], whole[2:]


def test_buffers_in_one_memory_of_which_one_is_written_to_are_refused() -> None:
    f, _ = both(counts, _overlapping)
    with pytest.raises(sd.ShardError, match="sums and other are in the same memory"):
        f(torch.randn(4, 4), torch.randn(4, 4))


def test_parameters_in_one_memory_are_trained_as_in_torch() -> None:
    def tie(module: Any) -> None:
        module.second = nn.Linear(4, 4)
        module.second.weight.data = module.linear.weight.data.t()

    f, plain = both(lambda module, x, y: module.second(module.linear(x)) + y, tie)
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    pairs = [(each, torch.optim.SGD(each.parameters(), lr=0.1)) for each in (f, plain)]
    for _ in range(3):
        for each, optimizer in pairs:
            optimizer.zero_grad()
            each(x, y).square().mean().backward()
            optimizer.step()
        torch.testing.assert_close(f.state_dict(), plain.state_dict())
    assert torch.equal(f.second.weight, f.linear.weight.t())


def test_views_of_the_state_in_attributes_are_refused() -> None:
    def views(module: Any) -> None:
        module.view = module.sums[:2]

    with pytest.raises(sd.ShardError, match="in the memory of sums"):
        both(lambda module, x, y: module.linear(x) + module.view.sum() + y, views)


def test_a_buffer_in_an_attribute_is_followed() -> None:
    def holds(module: Any) -> None:
        module.held = [module.sums]

    f, plain = both(lambda module, x, y: module.linear(x) + module.held[0] + y, holds)
    for each in (f, plain):
        each.sums.add_(3)
    x = torch.randn(4, 4)
    torch.testing.assert_close(f(x, x), plain(x, x))


def test_results_that_are_arguments_or_state_are_these_tensors() -> None:
    def returns(module: Any, x: Any, y: Any) -> Any:
        module.sums += 1
        module.kept = x
        return {"x": x, "parts": (y, module.sums, module.linear.weight), "new": module.linear(x)}

    f, plain = both(returns)
    x, y = torch.randn(4, 4).requires_grad_(), torch.randn(4, 4)
    found, expected = f(x, y), plain(x, y)
    assert found["x"] is x
    assert f.kept is x
    assert found["parts"][0] is y
    assert found["parts"][1] is f.sums
    assert found["parts"][2] is f.linear.weight
    for each, module in ((found, f), (expected, plain)):
        x.grad = None
        (each["new"].sum() + each["x"].square().sum() + each["parts"][2].sum()).backward()
        each["of_x"], each["of_weight"] = x.grad, module.linear.weight.grad
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("is_training", [False, True])
def test_results_that_are_written_to_have_gradients(is_training: bool) -> None:
    def scales(module: Any, x: Any, y: Any) -> Any:
        x.mul_(module.linear.bias)
        module.sums += y.mean(0)
        return x, module.sums

    f, plain = both(scales)
    for each in (f, plain):
        x, y = torch.ones(4, 4), torch.randn(4, 4, generator=torch.Generator().manual_seed(0))
        found, sums = each.train(is_training)(x, y)
        found.square().sum().backward()
        torch.testing.assert_close(found, x)
        torch.testing.assert_close(sums, each.sums)
    torch.testing.assert_close(f.linear.bias.grad, plain.linear.bias.grad)
    torch.testing.assert_close(f.sums, plain.sums)
