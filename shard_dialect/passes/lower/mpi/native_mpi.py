"""Give the runtime functions of the lowered form bodies that call native MPI.

    func.func private @mesh_all_reduce_0(%from: memref<8xf32>, %to: memref<8xf32>) {
      MPI_Allreduce(%from, %to, 8, f32, sum, group)
    }

MPI cannot reduce half precision, and its maximum of floats does not propagate NaN as MLIR's does.
For these, the devices exchange the elements and reduce them by themselves. A split collective uses
MPI's nonblocking call if there is one; otherwise all of it runs at its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from shard_dialect.collectives import NOBODY
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.collectives.messages import TAG
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import name_of, set_form
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import COLLECTIVE, PHASE, RANK
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Grid
from shard_dialect.passes.lower.mpi.mpi_code import (
    BIND,
    FAILED,
    Mpi,
    address,
    as_value,
    clear,
    combine_rows,
    copy,
    free,
    new_buffer,
    number,
    when,
)

_MOST = 2**31 - 1
"""The largest number of elements that MPI's functions can count."""


def call_mpi(module: ir.Operation) -> None:
    """Give the declared runtime functions bodies that call MPI."""
    grids = grids_of(module)
    mpi = Mpi(module)
    declared = [op for op in operations(body(module)) if _is_runtime_function(op)]
    if declared:
        _refuse_reserved_names(module)
    for op in declared:
        del op.attributes["llvm.emit_c_interface"]
        types = op.attributes["function_type"].value.inputs
        block = op.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
        with located(op), ir.InsertionPoint(block), op.location:
            if RANK in op.attributes:
                build.create("func.return", [], [build.to_index(mpi.handle("rank"))])
            else:
                _write(mpi, op.attributes[COLLECTIVE], grids, list(block.arguments))
                build.create("func.return", [], [])
        set_form(op, "lowered")
    if declared:
        mpi.write_bind()


def _refuse_reserved_names(module: ir.Operation) -> None:
    for op in operations(body(module)):
        if "sym_name" in op.attributes and name_of(op) in (BIND, FAILED):
            raise error_at(
                op.location,
                f"{as_symbol(name_of(op))} is there already, which native MPI code is to have: "
                "lower all functions of a module at once, and call none of them so",
            )


def _is_runtime_function(op: ir.Operation) -> bool:
    is_declared = op.name == "func.func" and len(op.regions[0].blocks) == 0
    return is_declared and (COLLECTIVE in op.attributes or RANK in op.attributes)


def _write(
    mpi: Mpi, what: ir.DictAttr, grids: dict[str, Grid], buffers: Sequence[ir.Value]
) -> None:
    read = read_local(what["name"].value, what)
    assert read is not None, "the verifier has read it"
    grid, step = grids[read[0]], read[1]
    phase = what[PHASE].value if PHASE in what else ""
    record = record_of(step)
    assert record.mpi is not None, f"a {step.kind} is no step of compiled programs"
    site = Site(
        mpi,
        step,
        grid,
        source=buffers[0],
        target=buffers[1],
        request=address(buffers[2]) if phase else None,
        computed=buffers[2] if step.is_computed else None,
    )
    if max(site.count, prod(site.target.type.shape)) > _MOST:
        raise ShardError(f"{step.kind} of {site.source.type}: MPI counts {_MOST} elements at most")
    begins = record.is_one_mpi_call and (not step.reduces or site.reduces_in_mpi)
    if not phase or (begins and phase == "start"):
        record.mpi(site)
    elif begins:
        mpi.call("MPI_Wait", site.request, mpi.status())
    elif phase == "start":
        record.mpi(replace(site, request=None))


@dataclass(frozen=True)
class Site:
    """A step, in a group of `size` devices, from one contiguous buffer to another.

    Its methods write the calls that collectives are made of (`collectives`).
    """

    mpi: Mpi
    step: Any
    grid: Grid
    source: ir.Value
    target: ir.Value
    request: ir.Value | None = None
    """The address of MPI's request between start and done."""
    computed: ir.Value | None = None
    """The number in the group, which the program computes, of the member that the step names."""

    @property
    def size(self) -> int:
        """The number of devices in a group."""
        return self.grid.axes_size(self.step.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The same, along each of the group's axes."""
        return self.grid.sizes_along(self.step.axes)

    @property
    def member(self) -> ir.Value | int | None:
        """The number in the group of the member that the step names; `None` for any."""
        if self.computed is None:
            return self.step.member(self.sizes)
        return build.cast("arith.index_cast", self.computed, build.integer(32))

    @property
    def _positions(self) -> list[int]:
        """The position in its group of each device, by rank."""
        return [self.grid.index_along(rank, self.step.axes) for rank in range(self.grid.size)]

    @property
    def _element(self) -> ir.Type:
        return self.source.type.element_type

    @property
    def count(self) -> int:
        """The number of elements that this device sends."""
        return prod(self.source.type.shape)

    @property
    def rows(self) -> int:
        """The size of the first dimension."""
        return int(self.target.type.shape[0])

    @property
    def row(self) -> int:
        """The number of elements that have one position along the first dimension."""
        return prod(self.target.type.shape[1:])

    @property
    def reduces_in_mpi(self) -> bool:
        """Whether MPI reduces such elements as MLIR does."""
        reduction = self.step.reduction
        if reduction == "average":
            return False
        if isinstance(self._element, ir.IntegerType | ir.IndexType):
            return True
        is_wide = str(self._element) in ("f32", "f64", "complex<f32>", "complex<f64>")
        return is_wide and reduction in ("sum", "product")

    def _type(self) -> ir.Value:
        """MPI's type of elements that are only moved: an integer of their size."""
        return self.mpi.named("type", _MOVED[itemsize(self._element)])

    def _group(self) -> ir.Value:
        grid = ir.FlatSymbolRefAttr.get(self.grid.name)
        return self.mpi.handle("group", grid=grid, mesh_axis=write_axes(self.step.axes))

    def _call(self, name: str, *arguments: ir.Value | int) -> None:
        """Call one of MPI's collectives in the group, or start it."""
        group = self._group()
        if self.request is None:
            self.mpi.call(f"MPI_{name}", *arguments, group)
        else:
            self.mpi.call(f"MPI_I{name.lower()}", *arguments, group, self.request)

    def move(
        self, name: str, source: ir.Value, target: ir.Value, count: int, *root: ir.Value | int
    ) -> None:
        """Call a collective that moves blocks of `count` elements."""
        type_ = self._type()
        sent, received = address(source), address(target)
        self._call(name, sent, count, type_, received, count, type_, *root)

    def reduce(self, name: str, *root: ir.Value | int) -> None:
        """Call a collective that reduces."""
        element = str(self._element)
        type_ = self.mpi.named("type", _REDUCED.get(element, element))
        operation = self.mpi.named("op", self.step.reduction)
        count = prod(self.target.type.shape)
        self._call(name, address(self.source), address(self.target), count, type_, operation, *root)

    def all_gather(self, source: ir.Value, target: ir.Value) -> None:
        """Gather the blocks of all devices."""
        self.move("Allgather", source, target, prod(source.type.shape))

    def all_to_all(self, source: ir.Value, target: ir.Value) -> None:
        """Send each device its block."""
        self.move("Alltoall", source, target, prod(source.type.shape) // self.size)

    def broadcast(self, root: ir.Value | int) -> None:
        """Send the root's target to all others."""
        self._call("Bcast", address(self.target), self.count, self._type(), root)

    def at(self, row: int) -> ir.Value:
        """The address of a row of the target."""
        return address(self.target, row * self.row * itemsize(self._element))

    def exchange(
        self, sent: ir.Value, received: ir.Value, count: int, members: Sequence[int]
    ) -> None:
        """Send `count` elements to the member that `members` has for this one; receive as many."""
        origins = {to: position for position, to in enumerate(members)}
        dest = self.mpi.member([members[position] for position in self._positions])
        source = self.mpi.member([origins.get(position, NOBODY) for position in self._positions])
        type_ = self._type()
        arguments = (sent, count, type_, dest, 0, received, count, type_, source, 0, self._group())
        if self.request is None:
            self.mpi.call("MPI_Sendrecv", *arguments, self.mpi.status())
        else:
            self.mpi.call("MPI_Isendrecv", *arguments, self.request)

    def permute(self, members: Sequence[int]) -> None:
        """Send the source to the member that `members` has for this one."""
        self.exchange(address(self.source), address(self.target), self.count, members)

    def send(self, to: ir.Value | int) -> None:
        """Send a copy that lives until it is received: the next send from here waits for that."""
        mpi = self.mpi
        kept_copy = mpi.kept(ir.MemRefType.get(self.source.type.shape, self._element))
        request = address(mpi.kept(ir.MemRefType.get([1], build.integer(64))))
        none = ir.DenseElementsAttr.get_splat(
            ir.RankedTensorType.get([1], build.integer(32)),
            ir.IntegerAttr.get(build.integer(32), 0),
        )
        was_sent = mpi.kept(ir.MemRefType.get([1], build.integer(32)), none)
        first = build.index(0)
        sent = build.create_value("memref.load", build.integer(32), [was_sent, first])
        with when(build.compare("ne", sent, number(0))):
            mpi.call("MPI_Wait", request, mpi.status())
        build.create("memref.store", [], [number(1), was_sent, first])
        copy(self.source, kept_copy)
        self.copy()
        what = (address(kept_copy), self.count, self._type())
        mpi.call("MPI_Isend", *what, to, TAG, self._group(), request)

    def receive(self, origin: ir.Value | int | None) -> None:
        """Receive the target from a member, or from any."""
        if origin is None:
            origin = build.cast("arith.trunci", self.mpi.handle("anyone"), build.integer(32))
        what = (address(self.target), self.count, self._type())
        self.mpi.call("MPI_Recv", *what, origin, TAG, self._group(), self.mpi.status())

    def copy(self) -> None:
        """Copy the source to the target."""
        copy(self.source, self.target)

    def clear(self) -> None:
        """Fill the target with zeros."""
        clear(self.target)

    @contextmanager
    def buffers(self, *counts: int) -> Iterator[list[ir.Value]]:
        """Buffers of so many elements, until the block ends."""
        buffers = [new_buffer(count, self.source) for count in counts]
        yield buffers
        for each in buffers:
            free(each)

    def combine(self, packed: ir.Value, target: ir.Value) -> None:
        """Reduce the blocks of all devices, which are in a buffer."""
        combine_rows(packed, self.size, target, self.step.reduction)

    def on(self, root: ir.Value | int) -> AbstractContextManager[None]:
        """A context whose ops run on the root alone."""
        return when(build.compare("eq", self.mpi.of_rank(self._positions), as_value(root)))


_MOVED = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "complex<f64>"}
"""The type as which MPI moves elements of this size in bytes."""
_REDUCED = {"index": "i64", "i1": "i8"}
"""The type as which MPI reduces elements, where it is another one."""
