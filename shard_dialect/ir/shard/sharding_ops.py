"""Upstream's `shard.sharding` <-> the model's sharding.

    %s = shard.sharding @g split_axes = [[], [0]] halo_sizes = [1, %h] : !shard.sharding
    [[], [0], {halo = [[], [1, "?"]]}]  and  (%h)

Upstream lists sizes of the split dimensions only, one dimension after the other: two halos for
each, or one offset more than it has shards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create_value
from shard_dialect.ir.mesh.attributes import DYNAMIC, symbol
from shard_dialect.ir.walk import maker_of
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Sizes

_LONGEST_CHAIN = 1000
"""The longest chain of `shard.get_sharding` that is followed: a module's body may have cycles."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The attributes of one `shard.sharding`."""

    grid: str
    split: tuple[tuple[int, ...], ...]
    halos: Sizes
    offsets: Sizes

    @classmethod
    def of(cls, op: ir.Operation) -> Layout:
        """The layout of a `shard.sharding`."""
        offsets = sizes_in(op, "static_sharded_dims_offsets")
        halos = sizes_in(op, "static_halo_sizes")
        return cls(grid_name(op), split_axes(op), halos, offsets)

    @property
    def split_dims(self) -> list[int]:
        """The dimensions that have axes."""
        return [dim for dim, axes in enumerate(self.split) if axes]

    def offsets_by_dim(self, grid: Grid) -> list[tuple[int, Sizes]]:
        """The offsets of each split dimension; incomplete if the list is too short."""
        rest = iter(self.offsets)
        counts = [(dim, group_size(grid, self.split[dim])) for dim in self.split_dims]
        most = len(self.offsets)  # a group may have more devices than a list has entries
        return [
            (dim, tuple(islice(rest, min(size, most) + 1)))
            for dim, size in counts
            if size is not None
        ]

    def sharding(self, rank: int, grid: Grid) -> Sharding:
        """The sharding of a tensor with `rank` dimensions; for a scalar, `[[]]` has none."""
        split = (*self.split[:rank], *((),) * (rank - len(self.split)))
        halos: list[Sizes] = [()] * rank
        offsets: list[Sizes] = [()] * rank
        for number, dim in enumerate(self.split_dims):
            sizes = self.halos[2 * number : 2 * number + 2]
            halos[dim] = sizes if sizes != (0, 0) else ()
        for dim, sizes in self.offsets_by_dim(grid):
            offsets[dim] = sizes
        return Sharding(self.grid, split, halos=tuple(halos), offsets=tuple(offsets))

    def has_same_shards(self, other: Layout) -> bool:
        """Whether both have the same shards; halos, which are copies, do not count."""

        def shards(layout: Layout) -> tuple[object, ...]:
            axes = [(dim, layout.split[dim]) for dim in layout.split_dims]
            return (layout.grid, axes, layout.offsets)

        return shards(self) == shards(other)

    def __str__(self) -> str:
        offsets = f" sharded_dims_offsets = {shown(self.offsets)}" if self.offsets else ""
        return f"{as_symbol(self.grid)} {lists(self.split)}{offsets}"


def lists(split: Sequence[Sequence[int]]) -> str:
    """The lists of axes as text."""
    return str([list(axes) for axes in split])


def shown(sizes: Sizes) -> str:
    """The sizes as text, `?` for unknown ones."""
    return f"[{', '.join('?' if size is None else str(size) for size in sizes)}]"


def sizes_in(op: ir.Operation, key: str) -> Sizes:
    """The numbers of a list like `root = [1, %i]`, `None` for values; () without the attribute."""
    values = op.attributes[key] if key in op.attributes else ()
    return tuple(None if value == DYNAMIC else value for value in values)


def group_size(grid: Grid, axes: Sequence[int]) -> int | None:
    """The number of devices in a group along `axes`; `None` if it is not known."""
    return None if any(grid.shape[axis] is None for axis in axes) else grid.axes_size(axes)


def split_axes(op: ir.Operation) -> tuple[tuple[int, ...], ...]:
    """The split axes of a `shard.sharding`, one entry for each of its dimensions."""
    return axis_lists(op.attributes["split_axes"])


def axis_lists(attribute: ir.Attribute) -> tuple[tuple[int, ...], ...]:
    """The lists in `#shard<axisarray[[0], []]>`, which the bindings cannot read."""
    text = str(attribute).removeprefix("#shard<axisarray").removesuffix(">")
    return tuple(tuple(axes) for axes in json.loads(text))


def grid_name(op: ir.Operation) -> str:
    """The name of the grid of an op with the attribute `grid`."""
    return symbol(op.attributes["grid"])


def sharding_behind(value: ir.Value) -> ir.Operation | None:
    """The `shard.sharding` that makes `value`, also through `shard.get_sharding`; else `None`."""
    for _ in range(_LONGEST_CHAIN):
        op = maker_of(value)
        if op is None or op.name == "shard.sharding":
            return op
        annotated = maker_of(op.operands[0]) if op.name == "shard.get_sharding" else None
        if annotated is None or annotated.name != "shard.shard":
            return None
        value = annotated.operands[1]
    return None


def write_sharding_op(sharding: Sharding, sizes: Sequence[ir.Value]) -> ir.Value:
    """Create the `shard.sharding` of a sharding that upstream can express.

    `sizes` are the values of its unknown sizes.
    """
    offsets = _flat(sharding.offsets)
    by_dim = zip(sharding.split_axes, sharding.halos, strict=False)
    halos = _flat([sizes or (0, 0) for axes, sizes in by_dim if axes])
    dynamic = [len(sizes), 0] if offsets else [0, len(sizes)]
    lists = [list(axes) for axes in sharding.split_axes] or [[]]
    attributes = {
        "grid": ir.FlatSymbolRefAttr.get(sharding.grid),
        "split_axes": ir.Attribute.parse(f"#shard<axisarray{lists}>"),
        "static_sharded_dims_offsets": ir.DenseI64ArrayAttr.get(offsets),
        "static_halo_sizes": ir.DenseI64ArrayAttr.get(halos),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(dynamic),
    }
    type_ = ir.Type.parse("!shard.sharding")
    return create_value("shard.sharding", type_, sizes, attributes)


def _flat(by_dim: Sequence[Sizes]) -> list[int]:
    return [DYNAMIC if size is None else size for sizes in by_dim for size in sizes]
