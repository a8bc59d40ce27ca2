"""Ops that torch-mlir says wrongly, or not at all, beside torch; with gradients."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, Shard

import shard_dialect as sd
from shard_dialect.errors import ShardError
from tests.torch.called import MESH, Called

pytestmark = pytest.mark.usefixtures("unoptimized")


def partitioned(function: Callable[..., Any], x: Any) -> Any:
    plan = {"x": [Shard(0), Replicate()]} if x.dim() else {}
    return sd.torch.partition(Called(function), (x,), plan, MESH, rng="torch")


NAN, INF = float("nan"), float("inf")
INFINITE, ROW = torch.tensor(INF), torch.tensor([1.0, 2.0, 3.0])
X = torch.tensor([[0.3, -2.5, 3.7, 3.7, -0.1, 7.2], [-4.5, 1.5, 0.9, -0.2, 2.0, 2.0]])
INDEX = torch.tensor([[0, 2, 1, 2, 0, 3], [3, 3, 1, 0, 2, 2]])
EQUAL: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "antialiased": (
        lambda x: nn.functional.interpolate(
            x.expand(1, 2, 2, 6), (2, 4), mode="bilinear", antialias=True
        ),
        X,
    ),
    "remainder": (lambda x: (x % 2.0, x % -2.0, 5.0 % x.detach(), (x * 3).long() % -4), X),
    "constants": (lambda x: (torch.full_like(x, 2.0) < 0, torch.full_like(x, 2.5) == 2, x), X),
    "remainder by another type": (
        lambda x: (x % 2.5, 2.5 % (x + 4), x.fmod(2.5), x.remainder(2), x.fmod(-2)),
        torch.tensor([[-7, 3], [4, -1]]),
    ),
    "of unsigned numbers": (
        lambda x: (
            *(
                part
                for y in ((x.long() % 256).to(torch.uint8), x.abs().to(torch.uint8))
                for part in (
                    y.max(),
                    y.amin(1),
                    y.argmax(),
                    y.argmin(1),
                    *y.min(0),
                    y.any(),
                    y.all(1),
                    y.cumprod(1),
                    y.view(-1)[0].clone().fill_(200),
                    y.scatter_reduce(1, INDEX, y, "amax"),
                )
            ),
            (x.long() % 256).to(torch.uint8).clamp(200).min(),
        ),
        X * 10,
    ),
    "extremes of truth values": (
        lambda x: tuple(
            part
            for y in (x > 0, x > -9, x > 9)
            for part in (*y.max(1), *y.min(0), y.amax(1), y.amin(0), y.max(), y.min(), *y.aminmax())
        ),
        X,
    ),
    "bounds of truth values": (
        lambda x: (
            (x > 0).clamp_min(x > 1),
            (x > 0).clamp_max(x > 1),
            x.abs().to(torch.uint8).clamp_max(INDEX.to(torch.uint8)),
            (x > 0).mode(1).values,
            (x > 0).scatter_reduce(1, INDEX, x > 1, "amax"),
        ),
        X,
    ),
    "sums of 8 bits up to each": (
        lambda x: (
            x.long().cumsum(1, dtype=torch.int8),
            (x > 0).cumsum(0, dtype=torch.uint8),
            x.to(torch.int8).cumsum(1),
        ),
        X * 15,
    ),
    "products up to each": (lambda x: (x.int().cumprod(1), (x > 0).cumprod(0)), X * 100),
    "equal to itself": (
        lambda x: (x == x, torch.isfinite(x), x != x, x.isclose(x, equal_nan=True)),
        torch.tensor([[1.0, NAN], [INF, -2.0]]),
    ),
    "fmod": (
        lambda x: (x.fmod(2.0), x.fmod(INFINITE), x % INFINITE, x % -INFINITE, (x / x).fmod(0.1)),
        X,
    ),
    "var of one element": (lambda x: (x.var(), x.std(), *torch.var_mean(x)), torch.ones(1)),
    "var of none": (lambda x: (x.var(0), x.std(), *torch.std_mean(x, 0)), torch.ones(0, 5)),
    "var of too few": (
        lambda x: (x.std(0, correction=5), x.detach().floor().var(1, correction=9)),
        X,
    ),
    "logcumsumexp": (lambda x: (x * 60).logcumsumexp(1), X),
    "scalars along a dimension": (
        lambda x: (x.softmax(0), x.amax(0), *x.max(0), x.cumsum(0), x.roll(3), *x.sort(0)),
        torch.tensor(2.0),
    ),
    "no elements": (lambda x: (x.roll(1, 0), x.gather(0, INDEX[:0])), torch.ones(0, 6)),
    "one index": (lambda x: x.index_select(1, torch.tensor(2)), X),
    "averages beside NaN": (
        lambda x: (
            nn.functional.avg_pool1d(x, 2),
            nn.functional.avg_pool1d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            nn.functional.avg_pool2d(x.unsqueeze(0), 2, 1, divisor_override=3),
        ),
        torch.tensor([[1.0, NAN, 3.0, 4.0, -2.0, 0.5], [INF, 2.0, -1.0, 0.0, 7.0, -INF]]),
    ),
    "averages by one number": (
        lambda x: (
            nn.functional.avg_pool2d(x.view(1, 3, 4), (2,), (2,), (1,), count_include_pad=False),
            nn.functional.avg_pool2d(x.view(1, 3, 4), (2,), (2,), ceil_mode=True),
            nn.functional.avg_pool3d(x.view(1, 1, 2, 2, 3), (2,), (1,), (1,)),
        ),
        X,
    ),
    "medians": (lambda x: (x.median(), *x.median(1), *x.nanmedian(1), *x.kthvalue(2, 1)), X),
    "a median with NaN": (lambda x: (x.sqrt().median(), x.sqrt().nanmedian()), X),
    "ordered NaNs": (
        lambda x: (*x.kthvalue(3, 1), *x.kthvalue(4, 1), *x.nanmedian(1), *x.median(0)),
        torch.tensor([[1.0, NAN, 3.0, INF], [-INF, 2.0, INF, NAN]]),
    ),
    "extremes with NaNs": (
        lambda x: (
            *x.max(1),
            *x.min(0, keepdim=True),
            *(
                each
                for y in (x, x[:, :2], x[1], x[0, 0])
                for each in (y.argmax(), y.argmin(-1), y.argmax(-1, keepdim=True))
            ),
        ),
        torch.tensor([[1.0, NAN, INF, NAN], [-INF, 0.0, -0.0, 0.0], [NAN, NAN, NAN, NAN]]),
    ),
    "nanmedian of NaNs": (lambda x: x.nanmedian(), torch.full((2,), NAN)),
    "nanmedian beside NaNs": (lambda x: x.nanmedian(0), torch.tensor([NAN, NAN, INF, INF])),
    "modes with NaN": (lambda x: x.mode(1), torch.tensor([[1.0, NAN, NAN], [NAN, NAN, NAN]])),
    "mode": (lambda x: x.round().mode(1), X),
    "cummax": (lambda x: (*x.cummax(1), *x.cummin(0)), X),
    "searchsorted": (lambda x: torch.searchsorted(x.sort(1).values, x + 0.5, right=True), X),
    "searchsorted of integers": (
        lambda x: (torch.searchsorted(x, 2.5), torch.searchsorted(x, 3, right=True)),
        torch.tensor([1, 2, 3, 4]),
    ),
    "searchsorted of NaN": (
        lambda x: (torch.searchsorted(ROW, x), torch.bucketize(x, ROW, right=True)),
        torch.tensor([1.0, 2.0, NAN, INF]),
    ),
    "scatter_reduce of truths": (
        lambda x: tuple(
            torch.scatter_reduce(x, 0, torch.tensor([0, 0, 1]), x, each, include_self=include)
            for each in ("sum", "prod", "amax", "amin")
            for include in (True, False)
        ),
        torch.tensor([True, False, True, False]),
    ),
    **{
        f"scatter_reduce {each}": (
            lambda x, each=each: (
                torch.ones(2, 4).scatter_reduce(1, INDEX, x, each),
                torch.ones(3, 4).scatter_reduce(1, INDEX, x, each, include_self=False),
            ),
            X,
        )
        for each in ("sum", "mean", "prod", "amax", "amin")
    },
    "index_reduce": (lambda x: torch.ones(2, 4).index_reduce(1, INDEX[0], x, "amax"), X),
    "masked_scatter": (lambda x: torch.zeros(2, 6).masked_scatter(X > 1, x), X),
    "masked_scatter of none": (lambda x: x.masked_scatter(X > 9, x[:0]), X),
    "an empty slice": (lambda x: (x[:, 5:2], x[:, 9:3:2], x * 2), X),
    "as_strided": (lambda x: (x.as_strided((2, 3), (1, 2), 1), x.unfold(1, 3, 2)), X),
    "as_strided of all": (
        lambda x: tuple(
            y.as_strided(size, stride)
            for y in (2 * x, 2 * x.mT)
            for size, stride in (
                ((x.numel(),), (1,)),
                ((1, x.numel(), 1), (7, 1, 1)),
                ((x.numel() // 2, 2), (1, x.numel() // 2)),
                ((2, 2, x.numel() // 4), (1, x.numel() // 2, 2)),
            )
        ),
        X,
    ),
    "fmax": (lambda x: (torch.fmax(x.sqrt(), x), torch.hypot(x, x.sqrt().nan_to_num(2))), X),
    "special": (lambda x: (x.lgamma(), x.digamma(), x.erfc(), (x / 9).erfinv()), X),
    "polygamma": (lambda x: torch.polygamma(1, x.abs()), X),
    "padding of the edges": (lambda x: nn.functional.pad(x[None], (2, 1), mode="replicate"), X),
    "cropping to the edges": (
        lambda x: tuple(
            nn.functional.pad(x[None], each, mode="replicate")
            for each in ((-6, 7), (-2, 1), (3, -1), (8, -6), (-1, -4), (-3, 3))
        ),
        X,
    ),
    "all and any of some": (
        lambda x: tuple(
            found
            for y in (x > 1, x * 0)
            for given in (y.to(x.dtype), y.bool(), y.to(torch.uint8))
            for found in (
                given.all(dim=(0, 1)),
                given.all(dim=(-1,), keepdim=True),
                torch.all(given, dim=None),
                torch.any(given, dim=None),
                given.any(dim=(0, 1)),
            )
        ),
        X,
    ),
    "a multilabel loss of a number": (
        lambda x: nn.functional.multilabel_margin_loss(x[0, 0], torch.tensor(0)),
        X,
    ),
    "averages over parts": (
        lambda x: nn.functional.adaptive_avg_pool3d(x.view(1, 2, 3, 2, 1), (2, 2, 1)),
        X,
    ),
    "maxima over parts": (lambda x: nn.functional.adaptive_max_pool2d(x.view(1, 4, 3), (2, 2)), X),
    "indices apart": (
        lambda x: torch.ops.aten.index_put(
            x.view(2, 3, 2), [torch.tensor([1, 0]), None, torch.tensor([0, 1])], x[:, :3] * 2
        ),
        X,
    ),
    "take": (lambda x: (x.take(torch.tensor(-1)), x.take(INDEX)), X),
    "draws": (
        lambda x: (
            torch.bernoulli(x.sigmoid()),
            torch.normal(x, x.abs()),
            torch.empty_like(x).exponential_(2.0),
            torch.multinomial(x.abs(), 1),
            torch.multinomial(x.abs(), 3),
        ),
        X,
    ),
}


@pytest.mark.whole
@pytest.mark.filterwarnings("ignore:.*degrees of freedom", "ignore:.*in beta")
@pytest.mark.parametrize("name", EQUAL)
def test_it_equals_torchs(name: str) -> None:
    function, x = EQUAL[name]
    ours, theirs = (x.clone().requires_grad_(x.is_floating_point()) for _ in range(2))
    f = partitioned(function, x)
    found = []
    for call, given in ((f, ours), (function, theirs)):
        torch.manual_seed(3)
        results = call(given)
        found.append(results if isinstance(results, tuple) else (results,))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    for each in found:
        floats = [y.nan_to_num().square().sum() for y in each if y.requires_grad]
        if floats and x.numel():
            torch.stack(floats).sum().backward()
    if theirs.grad is not None:
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_erfc_is_small_where_it_is(dtype: Any) -> None:
    x = torch.tensor(
        [[-INF, -3.0, 0.4, 0.6, 1.5, 2.5], [4.0, 5.8, 6.5, 9.0, INF, NAN]], dtype=dtype
    )
    tolerance = {"rtol": 1e-5 if dtype is torch.float32 else 1e-13, "atol": 0.0}
    torch.testing.assert_close(
        partitioned(torch.erfc, x)(x), torch.erfc(x), **tolerance, equal_nan=True
    )


def test_equal_elements_keep_their_order() -> None:
    x = torch.arange(512).remainder(3).float().view(2, 256)
    f = partitioned(lambda x: (x.sort(stable=True, dim=1)[1], x.kthvalue(90, 1)[1]), x)
    assert "is_stable = false" not in f.compiled.text("annotated")
    expected = x.sort(stable=True, dim=1)[1]
    for a, b in zip(f(x), (expected, expected[:, 89]), strict=True):
        assert a.equal(b)


def test_a_module_without_tensors_returns_some() -> None:
    f = sd.torch.partition(Called(lambda size: torch.eye(size)), (3,), {}, MESH)
    torch.testing.assert_close(f(3), torch.eye(3))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nn.functional.rrelu(x, 0.2, 0.4, training=True),
        lambda x: nn.functional.rrelu(x * 1, 0.2, 0.4, training=True, inplace=True),
        nn.RReLU(0.2, 0.4),
    ],
)
def test_random_slopes_are_those_of_the_gradient(function: Any) -> None:
    x = torch.randn(60, 50, generator=torch.Generator().manual_seed(0)).requires_grad_()
    f = sd.torch.partition(Called(function), (x,), {"x": [Shard(0), Replicate()]}, MESH)
    y = f(x)
    y.sum().backward()
    torch.testing.assert_close(y, x * x.grad)
    assert (x.grad[x > 0] == 1).all()
    slopes = x.grad[x <= 0]
    assert 0.2 <= slopes.min() < 0.21 < 0.39 < slopes.max() <= 0.4
    assert abs(slopes.mean() - 0.3) < 0.01
    with pytest.raises(ShardError, match="as many random numbers as elements say"):
        partitioned(function, x)


def test_draws_by_counter_have_their_distribution() -> None:
    def draw(x: Any) -> Any:
        e = torch.empty_like
        return (
            e(x).exponential_(2.0),
            e(x).geometric_(0.25),
            e(x).cauchy_(1.0),
            e(x).log_normal_(0.0, 1.0),
        )

    x = torch.zeros(200, 50)
    f = sd.torch.partition(Called(draw), (x,), {"x": [Shard(0), Replicate()]}, MESH)
    exponential, geometric, cauchy, normal = f(x)
    assert abs(exponential.mean() - 0.5) < 0.03
    assert (abs(geometric.mean() - 4) < 0.2, geometric.min()) == (True, 1)
    assert abs(cauchy.median() - 1) < 0.1
    assert abs(normal.log().mean()) < 0.05


PRECISE: Mapping[str, Callable[[Any], Any]] = {
    "number less": lambda x: 0.1 - x,
    "rsub": lambda x: torch.rsub(x, 0.1, alpha=0.7),
    "number over": lambda x: 0.1 / (x + 8),
    "number to the": lambda x: 0.3**x,
    "remainder of a number": lambda x: x + 0.7 % (x.detach() + 8),
    "compared": lambda x: torch.where(torch.gt(x, 0.1), x, 0.1),
    "affine_grid": lambda x: nn.functional.affine_grid(
        x.view(2, 2, 3), (2, 1, 7, 9), align_corners=False
    ),
    "lgamma": torch.lgamma,
    "chosen by a mask": lambda x: torch.clamp(torch.where(x > 0, 0.1, x), max=0.7),
    "lerp": lambda x: torch.lerp(x, 2 * x, 0.3),
    "softplus": lambda x: nn.functional.softplus(x, 0.3, 0.7),
    "linspace": lambda x: x + torch.linspace(-1, 1, 6, dtype=torch.float64),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", PRECISE)
def test_numbers_of_python_keep_their_digits(name: str) -> None:
    """In float64, also where a number is the first operand."""
    function = PRECISE[name]
    x = X.double() / 3
    found, own = x.clone().requires_grad_(), x.clone().requires_grad_()
    f = partitioned(function, found)
    result, expected = f(found), function(own)
    result.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(result, expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(found.grad, own.grad, rtol=1e-12, atol=1e-12)
