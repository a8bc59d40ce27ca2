"""How often the body of a loop runs, where that is known at compile time; and ops with their runs.

scf.for %i = %c0 to %c10 step %c3          4 times
stablehlo.while i < 8, i starts at 0,      8 times
  the body adds 1 to it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.mesh.attributes import TRIPS
from shard_dialect.ir.walk import has_own_body, operations

_DYNAMIC = -(2**63)


@dataclass(frozen=True, slots=True)
class Runs:
    """An op, and how often one run of what holds it runs it.

    A loop whose trips are not known counts once, and is the `open_loop` of what is inside.
    """

    op: ir.Operation
    times: int = 1
    open_loop: ir.Operation | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """What counts the trips of a loop: an argument of its body, its first value, and its step."""

    place: int
    first: int
    step: int
    trips: int


def runs_in(op: ir.Operation) -> Iterator[Runs]:
    """The ops inside `op`, as `walk` has them, each with its runs; all branches run."""
    return _inside(Runs(op))


def _inside(outer: Runs) -> Iterator[Runs]:
    trips = trips_of(outer.op)
    times = outer.times * (1 if trips is None else trips)
    open_loop = outer.open_loop or (outer.op if trips is None else None)
    for region in outer.op.regions:
        for block in region:
            for op in operations(block):
                found = Runs(op, times, open_loop)
                yield found
                if has_own_body(op.name):
                    yield from _inside(found)


def trips_of(op: ir.Operation) -> int | None:
    """How often the body of a loop runs, `None` where that is not static; 1 for other ops."""
    if op.name in ("scf.for", "stablehlo.while"):
        counter = counter_of(op)
        return None if counter is None else counter.trips
    if op.name == "scf.forall":
        bounds = [
            list(op.attributes[f"static{key}"]) for key in ("LowerBound", "UpperBound", "Step")
        ]
        if any(_DYNAMIC in each for each in bounds):
            return None
        return prod(int(-(-(high - low) // step)) for low, high, step in zip(*bounds, strict=True))
    if op.name == "scf.while":
        return _noted(op)
    return None if op.name == "tosa.while_loop" else 1


def counter_of(op: ir.Operation) -> Counter | None:
    """What counts the trips of an `scf.for` or `stablehlo.while`; `None` if they are not static."""
    if op.name == "stablehlo.while":
        return _counted_while(op)
    low, high, step = (_constant(operand) for operand in list(op.operands)[:3])
    return _counter(0, low, high, step)


def _noted(op: ir.Operation) -> int | None:
    """What the lowering of a `stablehlo.while` has noted in the condition."""
    for each in operations(op.regions[0].blocks[0]):
        if TRIPS in each.attributes:
            return int(each.attributes[TRIPS].value)
    return None


def _steps(low: int | None, high: int | None, step: int | None) -> int | None:
    if low is None or high is None or not step or step < 0:
        return None
    return max(0, -(-(high - low) // step))


def _counter(place: int, low: int | None, high: int | None, step: int | None) -> Counter | None:
    trips = _steps(low, high, step)
    if trips is None or low is None or step is None:
        return None
    return Counter(place, low, step, trips)


def _counted_while(op: ir.Operation) -> Counter | None:
    """`while i < bound`, where the body adds a constant to `i`, as JAX writes its loops."""
    condition, body = (region.blocks[0] for region in op.regions)
    flag = _maker(operations(condition)[-1].operands[0], "stablehlo.compare")
    if flag is None:
        return None
    direction = str(flag.attributes["comparison_direction"]).split()[-1].rstrip(">")
    if direction not in ("LT", "LE"):
        return None
    counter, bound = flag.operands
    place = _carried(counter, condition)
    if place is None:
        return None
    step = _maker(operations(body)[-1].operands[place], "stablehlo.add")
    argument = body.arguments[place]
    if step is None or argument not in list(step.operands):
        return None
    by = step.operands[1 if step.operands[0] == argument else 0]
    high = _before(op, bound)
    past = None if high is None else high + (direction == "LE")
    return _counter(place, _constant(op.operands[place]), past, _constant(by))


def _before(loop: ir.Operation, value: ir.Value) -> int | None:
    """The integer that a value of the condition is: a constant, or one that the body hands on."""
    condition, body = (region.blocks[0] for region in loop.regions)
    place = _carried(value, condition)
    if place is None:
        return _constant(value)
    kept = operations(body)[-1].operands[place] == body.arguments[place]
    return _constant(loop.operands[place]) if kept else None


def _carried(value: ir.Value, block: ir.Block) -> int | None:
    """The number of the block's argument that the value is."""
    return next((n for n, argument in enumerate(block.arguments) if argument == value), None)


def _maker(value: ir.Value, name: str) -> ir.Operation | None:
    owner = value.owner
    is_op = not isinstance(owner, ir.Block) and owner.name == name
    return owner if is_op else None


def _constant(value: ir.Value) -> int | None:
    """The integer that a value is known to be."""
    for name in ("arith.constant", "stablehlo.constant"):
        maker = _maker(value, name)
        if maker is not None:
            given: Any = maker.attributes["value"]
            if isinstance(given, ir.IntegerAttr):
                return int(given.value)
            return int(given.get_splat_value().value) if given.is_splat else None
    return None
