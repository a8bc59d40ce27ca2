"""Replace a permutation of shards by slices: the same on an unsharded tensor.

    %1 = "mesh.collective_permute"(%0) {mesh_axis = [0], permutation = [1, 0]}
           : (tensor<4xf32, #mesh.shard<@g, [[0]]>>) -> tensor<4xf32, #mesh.shard<@g, [[0]]>>

becomes, on a grid of two

    %a = tensor.extract_slice %0[0] [2] [1]
    %b = tensor.insert_slice %a into %0[2] [2] [1]
    %c = tensor.extract_slice %0[2] [2] [1]
    %1 = tensor.insert_slice %c into %b[0] [2] [1]
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.mesh.attributes import ints
from shard_dialect.ir.mesh.notation import read_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.planner.permutation import moved_shards


def erase_permutation(op: ir.Operation, shardings: Shardings) -> None:
    """Replace `op`, whose result may have a sharding; its operand has none any more."""
    sharding = shardings.of_type(op.results[0].type)
    assert sharding is not None, "the verifier refuses a permutation of a replicated tensor"
    grid, axes = shardings.grid(sharding.grid), read_axes(op.attributes["mesh_axis"])
    moved = moved_shards(ints(op.attributes["permutation"]), axes, sharding, grid)
    source = result = op.operands[0]
    shape = sharding.local_shape(tuple(source.type.shape), grid)
    with ir.InsertionPoint(op), op.location:
        for target, held in moved.items():
            shard = source
            for dim, size in enumerate(shape):
                if size < shard.type.shape[dim]:
                    shard = build.extract_slice(shard, held[dim] * size, size, dim)
            begins = [index * size for index, size in zip(target, shape, strict=True)]
            result = _inserted(shard, result, begins)
    op.results[0].replace_all_uses_with(result)
    op.erase()


def _inserted(shard: ir.Value, into: ir.Value, begins: Sequence[int]) -> ir.Value:
    attributes = build.slice_attributes(shard.type.shape, begins, [1, 1, 0, 0, 0])
    return build.create("tensor.insert_slice", [into.type], [shard, into], attributes).results[0]
