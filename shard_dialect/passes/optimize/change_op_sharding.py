"""Change the shardings of ops: find the ones that an op can have, price the change, rewrite.

An operand that a reshard produces may be resharded from that reshard's source directly. A result
that a reshard takes is resharded to that reshard's target directly. Values for other users keep
their sharding.

`OpShardingFinder` derives from a new sharding of one operand or result those of all the others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from shard_dialect.collectives import Step
from shard_dialect.ir.building import build, reductions
from shard_dialect.model import (
    Assignment,
    Axes,
    Grid,
    Sharding,
    ShardingError,
    ShardingRule,
    SubAxis,
)
from shard_dialect.ops.op_table import carries
from shard_dialect.passes.materialize.resharded_values import plan_of
from shard_dialect.passes.materialize.type_consistency import assignment_of, with_partial_axes
from shard_dialect.passes.optimize.graph import (
    FunctionGraph,
    GraphOp,
    GraphValue,
    InsertionPoint,
    OpSharding,
)
from shard_dialect.planner import Plan

_NOTHING: Mapping[GraphValue, Sharding] = {}


class Change(NamedTuple):
    """The costs that a rewrite adds for each device; less is better, in the order of the fields."""

    price: int = 0
    """The price of collectives: bytes, or time (`planner.prices`)."""
    work: float = 0
    """The price of the arithmetic of products."""
    elements: int = 0
    """The elements that ops read and make."""

    def plus(self, other: Change) -> Change:
        """The sum of the costs of both rewrites."""
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
        manual = self.graph.manual_axes(value)
        key = (value.kind, source, target, manual)
        known = self.graph.plans.get(key)
        if known is None:
            graph = self.graph
            known = plan_of(value.kind, source, target, graph.shardings, graph.prices, manual)
            self.graph.plans[key] = known
        return known

    def price_between(self, value: GraphValue, source: Sharding, target: Sharding) -> int:
        """The price of a reshard from `source` to `target`."""
        return self.plan(value, source, target).cost

    def price_of(self, reshard: GraphOp) -> int:
        """The price of an existing reshard."""
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
        """The cost of resharding the operands of `op`; the values in `done` are resharded already.

        `done` has their new shardings, from which they may be resharded further.
        """
        extra = 0
        needs: dict[GraphValue, set[Sharding]] = {}
        # Targets are collected in sets: an operand that is read twice in one sharding is resharded
        # once.
        for value, sharding in zip(op.operands, then.operands, strict=True):
            if sharding is not None and value is not None and value not in done:
                needs.setdefault(value, set()).add(sharding)
        for value, targets in needs.items():
            # A reshard that only `op` uses is dropped, so its price is gained.
            reshard = reshard_before(op, value)
            if reshard is not None and self.graph.is_only_for(value, op):
                extra -= self.price_of(reshard)
            extra += sum(self.price_for(op, value, target, done) for target in targets)
        return self.inside(now, then).plus(Change(extra))

    def inside(self, now: OpSharding, then: OpSharding) -> Change:
        """The cost of the op itself in another sharding."""
        sent = self.price_inside(then) - self.price_inside(now)
        return Change(sent, then.work - now.work, then.elements - now.elements)

    def price_inside(self, op_sharding: OpSharding) -> int:
        """The price of what a device sends as a part of an op."""
        return op_sharding.sent

    def price_for(
        self,
        op: GraphOp,
        value: GraphValue,
        target: Sharding,
        done: Mapping[GraphValue, Sharding] = _NOTHING,
    ) -> int:
        """The price of giving `op` the operand `value` in the sharding `target`.

        `done` has the shardings that values will have by then.
        """
        if self._may_be_created(value, target):
            return 0
        source = self._source(op, value, target)
        if source not in done and self._made(op, source, target, done) is not None:
            return 0
        return self.price_between(source, done.get(source) or self.sharding_of(source), target)

    def _made(
        self,
        op: GraphOp,
        value: GraphValue,
        target: Sharding,
        done: Mapping[GraphValue, Sharding] = _NOTHING,
    ) -> GraphOp | None:
        """A reshard that makes `target` of `value` for an op that stays as it is.

        %1 = "mesh.all_gather"(%0)      for another op
        %2 = transpose %0
        %3 = "mesh.all_gather"(%2)      moves before the transpose, where it costs nothing
        """
        for each in self.graph.users(value):
            if not each.is_reshard or each.block is not op.block:
                continue
            if self.sharding_of(each.results[0]) == target and any(
                reader is not op and not any(result in done for result in reader.results)
                for reader in self.graph.users(each.results[0])
            ):
                return each
        return None

    def _source(self, op: GraphOp, value: GraphValue, target: Sharding) -> GraphValue:
        """The value to reshard to `target` for `op`: `value`, or the source of the reshard before.

        The latter where `op` is the reshard's only user, since the reshard is then dropped.
        """
        reshard = reshard_before(op, value)
        source = reshard.operands[0] if reshard is not None else None
        if source is None:
            return value
        # Other users keep the reshard, so that both its ends are there to start from.
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
        """The price added by resharding `value` from `sharding` for its users not in `inside`."""
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
        """Reshard the results of `op`, which `do` has changed, for users that are not in `inside`.

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
        source = self._source(op, value, target)
        made = self._made(op, source, target)
        if made is not None and made.position < op.position:
            return made.results[0]
        new = self._write(source, target, at)
        if made is not None:  # two that are alike would count twice where they are moved on
            self.graph.replace_all_uses(made.results[0], new)
        return new

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


_BYTE = 1 << 20
"""The price of a byte for `FewerSteps`, so that no number of steps is worth one."""
ELEMENTS_PER_STEP = 1 << 16
"""What a device computes in about the time that a collective takes before it moves anything."""


class FewerSteps(Resharder):
    """Prices bytes, and of plans that move as many the collectives. Elements may be computed."""

    def is_better(self, change: Change) -> bool:
        """Whether there are fewer collectives, and not too many more elements for these."""
        # Rounded, as steps may be fewer: 5 bytes and -2 steps are 5 * _BYTE - 2.
        moved = round(change.price / _BYTE)
        saved = moved * _BYTE - change.price
        elements = change.elements <= saved * ELEMENTS_PER_STEP
        return moved + change.work <= 0 and saved > 0 and elements

    def price_between(self, value: GraphValue, source: Sharding, target: Sharding) -> int:
        """The price of a reshard from `source` to `target`."""
        steps = self.plan(value, source, target).steps
        return super().price_between(value, source, target) * _BYTE + _collectives(steps)

    def price_of(self, reshard: GraphOp) -> int:
        """The price of an existing reshard."""
        steps = self.graph.collective_of(reshard).steps
        return super().price_of(reshard) * _BYTE + _collectives(steps)

    def price_inside(self, op_sharding: OpSharding) -> int:
        """The price of what a device sends as a part of an op."""
        return super().price_inside(op_sharding) * _BYTE + op_sharding.rounds


def _collectives(steps: Sequence[Step]) -> int:
    return sum(each.communicates for each in steps)


@dataclass(frozen=True)
class OpShardingFinder:
    """Finds ops' shardings by their rules, once for all ops of a kind with the same shardings.

    With `narrow`, conversions may round partial sums.
    """

    graph: FunctionGraph
    narrow: bool = False

    def grid_of(self, op: GraphOp) -> Grid | None:
        """The grid of the op's tensors; `None` where all are replicated."""
        values = (*op.operands, *op.results)
        grids = (each.sharding.grid for each in values if each is not None and each.sharding)
        name = next(grids, None)
        return None if name is None else self.graph.shardings.grid(name)

    def now(self, op: GraphOp, grid: Grid) -> OpSharding | None:
        """The present sharding of `op`; `None` for a constant, and for an op without a rule."""
        rule = self._rule_of(op)
        if rule is None or op.name in build.CONSTANTS or op.name == "tensor.empty":
            return None

        def derive() -> OpSharding | None:
            operands = tuple([self._sharding_of(value, grid) for value in op.operands])
            results = tuple([self._sharding_of(value, grid) for value in op.results])
            assignment = _assignment(op, rule, grid)
            return self._with_costs(op, rule, assignment, operands, results, grid, is_now=True)

        return self._derived(op, grid, "now", derive)

    def with_operand(
        self, op: GraphOp, number: int, sharding: Sharding, grid: Grid
    ) -> OpSharding | None:
        """The sharding of `op` if operand `number` has this `sharding`; `None` if it cannot."""
        rule = self._rule_of(op)
        if rule is None or rule.operands[number] is None:
            return None
        value = op.operands[number]
        # If one operand becomes partial, all operands that are the same value do: %x * %x is not
        # linear in %x, though a product is linear in each operand.
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
        """The sharding of `op` that gives result `number` this `sharding`; `None` if impossible.

        The op may be on another grid, of the same devices in another order.
        """
        rule = self._rule_of(op)
        if rule is None or rule.results[number] is None:
            return None

        def derive() -> OpSharding | None:
            # A result stays partial as its operands are, or as a sum over what is split: no sum
            # becomes one here.
            operands = [self._sharding_of(value, grid) for value in op.operands]
            partial = frozenset(i for i, each in enumerate(operands) if each and each.partial)
            try:
                assignment = self._changed(op, rule, rule.results[number], sharding, grid)
                op_sharding = self._of(op, rule, assignment, sharding, partial, grid)
            except ShardingError:
                return None
            is_it = op_sharding is not None and op_sharding.results[number] == sharding
            return op_sharding if is_it else None

        own = self.grid_of(op)
        if own is not None and not _are_alike(own, grid):
            return None
        return self._derived(op, own or grid, ("result", number, sharding), derive)

    def _rule_of(self, op: GraphOp) -> ShardingRule | None:
        return None if op.block is None else self.graph.kind_of(op).rule

    def _sharding_of(self, value: GraphValue | None, grid: Grid) -> Sharding | None:
        if value is None or not value.kind.is_tensor:
            return None
        return self.graph.sharding_on(grid.name, value)

    def _derived(
        self, op: GraphOp, grid: Grid, question: Hashable, derive: Callable[[], OpSharding | None]
    ) -> OpSharding | None:
        """The result of `derive`, memoized; `None` where a tensor of the op is on another grid."""
        operand_values = [value for value in op.operands if value is not None]
        # Also for a known answer: a rewrite that fails is tried again only after a value that it
        # looked at has changed.
        self.graph.looked_at |= dict.fromkeys((*operand_values, *op.results))
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
        # The axes before the one that was taken stay, as [0, 1] -> [0] is a gather. Those after it
        # go: [0, 1] -> [1] would also permute shards.
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
        # An axis splits one factor only, and a sharding is partial by one kind of reduction.
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
            # A reduction starts from its init, shard by shard.
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
        *,
        is_now: bool = False,
    ) -> OpSharding | None:
        # Halos of operands follow from the windows of the rule; a partial sum has none.
        if any(each is not None and each.halos for each in results) or any(
            each is not None and each.halos and each.partial for each in operands
        ):
            return None
        elements, touched = 0, 0
        values = (*op.operands, *op.results)
        for value, sharding in zip(values, operands + results, strict=True):
            if sharding is not None and value is not None:
                shape = value.kind.shape
                assert shape is not None, "a sharding rule relates tensors of static shape"
                if not is_now and sharding.uneven_dim(shape, grid) is not None:
                    return None
                if any(isinstance(axis, SubAxis) for axis in sharding.axes):
                    return None  # the distributed form has its sub-axes as grid axes
                held = sharding.local_elements(shape, grid)
                elements, touched = elements + held, touched + held * value.kind.itemsize
        work = 0.0
        if rule.is_product:
            flops = rule.flops(tuple(assignment), grid)
            element = str(op.results[0].kind.type.element_type)
            work = self.graph.prices.work(flops, element, touched)
        sent, rounds = self._sent(op, rule, tuple(assignment), operands, grid)
        return OpSharding(
            self._interned(operands), self._interned(results), work, elements, sent, rounds
        )

    def _sent(
        self,
        op: GraphOp,
        rule: ShardingRule,
        assignment: Assignment,
        operands: Sequence[Sharding | None],
        grid: Grid,
    ) -> tuple[int, int]:
        """The price of what a device sends of the operands as a part of the op, and its rounds."""
        price = rounds = 0
        for number, (value, held) in enumerate(zip(op.operands, operands, strict=True)):
            if rule.exchanging and value is not None and held is not None:
                assert value.kind.shape is not None, "a rule relates tensors of static shape"
                sent = rule.exchanged(number, held, value.kind.shape, assignment, grid)
                price += self.graph.prices.rounds(sent, value.kind.itemsize, grid)
                rounds += len(sent)
        return price, rounds

    def _interned(self, shardings: Sequence[Sharding | None]) -> tuple[Sharding | None, ...]:
        return tuple([None if each is None else self.graph.interned(each) for each in shardings])


def _are_alike(a: Grid, b: Grid) -> bool:
    """Whether the grids have the same shape, and the same devices in some order."""

    def devices(grid: Grid) -> list[int]:
        return sorted(grid.device_ids or range(grid.size))

    return a is b or (a.shape == b.shape and devices(a) == devices(b))


def _assignment(op: GraphOp, rule: ShardingRule, grid: Grid) -> list[Axes]:
    operands = [None if value is None else value.sharding for value in op.operands]
    results = [value.sharding for value in op.results]
    return list(assignment_of(op.name, rule, operands, results, grid))
