"""Convert the elements of collectives to what runtimes support: signed types of full bytes.

    %a = linalg.generic ... ins(%x : tensor<4xi4>) { ... arith.extsi %element : i4 to i8 ... }
    %b = shard.all_reduce %a on @g grid_axes = [0] : tensor<4xi8> -> tensor<4xi8>
    %0 = linalg.generic ... ins(%b : tensor<4xi8>) { ... arith.trunci %element : i8 to i4 ... }

Wider sums and products, truncated, have the same bits, and wider maxima are the same numbers. The
sign bit of unsigned integers is flipped before a maximum or minimum, and flipped back after it. An
operand that is reduced to a wider type is converted before, as upstream specifies
(`shard.all_reduce`).
"""

from __future__ import annotations

from collections.abc import Callable

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import reductions
from shard_dialect.ir.building.build import create, redirect
from shard_dialect.ir.building.build_loops import elementwise
from shard_dialect.ir.building.masking import select
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.shard.local_collectives import LocalStep
from shard_dialect.model import AllReduce, Grid, ReduceScatter
from shard_dialect.model.rooted_collectives import Reduce, flat_index
from shard_dialect.passes.lower.pack_collectives import of_rank, rank_of

_Change = Callable[[ir.Value], ir.Value]


def convert_element_types(
    op: ir.Operation, step: LocalStep, grid: Grid, function: ir.Operation
) -> None:
    """Convert the operand and result of a collective of `function`, or of a started one."""
    if isinstance(step, AllReduce | Reduce | ReduceScatter):
        _widen_before(op)
        _widen_to_bytes(op)
        _order_as_signed(op, step, grid, function)
    else:
        _widen_to_bytes(op)


def _widen_before(op: ir.Operation) -> None:
    """Convert the operand of a reduction to the element type of its result."""
    value, result_element = op.operands[0], op.results[0].type.element_type
    operand_element = value.type.element_type
    if operand_element == result_element:
        return
    with ir.InsertionPoint(op), op.location:
        if isinstance(operand_element, ir.ComplexType):
            wide = elementwise(
                [value], lambda each: _wider(each, result_element), _of(result_element, value)
            )
        elif isinstance(operand_element, ir.FloatType):
            wide = _converted(value, "arith.extf", result_element)
        else:
            wide = reductions.as_type(_extended(value, result_element), _of(result_element, value))
        op.operands[0] = wide


def _wider(value: ir.Value, type_: ir.ComplexType) -> ir.Value:
    narrow, component = value.type.element_type, type_.element_type
    components = [create(f"complex.{name}", [narrow], [value]).results[0] for name in ("re", "im")]
    wide = [create("arith.extf", [component], [each]).results[0] for each in components]
    return create("complex.create", [type_], wide).results[0]


def _extended(value: ir.Value, type_: ir.IntegerType) -> ir.Value:
    """Extend to signless integers of the width of `type_`; a bit is 0 or 1, never -1."""
    element = value.type.element_type
    has_no_sign = reductions.is_unsigned(element) or element.width == 1
    bits = reductions.as_type(value, reductions.signless(value.type))
    name = "arith.extui" if has_no_sign else "arith.extsi"
    return _converted(bits, name, reductions.signless(type_))


def _widen_to_bytes(op: ir.Operation) -> None:
    """Let a collective work on integers of 8, 16, 32 or 64 bits, but for i1."""
    element = op.operands[0].type.element_type
    if not isinstance(element, ir.IntegerType) or element.width in (1, 8 * itemsize(element)):
        return
    plain = reductions.signless(element)
    wide = ir.IntegerType.get_signless(8 * itemsize(element))

    def narrowed(value: ir.Value) -> ir.Value:
        return reductions.as_type(_converted(value, "arith.trunci", plain), _of(element, value))

    for each in (op, *_ends(op)):
        each.results[0].set_type(_of(wide, each.results[0]))
    _wrap(op, lambda value: _extended(value, wide), narrowed)


def _order_as_signed(
    op: ir.Operation, step: AllReduce | Reduce | ReduceScatter, grid: Grid, function: ir.Operation
) -> None:
    """Let a signed reduction find unsigned maxima and minima, by flipping the sign bits."""
    element = op.operands[0].type.element_type
    if step.reduction not in ("max", "min") or not reductions.is_unsigned(element):
        return

    def to_signed(value: ir.Value) -> ir.Value:
        return _turned(value, _first_bit(element))

    def to_unsigned(value: ir.Value) -> ir.Value:
        bit = _first_bit(element)
        if isinstance(step, Reduce):
            bit = _at_root(bit, step, grid, function)
        return _turned(value, bit)

    _wrap(op, to_signed, to_unsigned)


def _wrap(op: ir.Operation, before: _Change, after: _Change) -> None:
    """Apply `before` to the operand of a collective, or of its start, and `after` to its result."""
    with ir.InsertionPoint(op), op.location:
        op.operands[0] = before(op.operands[0])
    for end in _ends(op):
        uses = list(end.results[0].uses)
        with ir.InsertionPoint.after(end), end.location:
            changed = after(end.results[0])
        redirect(uses, changed)


def _ends(op: ir.Operation) -> list[ir.Operation]:
    """The ops that return the collective's result: itself, or the `done` ops of a start."""
    if op.name != "mesh.start":
        return [op]
    return [use.owner.operation for use in op.results[0].uses]


def _of(element: ir.Type, like: ir.Value) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(like.type.shape, element)


def _converted(value: ir.Value, name: str, element: ir.Type) -> ir.Value:
    def convert(each: ir.Value) -> ir.Value:
        return create(name, [element], [each]).results[0]

    return elementwise([value], convert, _of(element, value))


def _first_bit(element: ir.Type) -> ir.Value:
    """The sign bit: the smallest signed number has no other bit."""
    return reductions.identity_value("max", reductions.signless(element))


def _at_root(bit: ir.Value, step: Reduce, grid: Grid, function: ir.Operation) -> ir.Value:
    """The bit on the root, and zero elsewhere, where a reduction's result is undefined."""
    root = flat_index(step.root, grid.sizes_along(step.axes))
    is_root = [int(grid.index_along(rank, step.axes) == root) for rank in range(grid.size)]
    here = of_rank(is_root, ir.IntegerType.get_signless(1), rank_of(function, grid))
    return select(here, bit, reductions.identity_value("sum", bit.type))


def _turned(value: ir.Value, bit: ir.Value) -> ir.Value:
    """Flip `bit` in each element."""
    plain = reductions.as_type(value, reductions.signless(value.type))
    turned = elementwise([plain], lambda each: reductions.combine("bitwise_xor", each, bit))
    return reductions.as_type(turned, value.type)
