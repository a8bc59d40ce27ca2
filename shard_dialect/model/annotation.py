"""Annotations: a sharding that the user wrote, and how far propagation may extend it.

    [[0], [], {open = [1]}]                     dimension 1 may be split further
    [[0], [], {open = [1], replicated = [1]}]   but not along axis 1
    [[0], [], {priority = [1, unit]}]           dimension 0 has a lower priority than the default

A dimension that is not open is closed: propagation keeps its axes. Lower priority numbers are used
first; a dimension without a number has priority 0.

Source: Shardy, TensorShardingAttr and DimensionShardingAttr.

Users write shardings as lists: for each dimension, the names or numbers of the grid's axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shard_dialect.errors import as_symbol, listed
from shard_dialect.model.grid import (
    Axes,
    Axis,
    Grid,
    axes_text,
    extends,
    first_overlap,
    full_axis,
    in_order,
)
from shard_dialect.model.sharding import Sharding, ShardingError, check_axes, joined


@dataclass(frozen=True, slots=True)
class Annotation:
    """A sharding, its `open` dimensions, and the `replicated` axes, which must not split it.

    `priorities` has a number or `None` for each dimension, or is empty where no dimension has a
    number. The axes in `replicated` are sorted.
    """

    sharding: Sharding
    open: tuple[int, ...] = ()
    priorities: tuple[int | None, ...] = ()
    replicated: Axes = ()

    def __post_init__(self) -> None:
        rank = self.sharding.rank
        object.__setattr__(self, "open", tuple(sorted(set(self.open))))
        object.__setattr__(self, "replicated", tuple(sorted(self.replicated, key=in_order)))
        for dim in self.open:
            if not 0 <= dim < rank:
                raise ShardingError(f"dimension {dim} is open in {self}, of {rank} dimensions")
        both = first_overlap((*self.sharding.axes, *self.replicated))
        if both is not None:
            raise ShardingError(f"grid axes {both[0]} and {both[1]} overlap in {self}")
        self._check_priorities()

    def _check_priorities(self) -> None:
        if self.priorities and len(self.priorities) != self.sharding.rank:
            raise ShardingError(
                f"{len(self.priorities)} priorities in {self}: expected one for each dimension"
            )
        if all(priority is None for priority in self.priorities):
            object.__setattr__(self, "priorities", ())
        for dim, priority in enumerate(self.priorities):
            if priority is None:
                continue
            if priority < 0:
                raise ShardingError(f"priority {priority} of dimension {dim} in {self} is negative")
            if dim not in self.open and not self.sharding.split_axes[dim]:
                raise ShardingError(
                    f"priority {priority} of dimension {dim} in {self}, which is neither split nor "
                    "open: there is nothing to decide"
                )

    @property
    def grid(self) -> str:
        """The name of the grid."""
        return self.sharding.grid

    @property
    def is_unconstrained(self) -> bool:
        """Whether every dimension is unsplit and open, which is the same as no annotation."""
        rank = self.sharding.rank
        nothing = Annotation(Sharding.replicated(self.grid, rank), open=tuple(range(rank)))
        return rank > 0 and self == nothing

    def priority(self, dim: int) -> int | None:
        """The priority of dimension `dim`; `None` where it has no number."""
        return self.priorities[dim] if self.priorities else None

    def check(self, grid: Grid, rank: int) -> None:
        """Raise `ShardingError` if a tensor with `rank` dimensions on `grid` cannot have this."""
        self.sharding.check(grid, rank)
        for dim in self.open if self.sharding.offsets else ():
            if self.sharding.offsets[dim]:
                raise ShardingError(
                    f"dimension {dim} is open in {self}, but its shards begin at offsets, for a "
                    "fixed number of devices: close it"
                )
        check_axes(self.replicated, grid, self)

    def meet(self, other: Annotation) -> Annotation | None:
        """The annotation that satisfies both; `None` if they contradict each other.

        >>> a = Annotation(Sharding("g", ((0,), ())), open=(0, 1))
        >>> b = Annotation(Sharding("g", ((0, 1), ())), open=(1,))
        >>> print(a.meet(b))
        [[0, 1], [], {open = [1]}]
        >>> from shard_dialect.model.grid import SubAxis
        >>> half = Annotation(Sharding("g", ((SubAxis(0, 1, 2),), ())), open=(0,))
        >>> print(half.meet(Annotation(Sharding("g", ((0,), ())))))
        [[0], []]
        >>> print(b.meet(Annotation(Sharding("g", ((), (2,))))))
        None
        """
        if self is other:  # mostly: annotations are read once for each attribute
            return self
        if self.sharding.halos != other.sharding.halos:
            return self._meet_with_halos(other)
        sharding, other_sharding = self.sharding, other.sharding
        if _all_but_split(sharding) != _all_but_split(other_sharding):
            return None
        dims = []
        for dim, (a, b) in enumerate(
            zip(sharding.split_axes, other_sharding.split_axes, strict=True)
        ):
            if a == b or (dim in other.open and extends(a, b)):
                dims.append(a)
            elif dim in self.open and extends(b, a):
                dims.append(b)
            else:
                return None
        try:
            opened = tuple(dim for dim in self.open if dim in other.open)
            return Annotation(
                replace(sharding, split_axes=tuple(dims)),
                opened,
                tuple(
                    _more_urgent(self.priority(dim), other.priority(dim))
                    if axes or dim in opened
                    else None
                    for dim, axes in enumerate(dims)
                ),
                tuple({*self.replicated, *other.replicated}),
            )
        except ShardingError:  # both annotations use one axis, in different dimensions
            return None

    def _meet_with_halos(self, other: Annotation) -> Annotation | None:
        """The annotation that satisfies both, with the larger halo of each dimension."""
        sharding, other_sharding = self.sharding, other.sharding
        fills = {each.fill for each in (sharding, other_sharding) if each.halos}
        both = replace(self, sharding=sharding.bare).meet(
            replace(other, sharding=other_sharding.bare)
        )
        if both is None or len(fills) > 1:
            return None
        halos = [
            tuple(map(_larger, a or (0, 0), b or (0, 0))) if a or b else ()
            for a, b in zip(
                sharding.halos or ((),) * sharding.rank,
                other_sharding.halos or ((),) * sharding.rank,
                strict=True,
            )
        ]
        try:
            held = replace(both.sharding, halos=tuple(halos), fill=fills.pop())
        except ShardingError:  # one of them has offsets
            return None
        return replace(both, sharding=held)

    def text(self, grid: Grid) -> str:
        """The notation with the names of the axes of its grid, for people."""
        return self._notation(grid)

    def __str__(self) -> str:
        return self._notation(None)

    def _notation(self, grid: Grid | None) -> str:
        lists, fields = self.sharding.notation(grid)
        if self.open:
            fields.append(f"open = {list(self.open)}")
        if self.priorities:
            numbers = ("unit" if each is None else str(each) for each in self.priorities)
            fields.append(f"priority = [{', '.join(numbers)}]")
        if self.replicated:
            known = grid is not None and all(
                full_axis(axis) < grid.rank for axis in self.replicated
            )
            spelled = grid.axes_text if grid is not None and known else axes_text
            fields.append(f"replicated = {spelled(self.replicated)}")
        return joined(lists, fields)


def _all_but_split(sharding: Sharding) -> tuple[object, ...]:
    """All fields of the sharding except the axes that split its dimensions."""
    rest = (sharding.grid, sharding.rank, sharding.partial, sharding.reduction)
    return (*rest, sharding.halos, sharding.offsets, sharding.fill)


def _larger(a: int | None, b: int | None) -> int | None:
    """The larger of two sizes, of which one that is not known is taken to be the larger one."""
    return None if a is None or b is None else max(a, b)


def _more_urgent(a: int | None, b: int | None) -> int | None:
    """The lower of two priority numbers; `None` is ignored."""
    return min((each for each in (a, b) if each is not None), default=None)


SplitAxes = Sequence[Sequence[str | Axis]]
"""For each dimension, the names or numbers of the axes that split it."""


def sharding_on(grid: Grid, sharding: Sharding | SplitAxes, rank: int) -> Sharding:
    """The sharding of a tensor with `rank` dimensions; those that are left out are not split.

    Raises `ShardingError` if the tensor or the grid cannot have it.

    >>> grid = Grid("g", (2, 4), axes=("data", "model"))
    >>> str(sharding_on(grid, [["data"], [1]], 3))
    '[[0], [1], []]'
    >>> sharding_on(grid, [["data"], ["data"]], 2)
    Traceback (most recent call last):
    shard_dialect.model.sharding.ShardingError: error: axis "data" is used twice in \
[["data"], ["data"]]
    """
    if isinstance(sharding, Sharding):
        sharding.check(grid, rank)
        if sharding.rank != rank:
            raise ShardingError(f"sharding {sharding} is not of a tensor of rank {rank}")
        return sharding
    split = tuple(
        tuple(_axis(axis, grid) for axis in listed("a dimension's split axes", axes, "[0]"))
        for axes in listed("a sharding", sharding, "[[0], []]")
    )
    used = [axis for axes in split for axis in axes]
    is_named = bool(grid.axes) and all(0 <= full_axis(axis) < grid.rank for axis in used)
    both = first_overlap(used) if is_named else None
    if both is not None and both[0] == both[1]:  # in the user's words: the grid has names
        text = ", ".join(map(grid.axes_text, split))
        name = grid.axes_text(both[:1])[1:-1]
        raise ShardingError(f"axis {name} is used twice in [{text}]")
    found = Sharding(grid.name, (*split, *((),) * (rank - len(split))))
    found.check(grid, rank)
    return found


def _axis(axis: str | Axis, grid: Grid) -> Axis:
    if not isinstance(axis, str):
        return axis
    names = [grid.axis_name(each) for each in range(grid.rank)]
    if axis not in names:
        known = grid.axes_text(range(grid.rank))[1:-1] or "none"
        raise ShardingError(f'grid {as_symbol(grid.name)} has no axis "{axis}"; its axes: {known}')
    return names.index(axis)
