"""Refuse calls of functions that a framework's runtime has and we have not. A step of `lower`.

    error: 'stablehlo.custom_call' op of @lapack_spotrf_ffi ... run it with --backend=xla, or ...

JAX lowers its matrix decompositions for CPUs to calls of LAPACK, which jaxlib holds. Of these only
Cholesky's and the solution of triangular systems have ops in StableHLO, which JAX writes for TPUs.
"""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.walk import walk

_LAPACK = "lapack_"
_AS_STABLEHLO = ("potrf", "trsm")


def refuse_custom_calls(module: ir.Operation) -> None:
    """Raise a located `ShardError` for the first call that is left."""
    for function in functions_of(module):
        for op in walk(function):
            if op.name == "stablehlo.custom_call":
                raise ShardError(_message(op), _place(op, function, module))


def calls_lapack(module: ir.Operation) -> bool:
    """Whether a module calls LAPACK."""
    return any(
        op.name == "stablehlo.custom_call" and _target(op).startswith(_LAPACK)
        for op in walk(module)
    )


def _target(op: ir.Operation) -> str:
    target: str = op.attributes["call_target_name"].value
    return target


def _message(op: ir.Operation) -> str:
    target = _target(op)
    head = f"'stablehlo.custom_call' op of @{target} cannot be lowered: "
    if not target.startswith(_LAPACK):
        return f"{head}there is no code for it that a device could run"
    way_out = "run the program with --backend=xla"
    if any(name in target for name in _AS_STABLEHLO):
        way_out += ', or export the JAX function with platforms=["tpu"], as an op of StableHLO'
    return f"{head}only jaxlib has LAPACK: {way_out}"


def _place(op: ir.Operation, function: ir.Operation, module: ir.Operation) -> str | None:
    """Where the op is, or who calls its function: JAX gives the ops of its own none."""
    places = [op.location, function.location]
    for each in walk(module):
        if each.name == "func.call" and each.attributes["callee"].value == name_of(function):
            places.append(each.location)
    return next((text for each in places if (text := location_text(each))), None)
