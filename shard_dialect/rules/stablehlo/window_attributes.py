"""Reading and writing StableHLO's attributes of windows."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.rules.stablehlo.attribute_reading import integers
from shard_dialect.rules.window_shards import WindowDimension


def windows_of(op: ir.Operation, names: dict[str, str], sizes: list[int]) -> list[WindowDimension]:
    """The windows of each dimension; `names` are the attributes of stride, dilation and base."""
    listed = {field: integers(op, name, [1] * len(sizes)) for field, name in names.items()}
    padding = integers(op, "padding", [0] * 2 * len(sizes))  # two for each dimension, in one list
    return [
        WindowDimension(
            size,
            listed["stride"][dim],
            listed["dilation"][dim],
            listed["base"][dim],
            *padding[2 * dim : 2 * dim + 2],
        )
        for dim, size in enumerate(sizes)
    ]


def write_padding(op: ir.Operation, padding: list[tuple[int, int]]) -> None:
    """Set the op's padding, low and high for each dimension."""
    integer = ir.IntegerType.get_signless(64)
    type_ = ir.RankedTensorType.get([len(padding), 2], integer)
    sizes = [ir.IntegerAttr.get(integer, size) for ends in padding for size in ends]
    op.attributes["padding"] = ir.DenseElementsAttr.get(sizes, type_)
