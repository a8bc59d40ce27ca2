"""Upstream's annotations to ours: part of the pass `import`."""

from __future__ import annotations

from shard_dialect.ir.attributes import symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.build import annotate
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.grids import read_grid, write_cluster
from shard_dialect.ir.shardings import Shardings
from shard_dialect.ir.upstream import grid_name, read_sharding_op, sharding_behind
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Annotation

_SHARDINGS = ("shard.get_sharding", "shard.sharding")
"""Ops without a use once the annotations are ours; last to first made."""


def import_shard(module: ir.Operation) -> None:
    shardings = Shardings.of(module)
    ours = [op for op in walk(module) if op.name.startswith("shard.")]
    if not ours:
        return
    annotations = []
    for op in ours:
        if op.name == "shard.shard":
            with located(op):
                annotations.append((op, sharding_behind(op.operands[1])))
    for op, made in annotations:
        with located(op):
            _import_shard(op, made, shardings)
    _drop_unused(module)
    _import_grids(module)


def _import_shard(op: ir.Operation, made: ir.Operation, shardings: Shardings) -> None:
    source = op.operands[0]
    read = read_sharding_op(made, source.type.rank, shardings.grid(grid_name(made)))
    said = shardings.checked(Annotation(read.sharding), source.type.rank)
    with ir.InsertionPoint(op), op.location:
        new = annotate(
            source,
            shardings.write(said),
            read.sizes,
            as_result="annotate_for_users" not in op.attributes,
        )
    op.results[0].replace_all_uses_with(new)
    op.erase()


def _drop_unused(module: ir.Operation) -> None:
    for name in _SHARDINGS:
        for op in [each for each in walk(module) if each.name == name]:
            if not any(True for _ in op.results[0].uses):
                op.erase()


def _import_grids(module: ir.Operation) -> None:
    """Make clusters of the grids, but of those that upstream's ops still look for."""
    kept = {
        symbol(op.attributes["grid"])
        for op in walk(module)
        if op.name.startswith("shard.") and "grid" in op.attributes
    }
    for op in operations(body(module)):
        grid = read_grid(op) if op.name == "shard.grid" else None
        if grid is not None and grid.name not in kept:
            with ir.InsertionPoint(op), op.location:
                write_cluster(grid)
            op.erase()
