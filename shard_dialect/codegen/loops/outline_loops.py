"""Make kernels of the loops and branches that nests and products left in the program's functions.

    scf.for %i = ... {                            call @mesh.kernel.7(%x, %y)
      %v = memref.load %x[%i]             ->
      ...                                         # where @mesh.kernel.7 has the loop

So the functions of the program only call, and LLVM need not optimize them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from shard_dialect.codegen.kernels import Kernels, is_kernel
from shard_dialect.codegen.loops.disjoint_buffers import disjoint
from shard_dialect.codegen.loops.shared_memory import Memory
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.buffer_views import is_buffer
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.walk import operations, walk

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
