"""Devices send each other the elements of their new shards, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import CollectiveRecord, Round, Spelling
from shard_dialect.collectives.step import ReshardError, Step
from shard_dialect.model.grid import Axes, Grid, axes_text
from shard_dialect.model.sharding import Shape, Sharding
from shard_dialect.model.sub_cluster import Place
from shard_dialect.model.transfer_plan import (
    End,
    Transfer,
    TransferPlan,
    most_lacked,
    plan_transfer,
)


@dataclass(frozen=True, slots=True)
class Exchange(Step):
    """Let devices have their shards of `target`, from those of `source` that have the elements.

    This is for shards that are not equal, which other steps pad, or gather all to cut it anew, and
    for equal ones of which other steps would move elements twice.

        rows 0 1 | 2 3 | 4 5 |        [[0, 1]] on a grid of 2x2
        rows 0 1 2 | 0 1 2 | 3 4 5 | 3 4 5        [[0]]: one row to each device, and then another

    The members of a group along `axes` are numbered in row-major order in `plan`, whose boxes are
    of a tensor that is local along the other axes.
    """

    axes: Axes
    source: Sharding
    target: Sharding
    plan: TransferPlan = field(repr=False)
    shape: Shape
    """The local shape afterwards."""
    kind: ClassVar[str] = "exchange"

    @classmethod
    def between(cls, source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> Exchange:
        """The step from `source` to `target` of a tensor of global `shape`.

        Raises `ReshardError` where they have halos or sub-axes, or are not partial alike.
        """
        return _between(source, target, shape, grid)

    def after(self, sharding: Sharding) -> Sharding:
        """The target."""
        if sharding != self.source:
            raise ReshardError(f"exchanges shards of {self.source}, found {sharding}")
        return self.target

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The boxes of all rounds: what the most loaded device sends or receives."""
        return self.plan.bytes_moved(itemsize) if n > 1 else 0

    def local_shape_after(self, shape: Shape, n: int) -> Shape:
        """The shape of the largest shard."""
        return self.shape

    def __str__(self) -> str:
        return f"exchange axes {axes_text(self.axes)} to {self.target}"


MAX_MEMBERS = 1 << 16
"""The most devices of a group that exchange shards, since a permutation lists them all."""


@lru_cache(maxsize=4096)
def _between(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> Exchange:
    plan = plan_transfer(_transfer(source, target, shape, grid))
    return Exchange(plan.axes, source, target, plan, target.local_shape(shape, grid))


def fewest_elements(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> int:
    """The elements that some device gets by any exchange; raises as `Exchange.between` does."""
    return most_lacked(_transfer(source, target, shape, grid))


def _transfer(source: Sharding, target: Sharding, shape: Shape, grid: Grid) -> Transfer:
    """What the members of each group that exchange shards have, and are to have."""
    if source.halos or target.halos:
        raise ReshardError(f"halos are not exchanged so, from {source} to {target}")
    addends = [
        [axis for axis in each.partial if grid.axes_size((axis,)) > 1] for each in (source, target)
    ]
    if addends[0] != addends[1] or (addends[0] and source.reduction != target.reduction):
        raise ReshardError(f"{source} and {target} are not partial alike")
    place = Place(grid)
    transfer = Transfer.between(End(source, place), End(target, place), shape)
    inside = (*transfer.source.sharding.axes, *transfer.target.sharding.axes)
    if not all(isinstance(axis, int) for axis in inside):
        raise ReshardError(f"cannot exchange shards of {source} for those of {target}")
    if transfer.source.place.grid.size > MAX_MEMBERS:
        raise ReshardError(f"more than {MAX_MEMBERS} devices would exchange shards")
    return transfer


def _rounds(step: Exchange, sizes: Sequence[int], shape: Shape, itemsize: int) -> Iterator[Round]:
    for each in step.plan.sent:
        pairs = [(message.sender, message.receiver) for message in each.messages]
        yield pairs, prod(each.shape) * itemsize


def _read(op: Any) -> list[Step]:
    return [Exchange.between(op.source, op.target, tuple(op.sizes), op.grid)]


RECORDS = (
    CollectiveRecord(
        Exchange,
        rounds=_rounds,
        mesh=Spelling(
            "mesh.exchange",
            summary=(
                "Each device gets the elements of its shard of the result that it lacks, in rounds "
                "of messages."
            ),
            read=_read,
        ),
    ),
)
