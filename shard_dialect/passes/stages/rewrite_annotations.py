"""Rewrite all annotations of a function, such as to another grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import BOUNDARY, boundary, functions_of, set_boundary
from shard_dialect.ir.grids import sub_clusters_of
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDING, SHARDINGS, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation

Change = Callable[[Annotation], Annotation]
_CLUSTER = "mesh_cluster"


def rewrite_annotations(function: ir.Operation, change: Change, shardings: Shardings) -> None:
    """Replace each annotation of a value of `function`, in the annotated form, by its `change`.

    The annotations of ops' loops stay.
    """
    type_ = function.attributes["function_type"].value
    for key, types in zip(BOUNDARY, (type_.inputs, type_.results), strict=True):
        entries = boundary(function, key)
        for entry, each in zip(entries, types, strict=True):
            if SHARDING in entry:
                annotation = shardings.read_annotation(entry[SHARDING], rank_of(each))
                entry[SHARDING] = shardings.write(change(annotation))
        set_boundary(function, key, entries)
    for op in (function, *walk(function)):
        with located(op):
            _rewrite_op(op, change, shardings)


def _rewrite_op(op: ir.Operation, change: Change, shardings: Shardings) -> None:
    def listed(annotations: Mapping[int, Annotation], count: int) -> ir.ArrayAttr:
        return ir.ArrayAttr.get(
            [
                shardings.write(change(annotations[at])) if at in annotations else ir.UnitAttr.get()
                for at in range(count)
            ]
        )

    if SHARDINGS in op.attributes:
        op.attributes[SHARDINGS] = listed(shardings.of_results(op), len(op.results))
    if BLOCKS in op.attributes:
        counts = [len(block.arguments) for region in op.regions for block in region.blocks]
        lists = zip(shardings.of_blocks(op), counts, strict=False)
        op.attributes[BLOCKS] = ir.ArrayAttr.get([listed(*each) for each in lists])
    annotated = annotation_ops.read_annotation(op, shardings)
    if annotated is not None:
        annotation_ops.write_annotation(op, change(annotated.annotation), shardings)


def merge_equal_grids(module: ir.Operation, shardings: Shardings) -> None:
    """Let all annotations that name a grid equal to an earlier one name that one.

    Grids are equal if they have the same shape, names of axes and order of the devices. A grid of
    which parts are declared keeps its name.
    """
    parts = sub_clusters_of(module)
    divided = {part.of for part in parts.values()}
    first: dict[object, str] = {}
    renamed = {}
    for name, grid in shardings.grids.items():
        if name not in parts and grid.rank:
            kept = first.setdefault((grid.shape, grid.axis_names, grid.device_ids), name)
            if kept != name and name not in divided:
                renamed[name] = kept

    def change(annotation: Annotation) -> Annotation:
        if annotation.grid not in renamed:
            return annotation
        sharding = replace(annotation.sharding, grid=renamed[annotation.grid])
        return replace(annotation, sharding=sharding)

    for function in functions_of(module) if renamed else ():
        rewrite_annotations(function, change, shardings)
        if _CLUSTER in function.attributes:
            name = symbol(function.attributes[_CLUSTER])
            kept = renamed.get(name, name)
            function.attributes[_CLUSTER] = ir.FlatSymbolRefAttr.get(kept)
