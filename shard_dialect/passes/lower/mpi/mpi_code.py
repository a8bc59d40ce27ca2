"""Create calls of MPI functions on buffers, independent of the MPI implementation's handles.

    func.func @mesh_mpi_bind(%0: i64 {mesh.handle = {kind = "rank"}},
                             %1: i64 {mesh.handle = {kind = "group", grid = @g,
                                                     grid_axes = array<i16: 0>}}, ...)

is called once, before anything else, with the numbers and handles that its arguments describe. Then

    %code = call @MPI_Allgather(%from, %count, %type, %to, %count, %type, %group)
    scf.if %failed { call @mesh_mpi_failed(%code) }

All handles are passed as 64 bits. For an implementation whose handles have 32, these are the lower
half of the register. The functions at the end copy, clear and reduce buffers without MPI.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.loops_and_masks import generic
from shard_dialect.ir.mesh.attributes import FORM, HANDLE
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Reduction

BIND = "mesh_mpi_bind"
FAILED = "mesh_mpi_failed"
"""The function called with the error code of an MPI function; it must not return."""
FUNCTIONS = (
    *(f"MPI_{name}" for name in (
        "Allgather Iallgather Allreduce Iallreduce Reduce_scatter_block Ireduce_scatter_block "
        "Alltoall Ialltoall Sendrecv Isendrecv Bcast Ibcast Gather Igather Scatter Iscatter "
        "Reduce Ireduce Isend Recv Wait"
    ).split()),
    FAILED,
)  # fmt: skip
"""All functions of MPI that the code of a module may call."""
_STATUS = 8
"""The number of 64-bit integers that hold any implementation's `MPI_Status`."""


def functions_called(module: ir.Operation) -> list[str]:
    """The functions of MPI that a module declares, and `FAILED`."""
    declared = [op for op in operations(body(module)) if op.name == "func.func"]
    names = [op.attributes["sym_name"].value for op in declared]
    return [name for name in names if name in FUNCTIONS]


class Mpi:
    """The parts of MPI that the code of a module uses: handles, functions, and tables by rank."""

    def __init__(self, module: ir.Operation) -> None:
        self.module = module
        self._handles: list[ir.Attribute] = []
        self._tables = 0
        self._kept = 0
        self._declared: set[str] = set()

    def handle(self, kind: str, **more: ir.Attribute) -> ir.Value:
        """A number that the host passes to `mesh_mpi_bind`."""
        described = ir.DictAttr.get({"kind": ir.StringAttr.get(kind), **more})
        type_ = ir.MemRefType.get([], build.integer(64))
        if described not in self._handles:
            self._handles.append(described)
            nothing = {"initial_value": ir.UnitAttr.get()}
            self._global(_slot(len(self._handles) - 1), type_, nothing)
        slot = _get(_slot(self._handles.index(described)), type_)
        return build.create_value("memref.load", build.integer(64), [slot])

    def named(self, kind: str, name: str) -> ir.Value:
        """The handle of one of MPI's types (`i32`, `f64`) or operations (`sum`)."""
        return self.handle(kind, name=ir.StringAttr.get(name))

    def of_rank(self, numbers: Sequence[int]) -> ir.Value:
        """Of `numbers`, one per rank, this device's, as an `i32`."""
        if len(set(numbers)) == 1:
            return number(numbers[0])
        type_ = ir.MemRefType.get([len(numbers)], build.integer(32))
        name = f"mesh_by_rank_{self._tables}"
        self._tables += 1
        listed = build.dense(numbers, build.integer(32))
        self._global(name, type_, {"initial_value": listed, "constant": ir.UnitAttr.get()})
        rank = self.handle("rank")
        index = build.to_index(rank)
        return build.create_value("memref.load", build.integer(32), [_get(name, type_), index])

    def member(self, peers: Sequence[int]) -> ir.Value:
        """Of `peers`, one per rank, this device's peer in the group; none where that is -1."""
        peer = self.of_rank(peers)
        if min(peers) >= 0:
            return peer
        no_one = build.cast("arith.trunci", self.handle("no_one"), build.integer(32))
        is_there = build.compare("sge", peer, number(0))
        return build.select(is_there, peer, no_one)

    def kept(self, type_: ir.MemRefType, initial: ir.Attribute | None = None) -> ir.Value:
        """A global buffer of the module, which keeps its contents from run to run."""
        name = f"mesh_kept_{self._kept}"
        self._kept += 1
        self._global(name, type_, {"initial_value": initial or ir.UnitAttr.get()})
        return _get(name, type_)

    def call(self, name: str, *arguments: ir.Value | int) -> None:
        """Call a function of MPI (`int` arguments are 32-bit numbers), and check its error code."""
        values = list(map(as_value, arguments))
        self._declare(name, [value.type for value in values], [build.integer(32)])
        self._declare(FAILED, [build.integer(32)], [])
        code = build.call(name, values, [build.integer(32)]).results[0]
        with when(build.compare("ne", code, number(0))):
            build.call(FAILED, [code])

    def status(self) -> ir.Value:
        """The address of memory for an `MPI_Status`, which nothing reads."""
        type_ = ir.MemRefType.get([_STATUS], build.integer(64))
        return address(build.allocate(type_, on_stack=True))

    def write_bind(self) -> None:
        """Define the function that receives the requested handles."""
        arguments = [build.integer(64)] * len(self._handles)
        attributes = {
            "sym_name": ir.StringAttr.get(BIND),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(arguments, [])),
            "arg_attrs": ir.ArrayAttr.get(
                [ir.DictAttr.get({HANDLE: each}) for each in self._handles]
            ),
            "llvm.emit_c_interface": ir.UnitAttr.get(),
            FORM: ir.StringAttr.get("lowered"),
        }
        with ir.Location.unknown():
            with ir.InsertionPoint(body(self.module)):
                bind_function = build.create("func.func", [], [], attributes, regions=1)
            locations = [ir.Location.unknown()] * len(arguments)
            block = bind_function.regions[0].blocks.append(*arguments, arg_locs=locations)
            with ir.InsertionPoint(block):
                for number, value in enumerate(block.arguments):
                    slot = _get(_slot(number), ir.MemRefType.get([], build.integer(64)))
                    build.create("memref.store", [], [value, slot])
                build.create("func.return", [], [])

    def _global(self, name: str, type_: ir.MemRefType, more: dict[str, ir.Attribute]) -> None:
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(type_),
            **more,
        }
        with ir.InsertionPoint.at_block_begin(body(self.module)), ir.Location.unknown():
            build.create("memref.global", [], [], attributes)

    def _declare(self, name: str, inputs: Sequence[ir.Type], results: Sequence[ir.Type]) -> None:
        if name in self._declared:
            return
        self._declared.add(name)
        type_ = ir.FunctionType.get(list(inputs), list(results))
        with ir.InsertionPoint.at_block_begin(body(self.module)), ir.Location.unknown():
            build.declare(name, type_)


def number(value: int, width: int = 32) -> ir.Value:
    """An integer constant."""
    return build.number(value, build.integer(width))


def as_value(argument: ir.Value | int) -> ir.Value:
    """A 32-bit number as a constant; a value itself."""
    return number(argument) if isinstance(argument, int) else argument


def address(buffer: ir.Value, offset: int = 0) -> ir.Value:
    """The address of a contiguous buffer's first element, plus `offset` bytes, as an `i64`."""
    begin = build.address(buffer)
    if not offset:
        return begin
    return build.arith("addi", begin, number(offset, 64))


@contextmanager
def when(condition: ir.Value) -> Iterator[None]:
    """Insert the ops of the `with` body in an `scf.if`."""
    op = build.create("scf.if", [], [condition], regions=2)
    with ir.InsertionPoint(op.regions[0].blocks.append()):
        yield
        build.create("scf.yield", [], [])


def _slot(number: int) -> str:
    return f"mesh_mpi_handle_{number}"


def _get(name: str, type_: ir.MemRefType) -> ir.Value:
    symbol = {"name": ir.FlatSymbolRefAttr.get(name)}
    return build.create_value("memref.get_global", type_, [], symbol)


def flat(buffer: ir.Value, slices: int | None = None) -> ir.Value:
    """View the elements of a contiguous buffer as one dimension, or as `slices` equal rows."""
    count = prod(buffer.type.shape)
    sizes = [count] if slices is None else [slices, count // slices]
    strides = [1] if slices is None else [sizes[1], 1]
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0, 0, 0]),
        "static_offsets": ir.DenseI64ArrayAttr.get([0]),
        "static_sizes": ir.DenseI64ArrayAttr.get(sizes),
        "static_strides": ir.DenseI64ArrayAttr.get(strides),
    }
    type_ = ir.MemRefType.get(sizes, buffer.type.element_type)
    return build.create_value("memref.reinterpret_cast", type_, [buffer], attributes)


def new_buffer(count: int, like: ir.Value) -> ir.Value:
    """Allocate `count` elements of the element type of `like`."""
    return build.allocate(ir.MemRefType.get([count], like.type.element_type))


def free(buffer: ir.Value) -> None:
    """Deallocate the buffer."""
    build.create("memref.dealloc", [], [buffer])


def copy(buffer: ir.Value, into: ir.Value) -> None:
    """Copy all elements of a buffer to another of the same type."""
    build.create("memref.copy", [], [buffer, into])


def clear(buffer: ir.Value) -> None:
    """Set all elements to zero."""
    build.fill(reductions.identity_value("sum", buffer.type.element_type), buffer)


def combine_rows(buffer: ir.Value, count: int, into: ir.Value, reduction: Reduction) -> None:
    """Reduce the `count` equal rows of a buffer to one."""
    slices, slice_ = flat(buffer, count), flat(into)
    element = slice_.type.element_type
    kind: Reduction = "sum" if reduction == "average" else reduction
    build.fill(reductions.identity_value(kind, element), slice_)
    maps = ["affine_map<(d0, d1) -> (d0, d1)>", "affine_map<(d0, d1) -> (d1)>"]
    kinds = ["reduction", "parallel"]
    _loops(slices, slice_, maps, kinds, lambda a, b: reductions.combine(kind, a, b))
    if reduction == "average":
        divide(into, count)


def divide(buffer: ir.Value, by: int) -> None:
    """Divide all elements, of a float type, by a number."""
    elements = flat(buffer)
    element = elements.type.element_type
    number = build.number(float(by), element)
    maps = ["affine_map<(d0) -> (d0)>"] * 2

    def quotient(a: ir.Value, _: ir.Value) -> ir.Value:
        return build.arith("divf", a, number)

    _loops(elements, elements, maps, ["parallel"], quotient)


def _loops(
    source: ir.Value,
    into: ir.Value,
    maps: Sequence[str],
    kinds: Sequence[str],
    compute: Callable[[ir.Value, ir.Value], ir.Value],
) -> None:
    generic([source], into, [ir.Attribute.parse(each) for each in maps], kinds, compute)
