"""The schedule as a trace for https://ui.perfetto.dev: one process a device, ops and memory on it.

Beside the events of `trace_events` it has counters (`C`).
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.analysis.costs.memory import Moment, memory_of
from shard_dialect.analysis.costs.schedule import TimedOp, slowest
from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.analysis.trace_events import COMPUTE, NETWORK, Event, complete, names

MOST_DEVICES = 16
"""Devices all do the same: of a larger grid, the trace has the first ones."""


def trace_of(report: ProgramReport) -> dict[str, object]:
    """The trace as a value for `json`, of the modelled schedule of up to 16 devices.

    Each is shown as one of the stage that takes longest.
    """
    shown, moments = min(report.devices, MOST_DEVICES), moments_of(report)
    events = [event for device in range(shown) for event in _device(device, report, moments)]
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "entry": report.entry,
            "device_model": report.device_model,
            "devices": report.devices,
            "devices_shown": shown,
        },
    }


def moments_of(report: ProgramReport) -> tuple[Moment, ...]:
    """The memory over time of the devices of which the schedule is."""
    if report.program is None or len(report.program.by_position()) == 1:
        return report.memory.timeline
    own, _ = slowest(report.program, report.prices)
    return memory_of(own).timeline


def _device(device: int, report: ProgramReport, moments: tuple[Moment, ...]) -> Iterator[Event]:
    yield from names(device)
    for event in report.schedule.events:
        thread = NETWORK if event.bound == "network" else COMPUTE
        args = {
            "result": event.result,
            "location": event.location,
            "bound": event.bound,
            "times": event.times,
            "flops": event.flops,
            "bytes": event.bytes,
        }
        yield complete(event.name, device, thread, event.start, event.seconds) | {"args": args}
    for start, live in live_bytes(report.schedule.events, moments):
        memory = {"name": "memory", "ph": "C", "pid": device, "ts": start * 1e6}
        yield memory | {"args": {"bytes": live}}


def live_bytes(
    events: tuple[TimedOp, ...], moments: tuple[Moment, ...]
) -> Iterator[tuple[float, int]]:
    """The time of each event, and the most bytes that are live from the event before it to it.

    Both are in the order of the program; events are fewer, since ops without work have none.
    """
    at = 0
    for event in events:
        same = (
            number
            for number in range(at, len(moments))
            if (moments[number].op, moments[number].location) == (event.name, event.location)
        )
        found = next(same, None)
        if found is not None:
            yield event.start, max(each.bytes for each in moments[at : found + 1])
            at = found + 1
