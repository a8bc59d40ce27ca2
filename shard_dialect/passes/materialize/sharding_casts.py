"""Casts that change no more than the sharding in a type, as MLIR's canonicalization makes them.

    %1 = tensor.cast %0 : tensor<4x8xf32, #mesh.shard<@g, [[0], []]>> to tensor<4x8xf32>
    %2 = tensor.concat dim(1) %1, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %3 = tensor.cast %2 : tensor<4x16xf32> to tensor<4x16xf32, #mesh.shard<@g, [[0], []]>>

Some of its patterns take the type that an op infers for the one that it is to have. A cast moves
nothing, so what it makes lies as what it takes, and the op in between as before.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk


def take_casts_back(function: ir.Operation) -> None:
    """Let values have the types that they had before such casts."""
    for op in walk(function):
        if op.name != "tensor.cast" or not _is_of_sharding(op):
            continue
        given, made = op.operands[0], op.results[0]
        if given.type.encoding is None and not isinstance(given.owner, ir.Block):
            given.set_type(made.type)
        made.replace_all_uses_with(given)
        op.erase()


def _is_of_sharding(op: ir.Operation) -> bool:
    types = [op.operands[0].type, op.results[0].type]
    if not all(isinstance(each, ir.RankedTensorType) for each in types):
        return False
    given, made = types
    are_alike = list(given.shape) == list(made.shape) and given.element_type == made.element_type
    return are_alike and given != made
