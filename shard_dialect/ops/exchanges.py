"""Exchanges along a dimension: each device gets the elements that it reads, in rounds of boxes.

    rounds: keep [0:3]; device 1 sends its first element to device 0, which puts it at 3
      becomes, on all devices
    %whole = zeros, with room behind what is read
    %kept = extract %x[0] [3]                 %0 = insert %kept into %whole[0]
    %sent = extract %x[0] [1]
    %got = "mesh.collective_permute"(%sent) {permutation = [-1, 0]}
    %1 = insert %got into %0[%at]             at 3, or in the room
    %read = extract %1[0] [4]

Windows get so what they read (`ops.window_shards`).
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.collectives import NOBODY
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.reductions import identity_tensor
from shard_dialect.model import Reduction
from shard_dialect.model.windows import Round
from shard_dialect.ops.partitioned_op import Shard


def exchanged(
    value: ir.Value,
    shard: Shard,
    dim: int,
    rounds: Sequence[Round],
    count: int,
    *,
    fill: Reduction = "sum",
) -> ir.Value:
    """The `count` elements of dimension `dim` that this device reads, from the shards `value`.

    A box may begin before what is read, or end after it, and a device that gets none puts what it
    has in its place behind all, so there is room on both sides. Where boxes overlap, the later one
    holds. What no box has is the identity of `fill`.
    """
    devices = shard.devices[dim]
    first = max((-box.put_at for each in rounds for box in each.boxes), default=0)
    first, room = max(first, 0), max((each.size for each in rounds), default=0)
    shape = list(value.type.shape)
    shape[dim] = first + count + room
    whole = identity_tensor(fill, build.resized(value.type, shape))
    for each in rounds:
        taken, put, to = [0] * devices, [first + count] * devices, [NOBODY] * devices
        for box in each.boxes:
            taken[box.sender], to[box.sender] = box.taken_at, box.receiver
            put[box.receiver] = first + box.put_at
        sent = build.extract_slice(value, shard.index(dim, taken), each.size, dim)
        moved = sent if each.stays else shard.permuted(dim, to, sent)
        if len(rounds) == 1 and each.size == count and set(put) == {first}:
            return moved  # it is all that is read
        whole = build.insert_slice_at(whole, moved, dim, shard.index(dim, put))
    return build.extract_slice(whole, first, count, dim)
