"""The sharding of a value, wherever its form keeps it."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import boundary
from shard_dialect.ir.mesh.attributes import SHARDING
from shard_dialect.ir.mesh.sharding_attributes import Shardings, annotated_blocks, rank_of
from shard_dialect.model import Annotation, Sharding


def sharding_of(value: ir.Value) -> Sharding | None:
    """Return the sharding of a value: in the propagated or distributed form, or where annotated.

    `None` for a value that has none: none is known yet, or in the distributed form every device
    holds all of it. In the local form values are shards; `read_program` has the boundary's.
    """
    owner = value.owner
    op = owner.owner.operation if isinstance(owner, ir.Block) else owner.operation
    top = op
    while top.parent is not None:
        top = top.parent.operation
    shardings = Shardings.of(top)
    in_type = shardings.of_type(value.type)
    if in_type is not None:
        return in_type
    found = _annotation(value, op, shardings)
    return found.sharding if found else None


def _annotation(value: ir.Value, op: ir.Operation, shardings: Shardings) -> Annotation | None:
    if op.name == "mesh.annotate":
        return shardings.read_annotation(op.attributes["sharding"], rank_of(value.type))
    if not isinstance(value.owner, ir.Block):
        return shardings.of_results(op).get(ir.OpResult(value).result_number)
    number = ir.BlockArgument(value).arg_number
    if op.name == "func.func" and value.owner == op.regions[0].blocks[0]:
        attribute = boundary(op, "arg_attrs")[number].get(SHARDING)
        return attribute and shardings.read_annotation(attribute, rank_of(value.type))
    pairs = zip(annotated_blocks(op), shardings.of_blocks(op), strict=False)
    return next((each.get(number) for block, each in pairs if block == value.owner), None)
