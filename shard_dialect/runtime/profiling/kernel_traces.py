"""Traces that the profilers of JAX and torch make, read from the files that they write."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from shard_dialect.runtime.profiling.recorder import Event

_Result = TypeVar("_Result")


def traced_by_jax(jax: Any, run: Callable[[], _Result]) -> tuple[_Result, list[Event]]:
    """What `run` returns, and the events of JAX's profiler."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        with jax.profiler.trace(folder, create_perfetto_trace=True, profiler_options=options):
            result = run()
        (file,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    return result, _on_our_clock(events, begin)


def traced_by_torch(torch: Any, run: Callable[[], _Result]) -> tuple[_Result, list[Event]]:
    """What `run` returns, and the events of torch's profiler."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile() as profiler:
            result = run()
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return result, _on_our_clock(events, begin)


def _on_our_clock(events: list[dict[str, Any]], begin: float) -> list[Event]:
    """The events with a duration and the names, the first at `begin` of `time.monotonic`."""
    kept = [each for each in events if each.get("ph") in ("X", "M")]
    first = min((each["ts"] for each in kept if each["ph"] == "X"), default=0.0)
    return [
        each | ({"ts": each["ts"] - first + begin * 1e6} if each["ph"] == "X" else {})
        for each in kept
    ]
