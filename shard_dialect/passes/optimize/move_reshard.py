"""Move a reshard past ops, or before one; and the base class of the passes that do.

`move_past` moves it past a region of ops: its users, their users, and so on.

    %1 = "mesh.all_gather"(%0)              the region of %1 with the sharding of %0:
    %2 = stablehlo.multiply %1, %1            %2, %3 on shards,
    %3 = stablehlo.add %1, %2                 and %3 gathered for its users outside
    return %3

The region grows op by op, in the order of the block, with the ops that make other operands where
that is cheaper than to reshard these. After each op, its cost is what resharding the other operands
on entry and the results on exit adds. The cheapest of these regions is rewritten.

`move_before` gives the op that makes a reshard's operand the sharding that the reshard makes, with
ops before it. What is read in both shardings is computed twice, where that is cheap:

    %1 = reshape %0          [] -> [[0]]         %1 = reshape %0     [] -> [[0]], for others
    %2 = abs %1                            ->    %2 = reshape %0     [] -> []
    %3 = "mesh.all_gather"(%2)                   %3 = abs %2

`CollectivePass` tries a rewrite at each reshard until none helps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Sharding
from shard_dialect.ops.op_table import UNREPEATABLE
from shard_dialect.passes.framework.base import Pass, needs
from shard_dialect.passes.materialize.type_consistency import read_distributed
from shard_dialect.passes.optimize.change_op_sharding import (
    ELEMENTS_PER_STEP,
    Change,
    OpShardingFinder,
    Resharder,
)
from shard_dialect.passes.optimize.failures import has_failed, note_failure
from shard_dialect.passes.optimize.graph import (
    FunctionGraph,
    GraphOp,
    GraphValue,
    OpSharding,
    write_graph,
)
from shard_dialect.planner import BYTES, Prices

FEW = 4
"""The rounds of a rewrite, or turns of all, after which a graph that comes back is looked for."""
MOST = 100
"""The rounds after which a rewrite ends in any case. Each makes a graph cheaper, so that few take
ten; one whose prices miss something would otherwise let the compiler hang."""
LARGEST = 16
"""The largest number of users in a region."""


def move_past(
    reshard: GraphOp,
    target: Sharding,
    graph: FunctionGraph,
    *,
    narrow: bool = False,
    largest: int = LARGEST,
    prices: type[Resharder] = Resharder,
) -> bool:
    """Let ops after `reshard` use its tensor in the sharding `target`, as far as that is cheapest.

    Returns whether anything changed. With `narrow`, conversions may round partial sums.
    The region has up to `largest` users. `prices` says which change is better.
    """
    grid = graph.shardings.grid(target.grid)
    region = _Region(reshard, target, prices(graph, grid), OpShardingFinder(graph, narrow))
    best, length = Change(), 0
    for size, change in region.grow(largest):
        if not region.resharder.is_better(change) or (
            change.price == 0 and region.reduces_more(size)
        ):
            continue  # of plans that cost as much, one that gathers has fewer steps
        # Of regions that cost as much, the largest: what is behind it may then move further.
        if length == 0 or change.key <= best.key:
            best, length = change, size
    region.do(length)
    return bool(length)


def move_before(reshard: GraphOp, graph: FunctionGraph) -> bool:
    """Let the op before `reshard` make its tensor in the target sharding, if that is cheaper.

    Or, where that alone is not, with ops before it, of which those that others read are copied.
    Returns whether anything changed.
    """
    value, target = reshard.operands[0], graph.collective_of(reshard).target
    op = value.owner if value is not None else None
    if value is None or op is None or op.is_reshard or op.block is not reshard.block:
        return False
    grid = graph.shardings.grid(target.grid)
    finder, resharder = OpShardingFinder(graph), Resharder(graph, grid)
    now = finder.now(op, finder.grid_of(op) or grid)
    then = finder.with_result(op, op.results.index(value), target, grid)
    if now is None or then is None:
        return False
    change = resharder.operands_change(op, now, then)
    for result, sharding in zip(op.results, then.results, strict=True):
        if sharding is not None:
            change = change.plus(Change(resharder.price_out(result, sharding)))
    if resharder.is_better(change):
        resharder.do(op, then)
        resharder.finish(op, now)
        return True
    return _Region(reshard, target, resharder, finder).move_before()


_Changed = tuple[GraphOp, OpSharding | None, OpSharding]
"""An op to change, its present sharding (`None` for a copy to be made of it), and its new one."""


@dataclass
class _Earlier:
    """Ops to change, and values to reshard for them, each with its cost: it is there once."""

    changed: dict[GraphOp, tuple[_Changed, Change]] = field(default_factory=dict)
    reshards: dict[tuple[GraphValue, Sharding], int] = field(default_factory=dict)

    @property
    def ops(self) -> list[_Changed]:
        return [each for each, _ in self.changed.values()]

    @property
    def total(self) -> Change:
        return _Earlier().added(self)

    def added(self, other: _Earlier) -> Change:
        """The cost that `other` adds to what is here."""
        total = Change(sum(n for key, n in other.reshards.items() if key not in self.reshards))
        for op, (_, change) in other.changed.items():
            if op not in self.changed:
                total = total.plus(change)
        return total

    def agrees_with(self, other: _Earlier) -> bool:
        """Whether no op is changed in two ways."""
        return all(
            self.changed[op][0][2] == changed[2]
            for op, (changed, _) in other.changed.items()
            if op in self.changed
        )


def _may_be_copied(op: GraphOp, graph: FunctionGraph) -> bool:
    """Whether a copy in another sharding has the same numbers.

    A product of another shape may be summed in another order, so that an element is not equal to
    itself, as where it is compared with the largest ones to choose an expert.
    """
    if op.blocks or op.handle.regions or op.name in UNREPEATABLE:
        return False
    rule = graph.kind_of(op).rule
    return rule is None or not rule.is_product


@dataclass
class _Region:
    reshard: GraphOp
    target: Sharding
    resharder: Resharder
    finder: OpShardingFinder
    ops: list[tuple[GraphOp, OpSharding, OpSharding]] = field(default_factory=list)
    """The ops of the region, each with its present and its new sharding."""
    values: dict[GraphValue, Sharding] = field(default_factory=dict)
    """The tensors of the region whose sharding changes, with the new one."""
    inside: set[GraphOp] = field(default_factory=set)
    price_out: dict[GraphValue, int] = field(default_factory=dict)
    """The price added by resharding each result for its users outside."""
    most: int | None = None
    """The price below which ops that others read may be copied; `None` where none may be."""
    copied: set[GraphOp] = field(default_factory=set)
    """The ops that would be copied; those before one are, too."""
    found: dict[tuple[GraphValue, Sharding], _Earlier | None] = field(default_factory=dict)
    """What `_before` has found, so that ops on several ways to a value are looked at once."""

    def grow(self, largest: int) -> Iterator[tuple[int, Change]]:
        """Add users one by one; yield the number of ops, and the cost of rewriting them."""
        self.values[self.reshard.results[0]] = self.target
        total = Change()
        waiting = self._users_of(self.reshard.results[0])
        users = 0
        while waiting and users < largest:
            # In the order of the block, so that an op joins after those that make its operands.
            op = min(waiting, key=lambda each: each.position)
            waiting.remove(op)
            op_shardings = self._shardings_of(op)
            if op_shardings is None:
                continue
            now, then = op_shardings
            for value, sharding in zip(op.operands, then.operands, strict=True):
                if value is not None and sharding is not None:
                    total = total.plus(self._include_before(op, value, sharding))
            total = total.plus(self.resharder.operands_change(op, now, then, self.values))
            self._include(op, now, then)
            users += 1
            for result, sharding in zip(op.results, then.results, strict=True):
                if sharding is not None:
                    self.values[result] = sharding
                    waiting += [each for each in self._users_of(result) if each not in waiting]
            yield len(self.ops), total.plus(Change(self._out(op)))

    def move_before(self) -> bool:
        """Let the ops before the reshard make its result; return whether that is cheaper.

        Of those that others read there are copies, if they compute little for what is saved.
        """
        value, resharder = self.reshard.operands[0], self.resharder
        price = resharder.price_of(self.reshard)
        for self.most in (None, price):
            found = self._before(self.reshard, value, self.target) if value is not None else None
            earlier = found or _Earlier()
            ops, total = earlier.ops, earlier.total.plus(Change(-price))
            few = ELEMENTS_PER_STEP + (0 if resharder.graph.prices.is_time else -total.price)
            is_little = self.most is None or total.elements <= few
            if len(ops) > 1 and is_little and resharder.is_better(total):
                self._do_before(sorted(ops, key=lambda each: each[0].position))
                return True
        return False

    def _do_before(self, ops: Sequence[_Changed]) -> None:
        """Change the ops, or copies of them, of which the last makes the reshard's operand."""
        resharder, graph = self.resharder, self.resharder.graph
        copies: dict[tuple[GraphValue | None, Sharding | None], GraphValue] = {}
        for op, now, then in ops:
            new = op if now is not None else graph.copy(op)
            for number, pair in enumerate(zip(new.operands, then.operands, strict=True)):
                if pair in copies:
                    graph.set_operand(new, number, copies[pair])
            resharder.do(new, then)
            if now is None:
                copies[op.results[0], then.results[0]] = new.results[0]
        if now is None:
            graph.replace_all_uses(self.reshard.results[0], new.results[0])
        else:
            resharder.finish(op, now)

    def _include(self, op: GraphOp, now: OpSharding, then: OpSharding) -> None:
        self.ops.append((op, now, then))
        self.inside.add(op)

    def _include_before(self, user: GraphOp, value: GraphValue, target: Sharding) -> Change:
        """Add the ops that make `value` for `user` alone to the region, if that costs less.

        A mask that has no operands, say, is made in the sharding `target`. Returns the cost.
        """
        price = self.resharder.price_for(user, value, target, self.values)
        before = self._before(user, value, target) if price else None
        if before is None or before.total.price >= price:
            return Change()
        for op, now, then in before.ops:
            assert now is not None, "only before the reshard are copies made"
            self._include(op, now, then)
            self.values |= {
                result: sharding
                for result, sharding in zip(op.results, then.results, strict=True)
                if sharding is not None
            }
        return before.total

    def _before(
        self, user: GraphOp, value: GraphValue, target: Sharding, depth: int = LARGEST
    ) -> _Earlier | None:
        """What to change so that `value` has the sharding `target`."""
        if value in self.values or self.resharder.sharding_of(value) == target:
            return None
        if self.most is None:  # without copies, an op has one user, from which alone it is reached
            return self._found_before(user, value, target, depth)
        key = value, target
        if key not in self.found:
            self.found[key] = self._found_before(user, value, target, depth)
        return self.found[key]

    def _found_before(
        self, user: GraphOp, value: GraphValue, target: Sharding, depth: int
    ) -> _Earlier | None:
        op = value.owner
        if op is None or not depth or op.is_reshard or op.handle is None:
            return None
        if op.block is not user.block or len(op.results) != 1:
            return None
        is_copied = user in self.copied or not self.resharder.graph.is_only_for(value, user)
        if is_copied and (self.most is None or not _may_be_copied(op, self.resharder.graph)):
            return None
        now = self.finder.now(op, self.finder.grid_of(op) or self.resharder.grid)
        then = self.finder.with_result(op, 0, target, self.resharder.grid)
        if now is None or then is None:
            return None
        if not is_copied:
            return self._with_operands(op, now, then, self.resharder.inside(now, then), depth)
        self.copied.add(op)
        sent = self.resharder.price_inside(then)
        made = Change(sent, then.work, then.elements)
        return self._with_operands(op, None, then, made, depth)

    def _with_operands(
        self, op: GraphOp, now: OpSharding | None, then: OpSharding, change: Change, depth: int
    ) -> _Earlier | None:
        """An op to change, which costs `change`, with what is to change before it."""
        found, total = _Earlier(), change
        for operand, sharding in zip(op.operands, then.operands, strict=True):
            if self.most is not None and total.price + total.work >= self.most:
                return None
            if operand is None or sharding is None:
                continue
            if operand in self.values:
                if self.values[operand] != sharding:
                    return None
                continue
            price = self.resharder.price_for(op, operand, sharding, self.values)
            earlier = self._before(op, operand, sharding, depth - 1) if price else None
            if earlier is None or found.added(earlier).price >= price:
                earlier = _Earlier(reshards={(operand, sharding): price})
            if not found.agrees_with(earlier):
                return None
            total = total.plus(found.added(earlier))
            found.changed |= earlier.changed
            found.reshards |= earlier.reshards
        found.changed[op] = (op, now, then), change
        return found

    def _users_of(self, value: GraphValue) -> list[GraphOp]:
        block, users = self.reshard.block, self.resharder.graph.users(value)
        return [op for op in users if op.block is block and not op.is_reshard]

    def _shardings_of(self, op: GraphOp) -> tuple[OpSharding, OpSharding] | None:
        """The present sharding of `op`, and the one with its operands of the region resharded."""
        grid = self.resharder.grid
        needs = [
            (number, self.values[value])
            for number, value in enumerate(op.operands)
            if value is not None and value in self.values
        ]
        now = self.finder.now(op, grid)
        then = self.finder.with_operand(op, *needs[0], grid)
        if now is None or then is None:
            return None
        if any(then.operands[number] != sharding for number, sharding in needs):
            return None
        return now, then

    def _out(self, last: GraphOp) -> int:
        """The price added by resharding all results for users outside, after adding `last`."""
        resharder, resharded = self.resharder, self.reshard.results[0]
        # Only the users of these values can have come inside; the other prices stay as they were.
        for value in (*last.operands, *last.results):
            if value is not None and value in self.values and value is not resharded:
                sharding = self.values[value]
                self.price_out[value] = resharder.price_out(value, sharding, self.inside)
        origin = self.reshard.operands[0]
        assert origin is not None, "a reshard has one operand, a tensor"
        extra = resharder.price_between(origin, resharder.sharding_of(origin), self.target)
        if all(user in self.inside for user in resharder.graph.users(resharded)):
            extra -= resharder.price_of(self.reshard)
        return extra + sum(self.price_out.values())

    def reduces_more(self, count: int) -> bool:
        """Whether results of the first `count` ops are to be partial that are not yet."""
        return any(
            new is not None and old is not None and new.partial and not old.partial
            for _, now, then in self.ops[:count]
            for old, new in zip(now.results, then.results, strict=True)
        )

    def do(self, count: int) -> None:
        """Rewrite the first `count` ops to their new sharding."""
        if not count:
            return
        ops = sorted(self.ops[:count], key=lambda each: each[0].position)
        inside = {op: None for op, _, _ in ops}
        self.resharder.bring_from(self.reshard, self.target)
        for op, _, then in ops:  # in order, so that what one reshards is there for those after it
            self.resharder.do(op, then)
        for op, now, _ in ops:
            self.resharder.finish(op, now, inside)


@needs(forms=("distributed",))
@dataclass(frozen=True)
class CollectivePass(Pass):
    """A rewrite of the distributed form, tried at each reshard until none helps."""

    def rewrite(self, module: ir.Operation) -> None:
        """Apply the rewrite to each function in the distributed form."""
        for graph in read_graphs(module):
            self.improve(graph)
            write_graph(graph)

    def improve(self, graph: FunctionGraph) -> bool:
        """Rewrite `graph` while that helps; return whether anything changed.

        Ends, too, where the graph is as it was: of plans that cost as much, a rewrite may take one
        for the better one here and the other there, as with `x + transpose(x)`.
        """
        ever, again, rounds = False, True, 0
        states: set[int] = set()
        while again and rounds < MOST:
            again = False
            rounds += 1
            # A snapshot: reshards that a rewrite creates are tried in the next round, and those
            # that it replaced are still listed, without uses.
            reshards = [op for op in graph.ops() if op.is_reshard]
            for op in reshards:
                again |= bool(op.results[0].uses) and self._try(op, graph, len(reshards) > 1)
            if again:
                graph.drop_unused()
            ever |= again
            if again and rounds > FEW:  # few graphs come back, and to look takes as long as a round
                state = graph.state()
                again = state not in states
                states.add(state)
        return ever

    def _try(self, reshard: GraphOp, graph: FunctionGraph, has_others: bool) -> bool:
        """Try the rewrite, unless nothing has changed since it was last tried in vain.

        Nor where it has failed at another reshard, around which all is the same.
        """
        # Without this, each round would try every reshard of the function again.
        since, looked_at = graph.failed.get((self, reshard), (0, ()))
        if since and all(value.changed_at < since for value in looked_at):
            return False
        if not has_others or not has_failed(self, reshard, graph):
            graph.looked_at = dict.fromkeys(filter(None, (*reshard.results, *reshard.operands)))
            if self.improve_at(reshard, graph):
                return True
            if has_others:
                note_failure(self, reshard, graph)
        graph.failed[self, reshard] = graph.now(), tuple(graph.looked_at)
        return False

    @abstractmethod
    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Try the rewrite at one reshard of `graph`; return whether it was applied.

        The replaced ops stay, without uses.
        """


def read_graphs(module: ir.Operation, prices: Prices = BYTES) -> Iterator[FunctionGraph]:
    """The functions of the module in the distributed form, checked, one after the other."""
    shardings = Shardings.of(module)
    for handle in functions_of(module):
        if form_of(handle) == "distributed":
            graph = FunctionGraph(read_distributed(handle, shardings), shardings, prices)
            graph.drop_unused()
            yield graph


def sources(reshard: GraphOp, graph: FunctionGraph) -> tuple[Sharding, Sharding]:
    """The source and the target sharding of a reshard."""
    collective = graph.collective_of(reshard)
    return collective.source, collective.target
