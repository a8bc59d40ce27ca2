"""The times that a run measured, from the trace of `run --profile`, beside the modelled ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.errors import ShardError, cannot

_Key = tuple[str, tuple[str, ...], str, str]


@dataclass(frozen=True)
class MeasuredCollective:
    """One collective, in the median of devices, all its times together; seconds."""

    seconds: float
    """From when the last device of its group has come."""
    waiting: float
    """How long a device waits for the last one to come."""


@dataclass(frozen=True)
class Measurement:
    """One run of the program, in the median of its devices; seconds."""

    total: float
    computing: float
    waiting: float
    """For collectives, whether they run or others have not come."""
    collectives: tuple[MeasuredCollective | None, ...]
    """Those of the report, in its order; `None` for one that did not run, as in a branch."""

    def as_json(self) -> dict[str, object]:
        """The fields of the JSON report but for collectives, which have their own."""
        fields = asdict(self)
        del fields["collectives"]
        return fields


def read_measurement(path: str, collectives: Sequence[Collective]) -> Measurement:
    """Read the trace of a run of the program that has these collectives. Raises `ShardError`."""
    of_device: dict[object, list[dict[str, Any]]] = defaultdict(list)
    for event in _events(path):
        if event.get("cat") in ("collective", "compute", "wait"):
            of_device[event["pid"]].append(event)
    if not of_device:
        raise ShardError(
            f"'{path}' has no run of ours: write it by shard-run --profile, by any backend but xla "
            "and without --compiler=torch, whose own profilers say what they did"
        )
    ends = [max(each["ts"] + each["dur"] for each in events) for events in of_device.values()]
    begins = [min(each["ts"] for each in events) for events in of_device.values()]
    return Measurement(
        1e-6 * median(end - begin for begin, end in zip(begins, ends, strict=True)),
        _median_sum(of_device, "compute"),
        _median_sum(of_device, "wait"),
        _matched(path, of_device, collectives),
    )


def _events(path: str) -> list[dict[str, Any]]:
    try:
        events = json.loads(Path(path).read_text())["traceEvents"]
    except OSError as error:
        raise cannot("read", path, error) from None
    except (ValueError, KeyError, TypeError):
        raise ShardError(f"'{path}' is no trace: write it by shard-run --profile") from None
    return [each for each in events if isinstance(each, dict)]


def _median_sum(of_device: Mapping[object, Sequence[Mapping[str, Any]]], category: str) -> float:
    sums = [
        sum(each["dur"] for each in events if each["cat"] == category)
        for events in of_device.values()
    ]
    return 1e-6 * median(sums)


def _matched(
    path: str,
    of_device: Mapping[object, Sequence[Mapping[str, Any]]],
    collectives: Sequence[Collective],
) -> tuple[MeasuredCollective | None, ...]:
    """By position where all devices ran each collective once; else by kind, bytes and groups."""
    ran = {
        device: sorted(
            (each for each in events if each["cat"] == "collective"), key=lambda each: each["ts"]
        )
        for device, events in of_device.items()
    }
    expected = [_key(each) for each in collectives]
    in_order = all([_event_key(each) for each in events] == expected for events in ran.values())
    found: dict[object, list[Mapping[str, Any]]] = defaultdict(list)
    for events in ran.values():
        for number, event in enumerate(events):
            found[number if in_order else _event_key(event)].append(event)
    foreign = {_event_key(each) for events in ran.values() for each in events} - set(expected)
    if foreign:
        kind, axes, operand, _ = min(foreign)
        raise ShardError(
            f"'{path}' is the trace of another program: it has {kind} of {operand} along "
            f"{', '.join(axes)}"
        )
    return tuple(
        _measured(found[number if in_order else _key(each)], each.times)
        for number, each in enumerate(collectives)
    )


def _measured(samples: Sequence[Mapping[str, Any]], times: int) -> MeasuredCollective | None:
    if not samples:
        return None
    waits = [each["args"].get("waiting", 0.0) for each in samples]
    took = [each["dur"] - wait for each, wait in zip(samples, waits, strict=True)]
    return MeasuredCollective(1e-6 * median(took) * times, 1e-6 * median(waits) * times)


def _key(collective: Collective) -> _Key:
    return collective.kind, collective.axes, collective.operand, collective.result


def _event_key(event: Mapping[str, Any]) -> _Key:
    args = event["args"]
    return event["name"], tuple(args["axes"]), args["operand"], args["result"]
