"""What users do around a module in a training loop, and what its forward does beside its result."""

import copy
import io
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.utils.checkpoint import checkpoint

import shard_dialect as sd
from shard_dialect.errors import ShardError
from tests.torch.models import assert_close

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 2), axes=("dp", "tp"))
CALLS = set[int]()
NUMPYS = np.random.default_rng(0)


class Net(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16, bias=False), nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("seen", torch.zeros(8))
        self.register_buffer("is_set", torch.tensor(False))
        self.register_buffer("empty", None)

    def forward(self, x: Any) -> Any:
        return self.down(torch.tanh(self.norm(self.up(x))))


def batch(seed: int = 0) -> Any:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(seed))


def partitioned(own: nn.Module) -> Any:
    return sd.torch.partition(own, (batch(),), {"tp": fully_shard}, MESH, rng="torch")


def trained(module: nn.Module) -> list[Any]:
    """Three steps, and what they have computed."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    found = []
    for step in range(3):
        x = batch(step).requires_grad_()
        optimizer.zero_grad()
        y = module(x)
        y.square().mean().backward()
        optimizer.step()
        found += [y.detach(), x.grad]
    return found


def assert_trains_equally(own: nn.Module) -> None:
    f = partitioned(own)
    for a, b in zip(trained(f), trained(own), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    assert_close(f.state_dict(), own.state_dict())


def with_forward(forward: Callable[[Any, Any], Any]) -> Any:
    torch.manual_seed(0)
    return type("Net", (Net,), {"forward": forward})()


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_a_checkpoint_around_the_module(reentrant: bool, training: bool) -> None:
    own = Net().train(training)
    f = partitioned(own)
    for each in (f, own):
        x = batch().requires_grad_()
        checkpoint(each, x, use_reentrant=reentrant).square().sum().backward()
    grads = {name: each.grad for name, each in own.named_parameters()}
    assert_close({name: each.grad for name, each in f.named_parameters()}, grads)


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode])
def test_statistics_of_a_batch_in_every_mode(around: Any) -> None:
    """In inference mode, torch's batch norm writes without telling."""
    own = Net()
    f = partitioned(own)
    for _ in range(2):
        for each in (f, own):
            with around():
                y = each(batch(1))
            assert y.is_inference() == (around is torch.inference_mode)
        assert_close(f.state_dict(), own.state_dict())
    assert_trains_equally(own)


def without_autocast(self: Any, x: Any) -> Any:
    y = self.up(x)
    with torch.autocast("cpu", enabled=False):
        return self.down(y.float())


def distances(self: Any, x: Any) -> Any:
    return torch.cdist(self.up(x), self.up(x * 2))


def pooled(self: Any, x: Any) -> Any:
    return nn.functional.adaptive_max_pool3d(self.up(x).reshape(2, 4, 4, 4), 2)


def sampled(self: Any, x: Any) -> Any:
    grid = torch.tanh(x[:, :2]).reshape(1, 4, 2, 2)
    return nn.functional.grid_sample(self.up(x).reshape(1, 2, 8, 8), grid, align_corners=False)


def solved(self: Any, x: Any) -> Any:
    return torch.linalg.lstsq(x, self.up(x)).solution


def aligned(self: Any, x: Any) -> Any:
    log_p = self.up(x).reshape(8, 4, 4).log_softmax(-1)
    targets = torch.tensor([[1, 2, 1]] * 4)
    return nn.functional.ctc_loss(log_p, targets, torch.full((4,), 8), torch.full((4,), 3))


@pytest.mark.parametrize("forward", [without_autocast, distances, pooled, sampled, solved, aligned])
def test_what_autocast_leaves_alone(forward: Any) -> None:
    own = with_forward(forward)
    f = partitioned(own)
    for _ in range(2):
        found = []
        for each in (f, own):
            each.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                y = each(batch())
            y.square().sum().backward()
            found.append((y, each.up.weight.grad))
        (y, gradient), (expected, derived) = found
        assert y.dtype == expected.dtype == torch.float32
        torch.testing.assert_close(y, expected, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(gradient, derived, rtol=5e-2, atol=5e-2 * float(derived.max()))


def test_computed_parameters_that_torch_caches_around() -> None:
    own = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    nn.utils.parametrizations.weight_norm(own[0])
    f = partitioned(own)
    found = []
    for each in (f, own):
        with nn.utils.parametrize.cached():
            y = each(batch()[:4]) + each(batch()[4:])
        y.square().sum().backward()
        found.append((y, [own.grad for own in each.parameters()]))
    torch.testing.assert_close(*found)


class Recorder:
    """Whose calls and methods are hooks."""

    def __init__(self) -> None:
        self.scale, self.found = 2.0, list[Any]()

    def __call__(self, module: Any, args: Any, result: Any) -> None:
        self.last = result.detach()

    def appended(self, module: Any, args: Any, result: Any) -> None:
        self.found.append(result.detach())

    def scaled(self, module: Any, args: Any, result: Any) -> Any:
        return result * self.scale


def test_objects_whose_methods_are_hooks() -> None:
    recorder = Recorder()
    own = Net().eval()
    f = partitioned(own)
    for each in (f, own):
        each.norm.register_forward_hook(recorder.scaled)
    for scale in (2.0, 3.0):
        recorder.scale = scale
        torch.testing.assert_close(f(batch()), own(batch()))
    for inside in (True, False):
        for hook in (recorder, recorder.appended):
            handle = (f.norm if inside else f).register_forward_hook(hook)
            for _ in range(2):
                f(batch())
            known = len(f._engine.programs[-1].states)
            f(batch())
            assert inside or len(f._engine.programs[-1].states) == known
            handle.remove()
    assert recorder.found[-1].equal(recorder.last)
    torch.testing.assert_close(recorder.last, f(batch()).detach())


def test_anomalies_are_found_in_calls() -> None:
    f = partitioned(with_forward(lambda self, x: self.up(x).sqrt()))
    with torch.autograd.set_detect_anomaly(True):
        y = f(batch()[:4])
        assert not f._engine._latest.part.path
        with pytest.raises(RuntimeError, match="returned nan values"):
            y.sum().backward()


def asks_for_its_mode(self: Any, x: Any) -> Any:
    return self.up(x) * (2 if torch.is_grad_enabled() else 3)


def asks_its_parameter(self: Any, x: Any) -> Any:
    return self.up(x) * (2 if self.up.weight.requires_grad else 3)


def asks_what_it_computes(self: Any, x: Any) -> Any:
    y = self.up(x)
    return y * 2 if y.requires_grad else y * 3


def asks_nothing_of_its_state(self: Any, x: Any) -> Any:
    return x * (2 if torch.is_grad_enabled() else 3)


@pytest.mark.parametrize(
    "forward",
    [asks_for_its_mode, asks_its_parameter, asks_what_it_computes, asks_nothing_of_its_state],
)
def test_forward_asks_whether_it_is_derived(forward: Any) -> None:
    own = with_forward(forward)
    f = partitioned(own)
    for training in (True, False):
        for each in (f, own):
            each.train(training)
        for is_frozen in (False, True, False):
            for around in (torch.enable_grad, torch.no_grad, torch.enable_grad):
                for each in (f, own):
                    each.requires_grad_(not is_frozen)
                with around():
                    torch.testing.assert_close(f(batch()), own(batch()))


class Critic(nn.Module):
    """With a batch norm, whose statistics a call changes once, and random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(8, 8), nn.Linear(8, 1), nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Any) -> Any:
        return self.down(self.drop(self.norm(self.up(x)).tanh()))


@pytest.mark.parametrize("training", [True, False])
def test_gradient_penalties(training: bool) -> None:
    """Second derivatives by the parameters, with one optimizer's steps between."""
    own = Critic().double().train(training)
    x = batch().double().requires_grad_()
    plan = {"x": [Shard(0), Replicate()], "output": [Shard(0), Replicate()]}
    f = sd.torch.partition(copy.deepcopy(own), (x,), plan, MESH, rng="torch")
    found = []
    for each in (f, own):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        for step in range(3):
            torch.manual_seed(step)
            y = each(x)
            (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
            loss = y.square().mean() + (gradient.norm(dim=1) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            found.append((loss.detach(), [one.grad.clone() for one in each.parameters()]))
            optimizer.step()
    torch.testing.assert_close(found[:3], found[3:])
    torch.testing.assert_close(f.state_dict(), own.state_dict())


def test_derivatives_of_higher_orders() -> None:
    own = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2)).double().eval()
    x = batch()[:3].double().requires_grad_()
    f = sd.torch.partition(copy.deepcopy(own), (x,), {}, MESH)
    found = []
    for each in (f, own):
        y = each(x)
        for _ in range(3):
            (y,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        found.append((y, torch.autograd.functional.hessian(lambda x: each(x).sum(), x)))  # noqa: B023
    torch.testing.assert_close(*found)


def stacked(module: nn.Module) -> Any:
    state, x = torch.func.stack_module_state([module, module]), batch()
    return torch.vmap(lambda *own: torch.func.functional_call(module, own, (x,)))(*state)


def of_state(module: nn.Module) -> Any:
    own = {name: each.detach() for name, each in module.named_parameters()}
    call = torch.func.functional_call
    return torch.func.grad(lambda now: call(module, now, (batch(),)).sum())(own)


TRANSFORMS: list[Callable[[nn.Module], Any]] = [
    stacked,
    of_state,
    lambda module: torch.vmap(module)(batch().expand(3, 8, 8)),
    lambda module: torch.func.jvp(module, (batch(),), (batch(),)),
    lambda module: torch.func.jacrev(module)(batch()),
    lambda module: torch.func.vjp(module, batch()),
]


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("training", [True, False])
def test_transforms_around_the_module_are_refused(training: bool) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    f = partitioned(module).train(training)
    for transform in TRANSFORMS:
        with pytest.raises(ShardError, match="Sequential is partitioned, and transforms of torch"):
            transform(f)
    torch.testing.assert_close(f(batch()), module(batch()))


class Inner(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) / 4)

    def of(self, x: Any) -> Any:
        return torch.tanh(x @ self.weight)


class Forces(Inner):
    """The derivative of an energy by positions."""

    def forward(self, x: Any) -> Any:
        return torch.func.grad(lambda x: self.of(x).square().sum())(x)


class Jacobians(Inner):
    def forward(self, x: Any) -> Any:
        ways = torch.func.jacrev, torch.func.jacfwd
        found = [torch.vmap(way(self.of))(x).sum(-1) for way in ways]
        return sum(found) + torch.func.jvp(self.of, (x,), (torch.ones_like(x),))[1]


class Adapted(nn.Module):  # type: ignore[misc]
    """A layer after a step of its own, as in MAML."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        own = dict(self.layer.named_parameters())
        loss = torch.func.functional_call(self.layer, own, (x,)).square().mean()
        steps = torch.autograd.grad(loss, list(own.values()), create_graph=True)
        own = {name: own[name] - 0.1 * each for name, each in zip(own, steps, strict=True)}
        return torch.func.functional_call(self.layer, own, (x,))


@pytest.mark.parametrize("kind", [Forces, Jacobians, Adapted])
def test_transforms_inside_of_the_module(kind: Any) -> None:
    own = kind()
    f, plain = partitioned(own), copy.deepcopy(own)
    torch.testing.assert_close(trained(f), trained(plain), rtol=1e-4, atol=1e-5)


def test_its_own_exception_is_raised_and_training_goes_on() -> None:
    class OwnError(Exception):
        pass

    def forward(self: Any, x: Any) -> Any:
        if x.shape[0] == 4:
            raise OwnError("four")
        return Net.forward(self, x)

    own = with_forward(forward)
    f = partitioned(own)
    for each in (f, own):
        trained(each)
        with pytest.raises(OwnError, match="four"):
            each(batch()[:4])
    assert_trains_equally(own)


def drawn(self: Any, x: Any) -> Any:
    return self.down(self.up(x)) * random.random()


def drawn_by_numpy(self: Any, x: Any) -> Any:
    return self.down(self.up(x)) * float(NUMPYS.random())


def drawn_as_numpy(self: Any, x: Any) -> Any:
    return self.down(self.up(x)) + torch.from_numpy(np.random.rand(8).astype("f"))


def counted(self: Any, x: Any) -> Any:
    CALLS.add(len(CALLS))
    return self.down(self.up(x)) * len(CALLS)


def seeded(self: Any, x: Any) -> Any:
    torch.manual_seed(0)
    return self.down(self.up(x)) * torch.rand(8)


def exchanged(self: Any, x: Any) -> Any:
    self.up.weight = nn.Parameter(self.up.weight.detach() / 2)
    return Net.forward(self, x)


def made(self: Any, x: Any) -> Any:
    if not hasattr(self, "last"):
        self.last = nn.Linear(8, 8)
    return self.last(Net.forward(self, x))


def made_parameter(self: Any, x: Any) -> Any:
    if not hasattr(self, "scale"):
        self.scale = nn.Parameter(torch.ones(8))
    return Net.forward(self, x) * self.scale


def removed(self: Any, x: Any) -> Any:
    self.seen = None
    return Net.forward(self, x)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (drawn, r"changes random\.Random in each call.*draw by torch\.rand"),
        (drawn_by_numpy, r"changes numpy\.random.*Generator in each call"),
        (drawn_as_numpy, r"changes numpy\.random.*RandomState in each call"),
        (counted, "changes CALLS in each call.*keep that in an attribute"),
        (seeded, "sets torch's generator"),
        (exchanged, r"makes, exchanges or removes up\.weight"),
        (made, "makes, exchanges or removes last"),
        (made_parameter, "makes, exchanges or removes scale"),
        (removed, "makes, exchanges or removes seen"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_a_program_would_do_once_is_refused(forward: Any, message: str) -> None:
    own = with_forward(forward)
    names = list(own.state_dict())
    with pytest.raises(ShardError, match=message):
        partitioned(own)
    assert list(own.state_dict()) == names
    assert isinstance(own.up.weight, nn.Parameter)
    own(batch())  # runs as before


def test_a_flag_that_forward_sets_once_around_it_is_no_error() -> None:
    told: list[int] = []

    def forward(self: Any, x: Any) -> Any:
        if not told:
            told.append(1)
        return Net.forward(self, x)

    assert_trains_equally(with_forward(forward))


def clamped(self: Any, x: Any) -> Any:
    self.up.weight.data.clamp_(-0.1, 0.1)
    return Net.forward(self, x)


def data_set(self: Any, x: Any) -> Any:
    self.up.weight.data = self.up.weight.data / self.up.weight.data.norm()
    self.seen.data = x.detach().mean(0)
    return Net.forward(self, x)


def set_by_the_first(self: Any, x: Any) -> Any:
    if not self.is_set:
        self.seen.copy_(x.detach().mean(0))
        self.is_set.fill_(True)
    return Net.forward(self, x - self.seen)


def registered_by_the_first(self: Any, x: Any) -> Any:
    if not hasattr(self, "first"):
        self.register_buffer("first", x.detach().mean(0))
    return Net.forward(self, x - self.first)


def filled_by_the_first(self: Any, x: Any) -> Any:
    if self.empty is None:
        self.empty = x.detach().mean(0)
    return Net.forward(self, x - self.empty)


@pytest.mark.parametrize(
    "forward", [clamped, data_set, set_by_the_first, registered_by_the_first, filled_by_the_first]
)
def test_what_forward_writes_to_its_state(forward: Any) -> None:
    assert_trains_equally(with_forward(forward))


def test_data_of_values_inside_are_set_where_nothing_is_derived() -> None:
    """In torch, what was saved for the gradients before still has the old data."""

    def forward(self: Any, x: Any) -> Any:
        y = self.up(x)
        y.data = y.data * 2
        return self.down(y)

    own = with_forward(forward)
    f = partitioned(own)
    torch.testing.assert_close(f(batch()), own(batch()))
    with pytest.raises(ShardError, match="sets the data of a tensor of shape"):
        f(batch()).sum().backward()


def test_a_buffer_that_is_exchanged_leaves_the_old_tensor_as_it_was() -> None:
    def forward(self: Any, x: Any) -> Any:
        self.seen = 0.9 * self.seen + 0.1 * x.detach().mean(0)
        return Net.forward(self, x)

    own = with_forward(forward)
    f = partitioned(own)
    for each in (f, own):
        before = each.seen
        each(batch())
        assert not before.any()
        assert each.seen.any()
    torch.testing.assert_close(f.seen, own.seen)


def test_lazy_modules_are_refused_before_they_have_shapes() -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    with pytest.raises(ShardError, match="call the module itself once before"):
        partitioned(module)
    module(batch())
    assert_trains_equally(module)


def test_pickling_is_refused_and_copies_are_not() -> None:
    f = partitioned(Net().eval())
    with pytest.raises(ShardError, match=r"save its state_dict\(\)"):
        torch.save(f, io.BytesIO())
    other = copy.deepcopy(f)
    assert type(other) is type(f)
    torch.testing.assert_close(other(batch()), f(batch()))


def test_missing_names_are_in_torchs_order() -> None:
    own = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4))
    f = partitioned(own)
    some = {"2.weight": own[2].weight, "other": torch.zeros(1)}
    assert f.load_state_dict(some, strict=False) == own.load_state_dict(some, strict=False)


def test_threads_that_call_at_once() -> None:
    own = Net().eval()
    f = partitioned(own)
    batches = [batch(number)[: 2 + number % 4] for number in range(8)]  # of which some compile
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(f, batches, timeout=120))
        list(pool.map(lambda each: each.square().sum().backward(), found, timeout=120))
    sum(own(each).square().sum() for each in batches).backward()
    for each, x in zip(found, batches, strict=True):
        torch.testing.assert_close(each, own(x), rtol=1e-4, atol=1e-5)
    grads = [{name: each.grad for name, each in module.named_parameters()} for module in (f, own)]
    assert_close(*grads)
