"""Dropout and other random numbers: the same on every mesh, or as torch itself draws them."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Shard
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

import shard_dialect as sd
from shard_dialect.errors import ShardError
from tests.torch.called import Called
from tests.torch.models import BATCH, R, assert_close

pytestmark = pytest.mark.usefixtures("unoptimized")

X = torch.randn(16, 8, generator=torch.Generator().manual_seed(0))
MESHES = [sd.Grid("mesh", shape, ("dp", "tp")) for shape in ((1, 1), (2, 4), (8, 1))]


def module() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.25), nn.Linear(32, 8), nn.Dropout(0.5))


def loss(y: Any) -> Any:
    return y.square().mean()


PLAN = {"input": BATCH, "0.weight": [R, Shard(0)]}


def test_a_seed_gives_the_same_on_every_mesh() -> None:
    found = []
    for mesh in MESHES:
        f = sd.torch.partition(module(), (X,), PLAN, mesh)
        torch.manual_seed(3)
        found.append((f(X), f(X)))
    for first, second in found:
        torch.testing.assert_close(first, found[0][0])
        torch.testing.assert_close(second, found[0][1])
    zeros = found[0][0] == 0
    assert 0.3 < float(zeros.float().mean()) < 0.7
    assert not torch.equal(zeros, found[0][1] == 0), "each call draws anew"


def test_the_numbers_of_torch_are_in_the_order_of_its_memory() -> None:
    own = nn.TransformerEncoderLayer(8, 2, 16, 0.5, batch_first=True)  # a transposed dropout
    x = X.view(4, 4, 8)
    f = sd.torch.partition(own, (x,), {"src": BATCH}, MESHES[1], rng="torch")
    torch.manual_seed(3)
    found = f(x)
    torch.manual_seed(3)
    torch.testing.assert_close(found, own(x), rtol=1e-4, atol=1e-5)


def test_the_numbers_of_torch() -> None:
    own = module()
    f = sd.torch.partition(own, (X,), PLAN, MESHES[1], loss=loss, rng="torch")
    for _ in range(2):
        state = torch.get_rng_state()
        value, gradients = f(X)
        after = torch.get_rng_state()
        torch.set_rng_state(state)
        own.zero_grad()
        expected = loss(own(X))
        expected.backward()
        assert torch.equal(torch.get_rng_state(), after), "as many were drawn"
        torch.testing.assert_close(value, expected.detach())
        assert_close(gradients, {name: each.grad for name, each in own.named_parameters()})


def test_eval_draws_nothing() -> None:
    own = module()
    f = sd.torch.partition(own, (X,), PLAN, MESHES[1])
    own.eval()
    f.eval()
    torch.testing.assert_close(f(X), own(X).detach())


class NoRows(nn.Module):  # type: ignore[misc]
    """Takes a tensor apart of which there is nothing, as a solver does that takes no more steps."""

    def forward(self, x: Any) -> Any:
        return x + sum(row.sum() for row in x[:0].unbind(0))


def test_an_op_without_results_draws_nothing() -> None:
    f = sd.torch.partition(NoRows(), (X,), {"x": BATCH}, MESHES[1])
    torch.testing.assert_close(f(X), X)


class Draws(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return {
            "uniform": torch.rand_like(x),
            "normal": torch.randn(256, 64),
            "integers": torch.randint(3, 9, (4096,)),
            "filled": x.clone().uniform_(2, 3),
            "rare": torch.empty_like(x).bernoulli_(0.125),
        }


def test_their_distributions() -> None:
    x = torch.zeros(256, 64)
    f = sd.torch.partition(Draws(), (x,), {"x": [Shard(0), Shard(1)]}, MESHES[1])
    torch.manual_seed(0)
    found = f(x)
    uniform, normal = found["uniform"], found["normal"]
    assert abs(float(uniform.mean()) - 0.5) < 0.01
    assert abs(float(uniform.std()) * 12**0.5 - 1) < 0.01
    assert 0 <= float(uniform.min()) < 0.001 < 0.999 < float(uniform.max()) < 1
    assert abs(float(normal.mean())) < 0.03
    assert abs(float(normal.std()) - 1) < 0.02
    assert found["integers"].bincount()[3:].min() > 4096 / 6 * 0.85
    assert found["integers"].max() == 8
    assert 2 <= float(found["filled"].min()) < float(found["filled"].max()) <= 3
    assert abs(float(found["rare"].mean()) - 0.125) < 0.01
    rows = torch.corrcoef(torch.cat([uniform, found["filled"]]))
    assert float((rows - torch.eye(len(rows))).abs().max()) < 0.65, "of 512 rows of 64"


class Again(nn.Module):  # type: ignore[misc]
    """Computes a block again for its gradients, also inside of another, unless it is `plain`."""

    def __init__(self, use_reentrant: bool = False, plain: bool = False) -> None:
        super().__init__()
        self.inner, self.last, self.is_plain = module(), module(), plain
        self.use_reentrant = use_reentrant

    def again(self, block: Any, x: Any) -> Any:
        if self.is_plain:
            return block(x)
        return checkpoint(block, x, use_reentrant=self.use_reentrant)

    def forward(self, x: Any) -> Any:
        x = nn.functional.dropout(self.again(self.inner, x), 0.25)
        x = self.again(lambda x: self.last(self.again(self.inner, x)) + torch.rand_like(x), x)
        return nn.functional.dropout(x, 0.25)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_is_computed_again_draws_the_same(use_reentrant: bool) -> None:
    own = Again(plain=True)
    for rng in ("torch", "counter"):
        found: list[Any] = []
        for plain in (False, True):
            each = Again(use_reentrant, plain)
            f = sd.torch.partition(each, (X,), {"x": BATCH}, MESHES[1], rng=rng)
            assert len(f._engine.programs[0].flat.draws) == 9
            torch.manual_seed(5)
            loss(f(X)).backward()
            found.append({name: part.grad for name, part in f.named_parameters()})
        assert_close(*found)
        if rng == "torch":
            torch.manual_seed(5)
            loss(own(X)).backward()
            assert_close(found[0], {name: part.grad for name, part in own.named_parameters()})


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda x: torch.manual_seed(0) and torch.rand_like(x), "sets torch's generator"),
        (lambda x: torch.randn(3, generator=torch.Generator()), "generator of its own"),
        (lambda x: x.clone().normal_(generator=torch.Generator()), "generator of its own"),
    ],
)
def test_draws_of_other_states_are_refused(draw: Any, message: str) -> None:
    with pytest.raises(ShardError, match=rf"{__file__}:\d+.*{message}|{message}"):
        sd.torch.partition(Called(draw), (X,), {"x": BATCH}, MESHES[1])


def test_draws_that_are_written_to() -> None:
    def scaled(x: Any) -> Any:
        noise = torch.rand_like(x)
        noise -= noise.mean()
        return x + noise, torch.randn(3).mul_(2)

    f = sd.torch.partition(Called(scaled), (X,), {"x": BATCH}, MESHES[1], rng="torch")
    torch.manual_seed(0)
    found = f(X)
    torch.manual_seed(0)
    torch.testing.assert_close(found, scaled(X))


def test_permutations() -> None:
    for rng in ("torch", "counter"):
        f = sd.torch.partition(Called(lambda x: torch.randperm(64)), (X,), {}, MESHES[1], rng=rng)
        torch.manual_seed(0)
        found = [f(X), f(X)]
        assert not torch.equal(*found)
        for each in found:
            assert torch.equal(each.sort().values, torch.arange(64))
        torch.manual_seed(0)
        assert torch.equal(found[0], torch.randperm(64)) == (rng == "torch")


def test_what_we_cannot_draw_is_refused() -> None:
    class Sampled(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.softmax(-1).multinomial(2, replacement=True)

    with pytest.raises(ShardError, match=r"random numbers with aten\.multinomial"):
        sd.torch.partition(Sampled(), (X,), {"x": BATCH}, MESHES[1])


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_layers_that_recur_have_dropout_between_them(kind: str, batch_first: bool) -> None:
    module = getattr(nn, kind)(8, 4, 3, dropout=0.5, batch_first=batch_first, bidirectional=True)
    given = torch.randn(4, 4, 8)
    f = sd.torch.partition(module, (given,), {}, MESHES[1], rng="torch")
    torch.manual_seed(5)
    found = pytree.tree_leaves(f(given))
    torch.manual_seed(5)
    for a, b in zip(found, pytree.tree_leaves(module(given)), strict=True):
        torch.testing.assert_close(a, b)
