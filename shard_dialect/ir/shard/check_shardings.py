"""Checks of upstream's shardings: `shard.sharding`, and the ops with shards.

    %s = shard.sharding @g split_axes = [[0]] halo_sizes = [1, 2] : !shard.sharding
    %1 = shard.shard %0 to %s : tensor<4x8xf32>

Upstream verifies a sharding without its tensor and without its grid's axes, so it cannot see
whether they fit. `halo_sizes` has two numbers for each split dimension, `sharded_dims_offsets` one
more than it has shards.

Other `shard` ops have checks, too, that upstream's own verifier does not make:

    shard.broadcast %x on @g grid_axes = [0] root = [-1]          no such device
    shard.all_reduce %x on @g : tensor<4xf32> -> tensor<4xi8>     no such reduction

The table at the end maps each op to its checks; docs/vocabulary.md lists them. Upstream already
refuses unknown grids, axes out of range, and sizes that do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from shard_dialect.collectives.collective_record import CollectiveRecord
from shard_dialect.collectives.collective_table import LOCAL
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir, spelled
from shard_dialect.ir.function import name_of
from shard_dialect.ir.mesh.attributes import DYNAMIC, STAGES, STANDS_FOR, expect
from shard_dialect.ir.shard.check_text import MOST_DEVICES
from shard_dialect.ir.shard.sharding_ops import (
    Layout,
    grid_name,
    group_size,
    lists,
    sharding_behind,
    shown,
    sizes_in,
    split_axes,
)
from shard_dialect.ir.walk import maker_of
from shard_dialect.model import Grid, ShardingError
from shard_dialect.model.sharding import Sizes

if TYPE_CHECKING:
    from shard_dialect.ir.mesh.sharding_attributes import Shardings

_LONGEST_CHAIN = 1000
"""The longest chain of annotations that is followed, since a module's body may have cycles."""


def shape_of(type_: ir.Type) -> Sizes:
    """The sizes of a tensor type, `None` for dynamic ones."""
    return tuple(None if size == DYNAMIC else size for size in type_.shape)


def grid_of(op: ir.Operation, shardings: Shardings) -> Grid:
    """The grid that `op` names, which may be declared in a nested module."""
    name, around = grid_name(op), op.parent
    while name not in shardings.grids and around is not None:
        for each in (each for region in around.regions for block in region for each in block):
            if each.operation.name == "shard.grid" and name_of(each.operation) == name:
                return Grid(name, sizes_in(each.operation, "shape"))
        around = around.parent
    return shardings.grid(name)


def check_axes(split: Sequence[Sequence[int]], grid: Grid) -> None:
    """Raise `ShardingError` unless `split` uses axes of `grid`, each once."""
    used = [axis for axes in split for axis in axes]
    for axis in used:
        if not 0 <= axis < grid.rank:
            raise ShardingError(
                f"grid axis {axis} in split axes {lists(split)} is not in grid "
                f"{as_symbol(grid.name)} "
                f"of rank {grid.rank}"
            )
        if used.count(axis) > 1:
            raise ShardingError(f"grid axis {axis} is used twice in split axes {lists(split)}")


def check_operands(key: str, sizes: Sizes, operand_count: int) -> None:
    """Raise `ShardingError` unless there is an operand for each unknown number in `sizes`."""
    if sizes.count(None) != operand_count:
        raise ShardingError(
            f"has {operand_count} operands for the {sizes.count(None)} unknown numbers in "
            f"{key} = {shown(sizes)}"
        )


def check_sharding(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` for an invalid `shard.sharding`."""
    layout, grid = Layout.of(op), grid_of(op, shardings)
    check_axes(layout.split, grid)
    for_offsets, for_halos = op.attributes["operandSegmentSizes"]
    check_operands("sharded_dims_offsets", layout.offsets, for_offsets)
    check_operands("halo_sizes", layout.halos, for_halos)
    if layout.halos:
        _check_halos(layout.halos, len(layout.split_dims))
    if layout.offsets and grid.is_static:
        _check_offsets(layout, grid)


def _check_halos(halos: Sizes, split: int) -> None:
    if len(halos) != 2 * split:
        raise ShardingError(
            f"has halo_sizes {shown(halos)} for {split} split dimensions: expected {2 * split}, "
            "two for each"
        )
    if any(halo is not None and halo < 0 for halo in halos):
        raise ShardingError(f"has a negative size in halo_sizes {shown(halos)}")


def _check_offsets(layout: Layout, grid: Grid) -> None:
    by_dim = layout.offsets_by_dim(grid)
    expected = sum(grid.axes_size(layout.split[dim]) + 1 for dim, _ in by_dim)
    if len(layout.offsets) != expected:
        raise ShardingError(
            f"has {len(layout.offsets)} sharded_dims_offsets {shown(layout.offsets)}: expected "
            f"{expected}, one more than shards for each split dimension"
        )
    for dim, offsets in by_dim:
        if offsets[0] not in (0, None):
            raise ShardingError(
                f"has sharded_dims_offsets {shown(offsets)} along dimension {dim}, which start "
                f"at {offsets[0]}, not at 0"
            )
        for before, after in pairwise([0, *(size for size in offsets if size is not None)]):
            if after < before:
                raise ShardingError(
                    f"has sharded_dims_offsets {shown(offsets)} along dimension {dim}, which go "
                    f"down from {before} to {after}"
                )


def check_shard(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` for a `shard.shard` that does not fit its tensor, or others."""
    sharding_op = sharding_behind(op.operands[1])
    if sharding_op is None:
        raise ShardingError("takes a sharding that no 'shard.sharding' op makes")
    # Upstream's canonicalization of two annotations of one value only looks at that op.
    if sharding_op != maker_of(op.operands[1]) and len(_annotations(op.operands[0])) > 1:
        raise ShardingError(
            "takes its sharding from another tensor, and annotates a value that is annotated "
            "twice: give it a 'shard.sharding' of its own"
        )
    layout = Layout.of(sharding_op)
    _check_fits(layout, shape_of(op.operands[0].type), grid_of(sharding_op, shardings))
    _check_agreement(op, layout)


def _layout_at(op: ir.Operation) -> Layout | None:
    """The layout that the annotation `op` takes; `None` if it is not known."""
    sharding_op = sharding_behind(op.operands[1])
    return None if sharding_op is None else Layout.of(sharding_op)


def _check_fits(layout: Layout, shape: Sizes, grid: Grid) -> None:
    """Raise unless a tensor of `shape` can have this layout; for a scalar, `[[]]` means `[]`."""
    if len(layout.split) > len(shape) and (shape or layout.split_dims):
        raise ShardingError(
            f"has split axes {lists(layout.split)} for {len(layout.split)} dimensions, but the "
            f"tensor has {len(shape)}"
        )
    for number, dim in enumerate(layout.split_dims):
        most = _smallest_neighbor(layout, dim, shape[dim], grid)
        for halo in layout.halos[2 * number : 2 * number + 2]:
            if most is not None and halo is not None and halo > most:
                raise ShardingError(
                    f"has halo size {halo} on dimension {dim}, whose smallest shard before the "
                    f"last has {most} of its {shape[dim]} elements"
                )
    for dim, offsets in layout.offsets_by_dim(grid) if layout.offsets else ():
        if offsets and None not in (offsets[-1], shape[dim]) and offsets[-1] != shape[dim]:
            raise ShardingError(
                f"has sharded_dims_offsets {shown(offsets)} along dimension {dim}, which end at "
                f"{offsets[-1]}, not at its size {shape[dim]}"
            )


def _smallest_neighbor(layout: Layout, dim: int, size: int | None, grid: Grid) -> int | None:
    """The elements of the smallest shard of a dimension but the last one, `None` if not known.

    Where equal shards are uneven, only those at the end have fewer: of 14 elements on 4 devices
    the shards have 4, 4, 4 and 2, and halos may have 4. Past the end of the tensor there is nothing
    to exchange, so the last shard may be smaller.
    """
    count = group_size(grid, layout.split[dim])
    if size is None or count is None:
        return None
    offsets = dict(layout.offsets_by_dim(grid)).get(dim, ())
    if not offsets:
        return -(-size // count)
    if None in offsets:
        return None
    shards = [after - before for before, after in pairwise(each or 0 for each in offsets)]
    while len(shards) > 1 and not shards[-1]:
        shards.pop()
    return min(shards[:-1], default=size)


def _check_agreement(op: ir.Operation, layout: Layout) -> None:
    """Refuse uses that upstream's documentation of `shard.shard` calls undefined.

        %1 = shard.shard %0 to %s                       and then, with another %t,
        %2 = shard.shard %1 to %t                       refused: %0 has two shardings
        %2 = shard.shard %0 to %t                       refused: the same
        %2 = shard.shard %1 to %t annotate_for_users    valid: %0 is resharded for %2's users

    Only a repetition may follow an annotation for users. The exceptions are the annotations that
    `export-shard` writes for a reshard or a function's result.
    """
    if STANDS_FOR in op.attributes:
        expect(op, STANDS_FOR, ir.StringAttr, "a string")
        return
    before = _annotation_before(op)
    for other in [before] if before else _earlier_twins(op):
        earlier = _layout_at(other)
        if earlier is None or earlier.has_same_shards(layout):
            continue
        if _for_users(other):
            raise ShardingError(
                f"annotates as {layout} what is annotated as {earlier} for its users: annotate the "
                "value itself first, and then once for each way that it is used"
            )
        if not _for_users(op):
            raise ShardingError(
                f"annotates one value as {layout} that is annotated as {earlier}: they must agree, "
                "or the later one be for its users (annotate_for_users)"
            )


def _annotation_before(op: ir.Operation) -> ir.Operation | None:
    """The annotation of the op's operand, skipping repetitions for users; `None` without one."""
    for _ in range(_LONGEST_CHAIN):
        before = maker_of(op.operands[0])
        if before is None or before.name != "shard.shard" or STAGES in before.attributes:
            return None  # what a stage gets is another value
        own, earlier = _layout_at(before), maker_of(before.operands[0])
        if not _for_users(before) or earlier is None or earlier.name != "shard.shard":
            return before
        repeated = _layout_at(earlier)
        if own is None or repeated is None or not own.has_same_shards(repeated):
            return before
        op = before
    return None


def _earlier_twins(op: ir.Operation) -> list[ir.Operation]:
    """The other annotations of the same value, not for users, that are not after `op`."""
    if _for_users(op):
        return []
    return [
        other
        for other in _annotations(op.operands[0])
        if other != op
        and not _for_users(other)
        and not (other.block == op.block and op.is_before_in_block(other))
    ]


def _annotations(value: ir.Value) -> list[ir.Operation]:
    users = [use.owner.operation for use in value.uses]
    return [user for user in users if user.name == "shard.shard"]


def _for_users(op: ir.Operation) -> bool:
    return "annotate_for_users" in op.attributes


def check_shard_shape(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` for an invalid `shard.shard_shape`."""
    dims, device = sizes_in(op, "dims"), sizes_in(op, "device")
    for_dims, _, for_device = op.attributes["operandSegmentSizes"]
    check_operands("dims", dims, for_dims)
    check_operands("device", device, for_device)
    if not dims or len(op.results) != len(dims):
        raise ShardingError(f"has {len(op.results)} results for dims = {shown(dims)}")
    if any(size is not None and size < 0 for size in dims):
        raise ShardingError(f"has a negative size in dims = {shown(dims)}")
    sharding_op = sharding_behind(op.operands[for_dims])
    if sharding_op is None:
        return
    grid = grid_of(sharding_op, shardings)
    check_coordinates("device", device, grid, range(grid.rank))
    _check_fits(Layout.of(sharding_op), dims, grid)


def check_coordinates(key: str, device: Sizes, grid: Grid, axes: Sequence[int]) -> None:
    """Raise `ShardingError` unless `device` has a valid index along each of `axes`."""
    if len(device) != len(axes):
        raise ShardingError(
            f"has {len(device)} coordinates in {key} = {shown(device)}, expected {len(axes)}: "
            f"one for each of the axes {list(axes)} of grid {as_symbol(grid.name)}"
        )
    for axis, at in zip(axes, device, strict=True):
        size = grid.shape[axis]
        if at is not None and (at < 0 or (size is not None and at >= size)):
            raise ShardingError(
                f"has coordinate {at} in {key} = {shown(device)} on axis {axis} of grid "
                f"{as_symbol(grid.name)}, of size {'?' if size is None else size}"
            )


def check_update_halo(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` unless the operand has room for its halos and for elements between."""
    grid, split, halos = grid_of(op, shardings), split_axes(op), sizes_in(op, "static_halo_sizes")
    check_axes(split, grid)
    check_operands("halo_sizes", halos, len(op.operands) - 1)
    layout = Layout(grid.name, split, halos, ())
    _check_halos(halos, len(layout.split_dims))
    shape = shape_of(op.operands[0].type)
    if len(split) > len(shape):
        raise ShardingError(
            f"has split axes {lists(split)} for {len(split)} dimensions, but its operand has "
            f"{len(shape)}"
        )
    for number, dim in enumerate(layout.split_dims):
        size, ends = shape[dim], [halo or 0 for halo in halos[2 * number : 2 * number + 2]]
        if size is not None and any(ends) and sum(ends) >= size:
            raise ShardingError(
                f"has halo_sizes {ends} on dimension {dim} of size {size}: there is nothing "
                "between them"
            )


if TYPE_CHECKING:
    from shard_dialect.ir.mesh.sharding_attributes import Shardings

    Check = Callable[[ir.Operation, Shardings], None]


def check(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` if `op` is one of upstream's ops, and invalid."""
    if op.name in CHECKS:
        CHECKS[op.name](op, shardings)
    elif op.name in LOCAL and op.name.startswith("shard."):
        _check_collective(op, shardings, LOCAL[op.name])


def _check_collective(op: ir.Operation, shardings: Shardings, record: CollectiveRecord) -> None:
    """Check properties of attributes of these kinds that upstream does not check."""
    assert record.local is not None, "it is an op"
    for name, (kind, _) in record.local.attributes.items():
        if kind in ("device", "sender"):
            _check_device(op, shardings, name)
        elif kind == "dimension":
            _check_dimension(op, spelled(name))
        elif kind == "reduction":
            _check_reduction(op)
    if record.step.joins and record.step.cuts:
        _check_exchange(op, shardings)


def _check_grid(op: ir.Operation, _: Shardings) -> None:
    sizes = [size for size in sizes_in(op, "shape") if size is not None]
    if 0 in sizes:
        raise ShardingError(
            f"grid {as_symbol(name_of(op))} has size 0 on an axis: sizes are at least 1"
        )
    if prod(sizes) > MOST_DEVICES:
        raise ShardingError(f"grid {as_symbol(name_of(op))} has more than {MOST_DEVICES} devices")


def _check_neighbors(op: ir.Operation, shardings: Shardings) -> None:
    grid = grid_of(op, shardings)
    check_axes([tuple(op.attributes["split_axes"])], grid)
    if len(op.operands) != grid.rank:
        raise ShardingError(
            f"has {len(op.operands)} device coordinates for grid {as_symbol(grid.name)} of "
            f"rank {grid.rank}"
        )


def _axes(op: ir.Operation) -> tuple[int, ...]:
    return tuple(op.attributes["grid_axes"]) if "grid_axes" in op.attributes else ()


def _check_device(op: ir.Operation, shardings: Shardings, key: str) -> None:
    device = sizes_in(op, key)
    check_operands(key, device, len(op.operands) - 1)
    if key in op.attributes:
        check_coordinates(key, device, grid_of(op, shardings), _axes(op))


def _check_dimension(op: ir.Operation, key: str) -> None:
    dim, rank = op.attributes[key].value, op.operands[0].type.rank
    if not 0 <= dim < rank:
        raise ShardingError(f"has {key} = {dim}, which is no dimension of {op.operands[0].type}")


def _check_exchange(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless devices exchange equal slices, even along one and the same dimension."""
    dim = op.attributes["split_axis"].value
    size = shape_of(op.operands[0].type)[dim]
    devices = group_size(grid_of(op, shardings), _axes(op))
    if size is not None and devices is not None and size % devices:
        raise ShardingError(f"dimension {dim} of size {size} does not divide by {devices} devices")


def _check_reduction(op: ir.Operation) -> None:
    source, target = (value.type.element_type for value in (op.operands[0], op.results[0]))
    if not _widens(source, target):
        raise ShardingError(
            f"reduces {source} to {target}: expected the same type, or a wider one of its kind"
        )
    kind = str(op.attributes["reduction"]) if "reduction" in op.attributes else ""
    if "bitwise" in kind and not isinstance(source, ir.IntegerType | ir.IndexType):
        name = kind.removeprefix("#shard<partial ").removesuffix(">")
        raise ShardingError(f"has reduction {name} of {source}: expected integers")


def _widens(source: ir.Type, target: ir.Type) -> bool:
    """Whether type `target` is `source`, or a wider type of the same kind of number."""
    if source == target:
        return True
    for kind in (ir.FloatType, ir.IntegerType):
        if isinstance(source, kind) and isinstance(target, kind):
            return bool(target.width > source.width) and _signedness(source) == _signedness(target)
    if isinstance(source, ir.ComplexType) and isinstance(target, ir.ComplexType):
        return _widens(source.element_type, target.element_type)
    return False


def _signedness(type_: ir.Type) -> str:
    return str(type_).rstrip("0123456789") if isinstance(type_, ir.IntegerType) else ""


CHECKS: dict[str, Check] = {
    "shard.grid": _check_grid,
    "shard.sharding": check_sharding,
    "shard.shard": check_shard,
    "shard.shard_shape": check_shard_shape,
    "shard.neighbors_linear_indices": _check_neighbors,
    "shard.update_halo": check_update_halo,
}
"""Of the ops that are no collectives, and of `shard.update_halo`."""
