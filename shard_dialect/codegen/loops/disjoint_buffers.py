"""Which buffers of a kernel are in memory that it accesses by no other one.

LLVM is told so (`noalias`): within a kernel it cannot see where buffers come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shard_dialect.codegen.loops.shared_memory import Memory
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.buffer_views import is_buffer
from shard_dialect.ir.walk import body

_NARROWEST = 32


def disjoint(memory: Memory, function: ir.Operation, captured: Sequence[ir.Value]) -> set[ir.Value]:
    """Those of the `captured` buffers, of which the kernel has its arguments."""
    arguments = list(body(function).arguments)
    if any(is_buffer(each) and _is_narrow(each.type.element_type) for each in arguments):
        return set()
    roots = {value: memory.root(value) for value in captured if is_buffer(value)}
    if memory.is_unknown(roots.values()):
        return set()
    counts = Counter(roots.values())
    pairs = zip(captured, arguments, strict=True)
    written = {roots[value] for value, own in pairs if is_buffer(value) and _is_written(own)}
    return {value for value, root in roots.items() if counts[root] == 1 or root not in written}


def _is_narrow(element: ir.Type) -> bool:
    """Whether elements are bits, or integers that LLVM may make of bits.

    Where it knows that they are in memory of their own, it makes vectors of bits in unrolled loops,
    and without AVX-512 ends with "Cannot select".
    """
    return isinstance(element, ir.IntegerType) and element.width < _NARROWEST


def _is_written(buffer: ir.Value) -> bool:
    return any(use.owner.operation.name != "memref.load" for use in buffer.uses)
