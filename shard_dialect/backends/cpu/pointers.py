"""Pass buffers to kernels as pointers, not as the many numbers of a buffer of any shape.

    %row = memref.subview %x[2, 0] [1, 64] [1, 1]        %p = llvm.getelementptr %x_pointer[128]
    %cast = builtin.unrealized_conversion_cast %row      llvm.call @mesh.kernel.0(%p)
    call @mesh.kernel.0(%cast)                     ->

A kernel knows the shape. Numbers that its type leaves open are passed behind the pointer.
"""

from __future__ import annotations

from collections.abc import Sequence

from shard_dialect.backends.cpu.kernels import CAST, is_kernel
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import drop_unused, is_used, replace_op
from shard_dialect.ir.function import boundary, functions_of, name_of, set_boundary
from shard_dialect.ir.mesh.attributes import DYNAMIC
from shard_dialect.ir.numbered_function import VIEWS
from shard_dialect.ir.walk import body, operations, walk


def pass_pointers(module: ir.Operation, entry: ir.Operation) -> None:
    """Change all kernels, and the calls of them. The function `entry` takes its frame (`Frame`)."""
    functions = functions_of(module)
    kernels = {name_of(function): function for function in functions if is_kernel(function)}
    for function in functions:
        pointers = _Pointers(_Frame(function) if function == entry else None)
        for op in walk(function):
            callee = op.attributes["callee"].value if op.name == "func.call" else ""
            if callee in kernels:
                _call(op, pointers)
                if not is_kernel(function):  # it would be compiled at each call
                    kernels[callee].attributes["llvm.no_inline"] = ir.UnitAttr.get()
        _drop_unread(function)
        if pointers.frame is not None:
            pointers.frame.drop_arguments()
    for kernel in kernels.values():
        _take_pointers(kernel)


def pointer_type() -> ir.Type:
    """The type of pointers, whatever they point to."""
    return ir.Type.parse("!llvm.ptr")


class _Frame:
    """A function's one argument: a pointer to the pointers to its buffers.

    A pointer is loaded where it is used, since there may be many.
    """

    def __init__(self, function: ir.Operation) -> None:
        self._function = function
        block = body(function)
        self._arguments = list(block.arguments)
        self._numbers = {value: number for number, value in enumerate(self._arguments)}
        self._pointers = block.add_argument(pointer_type(), function.location)

    def __contains__(self, value: ir.Value) -> bool:
        return value in self._numbers

    def load(self, value: ir.Value) -> ir.Value:
        """The pointer to the buffer that the argument `value` was."""
        slot = element_pointer(self._pointers, pointer_type(), self._numbers[value])
        return build.create_value("llvm.load", pointer_type(), [slot])

    def drop_arguments(self) -> None:
        """Drop the other arguments; make buffers of those that are still used as buffers."""
        block = body(self._function)
        first = operations(block)[0]
        for argument in self._arguments:
            if is_used(argument):
                with ir.InsertionPoint(first), ir.Location.unknown():
                    buffer = _buffer(argument.type, self.load(argument), ())
                argument.replace_all_uses_with(buffer)
        for _ in self._arguments:
            block.erase_argument(0)
        function_type = ir.FunctionType.get([pointer_type()], [])
        self._function.attributes["function_type"] = ir.TypeAttr.get(function_type)
        set_boundary(self._function, "arg_attrs", [{}])


def _call(op: ir.Operation, pointers: _Pointers) -> None:
    values: list[ir.Value] = []
    with ir.InsertionPoint(op), op.location:
        for operand in op.operands:
            if isinstance(operand.type, ir.MemRefType):
                values += [pointers.of(operand), *_open_numbers(operand)]
            else:
                values.append(operand)
        types = [result.type for result in op.results]
        call = build.call(op.attributes["callee"].value, values, types)
    replace_op(op, *call.results)


def _open_numbers(value: ir.Value) -> list[ir.Value]:
    """The numbers that the buffer's type leaves open: of its offset, sizes and strides."""
    is_open = _is_open(value.type)
    if not any(is_open):
        return []
    numbers = _metadata(value)[1:]
    return [number for number, each in zip(numbers, is_open, strict=True) if each]


def _metadata(value: ir.Value) -> list[ir.Value]:
    """The allocated buffer, the offset, the sizes and the strides."""
    type_, index = value.type, ir.IndexType.get()
    whole = ir.MemRefType.get([], type_.element_type, None, type_.memory_space)
    results = [whole, *[index] * (1 + 2 * type_.rank)]
    return list(build.create("memref.extract_strided_metadata", results, [value]).results)


def _strides(type_: ir.MemRefType) -> tuple[list[int], int]:
    """The strides and the offset; of a buffer without elements any will do."""
    if 0 in type_.shape:
        return [1] * type_.rank, 0
    return type_.get_strides_and_offset()


def _is_open(type_: ir.MemRefType) -> list[bool]:
    strides, offset = _strides(type_)
    return [number == DYNAMIC for number in (offset, *type_.shape, *strides)]


class _Pointers:
    """The pointers to the buffers of one function."""

    def __init__(self, frame: _Frame | None) -> None:
        self.frame = frame
        self._known: dict[ir.Value, ir.Value] = {}

    def of(self, value: ir.Value) -> ir.Value:
        """The pointer at which the buffer begins, but for the offset that its type has."""
        if self.frame is not None and value in self.frame:
            return self.frame.load(value)
        if value not in self._known:
            with _behind(value), ir.Location.unknown():
                self._known[value] = self._of(value)
        return self._known[value]

    def _of(self, value: ir.Value) -> ir.Value:
        owner = value.owner
        name = "" if isinstance(owner, ir.Block) else owner.name
        if name == CAST and isinstance(owner.operands[0].type, ir.MemRefType):
            return self._at_offset(owner.operands[0])
        if name in VIEWS:
            return self.of(owner.operands[0])
        if name == "memref.view":
            source, offset = owner.operands
            return _moved(self._whole(source), build.integer(8), offset)
        return build.create_value("llvm.inttoptr", pointer_type(), [build.address(value)])

    def _whole(self, memory: ir.Value) -> ir.Value:
        """The pointer to memory of which many buffers are made, loaded once."""
        if memory not in self._known:
            with _behind(memory), ir.Location.unknown():
                self._known[memory] = self.of(memory)
        return self._known[memory]

    def _at_offset(self, value: ir.Value) -> ir.Value:
        _, offset = _strides(value.type)
        if offset == 0:
            return self.of(value)
        by = _metadata(value)[1] if offset == DYNAMIC else build.index(offset)
        return _moved(self.of(value), _in_memory(value.type.element_type), by)


def _moved(pointer: ir.Value, element: ir.Type, by: ir.Value) -> ir.Value:
    known, counts, short = build.constant_value(by), [], _IN_OPERAND
    if known is not None and 0 <= known.value < 2**31:
        short = known.value
    else:
        counts = [build.cast("arith.index_cast", by, build.integer(64))]
    return element_pointer(pointer, element, short, counts)


def element_pointer(
    pointer: ir.Value, element: ir.Type, number: int, counts: Sequence[ir.Value] = ()
) -> ir.Value:
    """The pointer to the element of this number, or where that is an operand, by `counts`."""
    attributes = {
        "rawConstantIndices": ir.DenseI32ArrayAttr.get([number]),
        "elem_type": ir.TypeAttr.get(element),
    }
    operands = [pointer, *counts]
    return build.create_value("llvm.getelementptr", pointer_type(), operands, attributes)


_IN_OPERAND = -(2**31)
"""LLVM dialect's number for an index that is an operand."""


def _in_memory(type_: ir.Type) -> ir.Type:
    """The type of LLVM of an element."""
    if isinstance(type_, ir.IndexType):
        return build.integer(64)
    if isinstance(type_, ir.ComplexType):
        part = _in_memory(type_.element_type)
        return ir.Type.parse(f"!llvm.struct<({part}, {part})>")
    if isinstance(type_, ir.FloatType) and type_.width <= 8:
        return build.integer(type_.width)  # LLVM has no such floats
    return type_


def _behind(value: ir.Value) -> ir.InsertionPoint:
    """The point at which the value is defined."""
    if isinstance(value.owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(value.owner)
    return ir.InsertionPoint.after(value.owner)


def _drop_unread(function: ir.Operation) -> None:
    """Erase the ops whose buffers nothing uses any more."""
    names = (CAST, "memref.view", *VIEWS)
    drop_unused(op for op in reversed(walk(function)) if op.name in names)


def _take_pointers(kernel: ir.Operation) -> None:
    """Let the kernel take pointers, of which it makes its buffers."""
    block = body(kernel)
    old = list(block.arguments)
    entries = iter(boundary(kernel, "arg_attrs"))
    first = operations(block)[0]
    new_entries: list[dict[str, ir.Attribute]] = []
    for argument in old:
        entry = next(entries)
        if not isinstance(argument.type, ir.MemRefType):
            new = block.add_argument(argument.type, kernel.location)
            new_entries.append(entry)
        else:
            is_open = _is_open(argument.type)
            pointer = block.add_argument(pointer_type(), kernel.location)
            index = ir.IndexType.get()
            numbers = [block.add_argument(index, kernel.location) for each in is_open if each]
            new_entries += [entry, *({} for _ in numbers)]
            with ir.InsertionPoint(first), ir.Location.unknown():
                new = _buffer(argument.type, pointer, numbers)
        argument.replace_all_uses_with(new)
    for _ in old:
        block.erase_argument(0)
    types = [argument.type for argument in block.arguments]
    results = kernel.attributes["function_type"].value.results
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))
    set_boundary(kernel, "arg_attrs", new_entries)


def _buffer(type_: ir.MemRefType, pointer: ir.Value, numbers: Sequence[ir.Value]) -> ir.Value:
    """The buffer at a pointer, as the struct by which `finalize-memref-to-llvm` represents it."""
    i64 = build.integer(64)
    strides, offset = _strides(type_)
    rank, remaining = type_.rank, iter(numbers)
    array = f", array<{rank} x i64>" * 2 if rank else ""
    struct = ir.Type.parse(f"!llvm.struct<(ptr, ptr, i64{array})>")
    made = build.create_value("llvm.mlir.poison", struct, [])

    def put(value: ir.Value, *position: int) -> None:
        nonlocal made
        at = {"position": ir.DenseI64ArrayAttr.get(list(position))}
        made = build.create_value("llvm.insertvalue", struct, [made, value], at)

    def number(value: int) -> ir.Value:
        if value == DYNAMIC:
            return build.cast("arith.index_cast", next(remaining), i64)
        return build.number(value, i64)

    put(pointer, 0)
    put(pointer, 1)
    put(number(offset), 2)
    for field, values in ((3, type_.shape), (4, strides)):
        for dim, value in enumerate(values):
            put(number(value), field, dim)
    return build.cast(CAST, made, type_)
