"""The program of one microbatch, and what runs once before and after all microbatches.

`split_batch` leaves collectives on the grid of microbatches: an all-reduce adds up what they make,
and a slice is what one of them has of a value that does not depend on the batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.ir.read_function import read_function
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.model import AllReduce, AllSlice
from shard_dialect.passes.pipelining.read_values import read_values


@dataclass
class MicrobatchProgram:
    """The ops of a function of one block, told apart by how they depend on the batch."""

    function: Function
    reads: Mapping[int, Sequence[int]]
    """The values that an op reads, also in its regions, by the op's id."""
    batched: set[int]
    """The values that depend on the batch."""
    ops: list[Op] = field(default_factory=list)
    """What runs for each microbatch."""
    once: list[Op] = field(default_factory=list)
    """What runs once, before all microbatches or beside them."""
    after: list[Op] = field(default_factory=list)
    """What runs once, after all microbatches."""
    totals: dict[int, tuple[int, AllReduce]] = field(default_factory=dict)
    """Of a value that microbatches add to, the value that they add, and how."""
    slices: dict[int, tuple[int, AllSlice]] = field(default_factory=dict)
    """Of a microbatch's slice of a value, that value, and the slice."""

    @classmethod
    def read(cls, handle: ir.Operation, arguments: Collection[int]) -> MicrobatchProgram:
        """Read what `split_batch` made; the batch is in the `arguments` of these numbers."""
        function = read_function(handle)
        batched = {function.arguments[number] for number in arguments}
        program = cls(function, read_values(function), batched)
        program._classify()
        program._defer()
        return program

    @property
    def returned(self) -> Sequence[int]:
        """The values that the function returns."""
        return self.function.blocks[0].end.operands

    def _defer(self) -> None:
        """Let what only ops after all microbatches read run after these, too: momentum, say."""
        is_root = {each for each in self.function.arguments if self.function.values[each].is_tensor}
        for op in self.once:
            if not is_root.isdisjoint(self.reads[id(op)]):
                is_root.update(op.results)
        early = {value for op in self.ops for value in self.reads[id(op)]}
        early.update(source for source, _ in self.slices.values())
        late = {value for op in self.after for value in self.reads[id(op)]}
        deferred = set()
        for op in reversed(self.once):
            is_late = late.issuperset(op.results) and early.isdisjoint(op.results)
            if is_late and not is_root.isdisjoint(op.results):
                deferred.add(id(op))
                late.update(self.reads[id(op)])
            else:
                early.update(self.reads[id(op)])
        order = self.function.blocks[0].ops[:-1]
        after = deferred | {id(op) for op in self.after}
        self.after = [op for op in order if id(op) in after]
        self.once = [op for op in self.once if id(op) not in deferred]

    def _classify(self) -> None:
        late: set[int] = set()
        for op in self.function.blocks[0].ops[:-1]:
            local = read_local(op.name, op.handle.attributes)
            step = None if local is None else local[1]
            if isinstance(step, AllReduce):
                self.totals[op.results[0]] = op.operands[0], step
                late.update(op.results)
            elif isinstance(step, AllSlice):
                self.slices[op.results[0]] = op.operands[0], step
                self.batched.update(op.results)
            elif any(value in late for value in self.reads[id(op)]):
                self.after.append(op)
                late.update(op.results)
            elif any(value in self.batched for value in self.reads[id(op)]):
                self.ops.append(op)
                self.batched.update(op.results)
            else:
                self.once.append(op)
