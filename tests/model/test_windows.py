"""Devices get the elements that their windows read: in halos, or in boxes of other shards."""

import random
from collections import Counter

import pytest

from shard_dialect.model import Windows
from shard_dialect.model.windows import Reading


def _drawn(rng: random.Random) -> tuple[Windows, int]:
    """Windows that slice, pad, reverse, dilate or pool, and the number of devices."""
    devices, size, base = rng.choice([2, 3, 4, 8]), rng.randint(2, 40), rng.choice([1, 1, 2, 3])
    positions, low, high = (size - 1) * base + 1, rng.randint(-12, 12), rng.randint(-12, 12)
    stride, extent = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 2, 3])
    if rng.random() < 0.2:
        return Windows(size, size, -1, 1, 1 - size), devices
    count = (positions + low + high - extent) // stride + 1
    return Windows(size, max(count, 1), stride, extent, low, base, "sum"), devices


def _needed(over: Windows, device: int, devices: int) -> set[int]:
    """The elements that the windows of a device read."""
    share = -(-over.count // devices)
    windows = range(device * share, min((device + 1) * share, over.count))
    read = {over.position(each) + further for each in windows for further in range(over.extent)}
    return {at // over.base for at in read if at % over.base == 0} & set(range(over.size))


def _held(over: Windows, reading: Reading, device: int, devices: int) -> dict[int, int | None]:
    """The element at each place of what a device reads; `None` outside of the tensor."""
    shard = -(-over.size // devices)
    if not reading.rounds:
        first = device * shard - sum((reading.halo[0], reading.outside[0])) + reading.begins[device]
        return {place: first + place for place in range(reading.count)}
    held: dict[int, int | None] = dict.fromkeys(range(reading.count))
    for each in reading.rounds:
        for box in each.boxes:
            assert 0 <= box.taken_at <= shard - each.size
            for further in range(each.size if box.receiver == device else 0):
                place = box.put_at + further
                if place in held:
                    element = box.sender * shard + box.taken_at + further
                    assert held[place] in (None, element), "boxes that overlap are alike"
                    held[place] = element
    return held


@pytest.mark.parametrize("seed", range(300))
def test_devices_get_what_they_read(seed: int) -> None:
    over, devices = _drawn(random.Random(seed))
    reading = over.reading(devices)
    if reading is None:
        return
    share = -(-over.count // devices)
    for device in range(-(-over.count // share)):  # those that have windows
        held = _held(over, reading, device, devices)
        assert _needed(over, device, devices) <= set(held.values()), (over, devices, device)
        # The element at each place is the one that the windows take to be there.
        first = min(map(over.position, (device * share, (device + 1) * share - 1)))
        first -= (reading.skips or (0,) * devices)[device]
        for place, element in held.items():
            if element in range(over.size):
                assert element * over.base == first + reading.lead + place * over.base


@pytest.mark.parametrize("seed", range(300))
def test_rounds_send_less_than_halos(seed: int) -> None:
    over, devices = _drawn(random.Random(seed))
    reading, shard = over.reading(devices), -(-over.size // devices)
    if reading is None or not reading.rounds:
        return
    lacking = [
        {each for each in _needed(over, device, devices) if each // shard != device}
        for device in range(devices)
    ]
    messages = [each for each in reading.rounds if not each.stays]
    assert reading.halo == (0, 0)
    assert reading.sent == sum(each.size for each in messages) >= max(map(len, lacking))
    for each in messages:
        sent = Counter(box.sender for box in each.boxes)
        received = Counter(box.receiver for box in each.boxes)
        assert {*sent.values(), *received.values()} == {1}
        assert all(box.sender != box.receiver for box in each.boxes)


def test_halves_of_a_tensor_move_in_two_rounds() -> None:
    """Each device has halves of two shards of the slice, where a halo would reach over four."""
    reading = Windows(64, 32, 1, 1, 0).reading(8)
    assert reading is not None
    assert (reading.sent, reading.halo, reading.count) == (8, (0, 0), 4)
    near = Windows(64, 64, 1, 3, 1, fill="sum").reading(8)
    assert near is not None
    assert (near.halo, near.rounds) == ((1, 1), ())
