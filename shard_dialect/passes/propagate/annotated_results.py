"""What takes the place of an op's result has the annotations that the result had."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.sdy.syntax import read_per_value


def replace_annotated(result: ir.OpResult, value: ir.Value) -> ir.Value:
    """Let a value take the place of a result, and have its annotations.

    Returns what is there now: a copy, where other values are of the value's op, or read it.
    """
    attributes: dict[str, ir.Attribute] = {}
    annotated, number = result.owner.operation, result.result_number
    if SHARDINGS in annotated.attributes:
        attributes[SHARDINGS] = ir.ArrayAttr.get([annotated.attributes[SHARDINGS][number]])
    if sdy.SHARDING in annotated.attributes:
        sharding = read_per_value(str(annotated.attributes[sdy.SHARDING]))[number]
        text = f"#sdy.sharding_per_value<[{sharding}]>"
        attributes[sdy.SHARDING] = ir.Attribute.parse(text)
    if attributes:
        value = hlo.of_own_op(value)
    for name, attribute in attributes.items():
        value.owner.attributes[name] = attribute
    result.replace_all_uses_with(value)
    return value
