"""Unroll loops that cannot be divided, and fold the integers that their counters become.

    %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x) {     %0 = a slice of %w at 0
      %a = tensor.extract_slice %w[%i, 0, 0] ...                   %1 = linalg.matmul %x, %0
      %b = linalg.matmul %h, %a                                    %2 = a slice of %w at 1
      scf.yield %b                                                 %3 = linalg.matmul %1, %2
    }

Its number of trips is known. The counter becomes a constant in each trip. The
integers that follow from counters are folded, so that slices are at known places:

    %i = stablehlo.constant dense<2> : tensor<i32>
    %j = stablehlo.add %i, %one                             the constant 3
    %w = stablehlo.dynamic_slice %ws, %j, %zero, %zero      stablehlo.slice %ws [3:4, 0:8, 0:8]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from operator import add

from shard_dialect.ir.bindings import PassManager, ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import drop_unused, replace_op, replace_values
from shard_dialect.ir.diagnostics import error_at
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.reading.constants import Counter, divided
from shard_dialect.ir.walk import walk

_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}


def _remainder(a: int, b: int) -> int | None:
    """The remainder of the division that rounds to zero: it has the sign of `a`."""
    return None if b == 0 else a - b * (divided(a, b) or 0)


_FOLDED: Mapping[str, Callable[..., int | None]] = {
    "stablehlo.add": lambda a, b: a + b,
    "stablehlo.and": lambda a, b: a & b,
    "stablehlo.convert": lambda a: a,
    "stablehlo.divide": divided,
    "stablehlo.or": lambda a, b: a | b,
    "stablehlo.remainder": _remainder,
    "stablehlo.sign": lambda a: (a > 0) - (a < 0),
    "stablehlo.subtract": lambda a, b: a - b,
    "stablehlo.multiply": lambda a, b: a * b,
    "stablehlo.maximum": max,
    "stablehlo.minimum": min,
    "stablehlo.negate": lambda a: -a,
    "stablehlo.clamp": lambda low, a, high: min(max(low, a), high),
    "stablehlo.select": lambda where, a, b: a if where else b,
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.index_cast": lambda a: a,
}
"""Ops on integers of one type, or that keep a number, with their function of Python's integers."""


SLICE = "stablehlo.dynamic_slice"
UPDATE = "stablehlo.dynamic_update_slice"
_DROPPED = (UPDATE, "stablehlo.reshape", "stablehlo.slice", "tensor.extract_slice")
_TO_ROW = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
_FLAG = 2
"""The bits that an i1 counts for: in two bits, true is 1 and not -1."""


def fold_counters(function: ir.Operation) -> None:
    """Replace scalar integers that follow from constants, and merge equal ops, in place."""
    for op in walk(function):
        number = _number(op)
        if number is not None:
            with ir.InsertionPoint(op), op.location:
                made = integer_constant(op.results[0].type, number)
            replace_op(op, made)
        elif op.name == SLICE:
            _to_slice(op)
        elif op.name == "stablehlo.reshape":
            _drop_if_undone(op)
    # Those of which all parts were forwarded, say.
    drop_unused(op for op in reversed(walk(function)) if op.name in _DROPPED)
    PassManager.parse("func.func(cse)").run(function)


def integer_constant(type_: ir.Type, value: int) -> ir.Value:
    """A constant scalar, or tensor of one integer, of `type_`."""
    if isinstance(type_, ir.RankedTensorType):
        return hlo.number(value, type_)
    return build.number(value, type_)


def number_in(value: ir.Value, known: Mapping[ir.Value, int]) -> int | None:
    """The integer that a value is where others are `known`; `None` if these do not decide it.

    It may be the one element of a tensor, which a slice has taken of a constant one.
    """
    if value in known:
        return known[value]
    number = _constant(value)
    if number is not None or isinstance(value.owner, ir.Block):
        return number
    op = value.owner.operation
    if op.name in _TO_ROW:
        is_one = _count(value.type) == _count(op.operands[0].type) == 1
        return number_in(op.operands[0], known) if is_one else None
    if op.name == SLICE and list(value.type.shape) == [1]:
        elements = build.constant_value(op.operands[0])
        at = number_in(op.operands[1], known)
        if at is None or not isinstance(elements, ir.DenseIntElementsAttr):
            return None
        return int(elements[min(max(at, 0), len(elements) - 1)])
    return _number(op, lambda each: number_in(each, known))


def _number(
    op: ir.Operation, number_of: Callable[[ir.Value], int | None] | None = None
) -> int | None:
    """The integer that an op makes of constants, if it is a scalar that fits its type."""
    if len(op.results) != 1 or not op.operands or SHARDINGS in op.attributes:
        return None
    bits = _bits(op.results[0].type)
    known = [(number_of or _constant)(value) for value in op.operands] if bits else []
    numbers = [each for each in known if each is not None]
    if not numbers or len(numbers) < len(known):
        return None
    if op.name == "stablehlo.compare":
        direction = hlo.direction_of(op)
        return int(_COMPARE[direction](*numbers))
    if op.name not in _FOLDED:
        return None
    number = _FOLDED[op.name](*numbers)
    if op.name == "stablehlo.convert" and str(op.results[0].type.element_type) == "i1":
        return int(number != 0)
    # Python's integers do not wrap around, as those of the op would.
    fits = number is not None and -(1 << bits - 1) <= number < 1 << bits - 1
    return number if fits else None


def _bits(type_: ir.Type) -> int:
    """The bits of a scalar signless integer, or tensor of one; 0 for other types."""
    if isinstance(type_, ir.RankedTensorType):
        type_ = type_.element_type if not type_.shape else None
    if isinstance(type_, ir.IndexType):
        return 64
    is_signless = isinstance(type_, ir.IntegerType) and type_.is_signless
    return max(type_.width, _FLAG) if is_signless else 0


def _constant(value: ir.Value) -> int | None:
    if not _bits(value.type):
        return None
    attribute = build.constant_value(value)
    if isinstance(attribute, ir.IntegerAttr):
        return int(attribute.value)
    if attribute is None:
        return None
    number = int(attribute.get_splat_value().value)
    return abs(number) if _bits(value.type) == _FLAG else number


def _to_slice(op: ir.Operation) -> None:
    """Make a dynamic slice at a known place a static one, or the part that was written there."""
    sizes = op.results[0].type.shape
    starts = _starts(list(op.operands)[1:], op.operands[0].type.shape, sizes)
    if starts is None:
        return
    source = op.operands[0]
    # The row may have been written before others: a slice of row 1 looks through the update of row
    # 2 to the one of row 1.
    while (found := written(source)) is not None:
        update, at = found
        if at == starts and update.type == op.results[0].type and SHARDINGS not in op.attributes:
            replace_op(op, update)
            return
        if not are_disjoint(at, update.type.shape, starts, sizes):
            break
        source = source.owner.operands[0]
    with ir.InsertionPoint(op), op.location:
        made = hlo.slice_(source, starts, sizes, [1] * len(starts))
    if made is not source and SHARDINGS in op.attributes:
        made.owner.attributes[SHARDINGS] = op.attributes[SHARDINGS]
    replace_op(op, made)


def _drop_if_undone(reshape: ir.Operation) -> None:
    """Replace a reshape of a row by the source of the reshape that had made the row."""
    owner = reshape.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name not in _TO_ROW or SHARDINGS in owner.attributes:
        return
    source, key = owner.operands[0], "broadcast_dimensions"
    dims = list(owner.attributes[key]) if key in owner.attributes else []
    is_reshape = dims == sorted(dims) and _count(source.type) == _count(owner.results[0].type)
    if (
        is_reshape
        and source.type == reshape.results[0].type
        and SHARDINGS not in reshape.attributes
    ):
        replace_op(reshape, source)


def _count(type_: ir.RankedTensorType) -> int:
    return prod(type_.shape) if type_.has_static_shape else -1


def _starts(
    values: Sequence[ir.Value], shape: Sequence[int], sizes: Sequence[int]
) -> list[int] | None:
    """Where a slice of `sizes` begins, if that is known: StableHLO moves it into the tensor."""
    known = [each for each in map(_constant, values) if each is not None]
    if len(known) < len(values):
        return None
    return [
        min(max(start, 0), whole - size)
        for start, whole, size in zip(known, shape, sizes, strict=True)
    ]


def written(value: ir.Value) -> tuple[ir.Value, list[int]] | None:
    """The part that a `dynamic_update_slice` at a known place has written, and its indices."""
    op = value.owner
    if isinstance(op, ir.Block) or op.name != UPDATE:
        return None
    whole, update, *at = op.operands
    starts = _starts(at, whole.type.shape, update.type.shape)
    return None if starts is None or SHARDINGS in op.attributes else (update, starts)


def are_disjoint(
    a: Sequence[int], a_sizes: Sequence[int], b: Sequence[int], b_sizes: Sequence[int]
) -> bool:
    """Whether two boxes have no element in common.

    >>> are_disjoint([0, 0], [1, 4], [1, 0], [1, 4])
    True
    """
    ends = zip(map(add, a, a_sizes), map(add, b, b_sizes), strict=True)
    return any(
        end <= start or other_end <= begin
        for (end, other_end), begin, start in zip(ends, a, b, strict=True)
    )


MOST = 1024
"""The most trips of one loop that is unrolled: each has a copy in each phase."""


def unroll(loop: ir.Operation, counter: Counter) -> list[ir.Value]:
    """Replace a loop by copies of its body, one a trip; the values that it carries then."""
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
        replace_values(arguments, values)
        carried = build.inline_before(loop, inner)
        copy.erase()
    replace_op(loop, *carried)
    return carried
