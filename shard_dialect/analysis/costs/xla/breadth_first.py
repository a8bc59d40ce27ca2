"""The order in which XLA's CPU compiler runs ops: as soon as what they need is there.

    %a = f(%x)      1                 the ops that read arguments, then those that read these, ...
    %b = g(%a)      3
    %c = f(%y)      2                 so %c is live while %b runs, although nothing needs it yet

This lets ops run at once, and takes more memory than the order of the program. Source: XLA,
`BFScheduler` (hlo_memory_scheduler.cc). What is fused is no op of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from shard_dialect.analysis.costs.local_ops import Block, Function, LocalProgram, Op


def breadth_first(program: LocalProgram, is_fused: Callable[[Op], bool]) -> LocalProgram:
    """The program with the ops of all blocks in this order; `is_fused` tells what is no op."""
    return replace(program, entry=_function(program.entry, is_fused))


def _function(function: Function, is_fused: Callable[[Op], bool]) -> Function:
    blocks = function.blocks
    if len(blocks) > 1:  # a graph of blocks, which XLA does not take
        return function
    return replace(function, blocks=tuple(_block(each, is_fused) for each in blocks))


def _block(block: Block, is_fused: Callable[[Op], bool]) -> Block:
    *ops, end = block.ops
    order = _Ordering(block, ops, is_fused).order()
    return Block(block.arguments, (*(_inside(op, is_fused) for op in order), end))


def _inside(op: Op, is_fused: Callable[[Op], bool]) -> Op:
    callee = _function(op.callee, is_fused) if op.callee else None
    if not op.blocks and callee is None:
        return op
    return replace(op, blocks=tuple(_block(each, is_fused) for each in op.blocks), callee=callee)


class _Ordering:
    """Arguments and ops by number: first the arguments, then the ops."""

    def __init__(self, block: Block, ops: list[Op], is_fused: Callable[[Op], bool]) -> None:
        self._ops = ops
        self._first = len(block.arguments)
        maker = {value.number: place for place, value in enumerate(block.arguments)}
        for place, op in enumerate(ops, self._first):
            maker |= dict.fromkeys((value.number for value in op.results), place)
        self._needs = [
            {maker[number] for number in dict.fromkeys(_reads(op)) if number in maker} for op in ops
        ]
        self._fused = [is_fused(op) for op in ops]

    def order(self) -> Iterator[Op]:
        """The ops; those that are fused come before the first op that reads them."""
        needs = [set(self._behind(place)) for place in range(len(self._ops))]
        users: list[list[int]] = [[] for _ in range(self._first + len(self._ops))]
        for place, each in enumerate(needs):
            for source in each if not self._fused[place] else ():
                users[source].append(place + self._first)
        waiting = {place + self._first: len(each) for place, each in enumerate(needs)}
        ready = deque(range(self._first))
        ready += [at for at, count in waiting.items() if not count and not self._is_fused(at)]
        done: set[int] = set()
        while ready:
            at = ready.popleft()
            if at >= self._first:
                yield from self._with_fused(at, done)
            for user in users[at]:
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
        for place in range(len(self._ops)):  # fused ops that only the end reads
            yield from self._with_fused(place + self._first, done)

    def _is_fused(self, at: int) -> bool:
        return at >= self._first and self._fused[at - self._first]

    def _behind(self, place: int) -> Iterator[int]:
        """The arguments and ops that an op needs, through fused ones."""
        waiting, seen = list(self._needs[place]), set(self._needs[place])
        while waiting:
            at = waiting.pop()
            if not self._is_fused(at):
                yield at
                continue
            for each in self._needs[at - self._first] - seen:
                seen.add(each)
                waiting.append(each)

    def _with_fused(self, at: int, done: set[int]) -> Iterator[Op]:
        if at in done:
            return
        done.add(at)
        for each in sorted(self._needs[at - self._first]):
            if self._is_fused(each):
                yield from self._with_fused(each, done)
        yield self._ops[at - self._first]


def _reads(op: Op) -> Iterator[int]:
    """What the op and all inside of it read."""
    yield from (value.number for value in op.reads)
    for block in op.blocks:
        for inner in block.ops:
            yield from _reads(inner)
