"""Modules that decide by elements what to compute: a program for each path that a call takes."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

import shard_dialect as sd
from shard_dialect.torch.graph.decisions import Foreseen
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.tensor_trees import arguments_of
from shard_dialect.torch.lower_module import lower_module
from tests.torch.models import BATCH

pytestmark = pytest.mark.usefixtures("unoptimized")
MESH = sd.Grid("mesh", (2, 2), ("dp", "tp"))


class Decides(nn.Module):  # type: ignore[misc]
    """Of three paths: which one the elements say."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        assert torch.isfinite(x).all(), "is finite"
        self.calls += 1
        y = self.first(x)
        if (x > 1).any():
            y = self.second(y)
            if x.sum() > 100:
                y = y.tanh()
        return y


class Compares(nn.Module):  # type: ignore[misc]
    """Decides by numbers that it has read."""

    def __init__(self, decides: Any) -> None:
        super().__init__()
        self.first, self.decides = nn.Linear(4, 4), decides

    def forward(self, x: Any) -> Any:
        return self.first(x) if self.decides(x) else self.first(x).tanh()


@pytest.mark.parametrize(
    "decides",
    [
        lambda x: x.mean().item() > 0.1,
        lambda x: 0.1 < x.sum(1)[:1].item() <= 9,
        lambda x: x[0].mean().tolist() != x[1].max().item(),
        lambda x: x.mean().bfloat16().item() == 0.1,
        lambda x: x.mean().item() not in (0.1, 5.0),
        lambda x: x.mean().item(),
        lambda x: torch.rand(1).item() <= 0.5,
    ],
)
def test_numbers_that_are_compared(decides: Any) -> None:
    own = Compares(decides)
    f = sd.torch.partition(copy.deepcopy(own), (batch(0.5),), {"x": BATCH}, MESH, rng="torch")
    for number, value in enumerate((0.5, 0.1, -1.0, 0.0, 5.0, 0.5)):
        x = batch(value)
        torch.manual_seed(number)
        found = f(x)
        torch.manual_seed(number)
        torch.testing.assert_close(found, own(x))
    assert len(f._engine.programs) <= 4


def batch(value: float) -> Any:
    return torch.full((4, 4), value)


def test_each_call_takes_its_path() -> None:
    torch.manual_seed(0)
    own = Decides()
    f = sd.torch.partition(own, (batch(0.5),), {"x": BATCH}, MESH)
    own = copy.deepcopy(own)
    engine = f._engine
    for value, count in ((0.5, 1), (2.0, 2), (9.0, 3), (0.1, 3), (3.0, 3), (3.0, 3)):
        f.zero_grad()
        own.zero_grad()
        found, expected = f(batch(value)), own(batch(value))
        torch.testing.assert_close(found, expected)
        found.square().sum().backward()
        expected.square().sum().backward()
        for a, b in zip(f.parameters(), own.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if b.grad is not None:
                torch.testing.assert_close(a.grad, b.grad)
        assert len(engine.programs) == count
    torch.testing.assert_close(f.calls, own.calls)


def test_a_path_that_ends_with_an_error_is_not_compiled() -> None:
    f = sd.torch.partition(Decides(), (batch(0.5),), {"x": BATCH}, MESH)
    with pytest.raises(AssertionError, match="is finite"):
        f(batch(float("nan")))


class Drops(nn.Module):  # type: ignore[misc]
    """Leaves out layers at random, and drops elements."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.dropout = nn.ModuleList(nn.Linear(4, 4) for _ in range(2)), nn.Dropout()

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            if torch.rand([]) < 0.5:
                x = self.dropout(layer(x)).tanh()
        return x


def test_layers_that_are_left_out_are_those_of_torch() -> None:
    own = Drops()
    f = sd.torch.partition(own, (batch(0.5),), {"x": BATCH}, MESH, rng="torch")
    for seed in range(5):
        torch.manual_seed(seed)
        found = f(batch(0.5))
        torch.manual_seed(seed)
        torch.testing.assert_close(found, own(batch(0.5)))
    assert 1 < len(f._engine.programs) <= 4


def test_with_a_loss() -> None:
    own = Decides()
    args = own, (batch(0.5),), {"x": BATCH}, MESH
    step = sd.torch.partition(*args, loss=lambda y: y.square().sum())
    for value in (0.5, 2.0, 0.5):
        own.zero_grad()
        expected = own(batch(value)).square().sum()
        expected.backward()
        loss, gradients = step(batch(value))
        torch.testing.assert_close(loss, expected.detach())
        torch.testing.assert_close(gradients["first.weight"], own.first.weight.grad)


def test_ranks_agree_outside_of_the_python_dispatcher() -> None:
    """There they would hold the GIL while they meet, which threads of gloo may wait for."""
    inside = []

    def agreed(value: int | None) -> int | None:
        key = torch._C.DispatchKey.PythonDispatcher
        inside.append(torch._C._dispatch_tls_is_dispatch_key_included(key))
        return value

    module = Decides()
    given = arguments_of(module, (torch.zeros(4, 4),), {}, None, ())
    flat = FlatModule(module, {}, given, foreseen=Foreseen(agreed=agreed))
    lower_module(flat, {"x": BATCH}, MESH)
    assert inside
    assert not any(inside)


def test_tensors_made_of_lists_with_tensors() -> None:
    class Makes(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
            return [
                x.reshape(torch.cat([torch.tensor([n[0] * 2]), torch.as_tensor([-1])]).tolist()),
                torch.tensor([[n[0], 2], [3, n[1]]]),
                torch.as_tensor((n[0], 2.5)),
                torch.tensor([n[:1], 5, n[1].view(1, 1)]),
                torch.tensor(data=[x[0, 0].half(), 2]),
                torch.tensor([x[0, 1].detach(), 2], dtype=torch.float64),
                torch.tensor([n[0] > 1, True]),
            ]

    module, x = Makes(), torch.randn(4, 4)
    f = sd.torch.partition(module, (x, torch.tensor([1, 2])), {}, MESH)
    for n in (torch.tensor([1, 2]), torch.tensor([2, 5])):
        torch.testing.assert_close(f(x, n), module(x, n))


class AsksForCompilers(nn.Module):  # type: ignore[misc]
    """Computes something else where it is compiled, as transformers' RecurrentGemma does; or fails.

    With `branches`, elements decide, too.
    """

    def __init__(self, branches: bool) -> None:
        super().__init__()
        self.branches = branches

    def forward(self, x: Any) -> Any:
        if self.branches and torch.compiler.is_compiling():
            raise NotImplementedError("compilers")
        if self.branches and x.max() > 3:
            return x
        return x if torch.compiler.is_compiling() else x.exp()


@pytest.mark.parametrize("branches", [False, True])
def test_modules_that_ask_for_compilers_compute_what_they_do_without(
    branches: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    own = AsksForCompilers(branches)
    x = torch.rand(4, 4)
    f = sd.torch.partition(own, (x,), {"x": BATCH}, MESH)
    torch.testing.assert_close(f(x), own(x))
    assert capfd.readouterr().err == ""
