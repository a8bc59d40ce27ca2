"""The `mesh` dialect: the RFC's distributed tensors, defined through IRDL.

Types of the distributed form have a sharding, and each op changes it:

    %1 = "mesh.all_gather"(%0) {mesh_axis = [[], [0]]}
           : (tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<4x8xf32>

Source: RFC "Sharding Framework Design for Device Mesh". MLIR prints IRDL ops in the generic form;
`opt --mesh-pretty` prints the RFC's spelling, and both are read. An IRDL attribute has a fixed
number of parameters, so `#mesh.shard` always names its grid; `ir.reading.source` adds it where a
file uses the RFC's short form. `mesh.irdl.mlir` is the definition.

Beyond the RFC, `mesh.idx` and `mesh.size` take a list, `mesh_axis`, beside its `axis`, since a
group may be along several axes. `permutation` says where a `mesh.collective_permute` along axes
sends shards, which the RFC leaves open. An `all_gather` may name its dimensions (`tensor_axis`), as
one of the RFC's examples does; its `mesh_axis` says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, irdl
from shard_dialect.ir.mesh.attributes import STAGES

_DEFINITION = Path(__file__).with_name("mesh.irdl.mlir")

NAME = "mesh"

UPDATE_HALO = "mesh.update_halo"
"""The collective whose operand may have halos."""
CHANGE_OFFSETS = "mesh.change_offsets"
LOCAL_SPLIT = "mesh.local_split"
TRANSFER = "mesh.transfer"
"""What passes a part of a tensor to another stage."""

COLLECTIVES = (
    "mesh.all_gather",
    "mesh.all_reduce",
    "mesh.reduce_scatter",
    "mesh.all_to_all",
    LOCAL_SPLIT,
    "mesh.collective_permute",
    "mesh.mask",
    UPDATE_HALO,
    CHANGE_OFFSETS,
)
"""The ops that are steps of reshard plans."""

PURE = (
    *COLLECTIVES,
    "mesh.annotate",
    "mesh.done",
    "mesh.idx",
    "mesh.propagation_barrier",
    "mesh.reshard",
    "mesh.roll",
    "mesh.size",
    "mesh.start",
    "mesh.to_global",
    "mesh.to_local",
    TRANSFER,
)
"""Ops that may be merged and dropped, as `cse` and `canonicalize` do."""


def is_reshard(op: ir.Operation) -> bool:
    """Whether `op` is a step of a reshard plan: it returns its operand in another sharding.

    A permutation that keeps the sharding is not, since it makes another tensor. Nor is one to
    another grid, or an op of the local form.
    """
    if op.name not in COLLECTIVES or "cluster" in op.attributes:
        return False
    if op.name != "mesh.collective_permute":
        return True
    return "mesh_axis" in op.attributes and op.operands[0].type != op.results[0].type


def permutes_shards(op: ir.Operation) -> bool:
    """Whether `op` is of the distributed form and makes another tensor, of the same shards.

    A transfer between stages, which names these, is not.
    """
    return (
        op.name == "mesh.collective_permute"
        and "mesh_axis" in op.attributes
        and "cluster" not in op.attributes
        and STAGES not in op.attributes
        and op.operands[0].type == op.results[0].type
    )


class _NoMemoryEffect(ir.MemoryEffectsOpInterface):  # type: ignore[misc]  # untyped base
    @staticmethod
    def get_effects(op: ir.Operation, effects: ir.MemoryEffectInstancesList) -> None:
        """Report no effects, so that `cse` and `canonicalize` may merge and drop the op."""


class _Speculatable(ir.ConditionallySpeculatable):  # type: ignore[misc]  # untyped base
    @staticmethod
    def get_speculatability(op: ir.Operation) -> ir.Speculatability:
        return ir.Speculatability.Speculatable


Check = Callable[[ir.Operation], None]
"""Raises `ShardError` if the op is invalid."""


def load(checks: Mapping[str, Check]) -> None:
    """Define the dialect in the current context, each op verified by its entry in `checks`.

    A second call in the same context does nothing.
    """
    context = ir.Context.current
    if context.is_dialect_loaded(NAME):
        return
    irdl.load_dialects(ir.Module.parse(_definition()))
    for name, check in checks.items():
        ir.DynamicOpTrait.attach(name, _verifier(check))
    for name in PURE:
        _NoMemoryEffect.attach(name)
        _Speculatable.attach(name)


@cache
def _definition() -> str:
    return _DEFINITION.read_text()


@cache
def _verifier(check: Check) -> type:
    def verify_invariants(view: ir.OpView) -> bool:
        op = view.operation
        try:
            check(op)
        except ShardError as error:
            op.location.emit_error(f"'{op.name}' op {error.message}")
            return False
        except RuntimeError:
            op.location.emit_error(f"'{op.name}' op holds a string that is not UTF-8")
            return False
        except (AttributeError, IndexError, KeyError):
            return True  # it does not match its IRDL definition, whose verifier runs next
        return True

    return type(
        "Verifier", (ir.DynamicOpTrait,), {"verify_invariants": staticmethod(verify_invariants)}
    )
