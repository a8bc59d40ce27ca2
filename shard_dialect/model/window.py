"""How an op's windows go over a dimension, and what of it each device reads for its own.

Windows begin `stride` places apart, the first one `low` places in front of the dimension, and each
has `reach` places. Elements are `base` places apart: of a dilated operand by more than one.

    windows of 3, moved by 1, padded by 1     stride 1, reach 3, low 1
    slice [2:10:4]                            stride 4, reach 1, low -2
    padded in front by 5                      stride 1, reach 1, low 5

The devices have equal shards of the dimension, and equal numbers of windows, but these need not
begin where the shards do: of 10 elements and 8 windows of 3 on two devices

    elements     0 1 2 3 4 | 5 6 7 8 9
    windows      0-2 ... 3-5 | 4-6 ... 7-9      the first reads 0 to 5, the second 4 to 9

so that each needs a halo of [1, 1], and reads 6 elements from the first or the second one on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from shard_dialect.model.sharding import Reduction

MOST_SHARDS = 1 << 20
"""That a dimension is cut in where each device is told apart: what differs is listed for all."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What devices read of what they hold: `taken` elements, each from its own of `begins` on.

    They hold `halo` elements before and after their shards. In terms of places the first window of
    a device begins `lead` before the first of these, and the last ends `trail` behind the last.
    """

    halo: tuple[int, int]
    taken: int
    begins: tuple[int, ...]
    lead: int
    trail: int


@dataclass(frozen=True)
class Windows:
    """Of a dimension of `size` elements, one for each of `made` indices of a result.

    Where there are no elements they find what the reduction `fill` leaves alone; `None` where they
    read none there, or nobody uses what they find.
    """

    size: int
    made: int
    stride: int
    reach: int
    low: int
    base: int = 1
    fill: Reduction | None = None

    @cached_property
    def stay_inside(self) -> bool:
        """Whether every place that is read is between the first and the last element."""
        end = (self.made - 1) * self.stride - self.low + self.reach
        return self.low <= 0 and end <= (self.size - 1) * self.base + 1

    def reading(self, devices: int) -> Reading | None:
        """`None` where devices would have to read in different ways."""
        return _reading(self, devices)


@lru_cache(maxsize=256)
def _reading(over: Windows, devices: int) -> Reading | None:
    windows, shard = -(-over.made // devices), -(-over.size // devices)
    if windows * over.stride % over.base or not shard or devices > MOST_SHARDS:
        return None
    places = (windows - 1) * over.stride + over.reach
    starts = [device * windows * over.stride - over.low for device in range(devices)]
    firsts = [-(-start // over.base) for start in starts]
    taken = (starts[0] + places - 1) // over.base + 1 - firsts[0]
    if taken < 1:
        return None
    reads = [
        (device, first)
        for device, first in enumerate(firsts)
        if device * windows < over.made
        and (over.fill is not None or (first < over.size and first + taken > 0))
    ]
    low = max([0, *(device * shard - first for device, first in reads)])
    high = max([0, *(first + taken - (device + 1) * shard for device, first in reads)])
    held = low + shard + high
    begins = tuple(
        min(max(low + first - device * shard, 0), held - taken)
        for device, first in enumerate(firsts)
    )
    lead = firsts[0] * over.base - starts[0]
    trail = places - lead - (taken - 1) * over.base - 1
    return Reading((low, high), taken, begins, lead, trail)
