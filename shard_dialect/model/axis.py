"""Grid axes and their sub-axes.

An axis of size 8 can be factored as [2, 4] or [2, 2, 2]. Each factor is a *sub-axis*. It is named
by its own size and by the product of the sizes major to it, its *pre-size*.

    "0:(1)2"    the major factor of axis 0: devices 0-3 against 4-7 of 8
    "0:(2)4"    the minor factor: the position within each half

Source: Shardy, SubAxisInfoAttr and AxisRefAttr (`"x":(1)2`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


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
