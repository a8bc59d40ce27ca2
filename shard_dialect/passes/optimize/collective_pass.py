"""The base class of the passes on collectives: try a rewrite at each reshard until none helps."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.mesh.mesh_collectives import read_collective
from shard_dialect.ir.mesh.mesh_dialect import COLLECTIVES, is_reshard
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.materialize.sharding_casts import remove_casts
from shard_dialect.passes.materialize.type_consistency import check_shardable
from shard_dialect.passes.optimize.change_op_sharding import is_used


@dataclass(frozen=True)
class CollectivePass(Pass):
    """A rewrite of the distributed form, tried at each reshard until none helps."""

    def rewrite(self, module: ir.Operation) -> None:
        """Apply the rewrite to each function in the distributed form."""
        shardings = Shardings.of(module)
        for handle in functions_of(module):
            if form_of(handle) == "distributed":
                remove_casts(handle)
                check_shardable(handle, shardings)
                self.improve(handle, shardings)

    def improve(self, function: ir.Operation, shardings: Shardings) -> bool:
        """Rewrite `function` while that helps; return whether anything changed."""
        ever, again = False, True
        while again:
            again = False
            for op in walk(function):
                again |= self._try(op, shardings)
            drop_unused(function)
            ever |= again
        return ever

    def _try(self, op: ir.Operation, shardings: Shardings) -> bool:
        return is_reshard(op) and is_used(op.results[0]) and self.improve_at(op, shardings)

    @abstractmethod
    def improve_at(self, reshard: ir.Operation, shardings: Shardings) -> bool:
        """Try the rewrite at one reshard; return whether it was applied.

        The replaced ops stay, without uses.
        """


def drop_unused(function: ir.Operation) -> None:
    """Erase reshards, constants and empty or filled tensors without uses."""
    for op in reversed(walk(function)):
        if op.name in (*COLLECTIVES, "arith.constant", "tensor.empty", "linalg.fill") and not any(
            is_used(result) for result in op.results
        ):
            op.erase()


def sources(reshard: ir.Operation) -> tuple[Sharding, Sharding]:
    """The source and the target sharding of a reshard."""
    collective = read_collective(reshard)
    return collective.source, collective.target
