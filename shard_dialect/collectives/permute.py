"""Devices of a group send their shards to each other, whole.

    [[0], []]  ->  [[1], []]                 permute axes [0, 1]

Each collective that does this names the permutation, and all else follows (`permuting`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, ClassVar

from shard_dialect.collectives.collective_record import CollectiveRecord, Round, Spelling
from shard_dialect.collectives.step import NOBODY, LocalStep, Step, flat_index
from shard_dialect.errors import as_symbol
from shard_dialect.model.grid import Axes, Grid, axes_text
from shard_dialect.model.sharding import Reduction, Shape, Sharding, ShardingError


@dataclass(frozen=True, slots=True)
class Permute(Step):
    """Devices of a group exchange shards: that of member i goes to member `permutation[i]`.

    In the local form that may be -1, nobody; a member to which nobody sends gets zeros.

    Afterwards the tensor's sharding is `split_axes` and `partial`, and shards are as large as
    before. Both are empty in the local form, where no sharding is known. If `grid` is not empty,
    the sharding is on that grid of the same devices; `axes` are those of the grid before.
    """

    axes: Axes
    permutation: tuple[int, ...]
    split_axes: tuple[Axes, ...] = ()
    partial: Axes = ()
    reduction: Reduction = "sum"
    grid: str = ""
    kind: ClassVar[str] = "collective_permute"

    def after(self, sharding: Sharding) -> Sharding:
        """The sharding in `split_axes`, `partial` and `reduction`, on `grid`."""
        return replace(
            sharding,
            grid=self.grid or sharding.grid,
            split_axes=self.split_axes,
            partial=self.partial,
            reduction=self.reduction,
        )

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once; nothing where each device keeps its shard."""
        is_move = any(to not in (member, NOBODY) for member, to in enumerate(self.permutation))
        return prod(operand) * itemsize if n > 1 and is_move else 0

    @staticmethod
    def check(permutation: Sequence[int], size: int, *, may_be_nobody: bool = False) -> None:
        """Raise `ShardingError` unless `size` members send to each other, each at most once."""
        members = [to for to in permutation if to != NOBODY or not may_be_nobody]
        is_right = len(permutation) == size and len(set(members)) == len(members)
        if not is_right or not set(members) <= set(range(size)):
            nobody = ", or -1 for nobody" if may_be_nobody else ""
            raise ShardingError(
                f"permutation is {list(permutation)}: expected each of 0 to {size - 1} once{nobody}"
            )

    def check_fits(self, shape: Shape, n: int) -> None:
        """Raise `ShardingError` unless the permutation is one of the group's members."""
        self.check(self.permutation, n, may_be_nobody=True)

    def __str__(self) -> str:
        to = Sharding("", self.split_axes, self.partial, self.reduction)
        grid = f" on {as_symbol(self.grid)}" if self.grid else ""
        return f"collective_permute axes {axes_text(self.axes)} to {to}{grid}"


@dataclass(frozen=True, slots=True)
class Shift(LocalStep):
    """Each device sends its tensor to the one `offset` further along grid axis `along`.

    With `rotate` the last devices send to the first; without, devices that receive nothing get
    zeros. Source: upstream's documentation of the `shard` dialect.
    """

    axes: Axes
    along: int
    offset: int
    rotate: bool = False
    kind: ClassVar[str] = "shift"

    def bytes_moved(self, n: int, operand: Shape, itemsize: int) -> int:
        """The operand, once."""
        return prod(operand) * itemsize if n > 1 and self.offset else 0

    def check_fits(self, shape: Shape, n: int) -> None:
        """Raise `ShardingError` unless it is along one of the group's axes."""
        if self.along not in self.axes:
            raise ShardingError(
                f"shifts along axis {self.along}, which is none of {list(self.axes)}"
            )

    def moved(self, index: tuple[int, ...], sizes: Sequence[int]) -> tuple[int, ...] | None:
        """The index of the device to which that at `index` sends; `None` past the end.

        >>> Shift((0, 1), along=1, offset=1).moved((0, 2), (2, 3))
        >>> Shift((0, 1), along=1, offset=1, rotate=True).moved((0, 2), (2, 3))
        (0, 0)
        """
        dim = self.axes.index(self.along)
        moved = index[dim] + self.offset
        if self.rotate:
            moved %= sizes[dim]
        exists = 0 <= moved < sizes[dim]
        return (*index[:dim], moved, *index[dim + 1 :]) if exists else None

    def permutation(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The member of a group that each of them sends to.

        >>> Shift((0, 1), along=1, offset=1).permutation((2, 3))
        (1, 2, -1, 4, 5, -1)
        """
        targets = (self.moved(index, sizes) for index in product(*map(range, sizes)))
        return tuple(NOBODY if to is None else flat_index(to, sizes) for to in targets)


PermutationOf = Callable[[Any, Sequence[int]], tuple[int, ...]]
"""Of a step and the sizes of its group along its axes: the member that each of them sends to."""


def permuting(
    step: type[LocalStep], permutation: PermutationOf, python_name: str, **facets: Any
) -> CollectiveRecord:
    """The record of a collective in which each member sends its shard to another, or to nobody."""

    def rounds(step: LocalStep, sizes: Sequence[int], shape: Shape, itemsize: int) -> list[Round]:
        sent = enumerate(permutation(step, sizes))
        pairs = [(member, to) for member, to in sent if to not in (member, NOBODY)]
        return [(pairs, prod(shape) * itemsize)]

    def perform(step: LocalStep, grid: Grid, group: Any, source: Any, target: Any) -> None:
        members = permutation(step, grid.sizes_along(step.axes))
        to = members[group.index]
        origin = members.index(group.index) if group.index in members else None
        # A member without a sender gets zeros, as StableHLO and XLA have it.
        if origin is None:
            target[...] = 0
        group.permute(source, target, None if to == NOBODY else to, origin)

    def mpi(site: Any) -> None:
        members = permutation(site.step, site.sizes)
        if NOBODY in members:
            site.clear()
        site.permute(members)

    def python(call: Any, step: LocalStep) -> Any:
        return call("permute", list(permutation(step, call.sizes)))

    def stablehlo(code: Any) -> Any:
        sent = enumerate(permutation(code.step, code.sizes))
        return code.permuted(code.operand, [(member, to) for member, to in sent if to != NOBODY])

    return CollectiveRecord(
        step,
        rounds=rounds,
        perform=perform,
        mpi=mpi,
        python=(python_name, python),
        stablehlo=stablehlo,
        **facets,
    )


def _read(op: Any) -> list[Step]:
    if not op.has("mesh_axis") or not op.has("permutation"):
        raise ShardingError("has no mesh_axis and no permutation: expected both in this form")
    target, members = op.target, tuple(op.numbers("permutation"))
    grid = target.grid if target.grid != op.source.grid else ""
    after = (target.split_axes, target.partial, target.reduction)
    return [Permute(op.axes, members, *after, grid)]


_SPELLING = Spelling(
    "mesh.collective_permute",
    {"mesh_axis": ("axes", "axes"), "permutation": ("list", "permutation")},
    summary=(
        "Permutes the shards of devices along axes, or sends them to the devices of another "
        "cluster."
    ),
    optional=("mesh_axis", "permutation", "cluster"),
    read=_read,
)

RECORDS = (
    permuting(
        Permute,
        lambda step, sizes: step.permutation,
        "passed",
        of_stablehlo=("collective_permute", lambda op: op.permuted(Permute)),
        mesh=_SPELLING,
        local=_SPELLING,
    ),
    permuting(
        Shift,
        lambda step, sizes: step.permutation(sizes),
        "shifted",
        local=Spelling(
            "shard.shift",
            {
                "shift_axis": ("axis", "along"),
                "offset": ("number", "offset"),
                "rotate": ("flag", "rotate"),
            },
        ),
    ),
)
