"""What one collective takes among the devices of one level, by the algorithm that is cheapest.

    all_gather of m bytes a device among n    ring       (n - 1) (a + m / B)
                                              doubling   log2(n) a + (n - 1) m / B

Source of the formulas on a switch: Thakur, Rabenseifner, Gropp, "Optimization of Collective
Communication Operations in MPICH", 2005; Chan and others, "Collective communication: theory,
practice, and experience", 2007. On a ring a device talks to its two neighbours only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`size` devices of a group, joined by one level; `share` of its bandwidth is theirs."""

    size: int
    bytes_per_second: float
    latency: float
    ring: bool = False
    share: float = 1.0

    @property
    def bandwidth(self) -> float:
        """The bytes per second that one device of the group sends."""
        return self.bytes_per_second * self.share


def worst_case_span(spans: Sequence[Span]) -> Span:
    """All devices of the spans as one group, with the slowest links of any."""
    size = 1
    for span in spans:
        size *= span.size
    return Span(
        size,
        min(span.bandwidth for span in spans if span.size > 1),
        max(span.latency for span in spans if span.size > 1),
    )


def cheapest(kind: str, span: Span, operand: float) -> tuple[float, str]:
    """The seconds of a collective among the devices of a span, and the name of the algorithm.

    `operand` is the bytes of the operand on one device, on the root if only it has one.
    """
    n, a = span.size, span.latency
    if n == 1:
        return 0.0, ""
    table = _RING if span.ring else _SWITCH
    b = operand / span.bandwidth
    return min((time(n, a, b), name) for name, time in table[kind] if _applies(name, n))


def _applies(name: str, n: int) -> bool:
    """Halving and doubling are exact for powers of two only."""
    return name not in ("recursive halving", "recursive doubling") or n & (n - 1) == 0


def _log2(n: int) -> int:
    """The rounds of a binomial tree of n devices."""
    return (n - 1).bit_length()


_Algorithm = tuple[str, Callable[[int, float, float], float]]
"""A name; the seconds for n devices, the latency a, and b seconds to send the operand once."""

_SWITCH: dict[str, tuple[_Algorithm, ...]] = {
    "all_gather": (
        ("ring", lambda n, a, b: (n - 1) * (a + b)),
        ("Bruck", lambda n, a, b: _log2(n) * a + (n - 1) * b),
    ),
    "reduce_scatter": (
        ("ring", lambda n, a, b: (n - 1) * (a + b / n)),
        ("recursive halving", lambda n, a, b: _log2(n) * a + (n - 1) / n * b),
    ),
    "all_reduce": (
        ("ring", lambda n, a, b: 2 * (n - 1) * (a + b / n)),
        ("tree", lambda n, a, b: 2 * _log2(n) * (a + b)),
        ("recursive doubling", lambda n, a, b: _log2(n) * (a + b)),
        ("recursive halving", lambda n, a, b: 2 * _log2(n) * a + 2 * (n - 1) / n * b),
    ),
    "all_to_all": (
        ("pairwise", lambda n, a, b: (n - 1) * (a + b / n)),
        ("Bruck", lambda n, a, b: _log2(n) * (a + b / 2)),
    ),
    "broadcast": (
        ("tree", lambda n, a, b: _log2(n) * (a + b)),
        ("scatter, ring", lambda n, a, b: (_log2(n) + n - 1) * a + 2 * (n - 1) / n * b),
    ),
    "reduce": (
        ("tree", lambda n, a, b: _log2(n) * (a + b)),
        ("recursive halving", lambda n, a, b: 2 * _log2(n) * a + 2 * (n - 1) / n * b),
    ),
    "gather": (("tree", lambda n, a, b: _log2(n) * a + (n - 1) * b),),
    "scatter": (("tree", lambda n, a, b: _log2(n) * a + (n - 1) / n * b),),
}
_RING: dict[str, tuple[_Algorithm, ...]] = {
    # In both directions at once: n // 2 steps reach everyone.
    "all_gather": (("ring", lambda n, a, b: n // 2 * a + (n - 1) * b),),
    "reduce_scatter": (("ring", lambda n, a, b: n // 2 * a + (n - 1) / n * b),),
    "all_reduce": (("ring", lambda n, a, b: 2 * (n // 2) * a + 2 * (n - 1) / n * b),),
    # A slice passes n / 4 links on the average.
    "all_to_all": (("ring", lambda n, a, b: n // 2 * a + n / 4 * b),),
    # The halves of the operand go around in both directions, in a pipeline.
    "broadcast": (("ring", lambda n, a, b: n // 2 * a + b),),
    "reduce": (("ring", lambda n, a, b: n // 2 * a + b),),
    "gather": (("ring", lambda n, a, b: n // 2 * a + (n - 1) * b),),
    "scatter": (("ring", lambda n, a, b: n // 2 * a + (n - 1) / n * b),),
}
