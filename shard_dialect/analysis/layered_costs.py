"""The cost of each op of the graph for a device, counted on the partitioned program.

An op becomes several local ones: a product with padding has a mask before it. All of them have its
mark, and their costs are its. Of a function that is called twice, both calls have the same marks:
the first half of what has a mark is the first call's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from shard_dialect.analysis.costs.local_ops import LocalProgram
from shard_dialect.analysis.costs.memory import Memory
from shard_dialect.analysis.costs.schedule import TimedOps
from shard_dialect.analysis.layers import LayeredProgram
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.model.devices.device_model import DeviceModel

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class OpCost:
    """The costs of one op, all runs of a loop together."""

    seconds: float = 0.0
    flops: int = 0
    bytes_sent: int = 0
    live: int | None = None
    """The most bytes that are live while it runs, in any call; `None` where it does not run."""
    collectives: tuple[int, ...] = ()
    """The positions of its collectives in the report."""


def costs_of(
    layers: LayeredProgram,
    program: LocalProgram,
    prices: DeviceModel,
    communication: Sequence[Collective],
    memory: Memory,
) -> tuple[OpCost, ...]:
    """The costs of each op of the graph."""
    timed = TimedOps(program, prices)
    runs: dict[int, list[tuple[float, int]]] = {}
    for op, times, _ in program.walk():
        if op.shown is not None:
            time = timed(op)
            runs.setdefault(op.shown, []).append((time.seconds * times, time.flops * times))
    sent: dict[int, list[int]] = {}
    for number, each in enumerate(communication):
        if each.shown is not None:
            sent.setdefault(each.shown, []).append(number)
    live: dict[int, int] = {}
    for moment in memory.timeline:
        if moment.shown is not None:
            live[moment.shown] = max(live.get(moment.shown, 0), moment.bytes)
    calls = _calls_of(layers)

    def cost(mark: int, call: int) -> OpCost:
        own = _of_call(runs.get(mark, ()), call, calls[mark])
        numbers = _of_call(sent.get(mark, ()), call, calls[mark])
        return OpCost(
            sum(seconds for seconds, _ in own),
            sum(flops for _, flops in own),
            sum(communication[number].bytes for number in numbers),
            live.get(mark),
            tuple(numbers),
        )

    return tuple(
        OpCost() if op.mark is None else cost(op.mark, call)
        for op, call in zip(layers.ops, layers.calls, strict=True)
    )


def _calls_of(layers: LayeredProgram) -> Mapping[int, int]:
    """How many calls run the op with each mark."""
    return {
        op.mark: call + 1
        for op, call in zip(layers.ops, layers.calls, strict=True)
        if op.mark is not None
    }


def _of_call(items: Sequence[Item], call: int, calls: int) -> Sequence[Item]:
    """The part of a call in what all calls have done, one after the other.

    >>> _of_call("aabb", 1, 2)
    'bb'
    """
    assert len(items) % calls == 0, "all calls of a function do the same"
    each = len(items) // calls
    return items[call * each : (call + 1) * each]
