"""Give the runtime functions of the lowered form bodies that call native MPI.

    func.func private @mesh_all_reduce_0(%from: memref<8xf32>, %to: memref<8xf32>) {
      MPI_Allreduce(%from, %to, 8, f32, sum, group)
    }

MPI cannot reduce half precision, and its maximum of floats does not propagate NaN as MLIR's does.
For these, the devices exchange the elements and reduce them by themselves. A split collective uses
MPI's nonblocking call if there is one; otherwise all of it runs at its start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import name_of, set_form
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import COLLECTIVE, PHASE, RANK
from shard_dialect.ir.mesh.notation import write_axes
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.shard.local_collectives import LocalStep, read_local
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllToAll,
    Grid,
    Permute,
    ReduceScatter,
    Reduction,
    UpdateHalo,
)
from shard_dialect.model.collectives import NOBODY
from shard_dialect.model.point_to_point import TAG, Receive, Send
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Reduce,
    Scatter,
    Shift,
    flat_index,
)
from shard_dialect.passes.lower.mpi.mpi_buffers import clear, combine_rows, copy, free, new_buffer
from shard_dialect.passes.lower.mpi.mpi_code import BIND, FAILED, Mpi, address, bits, number, when
from shard_dialect.planner.halos import halo_messages

_MOST = 2**31 - 1
"""The largest number of elements that MPI's functions can count."""


def give_bodies(module: ir.Operation) -> None:
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
                rank = mpi.handle("rank")
                index = build.create("arith.index_cast", [ir.IndexType.get()], [rank])
                build.create("func.return", [], [index.results[0]])
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
                f"@{name_of(op)} is there already, which native MPI code is to have: lower all "
                "functions of a module at once, and call none of them so",
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
    site = _Site(mpi, step, grid, *buffers[:2], *([address(buffers[2])] if phase else []))
    if max(site.count, prod(site.target.type.shape)) > _MOST:
        raise ShardError(f"{step.kind} of {site.source.type}: MPI counts {_MOST} elements at most")
    if not phase or (site.begins and phase == "start"):
        _WRITE[type(step)](site)
    elif site.begins:
        mpi.call("MPI_Wait", site.request, mpi.status())
    elif phase == "start":
        _WRITE[type(step)](_Site(mpi, step, grid, *buffers[:2]))


@dataclass(frozen=True)
class _Site:
    """A step, in a group of `size` devices, from one contiguous buffer to another."""

    mpi: Mpi
    step: LocalStep
    grid: Grid
    source: ir.Value
    target: ir.Value
    request: ir.Value | None = None
    """The address of MPI's request between start and done."""

    @property
    def size(self) -> int:
        return self.grid.axes_size(self.step.axes)

    @property
    def positions(self) -> list[int]:
        """The position in its group of each device, by rank."""
        return [self.grid.index_along(rank, self.step.axes) for rank in range(self.grid.size)]

    @property
    def element(self) -> ir.Type:
        return self.source.type.element_type

    @property
    def count(self) -> int:
        """The number of elements that this device sends."""
        return prod(self.source.type.shape)

    @property
    def root(self) -> int:
        assert isinstance(self.step, Broadcast | Gather | Reduce | Scatter), "it has a root"
        return flat_index(self.step.root, self.grid.sizes_along(self.step.axes))

    @property
    def begins(self) -> bool:
        """Whether MPI has one nonblocking call for the step."""
        match self.step:
            case UpdateHalo() | Send() | Receive():
                return False
            case AllReduce(reduction=kind) | Reduce(reduction=kind) | ReduceScatter(reduction=kind):
                return _is_known(kind, self.element)
        return True

    def type(self) -> ir.Value:
        """MPI's type of elements that are only moved: an integer of their size."""
        return self.mpi.named("type", _MOVED[itemsize(self.element)])

    def group(self) -> ir.Value:
        grid = ir.FlatSymbolRefAttr.get(self.grid.name)
        return self.mpi.handle("group", grid=grid, mesh_axis=write_axes(self.step.axes))

    def call(self, name: str, *arguments: ir.Value | int) -> None:
        """Call one of MPI's collectives in the group, or start it."""
        group = self.group()
        if self.request is None:
            self.mpi.call(f"MPI_{name}", *arguments, group)
        else:
            self.mpi.call(f"MPI_I{name.lower()}", *arguments, group, self.request)

    def send_receive(
        self, sent: ir.Value, received: ir.Value, count: int, to: Callable[[int], int]
    ) -> None:
        """Send `count` elements to the member `to(position)`, and receive as many."""
        origins = {to(position): position for position in range(self.size)}
        dest = self.mpi.member([to(position) for position in self.positions])
        source = self.mpi.member([origins.get(position, NOBODY) for position in self.positions])
        type_ = self.type()
        arguments = (sent, count, type_, dest, 0, received, count, type_, source, 0, self.group())
        if self.request is None:
            self.mpi.call("MPI_Sendrecv", *arguments, self.mpi.status())
        else:
            self.mpi.call("MPI_Isendrecv", *arguments, self.request)

    def is_root(self) -> ir.Value:
        return build.compare("eq", self.mpi.of_rank(self.positions), number(self.root))


def _all_gather(site: _Site) -> None:
    _gather_packed(site, site.source, site.target)


def _gather_packed(site: _Site, source: ir.Value, target: ir.Value) -> None:
    count, type_ = prod(source.type.shape), site.type()
    site.call("Allgather", address(source), count, type_, address(target), count, type_)


def _all_to_all(site: _Site) -> None:
    _exchange_packed(site, site.source, site.target)


def _exchange_packed(site: _Site, source: ir.Value, target: ir.Value) -> None:
    count, type_ = prod(source.type.shape) // site.size, site.type()
    site.call("Alltoall", address(source), count, type_, address(target), count, type_)


def _all_reduce(site: _Site) -> None:
    assert isinstance(site.step, AllReduce), "the table says so"
    kind = site.step.reduction
    if _is_known(kind, site.element):
        _reduce_in_mpi(site, "Allreduce", kind)
    elif site.count % site.size == 0:  # each device reduces its share
        packed, shard = (
            new_buffer(site.count, site.source),
            new_buffer(_shard_count(site), site.source),
        )
        _exchange_packed(site, site.source, packed)
        combine_rows(packed, site.size, shard, kind)
        _gather_packed(site, shard, site.target)
        free(packed)
        free(shard)
    else:
        packed = new_buffer(site.count * site.size, site.source)
        _gather_packed(site, site.source, packed)
        combine_rows(packed, site.size, site.target, kind)
        free(packed)


def _shard_count(site: _Site) -> int:
    return site.count // site.size


def _reduce_scatter(site: _Site) -> None:
    assert isinstance(site.step, ReduceScatter), "the table says so"
    kind = site.step.reduction
    if _is_known(kind, site.element):
        _reduce_in_mpi(site, "Reduce_scatter_block", kind)
        return
    packed = new_buffer(site.count, site.source)
    _exchange_packed(site, site.source, packed)
    combine_rows(packed, site.size, site.target, kind)
    free(packed)


def _reduce(site: _Site) -> None:
    assert isinstance(site.step, Reduce), "the table says so"
    kind = site.step.reduction
    clear(site.target)
    if _is_known(kind, site.element):
        _reduce_in_mpi(site, "Reduce", kind, site.root)
        return
    packed = new_buffer(site.count * site.size, site.source)
    type_ = site.type()
    sent = (address(site.source), site.count, type_)
    site.call("Gather", *sent, address(packed), site.count, type_, site.root)
    with when(site.is_root()):
        combine_rows(packed, site.size, site.target, kind)
    free(packed)


def _reduce_in_mpi(site: _Site, name: str, kind: Reduction, *root: int) -> None:
    element = str(site.element)
    type_ = site.mpi.named("type", _REDUCED.get(element, element))
    operation = site.mpi.named("op", kind)
    count = prod(site.target.type.shape)
    site.call(name, address(site.source), address(site.target), count, type_, operation, *root)


def _broadcast(site: _Site) -> None:
    with when(site.is_root()):
        copy(site.source, site.target)
    site.call("Bcast", address(site.target), site.count, site.type(), site.root)


def _gather(site: _Site) -> None:
    clear(site.target)
    sent = (address(site.source), site.count, site.type())
    site.call("Gather", *sent, address(site.target), site.count, sent[2], site.root)


def _scatter(site: _Site) -> None:
    count, type_ = _shard_count(site), site.type()
    received = (address(site.source), count, type_)
    site.call("Scatter", *received, address(site.target), count, type_, site.root)


def _permute(site: _Site) -> None:
    assert isinstance(site.step, Permute), "the table says so"
    permutation = site.step.permutation
    if NOBODY in permutation:
        clear(site.target)
    buffers = address(site.source), address(site.target)
    site.send_receive(*buffers, site.count, lambda position: permutation[position])


def _shift(site: _Site) -> None:
    step = site.step
    assert isinstance(step, Shift), "the table says so"
    sizes = site.grid.sizes_along(step.axes)

    def to(position: int) -> int:
        partner = step.partners(position, sizes)[0]
        return NOBODY if partner is None else partner

    clear(site.target)
    site.send_receive(address(site.source), address(site.target), site.count, to)


def _send(site: _Site) -> None:
    """Send a copy that lives until it is received: the next send from here waits for that."""
    step = site.step
    assert isinstance(step, Send), "the table says so"
    mpi, sizes = site.mpi, site.grid.sizes_along(step.axes)
    kept_copy = mpi.kept(ir.MemRefType.get(site.source.type.shape, site.element))
    request = address(mpi.kept(ir.MemRefType.get([1], bits(64))))
    none = ir.DenseElementsAttr.get_splat(
        ir.RankedTensorType.get([1], bits(32)), ir.IntegerAttr.get(bits(32), 0)
    )
    was_sent = mpi.kept(ir.MemRefType.get([1], bits(32)), none)
    first = build.scalar(ir.IntegerAttr.get(ir.IndexType.get(), 0)).results[0]
    sent = build.create("memref.load", [bits(32)], [was_sent, first]).results[0]
    with when(build.compare("ne", sent, number(0))):
        mpi.call("MPI_Wait", request, mpi.status())
    build.create("memref.store", [], [number(1), was_sent, first])
    copy(site.source, kept_copy)
    copy(site.source, site.target)
    to = flat_index(step.destination, sizes)
    what = (address(kept_copy), site.count, site.type())
    mpi.call("MPI_Isend", *what, to, TAG, site.group(), request)


def _receive(site: _Site) -> None:
    step = site.step
    assert isinstance(step, Receive), "the table says so"
    mpi, origin = site.mpi, step.source
    if origin is None:
        source = build.create("arith.trunci", [bits(32)], [mpi.handle("anyone")]).results[0]
    else:
        source = number(flat_index(origin, site.grid.sizes_along(step.axes)))
    what = (address(site.target), site.count, site.type())
    mpi.call("MPI_Recv", *what, source, TAG, site.group(), mpi.status())


def _update_halo(site: _Site) -> None:
    assert isinstance(site.step, UpdateHalo), "the table says so"
    copy(site.source, site.target)
    size = site.target.type.shape[0]
    row = prod(site.target.type.shape[1:])

    def at(position: int) -> ir.Value:
        return address(site.target, position * row * itemsize(site.element))

    for each in halo_messages(site.step, size):
        to = [position + each.to for position in range(site.size)]
        targets = [position if 0 <= position < site.size else NOBODY for position in to]
        site.send_receive(at(each.sent), at(each.put), each.count * row, targets.__getitem__)


_WRITE: dict[type, Callable[[_Site], None]] = {
    AllGather: _all_gather,
    AllReduce: _all_reduce,
    ReduceScatter: _reduce_scatter,
    AllToAll: _all_to_all,
    Permute: _permute,
    UpdateHalo: _update_halo,
    Broadcast: _broadcast,
    Gather: _gather,
    Reduce: _reduce,
    Scatter: _scatter,
    Shift: _shift,
    Send: _send,
    Receive: _receive,
}
_MOVED = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "complex<f64>"}
"""The type as which MPI moves elements of this size in bytes."""
_REDUCED = {"index": "i64", "i1": "i8"}
"""The type as which MPI reduces elements, where it is another one."""


def _is_known(reduction: Reduction, element: ir.Type) -> bool:
    """Whether MPI reduces such elements as MLIR does."""
    if reduction == "average":
        return False
    if isinstance(element, ir.IntegerType | ir.IndexType):
        return True
    is_wide = str(element) in ("f32", "f64", "complex<f32>", "complex<f64>")
    return is_wide and reduction in ("sum", "product")
