"""Unroll the loops over layers, so that stages can divide their trips.

    %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) {     %0 = a slice of %w at 0
      %a = tensor.extract_slice %w[%i, 0, 0] ...                   %1 = linalg.matmul %x, %0
      %b = linalg.matmul %h, %a                                    %2 = a slice of %w at 1
      scf.yield %b                                                 %3 = linalg.matmul %1, %2
    }

A loop is unrolled if it reads the batch, and its number of trips is known. `stablehlo.while` that
counts, as JAX writes `scan`, is such a loop; its counter becomes a constant in each trip.
"""

from __future__ import annotations

from collections.abc import Collection

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.reading.loop_trips import Counter, counter_of
from shard_dialect.ir.walk import body, operations
from shard_dialect.passes.pipelining.fold_counters import fold_counters, integer_constant
from shard_dialect.passes.pipelining.read_values import captured

LOOPS = ("scf.for", "stablehlo.while")
MOST = 1024
"""The most trips of one loop that is unrolled: each stage has a copy for each microbatch."""


def unroll_loops(function: ir.Operation, batched: Collection[int]) -> None:
    """Unroll the loops of a function of one block that read its `batched` arguments, in place.

    A loop of unknown trips stays. Raises a located `ShardError` for one of more than `MOST`.
    """
    block = body(function)
    depends = {block.arguments[number] for number in batched if number < len(block.arguments)}
    at, unrolled = 0, False
    while at < len(ops := operations(block)):
        op = ops[at]
        if depends.isdisjoint([*op.operands, *captured(op)]):
            at += 1
        elif op.name in LOOPS and (counter := counter_of(op)) is not None:
            unrolled = True
            _unroll(op, counter)  # go on with the first op of its body, which may be a loop
        else:
            depends.update(op.results)
            at += 1
    if unrolled:
        fold_counters(function)


def _unroll(loop: ir.Operation, counter: Counter) -> None:
    if counter.trips > MOST:
        raise error_at(
            loop.location,
            f"'{loop.name}' op reads a microbatch and runs {counter.trips} times: at most {MOST} "
            "trips are divided among stages",
        )
    is_for = loop.name == "scf.for"
    carried = list(loop.operands)[3 if is_for else 0 :]
    for trip in range(counter.trips):
        with ir.InsertionPoint(loop), loop.location:
            copy = loop.clone().operation
        inner = copy.regions[-1].blocks[0]
        arguments = list(inner.arguments)
        with ir.InsertionPoint(loop), loop.location:
            number = integer_constant(
                arguments[counter.place].type, counter.first + trip * counter.step
            )
        values = [number, *carried] if is_for else carried
        values[counter.place] = number
        for argument, value in zip(arguments, values, strict=True):
            argument.replace_all_uses_with(value)
        *inside, end = operations(inner)
        for op in inside:
            op.move_before(loop)
        carried = list(end.operands)
        copy.erase()
    for result, value in zip(loop.results, carried, strict=True):
        result.replace_all_uses_with(value)
    loop.erase()
