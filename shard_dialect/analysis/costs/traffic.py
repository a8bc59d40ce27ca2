"""The bytes that each op moves between a device and its memory.

    %s = stablehlo.dot_general %q, %k      writes %s, unless it stays on the chip until %p reads it
    %e = stablehlo.exponential %s          fused into its reader: moves nothing
    %p = stablehlo.divide %e, %z

A result that a compiler fuses into its readers (`analysis.costs.memory`) is never stored. What was
touched so lately that no more than the cache's bytes were touched since is still on the chip: it is
not read again, and a result is not written if all that read it find it there. Each block of a loop
or a branch begins with an empty cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.analysis.costs.arithmetic import bytes_touched
from shard_dialect.analysis.costs.local_ops import Block, Function, LocalProgram, Op, Value
from shard_dialect.analysis.costs.memory import fused_ops
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait


def traffic_of(program: LocalProgram, cache_bytes: int) -> dict[int, int]:
    """The bytes that one run of each op of the program moves, by the op's id.

    Of an op in a function that is called several times, the most that a run of it moves.
    """
    fused = fused_ops(program.entry.blocks, keeps_rows=cache_bytes > 0)
    unstored = {id(value) for op, _, _ in program.walk() if id(op) in fused for value in op.results}
    moved: dict[int, int] = {}
    for block in program.entry.blocks:
        _Sequence(unstored, cache_bytes, moved).run(block)
    return moved


_Name = tuple[int, int]
"""The number of a call, and that of a value in the function that is called."""


class _Sequence:
    """The ops of one block, in order, those of functions that it calls among them."""

    def __init__(self, unstored: set[int], cache_bytes: int, moved: dict[int, int]) -> None:
        self._unstored = unstored
        self._cache_bytes = cache_bytes
        self._moved = moved
        self._clock = 0
        """The bytes that were touched so far."""
        self._calls = 0
        self._touched_at: dict[_Name, int] = {}
        self._storage: dict[_Name, _Name] = {}
        """The value whose memory a view, an argument or the result of a call shows."""
        self._missed: set[_Name] = set()
        """The values that some op does not find on the chip."""
        self._ran: list[tuple[int, Op, int]] = []

    def run(self, block: Block) -> None:
        self._inline(0, block)
        # Whether a result is written is known when all its readers were seen.
        for call, op, read in self._ran:
            moved = max(0, read - self._kept(call, op))
            self._moved[id(op)] = max(moved, self._moved.get(id(op), 0))

    def _inline(self, call: int, block: Block) -> None:
        for op in block.ops:
            if op.callee is not None:
                self._called(call, op, op.callee)
            else:
                self._ran.append((call, op, self._touch(call, op)))
            for inner in op.blocks:
                _Sequence(self._unstored, self._cache_bytes, self._moved).run(inner)
        if not call and block.ops:  # what the block returns leaves the chip
            self._missed.update(self._root(0, each) for each in block.ops[-1].reads)

    def _called(self, call: int, op: Op, callee: Function) -> None:
        self._calls += 1
        inner = self._calls
        for argument, operand in zip(callee.body.arguments, op.operands, strict=True):
            self._storage[inner, argument.number] = self._root(call, operand)
        for block in callee.blocks:
            self._inline(inner, block)
        for result, returned in zip(op.results, callee.returned, strict=False):
            self._storage[call, result.number] = self._root(inner, returned)

    def _touch(self, call: int, op: Op) -> int:
        """The bytes that the op moves if its results are written; they are touched now."""
        traits = traits_of(op.name)
        if Trait.RESHAPES in traits:
            self._storage[call, op.results[0].number] = self._root(call, op.operands[0])
        if op.blocks:  # what is touched inside is not counted here: what is needed is read anew
            self._missed.update(self._root(call, each) for each in _captured(op))
            self._touched_at.clear()
        moved = bytes_touched(op)
        if not moved:
            return 0
        operands = list(dict.fromkeys(op.reads))
        results = sum(each.bytes for each in op.results)
        for each in operands:
            root = self._root(call, each)
            at = self._touched_at.get(root)
            if id(each) in self._unstored:
                moved -= each.bytes
            elif at is not None and self._clock - at <= self._cache_bytes:
                moved -= min(each.bytes, results) if Trait.SLICES in traits else each.bytes
            else:
                self._missed.add(root)
        for each in (*operands, *op.results):
            if id(each) not in self._unstored:
                self._touched_at[self._root(call, each)] = self._clock
                self._clock += each.bytes
        return moved

    def _kept(self, call: int, op: Op) -> int:
        """The bytes of results that are not written: fused, or never missed on the chip."""
        return sum(
            each.bytes
            for each in op.results
            if id(each) in self._unstored
            or (each.bytes <= self._cache_bytes and self._root(call, each) not in self._missed)
        )

    def _root(self, call: int, value: Value) -> _Name:
        name = call, value.number
        return self._storage.get(name, name)


def _captured(op: Op) -> Iterator[Value]:
    """What the op and those inside it read."""
    yield from op.reads
    for block in op.blocks:
        for inner in block.ops:
            yield from _captured(inner)
