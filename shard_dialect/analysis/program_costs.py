"""The costs by which programs that differ in their shardings are compared."""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.analysis.costs.local_program import read_program
from shard_dialect.analysis.costs.memory import memory_of
from shard_dialect.analysis.costs.schedule import slowest
from shard_dialect.analysis.reasons.communication import Collective, read_collectives
from shard_dialect.ir.bindings import ir
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.passes.framework.pipeline import run_pipeline


@dataclass(frozen=True)
class Costs:
    """The costs of a program for each device."""

    bytes: int
    peak: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.bytes:,} bytes sent, {self.peak:,} bytes of memory, "
            f"{micro(self.seconds)} microseconds"
        )


def partitioned_costs(
    module: ir.Module, entry: str, device_model: DeviceModel
) -> tuple[Costs, list[Collective]]:
    """Partition an imported module in place; what the function `entry` costs, and its collectives.

    Raises a located `ShardError` if it cannot be partitioned.
    """
    run_pipeline(module, "spmd,canonicalize,cse")
    found = [each for each, _ in read_collectives(module.operation, entry, {}, device_model)]
    moved = sum(each.bytes for each in found)
    program = read_program(module.operation, entry)
    _, schedule = slowest(program, device_model)
    return Costs(moved, memory_of(program).peak, schedule.total), found


def micro(seconds: float) -> str:
    """Microseconds: two digits below one.

    >>> micro(43.21e-6), micro(5.25e-9), micro(0.0)
    ('43.2', '0.0052', '0.0')
    """
    size = abs(seconds)
    return f"{seconds * 1e6:,.1f}" if size >= 1e-6 or not size else f"{seconds * 1e6:.2g}"


def signed_micro(seconds: float) -> str:
    """Microseconds that are added or saved.

    >>> signed_micro(-13.1e-6), signed_micro(0.0)
    ('-13.1', '+0.0')
    """
    return micro(seconds) if seconds < 0 else f"+{micro(seconds)}"
