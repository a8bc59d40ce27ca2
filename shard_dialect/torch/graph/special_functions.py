"""Decompositions of functions that StableHLO does not have, by series, in f64.

lgamma(x)    ->   Stirling's series at x + 20, less log(x) + ... + log(x + 19)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import factorial, log, pi
from typing import Any

import torch

from shard_dialect.torch.graph.orders import scanned
from shard_dialect.torch.graph.tensor_trees import Tensor

aten = torch.ops.aten
_SHIFT = 20
"""The series are good at this distance from 0."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)
"""The second one, the fourth, and so on. Abramowitz and Stegun, 6.1.40, 6.3.18 and 6.4.11."""


def _in_f64(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def decomposed(x: Tensor) -> Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return function(x.to(torch.float64)).to(dtype)

    return decomposed


def _up_to_series(x: Tensor) -> Tensor:
    """`[..., 20]`: x, x + 1, ..., up to where the series begin."""
    return x.unsqueeze(-1) + torch.arange(_SHIFT, dtype=x.dtype)


def _erfc(x: Tensor) -> Tensor:
    """Of large ones x exp(-x^2) times the integral of exp(-t^2) / (t^2 + x^2), by steps of 1/2.

    A sum of steps misses what the pole at t = ix gives, which is nothing from x = 2 pi on. The
    steps end where exp(-t^2) is too small to count.
    """
    at = x.clamp(0.5, 30)
    places = torch.arange(1, 14, dtype=x.dtype) / 2
    squares = places * places
    steps = ((-squares).exp() / (squares + (at * at).unsqueeze(-1))).sum(-1) + 0.5 / (at * at)
    near = at.to(torch.float32).to(torch.float64)  # whose square is exact
    power = (-near * near).exp() * ((near - at) * (near + at)).exp()
    pole = torch.where(at < 2 * pi, 2 / (1 - (4 * pi * at).exp()), 0.0)
    return torch.where(x > 0.5, at * power * steps / pi + pole, 1 - torch.erf(x))


def _erfinv(x: Tensor) -> Tensor:
    """Winitzki's approximation, and then three steps of Newton."""
    rest = (1 - x * x).log()
    half = 2 / (pi * 0.147) + rest / 2
    found = x.sign() * ((half * half - rest / 0.147).sqrt() - half).clamp(min=0).sqrt()
    for _ in range(3):
        found = found - (torch.erf(found) - x) * (found * found).exp() * (pi**0.5 / 2)
    found = torch.where(x.abs() == 1, x * float("inf"), found)
    return torch.where(x.abs() > 1, float("nan"), found)


def _lgamma(x: Tensor) -> Tensor:
    """Of negative ones by reflection."""
    is_low = x < 0.5
    at = torch.where(is_low, 1 - x, x)
    far = at + _SHIFT
    found = (far - 0.5) * far.log() - far + log(2 * pi) / 2
    for number, each in enumerate(_BERNOULLI, start=1):
        found = found + each / (2 * number * (2 * number - 1)) * far ** (1 - 2 * number)
    found = found - _up_to_series(at).log().sum(-1)
    reflected = log(pi) - (pi * (x - x.floor())).sin().abs().log() - found
    found = torch.where(is_low, reflected, found)
    return torch.where((x <= 0) & (x == x.floor()) | x.isinf(), float("inf"), found)


def _digamma(x: Tensor) -> Tensor:
    is_low = x < 0.5
    at = torch.where(is_low, 1 - x, x)
    far = at + _SHIFT
    found = far.log() - 0.5 / far
    for number, each in enumerate(_BERNOULLI, start=1):
        found = found - each / (2 * number) * far ** (-2 * number)
    found = found - (1 / _up_to_series(at)).sum(-1)
    found = torch.where(is_low, found - pi / (pi * (x - x.floor())).tan(), found)
    is_pole = (x < 0) & (x == x.floor())
    return torch.where(is_pole, float("nan"), torch.where(x == 0, float("-inf"), found))


def _polygamma(order: int, x: Tensor) -> Tensor:
    if not order:
        return torch.digamma(x)
    sign = -1 if order % 2 == 0 else 1

    def series(x: Tensor) -> Tensor:
        far = x + _SHIFT
        found = factorial(order - 1) * far ** (-order)
        found = found + factorial(order) / 2 * far ** (-order - 1)
        for number, each in enumerate(_BERNOULLI, start=1):
            scale = each * factorial(2 * number + order - 1) / factorial(2 * number)
            found = found + scale * far ** (-2 * number - order)
        found = found + factorial(order) * (_up_to_series(x) ** (-order - 1)).sum(-1)
        return sign * found

    return _in_f64(series)(x)


def _logcumsumexp(x: Tensor, dim: int) -> Tensor:
    """Of pairs of elements, then of pairs of these: sums of powers would be too large."""

    def joined(before: Tensor, found: Tensor) -> Tensor:
        high = torch.maximum(found, before)
        finite = torch.where(high.isinf(), 0.0, high)
        return finite + ((found - finite).exp() + (before - finite).exp()).log()

    return scanned(joined, x.to(torch.float64), dim, float("-inf")).to(x.dtype)


DECOMPOSITIONS: Mapping[Any, Callable[..., Any]] = {
    aten.erfc.default: _in_f64(_erfc),
    aten.erfinv.default: _in_f64(_erfinv),
    aten.lgamma.default: _in_f64(_lgamma),
    aten.digamma.default: _in_f64(_digamma),
    aten.polygamma.default: _polygamma,
    aten.logcumsumexp.default: _logcumsumexp,
}
