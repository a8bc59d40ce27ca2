"""The memory of one device where our own code runs: what the compiled program allocates.

The program is lowered as for running, up to the point at which its buffers have their places in the
arena (`codegen.arena`), which is allocated once, with its full size. Arguments and results are the
caller's. Buffers of loops and branches are allocated when they are reached: they count as if all
were there at once.
"""

from __future__ import annotations

from math import prod

from shard_dialect.analysis.costs.local_ops import BoundaryInfo, LocalProgram
from shard_dialect.analysis.costs.memory import Kind, Live, Memory, Moment
from shard_dialect.codegen.arena import ALIGNMENT, Arena, Buffer
from shard_dialect.codegen.machine_code import to_loop_code
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import body, operations, walk
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
    used = _used(code.arena, len(places))
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


def _used(arena: Arena, count: int) -> list[int]:
    """How much of the arena holds what is still needed, while each op runs."""
    changes = [0] * (count + 1)
    for buffer in arena.buffers:
        changes[buffer.first // 2] += buffer.bytes
        changes[buffer.last // 2 + 1] -= buffer.bytes
    used, total = [], 0
    for change in changes[:count]:
        total += change
        used.append(total)
    return used


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
