"""The values that a function's ops compute, as further results of it, so that a run shows them.

    %1 = math.exp %0
    return %1
      becomes
    return %1, %0, %1

Constants and scalars are not among them, nor what nothing has written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shard_dialect.abi.lowered_program import find_function
from shard_dialect.abi.tensor_types import has_numpy_type
from shard_dialect.collectives import AllReduce
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.function import boundary, returns_of, set_boundary, update_type
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.mesh_dialect import UPDATE_HALO
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.local_programs import keep_reached

AT_ONCE = 128
"""The number of values that one run returns: later ones need not be computed or kept."""
_UNWRITTEN = ("bufferization.alloc_tensor", "tensor.empty")


def values_of(function: ir.Operation) -> list[ir.Value]:
    """The tensors that ops of the first block define, in order, if they can be returned."""
    return [
        result
        for op in operations(body(function))
        if not build.is_constant(op) and op.name not in _UNWRITTEN
        for result in op.results
        if _can_be_result(result.type)
    ]


def described(value: ir.Value) -> str:
    """What an error calls the result of an op.

    >>> described(matmul.results[0])  # doctest: +SKIP
    "the result of 'linalg.matmul' op"
    """
    result = ir.OpResult(value)
    op = result.owner
    which = f"result {result.result_number} of " if len(op.results) > 1 else "the result of "
    return f"{which}'{op.name}' op"


def with_results(module: ir.Module, entry: str, numbers: range, pipeline: str) -> ir.Module:
    """A copy of the program, after `pipeline`, that returns the values `numbers`, too."""
    copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
    keep_reached(copy.operation, entry)  # callers have its old type
    function = find_function(copy.operation, entry)
    shardings = Shardings.of(copy.operation)
    _add_results(function, [values_of(function)[number] for number in numbers], shardings)
    _write_all(copy.operation, shardings)
    if pipeline:
        run_pipeline(copy, pipeline)
    return copy


def _can_be_result(type_: ir.Type) -> bool:
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    return has_numpy_type(type_.element_type)


def _add_results(function: ir.Operation, values: Sequence[ir.Value], shardings: Shardings) -> None:
    """Return `values` as further results, reduced and without halos."""
    last = operations(body(function))[-1]
    with ir.InsertionPoint(last), last.location:
        added = [_settled(value, shardings) for value in values]
    results = boundary(function, "res_attrs") + [{} for _ in values]
    for end in returns_of(function):
        with ir.InsertionPoint(end), end.location:
            build.create("func.return", [], [*end.operands, *added])
        end.erase()
    update_type(function)
    set_boundary(function, "res_attrs", results)


def _settled(value: ir.Value, shardings: Shardings) -> ir.Value:
    now = shardings.of_type(value.type)
    if now is not None and now.halos:
        now = replace(now, halos=(), fill="sum")
        value = build.create_value(UPDATE_HALO, shardings.typed(value.type, now), [value])
    if now is not None and now.partial:
        value = write_steps([AllReduce(now.partial, now.reduction)], value, now, shardings)
    return value


def _write_all(module: ir.Operation, shardings: Shardings) -> None:
    """Initialize every tensor: uninitialized elements differ from device to device."""
    for op in walk(module):
        if op.name not in _UNWRITTEN or op.operands or not _can_be_result(op.results[0].type):
            continue
        type_ = op.results[0].type
        sharding = shardings.of_type(type_)
        reduction = sharding.reduction if sharding is not None and sharding.partial else "sum"
        with ir.InsertionPoint(op), op.location:
            constant = reductions.identity_tensor(reduction, type_)
        replace_op(op, constant)
