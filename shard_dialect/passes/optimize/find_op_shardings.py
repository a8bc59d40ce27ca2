"""Find the shardings that an op can have: those of its operands, and of the results that follow."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from shard_dialect.ir.building import build
from shard_dialect.model import (
    Axes,
    Grid,
    Sharding,
    ShardingError,
    ShardingRule,
    SubAxis,
)
from shard_dialect.passes.materialize.type_consistency import assignment_of, with_partial_axes
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import GraphOp, GraphValue, OpSharding
from shard_dialect.rules.op_table import carries


@dataclass(frozen=True)
class OpShardingFinder:
    """Finds ops' shardings by their rules, once for all ops of a kind with the same shardings.

    With `narrow`, conversions may round partial sums.
    """

    graph: FunctionGraph
    narrow: bool = False

    def now(self, op: GraphOp, grid: Grid) -> OpSharding | None:
        """The present sharding of `op`; `None` for a constant, and for an op without a rule."""
        rule = self._rule_of(op)
        if rule is None or op.name in build.CONSTANTS or op.name == "tensor.empty":
            return None

        def derive() -> OpSharding | None:
            operands = tuple([self._sharding_of(value, grid) for value in op.operands])
            results = tuple([self._sharding_of(value, grid) for value in op.results])
            return self._with_costs(op, rule, _assignment(op, rule, grid), operands, results, grid)

        return self._derived(op, grid, "now", derive)

    def with_operand(
        self, op: GraphOp, number: int, sharding: Sharding, grid: Grid
    ) -> OpSharding | None:
        """The sharding of `op` if operand `number` has this `sharding`; `None` if it cannot."""
        rule = self._rule_of(op)
        if rule is None or rule.operands[number] is None:
            return None
        value = op.operands[number]
        same = frozenset([i for i, each in enumerate(op.operands) if each is value])

        def derive() -> OpSharding | None:
            partial_operands: frozenset[int] | None = frozenset()
            if sharding.partial:
                reduction = sharding.reduction
                partial_operands = carries(op.handle, rule, same, reduction, narrow=self.narrow)
            if partial_operands is None:
                return None
            try:
                assignment = self._changed(op, rule, rule.operands[number], sharding, grid)
                return self._of(op, rule, assignment, sharding, partial_operands, grid)
            except ShardingError:
                return None

        return self._derived(op, grid, (number, same, sharding, self.narrow), derive)

    def with_result(
        self, op: GraphOp, number: int, sharding: Sharding, grid: Grid
    ) -> OpSharding | None:
        """The sharding of `op` that gives result `number` this `sharding`; `None` if impossible."""
        rule = self._rule_of(op)
        if rule is None or rule.results[number] is None or sharding.partial:
            return None

        def derive() -> OpSharding | None:
            try:
                assignment = self._changed(op, rule, rule.results[number], sharding, grid)
                op_sharding = self._of(op, rule, assignment, sharding, frozenset(), grid)
            except ShardingError:
                return None
            is_it = op_sharding is not None and op_sharding.results[number] == sharding
            return op_sharding if is_it else None

        return self._derived(op, grid, ("result", number, sharding), derive)

    def _rule_of(self, op: GraphOp) -> ShardingRule | None:
        return None if op.block is None else self.graph.kind_of(op).rule

    def _sharding_of(self, value: GraphValue | None, grid: Grid) -> Sharding | None:
        if value is None or not value.kind.is_tensor:
            return None
        return self.graph.sharding_on(grid.name, value)

    def _derived(
        self, op: GraphOp, grid: Grid, question: Hashable, derive: Callable[[], OpSharding | None]
    ) -> OpSharding | None:
        """What `derive` returns; `None` where a tensor of the op is on another grid."""
        operand_values = [value for value in op.operands if value is not None]
        self.graph.looked_at.update(operand_values, op.results)
        # The graph interns shardings, so that their ids tell them apart; hashing them takes longer.
        operands = tuple([id(value.sharding) for value in operand_values])
        results = tuple([id(value.sharding) for value in op.results])
        key = (self.graph.kind_of(op), operands, results, grid.name, question)
        if key not in self.graph.op_shardings:
            values = (*operand_values, *op.results)
            grids = {value.sharding.grid for value in values if value.sharding is not None}
            self.graph.op_shardings[key] = derive() if grids <= {grid.name} else None
        return self.graph.op_shardings[key]

    def _changed(
        self,
        op: GraphOp,
        rule: ShardingRule,
        dims: tuple[tuple[int, ...], ...] | None,
        sharding: Sharding,
        grid: Grid,
    ) -> list[Axes]:
        """The assignment of axes to factors after the tensor of `dims` is resharded to `sharding`.

        An axis of `sharding` is taken from the other factors that it split.
        """
        assert dims is not None
        assignment = _assignment(op, rule, grid)
        new = rule.factors_of(dims, sharding.with_partial(()), grid)
        used = {axis for axes in new.values() for axis in axes}
        for factor, axes in enumerate(assignment):
            assignment[factor] = tuple(takewhile(lambda axis: axis not in used, axes))
        for factor in {factor for dim in dims for factor in dim}:
            assignment[factor] = new.get(factor, ())
        for factor, axes in enumerate(assignment):
            if axes and (factor in rule.unsplit or rule.sizes[factor] % grid.axes_size(axes)):
                raise ShardingError("is not split so")
        return assignment

    def _of(
        self,
        op: GraphOp,
        rule: ShardingRule,
        assignment: list[Axes],
        partial_sharding: Sharding,
        numbers: frozenset[int],
        grid: Grid,
    ) -> OpSharding | None:
        axes = [axis for each in assignment for axis in each]
        kinds = {kind for factor, kind in rule.reductions if assignment[factor]}
        if len(axes) != len(set(axes)) or len(kinds) > 1:
            return None
        kept_partial = partial_sharding if numbers else None
        results = [
            with_partial_axes(rule.result_sharding(number, tuple(assignment), grid), kept_partial)
            for number in range(len(rule.results))
        ]
        operands = []
        for number in range(len(rule.operands)):
            operand_sharding = rule.operand_sharding(number, tuple(assignment), grid)
            if number in rule.inits:
                operand_sharding = results[rule.inits.index(number)]
            elif number in numbers:
                operand_sharding = with_partial_axes(operand_sharding, kept_partial)
            operands.append(operand_sharding)
        return self._with_costs(op, rule, assignment, tuple(operands), tuple(results), grid)

    def _with_costs(
        self,
        op: GraphOp,
        rule: ShardingRule,
        assignment: list[Axes],
        operands: tuple[Sharding | None, ...],
        results: tuple[Sharding | None, ...],
        grid: Grid,
    ) -> OpSharding | None:
        elements, touched = 0, 0
        values = (*op.operands, *op.results)
        for value, sharding in zip(values, operands + results, strict=True):
            if sharding is not None and value is not None:
                shape = value.kind.shape
                assert shape is not None, "a sharding rule relates tensors of static shape"
                if sharding.uneven_dim(shape, grid) is not None or sharding.halos:
                    return None
                if any(isinstance(axis, SubAxis) for axis in sharding.axes):
                    return None  # the distributed form has its sub-axes as grid axes
                held = sharding.local_elements(shape, grid)
                elements, touched = max(elements, held), touched + held * value.kind.itemsize
        work = 0.0
        if rule.is_product:
            flops = rule.flops(tuple(assignment), grid)
            element = str(op.results[0].kind.type.element_type)
            work = self.graph.prices.work(flops, element, touched)
        return OpSharding(self._interned(operands), self._interned(results), work, elements)

    def _interned(self, shardings: Sequence[Sharding | None]) -> tuple[Sharding | None, ...]:
        return tuple([None if each is None else self.graph.interned(each) for each in shardings])


def _assignment(op: GraphOp, rule: ShardingRule, grid: Grid) -> list[Axes]:
    operands = [None if value is None else value.sharding for value in op.operands]
    results = [value.sharding for value in op.results]
    return list(assignment_of(op.name, rule, operands, results, grid))
