"""Flows of values through ops with regions: loops, branches, optimization barriers.

    %r = scf.for ... iter_args(%x = %init)     %init and the yielded value flow to %x and %r
    %r = scf.if %c                             the yielded values of both regions flow to %r
    cf.br ^bb1(%x)                             %x flows to the argument of ^bb1

A flow has sources, which are operands of ops, and targets, which are values that take the value of
some source. All of them must have the same sharding. Source: the dialects' documentation; Shardy,
ShardableDataFlowOpInterface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.numbered_function import Block, Op


@dataclass(frozen=True, slots=True)
class Flow:
    """`sources` are pairs of an op and an operand number; `targets` are value numbers."""

    sources: tuple[tuple[Op, int], ...]
    targets: tuple[int, ...]


def flows_through(op: Op) -> list[Flow]:
    """The flows of one op; none if its sharding rule relates its values."""
    return list(FLOWS[op.name](op)) if op.name in FLOWS else []


def flows_between(blocks: Sequence[Block]) -> list[Flow]:
    """The flows from the ends of blocks to the arguments of other blocks of the same region."""
    sources: dict[tuple[int, int], list[tuple[Op, int]]] = {}
    numbers = {block.handle: number for number, block in enumerate(blocks)}
    for block in blocks if len(blocks) > 1 else ():
        for successor, operands in branches_of(block.end.handle):
            for number, operand in enumerate(operands):
                sources.setdefault((numbers[successor], number), []).append((block.end, operand))
    return [
        Flow(tuple(values), (blocks[block].arguments[number],))
        for (block, number), values in sorted(sources.items(), key=lambda each: each[0])
    ]


def in_order(blocks: Sequence[Block]) -> list[Block]:
    """The blocks, each after those through which every path to it leads; unreachable ones last."""
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
            successor = next(successors, None)
            if successor is None:
                done.append(block)
                path.pop()
            elif id(by_handle[successor]) not in entered:
                entered.add(id(by_handle[successor]))
                path.append(
                    (by_handle[successor], iter(by_handle[successor].end.handle.successors))
                )
        done[first:] = done[first:][::-1]
    return done


def branches_of(end: ir.Operation) -> Iterator[tuple[ir.Block, range]]:
    """The successors of a block that `end` ends, each with the numbers of the operands it gets."""
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
    """From what each region yields to the results."""
    ends = [block.end for block in op.blocks if not list(block.end.handle.successors)]
    for number, result in enumerate(op.results):
        yield Flow(tuple((end, number) for end in ends), (result,))
    yield from flows_between(op.blocks)


def _state(op: Op) -> Iterator[Flow]:
    """A loop whose condition and body both have the carried values as arguments."""
    condition, body = op.blocks
    for number, result in enumerate(op.results):
        sources = ((op, number), (body.end, number))
        yield Flow(sources, (condition.arguments[number], body.arguments[number], result))


def _branch_on(op: Op) -> Iterator[Flow]:
    """As `_branch`, for regions whose arguments are the operands after the condition."""
    for number in range(len(op.operands) - 1):
        yield Flow(((op, 1 + number),), tuple(block.arguments[number] for block in op.blocks))
    yield from _branch(op)


def _for_all(op: Op) -> Iterator[Flow]:
    """The tensors that all iterations share; they are written by `parallel_insert_slice`."""
    body, count = op.blocks[0], len(op.results)
    for number, result in enumerate(op.results):
        operand = len(op.operands) - count + number
        argument = body.arguments[len(body.arguments) - count + number]
        yield Flow(((op, operand),), (argument, result))


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
"""The op with the writes of the iterations of an `scf.forall`."""

LOOPS = ("scf.for", "scf.forall", "scf.while", "stablehlo.while", "tosa.while_loop")
"""The ops whose regions run repeatedly."""

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
