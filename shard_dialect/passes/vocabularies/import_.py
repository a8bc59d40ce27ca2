"""Translate every vocabulary to the `mesh` dialect's annotated form.

    shard.grid @g(shape = 2x4)                               "mesh.cluster"() {sym_name = "g", ...}
    %s = shard.sharding @g split_axes = [[0]]                %1 = "mesh.annotate"(%0)
    %1 = shard.shard %0 to %s : tensor<4xf32>                  {sharding = #mesh.shard<@g, [[0]]>}

    "sdy.sharding_constraint"(%0) {sharding = ...}           "mesh.annotate"(%0) {as_result = false}

Annotations of the `mesh` dialect are brought to one canonical spelling. Ops that are not
annotations stay unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes
from shard_dialect.ir.building.build import create
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.verify import check_agreement
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.vocabularies.import_mesh import import_mesh
from shard_dialect.passes.vocabularies.import_sdy import import_sdy
from shard_dialect.passes.vocabularies.import_shard import import_shard

_COMPOSITE = "stablehlo.composite"
"""An op that a backend may execute as a unit; `import` replaces it by its decomposition."""
_DYNAMIC_IOTA = "stablehlo.dynamic_iota"
_FROM_COMPOSITES = "builtin.module(func.func(stablehlo-legalize-composite-to-call))"


@dataclass(frozen=True)
class Import(Pass):
    """Turn upstream's `shard` and Shardy's `sdy` annotations into the `mesh` dialect's."""

    name = "import"

    def rewrite(self, module: ir.Operation) -> None:
        """Import all annotations, then check that they agree."""
        import_annotations(module)
        check_agreement(module, Shardings.of(module))


def import_annotations(module: ir.Operation) -> set[str]:
    """Import the annotations of `module` in place, and return the names of the ops in it.

    Raises a located `ShardError` for an annotation that the `mesh` dialect cannot express.
    """
    ops = walk(module)
    for import_one in (import_shard, import_sdy):
        if import_one(module, ops):
            ops = walk(module)
    names = {op.name for op in ops}  # `import_mesh` drops some of them
    import_mesh(module)
    if _DYNAMIC_IOTA in names:
        _make_iotas(module)
        names = names - {_DYNAMIC_IOTA} | {op.name for op in walk(module)}
    if _COMPOSITE in names:  # last: the pass erases annotations without uses
        know_stablehlo_passes()
        PassManager.parse(_FROM_COMPOSITES).run(module)
        names = names - {_COMPOSITE} | {"func.call"}
    return names


def _make_iotas(module: ir.Operation) -> None:
    """Replace each `dynamic_iota` of a known type, as torch-mlir writes them, by an `iota`."""
    for op in walk(module):
        if op.name != _DYNAMIC_IOTA or not op.results[0].type.has_static_shape:
            continue
        attributes = {name: op.attributes[name] for name in op.attributes}
        with ir.InsertionPoint(op), op.location:
            iota = create("stablehlo.iota", [op.results[0].type], [], attributes)
        op.results[0].replace_all_uses_with(iota.results[0])
        op.erase()
