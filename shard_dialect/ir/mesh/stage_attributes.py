"""The stages of arguments and results, `mesh.stage = @a`, and of transfers, `mesh.stages`."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import BOUNDARY, boundary
from shard_dialect.ir.grids import grids_of, sub_clusters_of
from shard_dialect.ir.mesh.attributes import STAGE, STAGES, ints, symbol
from shard_dialect.ir.mesh.mesh_dialect import TRANSFER
from shard_dialect.model import ShardingError


def stages_named(op: ir.Operation) -> tuple[str, str] | None:
    """The source and the target stage of a transfer, from `mesh.stages`. Raises `ShardingError`."""
    if STAGES not in op.attributes:
        return None
    named = op.attributes[STAGES]
    names = list(named) if isinstance(named, ir.ArrayAttr) else []
    if len(names) != 2 or not all(isinstance(name, ir.FlatSymbolRefAttr) for name in names):
        raise ShardingError(f"{STAGES} is {named}: expected the names of two stages")
    if "cluster" not in op.attributes:
        raise ShardingError(f"has {STAGES}, and no cluster that they are parts of")
    return symbol(names[0]), symbol(names[1])


def part_offsets(transfer: ir.Operation) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the source of a transfer begins in its target, or the target in the source."""
    offsets = tuple(ints(transfer.attributes["offsets"])) if transfer.name == TRANSFER else ()
    return (offsets, ()) if len(transfer.operands) > 1 else ((), offsets)


def stages_at(function: ir.Operation, key: str) -> list[str | None]:
    """The stage of each argument or result, from `mesh.stage`. Raises `ShardingError`."""
    stages: list[str | None] = []
    for entry in boundary(function, key):
        named = entry.get(STAGE)
        if named is not None and not isinstance(named, ir.FlatSymbolRefAttr):
            raise ShardingError(f"{STAGE} is {named}: expected the name of a stage")
        stages.append(None if named is None else symbol(named))
    return stages


def check_stages(op: ir.Operation, module: ir.Operation) -> None:
    """Raise `ShardingError` unless the module declares the stages of an op or function."""
    for name in stages_named(op) or ():
        check_stage(name, module, or_grid=True)
    for key in BOUNDARY if op.name == "func.func" else ():
        for stage in stages_at(op, key):
            if stage is not None:
                check_stage(stage, module)


def check_stage(name: str, module: ir.Operation, *, or_grid: bool = False) -> None:
    """Raise `ShardingError` unless the module declares a sub-cluster, or a grid, of this name."""
    if name not in (grids_of(module) if or_grid else sub_clusters_of(module)):
        known = ", ".join(f"@{stage}" for stage in sub_clusters_of(module)) or "none"
        raise ShardingError(f"stage @{name} is not declared; the parts of grids: {known}")
