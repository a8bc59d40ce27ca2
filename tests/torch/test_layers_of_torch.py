"""Layers of torch as their docs write them, forward and with gradients, on a mesh of 2x4."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard
from torch.nn import functional

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.torch.graph import decompositions
from tests.torch.models import BATCH, R, assert_close

pytestmark = pytest.mark.usefixtures("unoptimized")

MESH = sd.Grid("mesh", (2, 4), ("dp", "tp"))


class Of(nn.Module):  # type: ignore[misc]
    """A function of a layer in front of it, so that there is a gradient."""

    def __init__(self, function: Callable[..., Any], width: int, *more: Any) -> None:
        super().__init__()
        self.first, self.function, self.more = nn.Linear(width, width), function, more

    def forward(self, x: Any) -> Any:
        return self.function(self.first(x), *self.more)


class Packed(nn.Module):  # type: ignore[misc]
    """Sequences of several lengths."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.cell = getattr(nn, name)(16, 8, 2, batch_first=True, bidirectional=True)

    def forward(self, x: Any) -> Any:
        lengths = 1 + (x[:, :, 0] > 0).sum(1)
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.cell(packed)[0], True, -1.0, 9)


def heads(x: Any, count: int = 4) -> Any:
    """A strided view, as attention makes it."""
    return x.view(*x.shape[:-1], count, -1).transpose(1, 2)


MASK = torch.ones(8, 8).tril().bool()
ATTENTION: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
    "causal": lambda x: functional.scaled_dot_product_attention(*[heads(x)] * 3, is_causal=True),
    "mask": lambda x: functional.scaled_dot_product_attention(*[heads(x)] * 3, attn_mask=MASK),
    "float mask": lambda x: functional.scaled_dot_product_attention(
        *[heads(x)] * 3, attn_mask=torch.arange(64.0).view(8, 8) / 9, scale=0.3
    ),
    "a mask of nothing": lambda x: functional.scaled_dot_product_attention(
        *[heads(x)] * 3, attn_mask=MASK & (torch.arange(8).view(8, 1) > 0)
    ),
    "groups": lambda x: functional.scaled_dot_product_attention(
        heads(x), heads(x[..., :8], 2), heads(x[..., 8:], 2), enable_gqa=True, is_causal=True
    ),
    "packed": lambda x: functional.scaled_dot_product_attention(
        *x.repeat(1, 1, 3).view(4, 8, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
    ),
}


LABELS = torch.tensor([[1, 2, -1, 0, 0, 5], [-1] * 6, [3, 0, 1, 2, 5, 4], [5, -1, 0, 0, -1, 2]])


def x(*shape: int) -> Any:
    return torch.randn(4, *shape, generator=torch.Generator().manual_seed(0))


def convolution(kind: str, *shape: int, **options: Any) -> tuple[nn.Module, Any]:
    return getattr(nn, kind)(*shape[:3], **options), x(shape[0], *shape[3:])


def pooled(rank: int, divisor: int) -> tuple[nn.Module, Any]:
    windows = (2, 3, 4)[:rank], 2, 1
    pool = getattr(nn, f"AvgPool{rank}d")(*windows, divisor_override=divisor)
    return nn.Sequential(getattr(nn, f"Conv{rank}d")(3, 4, 1), pool), x(3, *(6, 7, 8)[:rank])


def masked(y: Any) -> Any:
    """Along the first dimensions, and along the last."""
    found = y * 2
    found[y[..., 0] > 0] = 0.5
    assert torch._is_all_true(torch.isfinite(found))
    found[:, :, torch.arange(16) > 12] = torch.tensor(0.25)
    return found


MODULES: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    **{
        f"attention, {name}": lambda each=each: (Of(each, 16), x(8, 16))
        for name, each in ATTENTION.items()
    },
    "lstm": lambda: (nn.LSTM(16, 8, 2, batch_first=True), x(4, 16)),
    "gru": lambda: (nn.GRU(16, 8, batch_first=True, bidirectional=True), x(4, 16)),
    "rnn": lambda: (nn.RNN(16, 8, batch_first=True), x(4, 16)),
    "encoder": lambda: (nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True), x(8, 16)),
    "depthwise": lambda: convolution("Conv1d", 8, 8, 4, 9, padding=3, groups=8),
    "grouped": lambda: convolution("Conv2d", 8, 16, 3, 8, 9, padding=1, groups=4, stride=2),
    "dilated": lambda: convolution("Conv2d", 4, 6, 3, 9, 8, dilation=2, stride=(1, 2)),
    "volume": lambda: convolution("Conv3d", 2, 4, 3, 5, 6, 4, padding=1),
    "grouped volume": lambda: convolution("Conv3d", 4, 6, 3, 5, 6, 4, padding=1, groups=2),
    "sums of windows": lambda: pooled(2, 1),
    "sums of windows in space": lambda: pooled(3, 5),
    "rrelu": lambda: (nn.Sequential(nn.Linear(6, 8), nn.RReLU(0.1, 0.5).eval()), x(3, 6)),
    **{
        f"labels, {way}": lambda way=way: (
            Of(lambda y: functional.multilabel_margin_loss(y, LABELS, reduction=way), 6),
            x(6),
        )
        for way in ("none", "mean", "sum")
    },
    "valid": lambda: convolution("Conv2d", 4, 6, 3, 9, 8, padding="valid"),
    "same": lambda: convolution("Conv3d", 2, 4, 2, 5, 6, 4, padding="same"),
    "transposed": lambda: convolution(
        "ConvTranspose2d", 8, 4, 3, 5, 6, stride=2, padding=1, output_padding=1, groups=2
    ),
    "patches": lambda: convolution("Conv2d", 4, 6, 4, 9, 8, stride=4, groups=2),
    "patches apart": lambda: convolution("Conv3d", 4, 6, 2, 7, 5, 6, stride=(3, 2, 1), padding=1),
    "as much behind as dilated": lambda: convolution(
        "ConvTranspose1d", 4, 6, 3, 9, padding=1, dilation=2, output_padding=1
    ),
    "a number where a mask is": lambda: (Of(masked, 16), x(8, 16)),
    **{
        f"{mode} {options}": lambda mode=mode, options=options: (
            Of(lambda y: functional.interpolate(y, mode=mode, **options), 6),
            x(2, 6, 6),
        )
        for mode in ("nearest", "bilinear", "bicubic")
        for options in ({"scale_factor": 2.0}, {"size": (9, 4)})
    },
    **{
        f"largest of {size}": lambda rank=rank, size=size: (
            Of(getattr(functional, f"adaptive_max_pool{rank}d"), 7, size),
            x(2, *[7] * rank),
        )
        for rank, size in ((1, 4), (2, (3, None)), (2, 7), (3, 2))
    },
    **{f"packed {name}": lambda name=name: (Packed(name), x(8, 16)) for name in ("LSTM", "GRU")},
    "long rows": lambda: (nn.Embedding(16, 8, max_norm=1.0), torch.randint(0, 16, (4, 8))),
    "histogram": lambda: (Of(lambda y: y * torch.histc(y.detach(), 4)[0], 16), x(16)),
    "bag": lambda: (nn.EmbeddingBag(16, 8, mode="mean"), torch.randint(0, 16, (4, 8))),
    "largest of a bag": lambda: (nn.EmbeddingBag(16, 8, mode="max"), torch.randint(0, 16, (4, 8))),
    "cumprod": lambda: (Of(lambda y: y.cumprod(-1), 16), x(16)),
    "diagonal": lambda: (Of(lambda y: y.diagonal(1, 1, 2), 8), x(8, 8)),
    "windows": lambda: (Of(lambda y: y.unfold(1, 4, 2), 16), x(16)),
    "averages": lambda: (Of(nn.AdaptiveAvgPool2d((3, 2)), 8), x(3, 9, 8)),
    "average": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.AvgPool2d(3, 2, 1, ceil_mode=True)),
        x(3, 9, 8),
    ),
    "distances": lambda: (Of(lambda y: torch.cdist(y, y.flip(1)), 8), x(5, 8)),
    "best in any order": lambda: (Of(lambda y: y.topk(3, sorted=False)[0].sum(-1), 8), x(5, 8)),
    **{
        f"sampled, {mode}, {padding}": lambda mode=mode, padding=padding: (
            Of(
                lambda y: functional.grid_sample(
                    y, y[:, :2].permute(0, 2, 3, 1), mode, padding, align_corners=False
                ),
                6,
            ),
            x(3, 6, 6),
        )
        for mode, padding in (("bilinear", "zeros"), ("bicubic", "border"))
    },
    **{
        f"alignments, {reduction}": lambda reduction=reduction: (
            Of(
                lambda y: functional.ctc_loss(
                    y.log_softmax(-1).transpose(0, 1),
                    torch.tensor([[1, 2, 2], [3, 3, 0], [1, 0, 0], [4, 5, 6]]),
                    torch.tensor([8, 8, 5, 3]),
                    torch.tensor([3, 2, 1, 3]),
                    reduction=reduction,
                ),
                8,
            ),
            x(8, 8),
        )
        for reduction in ("mean", "none")
    },
    "alignments, in a row": lambda: (
        Of(
            lambda y: functional.ctc_loss(
                y.log_softmax(-1).transpose(0, 1),
                torch.tensor([1, 2, 2, 4, 5, 6, 7, 7, 1, 4, 4]),
                torch.tensor([8, 8, 5, 3]),
                torch.tensor([3, 3, 2, 3]),
                zero_infinity=True,
            ),
            8,
        ),
        x(8, 8),
    ),
    "largest": lambda: (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2)), x(3, 8, 8)),
}


@pytest.mark.parametrize("name", MODULES)
def test_equals_the_layer(name: str) -> None:
    torch.manual_seed(0)
    module, given = MODULES[name]()
    first = "x" if isinstance(module, (Of, Packed)) else "src" if name == "encoder" else "input"
    plan = {first: BATCH, "tp": fully_shard}

    def loss(found: Any) -> Any:
        return (found[0] if isinstance(found, tuple) else found).square().mean()

    f = sd.torch.partition(module, (given,), plan, MESH, loss=loss)
    value, gradients = f(given)
    expected = loss(module(given))
    expected.backward()
    torch.testing.assert_close(value, expected.detach(), rtol=1e-4, atol=1e-6)
    assert_close(gradients, {key: each.grad for key, each in module.named_parameters()})


@pytest.mark.parametrize("groups", [1, 4, 8])
@pytest.mark.parametrize("split", [{}, {"input": Shard(0)}, {"input": Shard(2)}])
def test_gradients_of_kernels_are_sums_of_shards(groups: int, split: dict[str, Any]) -> None:
    """Of batches and of rows: what moves are halos, and the gradients."""
    torch.manual_seed(0)
    own, given = nn.Conv2d(8, 8, 3, padding=1, groups=groups), torch.randn(8, 8, 16, 16)
    f = sd.torch.partition(own, (given,), {"dp": {"input": Shard(0)}, "tp": split}, MESH)
    f(given).square().sum().backward()
    own(given).square().sum().backward()
    torch.testing.assert_close(f.weight.grad, own.weight.grad, rtol=1e-4, atol=1e-3)
    (program,) = f._engine.programs
    halos = 2 * 3 * given[:, :, 0].numel() * 4 if split == {"input": Shard(2)} else 0
    sums = 2 * (own.weight.numel() + own.bias.numel()) * 4 * (7 if split else 1)
    report = program.backward.compiled.report
    assert report.bytes_moved <= halos + sums
    assert len(report.entries) <= 4  # and not one for each tap


def test_running_means_of_all_batches() -> None:
    module = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4, momentum=None))
    f = sd.torch.partition(module, (x(8),), {"input": BATCH, "tp": fully_shard}, MESH)
    for number in range(3):
        given = x(8) * number
        torch.testing.assert_close(f(given), module(given), rtol=1e-4, atol=1e-5)
    assert_close(f.state_dict(), module.state_dict())
    assert len(f._engine.programs) == 1


def test_a_bag_by_offsets() -> None:
    class Bag(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(16, 8, mode="sum", padding_idx=3)

        def forward(self, i: Any, at: Any, scale: Any) -> Any:
            return self.bag(i, at, scale)

    module, i = Bag(), torch.randint(0, 16, (9,))
    args = i, torch.tensor([0, 2, 2, 7]), torch.rand(9)
    f = sd.torch.partition(module, args, {"bag.weight": [R, Shard(0)]}, MESH)
    torch.testing.assert_close(f(*args), module(*args).detach())


def test_tied_parameters_are_one() -> None:
    class Tied(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(16, 8), nn.Linear(8, 16, bias=False)
            self.head.weight = self.table.weight

        def forward(self, i: Any) -> Any:
            return self.head(self.table(i))

    module, i = Tied(), torch.randint(0, 16, (4, 8))
    f = sd.torch.partition(module, (i,), {"i": BATCH}, MESH, loss=lambda y: y.square().mean())
    _, gradients = f(i)
    module(i).square().mean().backward()
    assert_close(gradients, {"table.weight": module.table.weight.grad})


def test_a_parameter_from_elsewhere_is_refused() -> None:
    other = nn.Linear(8, 8)
    module = Of(lambda y: functional.linear(y, other.weight), 8)
    with pytest.raises(ShardError, match=r"reads a tensor of shape \[8, 8\] that has gradients"):
        sd.torch.partition(module, (x(8),), {"x": BATCH}, MESH)


@torch.library.custom_op("shard_dialect_tests::scaled", mutates_args=())
def scaled(given: torch.Tensor, factor: float) -> torch.Tensor:
    return given * factor


scaled.register_fake(lambda given, factor: torch.empty_like(given))


def test_an_op_of_a_user_is_what_he_says() -> None:
    module = Of(lambda y: scaled(y, 3.0), 8)
    with pytest.raises(
        ShardError, match=r"torch\.py:\d+: error: .*tests\.scaled.*with sd\.torch\.decompose"
    ):
        sd.torch.partition(module, (x(8),), {"x": BATCH}, MESH)
    ops = torch.ops.shard_dialect_tests
    for op in (ops.scaled.default, ops.scaled, "shard_dialect_tests::scaled", scaled):
        sd.torch.decompose(op)(lambda y, factor: y * factor)
        assert decompositions._OF_USERS.keys() == {ops.scaled.default}
        f = sd.torch.partition(module, (x(8),), {"x": BATCH}, MESH)
        torch.testing.assert_close(f(x(8)), module(x(8)).detach())
        decompositions._OF_USERS.clear()
    for none in ("scaled", "shard_dialect_tests::none", len):
        with pytest.raises(ShardError, match="is no op of torch: give it as"):
            sd.torch.decompose(none)


def test_a_group_norm_stays_within_its_batch() -> None:
    """torch says it by strides of the statistics."""
    norm, x = torch.nn.GroupNorm(4, 8).requires_grad_(False), torch.randn(4, 8, 4, 4)
    f = sd.torch.partition(norm, (x,), {"input": [Shard(0)]}, sd.Grid("mesh", (2,)))
    torch.testing.assert_close(f(x), norm(x), rtol=1e-4, atol=1e-5)
    assert not f.compiled.report.bytes_moved


def test_variances_are_computed_in_floats() -> None:
    """Elements in doubles take twice the memory, and twice the bytes where they are sent."""
    norms = nn.Sequential(nn.GroupNorm(2, 8), nn.LayerNorm(16), nn.InstanceNorm1d(8))
    text = sd.to_text(sd.torch.lower(norms, (x(8, 16),), {"input": BATCH}, MESH))
    assert not re.search(r"x16xf64|x64xf64", text)
