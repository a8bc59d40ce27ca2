"""What each step of a plan does to arrays, in terms of four exchanges that a group offers.

A step packs its operand into one row for each member of the group, the group exchanges rows, and
the step unpacks what came. Devices differ in the exchange only: threads, MPI, torch.distributed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from shard_dialect.errors import ShardError
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Axes,
    Grid,
    Mask,
    Permute,
    ReduceScatter,
    Reduction,
    Step,
    UpdateHalo,
)
from shard_dialect.model.rooted import RootedStep
from shard_dialect.runtime.arrays import Array
from shard_dialect.runtime.group import Group
from shard_dialect.runtime.lowered import Site
from shard_dialect.runtime.rooted import perform_rooted

REDUCE: dict[Reduction, Callable[[Array], Array]] = {
    "sum": lambda rows: rows.sum(axis=0, dtype=rows.dtype),
    "product": lambda rows: rows.prod(axis=0, dtype=rows.dtype),
    "max": lambda rows: rows.max(axis=0),
    "min": lambda rows: rows.min(axis=0),
    "average": lambda rows: rows.mean(axis=0, dtype=rows.dtype),
    "bitwise_and": lambda rows: np.bitwise_and.reduce(rows, axis=0),
    "bitwise_or": lambda rows: np.bitwise_or.reduce(rows, axis=0),
    "bitwise_xor": lambda rows: np.bitwise_xor.reduce(rows, axis=0),
}
"""For each reduction what joins the rows of an array into one."""


class Member(ABC):
    """One device, and the groups that it has talked in so far.

    What is started is done by a thread of its own, in the order of the program; all devices run the
    same program, so they meet in the same order.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._groups: dict[tuple[Grid, Axes], Group] = {}
        self._speaker: ThreadPoolExecutor | None = None
        self._started: dict[int, Future[None]] = {}

    def perform(self, site: Site, source: Array, target: Array) -> None:
        """Answer the compiled code: do `site`'s step with this device's group, or a phase of it."""
        where = target.ctypes.data
        if site.phase == "done":
            if where in self._started:
                self._started.pop(where).result()
        elif site.phase == "start":
            # The code may write to what it gave as soon as it goes on.
            self._started[where] = self._speak(site, source.copy(), target)
        elif self._speaker is not None:
            self._speak(site, source, target).result()
        else:
            self._perform(site, source, target)

    def rest(self) -> None:
        """At the end of a run: wait for what was started, and let the thread go."""
        if self._speaker is not None:
            self._speaker.shutdown()
            self._speaker = None

    def _speak(self, site: Site, source: Array, target: Array) -> Future[None]:
        if self._speaker is None:
            self._speaker = ThreadPoolExecutor(1, f"device {self.rank}")
        return self._speaker.submit(self._perform, site, source, target)

    def _perform(self, site: Site, source: Array, target: Array) -> None:
        key = (site.grid, site.step.axes)
        if key not in self._groups:
            self._groups[key] = self.join(*key)
        if isinstance(site.step, RootedStep):
            sizes = [site.grid.axes_size((axis,)) for axis in site.step.axes]
            perform_rooted(site.step, sizes, self._groups[key], source, target)
        else:
            perform(site.step, self._groups[key], source, target)

    @abstractmethod
    def join(self, grid: Grid, axes: Axes) -> Group:
        """This device's group along `axes`; all devices of `grid` join theirs at the same time."""


def perform(step: Step, group: Group, source: Array, target: Array) -> None:
    """Do one step on this device's piece `source`; the result goes to `target`."""
    match step:
        case AllSlice(dim=dim):
            target[...] = _rows(source, dim, group.size)[group.index]
        case AllGather(dim=dim):
            np.concatenate(group.all_gather(source), axis=dim, out=target)
        case AllReduce(reduction=reduction):
            target[...] = group.all_reduce(source, reduction)
        case ReduceScatter(dim=dim, reduction=reduction):
            rows = np.ascontiguousarray(_rows(source, dim, group.size))
            target[...] = group.reduce_scatter(rows, reduction)
        case AllToAll(source_dim=concat, target_dim=split):
            rows = np.ascontiguousarray(_rows(source, split, group.size))
            np.concatenate(group.all_to_all(rows), axis=concat, out=target)
        case Permute(permutation=permutation):
            to, origin = permutation[group.index], permutation.index(group.index)
            got = group.permute(source, to, origin)
            assert got is not None, "each place of a permutation gets a piece"
            target[...] = got
        case UpdateHalo(dim=dim, low=low, high=high):
            target[...] = source
            _update_halo(target, dim, low, high, group)
        case Mask(reduction=reduction):
            target[...] = source if group.index == 0 else identity(reduction, source.dtype)


def _update_halo(array: Array, dim: int, low: int, high: int, group: Group) -> None:
    """The ends of our own piece go to the devices in whose halos they belong, near ones first."""
    along = np.moveaxis(array, dim, 0)
    end = len(along) - high
    size = end - low
    for distance in range(1, -(-max(low, high) // size) + 1):
        before, after = _at(group, -distance), _at(group, distance)
        past = (distance - 1) * size  # what nearer devices have of the halo
        down, up = (min(max(halo - past, 0), size) for halo in (low, high))
        for sent, to, origin, halo in (
            (along[end - down : end], after, before, along[low - past - down : low - past]),
            (along[low : low + up], before, after, along[end + past : end + past + up]),
        ):
            if len(halo):
                got = group.permute(np.ascontiguousarray(sent), to, origin)
                if got is not None:
                    halo[...] = got


def _at(group: Group, distance: int) -> int | None:
    place = group.index + distance
    return place if 0 <= place < group.size else None


def identity(reduction: Reduction, dtype: np.dtype[Any]) -> Array:
    """What `reduction` leaves its other operand alone with, as a 0-d array."""
    if reduction == "average":
        raise ShardError("an average has no element that changes nothing")
    if reduction in ("sum", "product", "bitwise_or", "bitwise_xor"):
        return np.array(reduction == "product", dtype)
    if reduction == "bitwise_and":
        return np.invert(np.array(0, dtype))
    sign = 1 if reduction == "min" else -1
    if dtype.kind not in "iub":
        return np.array(sign * np.inf, dtype)
    if dtype.kind == "b":
        return np.array(reduction == "min", dtype)
    info = np.iinfo(dtype)
    return np.array(info.max if reduction == "min" else info.min, dtype)


def _rows(array: Array, dim: int, count: int) -> Array:
    """The `count` equal parts of `array` along `dim`, stacked in front; a view."""
    shape = array.shape
    split = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    return np.moveaxis(array.reshape(split), dim, 0)
