"""Replace collectives of the local form by calls of runtime functions, each declared once.

    func.func private @mesh_all_gather_0(memref<4x4xf32>, memref<8x4xf32>) attributes {
      llvm.emit_c_interface,
      mesh.collective = {gather_axis = 0 : index, grid = @g, grid_axes = array<i16: 0>,
                         mesh.local_types = [tensor<4x4xf32>, tensor<4x8xf32>],
                         name = "shard.all_gather"}}
    call @mesh_all_gather_0(%given, %filled)

The start and the done of a split collective take a third buffer, in which the runtime keeps its
state in between. `@mesh_rank_0() -> index` returns this device's rank.
"""

from __future__ import annotations

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import COLLECTIVE, PHASE, RANK
from shard_dialect.ir.shard.local_collectives import LocalStep, described, one_by_one, read_local
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import AllReduce, AllSlice, Mask, ReduceScatter, Reduction
from shard_dialect.model.rooted_collectives import Reduce
from shard_dialect.passes.lower.convert_element_types import convert_element_types
from shard_dialect.passes.lower.pack_collectives import pack_collective

_REMEMBERED = 2
"""The number of 64-bit integers that a runtime may keep between start and done."""


def pack_collectives(module: ir.Operation) -> None:
    """Move collectives to the first dimension; raise for those that cannot be lowered."""
    grids = grids_of(module)
    for function in functions_of(module):
        for op in _collectives(function):
            with located(op):
                for each in one_by_one(op):
                    grid, step = _read(each)
                    types = [each.operands[0].type, each.results[0].type]
                    if not isinstance(step, AllSlice | Mask):  # these do not communicate
                        convert_element_types(each, step, grids[grid], function)
                    pack_collective(each, step, grids[grid], function, types)


def call_collectives(module: ir.Operation) -> None:
    """Replace collectives by calls, right before bufferization, which must see what they read.

    The passes before it would fold a buffer that a call fills into the call that reads it.
    """
    calls = _Calls(module)
    for function in functions_of(module):
        for op in walk(function):
            if op.name == _RANK_OP:
                calls.ask_rank(op, function)
        for op in _collectives(function):
            with located(op):
                calls.replace(op, function)


_RANK_OP = "shard.process_linear_index"


def _collectives(function: ir.Operation) -> list[ir.Operation]:
    ops = [op for op in walk(function) if op.name.startswith(("shard.", "mesh."))]
    return [op for op in ops if op.name not in ("mesh.done", _RANK_OP)]


def _read(op: ir.Operation) -> tuple[str, LocalStep]:
    attributes = {key: op.attributes[key] for key in op.attributes}
    read = read_local(op.name, attributes)
    if read is None:
        raise ShardError(f"'{op.name}' op cannot be lowered yet")
    for each in (op.operands[0].type, op.results[0].type):
        if not isinstance(each, ir.RankedTensorType):
            raise ShardError(
                f"'{op.name}' op on a {each} cannot be lowered: expected a ranked tensor, whose "
                "buffer --lower makes"
            )
    type_, result_element = op.operands[0].type, op.results[0].type.element_type
    if not type_.has_static_shape:
        raise ShardError(f"'{op.name}' op on a tensor of unknown size cannot be lowered yet")
    if isinstance(read[1], AllReduce | Mask | Reduce | ReduceScatter):
        _check_reduction(op.name, read[1].reduction, result_element)
    elif type_.element_type != result_element:
        raise ShardError(f"'{op.name}' op gives elements of another type")
    return read


def _check_reduction(name: str, reduction: Reduction, element: ir.Type) -> None:
    is_float = isinstance(element, ir.FloatType)
    is_complex = isinstance(element, ir.ComplexType)
    if reduction == "average":
        is_supported = is_float
    elif reduction in reductions.BITWISE:
        is_supported = not is_float and not is_complex
    elif reduction in ("max", "min"):
        is_supported = str(element) != "i1" and not is_complex
    else:
        is_supported = str(element) != "i1"
    if not is_supported:
        raise ShardError(f"'{name}' op cannot reduce elements of type {element} by {reduction}")


class _Calls:
    """The runtime functions declared so far, by their collective and types."""

    def __init__(self, module: ir.Operation) -> None:
        self.declared: dict[tuple[ir.Attribute, ir.Type], str] = {}
        self.names = {name_of(op) for op in operations(body(module)) if "sym_name" in op.attributes}

    def ask_rank(self, op: ir.Operation, function: ir.Operation) -> None:
        """Replace `op` by a call for this device's rank."""
        type_ = ir.FunctionType.get([], [ir.IndexType.get()])
        name = self._declare("rank", (RANK, op.attributes["grid"]), type_, function)
        with ir.InsertionPoint(op), op.location:
            asked = build.call(name, [], [ir.IndexType.get()])
        op.results[0].replace_all_uses_with(asked.results[0])
        op.erase()

    def replace(self, op: ir.Operation, function: ir.Operation) -> None:
        """Replace `op` of `function` by a call; its callee is declared before the function."""
        result_type = op.results[0].type
        target = ir.MemRefType.get(result_type.shape, result_type.element_type)
        is_started = op.name == "mesh.start"
        with ir.InsertionPoint(op), op.location:
            value = op.operands[0]
            if is_started:  # the code may overwrite the operand before the collective is done
                value = build.allocate_copy(value).results[0]
            buffers = [build.buffer_of(value), build.allocate(target).results[0]]
            if is_started:
                i64 = ir.IntegerType.get_signless(64)
                remembered = ir.MemRefType.get([_REMEMBERED], i64)
                buffers.append(build.allocate(remembered).results[0])
            self._call(op, "start" if is_started else "", buffers, function)
        if not is_started:
            _read_buffer(op, buffers[1])
            return
        what = described(op)
        for use in list(op.results[0].uses):
            done = use.owner.operation
            with ir.InsertionPoint(done), done.location:
                self._call(done, "done", buffers, function, what)
            _read_buffer(done, buffers[1])
        op.erase()

    def _call(
        self,
        op: ir.Operation,
        phase: str,
        buffers: list[ir.Value],
        function: ir.Operation,
        what: ir.DictAttr | None = None,
    ) -> None:
        """Call the runtime function for `op`, or for a phase of it."""
        attributes = {each.name: each.attr for each in what or described(op)}
        kind = attributes["name"].value.partition(".")[2]
        if phase:
            attributes[PHASE] = ir.StringAttr.get(phase)
            kind = f"{kind}_{phase}"
        type_ = ir.FunctionType.get([each.type for each in buffers], [])
        name = self._declare(kind, (COLLECTIVE, ir.DictAttr.get(attributes)), type_, function)
        build.call(name, buffers)

    def _declare(
        self,
        kind: str,
        what: tuple[str, ir.Attribute],
        type_: ir.FunctionType,
        function: ir.Operation,
    ) -> str:
        key = (what[1], type_)
        if (
            kind == "send" or key not in self.declared
        ):  # native MPI keeps a copy of the message per send
            name = self._fresh_name(kind)
            self.declared[key] = name
            attributes = {"llvm.emit_c_interface": ir.UnitAttr.get(), what[0]: what[1]}
            with ir.InsertionPoint(function):
                build.declare(name, type_, attributes)
        return self.declared[key]

    def _fresh_name(self, kind: str) -> str:
        number = 0
        while (name := f"mesh_{kind}_{number}") in self.names:
            number += 1
        self.names.add(name)
        return name


def _read_buffer(op: ir.Operation, filled: ir.Value) -> None:
    """Replace `op` by the tensor in the buffer."""
    with ir.InsertionPoint(op), op.location:
        op.results[0].replace_all_uses_with(build.tensor_of(filled))
    op.erase()
