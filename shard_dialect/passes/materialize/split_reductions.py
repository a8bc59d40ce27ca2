"""Search for the largest or smallest element on each shard first, then among the shards' results.

    %v:2 = reduce (%x, %i) by largest over [1]          with %x split in four along dimension 1

becomes

    %a, %b = reshape %x, %i                             [8, 16] as [8, 4, 4], split in four along 1
    %w:2 = reduce (%a, %b) by largest over [2]          each device searches its shard
    %v:2 = reduce (%w#0, %w#1) by largest over [1]      searches four elements in each row

so that one element of each shard is gathered, not all of them. The search finds the same element:
the first among equal ones, and the elements keep their order. No collective has such a reduction;
the reductions that a collective has are split without this pass.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create, resized
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.mesh.attributes import RULE, SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.read_function import read_functions
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.materialize.target_shardings import read_target_shardings
from shard_dialect.rules.stablehlo.argmax_search import search_kind
from shard_dialect.rules.stablehlo.attribute_reading import integers


@dataclass(frozen=True)
class SplitReductions(Pass):
    """Search for the largest or smallest element on shards, and then among those found there."""

    name = "split-reductions"

    def rewrite(self, module: ir.Operation) -> None:
        """Split the searches of functions in the propagated form; raises a located `ShardError`."""
        split_results = [
            function
            for function in functions_of(module)
            if form_of(function) == "propagated" and any(map(_is_search, walk(function)))
        ]
        if not split_results:
            return
        shardings = Shardings.of(module)
        for each in read_target_shardings(module, read_functions(split_results), shardings):
            for op in each.function.ops:
                sharding = each.of.get(op.operands[0]) if _is_search(op.handle) else None
                if sharding is not None and not sharding.offsets:
                    (dim,) = integers(op.handle, "dimensions")
                    _split(op.handle, dim, each.grid.axes_size(sharding.split_axes[dim]))


def _is_search(op: ir.Operation) -> bool:
    """Whether `op` is a search along one dimension.

    Along several dimensions, shards would change which of equal elements comes first.
    """
    return (
        op.name == "stablehlo.reduce"
        and len(integers(op, "dimensions")) == 1
        and op.operands[0].type.has_static_shape
        and search_kind(op) is not None
        and not has_loops(op)
        and RULE not in op.attributes
    )


def _split(op: ir.Operation, dim: int, count: int) -> None:
    """Search the `count` shards of dimension `dim` first, if they have one size."""
    size = op.operands[0].type.shape[dim]
    if count == 1 or size % count or size == count:
        return
    with ir.InsertionPoint(op), op.location:
        shards = [_with_shard_dim(op.operands[number], dim, count) for number in (0, 1)]
        inner = op.clone().operation
    if SHARDINGS in inner.attributes:
        del inner.attributes[SHARDINGS]
    inner.attributes["dimensions"] = ir.DenseI64ArrayAttr.get([dim + 1])
    for number, (shard, result) in enumerate(zip(shards, inner.results, strict=True)):
        shape = [each for at, each in enumerate(shard.type.shape) if at != dim + 1]
        result.set_type(resized(shard.type, shape))
        inner.operands[number], op.operands[number] = shard, result


def _with_shard_dim(value: ir.Value, dim: int, count: int) -> ir.Value:
    shape = list(value.type.shape)
    shape[dim : dim + 1] = [count, shape[dim] // count]
    return create("stablehlo.reshape", [resized(value.type, shape)], [value]).results[0]
