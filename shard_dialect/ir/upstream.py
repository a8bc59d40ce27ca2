"""Upstream's `shard.sharding` <-> a sharding, and `shard.shard` <-> an annotation.

    %s = shard.sharding @g split_axes = [[], [0]] halo_sizes = [1, %h] : !shard.sharding
    [[], [0], {halo = [[], [1, "?"]]}]  and  (%h)

Upstream writes sizes one after the other, for the split dimensions only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from shard_dialect.errors import ShardError
from shard_dialect.ir.attributes import symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.build import create
from shard_dialect.model import Axes, Grid, Sharding, ShardingError
from shard_dialect.model.sharding import Sizes

_DYNAMIC = -(2**63)
SHARDING_TYPE = "!shard.sharding"


@dataclass(frozen=True, slots=True)
class UpstreamSharding:
    """A sharding, and the values of its unknown sizes in their order."""

    sharding: Sharding
    sizes: tuple[ir.Value, ...] = ()


def split_axes(op: ir.Operation) -> tuple[tuple[int, ...], ...]:
    """The split axes of a `shard.sharding`, one entry for each dimension that it speaks of."""
    text = str(op.attributes["split_axes"]).removeprefix("#shard<axisarray").removesuffix(">")
    return tuple(tuple(axes) for axes in json.loads(text))


def grid_name(op: ir.Operation) -> str:
    """The grid that a `shard.sharding` is on."""
    return symbol(op.attributes["grid"])


def read_sharding_op(op: ir.Operation, rank: int, grid: Grid) -> UpstreamSharding:
    """What a `shard.sharding` says of a tensor of `rank` dimensions."""
    given = split_axes(op)
    if not any(given[rank:]):
        given = given[:rank]  # a scalar, too, needs one list to parse
    if len(given) > rank:
        raise ShardingError(
            f"has split axes {[list(axes) for axes in given]} for {len(given)} dimensions, "
            f"but the tensor has {rank}"
        )
    split = (*given, *((),) * (rank - len(given)))
    halos = _dealt(op, "static_halo_sizes", split, [2 for axes in split if axes])
    offsets: tuple[Sizes, ...] = ()
    if len(op.attributes["static_sharded_dims_offsets"]):
        counts = [grid.axes_size(axes) + 1 for axes in split if axes]
        offsets = _dealt(op, "static_sharded_dims_offsets", split, counts)
    sharding = Sharding(grid.name, split, halos=halos, offsets=offsets)
    return UpstreamSharding(sharding, tuple(op.operands))


def _dealt(
    op: ir.Operation, key: str, split: Sequence[Axes], counts: Sequence[int]
) -> tuple[Sizes, ...]:
    """The sizes in `key` dealt to the split dimensions, `counts` to each."""
    sizes = [None if size == _DYNAMIC else size for size in op.attributes[key]]
    if not sizes:
        return ()
    if len(sizes) != sum(counts):
        name = key.removeprefix("static_")
        raise ShardingError(
            f"has {len(sizes)} {name}: expected {sum(counts)}, for {len(counts)} split dimensions"
        )
    left, count = iter(sizes), iter(counts)
    return tuple(tuple(islice(left, next(count))) if axes else () for axes in split)


def write_sharding_op(sharding: Sharding, sizes: Sequence[ir.Value]) -> ir.Value:
    """Make the `shard.sharding` of a sharding that upstream can say."""
    offsets = _flat(sharding.offsets)
    halos = _flat(sharding.halos)
    dynamic = [len(sizes), 0] if offsets else [0, len(sizes)]
    lists = [list(axes) for axes in sharding.split_axes] or [[]]
    attributes = {
        "grid": ir.FlatSymbolRefAttr.get(sharding.grid),
        "split_axes": ir.Attribute.parse(f"#shard<axisarray{lists}>"),
        "static_sharded_dims_offsets": ir.DenseI64ArrayAttr.get(offsets),
        "static_halo_sizes": ir.DenseI64ArrayAttr.get(halos),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(dynamic),
    }
    return create("shard.sharding", [ir.Type.parse(SHARDING_TYPE)], sizes, attributes).results[0]


def _flat(by_dim: Sequence[Sizes]) -> list[int]:
    return [_DYNAMIC if size is None else size for sizes in by_dim for size in sizes]


def sharding_behind(value: ir.Value) -> ir.Operation:
    """The `shard.sharding` op that makes `value`, or made that of `shard.get_sharding`'s tensor."""
    for _ in range(1000):
        owner = value.owner
        if isinstance(owner, ir.Block):
            break
        op = owner.operation
        if op.name == "shard.sharding":
            return op
        if op.name == "shard.get_sharding":
            annotated = op.operands[0].owner
            if isinstance(annotated, ir.Block) or annotated.operation.name != "shard.shard":
                raise ShardError(
                    "takes the sharding of a tensor that no 'shard.shard' op gives one"
                )
            value = annotated.operation.operands[1]
            continue
        break
    raise ShardError("takes a sharding that no 'shard.sharding' op makes")
