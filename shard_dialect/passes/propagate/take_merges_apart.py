"""Compute ops before a reshape that merges dimensions, where the merge would end a split.

`take-merges-apart` takes merges apart at which a split ends because its shards would be strided.

    %1 = stablehlo.reshape %0 : (tensor<6x64x128xf32>) -> tensor<384x128xf32>

If %0 is split in the dimension of size 64 and not in that of size 6, each device has a part of
every 64 rows of %1, which no sharding can express: %0 would be gathered. The ops that use %1 are
computed on the dimensions of %0 instead (`compute_before_merges`), and the ops that use their
results, as far as it goes. It ends where another operand is split along the merged dimension in a
way that the parts cannot be. Which merges are strided is known once shardings have been propagated.

`sink-reshapes` moves reshapes that merge dimensions behind elementwise ops, before propagation.

    %1 = stablehlo.reshape %0 : (tensor<8x4x16xf32>) -> tensor<32x16xf32>
    %2 = stablehlo.tanh %1 : tensor<32x16xf32>
    %3 = stablehlo.reshape %2 : (tensor<32x16xf32>) -> tensor<8x4x16xf32>

becomes

    %2 = stablehlo.tanh %0 : tensor<8x4x16xf32>

If %0 is split in the dimension of size 4 and not in that of size 8, a shard of %1 is strided, which
no sharding can express. An elementwise op computes the same on any shape, so the reshape moves
behind the op. If the op is followed by the inverse reshape, both reshapes are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import drop_unused
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import walk
from shard_dialect.model import ShardingError
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.factors import reshaped
from shard_dialect.passes.framework.base import (
    CURRENT,
    UNCHANGED,
    Outcome,
    Pass,
    forget_analyses,
    is_imported,
    known,
    needs,
)
from shard_dialect.passes.framework.options import PropagationOptions
from shard_dialect.passes.propagate.compute_before_merges import (
    RESHAPE,
    apart_before_merge,
    compute_before_merge,
    is_annotated,
    is_elementwise,
    merged_sizes,
    shape_of,
    source_of_reshape,
)
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.passes.propagate.propagate_shardings import Propagated, Propagation
from shard_dialect.propagation.engine import Engine


@needs(ops=(RESHAPE,), forms=("annotated",), grid=True, keeps=(is_imported,))
@dataclass(frozen=True)
class SinkReshapes(Pass):
    """Move reshapes that merge dimensions behind elementwise ops, and drop those that undo them."""

    name = "sink-reshapes"

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Sink the reshapes of the functions in the annotated form."""
        outcome: Outcome = UNCHANGED
        for function in functions_of(module, "annotated"):
            if _sink(function):
                outcome = None
        return outcome


def _sink(function: ir.Operation) -> bool:
    """Whether that has changed the function."""
    changed = False
    for op in walk(function):
        changed |= remove_inverse(op) if op.name == RESHAPE else _compute_before(op)
    return erase_unused_reshapes(function) or changed


def _compute_before(op: ir.Operation) -> bool:
    for number, operand in enumerate(op.operands):
        source = source_of_reshape(operand)
        sizes = merged_sizes(source, operand) if source is not None else ()
        if sizes and is_elementwise(op):
            apart = apart_before_merge(op, number, sizes)
            if apart is not None:
                compute_before_merge(op, apart)
            return apart is not None
    return False


def remove_inverse(op: ir.Operation) -> bool:
    """Replace a reshape that undoes the reshape of its operand by the source, if it is one."""
    source = None if is_annotated(op) else source_of_reshape(op.operands[0])
    is_inverse = source is not None and source.type == op.results[0].type
    if is_inverse:
        op.results[0].replace_all_uses_with(source)
    return is_inverse


def erase_unused_reshapes(function: ir.Operation) -> bool:
    """Erase the reshapes whose results nothing uses, if there are any."""
    return drop_unused(op for op in reversed(walk(function)) if op.name == RESHAPE)


@needs(ops=(RESHAPE,), forms=("annotated", "propagated"), grid=True)
@dataclass(frozen=True)
class TakeMergesApart(PropagationOptions, Pass):
    """Compute on dimensions that are not merged where merging them would end a split."""

    name = "take-merges-apart"

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Take merges apart until propagation splits none that is strided; raises `ShardError`."""
        outcome: Outcome = UNCHANGED
        while self.may_rewrite and _take_apart_all(known(module, Propagation.like(self))):
            forget_analyses()  # taking one apart may bring a split to another
            outcome = CURRENT  # since it is propagated last
        return outcome


def _take_apart_all(found: Propagated) -> bool:
    """Compute the users of strided merges before them; returns whether anything changed."""
    changed = False
    for number, function in enumerate(found.graph.functions):
        known_shardings = _Known(found.graph, found.engine, number)
        merges = [op.handle for op in function.ops if op.name == RESHAPE]
        strided = [merge for merge in merges if known_shardings.is_strided(merge)]
        taken_apart = [_take_apart(merge, known_shardings) for merge in strided]
        if any(taken_apart):
            erase_unused_reshapes(function.handle)
            changed = True
    return changed


@dataclass(frozen=True)
class _Known:
    """The shardings that propagation gave one function's values."""

    graph: ModuleGraph
    engine: Engine
    function: int

    @cached_property
    def numbers(self) -> dict[ir.Value, int]:
        values = self.graph.functions[self.function].values
        return {value.handle: number for number, value in enumerate(values)}

    def forget(self, op: ir.Operation) -> None:
        """Forget the results of an op that may be erased: others could take their addresses."""
        for result in op.results:
            self.numbers.pop(result, None)

    def beside(
        self, value: ir.Value, reached: AbstractSet[ir.Value] = frozenset()
    ) -> Callable[[ir.Value, Shape], bool]:
        """Whether an operand may have another shape: `value`, one in `reached`, or any it fits."""
        return lambda other, shape: (
            other == value or other in reached or self.survives(other, shape)
        )

    def is_strided(self, merge: ir.Operation) -> bool:
        """Whether a reshape merges dimensions, and a split of its operand ends there."""
        source = source_of_reshape(merge.results[0])
        if source is None or self.survives(source, tuple(merge.results[0].type.shape)):
            return False
        return bool(merged_sizes(source, merge.results[0]))

    def survives(self, value: ir.Value, shape: Shape) -> bool:
        """Whether the value's splits can be expressed in another shape of it."""
        before = shape_of(value)
        if before == shape or value not in self.numbers or before is None:
            return True
        annotation = self.engine.known(self.graph.number_of(self.function, self.numbers[value]))
        if annotation is None or not annotation.sharding.axes:
            return True
        sharding = annotation.sharding
        rule, grid = reshaped(before, shape), self.engine.grids[sharding.grid]
        assert rule.operands[0] is not None, "a reshape is of tensors"
        try:
            splits = rule.factors_of(rule.operands[0], sharding.bare, grid)
            rule.result_sharding(0, tuple(splits.get(f, ()) for f in range(len(rule.sizes))), grid)
        except ShardingError:
            return False
        return True


def _take_apart(merge: ir.Operation, known: _Known) -> bool:
    """Compute the ops that use the merged value before the merge, and so on with their results."""
    if not _is_worth_it(merge, known):
        return False
    changed = False
    merged = [merge.results[0]]
    while merged:
        value = merged.pop()
        source = source_of_reshape(value)
        sizes = merged_sizes(source, value) if source is not None else ()
        for op, number in _users(value):
            if op.name == RESHAPE:
                remove_inverse(op)
            elif sizes:
                apart = apart_before_merge(op, number, sizes, known.beside(value))
                if apart is not None:
                    # Before the op is erased, while its results are still valid keys.
                    known.forget(op)
                    merged += compute_before_merge(op, apart)
                    changed = True
    return changed


def _is_worth_it(merge: ir.Operation, known: _Known) -> bool:
    """Whether the values merged in the end, or reduced, have no more elements than the source.

    If all uses of the merged value lead to smaller ones, or to the shape before the merge, nothing
    as large is gathered. A reduction along a factor that is taken apart is one over devices, at
    twice the cost of a gather.
    """
    source = merge.operands[0]
    elements = 0
    queue = [(merge.results[0], merged_sizes(source, merge.results[0]))]
    reached = {merge.results[0]}
    while queue:
        value, sizes = queue.pop()
        before = tuple(size for each in sizes for size in each)
        stays = False
        for op, number in _users(value):
            if op.name == RESHAPE:
                stays |= is_annotated(op) or tuple(op.results[0].type.shape) != before
                continue
            apart = apart_before_merge(op, number, sizes, known.beside(value, reached))
            if apart is None:
                stays = True
                continue
            for index, result in enumerate(op.results):
                merged = apart.merged_by(index)
                elements += 2 * prod(result.type.shape) if apart.reduces else 0
                if merged and result not in reached:
                    reached.add(result)
                    queue.append((result, merged))
        elements += prod(value.type.shape) if stays else 0
    return elements <= prod(source.type.shape)


def _users(value: ir.Value) -> list[tuple[ir.Operation, int]]:
    """The ops that use a value, each once, with an operand number."""
    return list({use.owner.operation: use.operand_number for use in value.uses}.items())
