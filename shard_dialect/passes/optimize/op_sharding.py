"""Shardings of a whole op: those of its operands, and those of the results that follow."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import takewhile

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Axes, Grid, Sharding, ShardingError, ShardingRule, SubAxis
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.materialize.type_consistency import assignment_of, with_partial_axes
from shard_dialect.rules import rule_of
from shard_dialect.rules.op_table import carries


@dataclass(frozen=True)
class OpSharding:
    """The shardings of an op's operands and results; `None` for values that are not tensors."""

    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]
    flops: float
    """The floating-point operations of one device; 0 for an op that is not a product."""
    elements: int
    """The elements that one device computes: of the largest operand or result."""


@dataclass(frozen=True)
class OpShardingFinder:
    """Finds ops' shardings by their rules. With `narrow`, conversions may round partial sums."""

    shardings: Shardings
    narrow: bool = False

    def sharding_of(self, value: ir.Value, grid: Grid) -> Sharding | None:
        """The sharding of a value by its type; `None` for a value that is not a tensor."""
        is_tensor = isinstance(value.type, ir.RankedTensorType)
        return self.shardings.sharding_of(value.type, grid) if is_tensor else None

    def now(self, op: ir.Operation, grid: Grid) -> OpSharding | None:
        """The present sharding of `op`; `None` for a constant, and for an op without a rule."""
        rule = rule_of(op)
        if rule is None or build.is_constant(op) or op.name == "tensor.empty":
            return None

        def derive() -> OpSharding | None:
            operands = tuple(self.sharding_of(value, grid) for value in op.operands)
            results = tuple(self.sharding_of(value, grid) for value in op.results)
            assignment = self._assignment(op, rule, grid)
            return self._with_costs(op, rule, assignment, operands, results, grid)

        return self._derived(("now", rule, _types(op), grid.name), derive)

    def with_operand(
        self, op: ir.Operation, number: int, sharding: Sharding, grid: Grid
    ) -> OpSharding | None:
        """The sharding of `op` if operand `number` has this `sharding`; `None` if it cannot."""
        rule = rule_of(op)
        if rule is None or rule.operands[number] is None:
            return None
        same = frozenset(i for i, v in enumerate(op.operands) if v == op.operands[number])
        partial_operands: frozenset[int] | None = frozenset()
        if sharding.partial:
            partial_operands = carries(op, rule, same, sharding.reduction, narrow=self.narrow)
        if partial_operands is None:
            return None

        def derive() -> OpSharding | None:
            try:
                assignment = self._changed(op, rule, rule.operands[number], sharding, grid)
                return self._of(op, rule, assignment, sharding, partial_operands, grid)
            except ShardingError:
                return None

        key = ("operand", number, sharding, partial_operands, rule, _types(op), grid.name)
        return self._derived(key, derive)

    def _derived(self, key: Hashable, derive: Callable[[], OpSharding | None]) -> OpSharding | None:
        """What `derive` gives, once for all ops of one rule and of the same types."""
        known = self.shardings.derived
        if key not in known:
            known[key] = derive()
        found: OpSharding | None = known[key]
        return found

    def with_result(
        self, op: ir.Operation, number: int, sharding: Sharding, grid: Grid
    ) -> OpSharding | None:
        """The sharding of `op` that gives result `number` this `sharding`; `None` if impossible."""
        rule = rule_of(op)
        if rule is None or rule.results[number] is None or sharding.partial:
            return None
        try:
            assignment = self._changed(op, rule, rule.results[number], sharding, grid)
            op_sharding = self._of(op, rule, assignment, sharding, frozenset(), grid)
        except ShardingError:
            return None
        return op_sharding if op_sharding and op_sharding.results[number] == sharding else None

    def _assignment(self, op: ir.Operation, rule: ShardingRule, grid: Grid) -> list[Axes]:
        operands = [self.shardings.of_type(value.type) for value in op.operands]
        results = [self.shardings.of_type(value.type) for value in op.results]
        return list(assignment_of(op, rule, operands, results, grid))

    def _changed(
        self,
        op: ir.Operation,
        rule: ShardingRule,
        dims: tuple[tuple[int, ...], ...] | None,
        sharding: Sharding,
        grid: Grid,
    ) -> list[Axes]:
        """The assignment of axes to factors after the tensor of `dims` is resharded to `sharding`.

        An axis of `sharding` is taken from the other factors that it split.
        """
        assert dims is not None
        assignment = self._assignment(op, rule, grid)
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
        op: ir.Operation,
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
        op: ir.Operation,
        rule: ShardingRule,
        assignment: list[Axes],
        operands: tuple[Sharding | None, ...],
        results: tuple[Sharding | None, ...],
        grid: Grid,
    ) -> OpSharding | None:
        elements = 0
        for value, sharding in zip((*op.operands, *op.results), operands + results, strict=True):
            if sharding is not None:
                shape: Shape = tuple(value.type.shape)
                if sharding.uneven_dim(shape, grid) is not None or sharding.halos:
                    return None
                if any(isinstance(axis, SubAxis) for axis in sharding.axes):
                    return None  # the distributed form has its sub-axes as grid axes
                elements = max(elements, sharding.local_elements(shape, grid))
        return OpSharding(operands, results, rule.flops(tuple(assignment), grid), elements)


def _types(op: ir.Operation) -> tuple[ir.Type, ...]:
    return tuple(value.type for value in (*op.operands, *op.results))
