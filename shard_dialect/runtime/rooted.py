"""What steps with a root, and shifts, do to arrays: in messages between two members of a group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shard_dialect.model.rooted import Broadcast, Gather, Index, Reduce, RootedStep, Scatter, Shift
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.group import Group


def perform_rooted(
    step: RootedStep, sizes: Sequence[int], group: Group, source: Array, target: Array
) -> None:
    """Do a step in a group of `sizes` along its axes; the result goes to `target`."""
    target[...] = 0
    if isinstance(step, Shift):
        _shift(step, sizes, group, source, target)
        return
    root = _place(step.root, sizes)
    match step:
        case Broadcast():
            _spread(root, group, [source] * group.size, target)
        case Scatter(dim=dim):
            _spread(root, group, np.split(source, group.size, dim), target)
        case Gather(dim=dim):
            for member, into in enumerate(np.split(target, group.size, dim)):
                got = _pass(group, source, member, root)
                if got is not None:
                    into[...] = got
        case Reduce(reduction=reduction):
            target[...] = group.all_reduce(source, reduction)


def _place(index: Index, sizes: Sequence[int]) -> int:
    """The place in the group of the member with an index along each axis."""
    return int(np.ravel_multi_index(index, tuple(sizes))) if index else 0


def _spread(root: int, group: Group, rows: Sequence[Array], target: Array) -> None:
    """The root gives each member its row."""
    for member, row in enumerate(rows):
        got = _pass(group, np.ascontiguousarray(row), root, member)
        if got is not None:
            target[...] = got


def _pass(group: Group, send: Array, origin: int, to: int) -> Array | None:
    """What member `to` gets of member `origin`; nothing elsewhere. All members take part."""
    if origin == to:
        return send if group.index == origin else None
    is_sender, is_receiver = group.index == origin, group.index == to
    return group.permute(send, to if is_sender else None, origin if is_receiver else None)


def _shift(step: Shift, sizes: Sequence[int], group: Group, source: Array, target: Array) -> None:
    here = tuple(int(each) for each in np.unravel_index(group.index, tuple(sizes)))
    to, origin = (step.moved(here, sizes, by) for by in (step.offset, -step.offset))
    places = [None if each is None else _place(each, sizes) for each in (to, origin)]
    got = group.permute(source, *places)
    if got is not None:
        target[...] = got
