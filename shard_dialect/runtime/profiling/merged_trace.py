"""The trace of a run from what each of its processes recorded."""

from __future__ import annotations

import json
import platform
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from shard_dialect.analysis.trace_events import names
from shard_dialect.runtime.communicators.world import Runnable, Shards, World
from shard_dialect.runtime.profiling.recorder import COLLECTIVE, COMPUTE


def profiled(world: World, executable: Runnable, inputs: Sequence[Shards]) -> dict[str, Any]:
    """Run once more, and return the trace of all devices in the process of rank 0, `{}` elsewhere.

    The run before has warmed up groups, caches and connections, which are slow once.
    """
    world.share(())  # all begin together
    clock = f"{platform.node()} {time.monotonic()}"
    _, events = world.profile(executable, inputs)
    host, _, now = clock.rpartition(" ")
    shared = world.share([json.dumps({"host": host, "now": float(now), "events": events})])
    return merged([json.loads(each) for each in shared]) if world.speaks else {}


def merged(processes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The trace of processes, each with its `host`, its events, and the time when all began.

    Processes of one host have one clock. Clocks of several hosts are set by when all began.
    """
    begins: dict[str, float] = {}
    for each in processes:
        begins.setdefault(each["host"], each["now"] * 1e6)
    events = [
        event | ({"ts": event["ts"] - begins[each["host"]]} if "ts" in event else {})
        for each in processes
        for event in each["events"]
    ]
    first = min((each["ts"] for each in events if "ts" in each), default=0.0)
    events = [each | ({"ts": each["ts"] - first} if "ts" in each else {}) for each in events]
    _add_waiting(events)
    ranks = {event["pid"] for event in events if event.get("cat") == COMPUTE}
    named = [each for rank in sorted(ranks) for each in names(rank)]
    return {"traceEvents": [*named, *events], "displayTimeUnit": "ns"}


def _add_waiting(events: Sequence[dict[str, Any]]) -> None:
    """Add to each collective how long the device waited for the last one of its group to come."""
    met: dict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
    turns: dict[tuple[object, ...], int] = defaultdict(int)
    collectives = [each for each in events if each.get("cat") == COLLECTIVE]
    for event in sorted(collectives, key=lambda each: each["ts"]):
        group = tuple(event["args"]["devices"])
        if event["args"].pop("together"):
            turn = turns[group, event["pid"]]
            turns[group, event["pid"]] += 1
            met[group, turn].append(event)
    for members in met.values():
        last = max(each["ts"] for each in members)
        for each in members:
            each["args"]["waiting"] = min(last - each["ts"], each["dur"])
