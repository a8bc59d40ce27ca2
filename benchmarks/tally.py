"""What a program communicates and multiplies on one device, whoever compiled it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from shard_dialect.collectives import AllGather, AllReduce, AllToAll, ReduceScatter, Step

Cost = Callable[[int, int], int]


def _of(step: Step) -> Cost:
    return lambda n, operand_bytes: step.bytes_moved(n, (operand_bytes,), 1)


COSTS: dict[str, Cost] = {
    "all_gather": _of(AllGather(0, ())),
    "reduce_scatter": _of(ReduceScatter(0, ())),
    "all_reduce": _of(AllReduce(())),
    "all_to_all": _of(AllToAll(0, 1, ())),
    "collective_permute": lambda n, operand_bytes: operand_bytes,
}
"""The cost model: bytes moved per device, of the size of a group and the bytes of the operand."""


@dataclass
class Tally:
    """Collectives by kind, how often and the bytes that a device moves; its products' flops."""

    count: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)
    flops: int = 0
    """Of matrix products and convolutions."""
    knows_flops: bool = True
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, bytes_moved: int, times: int = 1) -> None:
        self.count[kind] += times
        self.moved[kind] += bytes_moved * times

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @property
    def bytes_moved(self) -> int:
        return self.moved.total()


def is_more(own: int, other: int) -> bool:
    """Whether we move more bytes by over a tenth and 64 bytes."""
    return own > 1.1 * other + 64


def beside(pairs: Collection[tuple[int, int]], peer: str) -> list[list[str | int]]:
    """The rows of a table: the bytes that we and the peer move in each program."""
    return [
        ["bytes in all, ours", sum(own for own, _ in pairs)],
        [f"bytes in all, {peer}'s", sum(other for _, other in pairs)],
        [f"fewer than {peer}", sum(own < other for own, other in pairs)],
        ["as many", sum(own == other for own, other in pairs)],
        ["any more", sum(own > other for own, other in pairs)],
        ["more", sum(is_more(*pair) for pair in pairs)],
    ]
