"""Grids of devices, their axes, and sub-axes of these.

An axis of size 8 can be factored as [2, 4] or [2, 2, 2]. Each factor is a *sub-axis*. It is named
by its own size and by the product of the sizes major to it, its *pre-size*.

    "0:(1)2"    the major factor of axis 0: devices 0-3 against 4-7 of 8
    "0:(2)4"    the minor factor: the position within each half

Source: Shardy, SubAxisInfoAttr and AxisRefAttr (`"x":(1)2`).

A grid of devices is `shard.grid @g(shape = 2x4)`, the RFC's `mesh.cluster`, or Shardy's `sdy.mesh`.
The rank of a device is its number. Without `device_ids`, ranks are in row-major order, the last
axis fastest:

    shape 2x3      axis 1 ->      shape 2x3, device_ids 5 4 3 2 1 0      axis 1 ->
                   0 1 2                                                 5 4 3
          axis 0 | 3 4 5                                        axis 0 | 2 1 0
                 v                                                     v
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from numbers import Integral

from shard_dialect.errors import ShardError, as_symbol, listed


@dataclass(frozen=True, slots=True)
class SubAxis:
    """The factor of size `size` of grid axis `axis`, minor to a factor of size `pre`.

    >>> print(SubAxis(0, pre=2, size=4))
    0:(2)4
    """

    axis: int
    pre: int
    size: int

    @property
    def end(self) -> int:
        """The pre-size of the sub-axis that follows."""
        return self.pre * self.size

    def __str__(self) -> str:
        return f"{self.axis}:({self.pre}){self.size}"


Axis = int | SubAxis
Axes = tuple[Axis, ...]


def full_axis(axis: Axis) -> int:
    """The number of the grid axis that `axis` is, or is a sub-axis of."""
    return axis.axis if isinstance(axis, SubAxis) else axis


def in_order(axis: Axis) -> tuple[int, int]:
    """The sort key that orders axes by number, and major sub-axes before minor ones."""
    return (axis.axis, axis.pre) if isinstance(axis, SubAxis) else (axis, 0)


def major_sub_axis(axis: Axis, size: int, full: int) -> Axis:
    """The major sub-axis of size `size` of an axis of size `full`; the axis itself if equal.

    >>> major_sub_axis(0, 8, 8), str(major_sub_axis(0, 2, 8))
    (0, '0:(1)2')
    >>> str(major_sub_axis(SubAxis(0, 2, 4), 2, 4))
    '0:(2)2'
    """
    if size == full:
        return axis
    return SubAxis(full_axis(axis), axis.pre if isinstance(axis, SubAxis) else 1, size)


def overlap(a: Axis, b: Axis) -> bool:
    """Whether the two share a factor of one grid axis.

    >>> overlap(0, SubAxis(0, 2, 4)), overlap(SubAxis(0, 1, 4), SubAxis(0, 2, 4))
    (True, True)
    >>> overlap(SubAxis(0, 1, 2), SubAxis(0, 2, 4)), overlap(0, 1)
    (False, False)
    """
    if full_axis(a) != full_axis(b):
        return False
    if not (isinstance(a, SubAxis) and isinstance(b, SubAxis)):
        return True
    return a.pre < b.end and b.pre < a.end


def follows(a: Axis, b: Axis) -> bool:
    """Whether `b` continues `a`, so that the two are one larger (sub-)axis.

    >>> follows(SubAxis(0, 1, 2), SubAxis(0, 2, 4)), follows(SubAxis(0, 2, 4), SubAxis(0, 1, 2))
    (True, False)
    """
    if not (isinstance(a, SubAxis) and isinstance(b, SubAxis)):
        return False
    return a.axis == b.axis and a.end == b.pre


def is_major_part(a: Axis, b: Axis) -> bool:
    """Whether `a` is `b` or a major factor of it.

    >>> is_major_part(SubAxis(0, 1, 2), SubAxis(0, 1, 4)), is_major_part(SubAxis(0, 1, 2), 0)
    (True, True)
    >>> is_major_part(SubAxis(0, 1, 2), SubAxis(0, 1, 3)), is_major_part(0, SubAxis(0, 1, 2))
    (False, False)
    """
    if a == b or not isinstance(a, SubAxis):
        return a == b
    if isinstance(b, SubAxis):
        return (a.axis, a.pre) == (b.axis, b.pre) and b.size % a.size == 0
    return a.axis == b and a.pre == 1


def extends(long: Axes, short: Axes) -> bool:
    """Whether `short` are the first of the axes `long`, of the last one perhaps a major factor.

    >>> extends((1, 0), (1, SubAxis(0, 1, 2))), extends((0, 1), (SubAxis(0, 1, 2), 1))
    (True, False)
    """
    if not short:
        return True
    last = len(short) - 1
    return (
        len(long) > last and long[:last] == short[:last] and is_major_part(short[last], long[last])
    )


def first_overlap(axes: Sequence[Axis]) -> tuple[Axis, Axis] | None:
    """The first two of `axes` that overlap; `None` if no two do."""
    ordered = sorted(axes, key=in_order)
    for a, b in pairwise(ordered):
        if overlap(a, b):
            return a, b
    return None


def axes_text(axes: Sequence[Axis]) -> str:
    """The axes as text, as attributes have them: sub-axes are strings.

    >>> print(axes_text((1, SubAxis(0, 1, 2))))
    [1, "0:(1)2"]
    """
    texts = (f'"{axis}"' if isinstance(axis, SubAxis) else str(axis) for axis in axes)
    return f"[{', '.join(texts)}]"


@dataclass(frozen=True, slots=True)
class GridAxes:
    """Some axes of a grid, as `grid["tp"]` gives them."""

    grid: Grid
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A named grid; `shape[i]` is the size of grid axis i, or `None` where it is not known.

    `axes` has a name for each axis, or is empty. `device_ids` lists the ranks of the devices
    by their position in the grid, and is empty where that is 0, 1, 2, ...; a grid without axes has
    one device (Shardy's maximal mesh) or none (its empty mesh). Along `stage_axes` devices may run
    different programs: no tensor is moved along such an axis if its sharding along that axis does
    not change.

    >>> Grid("g", (2, 3)).size
    6
    """

    name: str
    shape: tuple[int | None, ...]
    axes: tuple[str, ...]
    device_ids: tuple[int, ...]
    stage_axes: tuple[int, ...]

    def __init__(
        self,
        name: str,
        shape: Sequence[int | None],
        axes: Sequence[str] = (),
        device_ids: Sequence[int] = (),
        stage_axes: Sequence[int] = (),
    ) -> None:
        object.__setattr__(self, "name", name)
        for field, given, example in (
            ("shape", shape, "(2, 4)"),
            ("axes", axes, '("data", "model")'),
            ("device_ids", device_ids, "(0, 1)"),
            ("stage_axes", stage_axes, "(0,)"),
        ):
            if not isinstance(given, tuple):
                given = listed(f"the {field} of grid {as_symbol(name)}", given, example)
            object.__setattr__(self, field, given)
        self._check()

    def _check(self) -> None:
        for axis, size in enumerate(self.shape):
            given: object = size
            if given is not None and not isinstance(given, Integral):
                raise ShardError(
                    f"grid {as_symbol(self.name)} has size {size!r} on axis {axis}: sizes "
                    "are integers"
                )
            if size is not None and size < 1:
                raise ShardError(
                    f"grid {as_symbol(self.name)} has size {size} on axis {axis}: sizes are "
                    "at least 1"
                )
        if self.axes == tuple(map(_default_name, range(self.rank))):
            object.__setattr__(self, "axes", ())
        self._check_names()
        self._check_devices()

    def _check_names(self) -> None:
        if self.axes and len(self.axes) != self.rank:
            raise ShardError(
                f"grid {as_symbol(self.name)} has {len(self.axes)} axis names for {self.rank} axes"
            )
        for name in self.axes:
            if self.axes.count(name) > 1:
                raise ShardError(f'grid {as_symbol(self.name)} has two axes named "{name}"')

    def _check_devices(self) -> None:
        ids = self.device_ids
        if not ids:
            return
        if min(ids) < 0:
            raise ShardError(
                f"grid {as_symbol(self.name)} has device id {min(ids)}: ids are not negative"
            )
        if not self.shape and len(ids) > 1:
            raise ShardError(f"grid {as_symbol(self.name)} has {len(ids)} device ids and no axes")
        if self.size == len(ids) == 1 and (not self.shape or ids != (0,)):
            return  # it may be any of the devices
        if len(ids) != self.size or sorted(ids) != list(range(len(ids))):
            raise ShardError(
                f"grid {as_symbol(self.name)} of {self.size} devices has device ids "
                f"{list(ids)}: expected "
                f"each of 0 to {self.size - 1} once"
            )
        if list(ids) == sorted(ids):
            object.__setattr__(self, "device_ids", ())

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return None not in self.shape

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.axes_size(range(self.rank))

    def __getitem__(self, names: str | tuple[str, ...]) -> GridAxes:
        """The axes of these names, as a submesh of torch's.

        >>> Grid("g", (2, 4), ("data", "model"))["model"].axes
        (1,)
        """
        wanted = (names,) if isinstance(names, str) else tuple(names)
        own = [self.axis_name(axis) for axis in range(self.rank)]
        for each in wanted:
            if each not in own:
                raise ShardError(f'"{each}" is no axis of grid {self}: {", ".join(own)}')
        return GridAxes(self, tuple(own.index(each) for each in wanted))

    def axis_name(self, axis: int) -> str:
        """The name of an axis, `axis_0` and so on where the grid gives none."""
        return self.axes[axis] if self.axes else _default_name(axis)

    def axes_text(self, axes: Sequence[Axis]) -> str:
        """The axes as text: by name if the grid gives names, else as attributes have them.

        A refined grid's are sub-axes of the grid that was refined (`parts_named`).

        >>> Grid("g", (4, 4), ("data", "model")).axes_text((1, SubAxis(0, 1, 2)))
        '["model", "data":(1)2]'
        >>> Grid("g", (2, 2, 2), ("x:(1)2", "x:(2)2", "y")).axes_text((0, 2))
        '["x":(1)2, "y"]'
        """
        names, own = _of_whole(self, tuple(axes))
        if not names:
            return axes_text(own)
        in_quotes = [f'"{name}"' for name in names]
        return f"[{', '.join(_spelled(axis, in_quotes) for axis in own)}]"

    def axes_names(self, axes: Sequence[Axis]) -> tuple[str, ...]:
        """The names of axes, or where the grid gives none their numbers; as `axes_text` has them.

        >>> Grid("g", (4, 4), ("data", "model")).axes_names((1, SubAxis(0, 1, 2)))
        ('model', 'data:(1)2')
        >>> Grid("g", (2, 2, 2), ("0:(1)2", "0:(2)2", "1")).axes_names((0, 1, 2))
        ('0', '1')
        """
        names, own = _of_whole(self, tuple(axes))
        return tuple(_spelled(axis, names) if names else str(axis) for axis in own)

    def parts_named(self, parts: Sequence[tuple[int, int, int]]) -> tuple[str, ...]:
        """Names for the axes of a refined grid, each an axis of this one, a pre-size and a size.

        They are the record of what was refined: `x:(1)2`, or `0:(1)2` where axes have no names.

        >>> Grid("g", (4, 2), ("x", "y")).parts_named([(0, 1, 2), (0, 2, 2), (1, 1, 2)])
        ('x:(1)2', 'x:(2)2', 'y')
        """
        axes = tuple(
            axis if size == self.shape[axis] else SubAxis(axis, pre, size)
            for axis, pre, size in parts
        )
        return tuple(name for axis in axes for name in self.axes_names((axis,)))

    def axes_size(self, axes: Sequence[Axis]) -> int:
        """The number of devices in one group along `axes`.

        >>> Grid("g", (2, 3, 4)).axes_size((0, SubAxis(2, pre=1, size=2)))
        4
        """
        size = 1  # not by `prod`: searches ask millions of times, mostly for one axis
        for axis in axes:
            size *= axis.size if isinstance(axis, SubAxis) else self._known(axis)
        return size

    def sizes_along(self, axes: Sequence[Axis]) -> tuple[int, ...]:
        """The number of devices along each of `axes`."""
        return tuple(self.axes_size((axis,)) for axis in axes)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """The position of device `rank` along each axis.

        >>> Grid("g", (2, 3)).coordinates(5)
        (1, 2)
        """
        for axis in reversed(range(self.rank)) if None in self.shape else ():
            self._known(axis)
        return _coordinates(self.shape, _positions(self.device_ids).get(rank, rank))

    def rank_at(self, coordinates: Sequence[int]) -> int:
        """The rank of the device at these positions, one for each axis."""
        position = 0
        for axis, coordinate in enumerate(coordinates):
            position = position * self._known(axis) + coordinate
        return self.device_ids[position] if self.device_ids else position

    def index_along(self, rank: int, axes: Sequence[Axis]) -> int:
        """The index of device `rank` in its group along `axes`, the last listed axis fastest.

        >>> Grid("g", (2, 3)).index_along(5, (1, 0))
        5
        >>> Grid("g", (2, 3)).index_along(3, (1, 0))
        1
        """
        at = self.coordinates(rank)
        index = 0
        for axis in axes:
            stride, size = self._digit(axis)
            index = index * size + at[full_axis(axis)] // stride % size
        return index

    def groups(self, axes: Sequence[Axis]) -> tuple[tuple[int, ...], ...]:
        """All device groups along `axes`, each in the order of its members' `index_along`.

        >>> Grid("g", (2, 2)).groups((1,))
        ((0, 1), (2, 3))
        >>> Grid("g", (2, 2)).groups((1, 0))
        ((0, 2, 1, 3),)
        >>> Grid("g", (8,)).groups((SubAxis(0, pre=2, size=2),))
        ((0, 2), (1, 3), (4, 6), (5, 7))
        >>> Grid("g", (2, 2), device_ids=(3, 2, 1, 0)).groups((0,))
        ((3, 1), (2, 0))
        """
        return _groups(self, tuple(axes))

    def group_of(self, rank: int, axes: Sequence[Axis]) -> tuple[int, ...]:
        """The group along `axes` that device `rank` belongs to.

        >>> Grid("g", (2, 3)).group_of(4, (0,))
        (1, 4)
        """
        return _group_of(self, rank, tuple(axes))

    def _digit(self, axis: Axis) -> tuple[int, int]:
        """The stride and the size of a (sub-)axis within the coordinates of its grid axis."""
        if isinstance(axis, SubAxis):
            return self._known(axis.axis) // axis.end, axis.size
        return 1, self._known(axis)

    def _known(self, axis: int) -> int:
        size = self.shape[axis]
        if size is None:
            raise ShardError(
                f"grid {as_symbol(self.name)} has an unknown size on axis {axis}: give its "
                "size to go on"
            )
        return size

    def __str__(self) -> str:
        return (
            f"{as_symbol(self.name)}({'x'.join('?' if s is None else str(s) for s in self.shape)})"
        )


def _default_name(axis: int) -> str:
    return f"axis_{axis}"


_PART = re.compile(r"(.*):\((\d+)\)(\d+)", re.DOTALL)
"""The name of a refined grid's axis, as `Grid.parts_named` gives it."""


def _of_whole(grid: Grid, axes: Axes) -> tuple[tuple[str, ...], Axes]:
    """The axes as those of the grid that `grid` is refined from, and the names of its axes."""
    names, parts = _whole(grid)
    if not any(isinstance(part, SubAxis) for part in parts):
        return names, axes
    joined: list[Axis] = []
    for axis in axes:
        part = parts[full_axis(axis)]
        if isinstance(axis, SubAxis):
            pre = part.pre if isinstance(part, SubAxis) else 1
            part = SubAxis(full_axis(part), pre * axis.pre, axis.size)
        before = joined[-1] if joined else None
        if isinstance(part, SubAxis) and isinstance(before, SubAxis) and follows(before, part):
            joined.pop()
            part = SubAxis(part.axis, before.pre, before.size * part.size)
        joined.append(_full_if_all(part, parts, grid))
    return names, tuple(joined)


def _full_if_all(part: Axis, parts: Axes, grid: Grid) -> Axis:
    if not isinstance(part, SubAxis) or part.pre > 1:
        return part
    size = grid.axes_size([axis for axis, each in enumerate(parts) if full_axis(each) == part.axis])
    return part.axis if part.size == size else part


@lru_cache(maxsize=1024)
def _whole(grid: Grid) -> tuple[tuple[str, ...], Axes]:
    """The names of the axes of the grid that `grid` is refined from, and its own axes as those.

    >>> names, axes = _whole(Grid("g", (2, 2, 2), ("x:(1)2", "x:(2)2", "y")))
    >>> names, axes_text(axes)
    (('x', 'y'), '["0:(1)2", "0:(2)2", 1]')
    """
    found = [_PART.fullmatch(name) for name in grid.axes]
    if not any(found):
        return grid.axes, tuple(range(grid.rank))
    bases = [part[1] if part else name for part, name in zip(found, grid.axes, strict=True)]
    numbered = all(base.isdecimal() for base in bases)
    names = () if numbered else tuple(dict.fromkeys(bases))
    axes: list[Axis] = []
    ends: dict[str, int] = {}
    for base, part, size in zip(bases, found, grid.sizes_along(range(grid.rank)), strict=True):
        pre = ends.get(base, 1)
        if part and (int(part[2]), int(part[3])) != (pre, size):
            return grid.axes, tuple(range(grid.rank))  # the user's own names
        ends[base] = pre * size
        number = int(base) if numbered else names.index(base)
        axes.append(SubAxis(number, pre, size) if part else number)
    return names, tuple(axes)


def _spelled(axis: Axis, names: Sequence[str]) -> str:
    """The one way in which an axis is spelled for people.

    >>> _spelled(SubAxis(1, 2, 4), ("x", "y"))
    'y:(2)4'
    """
    sub = f":({axis.pre}){axis.size}" if isinstance(axis, SubAxis) else ""
    return f"{names[full_axis(axis)]}{sub}"


@lru_cache(maxsize=1 << 14)
def _coordinates(shape: tuple[int | None, ...], rank: int) -> tuple[int, ...]:
    position = []
    for size in reversed(shape):
        assert size is not None, "who asks has looked"
        rank, coordinate = divmod(rank, size)
        position.append(coordinate)
    return tuple(reversed(position))


@lru_cache(maxsize=1024)
def _positions(device_ids: tuple[int, ...]) -> dict[int, int]:
    return {device: position for position, device in enumerate(device_ids)}


@lru_cache(maxsize=1024)
def _first_group(grid: Grid, axes: Axes) -> tuple[int, ...]:
    """The positions of the group of the first device.

    Adding the position of the first member of another group gives that group.
    """
    members = [0]
    for axis in axes:
        stride, size = grid._digit(axis)
        stride *= grid.axes_size(range(full_axis(axis) + 1, grid.rank))
        members = [first + index * stride for first in members for index in range(size)]
    return tuple(members)


@lru_cache(maxsize=4096)
def _group_of(grid: Grid, rank: int, axes: Axes) -> tuple[int, ...]:
    members = _first_group(grid, axes)
    position = _positions(grid.device_ids).get(rank, rank)
    first = position - members[grid.index_along(rank, axes)]
    return _devices([first + member for member in members], grid)


@lru_cache(maxsize=1024)
def _groups(grid: Grid, axes: Axes) -> tuple[tuple[int, ...], ...]:
    members = _first_group(grid, axes)
    seen: set[int] = set()
    groups = []
    for position in range(grid.size):
        if position not in seen:  # the first of its group
            group = [position + member for member in members]
            groups.append(_devices(group, grid))
            seen.update(group)
    return tuple(groups)


def _devices(positions: Sequence[int], grid: Grid) -> tuple[int, ...]:
    """The ranks of the devices at these positions."""
    ids = grid.device_ids
    return tuple([ids[position] for position in positions]) if ids else tuple(positions)
