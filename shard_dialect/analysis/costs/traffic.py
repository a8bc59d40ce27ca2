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
    """The bytes that one run of each op of the program moves, by the op's id."""
    fused = fused_ops(program.entry.blocks)
    unstored = {id(value) for op, _, _ in program.walk() if id(op) in fused for value in op.results}
    moved: dict[int, int] = {}
    for block in _blocks(program.entry, set()):
        sequence = _Sequence(block, unstored, cache_bytes)
        moved.update(sequence.run())
    return moved


def _blocks(function: Function, seen: set[int]) -> Iterator[Block]:
    """All blocks, also those of functions that are called, each once."""
    if id(function) in seen:
        return
    seen.add(id(function))
    yield from function.blocks
    for op in function.walk():
        yield from op.blocks
        if op.callee is not None:
            yield from _blocks(op.callee, seen)


class _Sequence:
    """The ops of one block, in order."""

    def __init__(self, block: Block, unstored: set[int], cache_bytes: int) -> None:
        self._block = block
        self._unstored = unstored
        self._cache_bytes = cache_bytes
        self._clock = 0
        """The bytes that were touched so far."""
        self._touched_at: dict[int, int] = {}
        self._storage: dict[int, int] = {}
        """The number of the value whose memory a view shows."""
        self._missed: set[int] = set()
        """The values that some op does not find on the chip."""

    def run(self) -> dict[int, int]:
        # Whether a result is written is known when all its readers were seen.
        moved = [(op, self._moved(op)) for op in self._block.ops]
        return {id(op): max(0, each - self._kept(op)) for op, each in moved}

    def _moved(self, op: Op) -> int:
        """The bytes that the op moves if its results are written; they are touched now."""
        traits = traits_of(op.name)
        if Trait.RESHAPES in traits:
            self._storage[op.results[0].number] = self._root(op.operands[0])
        if op.blocks or op.callee is not None or op is self._block.ops[-1]:
            # What ops inside touch is not counted here: all that is needed later is read anew.
            self._missed.update(map(self._root, _captured(op)))
            self._touched_at.clear()
        moved = bytes_touched(op)
        if not moved:
            return 0
        operands = list(dict.fromkeys(op.reads))
        results = sum(each.bytes for each in op.results)
        for each in operands:
            if id(each) in self._unstored:
                moved -= each.bytes
            elif self._is_on_chip(each):
                moved -= min(each.bytes, results) if Trait.SLICES in traits else each.bytes
            else:
                self._missed.add(self._root(each))
        for each in (*operands, *op.results):
            if id(each) not in self._unstored:
                self._touched_at[self._root(each)] = self._clock
                self._clock += each.bytes
        return moved

    def _is_on_chip(self, value: Value) -> bool:
        at = self._touched_at.get(self._root(value))
        return at is not None and self._clock - at <= self._cache_bytes

    def _kept(self, op: Op) -> int:
        """The bytes of results that are not written: fused, or never missed on the chip."""
        return sum(
            each.bytes
            for each in op.results
            if id(each) in self._unstored
            or (each.bytes <= self._cache_bytes and self._root(each) not in self._missed)
        )

    def _root(self, value: Value) -> int:
        return self._storage.get(value.number, value.number)


def _captured(op: Op) -> Iterator[Value]:
    """What the op and those inside it read."""
    yield from op.reads
    for block in op.blocks:
        for inner in block.ops:
            yield from _captured(inner)
