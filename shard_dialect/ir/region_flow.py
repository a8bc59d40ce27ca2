"""How values flow through ops that hold regions: around loops, out of branches, past a barrier.

    %r = scf.for ... iter_args(%x = %init)     %init and what is yielded flow to %x and %r
    %r = scf.if %c                             what both regions yield flows to %r
    cf.br ^bb1(%x)                             %x flows to the argument of ^bb1

A flow has sources, operands of some ops, and targets, values that are each of these in turn, and
therefore lie alike. Source: the dialects' documentation; Shardy, ShardableDataFlowOpInterface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shard_dialect.ir.bindings import ir

if TYPE_CHECKING:
    from shard_dialect.ir.numbered_function import Block, Op


@dataclass(frozen=True, slots=True)
class Flow:
    """`sources` are each an op and a place among its operands; `targets` are value numbers."""

    sources: tuple[tuple[Op, int], ...]
    targets: tuple[int, ...]


def flows_through(op: Op) -> list[Flow]:
    """The flows of one op; none if its values flow by its sharding rule."""
    return list(FLOWS[op.name](op)) if op.name in FLOWS else []


def flows_between(blocks: Sequence[Block]) -> list[Flow]:
    """The flows from the ends of blocks to the arguments of other blocks of the same region."""
    sources: dict[tuple[int, int], list[tuple[Op, int]]] = {}
    numbers = {block.handle: number for number, block in enumerate(blocks)}
    for block in blocks if len(blocks) > 1 else ():
        for successor, places in branches_of(block.end.handle):
            for number, place in enumerate(places):
                sources.setdefault((numbers[successor], number), []).append((block.end, place))
    return [
        Flow(tuple(found), (blocks[block].arguments[number],))
        for (block, number), found in sorted(sources.items(), key=lambda each: each[0])
    ]


def in_order(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, each behind those that it can only be reached through; others come last."""
    if len(blocks) < 2:
        return list(blocks)
    by_handle = {block.handle: block for block in blocks}
    done: list[Block] = []
    entered: set[int] = set()
    for start in blocks:
        path = [(start, iter(start.end.handle.successors))] if id(start) not in entered else []
        entered.add(id(start))
        first = len(done)
        while path:
            block, successors = path[-1]
            found = next(successors, None)
            if found is None:
                done.append(block)
                path.pop()
            elif id(by_handle[found]) not in entered:
                entered.add(id(by_handle[found]))
                path.append((by_handle[found], iter(by_handle[found].end.handle.successors)))
        done[first:] = done[first:][::-1]
    return done


def branches_of(end: ir.Operation) -> Iterator[tuple[ir.Block, range]]:
    """The blocks that may follow, each with the places of the operands that it gets."""
    successors = list(end.successors)
    first = 0
    counts = [len(end.operands)]
    if end.name != "cf.br" and successors:
        flag, *counts = end.attributes["operandSegmentSizes"]
        first = flag
    if end.name == "cf.switch":
        counts = [counts[0], *end.attributes["case_operand_segments"]]
    for successor, count in zip(successors, counts, strict=False):
        yield successor, range(first, first + count)
        first += count


def _for(op: Op) -> Iterator[Flow]:
    body = op.blocks[0]
    for number, result in enumerate(op.results):
        sources = ((op, 3 + number), (body.end, number))
        yield Flow(sources, (body.arguments[1 + number], result))


def _while(op: Op) -> Iterator[Flow]:
    before, after = op.blocks
    for number, argument in enumerate(before.arguments):
        yield Flow(((op, number), (after.end, number)), (argument,))
    for number, result in enumerate(op.results):
        yield Flow(((before.end, 1 + number),), (after.arguments[number], result))


def _branch(op: Op) -> Iterator[Flow]:
    """What each region ends in."""
    ends = [block.end for block in op.blocks if not list(block.end.handle.successors)]
    for number, result in enumerate(op.results):
        yield Flow(tuple((end, number) for end in ends), (result,))
    yield from flows_between(op.blocks)


def _state(op: Op) -> Iterator[Flow]:
    """A loop whose condition and body both see what goes around."""
    condition, body = op.blocks
    for number, result in enumerate(op.results):
        sources = ((op, number), (body.end, number))
        yield Flow(sources, (condition.arguments[number], body.arguments[number], result))


def _branch_on(op: Op) -> Iterator[Flow]:
    """The same where the regions are given operands, behind the condition."""
    for number in range(len(op.operands) - 1):
        yield Flow(((op, 1 + number),), tuple(block.arguments[number] for block in op.blocks))
    yield from _branch(op)


def _for_all(op: Op) -> Iterator[Flow]:
    """The tensors that all iterations share; they are written by `parallel_insert_slice`."""
    body, count = op.blocks[0], len(op.results)
    for number, result in enumerate(op.results):
        place = len(op.operands) - count + number
        argument = body.arguments[len(body.arguments) - count + number]
        yield Flow(((op, place),), (argument, result))


def _as_they_are(op: Op) -> Iterator[Flow]:
    for number, result in enumerate(op.results):
        yield Flow(((op, number),), (result,))


def _none(_: Op) -> Iterator[Flow]:
    yield from ()


FLOWS: dict[str, Callable[[Op], Iterator[Flow]]] = {
    "scf.execute_region": _branch,
    "scf.for": _for,
    "scf.forall": _for_all,
    "scf.forall.in_parallel": _none,
    "scf.if": _branch,
    "scf.index_switch": _branch,
    "scf.while": _while,
    "stablehlo.case": _branch,
    "stablehlo.if": _branch,
    "stablehlo.optimization_barrier": _as_they_are,
    "stablehlo.while": _state,
    "tosa.cond_if": _branch_on,
    "tosa.while_loop": _state,
}

PARALLEL = "scf.forall.in_parallel"
"""Holds nothing but what the iterations of an `scf.forall` write."""

LOOPS = ("scf.for", "scf.forall", "scf.while", "stablehlo.while", "tosa.while_loop")
"""The ops whose regions run again and again."""

ENDS = (
    "cf.br",
    "cf.cond_br",
    "cf.switch",
    "func.return",
    "scf.condition",
    "scf.yield",
    "stablehlo.return",
    "tosa.yield",
)
"""The ops that end a block, and pass values on."""
