"""Replace the linalg ops of a module by loops in kernels, a run of ops at a time.

A run of nests becomes calls of kernels, one for each outermost loop:

    linalg.generic ... ins(%x) outs(%t)           call @mesh.kernel.0(%x, %y)
    linalg.generic ... ins(%t) outs(%y)     ->    call @mesh.kernel.1(%y, %z)
    linalg.generic ... ins(%y) outs(%z)

The key of a run is its text, and which of its buffers share memory. So a run that is like an
earlier one, as in each layer of a model, calls the same kernels: its loops are neither planned nor
written again.

`outline_loops` makes kernels of the loops and branches that are left in the program's functions:

    scf.for %i = ... {                            call @mesh.kernel.7(%x, %y)
      %v = memref.load %x[%i]             ->
      ...                                         # where @mesh.kernel.7 has the loop

So the functions of the program only call, and LLVM need not optimize them.

`mark_parallel` tells LLVM that iterations of a loop access disjoint memory, which it cannot infer.
`store_padded` widens loads and stores of integers whose width is not a multiple of a byte:

    llvm.store %x : i12    ->    llvm.store (llvm.zext %x : i12 to i16) : i16

LLVM's vectorizer scalarizes accesses of such types. In a loop marked parallel, it wrongly stores
the full vector at each element's address, and past the end of the buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from shard_dialect.backends.cpu.buffers import Buffers, disjoint, drop_unread
from shard_dialect.backends.cpu.fuse import plan
from shard_dialect.backends.cpu.kernels import Kernels, is_kernel, isolate, terminator
from shard_dialect.backends.cpu.nest import Memory, Nest, Reader, Shared
from shard_dialect.backends.cpu.write_loops import INNERMOST, SCALAR, Writer
from shard_dialect.ir.bindings import ir, run_upstream
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.numbered_function import accesses_memory, is_buffer
from shard_dialect.ir.walk import blocks, body, operations, walk


@dataclass(frozen=True)
class Steps:
    """The calls of a run. Its values, by number, are first those that it uses, then new buffers."""

    allocated: tuple[ir.MemRefType, ...]
    calls: tuple[tuple[str, tuple[int, ...]], ...]
    """The names of kernels, and their arguments."""


class Runs:
    """The runs of a module."""

    def __init__(self, kernels: Kernels) -> None:
        self.reader = Reader()
        self._kernels = kernels
        self._known: dict[tuple[str, tuple[Shared, ...]], Steps] = {}

    def write(self, nests: Sequence[Nest], memory: Memory, anchor: ir.Operation) -> list[ir.Value]:
        """Call kernels before `anchor`, in place of the nests.

        Return the buffers that only the nests needed.
        """
        run = self._kernels.open()
        end = terminator(run)
        for nest in nests:
            nest.op.move_before(end)
        used = isolate(run)
        shared = memory.shared(used, anchor.block)
        key = str(run.get_asm(use_local_scope=True, assume_verified=True)), tuple(shared)
        if key not in self._known:
            self._known[key] = self._steps(run, shared)
        run.erase()
        steps = self._known[key]
        with ir.InsertionPoint(anchor), anchor.location:
            self._call(steps, used, memory)
        still = {number for _, arguments in steps.calls for number in arguments}
        return [
            value
            for number, value in enumerate(used)
            if number not in still and shared[number].is_local
        ]

    def _steps(self, run: ir.Operation, shared: Sequence[Shared]) -> Steps:
        """Write the kernels of a run, which is consumed."""
        arguments = list(body(run).arguments)
        memory = Memory.of_run(arguments, shared)
        read = [self.reader.read(op, memory) for op in operations(body(run))]
        buffers = Buffers([nest for nest in read if nest is not None], memory)
        # Before planning, since nests on buffers of their own fuse further; contracting comes after
        # it, since it depends on the loops that nests share.
        buffers.rename()
        loops = plan(buffers.nests)
        buffers.contract(loops)
        functions = Writer(buffers.nests, self._kernels.open).write(loops)
        values = [*arguments, *buffers.allocated]
        drop_unread(value for value in values if memory.is_local(value))
        written = []
        for function in functions:
            if len(operations(body(function))) > 1:
                written.append(function)
            else:  # only stores to buffers that are not read
                function.erase()
        captured = [isolate(function) for function in written]
        counts = Counter(value for each in captured for value in each)
        once = {value for value in buffers.allocated if counts[value] == 1}
        calls = []
        for function, each in zip(written, captured, strict=True):
            outside = _allocate_inside(function, each, once)
            name = self._kernels.add(function, outside, disjoint(memory, function, outside))
            calls.append((name, outside))
        used = {value for _, outside in calls for value in outside}
        allocated = [value for value in buffers.allocated if value in used]
        numbers = {value: number for number, value in enumerate([*arguments, *allocated])}
        return Steps(
            tuple(value.type for value in allocated),
            tuple((name, tuple(numbers[value] for value in outside)) for name, outside in calls),
        )

    def _call(self, steps: Steps, used: Sequence[ir.Value], memory: Memory) -> None:
        values, allocated = list(used), []
        for type_ in steps.allocated:
            if memory.fits_on_stack(_bytes(type_)):
                values.append(_on_stack(type_, memory.function))
            else:
                allocated.append(build.allocate(type_))
                values.append(allocated[-1])
        for name, numbers in steps.calls:
            self._kernels.call(name, [values[number] for number in numbers])
        for value in allocated:
            build.create("memref.dealloc", [], [value])


def _bytes(type_: ir.MemRefType) -> int:
    """An upper bound on the bytes: no element is larger."""
    return prod(type_.shape) * 8


def _on_stack(type_: ir.MemRefType, function: ir.Operation) -> ir.Value:
    with ir.InsertionPoint.at_block_begin(body(function)), function.location:
        return build.allocate(type_, on_stack=True)


def _allocate_inside(
    function: ir.Operation, captured: Sequence[ir.Value], once: Collection[ir.Value]
) -> list[ir.Value]:
    """Let the kernel have those buffers that it alone uses; return the values that are left."""
    block = body(function)
    memory = Memory()
    outside: list[ir.Value] = []
    for value in captured:
        argument = block.arguments[len(outside)]
        if value in once and memory.fits_on_stack(_bytes(value.type)):
            argument.replace_all_uses_with(_on_stack(value.type, function))
            block.erase_argument(len(outside))
        else:
            outside.append(value)
    return outside


_GENERALIZE = "builtin.module(func.func(linalg-generalize-named-ops))"
_REST = "builtin.module(func.func(convert-linalg-to-loops))"


def to_loops(module: ir.Operation, kernels: Kernels) -> None:
    """Replace all linalg ops by calls of kernels.

    Those on buffers of dynamic size become loops in their place, by upstream's pass.
    """
    _copies_to_linalg(module)
    run_upstream(_GENERALIZE, module)
    runs = Runs(kernels)
    for function in functions_of(module):
        if is_kernel(function):
            continue
        memory = Memory.of(function)
        for block in list(blocks(function)):
            _write_nests(block, memory, runs)
    run_upstream(_REST, module)


def _copies_to_linalg(module: ir.Operation) -> None:
    """Turn copies into linalg ops, so that they fuse with the writer or readers of the copy."""
    copies = [op for op in walk(module) if op.name == "memref.copy"]
    build.copies_to_loops(
        op for op in copies if all(each.type.has_static_shape for each in op.operands)
    )


def _write_nests(block: ir.Block, memory: Memory, runs: Runs) -> None:
    """Write each longest run of nests that only ops without memory effects separate."""
    nests: list[Nest] = []
    freed: list[ir.Operation] = []
    unused: list[ir.Value] = []
    for op in operations(block):
        nest = runs.reader.read(op, memory)
        if nest is not None and 0 in nest.sizes:
            op.erase()
        elif nest is not None:
            nests.append(nest)
        elif op.name == "memref.dealloc" and nests:
            # A dealloc between two nests is moved behind the run, so that it does not end it.
            freed.append(op)
        elif accesses_memory(op):
            unused += runs.write(nests, memory, op) if nests else []
            for each in freed:
                each.move_before(op)
            nests, freed = [], []
    for value in unused:
        _erase_buffer(value, memory)


def _erase_buffer(value: ir.Value, memory: Memory) -> None:
    memory.forget(value)
    for use in list(value.uses):
        use.owner.operation.erase()
    value.owner.operation.erase()


_OUTLINED = ("scf.for", "scf.forall", "scf.if", "scf.parallel", "scf.while")
_LARGEST = 500
"""The number of ops up to which a loop is one kernel; of a larger one, the loops in it are."""


def outline_loops(module: ir.Operation, kernels: Kernels, libraries: Collection[str]) -> None:
    """Outline the loops and branches that call no functions but kernels and `libraries`."""
    short = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in ("minsize", "optsize")])
    for function in functions_of(module):
        if not is_kernel(function):
            memory = Memory.of(function)
            for op in _outlined(function, kernels, libraries):
                kernels.outline(op, partial(disjoint, memory))
            function.attributes["llvm.passthrough"] = short


def _outlined(
    op: ir.Operation, kernels: Kernels, libraries: Collection[str]
) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region:
            for inner in operations(block):
                if not len(inner.regions):
                    continue
                if _is_kernel_alone(inner, kernels, libraries):
                    yield inner
                else:
                    yield from _outlined(inner, kernels, libraries)


def _is_kernel_alone(op: ir.Operation, kernels: Kernels, libraries: Collection[str]) -> bool:
    if op.name not in _OUTLINED or any(map(is_buffer, op.results)):
        return False
    ops = walk(op)
    if len(ops) > _LARGEST:
        return False
    called = [each.attributes["callee"].value for each in ops if each.name == "func.call"]
    allocated = {each.results[0] for each in ops if each.name == "memref.alloc"}
    freed = {each.operands[0] for each in ops if each.name == "memref.dealloc"}
    # What a kernel gets does not say where its memory was allocated.
    return freed <= allocated and all(name in libraries or name in kernels for name in called)


def mark_parallel(module: ir.Operation) -> None:
    """In the LLVM dialect, mark the loads and stores of each loop that has `INNERMOST`."""
    for op in walk(module):
        if op.name != "llvm.br" or INNERMOST not in op.attributes:
            continue
        if op.attributes[INNERMOST] == ir.Attribute.parse(SCALAR):
            continue
        del op.attributes[INNERMOST]
        group, annotation = ir.ArrayAttr(ir.Attribute.parse(_MARKS))
        for inner in op.block.operations:
            each = inner.operation
            if each.name in ("llvm.load", "llvm.store"):
                each.attributes["access_groups"] = ir.ArrayAttr.get([group])
        op.attributes["loop_annotation"] = annotation


_GROUP = "#llvm.access_group<id = distinct[0]<>>"
_MARKS = f"[{_GROUP}, #llvm.loop_annotation<parallelAccesses = {_GROUP}>]"
"""Parsed together, so that both have one group; each parse makes a new group."""


def store_padded(module: ir.Operation) -> None:
    """In the LLVM dialect, access each integer in memory with 8, 16, 32, ... bits."""
    for op in walk(module):
        if op.name == "llvm.load" and (wide := _padded(op.results[0].type)):
            with ir.InsertionPoint(op), op.location:
                loaded = build.create_value("llvm.load", wide, op.operands)
                value = build.create_value("llvm.trunc", op.results[0].type, [loaded])
            replace_op(op, value)
        elif op.name == "llvm.store" and (wide := _padded(op.operands[0].type)):
            with ir.InsertionPoint(op), op.location:
                op.operands[0] = build.create_value("llvm.zext", wide, [op.operands[0]])


def _padded(type_: ir.Type) -> ir.Type | None:
    """The integer type of the bits that this type takes in memory; `None` if it is the same."""
    if not isinstance(type_, ir.IntegerType):
        return None
    width = max(8, 1 << (type_.width - 1).bit_length())
    return None if width == type_.width else build.integer(width)
