"""Windows of an op over a dimension, and what each device reads where the dimension is split.

A window is a range of operand elements that one element of the result reads. Positions count the
dilated dimension with its padding: elements are `base` positions apart, more than one where the
operand is dilated. Windows begin `stride` positions apart and span `extent` positions. The first
begins `low` positions before the first element.

    windows of 3, moved by 1, padded by 1     stride 1, reach 3, low 1
    slice [2:10:4]                            stride 4, reach 1, low -2
    reversed, of 8 elements                   stride -1, reach 1, low -7
    padded in front by 5                      stride 1, reach 1, low 5

The devices have equal shards of the dimension, and equal numbers of windows, but the windows of a
device need not begin where its shard does. For 10 elements and 8 windows of 3 on two devices

    elements     0 1 2 3 4 | 5 6 7 8 9
    windows      0-2 ... 3-5 | 4-6 ... 7-9      the first reads 0 to 5, the second 4 to 9

each device needs a halo of [1, 1]. The first reads 6 elements from index 1 of its shard with halo,
the second 6 elements from index 0.

Where the windows of a device begin far from its shard, halos would reach over several devices. Then
devices exchange what they read instead, in rounds in which each sends one box at most:

    slice [0:32] of 64 elements on 8 devices of 8     a halo of 28 elements: 4 shards
                                                      or 2 rounds of 4 elements: device 0 sends its
                                                      second half to device 1, and so on
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from shard_dialect.model.message_rounds import in_rounds
from shard_dialect.model.sharding import Reduction

MOST_SHARDS = 1 << 16
"""The most devices along a dimension that a program tells apart by a list with a number for each.

A program of two such lists is 2 MB of text at most. `Reading.begins` is one.
"""


@dataclass(frozen=True, slots=True)
class Box:
    """Elements that a device sends to another, or keeps: where they are in its shard, and there.

    `put_at` is from the first element that the receiver reads on; a box may begin before that, and
    end after the last one.
    """

    sender: int
    receiver: int
    taken_at: int
    put_at: int


@dataclass(frozen=True, slots=True)
class Round:
    """Boxes of `size` elements, at most one from each device and one to each."""

    size: int
    boxes: tuple[Box, ...]

    @property
    def stays(self) -> bool:
        """Whether each device keeps what it has: then nothing is sent."""
        return all(each.sender == each.receiver for each in self.boxes)


@dataclass(frozen=True, slots=True)
class Reading:
    """The range of its shard with halo that device i reads: `count` elements from `begins[i]` on.

    `halo` is how many elements of others a device holds before and after its shard. Windows may
    read further, outside of the tensor: by `outside`, before and after. The first window of a
    device begins `lead` positions before the first element read, and the last ends `trail`
    positions after the last element read.

    Where elements are several positions apart, devices may begin at other distances from their
    first element. Windows that follow on each other are then computed from before their first one
    on, and device i skips the first `skips[i]` results.

    Where there are `rounds`, devices have no halos, and put the elements that they read together
    from the boxes that they get. The elements are in the tensor from `firsts[i]` on.
    """

    halo: tuple[int, int]
    outside: tuple[int, int]
    count: int
    begins: tuple[int, ...]
    lead: int
    trail: int
    skips: tuple[int, ...] = ()
    rounds: tuple[Round, ...] = ()
    firsts: tuple[int, ...] = ()

    @property
    def sent(self) -> int:
        """The most elements along the dimension that a device sends."""
        return sum(self.halo) + sum(each.size for each in self.rounds if not each.stays)


@dataclass(frozen=True)
class Windows:
    """Windows over a dimension of `size` elements, one for each of `count` indices of a result.

    Positions without an element have the identity of the reduction `fill`. `fill` is `None` where
    no window reads such positions, or the op does not use what it reads there. All devices begin at
    the same distance from a multiple of `period`, as they do from an element where these are `base`
    positions apart.
    """

    size: int
    count: int
    stride: int
    extent: int
    low: int
    base: int = 1
    fill: Reduction | None = None
    period: int = 1

    def position(self, index: int) -> int:
        """The position at which a window begins."""
        return index * self.stride - self.low

    @cached_property
    def stay_in_bounds(self) -> bool:
        """Whether no position that is read is where an element before or after all would be.

        Other positions between such places, as those of a dilation, each device has of its own.
        """
        ends = self.position(0), self.position(self.count - 1)
        return min(ends) > -self.base and max(ends) + self.extent <= self.size * self.base

    def reading(self, devices: int) -> Reading | None:
        """The ranges that each of `devices` devices reads.

        `None` if they would need different `count`, `lead` or `trail`, read nothing, or are more
        than `MOST_SHARDS`.
        """
        return _reading(self, devices)


@lru_cache(maxsize=256)
def _reading(over: Windows, devices: int) -> Reading | None:
    windows, shard = -(-over.count // devices), -(-over.size // devices)
    period = math.lcm(over.base, over.period)
    is_aligned = windows * over.stride % period == 0
    if not (is_aligned or over.stride == 1) or not shard or devices > MOST_SHARDS:
        return None
    starts = [
        min(map(over.position, (device * windows, (device + 1) * windows - 1)))
        for device in range(devices)
    ]
    skips = () if is_aligned else _skips(starts, period)
    starts = [start - skip for start, skip in zip(starts, skips or [0] * devices, strict=True)]
    positions = (windows + max(skips, default=0) - 1) * abs(over.stride) + over.extent
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
    # What is outside of the tensor nobody has to send. Padded in front by 100, on 4 devices of 32
    # elements, device 2 reads 28 to 92 and none reads further back: a halo of 36 instead of 100.
    inside = [
        (device, max(first, 0), min(first + count, over.size))
        for device, first in reads
        if first < over.size and first + count > 0
    ]
    halo_low = max([0, *(device * shard - first for device, first, _ in inside)])
    halo_high = max([0, *(end - (device + 1) * shard for device, _, end in inside)])
    lead = firsts[0] * over.base - starts[0]
    trail = positions - lead - (count - 1) * over.base - 1
    # Of two devices each has one neighbour, and sends one of the two halos.
    most = halo_low + halo_high if devices > 2 else max(halo_low, halo_high)
    is_wide = max(halo_low, halo_high) > shard
    rounds = _rounds(over, firsts, devices, most, or_equal=is_wide)
    if rounds:
        whole = (0,) * devices
        return Reading((0, 0), (0, 0), count, whole, lead, trail, skips, rounds, tuple(firsts))
    held = low + shard + high
    begins = tuple(
        min(max(low + first - device * shard, 0), held - count)
        for device, first in enumerate(firsts)
    )
    outside = low - halo_low, high - halo_high
    return Reading((halo_low, halo_high), outside, count, begins, lead, trail, skips)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements from `begin` to `end` of the tensor, which the receiver reads."""

    sender: int
    receiver: int
    begin: int
    end: int


def _rounds(
    over: Windows, firsts: Sequence[int], devices: int, less_than: int, *, or_equal: bool
) -> tuple[Round, ...]:
    """The rounds in which devices get what they read; () if they send as much as `less_than`.

    They may send as much where no device reads its own shard, as in a reversal: halos would hold
    that, too. So they may with `or_equal` if some device receives nothing: it is free for another
    tensor, with which rounds may be shared.
    """
    if not less_than:
        return ()
    shard = -(-over.size // devices)
    pieces = list(_pieces(over, devices))
    lacking: dict[int, int] = {}
    for each in pieces:
        if each.sender != each.receiver:
            lacking[each.receiver] = lacking.get(each.receiver, 0) + each.end - each.begin
    kept = [each for each in pieces if each.sender == each.receiver]
    less_than += not kept or (or_equal and len(lacking) < devices)
    if max(lacking.values(), default=0) >= less_than:  # rounds never send less than that
        return ()
    moved = in_rounds([each for each in pieces if each.sender != each.receiver])
    rounds = []
    for together in (kept, *moved) if kept else moved:
        # All boxes of a round are as large as the largest. What a smaller one has beside its piece
        # are elements of the same shard, which come to their own places, too, or to none.
        size = max(each.end - each.begin for each in together)
        boxes = []
        for each in together:
            first = each.sender * shard
            begin = min(each.begin, first + shard - size)
            boxes.append(
                Box(each.sender, each.receiver, begin - first, begin - firsts[each.receiver])
            )
        rounds.append(Round(size, tuple(boxes)))
    sent = sum(each.size for each in rounds if not each.stays)
    return tuple(rounds) if sent < less_than else ()


def _pieces(over: Windows, devices: int) -> Iterator[_Piece]:
    """What each device reads of each shard."""
    windows, shard = -(-over.count // devices), -(-over.size // devices)
    for device in range(devices):
        last = min((device + 1) * windows, over.count) - 1
        if device * windows > last:
            return
        starts = sorted(map(over.position, (device * windows, last)))
        begin = max(-(-starts[0] // over.base), 0)
        end = min(-(-(starts[1] + over.extent) // over.base), over.size)
        for sender in range(begin // shard, -(-end // shard)) if begin < end else ():
            first = sender * shard
            yield _Piece(sender, device, max(begin, first), min(end, first + shard))


def _skips(starts: Sequence[int], period: int) -> tuple[int, ...]:
    """How far before its start each device begins, so that all are as far before a multiple.

    >>> _skips([-4, 1, 6, 11], 3)
    (0, 2, 1, 0)
    """
    leads = [-start % period for start in starts]
    choices = [tuple((lead - each) % period for each in leads) for lead in range(period)]
    return min(choices, key=lambda skips: (max(skips), sum(skips)))
