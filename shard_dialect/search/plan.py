"""A plan of a search: which axes split the dimensions of arguments and results; and other plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from shard_dialect.model import Axes, Grid
from shard_dialect.search.decisions import Dimensions, GroupClass, Place, TensorClass

Splits = tuple[Axes, ...]
"""For each dimension of a tensor, the axes that split it."""


@dataclass(frozen=True)
class Plan:
    """The splits of boundary tensors, by number; one that is not in it is not annotated.

    `inner` has those of values inside the function, by their numbers in the graph, where the passes
    would choose otherwise.
    """

    splits: tuple[tuple[int, Splits], ...] = ()
    inner: tuple[tuple[int, Splits], ...] = ()
    loops: tuple[tuple[int, Splits], ...] = ()
    """Of the products that make these values, the axes that split each loop."""

    @property
    def by_tensor(self) -> Mapping[int, Splits]:
        """The splits by the number of the tensor."""
        return dict(self.splits)

    def with_splits(self, changed: Mapping[int, Splits]) -> Plan:
        """The plan in which some tensors are split otherwise; () is for no annotation."""
        both = {**self.by_tensor, **changed}
        kept = sorted((n, each) for n, each in both.items() if each)
        return replace(self, splits=tuple(kept))

    def without(self, tensors: TensorClass) -> Plan:
        """The plan in which a class of boundary tensors is not annotated."""
        return self.with_splits(dict.fromkeys(tensors.tensors, ()))

    def without_inner(self, values: frozenset[int]) -> Plan:
        """The plan in which these values inside the function are not annotated."""
        return self.with_inner({n: each for n, each in self.inner if n not in values})

    def with_inner(self, inner: Mapping[int, Splits]) -> Plan:
        """The plan with these values annotated inside the function."""
        return replace(self, inner=tuple(sorted(inner.items())))

    def without_loops(self) -> Plan:
        """The plan in which the passes choose the loops of products."""
        return replace(self, loops=())


@dataclass(frozen=True, slots=True)
class Move:
    """A step from one plan to another: split some dimensions along an axis, or no longer."""

    places: tuple[Place, ...]
    axis: int
    kind: Literal["split", "join"]

    def apply(self, plan: Plan, dimensions: Dimensions, grid: Grid) -> Plan | None:
        """The plan after the move; `None` if nothing changes."""
        splits = {**plan.by_tensor}
        for tensor, dim in self.places:
            shape = dimensions.shapes[tensor]
            before = splits.get(tensor, ((),) * len(shape))
            after = self._join(before, dim) if self.kind == "join" else self._split(before, dim)
            sizes = zip(shape, after, strict=True)
            if all(size % grid.axes_size(axes) == 0 for size, axes in sizes):
                splits[tensor] = after if any(after) else ()
        changed = replace(plan, splits=()).with_splits(splits)
        return None if changed == plan else changed

    def _join(self, splits: Splits, dim: int) -> Splits:
        return (*splits[:dim], _without(splits[dim], self.axis), *splits[dim + 1 :])

    def _split(self, splits: Splits, dim: int) -> Splits:
        if self.axis in splits[dim]:
            return splits
        free = [_without(each, self.axis) for each in splits]
        free[dim] = (*free[dim], self.axis)
        return tuple(free)


def group_splits(dimensions: Dimensions, grid: Grid, free: frozenset[int]) -> list[Move]:
    """The moves that split a class of groups along an axis, of tensors in `free`."""
    places = [_places_of_group(each, free) for each in dimensions.groups]
    return [Move(each, axis, "split") for each in places if each for axis in _axes(grid)]


def tensor_splits(dimensions: Dimensions, grid: Grid, free: frozenset[int]) -> list[Move]:
    """The moves that split a class of tensors along an axis, those with most elements first."""

    def elements(places: Sequence[Place]) -> int:
        return sum(prod(dimensions.shapes[tensor]) for tensor, _ in places)

    places = [
        tuple((tensor, dim) for tensor in each.tensors if tensor in free)
        for each in dimensions.tensors
        for dim in range(each.rank)
    ]
    largest = sorted(filter(None, places), key=elements, reverse=True)
    return [Move(each, axis, "split") for each in largest for axis in _axes(grid)]


def moves(dimensions: Dimensions, grid: Grid, free: frozenset[int]) -> list[Move]:
    """All moves, of tensors in `free`: the splits of groups and tensors, and what undoes them."""
    splits = [*group_splits(dimensions, grid, free), *tensor_splits(dimensions, grid, free)]
    return list(dict.fromkeys([*splits, *(replace(each, kind="join") for each in splits)]))


def _axes(grid: Grid) -> list[int]:
    return [axis for axis in range(len(grid.shape)) if grid.axes_size((axis,)) > 1]


def _places_of_group(group: GroupClass, free: frozenset[int]) -> tuple[Place, ...]:
    """The places of a group; one of each tensor, since an axis splits a tensor once."""
    first: dict[int, int] = {}
    for tensor, dim in group.places:
        if tensor in free:
            first.setdefault(tensor, dim)
    return tuple(first.items())


def _without(axes: Axes, axis: int) -> Axes:
    return tuple(each for each in axes if each != axis)
