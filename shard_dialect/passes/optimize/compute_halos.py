"""Compute halos from the operands' halos where that moves less than exchanging them.

    %1 = "mesh.update_halo"(%0)     [[0], {halo = [[1, 1]]}] -> [[0]]: drops the halo
    %2 = math.exp %1
    %3 = "mesh.update_halo"(%2)     [[0]] -> [[0], {halo = [[1, 1]]}]: exchanges one
      becomes
    %2 = math.exp %0                also of the elements in the halo

The ops between are elementwise, up to 16 of them. All get the halos that exchanges of the result
make, and keep those that they have. Users that read less get less.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.model import Annotation, Sharding
from shard_dialect.ops.uneven_shards import may_have_halos
from shard_dialect.passes.optimize.change_op_sharding import Change, Resharder
from shard_dialect.passes.optimize.graph import FunctionGraph, GraphOp, GraphValue, OpSharding
from shard_dialect.passes.optimize.move_reshard import LARGEST, CollectivePass, sources


@dataclass(frozen=True)
class ComputeHalos(CollectivePass):
    """Compute halos where their operands have them, instead of exchanging them."""

    name = "compute-halos"

    def improve_at(self, reshard: GraphOp, graph: FunctionGraph) -> bool:
        """Give the ops before an exchange of halos the halos that it makes, if that is cheaper."""
        source, target = sources(reshard, graph)
        value = reshard.operands[0]
        if value is None or not target.halos or source.bare != target.bare or target.partial:
            return False
        for user in graph.users(value):  # they share what has all their halos
            if user.is_reshard:
                target = _with_halos_of(target, sources(user, graph)[1]) or target
        resharder = Resharder(graph, graph.shardings.grid(target.grid))
        region = _Region(reshard, resharder)
        ops = region.add([value], target)
        best: tuple[Change, list[GraphOp]] | None = None
        while ops and len(region.then) <= LARGEST:
            change = region.change()
            # The cost does not fall steadily as the region grows: two ops may cost more than the
            # exchange, and the third end at a tensor whose halo is there already.
            if resharder.is_better(change) and (best is None or change.key < best[0].key):
                best = change, list(region.then)
            ops = region.grow(ops)
        if best is None:
            return False
        region.do(best[1])
        return True


class _Region:
    """The ops before a reshard that are to have halos, from the last one backward."""

    def __init__(self, reshard: GraphOp, resharder: Resharder) -> None:
        self.reshard, self.resharder = reshard, resharder
        self.now: dict[GraphOp, OpSharding] = {}
        self.then: dict[GraphOp, OpSharding] = {}

    def grow(self, last: list[GraphOp]) -> list[GraphOp]:
        """Add the ops that make operands of the ops in `last` without the halos they need."""
        added = []
        for op in last:
            wanted = self.then[op]
            for value, sharding in zip(op.operands, wanted.operands, strict=True):
                if value is not None and sharding is not None:
                    added += self.add([value], sharding)
        return added

    def add(self, values: list[GraphValue], wanted: Sharding) -> list[GraphOp]:
        """Add the ops that make `values`, if they can compute halos; return those added."""
        graph, added = self.resharder.graph, []
        for value in values:
            op = value.owner
            if op is None or op in self.then or not self._may_compute(op):
                continue
            then = _with_halos_of(self.resharder.sharding_of(value), wanted)
            if then is None or then == self.resharder.sharding_of(value):
                continue
            rule = graph.kind_of(op).rule
            assert rule is not None, "it may compute halos"
            shape = value.kind.shape
            assert shape is not None, "a sharding rule relates tensors of static shape"
            now = [
                None if each is None or not dims else self.resharder.sharding_of(each)
                for each, dims in zip(op.operands, rule.operands, strict=True)
            ]
            same = [None if each is None else then for each in now]
            results = tuple(map(self.resharder.sharding_of, op.results))
            elements = [
                each.local_elements(shape, self.resharder.grid) for each in (results[0], then)
            ]
            self.now[op] = OpSharding(tuple(now), results, 0, elements[0])
            self.then[op] = OpSharding(tuple(same), (then,) * len(results), 0, elements[1])
            added.append(op)
        return added

    def _may_compute(self, op: GraphOp) -> bool:
        if op.block is not self.reshard.block or op.is_collective or op.handle is None:
            return False
        rule = self.resharder.graph.kind_of(op).rule
        if rule is None or not may_have_halos(op.handle, rule):
            return False
        shardings = {self.resharder.sharding_of(value) for value in op.results}
        return len(shardings) == 1 and not next(iter(shardings)).partial

    def change(self) -> Change:
        """The cost of rewriting all ops of the region."""
        resharder = self.resharder
        changed = {value: then.results[0] for op, then in self.then.items() for value in op.results}
        total = Change()
        for op, then in self.then.items():
            needed = then.results[0]
            done = {
                value: sharding
                for value, sharding in changed.items()
                if sharding is not None and sharding == needed
            }
            total = total.plus(resharder.operands_change(op, self.now[op], then, done))
            for value, sharding in zip(op.results, then.results, strict=True):
                assert sharding is not None, "the results of elementwise ops are tensors"
                total = total.plus(Change(resharder.price_out(value, sharding, self.then)))
        return total

    def do(self, ops: list[GraphOp]) -> None:
        """Rewrite the ops."""
        in_order = sorted(ops, key=lambda op: op.position)
        inside = dict.fromkeys(ops)
        for op in in_order:
            self.resharder.do(op, self.then[op])
        for op in in_order:
            self.resharder.finish(op, self.now[op], inside)


def _with_halos_of(sharding: Sharding, wanted: Sharding) -> Sharding | None:
    """The sharding with its own halos and those in `wanted`; `None` if their fills differ."""
    if sharding.bare != wanted.bare:
        return None
    both = Annotation(sharding).meet(Annotation(wanted))
    return both.sharding if both is not None else None
