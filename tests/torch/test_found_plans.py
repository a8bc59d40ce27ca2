"""`sd.torch.partition(..., plan=sd.AUTO)`: a search finds the plan of a module."""

import pytest
import torch

import shard_dialect as sd

GRID = sd.Grid("mesh", (2, 2), axes=("data", "model"))
SHORT = sd.AutoOptions(objective="bytes", memory_limit=10_000, plans=400)


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(16, 64)
        self.down = torch.nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(x)))


@pytest.fixture
def module() -> Layer:
    torch.manual_seed(0)
    return Layer()


def test_it_computes_what_the_module_does_within_the_memory(module: Layer) -> None:
    x = torch.randn(32, 16)
    found = sd.torch.partition(module, (x,), SHORT, GRID)
    torch.testing.assert_close(found(x), module(x), rtol=1e-4, atol=1e-4)
    assert sd.report(sd.torch.lower(module, (x,), SHORT, GRID)).memory.peak <= 10_000


def test_the_found_plan_is_one_for_partition(module: Layer) -> None:
    x = torch.randn(32, 16)
    plan = sd.torch.partition(module, (x,), SHORT, GRID).plan()
    assert set(plan) == {"up.weight", "up.bias", "down.weight", "down.bias", "x", "output"}
    assert any(each.is_shard() for each in plan["up.weight"])
    again = sd.torch.partition(module, (x,), plan, GRID)
    assert again.plan() == plan
    torch.testing.assert_close(again(x), module(x), rtol=1e-4, atol=1e-4)


def test_a_limit_that_nothing_keeps_is_refused(module: Layer) -> None:
    tiny = sd.AutoOptions(memory_limit=100, seconds=1)
    with pytest.raises(sd.ShardError, match="takes 100 bytes on a device: the best one takes"):
        sd.torch.partition(module, (torch.randn(32, 16),), tiny, GRID)
