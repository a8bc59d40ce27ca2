"""Make integer types signless, as ops on buffers require. A step of `lower`.

    %0 = builtin.unrealized_conversion_cast %a : tensor<8xui32> to tensor<8xi32>
    %1 = linalg.generic ... arith.divui ... ins(%0 : tensor<8xi32>)

StableHLO's ops on unsigned integers have become ops such as `arith.divui`, so the signedness that
is left in types, on boundaries, loops and collectives, has no meaning any more.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.reductions import signless
from shard_dialect.ir.function import functions_of, update_type
from shard_dialect.ir.walk import walk

_CASTS = ("builtin.unrealized_conversion_cast", "tensor.bitcast")


def drop_signs(module: ir.Operation) -> None:
    """Make the types of all values, constants and functions signless."""
    for op in walk(module):
        if op.name == "arith.constant" and signless(op.results[0].type) != op.results[0].type:
            op.attributes["value"] = _plain_elements(op.attributes["value"])
        blocks = [block for region in op.regions for block in region]
        for value in [*op.results, *(each for block in blocks for each in block.arguments)]:
            value.set_type(signless(value.type))
        if op.name in _CASTS and op.operands[0].type == op.results[0].type:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()
    for function in functions_of(module):
        update_type(function)


def _plain_elements(value: ir.Attribute) -> ir.Attribute:
    """The same bits in the signless type."""
    plain = signless(value.type)
    element = plain.element_type
    half = 2 ** (element.width - 1)
    numbers = [(number + half) % (2 * half) - half for number in value]
    return ir.DenseElementsAttr.get([ir.IntegerAttr.get(element, n) for n in numbers], plain)
