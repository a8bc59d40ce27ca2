"""Complex numbers and Fourier transforms beside torch, with gradients."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import fft, nn
from torch.distributed.tensor import Shard

import shard_dialect as sd
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.tensor_trees import arguments_of
from shard_dialect.torch.graph.trace_graph import trace
from tests.torch.called import Called
from tests.torch.models import BATCH, R

pytestmark = pytest.mark.usefixtures("unoptimized")
MESH = sd.Grid("mesh", (2, 4), ("dp", "tp"))


class Of(nn.Module):  # type: ignore[misc]
    """A function of a layer in front of it, so that there is a gradient."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.first, self.function = nn.Linear(12, 12), function

    def forward(self, x: Any) -> Any:
        return self.function(self.first(x))


def both(x: Any) -> Any:
    return torch.complex(x, x.flip(1))


def written(x: Any) -> Any:
    found, out = fft.rfft(x), torch.zeros(8, 7, dtype=torch.complex64)
    out[:, :3] = found[:, :3] * 2
    out[:, 3] = 1j
    out[:, 4] = x[:, 4]
    out[:, 5] = torch.arange(8)
    return fft.irfft(out)


def written_as_real(x: Any) -> Any:
    z = both(x)
    torch.view_as_real(z)[..., 0] += 1
    z.imag.mul_(2)
    return torch.view_as_real(z * 2)


def rotated(x: Any) -> Any:
    turns = torch.polar(torch.ones(6), torch.arange(6.0))
    return torch.view_as_real(torch.view_as_complex(x.view(8, 6, 2)) * turns).flatten(1)


WINDOW = torch.hann_window(8)
FUNCTIONS = (torch.exp, torch.log, torch.sqrt, torch.tanh, torch.sin, torch.cos, torch.sgn)
EQUAL: Mapping[str, Callable[[Any], Any]] = {
    "broadcast parts": lambda x: torch.view_as_real(torch.complex(x, x[:1])).flatten(1),
    "half a spectrum": lambda x: fft.rfft(x).abs(),
    "a transform": lambda x: fft.fft(x, norm="ortho"),
    "two dimensions": lambda x: fft.ifft2(fft.fft2(x) * (1 + 2j)),
    "back": lambda x: fft.irfft(fft.rfft(x, n=16) * 1j, n=16),
    "back to an odd size": lambda x: fft.irfft(fft.rfft(x, n=15).square(), n=15),
    "back in two dimensions": lambda x: fft.irfft2(fft.rfft2(x, norm="forward"), s=(4, 12)),
    "hermitian": lambda x: fft.hfft(both(x)),
    "240 elements": lambda x: fft.fft(x.repeat(1, 20)),
    "67 elements": lambda x: fft.rfft(x.repeat(1, 7)[:, :67]).real,
    "shifted": lambda x: fft.fftshift(fft.fft(x), dim=1).real,
    "windows": lambda x: torch.stft(x, 8, 4, window=WINDOW, return_complex=True),
    "from windows": lambda x: torch.istft(
        torch.stft(x.repeat(1, 4), 8, 4, window=WINDOW, return_complex=True), 8, 4, window=WINDOW
    ),
    "a rotation": rotated,
    "functions": lambda x: [each(both(x)) for each in FUNCTIONS],
    "powers": lambda x: [both(x) ** each for each in (2, 3, 0.5, -1)],
    "quotients": lambda x: [
        both(x) / (both(x) + 2),
        1j / both(x),
        both(x).reciprocal(),
        both(x) / 3,
    ],
    "products": lambda x: both(x) @ both(-x).mH,
    "a product of tensors": lambda x: torch.einsum("bi,oi->bo", fft.rfft(x), fft.rfft(x)).conj(),
    "written": written,
    "written as real": written_as_real,
    "choices": lambda x: torch.where(x[:, :7] > 0, fft.rfft(x), 1j).angle(),
    "a mask": lambda x: both(x).masked_fill(x > 0, 2j),
    "joined": lambda x: torch.cat([fft.rfft(x), both(x), torch.arange(8).view(8, 1)], 1).sum(1),
    "lengths": lambda x: torch.linalg.vector_norm(both(x)) + both(x).abs().square().sum(),
    "types": lambda x: both(x.double()).to(torch.complex64) + x.to(torch.complex64),
    "sums": lambda x: (both(x).cumsum(1), both(x).mean(0), both(x).sum()),
    "parts": lambda x: (both(x).real, both(x).imag.flip(0), both(x).conj().imag),
}


class Reshaped(torch.fx.Interpreter):  # type: ignore[misc]
    """Runs a graph whose views are of other strides than when it was traced."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        is_view = target is torch.ops.aten.view.default
        return super().call_function(
            torch.ops.aten.reshape.default if is_view else target, args, kwargs
        )


def loss_of(result: Any) -> Any:
    """Different for each element, and for both parts."""
    found = []
    for each in result if isinstance(result, (tuple, list)) else [result]:
        real = torch.view_as_real(each.resolve_conj()) if each.is_complex() else each
        scale = torch.linspace(0.5, 1.5, real.numel()).view(real.shape)
        found.append((real.square() * scale).mean() + (real * scale).mean())
    return torch.stack([each.float() for each in found]).sum()


def given() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(1)
    return Of(torch.relu), torch.randn(8, 12, generator=generator)


@pytest.mark.parametrize("name", EQUAL)
def test_the_graph_is_real_and_equals_torchs(name: str) -> None:
    torch.manual_seed(0)
    module, x = given()
    module.function = EQUAL[name]
    graph = trace(FlatModule(module, {}, arguments_of(module, (x,), {}, loss_of, ()), loss_of))
    assert not any(
        isinstance(each.meta.get("val"), torch.Tensor) and each.meta["val"].is_complex()
        for each in graph.graph.nodes
    )
    found = Reshaped(graph).run(*(each.detach() for each in module.parameters()), x)
    loss = loss_of(module(x))
    expected = [loss.detach(), *torch.autograd.grad(loss, list(module.parameters()))]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max()))


@pytest.mark.parametrize("name", ["back in two dimensions", "a rotation", "from windows"])
def test_it_runs_on_a_mesh(name: str) -> None:
    module, x = given()
    module.function = EQUAL[name]
    f = sd.torch.partition(module, (x,), {"x": BATCH}, MESH)
    torch.testing.assert_close(f(x), module(x), rtol=1e-4, atol=1e-5)


class Turned(nn.Module):  # type: ignore[misc]
    """A module with complex parameters, buffers, arguments and results."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 4, dtype=torch.complex64))
        self.register_buffer("fixed", torch.polar(torch.ones(4), torch.arange(4.0)))
        self.register_buffer("seen", torch.zeros(4, dtype=torch.complex64))

    def forward(self, x: Any, z: Any) -> Any:
        y = x.to(torch.complex64) @ self.weight * self.fixed + z
        self.seen += y.detach().mean(0)
        return y, y.abs().sum()


PLAN = {
    "x": BATCH,
    "z": [Shard(-2), Shard(-1)],
    "weight": [R, Shard(-1)],
    "output.0": [Shard(0), R],
}


def turned() -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    return Turned(), torch.randn(4, 8), torch.randn(4, 4, dtype=torch.complex64)


def test_complex_tensors_come_in_and_go_out() -> None:
    own, x, z = turned()
    f = sd.torch.partition(own, (x, z), PLAN, MESH)
    assert f.plan()["z"] == [Shard(0), Shard(1)]
    assert "updated.fixed" not in f.plan()
    own, zs = copy.deepcopy(own), [z.clone().requires_grad_() for _ in range(2)]
    for _ in range(2):
        results = [each(x, z) for each, z in zip((f, own), zs, strict=True)]
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)
        for y, total in results:
            ((y * (1 + 2j)).real.square().sum() + y.imag.sum() + total).backward()
    torch.testing.assert_close(f.weight.grad, own.weight.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(zs[0].grad, zs[1].grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(f.state_dict(), own.state_dict())


def test_with_a_loss() -> None:
    own, x, z = turned()
    plan = {name: each for name, each in PLAN.items() if name != "output.0"}
    step = sd.torch.partition(own, (x, z), plan, MESH, loss=lambda found: found[1])
    value, gradients = step(x, z)
    expected = own(x, z)[1]
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradients["weight"], own.weight.grad, rtol=1e-4, atol=1e-5)


def test_views_that_are_conjugate_or_negative_are_arguments() -> None:
    x = torch.randn(4, 3, dtype=torch.complex64)
    for each in (x.conj(), x.conj().imag, torch._neg_view(x)):
        assert each.is_conj() or each.is_neg()
        f = sd.torch.partition(Called(lambda x: x * 2), (each,), {}, MESH)
        torch.testing.assert_close(f(each), each * 2)
