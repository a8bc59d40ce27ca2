"""Remove the casts by which MLIR's canonicalization changes only the sharding in a type.

    %1 = tensor.cast %0 : tensor<4x8xf32, #mesh.shard<@g, [[0], []]>> to tensor<4x8xf32>
    %2 = tensor.concat dim(1) %1, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
    %3 = tensor.cast %2 : tensor<4x16xf32> to tensor<4x16xf32, #mesh.shard<@g, [[0], []]>>

Some canonicalization patterns replace the type of an op's result by the type that the op infers,
which has no sharding. A cast moves no data, so its operand and its result have one sharding. The op
between the casts gets its former type back.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.numbered_function import Function


def remove_casts(function: Function) -> bool:
    """Erase the casts in `function` that change only shardings, and restore the former types.

    Returns whether there were such casts: the function is to be read again then.
    """
    handles = [op.handle for op in function.ops if op.name == "tensor.cast"]
    casts = [op for op in handles if _changes_only_sharding(op)]
    for op in casts:
        source, result = op.operands[0], op.results[0]
        if source.type.encoding is None and not isinstance(source.owner, ir.Block):
            source.set_type(result.type)
        result.replace_all_uses_with(source)
        op.erase()
    return bool(casts)


def _changes_only_sharding(op: ir.Operation) -> bool:
    types = [op.operands[0].type, op.results[0].type]
    if not all(isinstance(each, ir.RankedTensorType) for each in types):
        return False
    source, result = types
    has_same_shape = list(source.shape) == list(result.shape)
    return has_same_shape and source.element_type == result.element_type and source != result
