"""Traces that the profilers of JAX and torch make, read from the files that they write.

Beside what they recorded of threads, each device has a process of its own, whose number is its
rank: with the kernels that it ran, and with what it ran of collectives.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from shard_dialect.analysis.trace_events import COMPUTE, NETWORK, Event, names

_Result = TypeVar("_Result")


_OP = re.compile(r"^ *(?:ROOT )?%(?P<name>[\w.-]+) = .*? (?P<opcode>[a-z-]+)\(", re.MULTILINE)
_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-broadcast",
    "collective-permute",
    "reduce-scatter",
)


def traced_by_jax(jax: Any, hlo: str, run: Callable[[], _Result]) -> tuple[_Result, list[Event]]:
    """The result of `run`, and the events of JAX's profiler; `hlo` is XLA's text of the program."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0
        with jax.profiler.trace(folder, create_perfetto_trace=True, profiler_options=options):
            result = run()
        (file,) = Path(folder).rglob("perfetto_trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    events = _on_our_clock(_of_threads(events), begin)
    return result, [*_of_devices(events, opcodes_in(hlo)), *events]


def opcodes_in(hlo: str) -> dict[str, str]:
    """The opcodes of the ops in a text of XLA's, by their names.

    >>> opcodes_in("  %sum.1 = f32[4]{0} all-reduce(%x), replica_groups={{0,1}}")
    {'sum.1': 'all-reduce'}
    """
    return {match["name"]: match["opcode"] for match in _OP.finditer(hlo)}


def _of_threads(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, in processes whose numbers are those of no device."""
    return [each | {"pid": _THREADS + each["pid"]} if "pid" in each else each for each in events]


_THREADS = 1 << 32
"""The offset of the numbers of processes: more than there are devices."""


def _of_devices(
    events: list[dict[str, Any]], opcodes: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """The ops that XLA ran on devices, each in the process of its device."""
    ranks = set()
    for each in events:
        args = each.get("args") or {}
        if each["ph"] != "X" or "hlo_op" not in args or "device_ordinal" not in args:
            continue
        rank, name = int(args["device_ordinal"]), args["hlo_op"]
        opcode = opcodes.get(name, "")
        is_collective = opcode.removesuffix("-start").removesuffix("-done") in _COLLECTIVES
        ranks.add(rank)
        yield {
            "name": f"{opcode} {name}" if is_collective else name,
            "cat": f"xla {'collective' if is_collective else 'kernel'}",
            "ph": "X",
            "pid": rank,
            "tid": NETWORK if is_collective else COMPUTE,
            "ts": each["ts"],
            "dur": each["dur"],
            "args": {"opcode": opcode},
        }
    for rank in sorted(ranks):
        yield from names(rank)


def traced_by_torch(
    torch: Any, rank: int, run: Callable[[], _Result]
) -> tuple[_Result, list[Event]]:
    """The result of `run`, and the events of torch's profiler, as those of the device `rank`."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        with torch.profiler.profile() as profiler:
            result = run()
        file = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    kept = [each for each in events if each.get("ph") == "X" or each.get("name") == "thread_name"]
    own = [each | {"pid": rank} for each in kept]
    return result, [*names(rank, ()), *_on_our_clock(own, begin)]


def _on_our_clock(events: list[dict[str, Any]], begin: float) -> list[Event]:
    """The events with a duration and the names, the first at `begin` of `time.monotonic`."""
    kept = [each for each in events if each.get("ph") in ("X", "M")]
    first = min((each["ts"] for each in kept if each["ph"] == "X"), default=0.0)
    return [
        each | ({"ts": each["ts"] - first + begin * 1e6} if each["ph"] == "X" else {})
        for each in kept
    ]
