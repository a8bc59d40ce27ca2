"""`sd.torch.partition` beside the module itself, on devices of this process."""

import copy
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


def test_other_shapes_types_and_constants_are_compiled_when_they_come() -> None:
    module = Small().eval()
    f = sd.torch.partition(module, (X,), {"x": BATCH}, MESH)
    torch.testing.assert_close(f(X[:2]), module(X[:2]).detach())
    torch.testing.assert_close(f(X, 2.0), module(X, 2.0).detach())
    with pytest.raises(ShardError, match="does not take these arguments"):
        f(X, y=X)
    with pytest.raises(ShardError, match="operands of float32 and float64: expected one type"):
        f(X.double())


def test_targets_of_other_shapes_types_and_constants_are_other_programs() -> None:
    def loss(y: Any, target: Any, scale: float) -> Any:
        return (y - target).square().mean() * scale

    own, x = torch.nn.Linear(4, 4), torch.randn(8, 4)
    f = sd.torch.partition(own, (x,), {}, MESH, loss=loss, targets=(x, 2.0))
    for target, scale in ((x, 2.0), (x, 3.0), (x[0], 3.0), (x.double(), 3.0), (x, 2.0)):
        found, gradients = f(x, target, scale)
        expected = loss(own(x), target, scale)
        torch.testing.assert_close(found, expected.detach())
        (gradient,) = torch.autograd.grad(expected, [own.bias])
        torch.testing.assert_close(gradients["bias"], gradient)
    assert len(f._engine.programs) == 4


def test_arguments_are_a_tuple() -> None:
    with pytest.raises(ShardError, match=r"the arguments are a tuple, as \(x,\), and not a Tensor"):
        sd.torch.partition(Small().eval(), X, {"x": BATCH}, MESH)


def test_names_that_are_near_are_those_of_arguments_first() -> None:
    with pytest.raises(ShardError, match=r'"z" in the plan matches no .*; near: "x"'):
        sd.torch.partition(Small().eval(), (X,), {"z": BATCH}, MESH)


def test_autocast_around_a_call() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))
    f = sd.torch.partition(module, (X,), {"input": BATCH}, MESH)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            found, expected = f(X), module(X).detach()
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
        assert found.dtype == expected.dtype
    torch.testing.assert_close(f(X), module(X).detach())
    step = sd.torch.partition(
        module, (X,), {"input": BATCH}, MESH, loss=lambda y: y.square().mean()
    )
    with torch.autocast("cpu", dtype=torch.bfloat16):
        _, gradients = step(X)
        loss = module(X).square().mean()
    loss.backward()
    for name, each in module.named_parameters():
        torch.testing.assert_close(gradients[name], each.grad, rtol=3e-2, atol=1e-4)
    assert gradients["0.weight"].dtype == torch.float32


class Indexed(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, how: Any) -> None:
        super().__init__()
        self.table, self.how = torch.nn.Parameter(torch.randn(8, 8)), how

    def forward(self, i: Any) -> Any:
        return self.how(self.table, i)


INDEXED: dict[str, Any] = {
    "embedding": lambda table, i: torch.nn.functional.embedding(i, table),
    "computed": lambda table, i: torch.nn.functional.embedding(i * 2 - i, table),
    "index": lambda table, i: table[i],
    "two": lambda table, i: table[:, None][i, 0],
    "select": lambda table, i: table.index_select(1, i[0]),
    "gather": lambda table, i: table.gather(0, i),
    "scatter": lambda table, i: table.scatter(0, i, 1.0),
    "fill": lambda table, i: table.index_fill(0, i[0], 1.0),
    "take": lambda table, i: table.take(i),
    "one hot": lambda table, i: torch.nn.functional.one_hot(i, 8),
    "put": lambda table, i: table.index_put((i[0],), torch.ones(8)),
    "loss": lambda table, i: torch.nn.functional.cross_entropy(table, i.flatten()[:8]),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_that_is_out_of_range_is_refused_as_by_torch(name: str) -> None:
    """And one that torch takes is taken."""
    module = Indexed(INDEXED[name])
    good = torch.randint(0, 8, (4, 8))
    f = sd.torch.partition(module, (good,), {"i": BATCH, "table": [R, Shard(0)]}, MESH)
    taken, refused = [], []
    for value in (-100, -9, -8, -1, 0, 7, 8, 2**40):
        bad = good.clone()
        bad[0, 3] = value
        try:
            expected = module(bad).detach()
        except (IndexError, RuntimeError):
            refused.append(value)
            with pytest.raises(IndexError, match=f"index {value} is out of range for "):
                f(bad)
            continue
        taken.append(value)
        torch.testing.assert_close(f(bad), expected)
    assert taken
    assert refused


def test_what_a_module_writes_to_its_arguments_is_written() -> None:
    class Writing(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            x.add_(1)
            return x * y

    f = sd.torch.partition(Writing(), (X.clone(), X), {"x": BATCH}, MESH)
    x = X.clone()
    torch.testing.assert_close(f(x, X), (X + 1) * X)
    torch.testing.assert_close(x, X + 1)


def test_a_module_that_keeps_tensors_has_them_after_a_call() -> None:
    class Keeps(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            self.last = x * 2
            return self.last

    module = Keeps()
    f: Any = sd.torch.partition(module, (X,), {"x": BATCH}, MESH)
    assert not hasattr(module, "last")
    f(X)
    torch.testing.assert_close(f.last, X * 2)


def test_constants_of_a_call_are_kept() -> None:
    module = Small().eval()
    f = sd.torch.partition(module, (X,), {"x": BATCH}, MESH, kwargs={"scale": 3.0})
    torch.testing.assert_close(f(X, scale=3.0), module(X, 3.0).detach())


def test_what_does_not_export_is_refused() -> None:
    class Asks(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x * x.sum().item()

    with pytest.raises(ShardError, match=r"test_partition\.py:\d+: error: the module takes a size"):
        sd.torch.partition(Asks(), (X,), {"x": BATCH}, MESH)


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


@pytest.mark.parametrize("in_place", [False, True])
def test_a_copy_has_a_state_of_its_own(in_place: bool) -> None:
    module, x = Small(), torch.randn(8, 8)
    module.tied = module.up.weight
    f: Any
    if in_place:
        f = sd.torch.fully_shard(module, mesh=sd.Grid("mesh", (4,)))
    else:
        f = sd.torch.partition(module, (x,), {"up.weight": [Shard(0), R]}, MESH)
    f(x).sum().backward()
    twin = copy.deepcopy(f)
    assert type(twin) is type(f)
    assert twin.tied is twin.up.weight
    assert not {id(each) for each in f.parameters()} & {id(each) for each in twin.parameters()}
    before = {name: each.detach().clone() for name, each in f.named_parameters()}
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.5)
    optimizer.zero_grad()
    twin(x).square().sum().backward()
    optimizer.step()
    assert all(torch.equal(each, before[name]) for name, each in f.named_parameters())
    assert not torch.equal(twin.up.weight, f.up.weight)
    twin.load_state_dict(f.state_dict())
    torch.testing.assert_close(copy.deepcopy(twin).eval()(x[:4]), f.eval()(x[:4]))


class Stack(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Small() for _ in range(2)])

    def forward(self, x: Any) -> Any:
        for each in self.layers:
            x = x + each(x)
        return x


@pytest.mark.parametrize("loss", [None, lambda y: y.square().mean()])
def test_a_report_names_the_modules(loss: Any) -> None:
    plan = {"tp": {f"layers.*.{name}.weight": Shard(dim) for name, dim in (("up", 0), ("down", 1))}}
    lowered = sd.torch.lower(Stack(), (torch.randn(8, 8),), plan, MESH, loss=loss)
    report = sd.report(lowered)
    layers = {each.layer for each in report.communication}
    assert {"layers.0/down", "layers.1/down"} <= layers
    assert "for layers.0/down at " in str(report)
    assert ("layers.0", "down") in {each.layers for each in report.layers.ops}


class Classifier(torch.nn.Module):
    """An embedding, a layer of a transformer, and the loss of each token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(32, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.out = torch.nn.Linear(16, 32)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.out(self.layer(self.tokens(ids)))
        return torch.nn.functional.cross_entropy(logits.reshape(-1, 32), labels.reshape(-1))


def test_a_batch_that_the_devices_do_not_divide_stays_where_it_is() -> None:
    """Also where it is merged with the positions; the loss alone is summed."""
    torch.manual_seed(0)
    module = Classifier()
    ids, labels = (torch.randint(0, 32, (7, 5)) for _ in range(2))
    batch = [Shard(0), Replicate()]
    f = sd.torch.partition(module, (ids, labels), {"ids": batch, "labels": batch}, MESH)
    expected = copy.deepcopy(module)
    loss, expected_loss = f(ids, labels), expected(ids, labels)
    loss.backward()
    expected_loss.backward()
    torch.testing.assert_close(loss, expected_loss)
    for each, other in zip(f.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(each.grad, other.grad)
    lowered = sd.torch.lower(module, (ids, labels), {"ids": batch, "labels": batch}, MESH)
    sd.run_pipeline(lowered, "spmd")
    # An i64 and an f32: how many tokens count, and the sum of their losses.
    assert sd.communication(lowered).bytes_moved == 8 + 4


class Stateful(torch.nn.Module):
    """Has a state that is no tensor, and took its weight by another name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.scale = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), 1.0
        self.register_load_state_dict_pre_hook(Stateful.rename)

    @staticmethod
    def rename(_: Any, state: Any, *__: Any) -> None:
        if "old" in state:
            state["linear.weight"] = state.pop("old")

    def get_extra_state(self) -> Any:
        return {"scale": self.scale}

    def set_extra_state(self, state: Any) -> None:
        self.scale = state["scale"]

    def forward(self, x: Any) -> Any:
        return self.norm(self.linear(x)) * self.scale


def test_modules_that_load_their_state_in_their_own_way() -> None:
    own, x = Stateful().eval(), torch.randn(4, 4)
    f = sd.torch.partition(own, (x,), {}, MESH)
    state = dict(own.state_dict())
    state |= {"old": state.pop("linear.weight") * 2, "_extra_state": {"scale": 3.0}}
    del state["norm.num_batches_tracked"]  # as before there was one
    for each in (f, own):
        each.load_state_dict(state)
        torch.testing.assert_close(f(x), own(x), check_stride=False) if each is own else None
    assert f.scale == 3.0
    assert f.state_dict().keys() == own.state_dict().keys()
    assert f.state_dict()._metadata == own.state_dict()._metadata
    halves = {name: each.half() for name, each in own.linear.state_dict(prefix="linear.").items()}
    for each in (f, own):
        found = each.load_state_dict(halves, strict=False, assign=True)
        assert "_extra_state" in found.missing_keys
        assert each.linear.weight.dtype == torch.float16
    torch.testing.assert_close(f.state_dict(), own.state_dict())
