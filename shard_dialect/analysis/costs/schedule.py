"""The time of one device: when it computes, when it communicates, and when it waits.

    as written     compute  |--a--|        |--b--|--c--|
                   network        |--gather|              b reads what is gathered, c does not

    overlapped     compute  |--a--|--c--|  |--b--|
                   network        |--gather|

All devices do the same at the same time. As written, ops run in the order of the program, and a
device waits for each collective; one that is split into a start and a `mesh.done` runs beside what
is between. Overlapped, a collective starts when its operand is there, and the device goes on with
the next op, in the order of the program, whose operands are there. A loop's body counts as often as
it runs (once where that is not known), and does not overlap with what is around it; of branches,
the longest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from shard_dialect.analysis.costs.local_ops import Block, LocalProgram, Op, Value
from shard_dialect.analysis.costs.overlap import longest_chain, overlapped
from shard_dialect.analysis.costs.timed_ops import TimedOps
from shard_dialect.analysis.costs.timeline import EMPTY, Item, TimedOp, Timeline, event_of
from shard_dialect.model.devices.device_model import DeviceModel

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
        """What overlapping would save."""
        return self.total - self.overlapped_total

    def as_json(self) -> dict[str, object]:
        """All but the events, which `--trace` writes."""
        fields = asdict(self)
        del fields["events"]
        return fields | {"hidden_by_overlap": self.hidden_by_overlap}


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
                ends = op.callee.blocks[-1].ops[-1].operands
                values.update(_passed(op.results, ends, inner))
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
