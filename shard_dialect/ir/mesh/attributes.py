"""The names of our attributes, and the few kinds of attribute that ours are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingError

SHARDING = "mesh.sharding"
"""Argument and result attribute: how it lies."""
SHARDINGS = "mesh.shardings"
"""Op attribute: one sharding for each result, or `unit` for what has none."""
BLOCKS = "mesh.block_shardings"
"""Op attribute: for each block of its regions one sharding for each argument, as `SHARDINGS`; of a
function, whose first block's arguments are its own, for the others."""
ARGUMENT = "mesh.argument"
"""Argument attribute of the local form: the global type, sharding included."""
RESULT = "mesh.result"
"""The same for a result; in the lowered form, for the argument that the result is written to."""
PHASE = "phase"
"""In `mesh.collective`: the runtime function does the `start` or the `done` of it only."""
LOCAL_TYPES = "mesh.local_types"
"""In `mesh.collective`: the types of operand and result in the local form, where the runtime
function is on others."""
COLLECTIVE = "mesh.collective"
"""Attribute of a declared runtime function of the lowered form: the collective that it does."""
RANK = "mesh.rank"
"""The same of a runtime function that gives a device's rank: on which grid."""
HANDLE = "mesh.handle"
"""Argument attribute: the number that native code is told there before it runs."""
RULE = "mesh.sharding_rule"
"""Op attribute: the op's sharding rule as text (`model.rule_text`)."""
MANUAL = "mesh.manual_axes"
"""On an `scf.execute_region`: its body is on shards along these axes."""
NAMED = "mesh.named_computation"
"""On an `scf.execute_region`: the name of what its body computes."""
STAGE = "mesh.stage"
"""Argument and result attribute: the stage whose devices have it, where a function has several."""
STAGES = "mesh.stages"
"""On a `mesh.collective_permute` along the axis of the stages: from which it goes, and to which."""
STAGE_AXES = "mesh.stage_axes"
"""On a `mesh.cluster`: the axes along which devices are stages of a pipeline."""
STANDS_FOR = "mesh.stands_for"
"""On a `shard.shard` made of an attribute of ours: which, for the way back."""
DYNAMIC = -(2**63)
"""How MLIR writes in a list of integers that a size is not known."""
FORMS = ("propagated", "distributed", "local", "lowered")
FORM = "mesh.form"
"""Function attribute: which of the five forms it is in; absent for annotated ones."""

DEVICE = "mesh.device"
"""Function attribute: the device that it is the program of, where it is not that of all."""


def expect(op: ir.Operation, name: str, kind: type, what: str) -> ir.Attribute:
    """The op's attribute `name`, of class `kind`; raises `ShardingError` if it is another."""
    return expect_in(op.attributes, name, kind, what)


def expect_in(
    attributes: Mapping[str, ir.Attribute], name: str, kind: type, what: str
) -> ir.Attribute:
    """The same of attributes by name: an op's, or a dictionary's, which no verifier has seen."""
    attribute = attributes[name] if name in attributes else None
    if not isinstance(attribute, kind):
        raise ShardingError(f"attribute '{name}' must be {what}, found {attribute}")
    return attribute


def integer(attribute: ir.Attribute) -> int:
    """Its value; the bindings overflow past 64 bits."""
    if not isinstance(attribute, ir.IntegerAttr):
        raise ShardingError(f"expected an integer, found {attribute}")
    if isinstance(attribute.type, ir.IntegerType) and attribute.type.width > 64:
        raise ShardingError(f"{attribute} is wider than 64 bits")
    return attribute.value


def ints(attribute: ir.Attribute) -> list[int]:
    """The integers of `[0, 1]` or `array<i64: 0, 1>`."""
    if isinstance(attribute, ir.DenseI64ArrayAttr | ir.DenseI32ArrayAttr | ir.DenseI16ArrayAttr):
        return list(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        entries = list(attribute)
        if all(isinstance(entry, ir.IntegerAttr) for entry in entries):
            return [integer(entry) for entry in entries]
    raise ShardingError(f"expected a list of integers, found {attribute}")


def symbol(attribute: ir.Attribute) -> str:
    """The name in `@g`."""
    return str(attribute.value) if isinstance(attribute, ir.FlatSymbolRefAttr) else str(attribute)


def flag(op: ir.Operation, name: str, default: bool) -> bool:
    """The value of `name = true`, of `name` alone (true), or `default` where it is not there."""
    if name not in op.attributes:
        return default
    attribute = op.attributes[name]
    if isinstance(attribute, ir.UnitAttr):
        return True
    if not isinstance(attribute, ir.BoolAttr):
        raise ShardingError(f"attribute '{name}' must be true or false, found {attribute}")
    return bool(attribute.value)


def i64_array(values: Sequence[int]) -> ir.ArrayAttr:
    """`[0, 1]`."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, value) for value in values])
