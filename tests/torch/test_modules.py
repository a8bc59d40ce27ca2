"""What `sd.torch.partition` returns is a module of torch, of the class of yours."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.torch.graph import decompositions, trace_graph
from tests.torch.models import BATCH, R, assert_close

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 4), ("dp", "tp"))
PLAN = {"x": BATCH, "up.weight": [R, Shard(0)], "down.weight": [R, Shard(1)]}


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 8)
        self.drop, self.seen = nn.Dropout(0.3), nn.BatchNorm1d(8)

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        y = self.seen(self.down(self.drop(torch.relu(self.norm(self.up(x))))))
        return {"y": y * scale, "best": y.argmax(1)}

    def double(self) -> str:
        """A method of the user's."""
        return "his own"


def batch(size: int, seed: int) -> Any:
    return torch.randn(size, 8, generator=torch.Generator().manual_seed(seed))


def test_it_is_of_the_class_of_the_module() -> None:
    own = Net()
    f = sd.torch.partition(own, (batch(8, 0),), PLAN, MESH)
    assert isinstance(f, Net)
    assert isinstance(f, sd.torch.Partitioned)
    assert f.double() == "his own"
    assert [name for name, _ in f.named_modules()] == [name for name, _ in own.named_modules()]
    for (name, a), (other, b) in zip(f.named_parameters(), own.named_parameters(), strict=True):
        assert (name, a.shape, a.requires_grad) == (other, b.shape, True)
        assert a.data_ptr() != b.data_ptr()
    assert f.state_dict().keys() == own.state_dict().keys()


def test_it_trains_as_the_module_does() -> None:
    """Batches of two sizes, accumulated gradients, clipping, AdamW, gradients of arguments."""
    own = Net()
    f = sd.torch.partition(own, (batch(8, 0),), PLAN, MESH, rng="torch")
    optimizers = [torch.optim.SGD(each.parameters(), 0.1, momentum=0.9) for each in (f, own)]
    for step, size in enumerate((8, 8, 6)):
        results = []
        for each, optimizer in zip((f, own), optimizers, strict=True):
            torch.manual_seed(step)
            x = batch(size, step).requires_grad_()
            optimizer.zero_grad()
            losses = [each(x)["y"].square().mean(), each(x, 2.0)["y"].abs().mean()]
            for loss in losses:
                loss.backward()
            total = nn.utils.clip_grad_norm_(each.parameters(), 0.5)
            optimizer.step()
            results.append([*(loss.detach() for loss in losses), total, x.grad])
        for a, b in zip(*results, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert_close(f.state_dict(), own.state_dict())
    f.eval()
    own.eval()
    found, expected = f(batch(4, 9)), own(batch(4, 9))
    torch.testing.assert_close(found["y"], expected["y"], rtol=1e-4, atol=1e-5)
    assert torch.equal(found["best"], expected["best"])


def test_inside_of_another_module() -> None:
    own = Net().eval()
    f = sd.torch.partition(own, (batch(8, 0),), PLAN, MESH)
    head, given = nn.Linear(8, 2), batch(8, 1)

    def loss(body: Any) -> Any:
        return head(body(torch.tanh(given))["y"]).square().mean()

    loss(f).backward()
    loss(own).backward()
    expected = {name: each.grad for name, each in own.named_parameters()}
    assert_close({name: each.grad for name, each in f.named_parameters()}, expected)


def test_what_does_not_train_has_no_gradients() -> None:
    own = Net().eval()
    own.up.requires_grad_(False)
    f = sd.torch.partition(own, (batch(8, 0),), PLAN, MESH)
    f(batch(8, 1))["y"].sum().backward()
    assert {name for name, each in f.named_parameters() if each.grad is None} == {
        "up.weight",
        "up.bias",
    }
    with torch.no_grad():
        assert not f(batch(8, 1))["y"].requires_grad


def test_autocast_and_a_scaler() -> None:
    own = Net().eval()
    f = sd.torch.partition(own, (batch(8, 0),), PLAN, MESH)
    scaler = torch.amp.GradScaler("cpu")
    for each in (f, own):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = each(batch(8, 1))["y"].float().square().mean()
        scaler.scale(loss).backward()
    for (_, a), (_, b) in zip(f.named_parameters(), own.named_parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=5e-2, atol=5e-2 * float(b.grad.abs().max()))


def test_hooks_run_once_a_call() -> None:
    f = sd.torch.partition(Net().eval(), (batch(8, 0),), PLAN, MESH)
    seen: list[Any] = []
    f.register_forward_hook(lambda module, args, result: seen.append(result["y"].shape))
    f(batch(8, 1))
    f(batch(4, 1))
    assert seen == [(8, 8), (4, 8)]


class Around(nn.Module):  # type: ignore[misc]
    """As blocks are written whose functions have modules of theirs in variables around."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(6, 6), nn.Linear(6, 6)
        inner, out = self.inner, self.out

        def called(x: Any) -> Any:
            return torch.tanh(inner(x))

        ways: dict[str, Any] = {
            "one": called,
            "of another": lambda x: called(called(x)),
            "in a list": [called, lambda x: x],
            "in a dict": {"f": called},
            "default": lambda x, f=inner: torch.tanh(f(x)),
            "keyword": lambda x, *, f=called: f(x),
            "partial": partial(lambda scale, x: scale * called(x), 2.0),
        }
        self.ways = ways.get(way, lambda x: x)
        if way == "hook":
            self.out.register_forward_pre_hook(lambda _, args: (called(args[0]), *args[1:]))
        if way == "itself":
            self.ways = lambda x: self.inner(out(x))

    def forward(self, x: Any) -> Any:
        each = self.ways
        each = each["f"] if isinstance(each, dict) else each[0] if isinstance(each, list) else each
        return self.out(each(x))


@pytest.mark.parametrize(
    "way",
    [
        "one",
        "of another",
        "in a list",
        "in a dict",
        "default",
        "keyword",
        "partial",
        "hook",
        "itself",
    ],
)
def test_functions_around_whose_modules_are_inside(way: str) -> None:
    own, plain = Around(way), Around(way)
    plain.load_state_dict(own.state_dict())
    x = torch.randn(8, 6)
    f = sd.torch.partition(own, (x,), {"dp": fully_shard}, MESH)
    for training in (True, False, True):
        for each in (f, plain):
            each.train(training)
            each(x).square().mean().backward()
            torch.optim.SGD(each.parameters(), 0.5).step()
        torch.testing.assert_close(f(x), plain(x), rtol=1e-4, atol=1e-5)
        with torch.no_grad():  # and are none of the constants of a program
            torch.testing.assert_close(f(x), plain(x), rtol=1e-4, atol=1e-5)
    assert not any(each is other for each in f.modules() for other in own.modules())


def test_another_type() -> None:
    f = sd.torch.partition(Net().eval(), (batch(8, 0),), PLAN, MESH).to(torch.bfloat16)
    expected = Net().eval().to(torch.bfloat16)(batch(8, 0).bfloat16())["y"]
    found = f(batch(8, 0).bfloat16())["y"]
    torch.testing.assert_close(found, expected.detach(), rtol=5e-2, atol=5e-2)


def test_states_that_differ() -> None:
    f = sd.torch.partition(Net().eval(), (batch(8, 0),), PLAN, MESH)
    state = {name: each.clone() for name, each in f.state_dict().items()}
    kept = {name: each + 1 for name, each in state.items() if name != "up.bias"}
    found = f.load_state_dict({**kept, "other": torch.ones(1)}, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["up.bias"], ["other"])
    torch.testing.assert_close(f.state_dict()["down.bias"], state["down.bias"] + 1)


@dataclass
class Found(transformers.utils.ModelOutput):  # type: ignore[misc]
    y: Any = None
    inner: Any = None


class Nested(nn.Module):  # type: ignore[misc]
    """A class that is a dict, which tells no keys, inside of another and of a tuple."""

    def forward(self, x: Any) -> Any:
        return Found(x + 1, Found(x * 2, (Found(x * 3),)))


def test_results_in_classes_inside_of_each_other() -> None:
    found = sd.torch.partition(Nested(), (batch(8, 0),), {"x": BATCH}, MESH)(batch(8, 1))
    torch.testing.assert_close(found.y, batch(8, 1) + 1)
    torch.testing.assert_close(found.inner.inner[0].y, batch(8, 1) * 3)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_is_no_module_is_refused() -> None:
    with pytest.raises(ShardError, match=r"for a torch\.nn\.Module, not for <function"):
        sd.torch.partition(torch.nn.functional.relu, (batch(8, 0),), {}, MESH)
    with pytest.raises(ShardError, match=r"x: error: is an array of numpy: give torch\.from_numpy"):
        sd.torch.partition(Net(), (batch(8, 0).numpy(),), {}, MESH)
    with pytest.raises(ShardError, match=r"x: error: is a sparse tensor: use to_dense\(\) of it"):
        sd.torch.partition(Net(), (batch(8, 0).to_sparse(),), {}, MESH)
    with pytest.raises(ShardError, match=r"module: error: is compiled by torch\.jit"):
        sd.torch.partition(torch.jit.trace(nn.ReLU(), batch(8, 0)), (batch(8, 0),), {}, MESH)
    with pytest.raises(ShardError, match=r"x: error: is of uint16, .*: use int32"):
        sd.torch.partition(Net(), (batch(8, 0).to(torch.uint16),), {}, MESH)


class Sparse(nn.Module):  # type: ignore[misc]
    def __init__(self, has_buffer: bool) -> None:
        super().__init__()
        if has_buffer:
            self.register_buffer("edges", torch.eye(8).to_sparse())

    def forward(self, x: Any) -> Any:
        return (self.edges if hasattr(self, "edges") else x.to_sparse()) @ x.t()


def test_sparse_tensors_in_modules_are_refused() -> None:
    with pytest.raises(ShardError, match=r"edges: error: is a sparse tensor: use to_dense\(\)"):
        sd.torch.partition(Sparse(True), (batch(8, 0),), {}, MESH)
    with pytest.raises(ShardError, match=rf"{__file__}:\d+: .*_to_sparse.* use to_dense\(\)"):
        sd.torch.partition(Sparse(False), (batch(8, 0),), {}, MESH)


def test_embeddings_with_sparse_gradients_have_dense_ones() -> None:
    own = nn.Embedding(10, 4, sparse=True)
    f = sd.torch.partition(own, (torch.arange(3),), {}, MESH)
    for each in (f, own):
        each(torch.tensor([1, 1, 7])).square().sum().backward()
    torch.testing.assert_close(f.weight.grad, own.weight.grad.to_dense())


class Layers(nn.Module):  # type: ignore[misc]
    """Equal layers, and one of another width."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
        self.last = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = x + nn.functional.silu(layer(x))
        return nn.functional.silu(self.last(x)).square().mean()


def test_equal_layers_are_decomposed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    derivative = torch.ops.aten.silu_backward.default
    shapes = []

    def counted(gradient: Any, x: Any) -> Any:
        shapes.append(tuple(x.shape))
        return decompositions.table()[derivative](gradient, x)

    table = {**decompositions.table(), derivative: counted}
    monkeypatch.setattr(trace_graph, "table", lambda: table)
    own, x = Layers(), batch(8, 0)
    f = sd.torch.partition(own, (x,), {"x": BATCH}, MESH, loss=lambda y: y)
    own(x).backward()
    _, gradients = f(x)
    assert sorted(shapes) == [(8, 4), (8, 8)]
    for name, each in own.named_parameters():
        torch.testing.assert_close(gradients[name], each.grad)
