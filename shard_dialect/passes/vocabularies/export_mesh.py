"""Translate every vocabulary to the RFC's: the `mesh` dialect without our extensions.

    shard.grid @g(shape = 2)                      "mesh.cluster"() {sym_name = "g", ...}
    %s = shard.sharding @g split_axes = [[0]]     %1 = "mesh.annotate"(%0)
    %1 = shard.shard %0 to %s : tensor<4xf32>       {sharding = #mesh.shard<@g, [[0]]>}

The RFC has no sub-axes, halos, offsets, open dimensions, priorities and axis names.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.grids import read_grid
from shard_dialect.ir.mesh.attributes import MANUAL, NAMED, RULE
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, SubAxis
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.vocabularies.export_common import (
    all_annotations,
    prepare,
    refuse,
    refuse_ops,
)

_TARGET = "the RFC's mesh dialect"
_BEYOND = (
    "mesh.propagation_barrier",
    "mesh.reshard",
    "mesh.sharding_group",
    "mesh.to_global",
    "mesh.to_local",
)


@dataclass(frozen=True)
class ExportMesh(Pass):
    """Write annotations and shardings in the RFC's vocabulary, or refuse what it cannot express."""

    name = "export-mesh"

    def rewrite(self, module: ir.Operation) -> None:
        """Import the module, and raise for what the RFC cannot express."""
        shardings = prepare(module)
        for location, annotation in all_annotations(module, shardings):
            extra = _beyond(annotation)
            if extra:
                raise refuse(location, f"{extra} of {annotation}", _TARGET)
        refuse_ops(module, _BEYOND, _TARGET)
        for op in walk(module):
            for name in (MANUAL, NAMED, RULE):
                if name in op.attributes:
                    raise refuse(op.location, f"{name} of '{op.name}' op", _TARGET)
            grid = read_grid(op)
            if grid is not None and (grid.axis_names or grid.device_ids or not grid.rank):
                raise refuse(op.location, f"grid @{grid.name}, with names or an order,", _TARGET)


def _beyond(annotation: Annotation) -> str | None:
    """The first property of the annotation that the RFC cannot express; `None` if there is none."""
    sharding = annotation.sharding
    if any(isinstance(axis, SubAxis) for axis in (*sharding.axes, *annotation.replicated)):
        return "a sub-axis"
    if sharding.halos or sharding.offsets:
        return "the halos or offsets"
    if annotation != Annotation(sharding):
        return "what is open, its priorities and replicated axes"
    return None
