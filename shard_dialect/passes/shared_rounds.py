"""Permutations that do not depend on each other share rounds, where devices are free for that.

    %2 = permute %0     1 sends to 0, and 2 to 1        a round each, in which 3 has nothing to send
    %3 = permute %1     3 sends to 2, and 1 to 3
      becomes
    %a = permute of %1 on 3, and %0 elsewhere           3 to 2, 1 to 0, 2 to 1
    %b = permute %1                                     1 to 3
    %2, %3 = what each device has got of them

As many rounds are enough as the busiest device sends or receives messages. So concatenations of
split tensors, say, move half the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from shard_dialect.collectives import Permute
from shard_dialect.collectives.step import NOBODY
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.loops_and_masks import as_index
from shard_dialect.ir.building.reductions import identity_tensor
from shard_dialect.ir.shard.local_collectives import read_local, write_local
from shard_dialect.model.message_rounds import in_rounds
from shard_dialect.passes.partition.partition_collectives import own_number


class Message(NamedTuple):
    """What a device sends to another one in the permutation of this number."""

    sender: int
    receiver: int
    number: int


def rounds_of(permutations: Sequence[Sequence[int]]) -> list[list[Message]]:
    """The messages of the permutations in as few rounds as there can be.

    Without those that devices send to themselves.

    >>> [[tuple(each) for each in messages] for messages in rounds_of([(-1, 0, 1), (2, -1, 1)])]
    [[(0, 2, 1), (1, 0, 0), (2, 1, 0)], [(2, 1, 1)]]
    """
    return in_rounds(
        Message(sender, receiver, number)
        for number, each in enumerate(permutations)
        for sender, receiver in enumerate(each)
        if receiver not in (NOBODY, sender)
    )


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

    @cached_property
    def rounds(self) -> list[list[Message]]:
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
        made = [self._moved(messages) for messages in self.rounds]
        for number, op in enumerate(self.ops):
            op.results[0].replace_all_uses_with(self._result(number, made))

    def _moved(self, messages: Sequence[Message]) -> ir.Value:
        """What devices receive in a round."""
        sent: ir.Value | None = None
        for number in sorted({each.number for each in messages}):
            own = self.ops[number].operands[0]
            here = {each.sender for each in messages if each.number == number}
            sent = own if sent is None else self._on(here, own, sent)
        assert sent is not None, "a round has messages"
        to = [NOBODY] * self.devices
        for each in messages:
            to[each.sender] = each.receiver
        step = replace(self.steps[0], permutation=tuple(to))
        return write_local(step, self.grid, sent, sent.type)

    def _result(self, number: int, made: Sequence[ir.Value]) -> ir.Value:
        """The result of a permutation; who gets nothing has zeros."""
        operand, step = self.ops[number].operands[0], self.steps[number]
        found: ir.Value | None = None
        for messages, value in zip(self.rounds, made, strict=True):
            here = {each.receiver for each in messages if each.number == number}
            if here and found is None and len(here) == len(messages):
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
