"""Checks of `mesh` ops that IRDL cannot express: one per op, run by MLIR wherever it verifies.

They see one op and its types, but no grid; `verify` checks the rest against the module's grids.

Collectives that a dictionary describes are checked against the module's grids, and their types:

    "mesh.start"(%x) {collective = {grid = @g, name = "shard.all_reduce", ...}}
    func.func private @mesh_all_reduce_0(memref<4xf32>, memref<4xf32>) attributes {
      mesh.collective = {grid = @g, ...}}

The dictionary has the attributes of an op, which no verifier of MLIR has checked.
"""

from __future__ import annotations

from shard_dialect.collectives import Index, LocalStep, Permute
from shard_dialect.collectives.collective_table import ops_of_mesh, record_of
from shard_dialect.errors import as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.grids import read_grid
from shard_dialect.ir.mesh.attributes import (
    COLLECTIVE,
    LOCAL_TYPES,
    PHASE,
    RANK,
    expect,
    expect_in,
    flag,
    integer,
    ints,
)
from shard_dialect.ir.mesh.grid_queries import GRID_QUERIES, named_axes
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import (
    LOCAL_SPLIT,
    TRANSFER,
    UPDATE_HALO,
    Check,
)
from shard_dialect.ir.mesh.notation import read_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.check_shardings import check_coordinates
from shard_dialect.ir.shard.local_collectives import described, kind_of, read_local
from shard_dialect.model import Grid, Sharding, ShardingError
from shard_dialect.model.sharding import Shape

DIRECTIONS = ("none", "forward", "backward")
"""The directions of a barrier, by Shardy's numbers; 3, both, would block nothing."""


def _cluster(op: ir.Operation) -> None:
    read_grid(op)


def _sub_cluster(op: ir.Operation) -> None:
    offsets, sizes = ints(op.attributes["offsets"]), ints(op.attributes["sizes"])
    if len(offsets) != len(sizes):
        raise ShardingError(f"has {len(offsets)} offsets and {len(sizes)} sizes: expected as many")
    read_grid(op)


def _annotate(op: ir.Operation) -> None:
    flag(op, "required", default=False)
    flag(op, "as_result", default=True)
    _ranked(op)
    for size in list(op.operands)[1:]:
        if str(size.type) != "i64":
            raise ShardingError(f"has a size of type {size.type}: expected i64")


def _ranked(op: ir.Operation) -> None:
    type_ = op.operands[0].type
    if not isinstance(type_, ir.RankedTensorType):
        raise ShardingError(f"is on a {type_}: expected a ranked tensor")


def _group(op: ir.Operation) -> None:
    _ranked(op)
    integer(op.attributes["group_id"])


def _barrier(op: ir.Operation) -> None:
    _ranked(op)
    direction = op.attributes["allowed_direction"].value
    if direction not in DIRECTIONS:
        raise ShardingError(
            f"allows direction '{direction}': expected one of {', '.join(DIRECTIONS)}"
        )


def _grid_query(op: ir.Operation) -> None:
    if "cluster" in op.attributes:
        expect(op, "cluster", ir.FlatSymbolRefAttr, "the name of a grid")
    named_axes(op)


def _collective(op: ir.Operation) -> None:
    if "cluster" in op.attributes:  # of the local form, on plain types
        expect(op, "cluster", ir.FlatSymbolRefAttr, "the name of a grid")
        return
    if all(
        isinstance(each, ir.RankedTensorType) and each.encoding is None
        for each in (op.operands[0].type, op.results[0].type)
    ):
        raise ShardingError(
            "is of the distributed form, where its types have shardings: annotations and "
            "collectives do not mix, and a device's own program has 'shard' collectives and "
            '{mesh.form = "local"}'
        )
    collective = read_collective(op)
    if collective.source.grid != collective.target.grid:
        raise ShardingError(
            f"goes from grid {as_symbol(collective.source.grid)} to "
            f"{as_symbol(collective.target.grid)}"
        )
    source, target = collective.source, collective.target
    if source.halos and op.name not in (UPDATE_HALO, LOCAL_SPLIT):
        raise ShardingError(f"is on a tensor with halos: only '{UPDATE_HALO}' drops them")
    if target.halos and op.name not in (UPDATE_HALO, LOCAL_SPLIT):
        raise ShardingError(f"makes halos: only '{UPDATE_HALO}' and '{LOCAL_SPLIT}' do")
    expected = collective.source
    for step in collective.steps:
        expected = step.after(expected)
    if expected != collective.target:
        raise ShardingError(
            f"gives {expected} from {collective.source}, but its result type says "
            f"{collective.target}"
        )
    _same_global_tensor(op)


def _roll(op: ir.Operation) -> None:
    _ranked(op)
    dim, rank = integer(op.attributes["tensor_axis"]), op.operands[0].type.rank
    integer(op.attributes["by"])
    if not 0 <= dim < rank:
        raise ShardingError(f"rolls dimension {dim} of a tensor of rank {rank}")


def _start(op: ir.Operation) -> None:
    what = expect(op, "collective", ir.DictAttr, "a dictionary")
    read = read_local(kind_of(what), what)
    if read is None or read[1].is_message:
        raise ShardingError(f"starts no collective: {what}")
    for use in op.results[0].uses:
        if use.owner.operation.name != "mesh.done":
            raise ShardingError(
                f"is not done where a '{use.owner.operation.name}' op uses it: take its 'mesh.done'"
            )


def _done(op: ir.Operation) -> None:
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "mesh.start":
        raise ShardingError("waits for what no 'mesh.start' began")


def _same_global_tensor(op: ir.Operation) -> None:
    source, target = op.operands[0].type, op.results[0].type
    if not isinstance(source, ir.RankedTensorType) or not isinstance(target, ir.RankedTensorType):
        raise ShardingError(f"takes and gives ranked tensors, found {source} and {target}")
    if source.shape != target.shape or source.element_type != target.element_type:
        raise ShardingError("has different global tensors as its operand and its result")


def _permute(op: ir.Operation) -> None:
    _same_global_tensor(op)
    along = [name for name in ("mesh_axis", "permutation") if name in op.attributes]
    if len(along) == 1:
        raise ShardingError(
            f"has {along[0]} alone: expected mesh_axis and permutation, or neither; of four "
            "devices permutation = array<i64: 1, 2, 3, 0> sends each shard to the next one"
        )
    same = op.operands[0].type == op.results[0].type
    if "cluster" in op.attributes:  # of the local form; or that of the stage that it goes to
        expect(op, "cluster", ir.FlatSymbolRefAttr, "the name of a grid")
    elif not along and same:
        raise ShardingError("has no mesh_axis, and its operand and result are on the same devices")
    if along:
        read_axes(op.attributes["mesh_axis"])
        members = ints(op.attributes["permutation"])
        Permute.check(members, len(members), may_be_nobody="cluster" in op.attributes)


def _transfer(op: ir.Operation) -> None:
    expect(op, "cluster", ir.FlatSymbolRefAttr, "the name of a grid")
    types = [*(each.type for each in op.operands), op.results[0].type]
    if not all(isinstance(each, ir.RankedTensorType) and each.has_static_shape for each in types):
        texts = ", ".join(map(str, types))
        raise ShardingError(f"takes and gives ranked tensors of known sizes, found {texts}")
    source, *_, result = types
    if len(types) == 3 and [*types[1].shape] != [*result.shape]:
        raise ShardingError(f"puts a tensor into a {types[1]}, and makes a {result}")
    if any(each.element_type != result.element_type for each in types):
        raise ShardingError("has different types of elements in its operands and its result")
    whole, box = (source, result) if len(types) == 2 else (result, source)
    offsets = ints(op.attributes["offsets"])
    if not len(offsets) == whole.rank == box.rank:
        raise ShardingError(f"has {len(offsets)} offsets for a {box} in a {whole}")
    for dim, (offset, size, most) in enumerate(zip(offsets, box.shape, whole.shape, strict=True)):
        if offset < 0 or offset + size > most:
            raise ShardingError(
                f"has {size} elements from {offset} on in dimension {dim}, which has {most}"
            )


def mesh_checks() -> dict[str, Check]:
    """The check of each op."""
    return dict.fromkeys(ops_of_mesh(), _collective) | _CHECKS


_CHECKS: dict[str, Check] = {
    "mesh.cluster": _cluster,
    "mesh.sub_cluster": _sub_cluster,
    "mesh.annotate": _annotate,
    "mesh.reshard": _ranked,
    "mesh.roll": _roll,
    "mesh.sharding_group": _group,
    "mesh.propagation_barrier": _barrier,
    **dict.fromkeys(GRID_QUERIES, _grid_query),
    "mesh.done": _done,
    "mesh.start": _start,
    "mesh.collective_permute": _permute,
    TRANSFER: _transfer,
}


def check_local(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` unless a collective, or a started one, is a valid one of its types."""
    what = described(op)
    read = read_local(kind_of(what), what)
    types = [op.operands[0].type, op.results[0].type]
    if read is None or not all(isinstance(each, ir.RankedTensorType) for each in types):
        raise ShardingError(f"starts no collective from one tensor to another: {what}")
    grid = shardings.grid(read[0])
    source, target = (tuple(each.shape) for each in types)
    if grid.is_static and all(each.has_static_shape for each in types):
        expected = _shape_after(read[1], source, grid)
        if expected != target:
            raise ShardingError(f"gives {types[1]}, but makes {list(expected)}: {what}")


def check_runtime_function(op: ir.Operation, shardings: Shardings) -> None:
    """Raise `ShardingError` unless a runtime can bind a declared function of the lowered form."""
    type_ = op.attributes["function_type"].value
    if RANK in op.attributes:
        shardings.grid(expect(op, RANK, ir.FlatSymbolRefAttr, "the name of a grid").value)
        if str(type_) != "() -> index":
            raise ShardingError(f"{RANK} is on a function {type_}, expected () -> index")
    if COLLECTIVE in op.attributes:
        _check_called(op, shardings)


def _check_called(op: ir.Operation, shardings: Shardings) -> None:
    what = expect(op, COLLECTIVE, ir.DictAttr, "a dictionary")
    inputs = op.attributes["function_type"].value.inputs
    read = read_local(kind_of(what), what)
    kinds = [ir.MemRefType, ir.MemRefType]
    if PHASE in what:  # the third remembers the started collective
        kinds.append(ir.MemRefType)
    elif read is not None and read[1].is_computed:  # or is the member that the step names
        kinds.append(ir.IndexType)
    fits = len(kinds) == len(inputs) and all(map(isinstance, inputs, kinds))
    if read is None or not fits:
        raise ShardingError(
            f"{COLLECTIVE} describes no collective from one buffer to another: {what}"
        )
    source, target = (tuple(each.shape) for each in inputs[:2])
    if LOCAL_TYPES in what:
        _check_local_types(what)
    expected = _shape_after(read[1], source, shardings.grid(read[0]))
    if expected != target or inputs[0].element_type != inputs[1].element_type:
        raise ShardingError(f"{COLLECTIVE} does not make {inputs[1]} of {inputs[0]}: {what}")


def _check_local_types(what: ir.DictAttr) -> None:
    types = expect_in(what, LOCAL_TYPES, ir.ArrayAttr, "the types of an operand and a result")
    types_listed = [each.value for each in types if isinstance(each, ir.TypeAttr)]
    tensors = [each for each in types_listed if isinstance(each, ir.RankedTensorType)]
    if not len(types) == len(tensors) == 2 or not all(each.has_static_shape for each in tensors):
        raise ShardingError(f"{LOCAL_TYPES} is {types}: expected two tensors of known size")


def _shape_after(step: LocalStep, source: Shape, grid: Grid) -> Shape:
    """The local shape after a step; raises where its axes, devices or dimensions do not exist."""
    Sharding(grid.name, (step.axes,)).check(grid, 1)
    for key, index in _devices(step):
        check_coordinates(key, index, grid, [axis for axis in step.axes if isinstance(axis, int)])
    size = grid.axes_size(step.axes)
    step.check_fits(source, size)
    return step.local_shape_after(source, size)


def _devices(step: LocalStep) -> list[tuple[str, Index]]:
    """The devices that a step names, as indices in a group, by their attribute."""
    spelling = record_of(step).local
    names = spelling.of_kind("device", "sender") if spelling else []
    fields = [(name, spelling.attributes[name][1]) for name in names] if spelling else []
    devices = ((name, getattr(step, each)) for name, each in fields)
    return [(name, index) for name, index in devices if index is not None]
