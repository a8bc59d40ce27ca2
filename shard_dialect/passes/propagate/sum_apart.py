"""Put a part that is added to a part of a sum into zeros, where the sum is split along that part.

    %1 = stablehlo.dynamic_slice %sum, %i               the part has elements of one device or more:
    %2 = stablehlo.add %1, %part                        they are sent to all that add
    %3 = stablehlo.dynamic_update_slice %sum, %2, %i

    %1 = stablehlo.dynamic_update_slice %z, %part, %i   each device puts what it has of the part
    %2 = stablehlo.add %sum, %1                         into zeros, and sends nothing

The inverse of `sum-in-place`, which does not know the shardings. Adding zeros changes nothing but
the sign of a zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.attributes import RULE, SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.ops.stablehlo.dynamic_slices import repeated
from shard_dialect.passes.framework.base import Pass, needs

_ADD, _SLICE = "stablehlo.add", "stablehlo.dynamic_slice"
_UPDATE = "stablehlo.dynamic_update_slice"


@needs(ops=(_UPDATE,), forms=("propagated",))
@dataclass(frozen=True)
class SumApart(Pass):
    """Add parts that are put into zeros, where a sum is split along the dimensions of a part."""

    name = "sum-apart"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite updates of functions in the propagated form."""
        shardings = Shardings.of(module)
        for function in functions_of(module):
            if form_of(function) == "propagated":
                for op in [each for each in walk(function) if each.name == _UPDATE]:
                    part = _added(op)
                    if part is not None and _is_split(op, shardings):
                        _rewrite(op, part)


def _added(update: ir.Operation) -> ir.Value | None:
    """What is added to the part of the operand that is updated, if it is that."""
    total, summed, *starts = update.operands
    add = _only_for(summed, _ADD)
    for number in (0, 1) if add is not None else ():
        before = _only_for(add.operands[number], _SLICE)
        if before is not None and [*before.operands] == [total, *starts]:
            part = add.operands[1 - number]
            return part if part.type == before.results[0].type else None
    return None


def _only_for(value: ir.Value, name: str) -> ir.Operation | None:
    """The op of this name that makes a value with one use; no rule of its own, no open sizes."""
    if isinstance(value.owner, ir.Block) or value.owner.name != name:
        return None
    op = value.owner.operation
    is_plain = RULE not in op.attributes and value.type.has_static_shape
    return op if is_plain and len(list(value.uses)) == 1 else None


def _is_split(update: ir.Operation, shardings: Shardings) -> bool:
    """Whether the result is split along a dimension of which a part is updated."""
    type_, part = update.results[0].type, update.operands[1].type
    if SHARDINGS not in update.attributes or RULE in update.attributes:
        return False
    (attribute,) = update.attributes[SHARDINGS]
    if isinstance(attribute, ir.UnitAttr) or not type_.has_static_shape:
        return False
    axes = shardings.read_annotation(attribute, type_.rank).sharding.split_axes
    sizes = zip(axes, type_.shape, part.shape, strict=True)
    return any(split and size != whole for split, whole, size in sizes)


def _rewrite(update: ir.Operation, part: ir.Value) -> None:
    total, summed, *starts = update.operands
    attributes = {SHARDINGS: update.attributes[SHARDINGS]}
    with ir.InsertionPoint(update), update.location:
        zeros = repeated(0, total.type)
        put = create(_UPDATE, [total.type], [zeros, part, *starts], attributes)
        result = create(_ADD, [total.type], [total, put.results[0]], attributes).results[0]
    update.results[0].replace_all_uses_with(result)
    add = summed.owner.operation
    before = next(each.owner.operation for each in add.operands if each != part)
    for op in (update, add, before):
        op.erase()
