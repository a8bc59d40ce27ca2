"""Replace collectives of the local form by calls of runtime functions, each declared once.

    func.func private @mesh_all_gather_0(memref<4x4xf32>, memref<8x4xf32>) attributes {
      llvm.emit_c_interface,
      mesh.collective = {gather_axis = 0 : index, grid = @g, grid_axes = array<i16: 0>,
                         mesh.local_types = [tensor<4x4xf32>, tensor<4x8xf32>],
                         name = "shard.all_gather"}}
    call @mesh_all_gather_0(%given, %filled)

The start and the done of a split collective take a third buffer, in which the runtime keeps its
state in between. `@mesh_rank_0() -> index` returns this device's rank.

`collectives-on-tensors` turns collectives on buffers into collectives on tensors first.

    %r = shard.all_reduce %m on @g grid_axes = [0] : memref<4xf32> -> memref<4xf32>

becomes

    %a = memref.alloc() : memref<4xf32>
    memref.copy %m, %a
    %t = bufferization.to_tensor %a restrict
    %u = shard.all_reduce %t on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>
    %r = memref.alloc() : memref<4xf32>
    bufferization.materialize_in_destination %u in restrict writable %r

The copy is read later than %m may be written to: tensors have no order. An update of halos is in
place, and the result of a send is the operand itself.

`convert_element_types` converts elements to types that runtimes support: signed ones of full bytes.

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
from typing import Any

from shard_dialect.collectives import (
    LocalStep,
    Mask,
    Reduce,
)
from shard_dialect.collectives.collective_table import LOCAL
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import create_value, redirect, replace_op, select
from shard_dialect.ir.building.loops_and_masks import elementwise
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import COLLECTIVE, LIBRARY_CALL, PHASE, RANK
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.shard.local_collectives import (
    described,
    one_by_one,
    read_local,
)
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Grid, Reduction, ShardingError
from shard_dialect.ops.stablehlo.custom_call import CUSTOM_CALL, options_of
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED
from shard_dialect.passes.lower.computed_members import computed_member
from shard_dialect.passes.lower.pack_collectives import of_rank, pack_collective, rank_of

_RETURNS_OPERAND = ("shard.send", "shard.update_halo")
_IN_PLACE = "shard.update_halo"


@needs(ops=("mesh.", "shard."), forms=NOT_LOWERED)
def collectives_on_tensors(module: ir.Operation) -> Outcome:
    """Replace the operands and results of collectives that are buffers by tensors."""
    outcome: Outcome = UNCHANGED
    for op in walk(module):
        values = [*op.operands, *op.results] if op.name in LOCAL else []
        if any(isinstance(value.type, ir.MemRefType) for value in values):
            with located(op):
                _replace(op)
            outcome = None
    return outcome


def _replace(op: ir.Operation) -> None:
    operands = list(op.operands)
    for value in (*operands, op.results[0]):
        if isinstance(value.type, ir.MemRefType) and not value.type.has_static_shape:
            raise ShardError(
                f"'{op.name}' op is on a {value.type}, whose size is not known: it cannot be "
                "lowered yet"
            )
    types = [_tensor_type(op.results[0].type)]
    with ir.InsertionPoint(op), op.location:
        tensors = [_copied(value) for value in operands]
        attributes = {name: op.attributes[name] for name in op.attributes}
        (result,) = build.create(op.name, types, tensors, attributes).results
        old = op.results[0]
        if isinstance(old.type, ir.MemRefType):
            into = operands[0] if op.name in _RETURNS_OPERAND else _allocated(old.type)
            if op.name == _IN_PLACE or op.name not in _RETURNS_OPERAND:
                _write(result, into)
            result = into
            if into.type != old.type:
                result = build.create_value("memref.cast", old.type, [into])
    replace_op(op, result)


def _tensor_type(type_: ir.Type) -> ir.Type:
    if not isinstance(type_, ir.MemRefType):
        return type_
    return ir.RankedTensorType.get(type_.shape, type_.element_type)


def _copied(value: ir.Value) -> ir.Value:
    """The tensor of a buffer as it is now; any other value itself."""
    if not isinstance(value.type, ir.MemRefType):
        return value
    type_ = _tensor_type(value.type)
    copy = _allocated(value.type)
    build.create("memref.copy", [], [value, copy])
    restrict = {"restrict": ir.UnitAttr.get()}
    return build.create_value("bufferization.to_tensor", type_, [copy], restrict)


def _allocated(type_: ir.MemRefType) -> ir.Value:
    contiguous = ir.MemRefType.get(type_.shape, type_.element_type)
    return build.allocate(contiguous)


def _write(tensor: ir.Value, into: ir.Value) -> None:
    flags = {name: ir.UnitAttr.get() for name in ("restrict", "writable")}
    build.create("bufferization.materialize_in_destination", [], [tensor, into], flags)


_Change = Callable[[ir.Value], ir.Value]


def convert_element_types(
    op: ir.Operation, step: LocalStep, grid: Grid, function: ir.Operation
) -> None:
    """Convert the operand and result of a collective of `function`, or of a started one."""
    if step.reduces:
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
    components = [create_value(f"complex.{name}", narrow, [value]) for name in ("re", "im")]
    wide = [build.cast("arith.extf", each, component) for each in components]
    return create_value("complex.create", type_, wide)


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
    wide = build.integer(8 * itemsize(element))

    def narrowed(value: ir.Value) -> ir.Value:
        return reductions.as_type(_converted(value, "arith.trunci", plain), _of(element, value))

    for each in (op, *_ends(op)):
        each.results[0].set_type(_of(wide, each.results[0]))
    _wrap(op, lambda value: _extended(value, wide), narrowed)


def _order_as_signed(op: ir.Operation, step: Any, grid: Grid, function: ir.Operation) -> None:
    """Let a signed reduction find unsigned maxima and minima, by flipping the sign bits."""
    element = op.operands[0].type.element_type
    if step.reduction not in ("max", "min") or not reductions.is_unsigned(element):
        return

    def to_signed(value: ir.Value) -> ir.Value:
        return _turned(value, _first_bit(element))

    def to_unsigned(value: ir.Value) -> ir.Value:
        bit = _first_bit(element)
        if isinstance(step, Reduce):
            bit = _at_root(bit, op, step, grid, function)
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
        return create_value(name, element, [each])

    return elementwise([value], convert, _of(element, value))


def _first_bit(element: ir.Type) -> ir.Value:
    """The sign bit: the smallest signed number has no other bit."""
    return reductions.identity_value("max", reductions.signless(element))


def _at_root(
    bit: ir.Value, op: ir.Operation, step: Reduce, grid: Grid, function: ir.Operation
) -> ir.Value:
    """The bit on the root, and zero elsewhere, where a reduction's result is undefined."""
    positions = [grid.index_along(rank, step.axes) for rank in range(grid.size)]
    own = of_rank(positions, ir.IndexType.get(), rank_of(function, grid))
    here = build.compare("eq", own, computed_member(op, step, grid.sizes_along(step.axes)))
    return select(here, bit, reductions.identity_value("sum", bit.type))


def _turned(value: ir.Value, bit: ir.Value) -> ir.Value:
    """Flip `bit` in each element."""
    plain = reductions.as_type(value, reductions.signless(value.type))
    turned = elementwise([plain], lambda each: reductions.combine("bitwise_xor", each, bit))
    return reductions.as_type(turned, value.type)


_REMEMBERED = 2
"""The number of 64-bit integers that a runtime may keep between start and done."""


@needs(ops=("mesh.", "shard."), forms=NOT_LOWERED)
def pack_collectives(module: ir.Operation) -> None:
    """Move collectives to the first dimension; raise for those that cannot be lowered."""
    grids = grids_of(module)
    for function in functions_of(module):
        for op in _collectives(function):
            with located(op):
                for each in one_by_one(op):
                    grid, step = _read(each)
                    types = [each.operands[0].type, each.results[0].type]
                    if step.communicates:
                        convert_element_types(each, step, grids[grid], function)
                    pack_collective(each, step, grids[grid], function, types)


@needs(ops=("mesh.", "shard.", CUSTOM_CALL), forms=NOT_LOWERED)
def call_collectives(module: ir.Operation) -> None:
    """Replace collectives and calls of libraries, right before bufferization: it sees operands.

    The passes before it would fold a buffer that a call fills into the call that reads it.
    """
    calls = _Calls(module)
    for function in functions_of(module):
        named = [(op, op.name) for op in walk(function)]
        for op, name in named:
            if name == _RANK_OP:
                calls.ask_rank(op, function)
            elif name == CUSTOM_CALL:
                calls.call_library(op, function)
        for op in (op for op, name in named if _is_collective(name)):
            with located(op):
                calls.replace(op, function)


_RANK_OP = "shard.process_linear_index"


def _collectives(function: ir.Operation) -> list[ir.Operation]:
    return [op for op in walk(function) if _is_collective(op.name)]


def _is_collective(name: str) -> bool:
    return name.startswith(("shard.", "mesh.")) and name not in ("mesh.done", _RANK_OP)


def _read(op: ir.Operation) -> tuple[str, LocalStep]:
    try:
        read = read_local(op.name, op.attributes)
    except ShardingError as error:
        raise ShardError(f"'{op.name}' op {error.message}") from None
    if read is None:
        raise ShardError(f"'{op.name}' op cannot be lowered yet")
    for each in (op.operands[0].type, op.results[0].type):
        if not isinstance(each, ir.RankedTensorType):
            raise ShardError(
                f"'{op.name}' op on a {each} cannot be lowered: expected a ranked tensor, whose "
                "buffer --lower makes"
            )
    type_, result_element = op.operands[0].type, op.results[0].type.element_type
    if not type_.has_static_shape:
        raise ShardError(f"'{op.name}' op on a tensor of unknown size cannot be lowered yet")
    step: Any = read[1]
    if step.reduces or isinstance(step, Mask):
        _check_reduction(op.name, step.reduction, result_element)
    elif type_.element_type != result_element:
        raise ShardError(f"'{op.name}' op gives elements of another type")
    return read


def _check_reduction(name: str, reduction: Reduction, element: ir.Type) -> None:
    is_float = isinstance(element, ir.FloatType)
    is_complex = isinstance(element, ir.ComplexType)
    if reduction == "average":
        is_supported = is_float
    elif reduction in reductions.BITWISE:
        is_supported = not is_float and not is_complex
    elif reduction in ("max", "min"):
        is_supported = str(element) != "i1" and not is_complex
    else:
        is_supported = str(element) != "i1"
    if not is_supported:
        raise ShardError(f"'{name}' op cannot reduce elements of type {element} by {reduction}")


class _Calls:
    """The runtime functions declared so far, by their collective and types."""

    def __init__(self, module: ir.Operation) -> None:
        self.grids = grids_of(module)
        self.declared: dict[tuple[ir.Attribute, ir.Type], str] = {}
        self.names = {name_of(op) for op in operations(body(module)) if "sym_name" in op.attributes}

    def ask_rank(self, op: ir.Operation, function: ir.Operation) -> None:
        """Replace `op` by a call for this device's rank."""
        type_ = ir.FunctionType.get([], [ir.IndexType.get()])
        name = self._declare("rank", (RANK, op.attributes["grid"]), type_, function)
        with ir.InsertionPoint(op), op.location:
            asked = build.call(name, [], [ir.IndexType.get()])
        replace_op(op, asked.results[0])

    def call_library(self, op: ir.Operation, function: ir.Operation) -> None:
        """Replace `op` by a call that fills buffers for its results."""
        with ir.InsertionPoint(op), op.location:
            given = [build.buffer_of(each) for each in op.operands]
            types = [each.type for each in op.results]
            filled = [
                build.allocate(ir.MemRefType.get(each.shape, each.element_type)) for each in types
            ]
            type_ = ir.FunctionType.get([each.type for each in (*given, *filled)], [])
            target, text = op.attributes["call_target_name"], ir.StringAttr.get(options_of(op))
            what = {"target": target, "text": text, "operands": build.i64(len(given))}
            attributes = (LIBRARY_CALL, ir.DictAttr.get(what))
            build.call(self._declare("library", attributes, type_, function), [*given, *filled])
            made = [build.tensor_of(each) for each in filled]
        replace_op(op, *made)

    def replace(self, op: ir.Operation, function: ir.Operation) -> None:
        """Replace `op` of `function` by a call; its callee is declared before the function."""
        grid, step = _read(op)
        result_type = op.results[0].type
        target = ir.MemRefType.get(result_type.shape, result_type.element_type)
        is_started = op.name == "mesh.start"
        with ir.InsertionPoint(op), op.location:
            value = op.operands[0]
            if is_started:  # the code may overwrite the operand before the collective is done
                value = build.allocate_copy(value)
            buffers = [build.buffer_of(value), build.allocate(target)]
            if is_started:
                i64 = build.integer(64)
                remembered = ir.MemRefType.get([_REMEMBERED], i64)
                buffers.append(build.allocate(remembered))
            given = list(buffers)
            if step.is_computed:
                given.append(computed_member(op, step, self.grids[grid].sizes_along(step.axes)))
            self._call(op, "start" if is_started else "", given, function)
        if not is_started:
            _read_buffer(op, buffers[1])
            return
        what = described(op)
        for use in list(op.results[0].uses):
            done = use.owner.operation
            with ir.InsertionPoint(done), done.location:
                self._call(done, "done", buffers, function, what)
            _read_buffer(done, buffers[1])
        op.erase()

    def _call(
        self,
        op: ir.Operation,
        phase: str,
        given: list[ir.Value],
        function: ir.Operation,
        what: ir.DictAttr | None = None,
    ) -> None:
        """Call the runtime function for `op`, or for a phase of it."""
        attributes = {each.name: each.attr for each in what or described(op)}
        kind = attributes["name"].value.partition(".")[2]
        if phase:
            attributes[PHASE] = ir.StringAttr.get(phase)
            kind = f"{kind}_{phase}"
        type_ = ir.FunctionType.get([each.type for each in given], [])
        name = self._declare(kind, (COLLECTIVE, ir.DictAttr.get(attributes)), type_, function)
        build.call(name, given)

    def _declare(
        self,
        kind: str,
        what: tuple[str, ir.Attribute],
        type_: ir.FunctionType,
        function: ir.Operation,
    ) -> str:
        key = (what[1], type_)
        if (
            kind == "send" or key not in self.declared
        ):  # native MPI keeps a copy of the message per send
            name = self._fresh_name(kind)
            self.declared[key] = name
            attributes = {"llvm.emit_c_interface": ir.UnitAttr.get(), what[0]: what[1]}
            with ir.InsertionPoint(function):
                build.declare(name, type_, attributes)
        return self.declared[key]

    def _fresh_name(self, kind: str) -> str:
        number = 0
        while (name := f"mesh_{kind}_{number}") in self.names:
            number += 1
        self.names.add(name)
        return name


def _read_buffer(op: ir.Operation, filled: ir.Value) -> None:
    """Replace `op` by the tensor in the buffer."""
    with ir.InsertionPoint(op), op.location:
        replace_op(op, build.tensor_of(filled))
