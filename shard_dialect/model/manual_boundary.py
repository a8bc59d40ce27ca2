"""A tensor at the edge of a manual computation: whole outside, a shard along some axes inside.

    outside [[0, 1], []]  <->  inside [[1], []]       axis 0 is manual

Inside, a tensor's global shape is that of the shard along the manual axes; it lies along the
others, the free axes. A dimension's manual axes are major to its free ones, and divide it.

Source: Shardy, ManualComputationOp.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shard_dialect.model.annotation import Annotation
from shard_dialect.model.axis import Axes, Axis, SubAxis, axes_text, in_order, whole
from shard_dialect.model.grid import Grid
from shard_dialect.model.refinement import Refinement
from shard_dialect.model.rule import ShardingRule
from shard_dialect.model.sharding import Shape, Sharding, ShardingError


@dataclass(frozen=True, slots=True)
class ManualBoundary:
    """`said` is how the tensor outside lies: along the `manual` axes, and as it is annotated."""

    said: Annotation
    manual: Axes
    grid: Grid

    def __post_init__(self) -> None:
        partial = [axis for axis in self.said.sharding.partial if whole(axis) not in self.manual]
        if partial:
            raise ShardingError(
                f"{self.said} is partial along {axes_text(partial)}, which are not manual axes"
            )

    @property
    def held(self) -> tuple[Axes, ...]:
        """The manual axes along which each dimension is a shard; those of size 1 cut nothing."""
        return tuple(
            tuple(axis for axis in axes if whole(axis) in self.manual and self._cuts(axis))
            for axes in self.said.sharding.split_axes
        )

    def _cuts(self, axis: Axis) -> bool:
        return self.grid.axes_size((axis,)) > 1

    @property
    def outside_said(self) -> Annotation:
        """What is said of the tensor outside; along other manual axes all devices have the same."""
        sharding = self.said.sharding
        split = tuple(
            tuple(axis for axis in axes if self._cuts(axis) or whole(axis) not in self.manual)
            for axes in sharding.split_axes
        )
        used = [axis for axes in split for axis in axes] + list(sharding.partial)
        barred = [rest for axis in self.manual for rest in _rest_of(axis, used, self.grid)]
        return replace(
            self.said,
            sharding=replace(sharding, split_axes=split),
            replicated=tuple({*self.said.replicated, *barred}),
        )

    def outside(self, inside: Sharding) -> Sharding:
        """How the tensor lies outside if its shard lies as `inside`.

        >>> edge = Edge(Annotation(Sharding("g", ((0,), ()))), (0,), Grid("g", (2, 2)))
        >>> print(edge.outside(Sharding("g", ((1,), ()))))
        [[0, 1], []]
        """
        split = zip(self.held, inside.split_axes, strict=True)
        return replace(
            self.said.sharding,
            grid=inside.grid,
            split_axes=tuple(held + free for held, free in split),
            halos=(),
            offsets=(),
        )

    def inside(self, outside: Sharding) -> Sharding:
        """How the shard lies, along the free axes, if the tensor does as `outside`."""
        split = []
        for held, axes in zip(self.held, outside.split_axes, strict=True):
            if axes[: len(held)] != held:
                raise ShardingError(f"{outside} does not begin with the manual axes of {self.said}")
            split.append(axes[len(held) :])
        return Sharding(outside.grid, tuple(split))

    def fitting(self, inside: Sharding, local: Shape) -> Sharding:
        """As much of `inside` as is the same shards outside: that divides what is a shard already.

        `local` is the shape inside.
        """
        split = []
        for held, axes, size in zip(self.held, inside.split_axes, local, strict=True):
            kept: list[Axis] = []
            for axis in axes:
                size, rest = divmod(size, self.grid.axes_size((axis,)))
                if held and rest:
                    break
                kept.append(axis)
            split.append(tuple(kept))
        return Sharding(inside.grid, tuple(split))

    def refined(self, fine: Refinement | None) -> ManualBoundary:
        """The same on a finer grid, if there is one."""
        if fine is None:
            return self
        said = Annotation(fine.refined(self.said.sharding))
        return ManualBoundary(said, fine.refined_axes(self.manual), fine.fine)

    def rule(self, shape: Shape, into: bool) -> ShardingRule:
        """How dimensions outside, of a tensor of `shape`, are those inside; `into` the region.

        Those outside are made of the manual axes' shards, and of what one of these holds.

        >>> edge = Edge(Annotation(Sharding("g", ((0,), ()))), (0,), Grid("g", (2, 2)))
        >>> print(edge.rule((8, 4), into=True))
        ([ab, c]) -> ([b, c])
        """
        sizes: list[int] = []
        outer: list[tuple[int, ...]] = []
        inner: list[tuple[int, ...]] = []
        for size, held in zip(shape, self.held, strict=True):
            count = self.grid.axes_size(held)
            dim = (len(sizes), len(sizes) + 1) if held else (len(sizes),)
            sizes += [count, size // count] if held else [size]
            outer.append(dim)
            inner.append(dim[-1:])
        source, target = (outer, inner) if into else (inner, outer)
        return ShardingRule(tuple(sizes), (tuple(source),), (tuple(target),), role="pass")

    @property
    def pinned(self) -> tuple[tuple[int, Axes], ...]:
        """The factors of `rule` that are shards along manual axes, with these."""
        found = []
        number = 0
        for held in self.held:
            if held:
                found.append((number, held))
            number += 2 if held else 1
        return tuple(found)


def _rest_of(axis: Axis, used: list[Axis], grid: Grid) -> Axes:
    """What is left of a grid axis beside the parts of it that are `used`.

    >>> _rest_of(0, [SubAxis(0, 2, 2)], Grid("g", (8,)))
    (SubAxis(axis=0, pre=1, size=2), SubAxis(axis=0, pre=4, size=2))
    """
    number = whole(axis)
    parts = sorted((each for each in used if whole(each) == number), key=in_order)
    if not parts:
        return (number,)
    rest: list[Axis] = []
    end = 1
    for part in parts:
        if not isinstance(part, SubAxis):
            return ()
        if part.pre > end:
            rest.append(SubAxis(number, end, part.pre // end))
        end = part.end
    full = grid.axes_size((number,))
    if full > end:
        rest.append(SubAxis(number, end, full // end))
    return tuple(rest)
