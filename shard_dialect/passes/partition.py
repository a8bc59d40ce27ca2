"""From distributed to local: the program that each device runs, on its pieces.

    %1 = "mesh.all_gather"(%0) {mesh_axis = [[], [0]], tensor_axis = [1]}
           : (tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<4x8xf32>

becomes, on a grid of two

    %1 = shard.all_gather %0 on @g grid_axes = [0] gather_axis = 1
           : tensor<4x4xf32> -> tensor<4x8xf32>

Types lose their sharding and shrink to one device's piece; `mesh` collectives become upstream's
`shard` ones; a slice of a splat constant becomes a smaller constant. Everything else is the same
op on smaller tensors, which its rule says it may be; types that its rule does not allow together
(after an edit by hand, say) are refused. The global types stay in `mesh.argument` and
`mesh.result`, for those who run the program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from shard_dialect.ir import build
from shard_dialect.ir.attributes import ARGUMENT, RESULT, Shardings, sharding_in
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.collectives import read_steps
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.local import write_local
from shard_dialect.ir.mesh import COLLECTIVES
from shard_dialect.ir.program import Function, form_of, functions_of, set_form
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import AllSlice, Grid, Sharding, ShardingError
from shard_dialect.passes.base import Pass
from shard_dialect.passes.consistency import check_types


@dataclass(frozen=True)
class Partition(Pass):
    """Cut the program to one device's shapes, with upstream's collectives."""

    name = "partition"

    def rewrite(self, module: ir.Operation) -> None:
        shardings = Shardings.of(module)
        for handle in functions_of(module):
            form = form_of(handle)
            if form in ("local", "lowered"):
                continue
            if form != "distributed":
                name = handle.attributes["sym_name"].value
                raise error_at(
                    handle.location,
                    f"function @{name} is in the {form} form: run --propagate and --materialize "
                    "first, or --spmd for all",
                )
            _partition(handle, shardings)
        _use_upstream_grids(module, shardings)


def _partition(handle: ir.Operation, shardings: Shardings) -> None:
    function = Function(handle, handle.attributes["sym_name"].value)
    block = body(handle)
    ops = operations(block)
    # In step with `ops`: as a key an op would not do, its hash changes with its operands.
    sources: list[Sharding | None] = []
    for op in ops:
        with located(op):
            check_types(op, shardings)
            sources.append(_source(op) if op.name in COLLECTIVES else None)
    with located(handle):
        _cut_boundary(function, "arg_attrs", ARGUMENT, block.arguments, shardings)
        _cut_boundary(function, "res_attrs", RESULT, ops[-1].operands, shardings)
    for op, source in zip(ops, sources, strict=True):
        with located(op):
            if source is not None:
                _cut_collective(op, source, shardings)
            else:
                _cut_results(op, shardings)
    for argument in block.arguments:
        _cut_value(argument, shardings)
    function.update_type()
    set_form(handle, "local")


def _source(op: ir.Operation) -> Sharding:
    """How a collective's operand lies; that of a plain type is on the result's grid."""
    source, result = sharding_in(op.operands[0].type), sharding_in(op.results[0].type)
    assert source is not None, "the verifier wants ranked tensors"
    assert result is not None, "the verifier wants ranked tensors"
    return replace(source, grid=source.grid or result.grid)


def _cut_boundary(
    function: Function, key: str, name: str, values: list[ir.Value], shardings: Shardings
) -> None:
    boundary = function.boundary(key)
    for attributes, value in zip(boundary, values, strict=True):
        if isinstance(value.type, ir.RankedTensorType):
            attributes[name] = ir.TypeAttr.get(value.type)
    function.set_boundary(key, boundary)


def _cut_value(value: ir.Value, shardings: Shardings) -> None:
    if isinstance(value.type, ir.RankedTensorType):
        value.set_type(shardings.local(value.type))


def _cut_results(op: ir.Operation, shardings: Shardings) -> None:
    if build.is_constant(op) and shardings.of_type(op.results[0].type) is not None:
        _cut_constant(op, shardings)
    for result in op.results:
        _cut_value(result, shardings)


def _cut_constant(op: ir.Operation, shardings: Shardings) -> None:
    """A constant whose type has a sharding; only a splat is the same in every piece."""
    key = build.CONSTANTS[op.name]
    local = _local_splat(op.attributes[key], shardings.local(op.results[0].type))
    if local is None:
        raise ShardingError(
            'is a constant with a sharding in its type: take a "mesh.local_split" of a plain one'
        )
    op.attributes[key] = local


def _local_splat(value: ir.Attribute, type_: ir.Type) -> ir.Attribute | None:
    if not isinstance(value, ir.DenseElementsAttr) or not value.is_splat:
        return None
    return ir.DenseElementsAttr.get_splat(type_, value.get_splat_value())


def _cut_collective(op: ir.Operation, now: Sharding, shardings: Shardings) -> None:
    """Replace a `mesh` collective, whose operand lay as `now`, by the `shard` ops of its steps."""
    grid = shardings.grid(now.grid)
    global_type, value = op.results[0].type, op.operands[0]
    with ir.InsertionPoint(op), op.location:
        for step in read_steps(op, now):
            now = step.after(now)
            type_ = shardings.local(shardings.typed(global_type, now))
            splat = _splat_constant(value) if isinstance(step, AllSlice) else None
            if splat is not None:
                attribute = _local_splat(splat, type_)
                value = build.create("arith.constant", [type_], [], {"value": attribute}).results[0]
            elif grid.axes_size(step.axes) > 1:
                value = write_local(step, grid.name, value, type_)
    op.results[0].replace_all_uses_with(value)
    source = op.operands[0].owner
    op.erase()
    if not isinstance(source, ir.Block) and _splat_constant(source.results[0]) is not None:
        _drop_if_unused(source.operation)


def _splat_constant(value: ir.Value) -> ir.Attribute | None:
    attribute = build.constant_value(value)
    is_splat = isinstance(attribute, ir.DenseElementsAttr) and attribute.is_splat
    return attribute if is_splat else None


def _drop_if_unused(op: ir.Operation) -> None:
    if not any(True for _ in op.results[0].uses):
        op.erase()


def _use_upstream_grids(module: ir.Operation, shardings: Shardings) -> None:
    """Replace `mesh.cluster` by `shard.grid`: upstream's collectives look for that."""
    for op in operations(body(module)):
        if op.name != "mesh.cluster":
            continue
        grid = shardings.grid(op.attributes["sym_name"].value)
        with ir.InsertionPoint(op), op.location:
            build.create("shard.grid", [], [], _grid_attributes(grid))
        op.erase()


def _grid_attributes(grid: Grid) -> dict[str, ir.Attribute]:
    dynamic = ir.ShapedType.get_dynamic_size()
    sizes = [dynamic if size is None else size for size in grid.shape]
    return {
        "sym_name": ir.StringAttr.get(grid.name),
        "shape": ir.DenseI64ArrayAttr.get(sizes),
    }
