"""Outline loops and products as kernels: private functions, of which equal ones are shared.

    for i: y[i] = tanh(x[i])              call @mesh.kernel.0(%x, %y)
    for i: v[i] = tanh(u[i])        ->    call @mesh.kernel.0(%u, %v)

A kernel gets all its operands as arguments: buffers, and scalars
that are no constants. Buffers that begin inside of others are passed as their
address alone, so that rows of one buffer are alike:

    call @mesh.kernel.1(%row) : (memref<64xf32, strided<[1], offset: 128>>) -> ()

becomes a call on a `memref<64xf32>`, to which the row is cast (`pointers.py` adds the offset).

`isolate` closes a function whose ops were moved there: captured values become arguments.

    func.func @f() {                              func.func @f(%x: memref<4xf32>) {
      %v = memref.load %buffer[%zero]      ->       %zero = arith.constant 0 : index
                                                    %v = memref.load %x[%zero]

Constants are copied instead, so that LLVM knows them.

`inline_small` inlines small functions of the program before, so that their loops can be fused with
those around the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from math import prod

from shard_dialect.ir.bindings import ir, run_upstream
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_values
from shard_dialect.ir.function import functions_of, name_of, set_boundary
from shard_dialect.ir.walk import body, operations, walk


def isolate(function: ir.Operation) -> list[ir.Value]:
    """Close the function, which has no arguments yet; return the values for its arguments.

    They are in the order in which the function uses them first.
    """
    block = body(function)
    inside: set[ir.Value] = set()
    arguments: dict[ir.Value, ir.Value] = {}
    for op in list(_ops(block.operations, inside)):
        for number, operand in enumerate(op.operands):
            if operand in inside:
                continue
            if operand not in arguments:
                arguments[operand] = _copied(operand, block) or block.add_argument(
                    operand.type, function.location
                )
            op.operands[number] = arguments[operand]
    captured = [value for value, own in arguments.items() if isinstance(own.owner, ir.Block)]
    type_ = ir.FunctionType.get([value.type for value in captured], [])
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    return captured


def _ops(ops: Iterable[ir.Operation], inside: set[ir.Value]) -> Iterator[ir.Operation]:
    """All ops, also in regions; `inside` gets the values that they and their blocks define."""
    for each in ops:
        op = each.operation
        yield op
        for region in op.regions:
            for block in region:
                inside.update(block.arguments)
                yield from _ops(block.operations, inside)
        inside.update(op.results)


def _copied(value: ir.Value, block: ir.Block) -> ir.Value | None:
    """The value made in the block, if it is a constant scalar, or a buffer of one element."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name not in ("arith.constant", "memref.get_global"):
        return None
    if isinstance(value.type, ir.ShapedType) and prod(value.type.shape) != 1:
        return None
    first = operations(block)[0]
    with ir.InsertionPoint(first):
        copy: ir.Value = owner.operation.clone().results[0]
    return copy


KERNEL = "mesh.kernel"
"""The attribute of a kernel, and the prefix of its name."""
CAST = "builtin.unrealized_conversion_cast"
"""The op by which a buffer becomes one without its offset."""


class Kernels:
    """The kernels of a module, by their text."""

    def __init__(self, module: ir.Operation) -> None:
        self._module = module
        self._names: dict[str, str] = {}
        self._types: dict[str, list[ir.Type]] = {}
        self._written: dict[tuple[Hashable, ...], str] = {}
        self._empty = ir.FunctionType.get([], [])

    def open(self) -> ir.Operation:
        """A function without arguments, to write to; return its op."""
        with ir.InsertionPoint(body(self._module)), ir.Location.unknown():
            function = build.declare(KERNEL, self._empty)
            with ir.InsertionPoint(function.regions[0].blocks.append()):
                build.create("func.return", [], [])
        return function

    def __contains__(self, name: str) -> bool:
        return name in self._types

    def add(
        self,
        function: ir.Operation,
        captured: Sequence[ir.Value] = (),
        disjoint: Collection[ir.Value] = (),
    ) -> str:
        """Add a kernel that was isolated, or erase it if there is one like it; return its name.

        `disjoint` are those of the `captured` buffers that share no memory with the others.
        """
        inputs = _inputs(function)
        results = [value.type for value in terminator(function).operands]
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
        if disjoint:
            alone = {"llvm.noalias": ir.UnitAttr.get()}
            entries = [alone if value in disjoint else {} for value in captured]
            set_boundary(function, "arg_attrs", entries)
        text = str(function.get_asm(use_local_scope=True, assume_verified=True))
        if text in self._names:
            function.erase()
            return self._names[text]
        name = self._names[text] = f"{KERNEL}.{len(self._names)}"
        self._types[name] = inputs
        function.attributes["sym_name"] = ir.StringAttr.get(name)
        function.attributes[KERNEL] = ir.UnitAttr.get()
        function.attributes["llvm.linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        return name

    def call_written(
        self,
        what: Hashable,
        values: Sequence[ir.Value],
        write: Callable[[Sequence[ir.Value]], None],
    ) -> None:
        """Call the kernel for `what` at the insertion point, with buffers.

        The first time, `write` writes it, given its own buffers.
        """
        types = [_without_offset(value.type) for value in values]
        key = (what, *types)
        if key not in self._written:
            function = self.open()
            block = body(function)
            own = [block.add_argument(type_, function.location) for type_ in types]
            with ir.InsertionPoint(terminator(function)):
                write(own)
            self._written[key] = self.add(function)
        self.call(self._written[key], values)

    def call(self, name: str, values: Sequence[ir.Value]) -> None:
        """Call a kernel at the insertion point."""
        _call(name, values, self._types[name], ())

    def outline(
        self,
        op: ir.Operation,
        disjoint: Callable[[ir.Operation, Sequence[ir.Value]], Collection[ir.Value]],
    ) -> None:
        """Make a kernel of an op that has no buffer as result, and call it in the op's place.

        `disjoint` tells, of the kernel and what it captured, which buffers are so.
        """
        function = self.open()
        end = terminator(function)
        with ir.InsertionPoint.after(op), op.location:
            op.move_before(end)
            captured = isolate(function)
            types = [value.type for value in op.results]
            call = _call(KERNEL, captured, _inputs(function), types)
        replace_values(op.results, call.results)
        with ir.InsertionPoint(end), op.location:
            build.create("func.return", [], list(op.results))
        end.erase()
        call.attributes["callee"] = ir.FlatSymbolRefAttr.get(
            self.add(function, captured, disjoint(function, captured))
        )


def _call(
    name: str, values: Sequence[ir.Value], inputs: Sequence[ir.Type], results: Sequence[ir.Type]
) -> ir.Operation:
    pairs = zip(values, inputs, strict=True)
    given = [build.cast(CAST, v, type_) for v, type_ in pairs]
    return build.call(name, given, results)


def _inputs(function: ir.Operation) -> list[ir.Type]:
    """The types of the kernel's arguments, once buffers begin at their address if they can."""
    for argument in body(function).arguments:
        _drop_offset(argument)
    return [argument.type for argument in body(function).arguments]


def _drop_offset(argument: ir.Value) -> None:
    """Let a buffer that is only loaded from and stored to begin at its address."""
    users = {use.owner.operation.name for use in argument.uses}
    if users <= {"memref.load", "memref.store"}:
        argument.set_type(_without_offset(argument.type))


def _without_offset(type_: ir.Type) -> ir.Type:
    """The type of a buffer that begins at its address; other types as they are."""
    if not isinstance(type_, ir.MemRefType) or "offset" not in str(type_):
        return type_
    strides, _ = type_.get_strides_and_offset()
    whole = ir.MemRefType.get(type_.shape, type_.element_type, None, type_.memory_space)
    if whole.get_strides_and_offset()[0] == strides:
        return whole
    layout = ir.StridedLayoutAttr.get(0, strides)
    return ir.MemRefType.get(type_.shape, type_.element_type, layout, type_.memory_space)


def is_kernel(op: ir.Operation) -> bool:
    """Whether the function is a kernel."""
    return KERNEL in op.attributes


def terminator(function: ir.Operation) -> ir.Operation:
    """The op that ends a function of one block."""
    return operations(body(function))[-1]


_INLINE = "builtin.module(inline{default-pipeline=})"
_SMALL = 40
"""The number of ops up to which a function is inlined, however often it is called."""


def inline_small(module: ir.Operation) -> None:
    """Inline functions that are called once, or small. No function may be recursive."""
    ops = {name_of(function): walk(function) for function in functions_of(module)}
    called = {
        name: [op.attributes["callee"].value for op in inside if op.name == "func.call"]
        for name, inside in ops.items()
    }
    counts = Counter(callee for callees in called.values() for callee in callees)
    if not counts:
        return
    sizes: dict[str, int] = {}

    def size(name: str) -> int:
        """The number of ops after inlining its calls; 0 if the function is not inlined."""
        if name not in sizes:
            total = len(ops[name]) + sum(size(callee) for callee in called[name] if callee in ops)
            sizes[name] = total if total <= _SMALL or counts[name] < 2 else 0
        return sizes[name]

    for function in functions_of(module):
        if not size(name_of(function)):
            function.attributes["no_inline"] = ir.UnitAttr.get()
    run_upstream(_INLINE, module)
