"""Write a run of nests as calls of kernels, one for each outermost loop.

    linalg.generic ... ins(%x) outs(%t)           call @mesh.kernel.0(%x, %y)
    linalg.generic ... ins(%t) outs(%y)     ->    call @mesh.kernel.1(%y, %z)
    linalg.generic ... ins(%y) outs(%z)

What decides how a run is written is its text, and what its buffers share. So a run that is like an
earlier one, as in each layer of a model, calls the same kernels: its loops are neither planned nor
written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.codegen.kernels import Kernels
from shard_dialect.codegen.kernels.isolate import isolate
from shard_dialect.codegen.kernels.kernels import terminator
from shard_dialect.codegen.loops.buffers import Buffers, drop_unread
from shard_dialect.codegen.loops.disjoint_buffers import disjoint
from shard_dialect.codegen.loops.fuse import plan
from shard_dialect.codegen.loops.nest import Nest, Reader
from shard_dialect.codegen.loops.shared_memory import Memory, Shared
from shard_dialect.codegen.loops.write_loops import Writer
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import body, operations


@dataclass(frozen=True)
class Steps:
    """What a run becomes. Its values, by number, are first those that it uses, then new buffers."""

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
            else:  # only stores to what is not read
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
                allocated.append(build.allocate(type_).results[0])
                values.append(allocated[-1])
        for name, numbers in steps.calls:
            self._kernels.call(name, [values[number] for number in numbers])
        for value in allocated:
            build.create("memref.dealloc", [], [value])


def _bytes(type_: ir.MemRefType) -> int:
    """At most so many."""
    return prod(type_.shape) * 8


def _on_stack(type_: ir.MemRefType, function: ir.Operation) -> ir.Value:
    with ir.InsertionPoint.at_block_begin(body(function)), function.location:
        segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
        return build.create("memref.alloca", [type_], [], segments).results[0]


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
