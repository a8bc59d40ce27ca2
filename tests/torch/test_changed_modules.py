"""Modules that change between calls, by their users or by their own forward."""

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import shard_dialect as sd

MESH = sd.Grid("mesh", (2, 2), axes=("dp", "tp"))


@dataclass
class Record:
    """What models give and take."""

    hidden: torch.Tensor
    parts: tuple[Any, ...] = ()
    loss: torch.Tensor | None = None


class Scaled(torch.nn.Module):
    """Counts its calls, in an attribute and in a list, and divides by an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.unused = torch.nn.Linear(4, 4), torch.nn.Linear(2, 2)
        self.drop = torch.nn.Dropout(0.0)
        self.temperature, self.calls, self.seen = 1.0, 0, [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        return self.drop(self.linear(x)) * self.calls / self.temperature


def both(module: torch.nn.Module, x: Any) -> tuple[Any, Any]:
    return sd.torch.partition(copy.deepcopy(module), (x,), {}, MESH), module


def test_attributes_that_change_between_calls() -> None:
    x = torch.randn(4, 4)
    f, module = both(Scaled(), x)
    for change in ({}, {"temperature": 4.0}, {"temperature": float("nan")}, {"temperature": 2.0}):
        for each in (f, module):
            vars(each).update(change)
        torch.testing.assert_close(f(x), module(x), equal_nan=True)
        assert (f.calls, f.seen) == (module.calls, module.seen)
    f.drop.p = 1.0
    assert not f(x).any()


def test_calls_that_count_and_use_nothing_of_it_share_a_program() -> None:
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = torch.nn.Linear(4, 4), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.linear(x)

    x = torch.randn(4, 4)
    f, _ = both(Counting(), x)
    with pytest.warns(UserWarning, match="Counting sets calls, and each value is traced"):
        trained_ten_times(f, x)
    assert f.calls == 10
    assert len(f._engine.programs) <= 2


def trained_ten_times(f: Any, x: Any) -> None:
    for _ in range(10):
        f(x).sum().backward()


def test_modules_parameters_and_hooks_that_are_exchanged() -> None:
    x = torch.randn(4, 4)
    first = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    f, module = both(first, x)
    torch.testing.assert_close(f(x), module(x))
    new, weight = torch.nn.Linear(4, 3), torch.nn.Parameter(torch.randn(4, 4))
    for change in (
        lambda each: each.__setitem__(2, copy.deepcopy(new)),
        lambda each: each.append(torch.nn.Tanh()),
        lambda each: setattr(each[0], "weight", copy.deepcopy(weight)),
        lambda each: each[0].register_forward_hook(lambda _, __, out: out * 2),
        lambda each: setattr(each[0], "bias", None),
    ):
        change(f)
        change(module)
        f.zero_grad()
        module.zero_grad()
        found, expected = f(x), module(x)
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        expected.sum().backward()
        for (name, mine), (other, theirs) in zip(
            f.named_parameters(), module.named_parameters(), strict=True
        ):
            assert name == other
            torch.testing.assert_close(mine.grad, theirs.grad)
    assert list(f.state_dict()) == list(module.state_dict())


def test_parameters_that_a_loss_does_not_depend_on_have_no_gradient() -> None:
    """An optimizer with weight decay, or momentum, leaves those alone."""

    class Heads(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unused = (torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.a(x), self.b(x)

    x = torch.randn(4, 4)
    f, _ = both(Heads(), x)
    f(x)[0].sum().backward()
    assert f.a.weight.grad is not None
    assert f.b.weight.grad is None
    assert f.unused.weight.grad is None


def test_constants_of_other_types_are_other_constants() -> None:
    class Times(torch.nn.Module):
        def forward(self, x: torch.Tensor, by: Any) -> torch.Tensor:
            return x * by

    x = torch.arange(4)
    f = sd.torch.partition(Times(), (x, 2), {}, MESH)
    assert f(x, 2).dtype == torch.int64
    assert f(x, 2.0).dtype == torch.float32


def test_a_list_that_keeps_tensors_is_refused() -> None:
    class Keeps(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.losses: list[Any] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.losses.append(x.sum())
            return x * 2

    module, x = Keeps(), torch.randn(4)
    with pytest.raises(sd.ShardError, match="keeps a tensor in the attribute losses"):
        sd.torch.partition(module, (x,), {}, MESH)
    assert module.losses == []


def test_dataclasses_as_arguments_and_results() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, given: Record) -> Record:
            out = self.linear(given.hidden)
            return Record(out, (Record(out * 2), None), out.sum())

    f, module = both(Module(), Record(torch.randn(4, 4)))
    for given in (Record(torch.randn(4, 4)), Record(torch.randn(4, 4))):
        found, expected = f(given), module(given)
        assert isinstance(found, Record)
        torch.testing.assert_close(found.hidden, expected.hidden)
        torch.testing.assert_close(found.parts[0].hidden, expected.parts[0].hidden)
        assert found.parts[1] is None
    found.loss.backward()
    expected.loss.backward()
    torch.testing.assert_close(f.linear.weight.grad, module.linear.weight.grad)


def test_reentrant_checkpoints_have_gradients() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            once = torch.tanh(self.linear(x))
            again: torch.Tensor = checkpoint(self.linear, once, use_reentrant=True)
            return torch.tanh(again)

    x = torch.randn(4, 4)
    f, module = both(Module(), x)
    f(x).sum().backward()
    module(x).sum().backward()
    torch.testing.assert_close(f.linear.weight.grad, module.linear.weight.grad)
