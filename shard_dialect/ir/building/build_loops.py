"""Loops at the insertion point: `scf.for` and `linalg.generic`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build


def counted(
    bounds: Sequence[int | ir.Value], inits: Sequence[ir.Value] = ()
) -> tuple[ir.Operation, ir.Block]:
    """`scf.for` with `bounds` (begin, end and step), and its block, which has no terminator yet."""
    types = [value.type for value in inits]
    bound_values = [build.index(each) if isinstance(each, int) else each for each in bounds]
    loop = build.create("scf.for", types, [*bound_values, *inits], regions=1)
    locations = [loop.location] * (1 + len(types))
    return loop, loop.regions[0].blocks.append(ir.IndexType.get(), *types, arg_locs=locations)


def elementwise(
    values: Sequence[ir.Value],
    compute: Callable[..., ir.Value],
    type_: ir.RankedTensorType | None = None,
) -> ir.Value:
    """The result of a `linalg.generic` that applies `compute` to the elements of each tensor.

    The tensors have one type. `type_` is the type of the result, if it differs.
    """
    type_, count = type_ or values[0].type, len(values)
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))
    into = build.empty(type_).results[0]
    maps, kinds = [identity] * (count + 1), ["parallel"] * type_.rank
    op = generic(values, into, maps, kinds, lambda *elements: compute(*elements[:count]))
    return op.results[0]


def generic(
    inputs: Sequence[ir.Value],
    into: ir.Value,
    maps: Sequence[ir.Attribute],
    kinds: Sequence[str],
    compute: Callable[..., ir.Value],
) -> ir.Operation:
    """`linalg.generic` on tensors or buffers.

    `compute` gets an element of each input and then one of `into`, and returns the new element.
    """
    attributes = {
        "indexing_maps": ir.ArrayAttr.get(list(maps)),
        "iterator_types": ir.ArrayAttr.get(
            [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
        ),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(inputs), 1]),
    }
    types = [into.type] if isinstance(into.type, ir.RankedTensorType) else []
    op = build.create("linalg.generic", types, [*inputs, into], attributes, regions=1)
    elements = [each.type.element_type for each in (*inputs, into)]
    block = op.regions[0].blocks.append(*elements, arg_locs=[op.location] * len(elements))
    with ir.InsertionPoint(block):
        build.create("linalg.yield", [], [compute(*block.arguments)])
    return op
