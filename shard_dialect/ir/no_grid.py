"""Modules that declare no grid: they have no sharding, so that the passes have nothing to do."""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import BOUNDARY, boundary
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.verify import verify
from shard_dialect.ir.walk import walk

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
