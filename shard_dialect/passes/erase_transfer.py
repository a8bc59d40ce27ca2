"""Replace a transfer of a part of a tensor by a slice: the same on an unsharded tensor.

    %1 = "mesh.transfer"(%0) {cluster = @second, offsets = [4]} : (tensor<8xf32>) -> tensor<4xf32>
    %3 = "mesh.transfer"(%2, %0) {cluster = @all, offsets = [4]}
           : (tensor<4xf32>, tensor<8xf32>) -> tensor<8xf32>

becomes

    %1 = tensor.extract_slice %0[4] [4] [1]
    %3 = tensor.insert_slice %2 into %0[4] [4] [1]
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.boxes import extract_box, insert_box
from shard_dialect.ir.mesh.attributes import ints


def erase_transfer(op: ir.Operation) -> None:
    """Replace `op`, a `mesh.transfer`, whose operands and result have no sharding any more."""
    source, *into = op.operands
    offsets = list(ints(op.attributes["offsets"]))
    with ir.InsertionPoint(op), op.location:
        if into:
            result = insert_box(into[0], source, offsets)
        else:
            result = extract_box(source, offsets, tuple(op.results[0].type.shape))
    op.results[0].replace_all_uses_with(result)
    op.erase()
