"""Gather what a loop reads piece by piece once, before the loop, where fewer bytes move then.

    %r:2 = while(%x = %xs, ...)                       %xs is split along its rows
      %row = dynamic_slice %x, %i                     a row of one device: a partial sum
      ... all_reduce %row ...                         in each turn, unless %xs is gathered before

A loop often goes over the rows of a tensor that it carries unchanged, as `jax.lax.scan` does. If
these are split, each turn takes a row from one device to all others, and an all-reduce moves it
twice: all turns together move twice what gathering the tensor moves, in as many collectives as
there are turns. What loops use from outside without carrying it, `choose_op_sharding` weighs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shard_dialect.ir.numbered_function import LOOPS, Flow, Op, flows_through
from shard_dialect.model import Sharding
from shard_dialect.ops.op_kinds import OpKinds
from shard_dialect.passes.materialize.carried_sums import Axes, Node, Program
from shard_dialect.passes.materialize.target_shardings import TargetShardings, without_axes
from shard_dialect.planner import Prices


def gather_before_loops(
    targets: Sequence[TargetShardings], kinds: OpKinds, prices: Prices
) -> list[TargetShardings]:
    """The same target shardings, but whole where loops are to read what was gathered before."""
    if not any(op.name in LOOPS for each in targets for op in each.function.ops):
        return list(targets)
    program = Program({each.function.name: each for each in targets}, kinds, prices)
    gathered = _Reads(program).worth_gathering()

    def whole(node: Node, sharding: Sharding) -> Sharding:
        return without_axes(sharding, gathered.get(node, ()))

    return [program.changed(each, whole) for each in targets] if gathered else list(targets)


def _is_unchanged(flow: Flow) -> bool:
    """Whether a loop passes on what it carries as it is."""
    (_, *again) = flow.sources
    return bool(again) and all(end.operands[number] in flow.targets for end, number in again)


@dataclass(frozen=True)
class _Reads:
    """What reads tensors that loops carry unchanged."""

    program: Program

    def worth_gathering(self) -> dict[Node, Axes]:
        """The axes along which values are to be gathered before a loop, the outermost one."""
        found: dict[Node, Axes] = {}
        for name, each in self.program.targets.items():
            for op in each.function.ops:  # each before those inside it
                for flow in flows_through(op) if op.name in LOOPS else ():
                    carried = (name, flow.targets[0])
                    if _is_unchanged(flow) and carried not in found:
                        nodes, reads = self._within(name, flow)
                        axes = self._axes(carried, reads)
                        if axes and self._price_before(name, op, flow, axes) < sum(
                            self._price_inside(node, reader, axes) for node, reader in reads
                        ):
                            found |= dict.fromkeys(nodes, axes)
        return found

    def _within(self, name: str, flow: Flow) -> tuple[set[Node], list[tuple[Node, Op]]]:
        """The values that are what is carried, in functions and loops inside too; their readers."""
        nodes = {(name, value) for value in flow.targets}
        pending, reads = list(nodes), []
        while pending:
            node = pending.pop()
            function, value = node
            for op in self.program.targets[function].function.readers.get(value, ()):
                numbers = [n for n, each in enumerate(op.operands) if each == value]
                passed = {each for n in numbers for each in self._passed_on(function, op, n)}
                if numbers and not passed:  # else a region captures it
                    reads.append((node, op))
                pending += passed - nodes
                nodes |= passed
        return nodes, reads

    def _passed_on(self, name: str, op: Op, number: int) -> Iterator[Node]:
        """The values inside of a call or loop that are an operand."""
        if op.name == "func.call":
            callee = op.handle.attributes["callee"].value
            if len(self.program.calls.get(callee, ())) == 1:
                yield callee, self.program.targets[callee].function.arguments[number]
        for flow in flows_through(op) if op.name in LOOPS else ():
            if flow.sources[0] == (op, number) and _is_unchanged(flow):
                yield from ((name, value) for value in flow.targets)

    def _axes(self, carried: Node, reads: Sequence[tuple[Node, Op]]) -> Axes:
        """The axes along which the readers make partial values of the shards."""
        axes = [self._summed(node, op) for node, op in reads]
        return frozenset().union(*axes) if self.program.target(carried) else frozenset()

    def _summed(self, node: Node, op: Op) -> Axes:
        sharding = self.program.target(node)
        if sharding is None or len(op.results) != 1 or op.results[0] not in self._of(node):
            return frozenset()
        values = self.program.targets[node[0]].function.values
        rule = self.program.kinds.kind_in(values, op).rule
        dims = None if rule is None else rule.operands[op.operands.index(node[1])]
        if rule is None or dims is None:
            return frozenset()
        pairs = zip(dims, sharding.split_axes, strict=True)
        reduced = rule.reduction_of
        return frozenset(a for dim, axes in pairs if reduced.keys() & set(dim) for a in axes)

    def _of(self, node: Node) -> Mapping[int, Sharding]:
        return self.program.targets[node[0]].of

    def _price_inside(self, node: Node, op: Op, gathered: Axes) -> int:
        """What it takes to reduce what an op makes of shards, in all turns."""
        axes = self._summed(node, op) & gathered
        if not axes:
            return 0
        target = self._of(node)[op.results[0]]
        partial = dict.fromkeys((*target.partial, *sorted(axes, key=str)))
        made = without_axes(target, axes).with_partial([*partial])
        price = self.program.price((node[0], op.results[0]), made, target)
        return price * self.program.runs_of(node[0], op)

    def _price_before(self, name: str, op: Op, flow: Flow, axes: Axes) -> int:
        """What it takes to gather the tensor before the loop, more than to have it there at all."""
        init = (name, op.operands[flow.sources[0][1]])
        source, target = self.program.target(init), self.program.target((name, flow.targets[0]))
        assert source is not None, "it flows into the loop"
        assert target is not None, "it has axes"
        here, whole = (
            self.program.price(init, source, each) for each in (target, without_axes(target, axes))
        )
        return (whole - here) * self.program.runs_of(name, op)
