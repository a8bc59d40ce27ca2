"""Read a program in the lowered form into plain Python: a buffer that an op writes is its result.

    memref.alloc %a                               the name of memory, which costs nothing
    call @mesh_all_gather_0(%x, %a)               Op("shard.all_gather", (%x,), (%a,), step=...)
    %v = memref.collapse_shape %a                 another name of %a
    linalg.matmul ins(%v, %w) outs(%b)            Op("linalg.matmul", (%a, %w, %b), (%b,))

A view is another name of its buffer's memory. An op with regions has the buffers that are written
in them as further results, so that later readers depend on it. A function returns the buffers that
it is given for its results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from shard_dialect.analysis.costs.local_ops import (
    Block,
    BoundaryInfo,
    Function,
    LocalProgram,
    Op,
    Value,
)
from shard_dialect.analysis.costs.op_flops import flops_of, tensor_info
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, located, location_text
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, COLLECTIVE, LOCAL_TYPES, PHASE, RANK, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import LOOPS, VIEWS
from shard_dialect.ir.reading.constants import trips_of
from shard_dialect.ir.shard.local_collectives import kind_of, read_local
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Grid
from shard_dialect.ops.operations import Flops, TensorInfo

_MEMORY = ("memref.alloc", "memref.alloca", "memref.get_global")
_VIEWS = (
    *VIEWS,
    "memref.extract_strided_metadata",
    "memref.memory_space_cast",
    "memref.reshape",
    "memref.view",
)
_NOTHING = ("memref.dealloc", "memref.assume_alignment")


LocalTypes = Mapping[int, tuple[str, str]]
"""By the `id` of a collective's op, the types that its operand and result had in the local form:
its buffers are packed."""


def read_lowered(module: ir.Operation, entry: str) -> tuple[LocalProgram, LocalTypes]:
    """Read the function `entry` of a module in the lowered form, and those that it calls.

    Raises a located `ShardError` for buffers of unknown size, and functions that call themselves.
    """
    handles = {name_of(op): op for op in functions_of(module)}
    declared = {
        name_of(op): op.attributes[COLLECTIVE]
        for op in operations(body(module))
        if op.name == "func.func" and COLLECTIVE in op.attributes
    }
    ranks = {
        name_of(op)
        for op in operations(body(module))
        if op.name == "func.func" and RANK in op.attributes
    }
    grids = grids_of(module)
    reader = _Module(handles, declared, ranks, grids, Shardings.of(module))
    return LocalProgram(reader.function(entry), grids), reader.local_types


class _Module:
    def __init__(
        self,
        handles: Mapping[str, ir.Operation],
        declared: Mapping[str, ir.DictAttr],
        ranks: Collection[str],
        grids: Mapping[str, Grid],
        shardings: Shardings,
    ) -> None:
        self.handles, self.declared, self.ranks = handles, declared, ranks
        self.grids, self.shardings = grids, shardings
        self.local_types: dict[int, tuple[str, str]] = {}
        self._functions: dict[str, Function | None] = {}

    def function(self, name: str) -> Function:
        handle = self.handles[name]
        if name in self._functions:
            known = self._functions[name]
            if known is None:
                raise error_at(handle.location, f"function {as_symbol(name)} calls itself")
            return known
        self._functions[name] = None
        self._functions[name] = found = _Function(self, handle).read()
        return found


class _Function:
    """One function; `_values` has the memory behind each buffer."""

    def __init__(self, module: _Module, handle: ir.Operation) -> None:
        self._module = module
        self._handle = handle
        self._names = ir.AsmState(handle)
        self._values: dict[ir.Value, Value] = {}
        self._views: dict[ir.Value, tuple[Value, ...]] = {}
        """The numbers that say where a view begins, which devices may have different ones of."""
        self._count = 0

    def read(self) -> Function:
        entries = boundary(self._handle, "arg_attrs")
        block = self._handle.regions[0].blocks[0]
        place = location_text(self._handle.location)
        arguments: list[Value] = []
        given: list[BoundaryInfo] = []
        outs: list[Value] = []
        results: list[BoundaryInfo] = []
        for argument, entry in zip(block.arguments, entries, strict=True):
            value = self._new(argument)
            is_result = RESULT in entry
            (outs if is_result else arguments).append(value)
            attribute = entry.get(RESULT if is_result else ARGUMENT)
            (results if is_result else given).append(self._info(value, attribute, place))
        blocks = [
            Block((), tuple(self._ops(operations(each)))) for each in self._handle.regions[0].blocks
        ]
        first, last = blocks[0], blocks[-1]
        if len(blocks) > 1:
            raise error_at(self._handle.location, "a report on several blocks needs the local form")
        made = tuple(Op("memref.alloc", (), (value,), place, Flops()) for value in outs)
        end = replace(last.ops[-1], operands=(*last.ops[-1].operands, *outs))
        ops = (*made, *first.ops[:-1], end)
        returned = [
            BoundaryInfo(value.tensor, None, None, False, place) for value in last.ops[-1].operands
        ]
        return Function(
            name_of(self._handle),
            (Block(tuple(arguments), ops),),
            tuple(given),
            (*returned, *results),
        )

    def _info(
        self, value: Value, attribute: ir.Attribute | None, place: str | None
    ) -> BoundaryInfo:
        whole = attribute.value if attribute is not None else None
        if not isinstance(whole, ir.RankedTensorType):
            return BoundaryInfo(value.tensor, None, None, False, place)
        sharding = self._module.shardings.of_type(whole)
        return BoundaryInfo(value.tensor, tuple(whole.shape), sharding, False, place)

    def _new(self, value: ir.Value) -> Value:
        made = Value(self._count, value.get_name(self._names), self._tensor(value))
        self._count += 1
        self._values[value] = made
        return made

    def _tensor(self, value: ir.Value) -> TensorInfo | None:
        # Of a part of a buffer the size may be known only when the program runs.
        is_known = isinstance(value.type, ir.MemRefType) and value.type.has_static_shape
        return tensor_info(value.type) if is_known else None

    def _of(self, value: ir.Value) -> Value:
        """The memory of a value, with the bytes that are read or written of it."""
        memory = self._values.get(value)
        return self._new(value) if memory is None else replace(memory, tensor=self._tensor(value))

    def _ops(self, handles: Sequence[ir.Operation]) -> Iterator[Op]:
        for handle in handles:
            with located(handle):
                op = self._op(handle)
            if op is not None:
                yield op

    def _op(self, handle: ir.Operation) -> Op | None:
        name, place = handle.name, location_text(handle.location)
        if name in _NOTHING:
            return None
        if name in _VIEWS:
            source, *offsets = handle.operands
            self._values[handle.results[0]] = self._of(source)
            self._views[handle.results[0]] = (
                *self._views.get(source, ()),
                *(self._of(each) for each in offsets),
            )
            scalars = tuple(self._new(each) for each in list(handle.results)[1:])
            return Op(name, (), scalars, place, Flops()) if scalars else None
        if name == "func.call":
            return self._call(handle)
        operands = tuple(self._of(each) for each in handle.operands)
        where = tuple(at for each in handle.operands for at in self._views.get(each, ()))
        if name.startswith("linalg."):
            return self._computed(handle, operands, operands[-_inits(handle) :], where)
        if name == "memref.copy":
            is_part = handle.operands[1] in self._views
            read = (*(operands if is_part else operands[:1]), *where)
            return Op(name, read, operands[1:], place, Flops())
        if name == "memref.store":  # the other elements stay
            stored = _element(operands[1])
            read = (operands[0], stored, *operands[2:], *where)
            return Op(name, read, (stored,), place, Flops())
        first = self._count
        blocks = tuple(self._block(each) for region in handle.regions for each in region.blocks)
        results = tuple(self._new(each) for each in handle.results)
        if name in _MEMORY:
            self._refuse_unknown(handle.results[0])
            return Op("memref.alloc", (), results, place, Flops())
        if name == "memref.load":
            read = (_element(operands[0]), *operands[1:], *where)
            return Op(name, read, results, place, Flops())
        if not any(block.ops for block in blocks):
            return self._computed(handle, operands, results, where)
        return self._with_writes(handle, operands, results, blocks, first)

    def _computed(
        self,
        handle: ir.Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        where: tuple[Value, ...],
    ) -> Op:
        flops = flops_of(
            handle, [each.tensor for each in operands], [each.tensor for each in results]
        )
        return Op(handle.name, operands + where, results, location_text(handle.location), flops)

    def _refuse_unknown(self, value: ir.Value) -> None:
        if not value.type.has_static_shape:
            raise ShardError(
                f"{value.get_name(self._names)} is a {value.type}, whose size is not known: give "
                'sizes, as in shard-opt --specialize="shapes={7x5}" F | shard-report -'
            )

    def _block(self, block: ir.Block) -> Block:
        arguments = tuple(self._new(each) for each in block.arguments)
        return Block(arguments, tuple(self._ops(operations(block))))

    def _with_writes(
        self,
        handle: ir.Operation,
        operands: tuple[Value, ...],
        results: tuple[Value, ...],
        blocks: tuple[Block, ...],
        first: int,
    ) -> Op:
        """A loop or a branch, which also gives what it writes of the memory outside.

        Values from the number `first` on are defined inside.
        """
        written = {
            value.number: value
            for each in blocks
            for op in each.ops
            for value in op.results
            if value.number < first
        }
        extra = tuple(written.values())
        ended = tuple(_ending_with(each, extra) for each in blocks)
        trips = trips_of(handle) if handle.name in LOOPS else 1
        place = location_text(handle.location)
        return Op(
            handle.name,
            operands,
            (*results, *extra),
            place,
            Flops(),
            blocks=ended,
            trips=trips,
        )

    def _call(self, handle: ir.Operation) -> Op:
        name, place = handle.attributes["callee"].value, location_text(handle.location)
        operands = tuple(self._of(each) for each in handle.operands)
        if name in self._module.declared:
            what = self._module.declared[name]
            op = self._collective(what, operands, place)
            if LOCAL_TYPES in what:
                source, target = (str(tensor_info(each.value)) for each in what[LOCAL_TYPES])
                self._module.local_types[id(op)] = source, target
            return op
        if name in self._module.ranks:
            results = tuple(self._new(each) for each in handle.results)
            return Op("shard.process_linear_index", operands, results, place, Flops())
        if name not in self._module.handles:
            raise ShardError(f"nothing is known of function {as_symbol(name)}: it has no body")
        callee = self._module.function(name)
        is_out = [RESULT in each for each in boundary(self._module.handles[name], "arg_attrs")]
        given = tuple(each for each, out in zip(operands, is_out, strict=True) if not out)
        outs = tuple(each for each, out in zip(operands, is_out, strict=True) if out)
        results = tuple(self._new(each) for each in handle.results)
        return Op("func.call", given, (*results, *outs), place, Flops(), callee=callee)

    def _collective(self, what: ir.DictAttr, operands: tuple[Value, ...], place: str | None) -> Op:
        name = kind_of(what)
        read = read_local(name, what)
        if read is None or len(operands) < 2:
            raise ShardError(f"'{name}' is no collective that a report counts")
        source, target, *handles = operands
        grid, step = self._module.grids[read[0]], read[1]
        phase = what[PHASE].value if PHASE in what else ""
        if phase == "start":
            return Op("mesh.start", (source,), (handles[0],), place, Flops(), step=step, grid=grid)
        if phase == "done":
            return Op("mesh.done", (handles[0],), (target,), place, Flops(), step=step, grid=grid)
        return Op(name, (source,), (target,), place, Flops(), step=step, grid=grid)


def _ending_with(block: Block, extra: tuple[Value, ...]) -> Block:
    """The block, which passes further values on."""
    if not block.ops:
        return block
    *ops, end = block.ops
    return replace(block, ops=(*ops, replace(end, operands=end.operands + extra)))


def _element(memory: Value) -> Value:
    """One element of it."""
    tensor = memory.tensor
    return memory if tensor is None else replace(memory, tensor=replace(tensor, shape=()))


def _inits(handle: ir.Operation) -> int:
    """How many of the last operands a `linalg` op writes into."""
    key = "operandSegmentSizes"
    if key in handle.attributes:
        return int(list(handle.attributes[key])[-1])
    return len(handle.operands) // 2 if handle.name == "linalg.reduce" else 1
