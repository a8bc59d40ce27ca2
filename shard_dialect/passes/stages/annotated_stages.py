"""The grids, and parts of grids, on which the annotations of a function are; and its transfers."""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import BOUNDARY, boundary
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import SHARDING, STAGES, symbol
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.ir.mesh.sharding_attributes import Shardings, rank_of
from shard_dialect.ir.mesh.stage_attributes import stages_named
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation

PERMUTE = "mesh.collective_permute"


def grids_in(function: ir.Operation, shardings: Shardings) -> Iterator[str]:
    """Yield the names of the grids in a function's annotations."""
    for annotation in annotations_in(function, shardings):
        yield annotation.grid
    for op in walk(function):
        transfer = transfer_of(op)
        if transfer is not None:
            yield transfer[1]


def annotations_in(function: ir.Operation, shardings: Shardings) -> Iterator[Annotation]:
    """Yield the annotations of a function's values."""
    for key in BOUNDARY:
        for annotation in boundary_annotations(function, key, shardings):
            if annotation is not None:
                yield annotation
    for op in (function, *walk(function)):
        with located(op):
            yield from shardings.of_results(op).values()
            for block in shardings.of_blocks(op):
                yield from block.values()
            annotated = annotation_ops.read_annotation(op, shardings)
            if annotated is not None:
                yield annotated.annotation


def boundary_annotations(
    function: ir.Operation, key: str, shardings: Shardings
) -> list[Annotation | None]:
    """The annotation of each argument or result at a function's boundary."""
    type_ = function.attributes["function_type"].value
    types = type_.inputs if key == "arg_attrs" else type_.results
    return [
        shardings.read_annotation(entry[SHARDING], rank_of(each)) if SHARDING in entry else None
        for entry, each in zip(boundary(function, key), types, strict=True)
    ]


def transfer_of(op: ir.Operation) -> tuple[str | None, str] | None:
    """The source (if known) and target stage of an op that passes its operand on, or `None`.

    Such an op is a `mesh.transfer`, or a permutation that names a cluster and no axis, or stages.
    """
    if op.name == TRANSFER and STAGES not in op.attributes:
        return None, symbol(op.attributes["cluster"])
    is_plain = "cluster" in op.attributes and "mesh_axis" not in op.attributes
    if op.name != PERMUTE or STAGES in op.attributes or not is_plain:
        return stages_named(op)
    return None, symbol(op.attributes["cluster"])
