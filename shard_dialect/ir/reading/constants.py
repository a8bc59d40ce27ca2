"""Integers that are known when a program is compiled: constants, and the trips of loops.

`constant_integer` finds the integers that follow from constants, also through arithmetic:

    %c3 = arith.constant 3 : i64
    %n = arith.muli %c3, %c3 : i64                      9
    %m = arith.index_cast %n : i64 to index             9
    %d = tensor.dim %x, %c0 : tensor<4x8xf32>           4

`trips_of` is how often the body of a loop runs, where that is known, and `runs_in` lists ops with
their runs:

    scf.for %i = %c0 to %c10 step %c3          4 times
    stablehlo.while i < 8, i starts at 0,      8 times
      the body adds 1 to it
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import CONSTANTS, constant_value
from shard_dialect.ir.mesh.attributes import TRIPS
from shard_dialect.ir.walk import has_own_body, maker_of, operations, walk


def divided(a: int, b: int) -> int | None:
    """Division that rounds to zero, as that of arith and StableHLO; `None` by zero.

    >>> divided(-7, 2)
    -3
    """
    return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor_divided(a: int, b: int) -> int | None:
    return None if b == 0 else a // b


def _ceil_divided(a: int, b: int) -> int | None:
    return None if b == 0 else -(-a // b)


_SIZE = "tensor.dim"
_SAME = ("arith.extsi", "arith.index_cast", "arith.trunci")
_OPS: Mapping[str, Callable[[int, int], int | None]] = {
    "arith.addi": operator.add,
    "arith.ceildivsi": _ceil_divided,
    "arith.divsi": divided,
    "arith.floordivsi": _floor_divided,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.muli": operator.mul,
    "arith.subi": operator.sub,
}


def constant_integer(value: ir.Value) -> int | None:
    """The integer that `value`, a scalar, is in every run; `None` if constants do not make it.

    `None`, too, where arithmetic leaves the range of its type, or divides by zero.
    """
    known: dict[ir.Value, int | None] = {}  # values may be used often, and chains may be long
    waiting = [value]
    while waiting:
        each = waiting[-1]
        missing = [operand for operand in _read(each) if operand not in known]
        if missing:
            waiting += missing
        else:
            known[each] = _made(each, known)
            waiting.pop()
    return known[value]


def _read(value: ir.Value) -> list[ir.Value]:
    """The integers that `value` is computed from."""
    if isinstance(value.owner, ir.Block):
        return []
    op = value.owner.operation
    if op.name == _SIZE:
        return [op.operands[1]]
    return list(op.operands) if op.name in (*_SAME, *_OPS) else []


def _made(value: ir.Value, known: Mapping[ir.Value, int | None]) -> int | None:
    """The integer that `value` is, given those that it is computed from."""
    constant = constant_value(value)
    if constant is not None:
        return constant.value if isinstance(constant, ir.IntegerAttr) else None
    read = _read(value)
    numbers = [number for each in read if (number := known[each]) is not None]
    if not read or len(numbers) < len(read):
        return None
    op = value.owner.operation
    if op.name == _SIZE:
        return _size(op.operands[0].type, numbers[0])
    number = numbers[0] if op.name in _SAME else _OPS[op.name](*numbers)
    return None if number is None else _in_range(number, value.type)


def _size(type_: ir.Type, dim: int) -> int | None:
    """The size of a dimension, where the type has it."""
    is_known = (
        isinstance(type_, ir.RankedTensorType)
        and 0 <= dim < type_.rank
        and not type_.is_dynamic_dim(dim)
    )
    return type_.get_dim_size(dim) if is_known else None


def _in_range(number: int, type_: ir.Type) -> int | None:
    width = type_.width if isinstance(type_, ir.IntegerType) else 64
    return number if -(1 << (width - 1)) <= number < 1 << (width - 1) else None


_DYNAMIC = -(2**63)


@dataclass(frozen=True, slots=True)
class Runs:
    """An op, and the number of its runs in one run of the region that holds it.

    A loop whose trips are not known counts once, and is the `open_loop` of the ops inside.
    """

    op: ir.Operation
    times: int = 1
    open_loop: ir.Operation | None = None


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter of a loop's trips: an argument of its body, its first value, and its step."""

    place: int
    first: int
    step: int
    trips: int

    @property
    def past(self) -> int:
        """What the counter of a `while` is after the loop."""
        return self.first + self.trips * self.step


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
    """The counter of an `scf.for` or `stablehlo.while`; `None` if its trips are not static."""
    if op.name == "stablehlo.while":
        return _counted_while(op)
    low, high, step = (_constant(operand) for operand in list(op.operands)[:3])
    return _counter(0, low, high, step)


def _noted(op: ir.Operation) -> int | None:
    """The trips that the lowering of a `stablehlo.while` has noted in the condition."""
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
    flag = maker_of(operations(condition)[-1].operands[0], "stablehlo.compare")
    if flag is None:
        return None
    direction = hlo.direction_of(flag)
    if direction not in ("LT", "LE"):
        return None
    counter, bound = flag.operands
    place = _carried(counter, condition)
    if place is None:
        return None
    step = maker_of(operations(body)[-1].operands[place], "stablehlo.add")
    argument = body.arguments[place]
    if step is None or argument not in list(step.operands):
        return None
    by = step.operands[1 if step.operands[0] == argument else 0]
    high = _before(op, bound)
    past = None if high is None else high + (direction == "LE")
    found = _counter(place, _constant(op.operands[place]), past, _constant(by))
    return found if found is not None and _is_exact(found, argument.type.element_type) else None


def _is_exact(counter: Counter, type_: ir.Type) -> bool:
    """Whether the counter holds each of its numbers, and the one after the loop."""
    is_signed = not type_.is_unsigned
    numbers = range(-(1 << (type_.width - 1)) if is_signed else 0, 1 << (type_.width - is_signed))
    return counter.first in numbers and counter.past in numbers


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


def _constant(value: ir.Value) -> int | None:
    """The integer that a value is known to be."""
    maker = maker_of(value, "arith.constant", "stablehlo.constant")
    given: Any = None if maker is None else maker.attributes["value"]
    if isinstance(given, ir.DenseElementsAttr) and given.is_splat:
        given = given.get_splat_value()
    return int(given.value) if isinstance(given, ir.IntegerAttr) else None


_RESOURCE = re.compile(r"""^ *([\w$.-]+|"[^"]*"): "0x([0-9A-Fa-f]*)",?$""", re.MULTILINE)


def write_resources_in_place(module: ir.Operation) -> None:
    """Let constants have their elements themselves, not a resource that the text has at its end.

    XLA reads no resources. The bindings do not give their bytes; the text does, after eight digits
    that are their alignment.
    """
    held = [
        (op, name, value)
        for op in walk(module)
        if (name := CONSTANTS.get(op.name)) is not None
        and not isinstance(value := op.attributes[name], ir.DenseElementsAttr)
        and str(value).startswith("dense_resource<")
    ]
    text = module.get_asm() if held else ""
    elements = dict(_RESOURCE.findall(text, text.rfind("{-#")))
    for op, name, value in held:
        key, _, type_ = str(value).removeprefix("dense_resource<").partition("> : ")
        op.attributes[name] = ir.Attribute.parse(f'dense<"0x{elements[key][8:]}"> : {type_}')
