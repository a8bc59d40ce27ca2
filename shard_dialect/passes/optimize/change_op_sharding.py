"""Change the shardings of ops: the cost of it, and the rewrite.

An operand that a reshard produces may be resharded from that reshard's source directly. A result
that a reshard takes is resharded to that reshard's target directly. Values for other users keep
their sharding.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from shard_dialect.ir.building import reductions
from shard_dialect.model import Grid, Sharding
from shard_dialect.passes.optimize.graph.function_graph import FunctionGraph
from shard_dialect.passes.optimize.graph.graph_elements import (
    GraphOp,
    GraphValue,
    InsertionPoint,
    OpSharding,
)
from shard_dialect.planner import Plan, plan_between

_NOTHING: Mapping[GraphValue, Sharding] = {}


class Change(NamedTuple):
    """What a rewrite adds for each device; less is better, in the order of the fields."""

    price: int = 0
    """The price of collectives: bytes, or time (`planner.step_prices`)."""
    work: float = 0
    """The price of the arithmetic of products."""
    elements: int = 0
    """The elements that ops compute."""

    def plus(self, other: Change) -> Change:
        """What both rewrites add."""
        return Change(
            self.price + other.price,
            self.work + other.work,
            self.elements + other.elements,
        )

    @property
    def key(self) -> tuple[float, int]:
        """The cost to compare changes by: the price of all, then elements."""
        return self.price + self.work, self.elements


def reshard_before(op: GraphOp, value: GraphValue) -> GraphOp | None:
    """The reshard in the block of `op` that defines `value`, if one does.

    A reshard before a loop runs once; moved into the loop it would run in each iteration.
    """
    owner = value.owner
    return owner if owner is not None and owner.is_reshard and owner.block is op.block else None


@dataclass
class Resharder:
    """Changes the shardings of ops on a grid: first the costs, then op by op in their order."""

    graph: FunctionGraph
    grid: Grid
    _resharded: dict[tuple[GraphValue, Sharding], GraphValue] = field(default_factory=dict)

    def is_better(self, change: Change) -> bool:
        """Whether all of a change costs less, and no more bytes move.

        Time may move from products to collectives, as both are the same time.
        """
        return change.key < (0, 0) and (change.price <= 0 or self.graph.prices.is_time)

    def sharding_of(self, value: GraphValue) -> Sharding:
        """The present sharding of a tensor."""
        return self.graph.sharding_on(self.grid.name, value)

    def plan(self, value: GraphValue, source: Sharding, target: Sharding) -> Plan:
        """The reshard plan of a value from `source` to `target`."""
        key = (value.kind, source, target)
        known = self.graph.plans.get(key)
        if known is None:
            shape = value.kind.shape
            assert shape is not None, "only tensors of static shape are resharded"
            grid_of = self.graph.shardings.grid
            grids = grid_of(source.grid), grid_of(target.grid)
            known = plan_between(
                source, target, shape, value.kind.itemsize, *grids, self.graph.prices
            )
            self.graph.plans[key] = known
        return known

    def price_between(self, value: GraphValue, source: Sharding, target: Sharding) -> int:
        """What a reshard from `source` to `target` costs."""
        return self.plan(value, source, target).cost

    def price_of(self, reshard: GraphOp) -> int:
        """What an existing reshard costs."""
        collective, kind = self.graph.collective_of(reshard), reshard.results[0].kind
        key = (kind, collective.steps, collective.source)
        known = self.graph.known_prices.get(key)
        if known is None:
            assert kind.shape is not None, "only tensors of static shape are resharded"
            grid_of = self.graph.shardings.grid
            known = self.graph.prices.steps(
                collective.steps,
                collective.source,
                kind.shape,
                kind.itemsize,
                grid_of(collective.source.grid),
                grid_of(collective.target.grid),
            )
            self.graph.known_prices[key] = known
        return known

    def operands_change(
        self,
        op: GraphOp,
        now: OpSharding,
        then: OpSharding,
        done: Mapping[GraphValue, Sharding] = _NOTHING,
    ) -> Change:
        """What resharding the operands of `op` adds; the values in `done` are resharded already.

        `done` has their new shardings, from which they may be resharded further.
        """
        extra = 0
        needs: dict[GraphValue, set[Sharding]] = {}
        for value, sharding in zip(op.operands, then.operands, strict=True):
            if sharding is not None and value is not None and value not in done:
                needs.setdefault(value, set()).add(sharding)
        for value, targets in needs.items():
            reshard = reshard_before(op, value)
            if reshard is not None and self.graph.is_only_for(value, op):
                extra -= self.price_of(reshard)
            extra += sum(self.price_for(op, value, target, done) for target in targets)
        return Change(extra, then.work - now.work, then.elements - now.elements)

    def price_for(
        self,
        op: GraphOp,
        value: GraphValue,
        target: Sharding,
        done: Mapping[GraphValue, Sharding] = _NOTHING,
    ) -> int:
        """What it costs to give `op` the operand `value` in the sharding `target`.

        `done` has the shardings that values will have by then.
        """
        if self._may_be_created(value, target):
            return 0
        source = self._source(op, value, target)
        return self.price_between(source, done.get(source) or self.sharding_of(source), target)

    def _source(self, op: GraphOp, value: GraphValue, target: Sharding) -> GraphValue:
        """The value to reshard to `target` for `op`: `value`, or the source of the reshard before.

        The latter where `op` is the reshard's only user, since the reshard is then dropped.
        """
        reshard = reshard_before(op, value)
        source = reshard.operands[0] if reshard is not None else None
        if source is None:
            return value
        if not self.graph.is_only_for(value, op):
            here = self.price_between(value, self.sharding_of(value), target)
            there = self.price_between(source, self.sharding_of(source), target)
            source = value if here < there else source
        return self._cheapest_behind(op, source, target) if target.halos else source

    def _cheapest_behind(self, op: GraphOp, value: GraphValue, target: Sharding) -> GraphValue:
        """Of `value` and the tensors that it is a reshard of, one from which halos cost least.

        There is a reshard for each dimension that was sliced, or whose halo was dropped.
        """
        found = [value]
        while (reshard := reshard_before(op, found[-1])) is not None:
            source = reshard.operands[0]
            assert source is not None, "a reshard has one operand, a tensor"
            found.append(source)
        return min(found, key=lambda each: self.price_between(each, self.sharding_of(each), target))

    def price_out(
        self, value: GraphValue, sharding: Sharding, inside: Container[GraphOp] = ()
    ) -> int:
        """What it adds to reshard `value` from `sharding` for its users not in `inside`."""
        extra = 0
        outside = [user for user in self.graph.users(value) if user not in inside]
        if any(not user.is_reshard for user in outside):
            extra += self.price_between(value, sharding, self.sharding_of(value))
        for user in outside:
            if user.is_reshard:
                target = self.sharding_of(user.results[0])
                extra += self.price_between(value, sharding, target) - self.price_of(user)
        return extra

    def do(self, op: GraphOp, then: OpSharding) -> None:
        """Reshard the operands of `op` and set its results' types, without resharding results."""
        for number, (value, sharding) in enumerate(zip(op.operands, then.operands, strict=True)):
            if sharding is not None and value is not None:
                self.graph.set_operand(op, number, self._bring(op, value, sharding))
        for result, new_sharding in zip(op.results, then.results, strict=True):
            if new_sharding is not None:
                self.graph.retype(result, new_sharding)

    def bring_from(self, reshard: GraphOp, target: Sharding) -> None:
        """Reshard the source of `reshard` to `target`, before it."""
        source = reshard.operands[0]
        assert source is not None, "a reshard has one operand, a tensor"
        is_there = self.sharding_of(source) == target
        resharded = source if is_there else self._write(source, target, InsertionPoint.at(reshard))
        self._resharded[reshard.results[0], target] = resharded

    def finish(self, op: GraphOp, before: OpSharding, inside: Container[GraphOp] = ()) -> None:
        """Reshard the results of `op` back from `then` for the users that are not in `inside`.

        `before` has the shardings that these users expect.
        """
        for value, old in zip(op.results, before.results, strict=True):
            if old is None or self.sharding_of(value) == old:
                continue
            outside = [user for user in self.graph.users(value) if user not in inside]
            after = InsertionPoint.after(op)
            others = [user for user in outside if not user.is_reshard]
            if others:
                resharded = self._write(value, old, after)
                for user in others:
                    self.graph.replace_in(user, value, resharded)
            for user in outside:
                if user.is_reshard:
                    target = self.sharding_of(user.results[0])
                    resharded = self._write(value, target, InsertionPoint.at(user))
                    self.graph.replace_all_uses(user.results[0], resharded)

    def _bring(self, op: GraphOp, value: GraphValue, target: Sharding) -> GraphValue:
        if self.sharding_of(value) == target:
            return value
        if (value, target) not in self._resharded:
            self._resharded[value, target] = self._new(op, value, target)
        return self._resharded[value, target]

    def _new(self, op: GraphOp, value: GraphValue, target: Sharding) -> GraphValue:
        at = InsertionPoint.at(op)
        if value.owner is not None and self._may_be_created(value, target):
            return self.graph.copy_fresh(value.owner, target, at)
        return self._write(self._source(op, value, target), target, at)

    def _may_be_created(self, value: GraphValue, target: Sharding) -> bool:
        """Whether `value` is an empty or filled tensor that can be created as `target` anew."""
        owner = value.owner
        if owner is None or owner.name not in ("tensor.empty", "linalg.fill"):
            return False
        if owner.name == "tensor.empty":
            return True
        if target.halos:
            return False  # a fill would not fill them
        if not target.partial:
            return True
        return reductions.may_be_partial(owner.handle, target.reduction)

    def write(
        self, value: GraphValue, source: Sharding, target: Sharding, at: InsertionPoint
    ) -> GraphValue:
        """Create the ops that reshard `value` from `source` to `target`; returns their result."""
        steps = self.plan(value, source, target).steps
        if source.is_replicated:  # the steps are on the target's grid
            source = replace(source, grid=target.grid)
        return self.graph.create_steps(steps, value, source, at)

    def _write(self, value: GraphValue, target: Sharding, at: InsertionPoint) -> GraphValue:
        return self.write(value, self.sharding_of(value), target, at)
