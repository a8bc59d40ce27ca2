"""Choose the buffers of a run of loop nests: one per value, as small as the loops allow, or none.

    t = f(x); y = g(t); t = h(x); z = k(t)    ->    t' = f(x); y = g(t'); t = h(x); z = k(t)

because `t` holds another value later, so the first two nests could not fuse with the last two. And

    for i: for j: t[i, j] = f(x[i, j])              for i: for j: t[j] = f(x[i, j])
           for j: y[i, j] = t[i, j] / r[i]    ->           for j: y[i, j] = t[j] / r[i]

if nothing else reads `t`.

`disjoint` finds the buffers of a kernel that share no memory with its other ones. They are marked
`noalias` for LLVM, which cannot see within a kernel where buffers come from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from shard_dialect.backends.cpu.fuse import Loop
from shard_dialect.backends.cpu.nest import Access, Memory, Nest
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import is_used
from shard_dialect.ir.numbered_function import is_buffer
from shard_dialect.ir.walk import body


class Buffers:
    """The nests of a run, while their buffers change."""

    def __init__(self, nests: Sequence[Nest], memory: Memory) -> None:
        self.nests = list(nests)
        self.allocated: list[ir.Value] = []
        """The buffers that were made here."""
        self._memory = memory

    def rename(self) -> None:
        """Give each intermediate value of a buffer a buffer of its own."""
        for value, uses_found in self._uses_of().items():
            resharded: list[list[tuple[int, int]]] = [[]]
            for number, access_number in uses_found:
                if self._overwrites(number, access_number):
                    resharded.append([])
                resharded[-1].append((number, access_number))
            # The first group may read the value from before the run, and the last is read after it:
            # only the groups in between are the run's own.
            for each in resharded[1:-1]:
                self._replace(each, self._allocated(value.type), ())

    def contract(self, loops: Sequence[Loop]) -> None:
        """Drop the dimensions that all accesses of a buffer index by the same loop."""
        for value, uses_found in self._uses_of().items():
            if not self._memory.is_local(value):
                continue
            dropped = _dropped(self.nests, uses_found, loops)
            if dropped:
                type_ = value.type
                shape = [n for dim, n in enumerate(type_.shape) if dim not in dropped]
                smaller = ir.MemRefType.get(shape, type_.element_type)
                self._replace(uses_found, self._allocated(smaller), dropped)

    def _uses_of(self) -> dict[ir.Value, list[tuple[int, int]]]:
        """For each buffer that is written, and is accessed under one name only: its accesses.

        Each is a nest and an operand number. A nest's outputs come after its inputs, so that an
        in-place read reads the value before.
        """
        by_root: dict[int, list[tuple[int, int]]] = {}
        values: dict[int, set[ir.Value]] = {}
        for number, nest in enumerate(self.nests):
            for access_number, access in enumerate(nest.accesses):
                by_root.setdefault(access.root, []).append((number, access_number))
                values.setdefault(access.root, set()).add(access.value)
        loaded = {access.root for nest in self.nests for access in nest.loaded}
        written = {root for nest in self.nests for root in nest.written} - loaded
        return {
            value: by_root[root]
            for root in by_root
            if root in written and len(values[root]) == 1
            for value in values[root]
            if self._memory.root(value) == self._memory.number(value)
        }

    def _overwrites(self, number: int, access_number: int) -> bool:
        """Whether the write sets all elements, to values that do not depend on the old ones."""
        nest = self.nests[number]
        is_output = len(nest.inputs) <= access_number < len(nest.inputs) + len(nest.outputs)
        return is_output and not is_used(body(nest.op).arguments[access_number])

    def _allocated(self, type_: ir.MemRefType) -> ir.Value:
        anchor = self.nests[0].op
        with ir.InsertionPoint(anchor), anchor.location:
            self.allocated.append(build.allocate(type_))
        return self.allocated[-1]

    def _replace(
        self, uses_found: Sequence[tuple[int, int]], value: ir.Value, dropped: Sequence[int]
    ) -> None:
        root = self._memory.root(value)
        for number, access_number in uses_found:
            nest = self.nests[number]
            accesses = list(nest.accesses)
            accesses[access_number] = _redirected(accesses[access_number], value, root, dropped)
            nest.op.operands[access_number] = value
            count, end = len(nest.inputs), len(nest.inputs) + len(nest.outputs)
            self.nests[number] = replace(
                nest, inputs=tuple(accesses[:count]), outputs=tuple(accesses[count:end])
            )


def drop_unread(values: Iterable[ir.Value]) -> None:
    """Once the loops are written, drop the stores to local buffers that are never loaded."""
    for value in values:
        users = [use.owner.operation for use in value.uses]
        if all(user.name == "memref.store" and user.operands[1] == value for user in users):
            for user in users:
                user.erase()


def _redirected(access: Access, value: ir.Value, root: int, dropped: Sequence[int]) -> Access:
    kept = [dim for dim in range(len(access.loops)) if dim not in dropped]
    loops = tuple(access.loops[dim] for dim in kept)
    map_ = access.map.get_submap(kept) if access.map and dropped else access.map
    return Access(root, root, value, loops, map_)


def _dropped(
    nests: Sequence[Nest], uses_found: Sequence[tuple[int, int]], loops: Sequence[Loop]
) -> list[int]:
    """The dimensions of a buffer that the loops around all of its accesses run over.

    Loops inside of a loop that the buffer has no dimension for do not count: each iteration of that
    loop reads what the one before has left in all of the buffer.

        for k: for j: m[j] = max(m[j], x[k, j])      needs all of m
    """
    numbers = {number for number, _ in uses_found}
    dropped: list[int] = []
    while True:
        around = [loop for loop in loops if numbers <= loop.numbers]
        if not around:
            return dropped
        loops = around[0].inside
        number, access_number = uses_found[0]
        own = next(loop for member, loop in around[0].members if member.number == number)
        indexed = nests[number].accesses[access_number].loops
        if own is None or own not in indexed or nests[number].tiles is not None:
            return dropped
        dropped.append(indexed.index(own))


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
