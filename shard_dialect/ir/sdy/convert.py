"""Shardy's shardings, which name axes, <-> annotations, which number them.

    <@m, [{"x"}, {"y":(1)2, ?}p1], unreduced={"z"}>  <->  [[0], ["1:(1)2"], [2], {open = [1], ...}]

On a maximal mesh, with one device and no axes, a sharding has no dimensions, for tensors of any
rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from shard_dialect.ir.sdy.syntax import AxisRef, Dim, TensorSharding
from shard_dialect.model import Annotation, Axes, Axis, Grid, Sharding, ShardingError, SubAxis
from shard_dialect.model.axis import in_order


@lru_cache(maxsize=4096)
def to_annotation(tensor_sharding: TensorSharding, grid: Grid, rank: int) -> Annotation:
    """The annotation of a value with `rank` dimensions.

    Raises `ShardingError` for a sharding that Shardy's verifier would refuse.
    """
    if is_maximal(grid):
        if tensor_sharding.dims or tensor_sharding.replicated or tensor_sharding.unreduced:
            raise ShardingError(
                f"sharding {tensor_sharding} on the one device of mesh @{grid.name}: expected no "
                "dimensions "
                "and no axes"
            )
        return Annotation(Sharding.replicated(grid.name, rank))
    if len(tensor_sharding.dims) != rank:
        raise ShardingError(
            f"sharding {tensor_sharding} has {len(tensor_sharding.dims)} dimensions, but the "
            f"tensor has {rank}"
        )
    split = tuple(_axes(dim.axes, grid, tensor_sharding) for dim in tensor_sharding.dims)
    unreduced = _ordered(tensor_sharding.unreduced, "unreduced", grid, tensor_sharding)
    replicated = _ordered(tensor_sharding.replicated, "replicated", grid, tensor_sharding)
    is_open = tuple(number for number, dim in enumerate(tensor_sharding.dims) if dim.is_open)
    priorities = tuple(dim.priority for dim in tensor_sharding.dims)
    if not any(priority is not None for priority in priorities):
        priorities = ()
    try:
        sharding = Sharding(grid.name, split, unreduced, tensor_sharding.reduction)
        annotation = Annotation(sharding, is_open, priorities, replicated)
        annotation.check(grid, rank)
    except ShardingError as error:
        raise ShardingError(f"in {tensor_sharding}: {error.message}") from None
    return annotation


def to_sdy(annotation: Annotation, grid: Grid) -> TensorSharding:
    """The annotation as Shardy's sharding. Raises `ShardingError` if Shardy has none."""
    sharding = annotation.sharding
    if sharding.halos or sharding.offsets:
        raise ShardingError(f"sharding {sharding} has halos or offsets, which Shardy cannot say")
    if sharding.partial and sharding.reduction != "sum":
        raise ShardingError(
            f"sharding {sharding} is partial by {sharding.reduction}, which Shardy cannot say: it "
            "has sums only"
        )
    if is_maximal(grid):
        return TensorSharding(grid.name, ())
    dims = tuple(
        Dim(
            _refs(axes, grid),
            number in annotation.open,
            annotation.priorities[number] if annotation.priorities else None,
        )
        for number, axes in enumerate(sharding.split_axes)
    )
    return TensorSharding(
        grid.name, dims, _refs(annotation.replicated, grid), _refs(sharding.partial, grid)
    )


def is_maximal(grid: Grid) -> bool:
    """Whether the grid is one device without axes; without devices it is a placeholder."""
    return grid.rank == 0 and len(grid.device_ids) == 1


def axis_number(name: str, grid: Grid, where: object) -> int:
    """The number of an axis of `grid`. Raises `ShardingError` if there is no such axis."""
    names = [grid.axis_name(axis) for axis in range(grid.rank)]
    if name not in names:
        known = ", ".join(f'"{each}"' for each in names) or "none"
        raise ShardingError(
            f'axis "{name}" in {where} is not in mesh @{grid.name}; its axes: {known}'
        )
    return names.index(name)


def _axes(refs: Sequence[AxisRef], grid: Grid, where: object) -> Axes:
    return tuple(_axis(ref, grid, where) for ref in refs)


def _axis(ref: AxisRef, grid: Grid, where: object) -> Axis:
    number = axis_number(ref.name, grid, where)
    return number if ref.sub is None else SubAxis(number, *ref.sub)


def _ordered(refs: Sequence[AxisRef], what: str, grid: Grid, where: object) -> Axes:
    axes = _axes(refs, grid, where)
    if list(axes) != sorted(axes, key=in_order):
        raise ShardingError(f"{what} axes of {where} are not in the order of mesh @{grid.name}")
    return axes


def _refs(axes: Axes, grid: Grid) -> tuple[AxisRef, ...]:
    return tuple(
        AxisRef(grid.axis_name(axis.axis), (axis.pre, axis.size))
        if isinstance(axis, SubAxis)
        else AxisRef(grid.axis_name(axis))
        for axis in axes
    )
