"""A device model of the devices at hand: products, copies and messages, timed on all at once.

    measured_model(None, 8)        # eight threads of this process
    measured_model(world, 4)       # the four ranks that a launcher started

Messages go around a ring of all devices of a host, and around one of hosts. A short one gives the
latency, a long one the bandwidth.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from statistics import median

import numpy as np

from shard_dialect.backends.cpu.blas import use_one_thread
from shard_dialect.model import Axes, Grid
from shard_dialect.model.devices.device_model import DeviceModel, NetworkLevel
from shard_dialect.runtime.communicators.group import Group
from shard_dialect.runtime.communicators.perform_collectives import Member
from shard_dialect.runtime.communicators.thread_devices import in_threads
from shard_dialect.runtime.communicators.world import Launched

_REPEATS = 7
_PRODUCT = 512
"""The size of the square matrices that are multiplied."""
_COPIED = 32 << 20
"""The bytes of the array that is copied: more than a core's share of the caches."""
_SHORT, _LONG = 8, 4 << 20
"""The bytes of messages."""
_ELEMENTS = {"f32": np.float32, "f64": np.float64}
_Numbers = dict[str, list[float]]


def measured_model(ranks: Launched | None, devices: int) -> DeviceModel:
    """The model of the ranks that were launched, or else of as many threads.

    All ranks call it together, and get the same model.
    """
    use_one_thread()
    hosts = ranks.share([platform.node()]) if ranks else [platform.node()] * devices
    grid, levels = levels_of(hosts)
    of_devices: list[_Numbers] = []
    if ranks:
        own = json.dumps(_numbers(ranks, grid, [axes for _, axes in levels]))
        of_devices = [json.loads(each) for each in ranks.share([own])]
    else:

        def measure(member: Member, _: object) -> list[object]:
            of_devices.append(_numbers(member, grid, [axes for _, axes in levels]))
            return []

        in_threads(devices, measure)  # type: ignore[arg-type]
    return _model(hosts, levels, of_devices)


def levels_of(hosts: Sequence[str]) -> tuple[Grid, list[tuple[str, Axes]]]:
    """A grid of the devices, and the axes of each level of the network, the innermost first."""
    count, per_host = len(hosts), hosts.count(hosts[0])
    in_order = [name for name in dict.fromkeys(hosts) for _ in range(per_host)] == list(hosts)
    if count == 1:
        return Grid("devices", (1,)), []
    if per_host == count or per_host == 1 or not in_order:
        return Grid("devices", (count,)), [("host" if per_host == count else "network", (0,))]
    grid = Grid("devices", (count // per_host, per_host))
    return grid, [("host", (1,)), ("network", (0,))]


def _numbers(member: Member, grid: Grid, levels: Sequence[Axes]) -> _Numbers:
    """The measurements of one device, while all others measure the same."""
    everyone = member.group(grid, tuple(range(len(grid.shape))))

    def together(work: Callable[[], object]) -> list[float]:
        return [_timed(everyone, work) for _ in range(_REPEATS)]

    numbers: _Numbers = {}
    for element, dtype in _ELEMENTS.items():
        matrix = np.ones((_PRODUCT, _PRODUCT), dtype)
        numbers[element] = together(partial(np.matmul, matrix, matrix))
    source = np.ones(_COPIED, np.uint8)
    target = np.zeros_like(source)
    numbers["memory"] = together(partial(np.copyto, target, source))
    for number, axes in enumerate(levels):
        group = member.group(grid, axes)
        for size in (_SHORT, _LONG):
            message = np.zeros(size, np.uint8)
            into = np.empty_like(message)
            around = ((group.index + 1) % group.size, (group.index - 1) % group.size)
            send = partial(group.permute, message, into, *around)
            numbers[f"{number} {size}"] = together(send)
    return numbers


def _timed(everyone: Group, work: Callable[[], object]) -> float:
    met = np.zeros(everyone.size, np.uint8)
    everyone.all_gather(met[:1].copy(), met)  # all begin together
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def _model(
    hosts: Sequence[str], levels: Sequence[tuple[str, Axes]], of_devices: Sequence[_Numbers]
) -> DeviceModel:
    taken = {key: median(x for each in of_devices for x in each[key]) for key in of_devices[0]}
    network = []
    for number, (name, _) in enumerate(levels):
        short, long = taken[f"{number} {_SHORT}"], taken[f"{number} {_LONG}"]
        is_last = number == len(levels) - 1
        devices = None if is_last else hosts.count(hosts[0])
        network.append(NetworkLevel(name, devices, _LONG / max(long - short, 1e-9), short))
    machine = f"{len(hosts)} devices on {len(set(hosts))} host{'s' if len(set(hosts)) > 1 else ''}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return DeviceModel(
        f"measured: {machine}",
        tuple((each, 2 * _PRODUCT**3 / taken[each]) for each in _ELEMENTS),
        memory // hosts.count(hosts[0]),
        2 * _COPIED / taken["memory"],
        tuple(network),
        (f"shard-report --measure on {date.today().isoformat()}",),
    )
