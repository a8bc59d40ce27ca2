"""Search for the largest or smallest element on each shard first, then among the shards' results.

    %v:2 = reduce (%x, %i) by largest over [1]          with %x split in four along dimension 1

becomes

    %a, %b = reshape %x, %i                             [8, 16] as [8, 4, 4], split in four along 1
    %w:2 = reduce (%a, %b) by largest over [2]          each device searches its shard
    %v:2 = reduce (%w#0, %w#1) by largest over [1]      searches four elements in each row

so that one element of each shard is gathered, not all of them. The search finds the same element:
the first among equal ones, and the elements keep their order. No collective has such a reduction;
the reductions that a collective has are split without this pass. Any choice of elements by a
comparison is such a search.

A sort of which only the first elements are read, as of `top_k`, is made on shards first, too:

    %s = sort %x along 1, of which a slice [0:3] is read

sorts each shard, and then the first three elements of all.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import resized
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.annotation_ops import has_loops
from shard_dialect.ir.mesh.attributes import RULE, SHARDINGS, drop_attributes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import read_functions
from shard_dialect.ir.walk import walk
from shard_dialect.ops.stablehlo.attribute_reading import integers, sorted_dim
from shard_dialect.ops.stablehlo.reduction_rules import is_choice
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, Pass, needs
from shard_dialect.passes.materialize.target_shardings import read_target_shardings


@needs(ops=("stablehlo.reduce", "stablehlo.sort"), forms=("propagated",))
@dataclass(frozen=True)
class SplitReductions(Pass):
    """Search for the first elements in an order on shards, and then among those found there."""

    name = "split-reductions"

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Split the searches of functions in the propagated form; raises a located `ShardError`."""
        split_results = [
            function
            for function in functions_of(module)
            if form_of(function) == "propagated"
            and any(_is_search(op) or _first_read(op) for op in walk(function))
        ]
        if not split_results:
            return UNCHANGED
        outcome: Outcome = UNCHANGED
        shardings = Shardings.of(module)
        for each in read_target_shardings(module, read_functions(split_results), shardings):
            for op in each.function.ops:
                first = _first_read(op.handle)
                is_split = first or _is_search(op.handle)
                sharding = each.of.get(op.operands[0]) if is_split else None
                if sharding is None or sharding.offsets:
                    continue
                outcome = None
                if first:
                    dim = sorted_dim(op.handle)
                    count = each.grid.axes_size(sharding.split_axes[dim])
                    _split_sort(op.handle, dim, count, first)
                else:
                    (dim,) = integers(op.handle, "dimensions")
                    _split(op.handle, dim, each.grid.axes_size(sharding.split_axes[dim]))
        return outcome


def _is_search(op: ir.Operation) -> bool:
    """Whether `op` is a search along one dimension.

    Along several dimensions, shards would change which of equal elements comes first.
    """
    return (
        op.name == "stablehlo.reduce"
        and len(integers(op, "dimensions")) == 1
        and op.operands[0].type.has_static_shape
        and is_choice(op)
        and not has_loops(op)
        and RULE not in op.attributes
    )


def _first_read(op: ir.Operation) -> int:
    """How many of the first elements along its dimension are read of a sort; 0 for all."""
    if op.name != "stablehlo.sort" or has_loops(op) or RULE in op.attributes:
        return 0
    dim, most = sorted_dim(op), 0
    uses = [use.owner.operation for result in op.results for use in result.uses]
    for user in uses:
        if user.name != "stablehlo.slice" or integers(user, "start_indices")[dim]:
            return 0
        most = max(most, integers(user, "limit_indices")[dim])
    return most


def _split_sort(op: ir.Operation, dim: int, count: int, first: int) -> None:
    """Sort the `count` shards of dimension `dim` first, and then their first elements."""
    size = op.operands[0].type.shape[dim]
    if count == 1 or size % count or count * first >= size:
        return
    with ir.InsertionPoint(op), op.location:
        shards = [_with_shard_dim(operand, dim, count) for operand in op.operands]
        inner = op.clone().operation
        for each in (inner, op):
            drop_attributes(each, SHARDINGS)
        i64 = ir.IntegerType.get_signless(64)
        inner.attributes["dimension"] = ir.IntegerAttr.get(i64, dim + 1)
        for number, (shard, result) in enumerate(zip(shards, inner.results, strict=True)):
            result.set_type(shard.type)
            inner.operands[number] = shard
        for number, result in enumerate(inner.results):
            shape = list(op.operands[number].type.shape)
            shape[dim] = count * first
            best = hlo.reshape(hlo.slice_along(result, dim + 1, 0, first), shape)
            op.operands[number] = best
            op.results[number].set_type(best.type)


def _split(op: ir.Operation, dim: int, count: int) -> None:
    """Search the `count` shards of dimension `dim` first, if they have one size."""
    size = op.operands[0].type.shape[dim]
    if count == 1 or size % count or size == count:
        return
    with ir.InsertionPoint(op), op.location:
        shards = [
            _with_shard_dim(op.operands[number], dim, count) for number in range(len(op.results))
        ]
        inner = op.clone().operation
    drop_attributes(inner, SHARDINGS)
    # The shards became dimension `dim`, in front of their elements: the inner search drops `dim +
    # 1`, so the outer op, unchanged, reduces `dim` over the shards' winners.
    inner.attributes["dimensions"] = ir.DenseI64ArrayAttr.get([dim + 1])
    for number, (shard, result) in enumerate(zip(shards, inner.results, strict=True)):
        shape = [each for at, each in enumerate(shard.type.shape) if at != dim + 1]
        result.set_type(resized(shard.type, shape))
        inner.operands[number], op.operands[number] = shard, result


def _with_shard_dim(value: ir.Value, dim: int, count: int) -> ir.Value:
    shape = list(value.type.shape)
    shape[dim : dim + 1] = [count, shape[dim] // count]
    return hlo.reshape(value, shape)
