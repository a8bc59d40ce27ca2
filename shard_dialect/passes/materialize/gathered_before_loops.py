"""Gather, or exchange, what a loop reads piece by piece once, before it, if fewer bytes move then.

    %r:2 = while(%x = %xs, ...)                       %xs is split along its rows
      %row = dynamic_slice %x, %i                     a row of one device: a partial sum
      ... all_reduce %row ...                         in each turn, unless %xs is gathered before

A loop often goes over the rows of a tensor that it carries unchanged, as `jax.lax.scan` does. If
these are split, each turn takes a row from one device to all others, and an all-reduce moves it
twice: all turns together move twice what gathering the tensor moves, in as many collectives as
there are turns. Where the turns need their rows split along columns, the tensor is exchanged so.
What loops use from outside without carrying it, `choose_op_sharding` weighs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from shard_dialect.ir.numbered_function import LOOPS, Flow, Op, flows_through
from shard_dialect.model import Sharding, ShardingError
from shard_dialect.ops.op_table import OpKinds
from shard_dialect.passes.materialize.carried_sums import AxisSet, Node, Program
from shard_dialect.passes.materialize.target_shardings import TargetShardings, without_axes
from shard_dialect.planner import Prices


def gather_before_loops(
    targets: Sequence[TargetShardings], kinds: OpKinds, prices: Prices
) -> list[TargetShardings]:
    """The same target shardings, but such that loops read what was gathered or exchanged before."""
    program = Program({each.function.name: each for each in targets}, kinds, prices)
    moved = _Reads(program).worth_moving()

    def before(node: Node, sharding: Sharding) -> Sharding:
        return moved.get(node, sharding)

    return [program.changed(each, before) for each in targets] if moved else list(targets)


@dataclass(frozen=True)
class _Reads:
    """What reads tensors that loops carry unchanged."""

    program: Program

    def worth_moving(self) -> dict[Node, Sharding]:
        """The values to gather or exchange before a loop, the outermost one, and into what."""
        found: dict[Node, Sharding] = {}
        for name, each in self.program.targets.items():
            for op in each.function.ops:  # each before those inside it
                for flow in flows_through(op) if op.name in LOOPS else ():
                    carried = (name, flow.targets[0])
                    if flow.is_unchanged and carried not in found:
                        nodes, reads = self._within(name, flow)
                        axes = self._axes(carried, reads)
                        as_read = self._as_read(reads, axes) if axes else None
                        if as_read and self._price_before(name, op, flow, as_read) < sum(
                            self._price_inside(node, reader, axes) for node, reader in reads
                        ):
                            found |= dict.fromkeys(nodes, as_read)
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
            if flow.sources[0] == (op, number) and flow.is_unchanged:
                yield from ((name, value) for value in flow.targets)

    def _axes(self, carried: Node, reads: Sequence[tuple[Node, Op]]) -> AxisSet:
        """The axes along which the readers make partial values of the shards."""
        axes = [self._summed(node, op) for node, op in reads]
        return frozenset().union(*axes) if self.program.target(carried) else frozenset()

    def _as_read(self, reads: Sequence[tuple[Node, Op]], axes: AxisSet) -> Sharding | None:
        """The sharding in which no reader has to move its result; the whole, if they differ."""
        shardings = {self._read_as(node, op, axes) for node, op in reads if op.results}
        if len(shardings) == 1:
            return shardings.pop()
        node, _ = reads[0]
        sharding = self.program.target(node)
        return None if sharding is None else without_axes(sharding, axes)

    def _read_as(self, node: Node, op: Op, axes: AxisSet) -> Sharding | None:
        """The target sharding without `axes`, but where a reader's result is split along them."""
        sharding = self.program.target(node)
        if sharding is None or not self._summed(node, op):
            return None if sharding is None else without_axes(sharding, axes)
        values = self.program.targets[node[0]].function.values
        rule = self.program.kinds.kind_in(values, op).rule
        assert rule is not None, "it is summed up by its rule"
        dims, made = rule.operands[op.operands.index(node[1])], rule.results[0]
        assert dims is not None, "it is a tensor"
        assert made is not None, "it is a tensor"
        target = self._of(node)[op.results[0]]
        by_factor = dict(zip(made, target.split_axes, strict=True))
        kept = without_axes(sharding, axes)
        split = (
            old or tuple(axis for axis in by_factor.get(dim, ()) if axis in axes)
            for dim, old in zip(dims, kept.split_axes, strict=True)
        )
        try:
            return replace(kept, split_axes=tuple(split))
        except ShardingError:
            return kept

    def _summed(self, node: Node, op: Op) -> AxisSet:
        sharding = self.program.target(node)
        if sharding is None or len(op.results) != 1 or op.results[0] not in self._of(node):
            return frozenset()
        values = self.program.targets[node[0]].function.values
        rule = self.program.kinds.kind_in(values, op).rule
        number = op.operands.index(node[1])
        if rule is None or rule.operands[number] is None:
            return frozenset()
        return rule.summed_axes(number, sharding)

    def _of(self, node: Node) -> Mapping[int, Sharding]:
        return self.program.targets[node[0]].of

    def _price_inside(self, node: Node, op: Op, gathered: AxisSet) -> int:
        """What it takes to reduce what an op makes of shards, in all turns."""
        axes = self._summed(node, op) & gathered
        if not axes:
            return 0
        target = self._of(node)[op.results[0]]
        partial = dict.fromkeys((*target.partial, *sorted(axes, key=str)))
        made = without_axes(target, axes).with_partial([*partial])
        price = self.program.price((node[0], op.results[0]), made, target)
        return price * self.program.runs_of(node[0], op)

    def _price_before(self, name: str, op: Op, flow: Flow, as_read: Sharding) -> int:
        """What it takes to move the tensor before the loop, more than to have it there at all."""
        init = (name, op.operands[flow.sources[0][1]])
        source, target = self.program.target(init), self.program.target((name, flow.targets[0]))
        assert source is not None, "it flows into the loop"
        assert target is not None, "it has axes"
        here, moved = (self.program.price(init, source, each) for each in (target, as_read))
        return (moved - here) * self.program.runs_of(name, op)
