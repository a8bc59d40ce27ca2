"""The names of our attributes, and functions that read and write their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingError

SHARDING = "mesh.sharding"
"""Argument and result attribute: its sharding."""
SHARDINGS = "mesh.shardings"
"""Op attribute: one sharding for each result, or `unit` for a result without."""
BLOCKS = "mesh.block_shardings"
"""Op attribute: for each block of its regions, but a function's first, a sharding for each
argument."""
ARGUMENT = "mesh.argument"
"""Argument attribute of the local form: the global type, sharding included."""
RESULT = "mesh.result"
"""The same for a result; in the lowered form, for the argument that it is written to."""
PHASE = "phase"
"""In `mesh.collective`: the runtime function does only the `start` or the `done` of it."""
LOCAL_TYPES = "mesh.local_types"
"""In `mesh.collective`: the types of operand and result in the local form, where those of the
runtime function differ."""
COLLECTIVE = "mesh.collective"
"""Attribute of a declared runtime function of the lowered form: the collective that it performs."""
TRIPS = "mesh.trips"
"""In the lowered form, on an op in the condition of an `scf.while`: how often the loop runs."""
RANK = "mesh.rank"
"""Attribute of a runtime function that returns a device's rank: the grid."""
LIBRARY_CALL = "mesh.library_call"
"""Attribute of a runtime function that calls a library: what it calls (`ops.library_calls`)."""
HANDLE = "mesh.handle"
"""Argument attribute: which number (a rank, say) native code gets in it before it runs."""
RULE = "mesh.sharding_rule"
"""Op attribute: the op's sharding rule as text (`model.rule_text`)."""
MANUAL = "mesh.manual_axes"
"""On an `scf.execute_region`: it is a manual computation along these axes."""
NAMED = "mesh.named_computation"
"""On an `scf.execute_region`: the name of its computation."""
STAGE = "shard_dialect.stage"
"""Argument and result attribute: the stage whose devices hold it."""
DONATED = "shard_dialect.donated"
"""Argument attribute: the program may write to its memory after the last read."""
STAGES = "shard_dialect.stages"
"""On a transfer: its source and target stage."""
STAGE_AXES = "stage_axes"
"""On a grid: the axes of stages."""
PART_OF = "part_of"
"""On a `shard.grid` or `sdy.mesh` that is a part of a grid: that grid."""
AXIS_NAMES = "axis_names"
"""On a `shard.grid`: the names of its axes."""
DEVICE_IDS = "device_ids"
"""On a `shard.grid` in an order of its own: the ranks, by position."""
STANDS_FOR = "stands_for"
"""On a `shard.shard` that stands for an attribute of ours: its name."""
DYNAMIC = -(2**63)
"""MLIR's number for an unknown size in a list of integers."""
FORMS = ("propagated", "distributed", "local", "lowered")
FORM = "mesh.form"
"""Function attribute: its form; absent in the annotated form."""
PROPAGATED = "propagated"
"""Function attribute: it is in the propagated form, in any vocabulary."""

DEVICE = "mesh.device"
"""Function attribute: the one device whose program it is."""


def expect(op: ir.Operation, name: str, kind: type, what: str) -> ir.Attribute:
    """The op's attribute `name`; raises `ShardingError` unless it is of class `kind`."""
    return expect_in(op.attributes, name, kind, what)


def expect_in(
    attributes: Mapping[str, ir.Attribute], name: str, kind: type, what: str
) -> ir.Attribute:
    """As `expect`, for a mapping: an op's attributes, or a dictionary that is not verified."""
    attribute = attributes[name] if name in attributes else None
    if not isinstance(attribute, kind):
        raise ShardingError(f"attribute '{name}' must be {what}, found {attribute}")
    return attribute


def drop_attributes(op: ir.Operation, *names: str) -> None:
    """Drop the attributes of these names that the op has."""
    for name in names:
        if name in op.attributes:
            del op.attributes[name]


def integer(attribute: ir.Attribute) -> int:
    """The value of an integer attribute; raises `ShardingError` if it has more than 64 bits."""
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
    """The value of `name = true`; true for `name` alone; `default` where it is absent."""
    if name not in op.attributes:
        return default
    attribute = op.attributes[name]
    if isinstance(attribute, ir.UnitAttr):
        return True
    if not isinstance(attribute, ir.BoolAttr):
        raise ShardingError(f"attribute '{name}' must be true or false, found {attribute}")
    return bool(attribute.value)


def i64_array(values: Sequence[int]) -> ir.ArrayAttr:
    """The attribute `[0, 1]` of integers."""
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, value) for value in values])
