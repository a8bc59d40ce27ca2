"""`sd.torch.partition` beside the module itself, on devices of this process."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard

import shard_dialect as sd
from shard_dialect.errors import ShardError
from tests.torch.models import BATCH, MODELS, R, assert_close, make

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 4), ("dp", "tp"))


@pytest.mark.parametrize("name", MODELS)
def test_gives_what_the_module_gives(name: str) -> None:
    model = make(name)
    f = sd.torch.partition(model.module, model.args, model.plan, MESH, kwargs=model.kwargs)
    actual = f(*model.args, **model.kwargs)
    expected = model.module(*model.args, **model.kwargs)
    assert type(actual) is type(expected)
    assert_close(actual, {key: each.detach() for key, each in expected.items()})
    assert f.state_dict().keys() == model.module.state_dict().keys()
    shared = [name for name, _ in model.module.named_parameters()]
    assert [name for name, _ in f.named_parameters()] == shared


@pytest.mark.parametrize("name", ["llama", "vit"])
def test_gradients_are_those_of_the_module(name: str) -> None:
    model = make(name)

    def loss(result: Any) -> Any:
        return result["loss"] if "loss" in result else result[0].square().mean()

    step = sd.torch.partition(
        model.module, model.args, model.plan, MESH, kwargs=model.kwargs, loss=loss
    )
    value, gradients = step(*model.args, **model.kwargs)
    expected = loss(model.module(*model.args, **model.kwargs))
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    own = {k: each.grad for k, each in model.module.named_parameters()}
    zeros = {k: torch.zeros_like(each) for k, each in gradients.items()}
    assert_close(gradients, {k: zeros[k] if each is None else each for k, each in own.items()})


class Small(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.norm = torch.nn.BatchNorm1d(8)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.norm(self.down(torch.relu(self.up(x)))) * scale


X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


def test_a_training_step_updates_buffers_and_parameters() -> None:
    module, target = Small(), torch.ones(4, 8)
    step = sd.torch.partition(
        module,
        (X,),
        {"x": BATCH, "tp": fully_shard},
        MESH,
        loss=torch.nn.functional.mse_loss,
        targets=(target,),
    )
    ours = torch.optim.SGD(step.parameters(), 0.1)
    theirs = torch.optim.SGD(module.parameters(), 0.1)
    for _ in range(3):
        value, gradients = step(X, target)
        for name, parameter in step.named_parameters():
            parameter.grad = gradients[name]
        ours.step()
        theirs.zero_grad()
        expected = torch.nn.functional.mse_loss(module(X), target)
        expected.backward()
        theirs.step()
        torch.testing.assert_close(value, expected.detach())
    assert_close(step.state_dict(), module.state_dict())


def test_what_does_not_divide() -> None:
    module = torch.nn.Linear(6, 7)
    plan = {"input": [Replicate(), Shard(0)], "weight": [Shard(0), Replicate()]}
    x = torch.randn(5, 6)
    torch.testing.assert_close(sd.torch.partition(module, (x,), plan, MESH)(x), module(x).detach())


def test_state_goes_in_and_out(tmp_path: Path) -> None:
    with torch.device("meta"):
        empty = Small()
    f = sd.torch.partition(empty.eval(), (X,), {"x": BATCH}, MESH)
    with pytest.raises(ShardError, match="use load_state_dict or load_safetensors"):
        f(X)
    module = Small().eval()
    f.load_state_dict(module.state_dict())
    torch.testing.assert_close(f(X), module(X).detach())
    halved = {name: each / 2 for name, each in module.state_dict().items()}
    save_file(halved, tmp_path / "model.safetensors")
    f.load_safetensors(tmp_path)
    torch.testing.assert_close(f.state_dict()["up.weight"], halved["up.weight"])
    with pytest.raises(ShardError, match=r"no state of the module: without down.bias"):
        f.load_state_dict({name: each for name, each in halved.items() if name != "down.bias"})
    with pytest.raises(ShardError, match=r"with other$"):
        f.load_state_dict({**halved, "other": X})
    with pytest.raises(ShardError, match=r"up\.bias: error: has shape \[1\]: expected \[16\]"):
        f.load_state_dict({**halved, "up.bias": torch.ones(1)})
    with pytest.raises(ShardError, match="cannot read"):
        f.load_safetensors(tmp_path / "none.json")


def test_only_elements_may_change() -> None:
    f = sd.torch.partition(Small().eval(), (X,), {"x": BATCH}, MESH)
    for arguments in ((X[:2],), (X.double(),), (X, 2.0)):
        with pytest.raises(ShardError, match="the arguments differ from those"):
            f(*arguments)
    with pytest.raises(ShardError, match="does not take these arguments"):
        f(X, y=X)


def test_constants_of_a_call_are_kept() -> None:
    module = Small().eval()
    f = sd.torch.partition(module, (X,), {"x": BATCH}, MESH, kwargs={"scale": 3.0})
    torch.testing.assert_close(f(X, scale=3.0), module(X, 3.0).detach())


def test_random_numbers_are_refused() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout())
    with pytest.raises(ShardError, match=r"dropout\.py:\d+: error: the module draws random"):
        sd.torch.partition(module, (X,), {"input": BATCH}, MESH)


def test_what_does_not_export_is_refused() -> None:
    class Asks(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(ShardError, match=r"torch\.export cannot trace the module"):
        sd.torch.partition(Asks(), (X,), {"x": BATCH}, MESH)


def test_an_op_that_stablehlo_lacks_is_refused_where_it_stands() -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvalsh(x @ x.T)

    with pytest.raises(ShardError, match=r"test_partition\.py:\d+:\d+: error: "):
        sd.torch.partition(Odd(), (X,), {"x": [R, R]}, MESH)


class Writes(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        y = torch.zeros_like(x)
        y[:, 2:] = x[:, 2:] * 2
        return y[:, ::3].sum() + y[:, 1].sum() + y.square().sum()


def test_slices_are_written_and_differentiated() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), Writes())
    step = sd.torch.partition(
        module, (X,), {"input": BATCH, "tp": fully_shard}, MESH, loss=lambda found: found
    )
    value, gradients = step(X)
    expected = module(X)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    assert_close(gradients, {name: each.grad for name, each in module.named_parameters()})
