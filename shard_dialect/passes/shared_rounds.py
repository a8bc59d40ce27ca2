"""Permutations that do not depend on each other share rounds, where devices are free for that.

    %2 = permute %0     1 sends to 0, and 2 to 1        a round each, in which 3 has nothing to send
    %3 = permute %1     3 sends to 2, and 1 to 3
      becomes
    %a = permute of %1 on 3, and %0 elsewhere           3 to 2, 1 to 0, 2 to 1
    %b = permute %1                                     1 to 3
    %2, %3 = what each device has got of them

Messages between devices are the edges of a bipartite graph, from those that send to those that
receive, and rounds are its colors: as many are enough as the busiest device sends or receives
(Kőnig, 1916). So concatenations of split tensors, say, move half the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from shard_dialect.collectives import Permute
from shard_dialect.collectives.step import NOBODY
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.loops_and_masks import as_index
from shard_dialect.ir.building.reductions import identity_tensor
from shard_dialect.ir.shard.local_collectives import read_local, write_local
from shard_dialect.passes.partition.partition_collectives import own_number

Edge = tuple[int, int, int]
"""A device that sends, the one that receives, and the number of the permutation."""


def rounds_of(permutations: Sequence[Sequence[int]]) -> list[list[Edge]]:
    """The messages of the permutations in as few rounds as there can be.

    Without those that devices send to themselves.

    >>> rounds_of([(-1, 0, 1, -1), (-1, 3, -1, 2)])
    [[(1, 0, 0), (2, 1, 0), (3, 2, 1)], [(1, 3, 1)]]
    """
    senders: dict[tuple[int, int], Edge] = {}  # by device and round
    receivers: dict[tuple[int, int], Edge] = {}
    edges = (
        (source, target, number)
        for number, each in enumerate(permutations)
        for source, target in enumerate(each)
        if target not in (NOBODY, source)
    )
    for edge in edges:
        source, target, _ = edge
        here = next(each for each in count() if (source, each) not in senders)
        there = next(each for each in count() if (target, each) not in receivers)
        if (target, here) in receivers and (source, there) in senders:
            # Exchange both rounds on the path that begins with the target's message of `here`:
            # it cannot end at the source.
            path = list(_path(target, here, there, senders, receivers))
            for each, color in path:
                del senders[each[0], color], receivers[each[1], color]
            for each, color in path:
                other = there if color == here else here
                senders[each[0], other] = receivers[each[1], other] = each
        color = here if (target, here) not in receivers else there
        senders[source, color] = receivers[target, color] = edge
    colors = sorted({color for _, color in senders})
    return [
        [edge for (_, color), edge in sorted(senders.items()) if color == each] for each in colors
    ]


def _path(
    target: int,
    here: int,
    there: int,
    senders: Mapping[tuple[int, int], Edge],
    receivers: Mapping[tuple[int, int], Edge],
) -> Iterator[tuple[Edge, int]]:
    """The messages on the path from `target` whose rounds alternate, and their rounds."""
    device, color, is_receiver = target, here, True
    while (edge := (receivers if is_receiver else senders).get((device, color))) is not None:
        yield edge, color
        device = edge[0] if is_receiver else edge[1]
        color = there if color == here else here
        is_receiver = not is_receiver


@dataclass(frozen=True)
class Group:
    """Permutations of tensors of one type along the same axes, which may be done at once."""

    ops: Sequence[ir.Operation]
    steps: Sequence[Permute]
    grid: str
    devices: int

    @classmethod
    def of(cls, ops: Sequence[ir.Operation]) -> Group:
        """Of ops of the local form."""
        reads = [read_local(op.name, op.attributes) for op in ops]
        found = [(grid, step) for grid, step in filter(None, reads) if isinstance(step, Permute)]
        return cls(ops, [step for _, step in found], found[0][0], len(found[0][1].permutation))

    @property
    def rounds(self) -> list[list[Edge]]:
        """The rounds that they share."""
        return rounds_of([step.permutation for step in self.steps])

    @property
    def saves(self) -> bool:
        """Whether fewer rounds are enough than there are permutations in which anything moves."""
        moving = (
            any(to not in (NOBODY, at) for at, to in enumerate(step.permutation))
            for step in self.steps
        )
        return len(self.rounds) < sum(moving)

    def share(self) -> None:
        """Write them in the rounds, at the insertion point."""
        rounds = self.rounds
        made = [self._moved(edges) for edges in rounds]
        for number, op in enumerate(self.ops):
            op.results[0].replace_all_uses_with(self._result(number, rounds, made))

    def _moved(self, edges: Sequence[Edge]) -> ir.Value:
        """What devices receive in a round."""
        sent: ir.Value | None = None
        for number in sorted({number for *_, number in edges}):
            own = self.ops[number].operands[0]
            here = {source for source, _, each in edges if each == number}
            sent = own if sent is None else self._on(here, own, sent)
        assert sent is not None, "a round has messages"
        to = [NOBODY] * self.devices
        for source, target, _ in edges:
            to[source] = target
        step = replace(self.steps[0], permutation=tuple(to))
        return write_local(step, self.grid, sent, sent.type)

    def _result(
        self, number: int, rounds: Sequence[Sequence[Edge]], made: Sequence[ir.Value]
    ) -> ir.Value:
        """The result of a permutation; who gets nothing has zeros."""
        operand, step = self.ops[number].operands[0], self.steps[number]
        found: ir.Value | None = None
        for edges, value in zip(rounds, made, strict=True):
            here = {target for _, target, each in edges if each == number}
            if here and found is None and len(here) == len(edges):
                found = value
            elif here:
                found = self._on(here, value, found or identity_tensor("sum", operand.type))
        kept = {at for at, to in enumerate(step.permutation) if at == to}
        if kept or found is None:
            found = self._on(kept, operand, found or identity_tensor("sum", operand.type))
        return found

    def _on(self, devices: set[int], value: ir.Value, other: ir.Value) -> ir.Value:
        """A value on some devices of each group, another one elsewhere; a copy, no arithmetic."""
        size = value.type.shape[0]
        both = build.concatenated([value, other], 0)
        starts = [0 if device in devices else size for device in range(self.devices)]
        start = as_index(own_number(starts, self.steps[0].axes, self.grid))
        return build.extract_slice(both, start, size, 0)
