"""Take merges apart at which a split ends because its shards would be strided.

    %1 = stablehlo.reshape %0 : (tensor<6x64x128xf32>) -> tensor<384x128xf32>

If %0 is split in the dimension of size 64 and not in that of size 6, each device has a part of
every 64 rows of %1, which no sharding can express: %0 would be gathered. The ops that use %1 are
computed on the dimensions of %0 instead (`merged_dims`), and the ops that use their results, as far
as it goes. It ends where another operand is split along the merged dimension in a way that the
parts cannot be. Which merges are strided is known once shardings have been propagated.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.model import ShardingError
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.merged_dims import (
    RESHAPE,
    apart_before_merge,
    compute_before_merge,
    is_annotated,
    merged_sizes,
    shape_of,
    source_of_reshape,
)
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.passes.propagate.sink_reshapes import erase_unused_reshapes, remove_inverse
from shard_dialect.propagation.engine import Engine
from shard_dialect.rules.reshape_factors import reshaped


def take_apart_strided_merges(graph: ModuleGraph, engine: Engine) -> bool:
    """Compute what uses strided merges before them; whether there was anything to do."""
    changed = False
    for number, function in enumerate(graph.functions):
        known = _Known(graph, engine, number)
        merges = [op.handle for op in function.ops if op.name == RESHAPE]
        strided = [merge for merge in merges if known.is_strided(merge)]
        taken_apart = [_take_apart(merge, known) for merge in strided]
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
        """Whether another operand than `value`, or what is reached, may have another shape."""
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
                    known.forget(op)
                    merged += compute_before_merge(op, apart)
                    changed = True
    return changed


def _is_worth_it(merge: ir.Operation, known: _Known) -> bool:
    """Whether what is to be merged in the end, and reduced, has no more elements than the source.

    If all uses of the merged value lead to smaller ones, or to the shape before the merge, nothing
    as large is gathered. A reduction along what is taken apart is one over devices, at twice the
    cost of a gather.
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
