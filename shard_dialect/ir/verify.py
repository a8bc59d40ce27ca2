"""Our verifier: refuses modules that MLIR's own verifiers accept, but no pass could handle.

It checks a module, with its grids, when the module is read. The checks of one `mesh` op against its
types (`ir/mesh/check_mesh_ops.py`) run wherever MLIR verifies.

A module that declares no grid has no sharding, so that the passes have nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, readable_strings
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    form_of,
    functions_of,
    location_of_argument,
    name_of,
)
from shard_dialect.ir.grids import grids_of, sub_clusters_of
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import annotated_values, merged
from shard_dialect.ir.mesh.attributes import (
    ARGUMENT,
    BLOCKS,
    DEVICE,
    DYNAMIC,
    FORM,
    FORMS,
    MANUAL,
    NAMED,
    RESULT,
    RULE,
    SHARDING,
    SHARDINGS,
    STAGES,
    expect,
    i64_array,
    integer,
    ints,
    symbol,
)
from shard_dialect.ir.mesh.check_mesh_ops import check_local, check_runtime_function
from shard_dialect.ir.mesh.grid_queries import GRID_QUERIES, named_axes
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.notation import read_axes
from shard_dialect.ir.mesh.sharding_attributes import Shardings, check_stages, rank_of
from shard_dialect.ir.numbered_function import FLOWS, read_function
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.shard.check_shardings import check as check_upstream
from shard_dialect.ir.shard.local_collectives import is_local
from shard_dialect.ir.walk import body, walk
from shard_dialect.model import Axes, Grid, Sharding, ShardingError
from shard_dialect.planner import permutes_across
from shard_dialect.planner.permutation import moved_shards, permutes_into

_LOCAL = ("local", "lowered")
"""The forms without sharded types."""


def verify(module: ir.Operation) -> None:
    """Raise a located `ShardError` for the first error in `module`."""
    for op in (module, *body(module).operations):
        # As text: a name that is no UTF-8 has no value.
        if "sym_name" in op.attributes and str(op.attributes["sym_name"]) == '""':
            message = f"'{op.name}' op has an empty name, which MLIR prints as no name"
            raise ShardError(message, location_text(op.location))
    with readable_strings(module):
        shardings = Shardings.of(module)
    for op in walk(module):
        try:
            with readable_strings(op):
                _check_nested_module(op)
                _check_op(op, shardings)
                check_stages(op, module)
        except ShardError as error:
            if error.location is not None:
                raise
            message = f"'{op.name}' op {error.message}"
            raise ShardError(message, location_text(op.location)) from None
    check_agreement(module, shardings)


def check_agreement(module: ir.Operation, shardings: Shardings) -> None:
    """Raise a located `ShardError` where annotations of one value contradict each other."""
    for function in functions_of(module):
        if form_of(function) == "annotated":
            merged(annotated_values(read_function(function), shardings))


def _check_nested_module(op: ir.Operation) -> None:
    if op.name != "builtin.module":
        return
    for inner in walk(op):
        if inner.name == "shard.shard" or inner.name.startswith(("mesh.", "sdy.")):
            raise ShardingError(
                f"holds '{inner.name}' inside of another module: only the outermost one's "
                "functions are read"
            )


def _check_op(op: ir.Operation, shardings: Shardings) -> None:
    for result in op.results:
        in_type = shardings.of_type(result.type)
        if in_type is not None:
            _check_may_be_sharded(op)
            _check_shards(in_type, result.type, shardings)
    check_upstream(op, shardings)
    if op.name in annotation_ops.OPS:
        _check_annotation(op, shardings)
    elif op.name in _CHECKS:
        _CHECKS[op.name](op, shardings)
    elif op.name.startswith("mesh.") and is_local(op):
        check_local(op, shardings)
    if SHARDINGS in op.attributes:
        _check_result_shardings(op, shardings)
    if BLOCKS in op.attributes:
        _check_block_shardings(op, shardings)
    if RULE in op.attributes:
        sdy.rule_for(op, expect(op, RULE, ir.StringAttr, "a string").value)
    _check_computation(op)
    annotation_ops.read_loops(op, shardings)
    sdy.verify_op(op, sdy.SdyReader(shardings.grids))


def _check_annotation(op: ir.Operation, shardings: Shardings) -> None:
    type_ = op.operands[0].type
    sharding = annotation_ops.annotation_in(op, type_, shardings).sharding
    unknown = sum(size is None for each in (*sharding.halos, *sharding.offsets) for size in each)
    if unknown != len(op.operands) - 1:
        raise ShardingError(
            f"has {len(op.operands) - 1} sizes for {unknown} unknown ones in {sharding}"
        )
    sharding.check_offsets(tuple(type_.shape))


def _check_cluster(op: ir.Operation, shardings: Shardings) -> None:
    if op.parent is None or op.parent.name != "builtin.module":
        raise ShardingError("declares a grid inside of another op: expected it in the module")


def _check_sub_cluster(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless its offsets and sizes are within its cluster."""
    _check_cluster(op, shardings)
    cluster = shardings.grid(symbol(op.attributes["cluster"]))
    if cluster.name == op.attributes["sym_name"].value:
        raise ShardingError(f"is a part of {as_symbol(cluster.name)}, which is itself")
    offsets, sizes = ints(op.attributes["offsets"]), ints(op.attributes["sizes"])
    if len(sizes) != cluster.rank:
        raise ShardingError(f"has {len(sizes)} sizes for {cluster}, which has {cluster.rank} axes")
    for axis, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        known = cluster.shape[axis]
        if offset < 0 or size < 1 or (known is not None and offset + size > known):
            raise ShardingError(f"has {size} devices from {offset} on axis {axis} of {cluster}")
    sub_clusters_of(op.parent)  # raises for parts of each other


def _check_grid_query(op: ir.Operation, shardings: Shardings) -> None:
    grid = shardings.grid(annotation_ops.grid_named_by(op))
    for axis in named_axes(op) or ():
        if axis >= grid.rank:
            raise ShardingError(f"asks for axis {axis}, which is not in grid {grid}")


def _check_permute(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless the permutation fits the groups, or clusters have equal shards and sizes."""
    types = [op.operands[0].type, op.results[0].type]
    source, target = map(shardings.of_type, types)
    if "cluster" in op.attributes and source is None and target is None:
        _check_plain_permute(op, shardings)
        return
    if STAGES in op.attributes and (source == target or "mesh_axis" not in op.attributes):
        return  # its messages follow from its stages
    if source is None or target is None:
        raise ShardingError("permutes a tensor that is not sharded")
    grids = [shardings.grid(sharding.grid) for sharding in (source, target)]
    if "mesh_axis" in op.attributes:
        _check_permutation(op, (source, target), grids)
        return
    if source.grid == target.grid:
        raise ShardingError(
            f"moves nothing: both are on {as_symbol(source.grid)}, and no axis is named"
        )
    shape = tuple(op.operands[0].type.shape)
    if all(grid.is_static for grid in grids) and grids[0].size != grids[1].size:
        raise ShardingError(f"sends from {grids[0]} to {grids[1]}: expected as many devices")
    if all(grid.is_static for grid in grids) and DYNAMIC not in shape:
        shards = [s.local_shape(shape, g) for s, g in zip((source, target), grids, strict=True)]
        if shards[0] != shards[1]:
            raise ShardingError(f"sends shards of {list(shards[0])} to be {list(shards[1])}")


def _check_permutation(
    op: ir.Operation, shardings: tuple[Sharding, Sharding], grids: Sequence[Grid]
) -> None:
    """Raise unless the permutation leads from one sharding to the other."""
    source, target = shardings
    axes, permutation = _axes_of(op.attributes["mesh_axis"], grids[0]), _permutation(op)
    if grids[0].is_static and grids[0].axes_size(axes) != len(permutation):
        raise ShardingError(
            f"has {len(permutation)} places for groups of {grids[0].axes_size(axes)} devices"
        )
    if source.grid == target.grid:
        _check_permuted_shards(op, axes, source, target, grids[0])
        return
    if axes != tuple(range(grids[0].rank)):
        raise ShardingError(f"goes from {grids[0]} to {grids[1]}: expected all axes in order")
    if not permutes_across(permutation, source, target, grids[0], grids[1]):
        raise ShardingError(
            f"does not permute the shards of {source} on {grids[0]} to those of {target} on "
            f"{grids[1]}"
        )


def _check_permuted_shards(
    op: ir.Operation, axes: Axes, source: Sharding, target: Sharding, grid: Grid
) -> None:
    """Raise unless the same tensor is resharded, or shards of one size change places."""
    if source != target:
        if not permutes_into(_permutation(op), axes, source, target, grid):
            raise ShardingError(f"does not permute the shards of {source} to those of {target}")
        return
    if not grid.is_static:
        return
    is_moved = bool(moved_shards(_permutation(op), axes, source, grid))
    dim = source.uneven_dim(tuple(op.operands[0].type.shape), grid)
    if is_moved and dim is not None:
        raise ShardingError(f"permutes shards of {source}, which differ in size in dimension {dim}")


def _check_plain_permute(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless a permutation of the local form fits the groups of the cluster it names."""
    grid = shardings.grid(symbol(op.attributes["cluster"]))
    if "mesh_axis" not in op.attributes:
        return
    axes = _axes_of(op.attributes["mesh_axis"], grid)
    if grid.axes_size(axes) != len(_permutation(op)):
        raise ShardingError(
            f"has {len(_permutation(op))} places for groups of {grid.axes_size(axes)} devices"
        )


def _check_transfer(op: ir.Operation, shardings: Shardings) -> None:
    grid = shardings.grid(symbol(op.attributes["cluster"]))
    if len(shardings.grids) < 2:
        raise ShardingError(f"is between stages, and there is no part of {grid}: take a slice")


def _permutation(op: ir.Operation) -> tuple[int, ...]:
    return tuple(ints(op.attributes["permutation"]))


def _check_manual(op: ir.Operation, shardings: Shardings) -> None:
    """Raise unless the types of a boundary op are the global type, and its local type."""
    from_local = op.name == "mesh.to_global"
    source, target = op.operands[0].type, op.results[0].type
    local, full = (source, target) if from_local else (target, source)
    annotation = annotation_ops.annotation_in(op, full, shardings)
    grid = shardings.grid(annotation.grid)
    manual = _axes_of(i64_array(ints(op.attributes["manual_axes"])), grid)
    _check_is_in_computation(op)
    if not isinstance(full, ir.RankedTensorType) or not isinstance(local, ir.RankedTensorType):
        if full != local:
            raise ShardingError(f"has shards of type {local} of a {full}")
        return
    sizes = list(annotation.sharding.manual_shape(tuple(full.shape), manual, grid))
    if list(local.shape) != sizes or local.element_type != full.element_type:
        raise ShardingError(f"has shards of type {local}, expected the shape {sizes} of {full}")


def _axes_of(attribute: ir.Attribute, grid: Grid) -> Axes:
    """The axes in a list. Raises unless each is an axis of the grid, and listed once."""
    axes = read_axes(attribute)
    Sharding(grid.name, (axes,)).check(grid, 1)
    return axes


def _check_is_in_computation(op: ir.Operation) -> None:
    axes, around = ints(op.attributes["manual_axes"]), op.parent
    if around is None or MANUAL not in around.attributes:
        raise ShardingError(f"is not in an 'scf.execute_region' with {MANUAL}")
    if sorted(ints(around.attributes[MANUAL])) != sorted(axes):
        raise ShardingError(f"has manual_axes {axes} in a region with {around.attributes[MANUAL]}")


def _check_computation(op: ir.Operation) -> None:
    """Raise unless the attributes of manual and named computations are valid."""
    for name in (MANUAL, NAMED):
        if name in op.attributes and op.name != "scf.execute_region":
            raise ShardingError(f"has {name}, which only 'scf.execute_region' may have")
    if MANUAL in op.attributes and NAMED in op.attributes:
        raise ShardingError(f"has both {MANUAL} and {NAMED}: expected one region in the other")
    if (MANUAL in op.attributes or NAMED in op.attributes) and len(op.regions[0].blocks) != 1:
        raise ShardingError(f"is a computation of {len(op.regions[0].blocks)} blocks: expected one")
    if MANUAL in op.attributes:
        ints(op.attributes[MANUAL])
    if NAMED in op.attributes:
        expect(op, NAMED, ir.StringAttr, "a string")


def _check_function(op: ir.Operation, shardings: Shardings) -> None:
    name_of(op)
    if "mesh_cluster" in op.attributes:
        expect(op, "mesh_cluster", ir.FlatSymbolRefAttr, "the name of a grid")
        shardings.grid(annotation_ops.cluster_name(op))
    if FORM in op.attributes:
        form = expect(op, FORM, ir.StringAttr, "a string").value
        if form not in FORMS:
            raise ShardingError(f"{FORM} is '{form}', expected one of {', '.join(FORMS)}")
    if DEVICE in op.attributes:
        integer(expect(op, DEVICE, ir.IntegerAttr, "an integer"))
    check_runtime_function(op, shardings)
    type_ = op.attributes["function_type"].value
    arguments = body(op).arguments if op.regions[0].blocks else ()
    for key, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
        for index, each in enumerate(types):
            try:
                _check_of_boundary(op, key, index, each, shardings)
            except ShardError as error:
                if key == "res_attrs" or not arguments or error.location is not None:
                    raise
                place = location_text(location_of_argument(op, arguments[index]))
                raise ShardError(f"'{op.name}' op {error.message}", place) from None


def _check_of_boundary(
    op: ir.Operation, key: str, index: int, type_: ir.Type, shardings: Shardings
) -> None:
    """Check the type and the attributes of an argument or result."""
    in_type = shardings.of_type(type_)
    if in_type is not None and form_of(op) in _LOCAL:
        raise ShardingError(f"is in the {form_of(op)} form, which has no sharded types")
    if in_type is not None:
        _check_shards(in_type, type_, shardings)
    if key in op.attributes:
        _check_boundary(op, type_, op.attributes[key][index], shardings)


def _check_boundary(
    op: ir.Operation, type_: ir.Type, attributes: ir.DictAttr, shardings: Shardings
) -> None:
    if SHARDING in attributes:
        if isinstance(type_, ir.UnrankedTensorType):
            raise ShardingError(f"has {SHARDING} on a {type_}, which has no rank")
        annotation = shardings.read_annotation(attributes[SHARDING], rank_of(type_))
        _check_shards(annotation.sharding, type_, shardings)
    if sdy.SHARDING in attributes:
        sdy.SdyReader(shardings.grids).sharding(attributes[sdy.SHARDING], type_)
    for key in (ARGUMENT, RESULT):
        if key not in attributes:
            continue
        global_type = attributes[key]
        if not isinstance(global_type, ir.TypeAttr) or not isinstance(
            global_type.value, ir.RankedTensorType
        ):
            raise ShardingError(f"{key} must be a tensor type, found {global_type}")
        sharding = shardings.of_type(global_type.value)
        local = global_type.value if sharding is None else shardings.local(global_type.value)
        if (list(type_.shape), type_.element_type) != (list(local.shape), local.element_type):
            raise ShardingError(f"{key} is {global_type}, whose shard is {local}, not {type_}")


def _check_may_be_sharded(op: ir.Operation) -> None:
    parent = op.parent
    while parent is not None and parent.name != "func.func":
        parent = parent.parent
    if parent is not None and FORM in parent.attributes and form_of(parent) in _LOCAL:
        raise ShardingError(f"is in a function in the {form_of(parent)} form, of plain types")


def _check_result_shardings(op: ir.Operation, shardings: Shardings) -> None:
    shardings_listed = list(expect(op, SHARDINGS, ir.ArrayAttr, "a list of shardings"))
    is_complete = len(shardings_listed) == len(op.results) or _has_lost_results(
        shardings_listed, op
    )
    if not is_complete and not _is_on_one_device(shardings_listed, op, shardings):
        raise ShardingError(
            f"has {len(shardings_listed)} {SHARDINGS} for {len(op.results)} results"
        )
    for number, annotation in shardings.of_results(op).items():
        _check_shards(annotation.sharding, op.results[number].type, shardings)


def _has_lost_results(shardings_listed: list[ir.Attribute], op: ir.Operation) -> bool:
    """Whether MLIR's passes may have dropped results of a loop, whose attributes they keep."""
    around = op.parent
    while around is not None and around.name != "func.func":
        around = around.parent
    is_propagated = around is not None and form_of(around) == "propagated"
    return is_propagated and op.name in FLOWS and len(shardings_listed) > len(op.results)


def _check_block_shardings(op: ir.Operation, shardings: Shardings) -> None:
    for each in expect(op, BLOCKS, ir.ArrayAttr, "a list of lists of shardings"):
        if not isinstance(each, ir.ArrayAttr):
            raise ShardingError(f"{BLOCKS} must be a list of lists of shardings, found {each}")
    shardings.of_blocks(op)


def _check_shards(sharding: Sharding, type_: ir.Type, shardings: Shardings) -> None:
    """Raise unless all sizes of halos and offsets are known, and fit the tensor."""
    if None in (size for each in (*sharding.halos, *sharding.offsets) for size in each):
        raise ShardingError(f"has a size in {sharding} that no operand gives")
    if isinstance(type_, ir.RankedTensorType):
        sharding.check_offsets(tuple(type_.shape))


def _is_on_one_device(
    shardings_listed: list[ir.Attribute], op: ir.Operation, shardings: Shardings
) -> bool:
    """Whether an op without results is annotated to run on the one device of a maximal grid."""
    if len(shardings_listed) != 1 or len(op.results):
        return False
    return shardings.grid(shardings.read_annotation(shardings_listed[0], 0).grid).rank == 0


_CHECKS: dict[str, Callable[[ir.Operation, Shardings], None]] = {
    "func.func": _check_function,
    "mesh.cluster": _check_cluster,
    "mesh.collective_permute": _check_permute,
    **dict.fromkeys(GRID_QUERIES, _check_grid_query),
    "mesh.start": check_local,
    "mesh.sub_cluster": _check_sub_cluster,
    "mesh.to_global": _check_manual,
    "mesh.to_local": _check_manual,
    TRANSFER: _check_transfer,
}


_SHARDINGS = (sdy.SHARDING, "sharding", "in_shardings", "out_shardings")


def declares_no_grid(module: ir.Operation) -> bool:
    """Whether there is nothing to shard in `module`, since it declares no grid.

    Raises a located `ShardError` for an op or attribute that names one all the same.
    """
    if grids_of(module):
        return False
    verify(module)
    return not any(map(_inlines_mesh, walk(module)))


def _inlines_mesh(op: ir.Operation) -> bool:
    """Whether a sharding of Shardy's is on a mesh that it writes out itself, as no other can be."""
    if any(key in op.attributes for key in _SHARDINGS):
        return True
    return op.name == "func.func" and any(
        sdy.SHARDING in entry for key in BOUNDARY for entry in boundary(op, key)
    )
