"""What a call computes for its gradients: once, and only what these need is kept."""

import copy
from math import prod
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.utils.checkpoint import checkpoint

import shard_dialect as sd
from shard_dialect.torch.graph import decompositions
from shard_dialect.torch.graph.forward_and_backward import SAVED

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 2), ("dp", "tp"))
BATCH = [Shard(0), Replicate()]


class Layers(nn.Module):  # type: ignore[misc]
    """Two linear layers, between which there is `inside`, computed again if `again`."""

    def __init__(self, inside: Any = torch.tanh, again: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.inside, self.again = inside, again

    def forward(self, x: Any) -> Any:
        if self.again:
            return checkpoint(self.block, x, use_reentrant=False)
        return self.block(x)

    def block(self, x: Any) -> Any:
        return self.down(self.inside(self.up(x)))


def batch() -> Any:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(1))


def partitioned(module: nn.Module, *args: Any) -> Any:
    return sd.torch.partition(module, args or (batch(),), {"x": BATCH}, MESH)


def products(program: Any) -> int:
    return int(program.compiled.text("annotated").count("stablehlo.dot_general"))


def saved(program: Any) -> list[tuple[int, ...]]:
    return [each.shape for each in program.results if each.name.startswith(SAVED)]


def equal_gradients(f: nn.Module, own: nn.Module) -> None:
    for a, b in zip(f.parameters(), own.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
        a.grad = b.grad = None


def equal_steps(f: nn.Module, own: nn.Module) -> None:
    for module in (f, own):
        module(batch()).square().sum().backward()
    equal_gradients(f, own)


def test_the_backward_program_computes_no_product_of_the_forward_pass() -> None:
    own = Layers()
    f = partitioned(own)
    equal_steps(f, own)
    (program,) = f._engine.programs
    assert products(program) == 2
    assert products(program.backward) == 3  # of two weights, and of what is between
    assert saved(program) == [(4, 16)]  # the result of tanh
    assert not any(name.startswith(SAVED) for name in f.plan())


def test_what_is_cheap_is_computed_again() -> None:
    f = partitioned(Layers(lambda h: (2 * h.relu()).view(2, 2, 16).transpose(0, 1).reshape(4, 16)))
    f(batch()).sum().backward()
    (program,) = f._engine.programs
    assert saved(program) == [(4, 16)]


def test_a_checkpoint_keeps_nothing() -> None:
    own = Layers(again=True)
    f = partitioned(own)
    equal_steps(f, own)
    (program,) = f._engine.programs
    assert not saved(program)
    assert products(program.backward) == 4  # the first product, too


def test_in_eval_mode_the_first_gradients_tell_that_there_are_any() -> None:
    own = Layers().eval()
    f = partitioned(own)
    f(batch())
    (plain,) = f._engine.programs
    assert not saved(plain)
    for _ in range(2):
        equal_steps(f, own)
    _, deriving = f._engine.programs
    assert saved(deriving) == [(4, 16)]
    with torch.no_grad():
        f(batch())
    assert len(f._engine.programs) == 2


class Counts(nn.Module):  # type: ignore[misc]
    """Counts its calls, and scales by that."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return (x * self.weight * self.calls).sin()


def test_a_call_that_is_run_again_for_its_gradients_changes_nothing() -> None:
    own = Counts().eval()
    f = partitioned(own)
    own = copy.deepcopy(own)
    for count in (1, 2, 3):
        f(batch()).sum().backward()
        own(batch()).sum().backward()
        equal_gradients(f, own)
        assert f.calls == own.calls == count


def test_gradients_twice_and_of_several_results() -> None:
    class Several(Layers):
        def forward(self, x: Any) -> Any:
            y = self.block(x)
            return {"y": y, "least": y.argmin(1), "norm": y.norm(dim=1), "halves": y.split(4, 1)}

    own = Several()
    f = partitioned(own)
    for module in (f, own):
        found = module(batch())
        assert not found["least"].requires_grad
        (found["norm"].sum() + found["halves"][1].sum()).backward(retain_graph=True)
        found["y"].square().sum().backward()
    equal_gradients(f, own)


def test_of_arguments_that_want_gradients() -> None:
    own = Layers()
    f = partitioned(own)
    xs = [batch().requires_grad_() for _ in range(2)]
    for module, x in zip((f, own), xs, strict=True):
        module(x).square().sum().backward()
    torch.testing.assert_close(xs[0].grad, xs[1].grad)
    f(batch()).sum().backward()
    assert len(f._engine.programs) == 2


def test_a_call_without_a_derivative_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompositions, "_OF_USERS", {})

    @torch.library.custom_op("shard_dialect_tests::doubled", mutates_args=())
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    doubled.register_fake(torch.empty_like)

    def refuse(_: Any, gradient: Any) -> Any:
        raise ValueError("no gradient of this one")

    doubled.register_autograd(refuse)
    sd.torch.decompose("shard_dialect_tests::doubled")(lambda x: x * 2)
    own = Layers(lambda h: doubled(h))
    f = partitioned(own)
    result = f(batch())
    torch.testing.assert_close(result, own(batch()))
    with pytest.raises(ValueError, match="no gradient of this one"):
        result.sum().backward()


def test_merged_dimensions_are_saved_apart() -> None:
    class Heads(Layers):
        def block(self, x: Any) -> Any:
            h = self.up(x).view(4, 4, 2, 2).transpose(1, 2)
            scores = (h @ h.mT).softmax(-1)
            return self.down((scores @ h).transpose(1, 2).reshape(4, 4, 4).flatten(1))

    own = Heads()
    f = partitioned(own)
    equal_steps(f, own)
    (program,) = f._engine.programs
    assert all(shape[0] == 4 for shape in saved(program))  # and not 8: batch and heads


class Lossy(Layers):
    """As a model of transformers: a loss, and what it is of."""

    def forward(self, x: Any) -> Any:
        y = self.block(x)
        return {"loss": y.square().mean(), "y": y, "hidden": self.up(x)}


def test_beside_a_loss_other_results_are_differentiated_once_somebody_does() -> None:
    own = Lossy()
    f = partitioned(own)
    for _ in range(3):
        for module in (f, own):
            module(batch())["loss"].backward()
        equal_gradients(f, own)
        (first,) = f._engine.programs
        weighted = [each for each in first.backward.part.names if "cotangent" in each]
        assert weighted == ["cotangent.0"]
    for _ in range(2):
        for module in (f, own):
            found = module(batch())
            (found["loss"] + found["hidden"].sin().sum()).backward()
        equal_gradients(f, own)
        for module in (f, own):
            module(batch())["loss"].backward()
        equal_gradients(f, own)
    assert len(f._engine.programs) == 2


def test_gradients_are_summed_along_the_batch_and_not_along_what_is_saved_in_parts() -> None:
    """The second layer's input is saved as the first one's sum is scattered: along `tp`, too."""

    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.mlp, self.norm = Layers(), nn.LayerNorm(8)
            self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

        def forward(self, x: Any) -> Any:
            y = self.norm(x + self.mlp(x))
            return sum(torch.tanh(each(y)) for each in self.heads)

    own = Residual()
    tp = {"mlp.up": ColwiseParallel(), "mlp.down": RowwiseParallel()}
    plan = {"x": BATCH, "tp": tp, "dp": fully_shard}
    f = sd.torch.partition(own, (batch(),), plan, MESH)
    equal_steps(f, own)
    (program,) = f._engine.programs
    backward = sd.communication(sd.parse(program.backward.compiled.text("local")))
    reduced = [each for each in backward.entries if each.kind in ("reduce_scatter", "all_reduce")]
    assert reduced
    assert not any("tp" in str(each.axes) for each in reduced), program.backward.compiled.report
    held = {each.name: each.placements for each in program.results if each.name.startswith(SAVED)}
    read = {each.name: each.placements for each in program.backward.arguments}
    assert {name: read[name] for name in held} == held  # else ranks gather them between the two
    assert [Shard(0), Shard(0)] in held.values()


class Gelu(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return nn.functional.gelu(x)


@pytest.mark.parametrize("inside", [Gelu, nn.SiLU, nn.Tanh, nn.Mish, nn.Softplus])
def test_the_backward_program_computes_in_the_memory_of_one_layer(inside: Any) -> None:
    """What is computed again, and broadcasts, are so where they are used, and not held before."""

    def arena(count: int) -> int:
        own = nn.Sequential(*(Layers(inside()) for _ in range(count)))
        f = sd.torch.partition(own, (torch.randn(256, 8),), {"input": BATCH}, MESH)
        (program,) = f._engine.programs
        backward = program.backward
        held = [each.boundary.local for each in backward.arguments if each.name.startswith(SAVED)]
        sizes = (prod(each.shape) * each.dtype.itemsize for each in held)
        return int(backward.compiled._executable.code.arena) - sum(sizes)

    assert arena(6) <= 1.1 * arena(3)


def test_what_several_modules_are_called_with_is_saved_once() -> None:
    class Heads(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.heads = (
                nn.Linear(8, 8),
                nn.ModuleList(map(nn.Linear, [8] * 3, [8] * 3)),
            )

        def forward(self, x: Any) -> Any:
            y = self.first(x)
            return sum(torch.tanh(each(y)) for each in self.heads)

    own = Heads()
    plan = {"x": BATCH, "tp": {"heads.*": ColwiseParallel(output_layouts=Replicate())}}
    f = sd.torch.partition(own, (batch(),), plan, MESH)
    equal_steps(f, own)
    (program,) = f._engine.programs
    assert saved(program) == [(4, 8)] * 4  # what the heads are called with, and the tanh of each


class Scores(nn.Module):  # type: ignore[misc]
    """A loss, and beside it scores on which other parameters have a part."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.of_loss, self.of_scores = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: Any) -> Any:
        x = self.shared(x)
        return {"loss": self.of_loss(x).square().mean(), "scores": self.of_scores(x), "x": x}


@pytest.mark.parametrize("is_training", [False, True])
def test_what_is_beside_a_loss_is_differentiated(is_training: bool) -> None:
    own, x = Scores().train(is_training), torch.randn(4, 4)
    f = sd.torch.partition(own, (x,), {}, MESH)
    for of in (["loss", "scores"], ["scores"], ["loss"], ["x", "loss"], ["scores", "x"]):
        for each in (f, own):
            each.zero_grad()
            found = each(x)
            sum(found[name].sum() for name in of).backward()
        for ours, theirs in zip(f.parameters(), own.parameters(), strict=True):
            assert (ours.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                torch.testing.assert_close(ours.grad, theirs.grad)
