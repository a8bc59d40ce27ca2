"""The memory of a device, by its allocator: our own code, or XLA.

`arena_memory` is the memory where our own code runs. The program is lowered as for running, up to
the point at which its buffers have their places in the arena (`backends.cpu.arena`), which is
allocated once, with its full size. Arguments and results are the caller's. Buffers of loops and
branches are allocated when they are reached: they count as if all were there at once.

`breadth_first` is the order in which XLA's CPU compiler runs ops: as soon as their operands are
there.

    %a = f(%x)      1                 the ops that read arguments, then those that read these, ...
    %b = g(%a)      3
    %c = f(%y)      2                 so %c is live while %b runs, although nothing needs it yet

This lets ops run at once, and takes more memory than the order of the program. Source: XLA,
`BFScheduler` (hlo_memory_scheduler.cc). A fused op is no op of its own.

`xla_memory` models the memory where XLA compiles the program, with ops fused as it does:

    %a = stablehlo.broadcast_in_dim %c           fused into its reader: not stored
    %b = stablehlo.multiply %x, %a               stored, over %x if nothing reads %x later
    %c = stablehlo.dot_general %b, %w            stored: products take their operands from memory

An op that moves or computes elements is not stored where only ops read it that XLA fuses it into; a
costly one only where there is one such reader. XLA copies what a collective joins or splits along
another dimension than the first. Its results have their memory from the beginning, and temporaries
may be in it. Ops run in the order of `breadth_first`. An exchange among devices cuts its operand to
pieces, and makes pieces. docs/limits.md has the differences that are left.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from shard_dialect.analysis.costs.flat_program import flatten
from shard_dialect.analysis.costs.local_ops import Block, BoundaryInfo, Function, LocalProgram, Op
from shard_dialect.analysis.costs.memory import (
    Kind,
    Live,
    Memory,
    Moment,
    bytes_held,
    fused_ops,
    is_elementwise,
    memory_of_steps,
)
from shard_dialect.backends.cpu.arena import ALIGNMENT, Buffer
from shard_dialect.backends.cpu.machine_code import to_loop_code
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model.reached import reached
from shard_dialect.passes.framework.pipeline import run_pipeline


def arena_memory(module: ir.Module, program: LocalProgram) -> Memory:
    """The memory of a module in any form, whose local form is `program`. The module is consumed.

    Raises a located `ShardError` for what our own code cannot compute.
    """
    run_pipeline(module, "spmd,lower")
    with module.context, ir.Location.unknown():
        code = to_loop_code(module.operation, program.entry.name)
        outside = [_allocated(op) for op in walk(module.operation) if op.name == "memref.alloc"]
        globals_ = [op for op in walk(module.operation) if op.name == "memref.global"]
        constants = sum(_bytes_of_type(op.attributes["type"].value) for op in globals_)
        ops = operations(body(code.function))
        places = [(op.name, location_text(op.location)) for op in ops]
    arguments = [each for each in program.entry.arguments if each.tensor]
    results = [each for each in program.entry.results if each.tensor]
    given, returned = (sum(map(_bytes, each)) for each in (arguments, results))
    held = given + returned + constants
    temporaries = code.arena.bytes + sum(each.bytes for each in outside)
    spans = ((each.first // 2, each.last // 2, each.bytes) for each in code.arena.buffers)
    used = bytes_held(spans, len(places))
    at = max(range(len(used)), key=used.__getitem__)
    live = [
        *(_boundary(f"argument {n}", "argument", each) for n, each in enumerate(arguments)),
        *(_boundary(f"result {n}", "result", each) for n, each in enumerate(results)),
        *(_live(each) for each in code.arena.buffers if each.first <= 2 * at + 1 <= each.last + 1),
        *outside,
    ]
    return Memory(
        held + temporaries,
        sum(map(_bytes, arguments)),
        sum(map(_bytes, results)),
        temporaries,
        constants,
        0,
        tuple(sorted(live, key=lambda each: -each.bytes)),
        tuple(
            Moment(name, place, held + temporaries, bytes_, given, returned, constants)
            for (name, place), bytes_ in zip(places, used, strict=True)
        ),
    )


def _live(buffer: Buffer) -> Live:
    return Live("in the arena", buffer.type, buffer.bytes, "temporary", buffer.location)


def _allocated(op: ir.Operation) -> Live:
    type_ = str(op.results[0].type).removeprefix("memref<").removesuffix(">")
    size = _bytes_of_type(op.results[0].type)
    return Live("on its own", type_, size, "temporary", location_text(op.location))


def _bytes_of_type(type_: ir.MemRefType) -> int:
    size = prod(type_.shape) * itemsize(type_.element_type)
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT


def _boundary(name: str, kind: Kind, info: BoundaryInfo) -> Live:
    return Live(name, str(info.tensor), _bytes(info), kind, info.location)


def _bytes(info: BoundaryInfo) -> int:
    return info.tensor.bytes if info.tensor else 0


def breadth_first(program: LocalProgram, is_fused: Callable[[Op], bool]) -> LocalProgram:
    """The program with the ops of all blocks in this order; `is_fused` tells ops that are fused."""
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

        def beside(at: int) -> set[int]:
            return self._needs[at - self._first] if self._is_fused(at) else set()

        return (at for at in reached(self._needs[place], beside) if not self._is_fused(at))

    def _with_fused(self, at: int, done: set[int]) -> Iterator[Op]:
        if at in done:
            return
        done.add(at)
        for each in sorted(self._needs[at - self._first]):
            if self._is_fused(each):
                yield from self._with_fused(each, done)
        yield self._ops[at - self._first]


def _reads(op: Op) -> Iterator[int]:
    """The values that the op and all ops inside of it read."""
    yield from (value.number for value in op.reads)
    for block in op.blocks:
        for inner in block.ops:
            yield from _reads(inner)


_EXCHANGE = "stablehlo.all_to_all"
_UPDATE, _SLICE = "stablehlo.dynamic_update_slice", "stablehlo.slice"


def xla_memory(program: LocalProgram) -> Memory:
    """The memory of a program of plain StableHLO, as `--lower=target=stablehlo` writes it."""
    program = replace(program, entry=_with_copies(program.entry))
    fused = fused_ops(program.entry.blocks)
    program = breadth_first(program, lambda op: id(op) in fused)
    fused = fused_ops(program.entry.blocks)
    flat = flatten(program, lambda op: id(op) in fused)
    return memory_of_steps(
        flat,
        program.entry,
        is_elementwise,
        _copied,
        results_first=True,
        in_pieces=lambda op: op.name == _EXCHANGE,
    )


def _with_copies(function: Function) -> Function:
    """The function, in which an updated tensor is needed by slices of the update, too.

    XLA computes the update once more for each slice, in one op with it. So the update is not in
    place, but of a copy.
    """
    return replace(function, blocks=tuple(map(_block_with_copies, function.blocks)))


def _block_with_copies(block: Block) -> Block:
    updated = {op.results[0].number: op.operands[0] for op in block.ops if op.name == _UPDATE}
    reads = Counter(value.number for op in block.ops for value in dict.fromkeys(op.reads))
    ops = []
    for op in block.ops:
        target = updated.get(op.operands[0].number) if op.name == _SLICE else None
        if target is not None and reads[op.operands[0].number] > 1:
            op = replace(op, captured=(*op.captured, target))
        callee = _with_copies(op.callee) if op.callee else None
        if op.blocks or callee:
            op = replace(op, blocks=tuple(map(_block_with_copies, op.blocks)), callee=callee)
        ops.append(op)
    return Block(block.arguments, tuple(ops))


def _copied(op: Op) -> int:
    """The bytes that are copied before or after a collective, in a layout that suits it."""
    if op.name == _EXCHANGE:  # its operand is cut to pieces before
        return sum(each.bytes for each in op.operands)
    for name, value in (
        ("stablehlo.all_gather", op.results),
        ("stablehlo.reduce_scatter", op.operands),
    ):
        if op.name == name and _joined_dim(op) != 0:
            return sum(each.bytes for each in value)
    return 0


def _joined_dim(op: Op) -> int | None:
    """The first dimension in which the operand's and the result's sizes differ."""
    operand, result = op.operands[0].tensor, op.results[0].tensor
    if operand is None or result is None:
        return None
    sizes = zip(operand.shape, result.shape, strict=True)
    return next((dim for dim, (one, other) in enumerate(sizes) if one != other), 0)
