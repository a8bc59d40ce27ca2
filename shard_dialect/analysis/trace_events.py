"""Events of traces for https://ui.perfetto.dev, in which each device is a process.

The format is Chrome's trace events, with times in microseconds: complete events (`X`), and names of
processes and threads (`M`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Event = dict[str, Any]
COMPUTE, NETWORK = 0, 1
"""The threads of a device."""


def complete(
    name: str, device: int, thread: int, begin: float, seconds: float, category: str = ""
) -> Event:
    """What a device does for some time, from `begin`, in seconds."""
    kind = {"cat": category} if category else {}
    place = {"ph": "X", "pid": device, "tid": thread}
    return {"name": name} | kind | place | {"ts": begin * 1e6, "dur": seconds * 1e6}


def names(device: int, threads: Sequence[str] = ("compute", "network")) -> Iterator[Event]:
    """The names of a device and of its threads."""
    yield _name("process_name", device, 0, f"device {device}")
    for number, name in enumerate(threads):
        yield _name("thread_name", device, number, name)


def _name(kind: str, device: int, thread: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": device, "tid": thread, "args": {"name": name}}
