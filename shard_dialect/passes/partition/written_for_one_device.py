"""Programs of one device that others have partitioned, as upstream's `shard-partition` does.

They are in the local form, and have no attribute that says so.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import BOUNDARY, boundary, form_of, functions_of, set_form
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import SHARDING, SHARDINGS
from shard_dialect.ir.mesh.manual_computation import computations_around
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.walk import walk
from shard_dialect.passes.manual.replica_group_collectives import is_between_devices

_ANNOTATIONS = (*annotation_ops.OPS, "shard.shard", "shard.sharding")


def mark_local(module: ir.Operation) -> None:
    """Give functions the local form, in place, where `module` is the program of one device.

    It is if it has collectives of the local form, which no annotated program may have, and neither
    a function in another form nor an annotation.
    """
    functions = functions_of(module)
    ops = walk(module)
    if (
        any(map(_is_of_one_device, ops))
        and not any(map(_is_annotated, ops))
        and all(form_of(each) == "annotated" for each in functions)
    ):
        for each in functions:
            set_form(each, "local")


def _is_of_one_device(op: ir.Operation) -> bool:
    is_ours = op.name.startswith(("shard.", "mesh."))
    return is_ours and is_between_devices(op) and next(computations_around(op), None) is None


def _is_annotated(op: ir.Operation) -> bool:
    if op.name == "func.func":
        entries = [entry for key in BOUNDARY for entry in boundary(op, key)]
        return any(SHARDING in each or sdy.SHARDING in each for each in entries)
    return op.name in _ANNOTATIONS or SHARDINGS in op.attributes or sdy.SHARDING in op.attributes
