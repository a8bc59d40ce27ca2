"""The time of one device: when it computes, when it communicates, and when it waits.

    as written     compute  |--a--|        |--b--|--c--|
                   network        |--gather|              b reads the gathered tensor, c does not

    overlapped     compute  |--a--|--c--|  |--b--|
                   network        |--gather|

All devices do the same at the same time. As written, ops run in the order of the program, and a
device waits for each collective; one that is split into a start and a `mesh.done` runs beside what
is between. Overlapped, a collective starts when its operand is there, and the device goes on with
the next op, in the order of the program, whose operands are there. A loop's body counts as often as
it runs (once where that is not known), and does not overlap with ops around it; of branches,
the longest counts.

The time of an op is by the device model. An op takes as long as its arithmetic or as its traffic
with the memory (`analysis.costs.traffic`), whichever is more (the roofline model: Williams,
Waterman and Patterson, CACM 52(4), 2009). A collective takes what `collectives.collective_time`
gives.

The overlapped time is by list scheduling; a lower bound on it is the longest chain of ops that need
each other. List scheduling (Graham, Bell System Technical Journal 45(9), 1966) takes whenever the
device or the network is free the first op, in the order of the program, whose operands are there.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from shard_dialect.analysis.costs.local_ops import Block, LocalProgram, Op, Value
from shard_dialect.analysis.costs.traffic import traffic_of
from shard_dialect.collectives.collective_time import seconds
from shard_dialect.model.devices.device_model import DeviceModel

Bound = Literal["compute", "memory", "network", "nothing"]


@dataclass(frozen=True, slots=True)
class OpTime:
    """The time of one run of an op, without that of the ops inside it."""

    seconds: float
    bound: Bound
    flops: int = 0
    bytes: int = 0
    """The bytes that the op reads and writes; of a collective, its operand."""


class TimedOps:
    """The times of a program's ops on a device model."""

    def __init__(self, program: LocalProgram, device_model: DeviceModel) -> None:
        self._device_model = device_model
        self._traffic = traffic_of(program, device_model.cache_bytes)

    def __call__(self, op: Op) -> OpTime:
        """The time of one run; ops that neither compute nor move anything take none."""
        if op.grid is not None and op.step is not None and op.step.communicates:
            return self._collective(op)
        flops = op.flops.total if op.flops else 0
        moved = self._traffic.get(id(op), 0)  # calls move nothing
        computing, moving = self._device_model.op_seconds(flops, _element(op), moved)
        if not flops and not moved:
            return OpTime(0.0, "nothing")
        bound: Bound = "compute" if computing > moving else "memory"
        return OpTime(max(computing, moving), bound, flops, moved)

    def _collective(self, op: Op) -> OpTime:
        if op.name == "mesh.done" or not op.operands or op.operands[0].tensor is None:
            return OpTime(0.0, "nothing")
        assert op.step is not None
        assert op.grid is not None
        operand = op.operands[0].tensor
        taken = seconds(op.step, op.grid, operand.shape, operand.itemsize, self._device_model)
        return OpTime(taken, "network", 0, operand.bytes)


def _element(op: Op) -> str:
    """The element type that is multiplied: of operands, since sums may be kept in a wider one."""
    return next((each.tensor.element for each in (*op.operands, *op.results) if each.tensor), "f32")


@dataclass(frozen=True, slots=True)
class TimedOp:
    """An op in the schedule; times are in seconds, from the start of the program.

    An op in a loop is there once, for all of its runs: `seconds`, `flops` and `bytes` are those
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


def overlapped(items: Sequence[Item]) -> float:
    """The seconds of items on a device and a network that work beside each other."""
    return _ListScheduling(items).run()


class _ListScheduling:
    """Lane 0 is the device, lane 1 the network."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items
        self._waiting = [len(item.needs) for item in items]
        self._readers: list[list[int]] = [[] for _ in items]
        for number, item in enumerate(items):
            for each in item.needs:
                self._readers[each].append(number)
        self._ready: tuple[list[int], list[int]] = ([], [])
        self._free = [True, True]
        self._running: list[tuple[float, int]] = []
        self._now = 0.0

    def run(self) -> float:
        for number, count in enumerate(self._waiting):
            if not count:
                self._release(number)
        while self._running or any(self._ready):
            while self._start(0) or self._start(1):
                pass
            self._now, number = heapq.heappop(self._running)
            self._occupy(number, free=True)
            for reader in self._readers[number]:
                self._waiting[reader] -= 1
                if not self._waiting[reader]:
                    self._release(reader)
        return self._now

    def _release(self, number: int) -> None:
        heapq.heappush(self._ready[self._items[number].is_collective], number)

    def _start(self, lane: int) -> bool:
        """Start the first item that is ready, if all that it takes is free."""
        if not self._ready[lane]:
            return False
        number = self._ready[lane][0]
        if not all(self._free[each] for each in self._lanes(number)):
            return False
        heapq.heappop(self._ready[lane])
        self._occupy(number, free=False)
        item = self._items[number]
        taken = item.inside.overlapped if item.inside is not None else item.time.seconds
        heapq.heappush(self._running, (self._now + taken, number))
        return True

    def _lanes(self, number: int) -> tuple[int, ...]:
        item = self._items[number]
        return (0, 1) if item.takes_both else (int(item.is_collective),)

    def _occupy(self, number: int, *, free: bool) -> None:
        for lane in self._lanes(number):
            self._free[lane] = free


def longest_chain(items: Sequence[Item]) -> tuple[float, tuple[TimedOp, ...]]:
    """The longest chain of items that need each other."""
    ends: list[float] = []
    before: list[int | None] = []
    for item in items:
        last = max(item.needs, key=ends.__getitem__, default=None)
        taken = item.inside.chain if item.inside is not None else item.time.seconds
        ends.append((0.0 if last is None else ends[last]) + taken)
        before.append(last)
    if not ends:
        return 0.0, ()
    at: int | None = max(range(len(ends)), key=ends.__getitem__)
    chain: list[TimedOp] = []
    total = ends[at] if at is not None else 0.0
    while at is not None:
        item = items[at]
        taken = item.inside.chain if item.inside is not None else item.time.seconds
        if taken:
            inside = item.inside.critical if item.inside is not None else ()
            start = ends[at] - taken
            chain.append(replace(event_of(item, start), seconds=taken, inside=inside))
        at = before[at]
    return total, tuple(reversed(chain))


_DONE = "mesh.done"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The seconds of one device."""

    total: float
    """As the program is written."""
    compute: float
    communication: float
    exposed_communication: float
    """The part of `total` in which the device waits for a collective."""
    overlapped_total: float
    """With collectives beside whatever does not depend on them."""
    critical_path: float
    """The longest chain of ops that need each other: no order of the ops takes less."""
    events: tuple[TimedOp, ...]
    """As the program is written."""
    critical_ops: tuple[TimedOp, ...]
    """The ops of the critical path outside of loops; a loop is one of them."""

    @property
    def hidden_by_overlap(self) -> float:
        """The seconds that overlapping would save."""
        return self.total - self.overlapped_total

    def as_json(self) -> dict[str, object]:
        """All but the events, which `--trace` writes."""
        fields = asdict(self)
        del fields["events"]
        return fields | {"hidden_by_overlap": self.hidden_by_overlap}


def slowest(program: LocalProgram, device_model: DeviceModel) -> tuple[LocalProgram, Schedule]:
    """The program of the position that takes longest, such as a stage, and its schedule.

    Devices at other positions wait for it where they meet. Where one is the slowest here and
    another one there, all together take longer than this.
    """
    found = [(each, schedule_of(each, device_model)) for each in program.by_position()]
    return max(found, key=lambda each: each[1].total)


def schedule_of(program: LocalProgram, device_model: DeviceModel) -> Schedule:
    """The schedule of the program's entry on a device model."""
    timed = TimedOps(program, device_model)
    timeline = _scheduled(list(items_of(program.entry.blocks, timed)))
    network = [each for each in timeline.events if each.bound == "network"]
    others = [each for each in timeline.events if each.bound != "network"]
    return Schedule(
        timeline.total,
        sum(each.seconds for each in others),
        sum(each.seconds for each in network),
        timeline.exposed,
        timeline.overlapped,
        timeline.chain,
        timeline.events,
        timeline.critical,
    )


def items_of(blocks: Sequence[Block], timed: TimedOps) -> Iterator[Item]:
    """The ops of blocks in order, calls inlined, each loop and branch as one item."""
    made: dict[int, tuple[int, ...]] = {}
    count = 0

    def visit(blocks: Sequence[Block], values: dict[int, tuple[int, ...]]) -> Iterator[Item]:
        nonlocal count
        split = {
            each.operands[0].number for block in blocks for each in block.ops if each.name == _DONE
        }
        for op in (each for block in blocks for each in block.ops):
            needs = _needs(op, values)
            if op.callee is not None:
                inner = dict(_passed(op.callee.body.arguments, op.operands, values))
                yield from visit(op.callee.blocks, inner)
                values.update(_passed(op.results, op.callee.returned, inner))
                continue
            inside = _inside(op, timed)
            is_split = any(each.number in split for each in op.results)
            yield Item(op, timed(op), needs, inside, is_split)
            values.update(dict.fromkeys((each.number for each in op.results), (count,)))
            count += 1

    yield from visit(blocks, made)


def _passed(
    names: Iterable[Value], values: Iterable[Value], made: Mapping[int, tuple[int, ...]]
) -> Iterator[tuple[int, tuple[int, ...]]]:
    for name, value in zip(names, values, strict=False):
        yield name.number, made.get(value.number, ())


def _needs(op: Op, made: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The items that make what the op reads, and what ops inside it read."""
    found = {item for value in op.reads for item in made.get(value.number, ())}
    for block in op.blocks:
        for inner in block.ops:
            found.update(_needs(inner, made))
    return tuple(sorted(found))


def _inside(op: Op, timed: TimedOps) -> Timeline | None:
    if not op.blocks:
        return None
    if op.is_loop:
        return _scheduled(list(items_of(op.blocks, timed))).repeated(
            1 if op.trips is None else op.trips
        )
    branches = [_scheduled(list(items_of((block,), timed))) for block in op.blocks]
    return max(branches, key=lambda each: each.total, default=EMPTY)


def _scheduled(items: Sequence[Item]) -> Timeline:
    total, exposed, events = _as_written(items)
    chain, critical = longest_chain(items)
    # An order that is good at each step may be worse than the one that is written.
    beside = max(chain, min(total, overlapped(items)))
    return Timeline(total, exposed, beside, chain, events, critical)


def _as_written(items: Sequence[Item]) -> tuple[float, float, tuple[TimedOp, ...]]:
    now = exposed = network_free = 0.0
    ready: dict[int, float] = {}  # when what a split collective brings is there
    events: list[TimedOp] = []
    for number, item in enumerate(items):
        arrival = max((ready.get(each, 0.0) for each in item.needs), default=0.0)
        if arrival > now:
            exposed += arrival - now
            now = arrival
        if item.inside is not None:
            begin = max(now, network_free) if item.inside.exposed else now
            exposed += begin - now + item.inside.exposed
            events += [replace(each, start=begin + each.start) for each in item.inside.events]
            now = begin + item.inside.total
        elif item.is_collective:
            begin = max(now, network_free)
            network_free = begin + item.time.seconds
            events.append(event_of(item, begin))
            if item.is_split:
                ready[number] = network_free
            else:
                exposed += network_free - now
                now = network_free
        elif item.time.seconds:
            events.append(event_of(item, now))
            now += item.time.seconds
    end = max([now, *ready.values()])
    return end, exposed + end - now, tuple(events)
