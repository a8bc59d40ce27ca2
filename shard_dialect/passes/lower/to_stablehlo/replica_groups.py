"""Where a device is, and the groups in which devices communicate, as StableHLO has them.

The devices are the replicas, or the partitions, of one XLA program:

    replicas      stablehlo.replica_id      replica_groups = [[0, 2], [1, 3]]
    partitions    stablehlo.partition_id    the same, with a channel and use_global_device_ids
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.model import Axis, Grid
from shard_dialect.passes.lower.to_stablehlo.stablehlo_builder import (
    constant,
    convert,
    dynamic_slice,
    integer,
    reshape,
    stablehlo_op,
    table,
    tensor,
)

Devices = Literal["replicas", "partitions"]


@dataclass(frozen=True)
class DeviceGroups:
    """The devices of a program, and the channels on which they have communicated so far."""

    devices: Devices
    _channels: count[int] = field(default_factory=lambda: count(1))

    def rank(self) -> ir.Value:
        """This device's rank, an `i64` of rank 0."""
        name = "replica_id" if self.devices == "replicas" else "partition_id"
        bits = tensor((), ir.IntegerType.get_unsigned(32))
        return convert(stablehlo_op(name, bits, []), integer(64))

    def of_rank(self, values: Sequence[int]) -> ir.Value:
        """Of `values`, one for each rank, this device's, an `i64` of rank 0."""
        listed = constant(table(values, [len(values)]))
        return reshape(dynamic_slice(listed, [self.rank()], [1]), [])

    def position(self, grid: Grid, axes: Sequence[Axis]) -> ir.Value:
        """This device's position in its group along `axes`."""
        return self.of_rank([grid.index_along(rank, axes) for rank in range(grid.size)])

    def attributes(self, grid: Grid, axes: Sequence[Axis]) -> dict[str, ir.Attribute]:
        """The attributes of a collective in the groups along `axes`."""
        groups = grid.groups(axes)
        listed = {"replica_groups": table(groups, [len(groups), len(groups[0])])}
        return listed | self.channel()

    def channel(self) -> dict[str, ir.Attribute]:
        """What tells a collective among partitions from one among replicas."""
        if self.devices == "replicas":
            return {}
        number = next(self._channels)
        handle = f"#stablehlo.channel_handle<handle = {number}, type = 1>"
        return {"channel_handle": ir.Attribute.parse(handle)}

    def global_ids(self) -> dict[str, ir.Attribute]:
        """As `channel`, for the kinds of collectives that say it twice."""
        return {} if self.devices == "replicas" else {"use_global_device_ids": ir.UnitAttr.get()}
