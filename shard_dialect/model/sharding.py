"""The sharding of one tensor on a grid.

The notation is the RFC's. It lists, for each dimension, the grid axes that split it, major to
minor. If the tensor is a partial sum, a last list has the axes over which it is partial.

    [[], [0]]           of a matrix: columns split along grid axis 0, rows unsplit
    [[1, 0], []]        rows split along axis 1, each shard split again along axis 0
    [[], [1], [0]]      columns split along axis 1; the tensor is the sum along axis 0
    [[], [], {max = [0]}]    the tensor is the maximum along axis 0
    [["0:(1)2"], []]    rows split along the major sub-axis of size 2 of axis 0 (`model.grid`)
    [[0], [], {halo = [[1, 2], []]}]    each device also holds the last row of the shard before
                        its own, and the first two of the shard after
    [[0], [], {fill = "max", halo = [[1, 2], []]}]    the halo at the ends of the tensor holds the
                        identity of max, instead of zeros
    [[0], [], {offsets = [[0, 3, 4], []]}]    rows 0 to 2 on one device, row 3 on the other

Source: RFC "Sharding Framework Design for Device Mesh", MeshShardingAttr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import gcd, prod
from typing import Literal, Protocol, get_args

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.model.grid import (
    Axes,
    Axis,
    Grid,
    SubAxis,
    axes_text,
    first_overlap,
    follows,
    full_axis,
    in_order,
    major_sub_axis,
)
from shard_dialect.model.notebook_html import table_html

Reduction = Literal[
    "sum", "max", "min", "product", "average", "bitwise_and", "bitwise_or", "bitwise_xor"
]
"""Upstream's reduction kinds, without `generic`."""
REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)

Shape = tuple[int, ...]
Sizes = tuple[int | None, ...]
"""`None` is a size that is only known when the program runs."""


class ShardingError(ShardError):
    """The sharding is invalid, for all tensors or for this one."""


@dataclass(frozen=True, slots=True)
class Sharding:
    """The sharding of a tensor of rank `len(split_axes)` over the grid named `grid`.

    The tensor is replicated along axes that neither split it nor are partial. `reduction` combines
    the shards along the `partial` axes, and is "sum" where there are none. The order of the partial
    axes has no meaning: they are sorted.

    `halos` has, for each dimension, how many elements before and after its shard a device holds.
    `offsets` has, for each dimension, where each shard begins, and where the last one ends. Both
    have () for a dimension without, as with a halo of no elements, and are () where no dimension
    has any. No dimension has both. A halo beyond the end of the tensor holds the identity of the
    reduction `fill`: zeros for "sum".

    Raises `ShardingError` if an axis is negative or used twice, or halos or offsets are invalid.
    """

    grid: str
    split_axes: tuple[Axes, ...]
    partial: Axes = ()
    reduction: Reduction = "sum"
    halos: tuple[Sizes, ...] = ()
    offsets: tuple[Sizes, ...] = ()
    fill: Reduction = "sum"
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        """Worked out once, since passes look shardings up all the time."""
        return self._hash

    def __post_init__(self) -> None:
        try:
            self._complete()
        except TypeError:
            raise ShardingError(
                f"split axes {self.split_axes!r} are no tuple of tuples of axes, as ((0,), ())"
            ) from None

    def _complete(self) -> None:
        for axis in self.axes:
            if full_axis(axis) < 0:
                raise ShardingError(f"grid axis {axis} is negative in sharding {self}")
        both = first_overlap(self.axes)
        if both is not None and both[0] == both[1]:
            raise ShardingError(f"grid axis {both[0]} is used twice in sharding {self}")
        if both is not None:
            raise ShardingError(f"grid axes {both[0]} and {both[1]} overlap in sharding {self}")
        object.__setattr__(self, "partial", tuple(sorted(self.partial, key=in_order)))
        if not self.partial:
            object.__setattr__(self, "reduction", "sum")
        if (0, 0) in self.halos:
            halos = tuple(() if each == (0, 0) else each for each in self.halos)
            object.__setattr__(self, "halos", halos)
        if not any(self.halos):
            object.__setattr__(self, "halos", ())
            object.__setattr__(self, "fill", "sum")
        if not any(self.offsets):
            object.__setattr__(self, "offsets", ())
        if self.halos or self.offsets:
            self._check_shards()
        # Of integers only, whose hashes are the same in all processes: shardings are pickled.
        object.__setattr__(self, "_hash", hash((self.split_axes, self.partial)))

    def _check_shards(self) -> None:
        """Raise `ShardingError` unless halos and offsets are valid sizes of split dimensions."""
        if any(map(all, zip(self.halos, self.offsets, strict=False))):
            raise ShardingError(
                f"both a halo and offsets of a dimension in sharding {self}: expected one of them"
            )
        for sizes_by_dim in filter(None, (self.halos, self.offsets)):
            if len(sizes_by_dim) != self.rank:
                raise ShardingError(
                    f"sizes for {len(sizes_by_dim)} dimensions in sharding {self}: expected "
                    f"{self.rank}"
                )
            for axes, sizes in zip(self.split_axes, sizes_by_dim, strict=True):
                self._check_sizes(axes, sizes)
        for sizes in filter(None, self.halos):
            if len(sizes) != 2:
                raise ShardingError(f"halo {_sizes_text(sizes)} in {self}: expected two sizes")
        for sizes in filter(None, self.offsets):
            known = [size for size in sizes if size is not None]
            if known != sorted(known) or sizes[0] not in (0, None):
                raise ShardingError(
                    f"offsets {_sizes_text(sizes)} in {self}: expected to grow from 0"
                )

    def _check_sizes(self, axes: Axes, sizes: Sizes) -> None:
        if sizes and not axes:
            raise ShardingError(f"sizes of a dimension that is not split in sharding {self}")
        least = min((size for size in sizes if size is not None), default=0)
        if least < 0:
            raise ShardingError(f"size {least} is negative in sharding {self}")

    @classmethod
    def replicated(cls, grid: str, rank: int) -> Sharding:
        """The sharding with which every device holds the global tensor.

        >>> str(Sharding.replicated("g", 2))
        '[[], []]'
        """
        return cls(grid, ((),) * rank)

    @property
    def rank(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.split_axes)

    @property
    def axes(self) -> Axes:
        """Every axis that splits the tensor, in order, and then the partial axes."""
        return tuple(axis for axes in self.split_axes for axis in axes) + self.partial

    @property
    def is_replicated(self) -> bool:
        """Whether no axis splits the tensor or is partial."""
        return not self.axes

    @property
    def bare(self) -> Sharding:
        """The same sharding without halos."""
        return replace(self, halos=()) if self.halos else self

    @property
    def is_plain(self) -> bool:
        """Whether it only splits dimensions: without halos, offsets and partial values."""
        return not (self.halos or self.offsets or self.partial)

    def halo(self, dim: int) -> tuple[int, int]:
        """The elements of `dim` that a device holds before and after its shard.

        Raises `ShardingError` if they are not known before the program runs.
        """
        low, high = (self.halos[dim] if self.halos else ()) or (0, 0)
        if low is None or high is None:
            raise ShardingError(f"a halo in sharding {self} is not known before the program runs")
        return low, high

    def with_halo(self, dim: int, halo: tuple[int, int], fill: Reduction) -> Sharding:
        """The same sharding with this halo, before and after, of dimension `dim`."""
        halos = list(self.halos or ((),) * self.rank)
        halos[dim] = halo if any(halo) else ()
        return replace(self, halos=tuple(halos), fill=fill)

    def with_dim(self, dim: int, axes: Sequence[Axis], offsets: Sizes = ()) -> Sharding:
        """The same sharding with dimension `dim` split along `axes`, at `offsets` if any."""
        split = (*self.split_axes[:dim], tuple(axes), *self.split_axes[dim + 1 :])
        if not self.offsets and not offsets:
            # Not by `replace`, which takes longer than all else here.
            partial, reduction = self.partial, self.reduction
            return Sharding(self.grid, split, partial, reduction, self.halos, (), self.fill)
        all_offsets = list(self.offsets or ((),) * self.rank)
        all_offsets[dim] = offsets
        return replace(self, split_axes=split, offsets=tuple(all_offsets))

    def with_partial(self, axes: Sequence[Axis], reduction: Reduction = "sum") -> Sharding:
        """The same sharding with these partial axes."""
        return replace(self, partial=tuple(axes), reduction=reduction)

    def check(self, grid: Grid, rank: int) -> None:
        """Raise `ShardingError` if a tensor with `rank` dimensions on `grid` cannot have this."""
        if self.rank > rank:
            raise ShardingError(
                f"sharding {self.text(grid)} has split axes for {self.rank} dimensions, "
                f"but the tensor has {rank}"
            )
        for axes in (*self.split_axes, self.partial):
            check_axes(axes, grid, self)
        for dim, sizes in enumerate(self.offsets):
            axes = self.split_axes[dim]
            if sizes and _is_known(axes, grid) and len(sizes) != grid.axes_size(axes) + 1:
                raise ShardingError(
                    f"{len(sizes)} offsets of dimension {dim} in sharding {self}: expected "
                    f"{grid.axes_size(axes) + 1}, for {grid.axes_size(axes)} devices"
                )

    def check_offsets(self, shape: Shape) -> None:
        """Raise `ShardingError` unless the last offset of each dimension is its size in `shape`."""
        for size, offsets in zip(shape, self.offsets, strict=False):
            if offsets and size >= 0 and offsets[-1] not in (size, None):
                raise ShardingError(
                    f"offsets {_sizes_text(offsets)} in {self} end at {offsets[-1]}: expected the "
                    f"dimension's size, {size}"
                )

    def check_sizes_known(self) -> None:
        """Raise `ShardingError` for halos and offsets that are known only when the program runs."""
        if not self.halos and not self.offsets:  # as nearly always
            return
        for sizes, what in ((self.halos, "halos"), (self.offsets, "offsets")):
            if any(None in each for each in sizes):
                raise ShardingError(
                    f"cannot shard a tensor as {self}: write its {what} as numbers or constants, "
                    "or give arguments values by --specialize (run: --scalars); the shapes of "
                    "shards must be known before the program runs"
                )

    def uneven_dim(self, shape: Shape, grid: Grid) -> int | None:
        """The first dimension that is uneven or has offsets; `None` if there is none."""
        for dim, axes in enumerate(self.split_axes):
            if axes and (shape[dim] % grid.axes_size(axes) or (self.offsets and self.offsets[dim])):
                return dim
        return None

    def without_needless_offsets(self, shape: Shape, grid: Grid) -> Sharding:
        """The same sharding without offsets that equal the default bounds of the shards.

        >>> sharding = Sharding("g", ((0,), ()), offsets=((0, 3, 5), ()))
        >>> str(sharding.without_needless_offsets((5, 4), Grid("g", (2,))))
        '[[0], []]'
        """
        sharding = self
        for dim, offsets in enumerate(self.offsets):
            without_offsets = sharding.with_dim(dim, self.split_axes[dim])
            if (
                offsets
                and None not in offsets
                and offsets == without_offsets.bounds(dim, shape[dim], grid)
            ):
                sharding = without_offsets
        return sharding

    def with_offsets_everywhere(self, shape: Shape, grid: Grid) -> Sharding:
        """The same sharding with offsets in each split dimension, needless ones included.

        >>> sharding = Sharding("g", ((0,), (1,)), offsets=((0, 3, 5), ()))
        >>> sharding.with_offsets_everywhere((5, 4), Grid("g", (2, 2))).offsets
        ((0, 3, 5), (0, 2, 4))
        """
        offsets = self.offsets or ((),) * self.rank
        return replace(
            self,
            offsets=tuple(
                at or (self.bounds(dim, shape[dim], grid) if axes else ())
                for dim, (at, axes) in enumerate(zip(offsets, self.split_axes, strict=True))
            ),
        )

    def bounds(self, dim: int, size: int, grid: Grid) -> tuple[int, ...]:
        """Where each shard of dimension `dim`, of size `size`, begins, and where the last one ends.

        Raises `ShardingError` if an offset is not known before the program runs.

        >>> Sharding("g", ((0,),)).bounds(0, 5, Grid("g", (4,)))
        (0, 2, 4, 5, 5)
        """
        offsets = self.offsets[dim] if self.offsets else ()
        known = tuple(offset for offset in offsets if offset is not None)
        if len(known) < len(offsets):
            raise ShardingError(f"an offset in {self} is not known before the program runs")
        if known:
            return known
        count = grid.axes_size(self.split_axes[dim])
        shard = -(-size // count)
        return tuple(min(shard * device, size) for device in range(count + 1))

    def without_uneven_axes(self, shape: Shape, grid: Grid, most_padding: float = 0) -> Sharding:
        """The sharding with only those major axes, or factors of axes, that divide each dimension.

        A dimension whose shards begin at offsets keeps its axes: the offsets are annotated. So does
        a dimension that gets at most `most_padding` times its elements as padding.

        >>> grid = Grid("g", (4, 2))
        >>> str(Sharding("g", ((0, 1), ())).without_uneven_axes((6, 3), grid))
        '[["0:(1)2"], []]'
        """
        if self.uneven_dim(shape, grid) is None:
            return self
        split = []
        for dim, (size, axes) in enumerate(zip(shape, self.split_axes, strict=True)):
            devices = grid.axes_size(axes)
            stays = bool(self.offsets and self.offsets[dim]) or (
                -size % devices <= most_padding * size
            )
            kept: list[Axis] = list(axes) if stays else []
            for axis in axes if not stays else ():
                common = gcd(size, grid.axes_size((axis,)))
                kept += (
                    [major_sub_axis(axis, common, grid.axes_size((axis,)))] if common > 1 else []
                )
                size //= common
                if common < grid.axes_size((axis,)):
                    break
            split.append(tuple(kept))
        halos = tuple(
            halo if axes == kept_axes else ()
            for halo, axes, kept_axes in zip(self.halos, self.split_axes, split, strict=False)
        )
        return replace(self, split_axes=tuple(split), halos=halos)

    def local_shape(self, shape: Shape, grid: Grid) -> Shape:
        """The shape of one device's shard of a tensor of global `shape`.

        In an uneven dimension this is the largest shard, that of the first device; the last shards
        are padded at their end to this size. Halos are included.

        >>> Sharding("g", ((), (0, 1))).local_shape((3, 16), Grid("g", (2, 4)))
        (3, 2)
        >>> Sharding("g", ((0,),)).local_shape((5,), Grid("g", (4,)))
        (2,)
        """
        sizes = [
            -(-size // grid.axes_size(axes)) + sum(self.halo(dim))
            for dim, (size, axes) in enumerate(zip(shape, self.split_axes, strict=True))
        ]
        for dim, offsets in enumerate(self.offsets):
            if offsets:
                bounds = self.bounds(dim, shape[dim], grid)
                sizes[dim] = max(end - begin for begin, end in pairwise(bounds))
        return tuple(sizes)

    def manual_shape(self, shape: Shape, manual: Sequence[Axis], grid: Grid) -> Shape:
        """The local shape along the grid axes in `manual` only; unknown sizes are negative.

        Raises `ShardingError` unless the manual axes are the major axes of each dimension and
        divide it. Source: Shardy, ManualComputationOp.
        """
        sizes = []
        for dim, (size, axes) in enumerate(zip(shape, self.split_axes, strict=True)):
            here = [full_axis(axis) in manual for axis in axes]
            if here != sorted(here, reverse=True):
                raise ShardingError(f"a manual axis after a free one in dimension {dim} of {self}")
            count = grid.axes_size([axis for axis in axes if full_axis(axis) in manual])
            if size >= 0 and size % count:
                raise ShardingError(
                    f"dimension {dim} of size {size} cannot be split evenly into {count} shards"
                )
            sizes.append(size if size < 0 else size // count)
        return tuple(sizes)

    def shard(self, rank: int, shape: Shape, grid: Grid) -> tuple[slice, ...]:
        """The slice of a tensor of global `shape` that device `rank` holds: no halos, no padding.

        >>> Sharding("g", ((0,),)).shard(2, (5,), Grid("g", (4,)))
        (slice(4, 5, None),)
        """
        devices = [grid.index_along(rank, axes) for axes in self.split_axes]
        bounds = [self.bounds(dim, size, grid) for dim, size in enumerate(shape)]
        return tuple(
            slice(*each[device : device + 2]) for each, device in zip(bounds, devices, strict=True)
        )

    def held(self, rank: int, shape: Shape, grid: Grid) -> tuple[tuple[slice, int], ...]:
        """The part of a tensor of global `shape` that device `rank` holds, halos included.

        For each dimension the slice of the tensor, and the local index at which it begins. The
        elements of a halo outside of the tensor are no part of it.

        >>> sharding = Sharding("g", ((0,),), halos=((1, 1),))
        >>> sharding.held(0, (4,), Grid("g", (2,)))
        ((slice(0, 3, None), 1),)
        """
        own = self.shard(rank, shape, grid)
        if not self.halos:
            return tuple((each, 0) for each in own)
        local = self.local_shape(shape, grid)
        held = []
        for dim, (each, size) in enumerate(zip(own, shape, strict=True)):
            low, high = self.halo(dim)
            if not low and not high:
                held.append((each, 0))
                continue
            begin = (local[dim] - low - high) * grid.index_along(rank, self.split_axes[dim]) - low
            start = min(max(begin, 0), size)
            stop = min(max(begin + local[dim], start), size)
            held.append((slice(start, stop), start - begin if stop > start else 0))
        return tuple(held)

    def local_elements(self, shape: Shape, grid: Grid) -> int:
        """The number of elements of the local shape."""
        return prod(self.local_shape(shape, grid))

    def notation(self, grid: Grid | None = None) -> tuple[list[str], list[str]]:
        """The lists of axes, and the named fields after them, as `__str__` and `text` join them."""
        known = grid is not None and all(full_axis(axis) < grid.rank for axis in self.axes)
        spelled = grid.axes_text if grid is not None and known else axes_text
        lists = [spelled(axes) for axes in self.split_axes]
        fields = []
        if self.partial and self.reduction == "sum":
            lists.append(spelled(self.partial))
        elif self.partial:
            fields.append(f"{self.reduction} = {spelled(self.partial)}")
        if self.fill != "sum":
            fields.append(f'fill = "{self.fill}"')
        if self.halos:
            fields.append(f"halo = [{', '.join(map(_sizes_text, self.halos))}]")
        if self.offsets:
            fields.append(f"offsets = [{', '.join(map(_sizes_text, self.offsets))}]")
        return lists, fields

    def text(self, grid: Grid) -> str:
        """The notation with the names of the axes of its grid, for people.

        >>> Sharding("g", ((0,), (SubAxis(1, 1, 2),))).text(Grid("g", (2, 4), ("x", "y")))
        '[["x"], ["y":(1)2]]'
        """
        return joined(*self.notation(grid))

    def __str__(self) -> str:
        return joined(*self.notation())

    def _repr_html_(self) -> str:
        rows = [
            [
                dim,
                axes_text(axes) if axes else "not split",
                *(["{} before, {} after".format(*self.halo(dim))] if self.halos else ()),
                *([", ".join(map(_size_text, self.offsets[dim]))] if self.offsets else ()),
            ]
            for dim, axes in enumerate(self.split_axes)
        ]
        halos, offsets = (["halo"] if self.halos else []), (["offsets"] if self.offsets else [])
        partial = f", partial {self.reduction} along {axes_text(self.partial)}"
        return table_html(
            f"{self} on {as_symbol(self.grid)}{partial if self.partial else ''}",
            ["dimension", "split along axes", *halos, *offsets],
            rows,
        )


def _size_text(size: int | None) -> str:
    return "?" if size is None else str(size)


def joined(lists: Sequence[str], fields: Sequence[str]) -> str:
    """The notation, such as `[[0], [], {max = [1]}]`, of its lists and fields."""
    last = ["{" + ", ".join(fields) + "}"] if fields else []
    return "[" + ", ".join([*lists, *last]) + "]"


def _sizes_text(sizes: Sizes) -> str:
    return "[" + ", ".join('"?"' if size is None else str(size) for size in sizes) + "]"


class _InNotation(Protocol):
    """A sharding, or an annotation."""

    def text(self, grid: Grid) -> str: ...


def check_axes(axes: Axes, grid: Grid, what: _InNotation) -> None:
    """Raise `ShardingError` unless `axes`, a list of the sharding `what`, are axes of `grid`."""
    for axis in axes:
        if full_axis(axis) >= grid.rank:
            raise ShardingError(
                f"grid axis {full_axis(axis)} in sharding {what} is not in grid "
                f"{as_symbol(grid.name)} "
                f"of rank {grid.rank}"
            )
    for a, b in pairwise(axes):
        if follows(a, b):
            both = " and ".join(grid.axes_names((each,))[0] for each in (a, b))
            raise ShardingError(f"sub-axes {both} in {what.text(grid)} are one: write them as one")
    for axis in axes:
        if isinstance(axis, SubAxis):
            _check_sub_axis(axis, grid, what)


def _check_sub_axis(axis: SubAxis, grid: Grid, what: _InNotation) -> None:
    full = grid.shape[axis.axis]
    here = f"sub-axis {grid.axes_names((axis,))[0]} in sharding {what.text(grid)}"
    name = grid.axes_names((axis.axis,))[0]
    if axis.pre < 1 or axis.size < 2:
        raise ShardingError(f"{here}: expected a pre-size of 1 or more and a size of 2 or more")
    if full is not None and full % axis.end:
        raise ShardingError(
            f"{here} ends at {axis.end}, which does not divide axis {name} of size {full}"
        )
    if full == axis.size:
        raise ShardingError(f"{here} is all of axis {name}: write {name}")


def _is_known(axes: Axes, grid: Grid) -> bool:
    return all(isinstance(axis, SubAxis) or grid.shape[axis] is not None for axis in axes)
