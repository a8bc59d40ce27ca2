"""Messages from device to device, which all devices send and receive at once.

A device receives the first message that its source has sent it before, as the program is read: of
branches the first one before the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shard_dialect.proof.collectives import on_named
from shard_dialect.proof.machine import Data, Letters, Machine, Value, clipped, runs
from shard_dialect.proof.reading import Op
from shard_dialect.proof.tensors import DYNAMIC


@runs("shard.send")
def _send(m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]) -> Sequence[Value]:
    here = on_named(m, op, op.attributes["grid"])
    value = here.moved(values[0], m)
    to = np.where(_active(here, op), _devices(m, here, op, "destination", values[1:]), -1)
    data = here.spread(value.data, here.grid).reshape((-1, *value.data.shape[here.axes :]))
    m.mail.append(Letters(_channel(op), to, data, value.is_symbolic))
    return [values[0]]


@runs("shard.recv")
def _receive(
    m: Machine, op: Op, values: Sequence[Value], known: dict[int, Value]
) -> Sequence[Value]:
    here = on_named(m, op, op.attributes["grid"])
    waits = _active(here, op)
    if not op.attributes.get("source"):
        raise m.unproven(op, "receives from any device")
    source = _devices(m, here, op, "source", values[1:])
    wild = here.undefined(op.type)
    data = here.spread(wild.data, here.grid).reshape((-1, *op.type.shape)).copy()
    own = np.arange(len(data))
    for letters in m.mail:
        fits = waits & (letters.to[source] == own)
        if letters.channel != _channel(op) or not np.any(fits):
            continue
        if letters.data.shape != data.shape or letters.is_symbolic != wild.is_symbolic:
            raise m.unproven(op, "receives a tensor of another type than was sent")
        data[fits] = letters.data[source[fits]]
        letters.to[source[fits]] = -1
        waits = waits & ~fits
    if np.any(waits):
        raise m.unproven(op, "receives what no device has sent before it")
    return [m.moved(wild.with_data(data.reshape((*here.grid, *op.type.shape))), here)]


def _channel(op: Op) -> tuple[object, ...]:
    return op.attributes["grid"], *op.attributes["grid_axes"]


def _active(here: Machine, op: Op) -> Data:
    """Which devices reach the op."""
    if here.choices:
        raise here.unproven(op, "is in a branch that devices choose by numbers of their own")
    reached = True if here.active is None else here.active
    return np.broadcast_to(np.asarray(reached), here.grid).reshape(-1)


def _devices(m: Machine, here: Machine, op: Op, name: str, computed: Sequence[Value]) -> Data:
    """For each device the number of the one in its group that an attribute and operands name."""
    given = iter(computed)
    places = list(np.indices(here.grid))
    for axis, number in zip(op.attributes["grid_axes"], op.attributes[name], strict=True):
        at = here.integers(here.moved(next(given), m)) if number == DYNAMIC else np.array(number)
        at = np.broadcast_to(at, here.grid)
        last = here.grid[axis] - 1
        if np.any(((at < 0) | (at > last)).reshape(-1) & _active(here, op)):
            raise m.unproven(op, f"names a {name} that is not in the group")
        places[axis] = clipped(at, 0, last)
    return np.ravel_multi_index(places, here.grid).reshape(-1)
