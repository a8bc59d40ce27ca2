"""Translate every vocabulary to upstream's `shard`.

    "mesh.cluster"() {sym_name = "g", ...}        shard.grid @g(shape = 2)
    %1 = "mesh.annotate"(%0)                      %s = shard.sharding @g split_axes = [[0]]
      {sharding = #mesh.shard<@g, [[0]]>}         %1 = shard.shard %0 to %s : tensor<4xf32>

Upstream expresses every annotation by `shard.shard`. One that stands for an attribute of the `mesh`
dialect is marked `mesh.stands_for`, so that `import` can restore the attribute.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import boundary, functions_of, returns_of, set_boundary
from shard_dialect.ir.grids import read_grid, write_grid
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDING, SHARDINGS, STANDS_FOR
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.sharding_attributes import Shardings, annotated_blocks, rank_of
from shard_dialect.ir.shard.sharding_ops import write_sharding_op
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation, SubAxis
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.vocabularies.export_common import (
    annotations_by_op,
    prepare,
    refuse,
    refuse_ops,
    refuse_what_is_left,
)

_TARGET = "upstream's shard dialect"
_BEYOND = (
    "mesh.collective_permute",
    "mesh.idx",
    "mesh.propagation_barrier",
    "mesh.roll",
    "mesh.sharding_group",
    "mesh.size",
    "mesh.sub_cluster",
    "mesh.to_global",
    "mesh.to_local",
    TRANSFER,
)


@dataclass(frozen=True)
class ExportShard(Pass):
    """Write annotations and shardings in upstream's vocabulary; refuse what it cannot express."""

    name = "export-shard"

    def rewrite(self, module: ir.Operation) -> None:
        """Translate the module, and raise for what upstream cannot express."""
        shardings = prepare(module)
        refuse_ops(module, _BEYOND, _TARGET)
        _export_grids(module)
        for op in walk(module):
            _export_results(op, shardings)
            _export_blocks(op, shardings)
        for function in functions_of(module):
            _export_boundary(function, shardings)
        for op, annotated in annotations_by_op(module, shardings):
            if not annotated.required:
                raise refuse(op.location, f"the soft constraint {annotated.annotation}", _TARGET)
            with ir.InsertionPoint(op), op.location:
                new = _shard(
                    op.operands[0],
                    annotated.annotation,
                    list(op.operands)[1:],
                    for_users=annotated.for_users,
                    stands_for="reshard" if op.name == "mesh.reshard" else None,
                )
            op.results[0].replace_all_uses_with(new)
            op.erase()
        refuse_what_is_left(module, _TARGET)


def _export_grids(module: ir.Operation) -> None:
    for op in operations(body(module)):
        grid = read_grid(op) if op.name == "mesh.cluster" else None
        if grid is None:
            continue
        if grid.device_ids or not grid.rank:
            raise refuse(op.location, f"grid @{grid.name}, with devices in an order,", _TARGET)
        with ir.InsertionPoint(op), op.location:
            write_grid(grid, op)
        op.erase()


def _export_results(op: ir.Operation, shardings: Shardings) -> None:
    """Turn the annotations of an op's results into `shard.shard` ops after it."""
    if SHARDINGS not in op.attributes:
        return
    with located(op):
        annotations = shardings.of_results(op)
    del op.attributes[SHARDINGS]
    for number, annotation in annotations.items():
        with ir.InsertionPoint.after(op), op.location:
            _interpose(op.results[number], annotation, "op")


def _export_blocks(op: ir.Operation, shardings: Shardings) -> None:
    """Turn the annotations of block arguments into `shard.shard` ops at the blocks' beginnings."""
    if BLOCKS not in op.attributes:
        return
    with located(op):
        by_block = shardings.of_blocks(op)
    del op.attributes[BLOCKS]
    for block, by_number in zip(annotated_blocks(op), by_block, strict=False):
        first = operations(block)[0]
        for number, annotation in by_number.items():
            with ir.InsertionPoint(first), op.location:
                _interpose(block.arguments[number], annotation, "block")


def _export_boundary(function: ir.Operation, shardings: Shardings) -> None:
    block = body(function)
    entries = boundary(function, "arg_attrs")
    first = operations(block)[0]
    for argument, entry in zip(block.arguments, entries, strict=True):
        if SHARDING in entry:
            annotation = shardings.read_annotation(entry.pop(SHARDING), rank_of(argument.type))
            with ir.InsertionPoint(first), function.location:
                _interpose(argument, annotation, "argument")
    set_boundary(function, "arg_attrs", entries)
    entries = boundary(function, "res_attrs")
    for number, entry in enumerate(entries):
        if SHARDING not in entry:
            continue
        attribute = entry.pop(SHARDING)
        for end in returns_of(function):
            value = end.operands[number]
            if not isinstance(value.type, ir.RankedTensorType):
                continue
            annotation = shardings.read_annotation(attribute, rank_of(value.type))
            with ir.InsertionPoint(end), function.location:
                end.operands[number] = _shard(
                    value, annotation, for_users=True, stands_for="result"
                )
    set_boundary(function, "res_attrs", entries)


def _interpose(value: ir.Value, annotation: Annotation, stands_for: str) -> None:
    """Let all uses of `value` read a `shard.shard` of it as `annotation`. Scalars have none."""
    if not isinstance(value.type, ir.RankedTensorType):
        return
    users = [(use.owner.operation, use.operand_number) for use in value.uses]
    new = _shard(value, annotation, stands_for=stands_for)
    for user, number in users:
        user.operands[number] = new


def _shard(
    value: ir.Value,
    annotation: Annotation,
    sizes: list[ir.Value] | None = None,
    *,
    for_users: bool = False,
    stands_for: str | None = None,
) -> ir.Value:
    """`shard.sharding` and `shard.shard` at the insertion point."""
    _refuse_what_upstream_lacks(annotation)
    attributes: dict[str, ir.Attribute] = {}
    if for_users:
        attributes["annotate_for_users"] = ir.UnitAttr.get()
    if stands_for:
        attributes[STANDS_FOR] = ir.StringAttr.get(stands_for)
    sharding_op = write_sharding_op(annotation.sharding, sizes or [])
    return create("shard.shard", [value.type], [value, sharding_op], attributes).results[0]


def _refuse_what_upstream_lacks(annotation: Annotation) -> None:
    sharding = annotation.sharding
    lacks = None
    if sharding.fill != "sum":
        lacks = "what fills a halo"
    elif sharding.halos and sharding.offsets:
        lacks = "halos beside offsets"
    elif any(
        len(axes) > 1 and at
        for axes, at in zip(sharding.split_axes, sharding.offsets, strict=False)
    ):
        lacks = "offsets along several axes"  # upstream's verifier adds up the axes' sizes
    elif sharding.partial:
        lacks = f"the partial {sharding.reduction}"
    elif any(isinstance(axis, SubAxis) for axis in sharding.axes):
        lacks = "a sub-axis"
    elif annotation != Annotation(sharding):
        lacks = "what is open, its priorities and replicated axes"
    if lacks:
        raise refuse(ir.Location.current, f"{lacks} of {annotation}", _TARGET)
