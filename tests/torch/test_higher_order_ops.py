"""torch's ops of functions, beside torch: with branches by elements that calls take both ways."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops import map as map_
from torch.distributed.tensor import Shard
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils import _pytree as pytree

import shard_dialect as sd
from tests.torch.called import MESH, Called

pytestmark = pytest.mark.usefixtures("unoptimized")


def partitioned(function: Callable[..., Any], x: Any) -> Any:
    return sd.torch.partition(Called(function), (x,), {"x": [Shard(0), Shard(1)]}, MESH)


def halved(x: Any) -> Any:
    return while_loop(lambda x: x.abs().sum() > 1, lambda x: (x * 0.5,), (x,))[0]


EQUAL: Mapping[str, Callable[[Any], Any]] = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)),
    "cond of what is outside": lambda x: torch.cond(x.sum() > 0, lambda: x.sin(), lambda: x * 3),
    "cond in cond": lambda x: torch.cond(
        x.sum() > 0,
        lambda x: torch.cond(x[0, 0] > 0, lambda x: x.exp(), lambda x: x * 2, (x,)),
        lambda x: x.cumprod(1),
        (x,),
    ),
    "while_loop": halved,
    "a loop that counts": lambda x: while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2 + i), (torch.tensor(0), x)
    ),
    "map": lambda x: map_(lambda row, by: row.cumsum(0) * by, x, torch.tensor(2.0)),
    "scan": lambda x: scan(lambda c, row: (c + row, (c * row).sum()), torch.zeros(6), x),
    "scan from the end": lambda x: scan(
        lambda c, row: (c * 0.5 + row, (c * row, c + 1)), torch.zeros(4), x, dim=1, reverse=True
    ),
    "associative_scan": lambda x: associative_scan(
        lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (x, x * 2), 1, combine_mode="generic"
    ),
    "a compiled function inside": lambda x: torch.compile(lambda x: x.sin() * 2)(x),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad")
@pytest.mark.parametrize("name", EQUAL)
def test_it_equals_torchs(name: str) -> None:
    function = EQUAL[name]
    x = torch.linspace(-2.0, 3.0, 24).view(4, 6)
    f = partitioned(function, x)
    for given in (x, -x):
        ours, theirs = (given.clone().requires_grad_() for _ in range(2))
        found, expected = (
            pytree.tree_leaves(call(y)) for call, y in ((f, ours), (function, theirs))
        )
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b)
        for results in (found, expected):
            sum(y.square().sum() for y in results if y.requires_grad).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


BIAS = torch.linspace(-1.0, 1.0, 15)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("is_biased", [False, True])
def test_flex_attention_is_attention_with_its_scores_changed(
    is_causal: bool, is_biased: bool
) -> None:
    blocks = create_block_mask(lambda b, h, q, k: q >= k, None, None, 8, 8, device="cpu")

    def flexible(x: Any) -> Any:
        return flex_attention(
            x,
            x * 0.5,
            x + 1,
            score_mod=(lambda s, b, h, q, k: s + BIAS[q - k + 7]) if is_biased else None,
            block_mask=blocks if is_causal else None,
        )

    def plain(x: Any) -> Any:
        place = torch.arange(8)
        bias = BIAS[place.unsqueeze(1) - place + 7] * is_biased
        if is_causal:
            bias = bias.masked_fill(place.unsqueeze(1) < place, float("-inf"))
        return nn.functional.scaled_dot_product_attention(x, x * 0.5, x + 1, attn_mask=bias)

    x = torch.linspace(-2.0, 3.0, 128).view(2, 2, 8, 4).sin()
    torch.testing.assert_close(partitioned(flexible, x)(x), plain(x))
