"""From the sharding of a tensor's dimensions to that of a rule's factors, and back.

    rule ([ij]) -> ([i, j]) {i=2, j=4}, grid axes x=4 and y=2

    operand [{x, y}]        x:(1)2 splits i; x:(2)2 and then y split j
    result  [{?}, {?}]      neither is split

This module writes every axis as a sub-axis (number, pre-size, size), full axes included.

Source: Shardy, docs/propagation.md and sharding_projection.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

from shard_dialect.model.grid import Axes, Grid, SubAxis
from shard_dialect.model.sharding import Reduction, Sharding, Sizes

Dims = tuple[tuple[int, ...], ...]
"""The factors of each dimension of a tensor, major to minor."""
SubAxisTriple = tuple[int, int, int]
"""Grid axis, pre-size, size."""
SubAxisTriples = tuple[SubAxisTriple, ...]


@lru_cache(maxsize=4096)
def sub_axes_of(axes: Axes, grid: Grid) -> SubAxisTriples:
    """The axes as triples.

    >>> sub_axes_of((1, SubAxis(0, 2, 2)), Grid("g", (4, 2)))
    ((1, 1, 2), (0, 2, 2))
    """
    return tuple(
        (axis.axis, axis.pre, axis.size)
        if isinstance(axis, SubAxis)
        else (axis, 1, grid.axes_size((axis,)))
        for axis in axes
    )


def axes_of(sub_axes: Iterable[SubAxisTriple], grid: Grid) -> Axes:
    """The inverse of `sub_axes_of`; adjacent sub-axes that follow each other become one.

    >>> axes_of(((0, 1, 2), (0, 2, 2), (1, 1, 1)), Grid("g", (4, 2)))
    (0, SubAxis(axis=1, pre=1, size=1))
    """
    merged: list[SubAxisTriple] = []
    for axis, pre, size in sub_axes:
        if merged and merged[-1][0] == axis and merged[-1][1] * merged[-1][2] == pre:
            before = merged.pop()
            merged.append((axis, before[1], before[2] * size))
        else:
            merged.append((axis, pre, size))
    return tuple(
        axis if size == grid.axes_size((axis,)) else SubAxis(axis, pre, size)
        for axis, pre, size in merged
    )


def overlaps(a: SubAxisTriple, b: SubAxisTriple) -> bool:
    """Whether the two share a factor of one grid axis; an axis of size 1 overlaps itself.

    >>> overlaps((0, 1, 4), (0, 2, 4)), overlaps((0, 1, 2), (0, 2, 4))
    (True, False)
    >>> overlaps((1, 1, 1), (1, 1, 1))
    True
    """
    return a[0] == b[0] and (a == b or (a[1] < b[1] * b[2] and b[1] < a[1] * a[2]))


def crosses(a: SubAxisTriple, b: SubAxisTriple) -> bool:
    """Whether no refinement of the axis has both: the boundaries of one do not divide the other's.

    >>> crosses((0, 1, 2), (0, 5, 2)), crosses((0, 1, 2), (0, 4, 2)), crosses((0, 1, 4), (0, 2, 4))
    (True, False, False)
    """
    if a[0] != b[0]:
        return False
    bounds = sorted((a[1], a[1] * a[2], b[1], b[1] * b[2]))
    return any(bounds[index + 1] % bounds[index] for index in range(3))


def without(sub_axis: SubAxisTriple, others: Iterable[SubAxisTriple]) -> SubAxisTriple | None:
    """The largest major factor of `sub_axis` that none of `others` overlaps, if there is one.

    There is none beside a sub-axis that `sub_axis` crosses.

    >>> without((0, 1, 8), [(0, 4, 2)]), without((0, 2, 4), [(0, 1, 4)])
    ((0, 1, 4), None)
    >>> without((0, 1, 2), [(0, 5, 2)])
    """
    axis, pre, size = sub_axis
    for other in others:
        if other[0] != axis:
            continue
        if crosses((axis, pre, size), other):
            return None
        if overlaps((axis, pre, size), other):
            if other[1] <= pre:
                return None
            size = other[1] // pre
    return (axis, pre, size)


def begins(short: SubAxisTriple, long: SubAxisTriple) -> bool:
    """Whether `short` is `long` or a major factor of it."""
    return short[0] == long[0] and short[1] == long[1] and short[2] <= long[2]


def is_prefix(short: SubAxisTriples, long: SubAxisTriples) -> bool:
    """Whether `short` is a prefix of `long`, where its last sub-axis may be a major factor.

    >>> is_prefix(((0, 1, 2),), ((0, 1, 4), (1, 1, 2))), is_prefix(((1, 1, 2),), ((0, 1, 4),))
    (True, False)
    """
    if not short:
        return True
    if len(short) > len(long) or short[:-1] != long[: len(short) - 1]:
        return False
    return begins(short[-1], long[len(short) - 1])


def joint(a: SubAxisTriples, b: SubAxisTriples, may_grow: bool) -> tuple[SubAxisTriples, bool]:
    """The longest split that agrees with both, and whether a third split may still extend it.

    Where the two diverge, the result is their common prefix. Without `may_grow`, `b` does not
    extend `a`.

    >>> x, y, z = (0, 1, 4), (1, 1, 2), (2, 1, 2)
    >>> joint((x,), (x, y), True)
    (((0, 1, 4), (1, 1, 2)), True)
    >>> joint((x, y), (x, z), True)
    (((0, 1, 4),), False)
    """
    if not a or a == b:
        return (b if may_grow else a), may_grow
    common: list[SubAxisTriple] = []
    for index in range(min(len(a), len(b))):
        first, second = a[index], b[index]
        if first == second:
            common.append(first)
        elif begins(second, first):
            if len(b) > index + 1:
                return (*common, second), False
            common.append(first)
        elif begins(first, second):
            if not may_grow or len(a) > index + 1:
                return (*common, first), False
            common.append(second)
        else:
            return tuple(common), False
    rest = a[len(b) :] or (b[len(a) :] if may_grow else ())
    return (*common, *rest), may_grow


@dataclass(slots=True)
class FactorSplit:
    """How one tensor splits one factor.

    `overflow` are the remaining axes of the dimension that do not divide the factor, where other
    factors follow it. They stay with the dimension, and the factor cannot be split further.
    """

    axes: SubAxisTriples = ()
    overflow: SubAxisTriples = ()
    is_closed: bool = False
    is_minor: bool = True
    """Whether the factor is the last of its dimension, so that it may be split unevenly."""


def project(
    dims: Sequence[tuple[int, ...]],
    sizes: Sequence[int],
    split: Sequence[SubAxisTriples],
    closed: Sequence[bool],
) -> dict[int, FactorSplit]:
    """How a tensor splits each factor.

    For each dimension, `dims` has its factors, `split` its axes, and `closed` whether it is closed.
    `sizes` has the size of each factor of the rule.
    """
    splits: dict[int, FactorSplit] = {}
    for factors, sub_axes, is_closed in zip(dims, split, closed, strict=True):
        if len(factors) == 1:
            splits[factors[0]] = FactorSplit(sub_axes, (), is_closed)
            continue
        left = list(sub_axes)
        overflowed = False
        for factor in factors:
            here = splits[factor] = FactorSplit(is_closed=is_closed or overflowed)
            here.is_minor = factor == factors[-1]
            if overflowed:
                continue
            if here.is_minor:
                here.axes = tuple(left)
                break
            here.axes, rest, room = _fill(sizes[factor], left)
            left = rest
            if room > 1 and left:
                here.overflow, overflowed = tuple(left), True
    return splits


def _fill(
    size: int, sub_axes: Sequence[SubAxisTriple]
) -> tuple[SubAxisTriples, list[SubAxisTriple], int]:
    """The axes that split a factor of `size`, the axes that remain, and the size still unsplit."""
    taken: list[SubAxisTriple] = []
    left = list(sub_axes)
    while left:
        axis, pre, count = left[0]
        common = gcd(size, count)
        if common == 1 and count != 1:
            break
        taken.append((axis, pre, common))
        size //= common
        left[0] = (axis, pre * common, count // common)
        if left[0][2] == 1:
            del left[0]
    return tuple(taken), left, size


def unproject(
    dims: Sequence[tuple[int, ...]], sizes: Sequence[int], factors: dict[int, FactorSplit]
) -> tuple[SubAxisTriples, ...]:
    """The axes of each dimension: the inverse of `project`.

    After a factor that is not fully split, the axes of later factors are dropped: the shards would
    be strided.
    """
    return tuple(_dimension(each, sizes, factors) for each in dims)


def _dimension(
    dim: tuple[int, ...], sizes: Sequence[int], factors: dict[int, FactorSplit]
) -> SubAxisTriples:
    sub_axes: list[SubAxisTriple] = []
    for factor in dim:
        here = factors[factor]
        sub_axes += [*here.axes, *here.overflow]
        count = 1
        for _, _, size in here.axes:
            count *= size
        if here.overflow or count != sizes[factor]:
            break
    return tuple(sub_axes)


@dataclass(frozen=True, slots=True)
class Extents:
    """Shards of factors that are not equal, up to padding: they begin at offsets, or have halos.

    Both are by factor; `fill` says what halos hold at the ends. For the rule ([i, j]) -> ([i, j])
    with i split along axis 0

        offsets=((0, (0, 3, 4)),)    both tensors [[0], [], {offsets = [[0, 3, 4], []]}]
        halos=((0, (1, 2)),)         both tensors [[0], [], {halo = [[1, 2], []]}]
    """

    offsets: tuple[tuple[int, Sizes], ...] = ()
    halos: tuple[tuple[int, tuple[int, int]], ...] = ()
    fill: Reduction = "sum"

    def __bool__(self) -> bool:
        return bool(self.offsets or self.halos)

    @classmethod
    def of(
        cls, tensors: Iterable[tuple[Dims | None, Sharding | None]], sizes: Sequence[int]
    ) -> Extents:
        """The extents of the factors of tensors: of each factor the first that a tensor has.

        `sizes` has the size of each factor. In a dimension of several factors, the first one has
        the offsets, if they are between its indices.

        >>> sharding = Sharding("g", ((0,), ()), offsets=((0, 6, 8), ()))
        >>> Extents.of([(((0,), (1,)), sharding)], (8, 3)).offsets
        ((0, (0, 6, 8)),)
        >>> Extents.of([(((0, 1), (2,)), sharding)], (4, 2, 3)).offsets
        ((0, (0, 3, 4)),)
        """
        offsets: dict[int, Sizes] = {}
        halos: dict[int, tuple[int, int]] = {}
        fill: Reduction = "sum"
        for dims, sharding in tensors:
            if dims is None or sharding is None or not (sharding.offsets or sharding.halos):
                continue
            for dim, factors in enumerate(dims):
                if factors and sharding.offsets and sharding.offsets[dim]:
                    inner = prod(sizes[factor] for factor in factors[1:])
                    at = sharding.offsets[dim]
                    if not any(each % inner for each in at if each is not None):
                        at = tuple(None if each is None else each // inner for each in at)
                        offsets.setdefault(factors[0], at)
                for factor in factors if any(sharding.halo(dim)) else ():
                    halos.setdefault(factor, sharding.halo(dim))
                    fill = sharding.fill
        return cls(tuple(sorted(offsets.items())), tuple(sorted(halos.items())), fill)

    def with_halos(self, dims: Dims, sharding: Sharding) -> Sharding:
        """The sharding of a tensor with the factors `dims`, with the halos of these factors."""
        halos = dict(self.halos)
        for dim, axes in enumerate(sharding.split_axes):
            for factor in dims[dim] if axes else ():
                if factor in halos:
                    sharding = sharding.with_halo(dim, halos[factor], self.fill)
        return sharding


EQUAL = Extents()
