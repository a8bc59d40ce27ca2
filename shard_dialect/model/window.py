"""The windows of an op over a dimension, and the elements that each device reads for its windows.

Positions count the dilated dimension with its padding: elements are `base` positions apart, more
than one where the operand is dilated. Windows begin `stride` positions apart and span `extent`
positions. The first begins `low` positions before the first element.

    windows of 3, moved by 1, padded by 1     stride 1, reach 3, low 1
    slice [2:10:4]                            stride 4, reach 1, low -2
    padded in front by 5                      stride 1, reach 1, low 5

The devices have equal shards of the dimension, and equal numbers of windows, but the windows of a
device need not begin where its shard does. For 10 elements and 8 windows of 3 on two devices

    elements     0 1 2 3 4 | 5 6 7 8 9
    windows      0-2 ... 3-5 | 4-6 ... 7-9      the first reads 0 to 5, the second 4 to 9

each device needs a halo of [1, 1]. The first reads 6 elements from index 1 of its shard with halo,
the second 6 elements from index 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from shard_dialect.model.sharding import Reduction

MOST_SHARDS = 1 << 20
"""The most shards of a dimension with windows: `Reading.begins` has an entry for each device."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What each device reads of its shard with halo: `count` elements from index `begins[i]` on.

    `halo` is how many elements a device holds before and after its shard. The first window of a
    device begins `lead` positions before the first element read, and the last ends `trail`
    positions after the last element read.
    """

    halo: tuple[int, int]
    count: int
    begins: tuple[int, ...]
    lead: int
    trail: int


@dataclass(frozen=True)
class Windows:
    """Windows over a dimension of `size` elements, one for each of `count` indices of a result.

    Positions without an element have the identity of the reduction `fill`. `fill` is `None` where
    no window reads such positions, or the op does not use what it reads there.
    """

    size: int
    count: int
    stride: int
    extent: int
    low: int
    base: int = 1
    fill: Reduction | None = None

    @cached_property
    def stay_in_bounds(self) -> bool:
        """Whether every position that is read is between the first and the last element."""
        end = (self.count - 1) * self.stride - self.low + self.extent
        return self.low <= 0 and end <= (self.size - 1) * self.base + 1

    def reading(self, devices: int) -> Reading | None:
        """What each of `devices` devices reads.

        `None` if they would need different `count`, `lead` or `trail`, read nothing, or are more
        than `MOST_SHARDS`.
        """
        return _reading(self, devices)


@lru_cache(maxsize=256)
def _reading(over: Windows, devices: int) -> Reading | None:
    windows, shard = -(-over.count // devices), -(-over.size // devices)
    if windows * over.stride % over.base or not shard or devices > MOST_SHARDS:
        return None
    positions = (windows - 1) * over.stride + over.extent
    starts = [device * windows * over.stride - over.low for device in range(devices)]
    firsts = [-(-start // over.base) for start in starts]
    count = (starts[0] + positions - 1) // over.base + 1 - firsts[0]
    if count < 1:
        return None
    reads = [
        (device, first)
        for device, first in enumerate(firsts)
        if device * windows < over.count
        and (over.fill is not None or (first < over.size and first + count > 0))
    ]
    low = max([0, *(device * shard - first for device, first in reads)])
    high = max([0, *(first + count - (device + 1) * shard for device, first in reads)])
    held = low + shard + high
    begins = tuple(
        min(max(low + first - device * shard, 0), held - count)
        for device, first in enumerate(firsts)
    )
    lead = firsts[0] * over.base - starts[0]
    trail = positions - lead - (count - 1) * over.base - 1
    return Reading((low, high), count, begins, lead, trail)
