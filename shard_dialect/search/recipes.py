"""Recipes of pipelines: stages along the first axis of the grid, microbatches, and a schedule.

A search with `pipelines` tries these beside its plans:

    grid 4x2                4 stages of 2 devices each, along axis 0
    batch                   the arguments that have one in common, in their first dimension
    table                   2, 4, 8, ... microbatches that divide it, each schedule, one or more
                            chunks a stage, fewer stages of more devices
    plan                    splits along the other axes: none, and those of the best plan on this
                            grid without a pipeline

A recipe is a pipeline text for the annotated program (`divide-into-stages`), so what it costs is
what the report says of the program that it makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from shard_dialect.model import Grid
from shard_dialect.model.grid import full_axis
from shard_dialect.passes.pipelining.batch_types import batch_dim
from shard_dialect.passes.pipelining.timetable import Schedule
from shard_dialect.search.decisions import Dimensions
from shard_dialect.search.plan import Plan, Splits

AXIS = 0
"""The axis of the grid along which the stages are."""
MOST_MICROBATCHES = 8
"""The most microbatches for each stage: the pipeline fills and empties in an eighth of the time."""
MOST_STAGES = 64
MOST_CHUNKS = 4


@dataclass(frozen=True)
class Recipe:
    """How a pipeline is made of a program."""

    stages: int
    microbatches: int
    arguments: tuple[int, ...]
    """The numbers of those whose first dimension, but for those of size 1, is the batch."""
    schedule: Schedule = "1f1b"
    chunks: int = 1

    def __str__(self) -> str:
        """The options of `--pipeline`."""
        arguments = ",".join(map(str, self.arguments))
        return (
            f"stages={self.stages} microbatches={self.microbatches} arguments='{arguments}' "
            f"schedule={self.schedule}" + (f" chunks={self.chunks}" if self.chunks > 1 else "")
        )

    @property
    def waits(self) -> float:
        """The share of its time, at the least, in which a stage waits for the first and the last.

        >>> Recipe(2, 4, (0,)).waits
        0.2
        """
        ticks = (self.stages - 1) / self.chunks
        ticks *= 1 / 3 if self.schedule == "zero-bubble" else 1
        return ticks / (self.microbatches + ticks)

    def near(self, batch: int, grid: Grid) -> Iterator[Recipe]:
        """The recipes of the table that differ in one number, or in the schedule."""
        for count in (2 * self.microbatches, self.microbatches // 2):
            if count > 1 and batch % count == 0 and count <= MOST_MICROBATCHES * self.stages:
                yield replace(self, microbatches=count)
        for schedule in get_args(Schedule):
            if schedule != self.schedule:
                yield replace(self, schedule=schedule)
        for chunks in (2 * self.chunks, self.chunks // 2):
            if 1 <= chunks <= MOST_CHUNKS:
                yield replace(self, chunks=chunks)
        for stages in (2 * self.stages, self.stages // 2):
            if stages > 1 and grid.axes_size((AXIS,)) % stages == 0:
                yield replace(self, stages=stages)


def first_recipes(
    dimensions: Dimensions, states: Sequence[tuple[int, int]], grid: Grid
) -> list[Recipe]:
    """A recipe for each set of arguments that may have a batch, those that split most ops first."""
    stages = grid.axes_size((AXIS,)) if grid.rank else 1
    if not 1 < stages <= MOST_STAGES:
        return []
    kept = {argument for argument, _ in states}
    found: dict[tuple[int, ...], Recipe] = {}
    for group in sorted(dimensions.groups, key=lambda each: -each.uses):
        places = [place for place in group.places if place[0] < dimensions.arguments]
        arguments = tuple(sorted({tensor for tensor, _ in places}))
        sizes = {dimensions.shapes[tensor][dim] for tensor, dim in places}
        is_batch = all(dim == batch_dim(dimensions.shapes[tensor]) for tensor, dim in places)
        if not is_batch or len(sizes) != 1 or not kept.isdisjoint(arguments):
            continue
        (batch,) = sizes
        counts = [4 * stages, 2 * stages, stages, stages // 2]
        fit = [each for each in counts if each > 1 and batch % each == 0]
        # Best if the devices of a stage can share each microbatch.
        shared = [each for each in fit if batch % (each * grid.size // stages) == 0]
        if fit:
            found.setdefault(arguments, Recipe(stages, (shared or fit)[0], arguments))
    return list(found.values())


def within_stages(plan: Plan) -> Plan:
    """The plan's splits along the axes that a stage has."""
    return Plan(_kept(plan.by_tensor), _kept(dict(plan.inner)))  # loops are of the whole batch


def _kept(splits: Mapping[int, Splits]) -> tuple[tuple[int, Splits], ...]:
    kept = {
        number: tuple(tuple(axis for axis in axes if full_axis(axis) != AXIS) for axes in each)
        for number, each in splits.items()
    }
    return tuple(sorted((number, each) for number, each in kept.items() if any(each)))
