"""Read a program in the local form, once, into plain Python (`costs.local_ops`)."""

from __future__ import annotations

from collections.abc import Mapping

from shard_dialect.analysis.costs.local_ops import (
    Block,
    BoundaryInfo,
    Function,
    LocalProgram,
    Op,
    Value,
)
from shard_dialect.analysis.costs.op_flops import flops_of, tensor_info
from shard_dialect.analysis.reasons.marks import shown_in
from shard_dialect.collectives import LocalStep
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir import numbered_function as numbered
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import splat_value
from shard_dialect.ir.diagnostics import error_at, located, location_text
from shard_dialect.ir.function import ALIAS, DONOR, boundary, form_of, functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, RESULT
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import LOOPS, read_functions
from shard_dialect.ir.reading.constants import constant_integer, trips_of
from shard_dialect.ir.shard.local_collectives import one_by_one, read_local
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid
from shard_dialect.model.reached import reached
from shard_dialect.ops.operations import TensorInfo


def read_program(module: ir.Operation, entry: str) -> LocalProgram:
    """Read the function `entry` of a module in the local form, and those that it calls.

    In the module, updates of several halos in one op are replaced by one op for each. Raises a
    located `ShardError` for another form, for tensors of unknown size, and for functions that call
    themselves.
    """
    handles = {name_of(op): op for op in functions_of(module)}
    if entry not in handles:
        raise ShardError(f"there is no function {as_symbol(entry)} with a body")
    grids = grids_of(module)
    if grids and form_of(handles[entry]) != "local":
        raise error_at(
            handles[entry].location,
            f"function {as_symbol(entry)} is in the {form_of(handles[entry])} form: expected the "
            "local form, which --spmd gives",
        )
    for op in walk(module):
        one_by_one(op)
    return LocalProgram(_Reader(handles, grids, Shardings.of(module)).function(entry), grids)


class _Reader:
    def __init__(
        self, handles: Mapping[str, ir.Operation], grids: Mapping[str, Grid], shardings: Shardings
    ) -> None:
        self._handles = handles
        self._grids = grids
        self._shardings = shardings
        self._functions: dict[str, Function | None] = {}
        self._tensors: dict[ir.Type, TensorInfo | None] = {}
        self._positions: dict[ir.Value, int] = {}
        """Values that only the position of the device decides, which branches compare."""

    def function(self, name: str) -> Function:
        handle = self._handles[name]
        if name in self._functions:
            known = self._functions[name]
            if known is None:
                raise error_at(handle.location, f"function {as_symbol(name)} calls itself")
            return known
        self._functions[name] = None
        (read,) = read_functions([handle])
        names = ir.AsmState(handle)
        values = [self._value(number, each, names) for number, each in enumerate(read.values)]
        type_ = handle.attributes["function_type"].value
        function = Function(
            name,
            self._blocks(read.blocks, values),
            self._boundary(handle, "arg_attrs", ARGUMENT, type_.inputs),
            self._boundary(handle, "res_attrs", RESULT, type_.results),
        )
        self._functions[name] = function
        return function

    def _value(self, number: int, value: numbered.Value, names: ir.AsmState) -> Value:
        name = value.handle.get_name(names)
        if value.is_tensor and value.shape is None:
            owner = value.handle.owner
            place = owner.owner.location if isinstance(owner, ir.Block) else owner.location
            raise error_at(
                place,
                f"{name} is a {value.kind.type}, whose size is not known: give sizes, as in "
                'shard-opt --specialize="shapes={7x5}" F | shard-report -',
            )
        return Value(number, name, self._tensor(value.kind.type))

    def _tensor(self, type_: ir.Type) -> TensorInfo | None:
        if type_ not in self._tensors:
            is_tensor = isinstance(type_, ir.RankedTensorType)
            self._tensors[type_] = tensor_info(type_) if is_tensor else None
        return self._tensors[type_]

    def _blocks(self, blocks: tuple[numbered.Block, ...], values: list[Value]) -> tuple[Block, ...]:
        return tuple(
            Block(
                tuple(values[each] for each in block.arguments),
                tuple(self._op(op, values) for op in block.ops),
            )
            for block in blocks
        )

    def _op(self, op: numbered.Op, values: list[Value]) -> Op:
        step, grid = self._collective(op)
        captured = dict.fromkeys(value for _, _, value in op.captures)
        operands = tuple(values[each] for each in op.operands)
        results = tuple(values[each] for each in op.results)
        return Op(
            op.name,
            operands,
            results,
            location_text(op.location),
            flops_of(
                op.handle, [each.tensor for each in operands], [each.tensor for each in results]
            ),
            len(results) == 1 and not operands and splat_value(op.handle.results[0]) is not None,
            tuple(values[each] for each in captured),
            self._blocks(op.blocks, values),
            trips_of(op.handle) if op.name in LOOPS else 1,
            self._callee(op),
            step,
            grid,
            self._position(op.handle) if op.name == "scf.if" else None,
            shown_in(op.location),
        )

    def _position(self, branch: ir.Operation) -> tuple[int, int] | None:
        test = branch.operands[0].owner
        if isinstance(test, ir.Block) or test.name != "arith.cmpi":
            return None
        value, other = test.operands
        number, is_equal = constant_integer(other), test.attributes["predicate"].value == 0
        if number is None or not is_equal or not _is_by_position(value):
            return None
        return self._positions.setdefault(value, len(self._positions)), number

    def _collective(self, op: numbered.Op) -> tuple[LocalStep | None, Grid | None]:
        handle = op.handle
        if op.name == "mesh.done":
            handle = handle.operands[0].owner
        if not handle.name.startswith(("shard.", "mesh.")):
            return None, None
        with located(handle):
            read = read_local(handle.name, handle.attributes)
        return (None, None) if read is None else (read[1], self._grids[read[0]])

    def _callee(self, op: numbered.Op) -> Function | None:
        if op.name != "func.call":
            return None
        callee = op.handle.attributes["callee"].value
        return self.function(callee) if callee in self._handles else None

    def _boundary(
        self, handle: ir.Operation, key: str, name: str, types: list[ir.Type]
    ) -> tuple[BoundaryInfo, ...]:
        place = location_text(handle.location)
        infos = []
        for type_, attributes in zip(types, boundary(handle, key), strict=True):
            shape, sharding = None, None
            if name in attributes:
                whole = attributes[name].value
                shape = tuple(whole.shape)
                sharding = self._shardings.of_type(whole)
            alias = attributes.get(ALIAS)
            donor = attributes.get(DONOR)
            is_donor = donor is not None and bool(donor.value)
            infos.append(
                BoundaryInfo(
                    self._tensor(type_),
                    shape,
                    sharding,
                    alias is not None or is_donor,
                    place,
                    None if alias is None else int(alias.value),
                )
            )
        return tuple(infos)


def _is_by_position(value: ir.Value) -> bool:
    """Whether the position of the device alone decides a value: no argument, and no loop."""
    for each in reached([value], lambda each: each.owner.operands):
        if isinstance(each.owner, ir.Block) or list(each.owner.regions):
            return False
    return constant_integer(value) is None
