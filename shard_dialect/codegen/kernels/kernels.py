"""The kernels of a module: each that is alike another one is that other one.

    for i: y[i] = tanh(x[i])              call @mesh.kernel.0(%x, %y)
    for i: v[i] = tanh(u[i])        ->    call @mesh.kernel.0(%u, %v)

A kernel is a private function. What it computes with comes as its arguments: buffers, and scalars
that are no constants. Buffers that begin inside of others are passed as their
address alone, so that rows of one buffer are alike:

    call @mesh.kernel.1(%row) : (memref<64xf32, strided<[1], offset: 128>>) -> ()

becomes a call on a `memref<64xf32>`, to which the row is cast (`pointers.py` adds the offset).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence

from shard_dialect.codegen.kernels.isolate import isolate
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.function import set_boundary
from shard_dialect.ir.walk import body, operations

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
        key = (what, *(value.type for value in values))
        if key not in self._written:
            function = self.open()
            block = body(function)
            own = [block.add_argument(value.type, function.location) for value in values]
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
        for old, new in zip(op.results, call.results, strict=True):
            old.replace_all_uses_with(new)
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
    given = [v if v.type == type_ else build.cast(CAST, v, type_) for v, type_ in pairs]
    return build.call(name, given, results)


def _inputs(function: ir.Operation) -> list[ir.Type]:
    """The types of the kernel's arguments, once buffers begin at their address if they can."""
    for argument in body(function).arguments:
        _drop_offset(argument)
    return [argument.type for argument in body(function).arguments]


def _drop_offset(argument: ir.Value) -> None:
    """Let a buffer that is only loaded from and stored to begin at its address."""
    type_ = argument.type
    if not isinstance(type_, ir.MemRefType) or "offset" not in str(type_):
        return
    strides, _ = type_.get_strides_and_offset()
    users = {use.owner.operation.name for use in argument.uses}
    if not users <= {"memref.load", "memref.store"}:
        return
    whole = ir.MemRefType.get(type_.shape, type_.element_type, None, type_.memory_space)
    layout = ir.StridedLayoutAttr.get(0, strides)
    if whole.get_strides_and_offset()[0] == strides:
        argument.set_type(whole)
    else:
        argument.set_type(
            ir.MemRefType.get(type_.shape, type_.element_type, layout, type_.memory_space)
        )


def is_kernel(op: ir.Operation) -> bool:
    """Whether the function is a kernel."""
    return KERNEL in op.attributes


def terminator(function: ir.Operation) -> ir.Operation:
    """The op that ends a function of one block."""
    return operations(body(function))[-1]
