"""A tensor that enters or leaves a manual computation.

    outside [[0, 1], []]  <->  inside [[1], []]       axis 0 is manual

Outside, the tensor has its global shape. Inside, it has its local shape along the manual axes, and
only the other axes, the free axes, split it further. In each dimension the manual axes are major to
the free ones, and their size divides the dimension.

Source: Shardy, ManualComputationOp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shard_dialect.model.annotation import Annotation
from shard_dialect.model.grid import Axes, Axis, Grid, SubAxis, axes_text, full_axis, in_order
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.rule import ShardingRule
from shard_dialect.model.sharding import Shape, Sharding, ShardingError


@dataclass(frozen=True, slots=True)
class ManualBoundary:
    """`annotation` is the annotation of the tensor outside, with the `manual` axes that split it.

    Raises `ShardingError` if it is partial over an axis that is not manual.
    """

    annotation: Annotation
    manual: Axes
    grid: Grid

    def __post_init__(self) -> None:
        partial = [
            axis for axis in self.annotation.sharding.partial if full_axis(axis) not in self.manual
        ]
        if partial:
            raise ShardingError(
                f"{self.annotation} is partial along {axes_text(partial)}, which are not manual "
                "axes"
            )

    @property
    def manual_split_axes(self) -> tuple[Axes, ...]:
        """The manual axes that split each dimension, without those of size 1."""
        return tuple(
            tuple(axis for axis in axes if full_axis(axis) in self.manual and self._splits(axis))
            for axes in self.annotation.sharding.split_axes
        )

    def _splits(self, axis: Axis) -> bool:
        return self.grid.axes_size((axis,)) > 1

    @property
    def outside_annotation(self) -> Annotation:
        """The annotation outside: replicated along manual axes that do not split the tensor.

        >>> grid = Grid("g", (4, 4))
        >>> annotation = Annotation(Sharding("g", ((0,),)), replicated=(SubAxis(1, 2, 2),))
        >>> print(ManualBoundary(annotation, (0, 1), grid).outside_annotation)
        [[0], {replicated = [1]}]
        """
        sharding = self.annotation.sharding
        split = tuple(
            tuple(axis for axis in axes if self._splits(axis) or full_axis(axis) not in self.manual)
            for axes in sharding.split_axes
        )
        used = [axis for axes in split for axis in axes] + list(sharding.partial)
        replicated = [
            *(axis for axis in self.annotation.replicated if full_axis(axis) not in self.manual),
            *(rest for axis in self.manual for rest in _rest_of(axis, used, self.grid)),
        ]
        return replace(
            self.annotation,
            sharding=replace(sharding, split_axes=split),
            replicated=tuple(dict.fromkeys(replicated)),
        )

    def outside(self, inside: Sharding) -> Sharding:
        """The sharding outside, for the sharding `inside` along the free axes.

        >>> annotation = Annotation(Sharding("g", ((0,), ())))
        >>> boundary = ManualBoundary(annotation, (0,), Grid("g", (2, 2)))
        >>> print(boundary.outside(Sharding("g", ((1,), ()))))
        [[0, 1], []]
        """
        split = zip(self.manual_split_axes, inside.split_axes, strict=True)
        return replace(
            self.annotation.sharding,
            grid=inside.grid,
            split_axes=tuple(manual_axes + free for manual_axes, free in split),
            halos=(),
            offsets=(),
        )

    def inside(self, outside: Sharding) -> Sharding:
        """The sharding inside, along the free axes, for the sharding `outside`.

        Raises `ShardingError` if a dimension of `outside` does not begin with its manual axes.
        """
        split = []
        for manual_axes, axes in zip(self.manual_split_axes, outside.split_axes, strict=True):
            if axes[: len(manual_axes)] != manual_axes:
                raise ShardingError(
                    f"{outside} does not begin with the manual axes of {self.annotation}"
                )
            split.append(axes[len(manual_axes) :])
        return Sharding(outside.grid, tuple(split))

    def fitting(self, inside: Sharding, local: Shape) -> Sharding:
        """The major axes of `inside` that give the same shards outside.

        `local` is the shape inside. A dimension that manual axes split keeps only axes that divide
        it. A tensor that is on another grid inside keeps none.
        """
        if inside.grid != self.grid.name:
            return Sharding.replicated(self.grid.name, len(inside.split_axes))
        split = []
        for manual_axes, axes, size in zip(
            self.manual_split_axes, inside.split_axes, local, strict=True
        ):
            kept: list[Axis] = []
            for axis in axes:
                size, rest = divmod(size, self.grid.axes_size((axis,)))
                if manual_axes and rest:
                    break
                kept.append(axis)
            split.append(tuple(kept))
        return Sharding(inside.grid, tuple(split))

    def refined(self, fine: Refinement | None) -> ManualBoundary:
        """The same boundary on the finer grid; itself where `fine` is `None`."""
        if fine is None:
            return self
        annotation = Annotation(fine.refined(self.annotation.sharding))
        return ManualBoundary(annotation, fine.refined_axes(self.manual), fine.fine)

    def rule(self, shape: Shape, into: bool) -> ShardingRule:
        """The sharding rule between the dimensions of a tensor of `shape` outside and inside.

        Its operand is outside where `into` (the region) is true, else inside. A dimension that
        manual axes split has two factors outside: the number of shards, and the size of one shard.

        >>> annotation = Annotation(Sharding("g", ((0,), ())))
        >>> boundary = ManualBoundary(annotation, (0,), Grid("g", (2, 2)))
        >>> print(boundary.rule((8, 4), into=True))
        ([ab, c]) -> ([b, c])
        """
        sizes: list[int] = []
        outer: list[tuple[int, ...]] = []
        inner: list[tuple[int, ...]] = []
        for size, manual_axes in zip(shape, self.manual_split_axes, strict=True):
            count = self.grid.axes_size(manual_axes)
            dim = (len(sizes), len(sizes) + 1) if manual_axes else (len(sizes),)
            sizes += [count, size // count] if manual_axes else [size]
            outer.append(dim)
            inner.append(dim[-1:])
        source, target = (outer, inner) if into else (inner, outer)
        return ShardingRule(tuple(sizes), (tuple(source),), (tuple(target),), role="pass")

    @property
    def pinned(self) -> tuple[tuple[int, Axes], ...]:
        """The factors of `rule` that the manual axes split, each with those axes."""
        pinned = []
        number = 0
        for manual_axes in self.manual_split_axes:
            if manual_axes:
                pinned.append((number, manual_axes))
            number += 2 if manual_axes else 1
        return tuple(pinned)


def _rest_of(axis: Axis, used: list[Axis], grid: Grid) -> Axes:
    """The sub-axes of a grid axis that none of the `used` axes overlaps.

    >>> _rest_of(0, [SubAxis(0, 2, 2)], Grid("g", (8,)))
    (SubAxis(axis=0, pre=1, size=2), SubAxis(axis=0, pre=4, size=2))
    """
    number = full_axis(axis)
    sub_axes = sorted((each for each in used if full_axis(each) == number), key=in_order)
    if not sub_axes:
        return (number,)
    rest: list[Axis] = []
    end = 1
    for sub_axis in sub_axes:
        if not isinstance(sub_axis, SubAxis):
            return ()
        if sub_axis.pre > end:
            rest.append(SubAxis(number, end, sub_axis.pre // end))
        end = sub_axis.end
    full = grid.axes_size((number,))
    if full > end:
        rest.append(SubAxis(number, end, full // end))
    return tuple(rest)
