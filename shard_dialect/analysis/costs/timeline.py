"""The ops of a schedule, and what they need of each other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shard_dialect.analysis.costs.local_ops import Op
from shard_dialect.analysis.costs.timed_ops import Bound, OpTime


@dataclass(frozen=True, slots=True)
class TimedOp:
    """An op in the schedule; times are in seconds, from the start of the program.

    What is in a loop is there once, for all of its runs: `seconds`, `flops` and `bytes` are those
    of all `times`.
    """

    name: str
    location: str | None
    result: str
    """The type of the first result, as `2x4xf32`."""
    start: float
    seconds: float
    bound: Bound
    times: int
    flops: int
    bytes: int
    inside: tuple[TimedOp, ...] = ()
    """Of a loop or branch in a chain, the chain in it, all of its runs together."""


@dataclass(frozen=True, slots=True)
class Item:
    """An op, or a whole loop or branch, and the items of the same block that it needs."""

    op: Op
    time: OpTime
    needs: tuple[int, ...]
    inside: Timeline | None = None
    is_split: bool = False

    @property
    def is_collective(self) -> bool:
        """Whether it runs on the network alone."""
        return self.time.bound == "network" and self.inside is None

    @property
    def takes_both(self) -> bool:
        """Whether it is a loop or branch with collectives, which keeps the network for itself."""
        inside = self.inside.events if self.inside is not None else ()
        return any(each.bound == "network" for each in inside)


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run of some blocks."""

    total: float
    exposed: float
    overlapped: float
    chain: float
    events: tuple[TimedOp, ...]
    critical: tuple[TimedOp, ...]

    def repeated(self, times: int) -> Timeline:
        """All runs of a loop's body, as if each op did its runs at once."""

        def stretched(each: TimedOp) -> TimedOp:
            return replace(
                each,
                start=each.start * times,
                seconds=each.seconds * times,
                times=each.times * times,
                flops=each.flops * times,
                bytes=each.bytes * times,
                inside=tuple(map(stretched, each.inside)),
            )

        return Timeline(
            self.total * times,
            self.exposed * times,
            self.overlapped * times,
            self.chain * times,
            tuple(map(stretched, self.events)),
            tuple(map(stretched, self.critical)),
        )


EMPTY = Timeline(0.0, 0.0, 0.0, 0.0, (), ())


def event_of(item: Item, start: float) -> TimedOp:
    """One run of an item that starts at a time."""
    op, time = item.op, item.time
    result = next((str(each.tensor) for each in op.results if each.tensor), "")
    return TimedOp(
        op.name, op.location, result, start, time.seconds, time.bound, 1, time.flops, time.bytes
    )
