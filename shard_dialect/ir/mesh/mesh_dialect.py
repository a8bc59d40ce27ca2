"""The `mesh` dialect: the RFC's distributed tensors, defined through IRDL.

Types of the distributed form carry their sharding, and each op says one change of it:

    %1 = "mesh.all_gather"(%0) {mesh_axis = [[], [0]], tensor_axis = [1]}
           : (tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<4x8xf32>

Source: RFC "Sharding Framework Design for Device Mesh". IRDL ops print in the generic form, and an
IRDL attribute has a fixed number of parameters, so `#mesh.shard` always names its grid;
`ir.reading.source` fills it in where a file uses the RFC's short form. `mesh.irdl.mlir` defines all
of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, irdl

_DEFINITION = Path(__file__).with_name("mesh.irdl.mlir")

UPDATE_HALO = "mesh.update_halo"
"""The one op whose operand or result may have halos, but for the ops that they are made for."""

COLLECTIVES = (
    "mesh.all_gather",
    "mesh.all_reduce",
    "mesh.reduce_scatter",
    "mesh.all_to_all",
    "mesh.local_split",
    "mesh.collective_permute",
    "mesh.mask",
    UPDATE_HALO,
)
"""Ops that are the steps of a plan."""

PURE = (
    *COLLECTIVES,
    "mesh.annotate",
    "mesh.done",
    "mesh.idx",
    "mesh.propagation_barrier",
    "mesh.reshard",
    "mesh.size",
    "mesh.start",
    "mesh.to_global",
    "mesh.to_local",
)
"""Ops that may be merged and dropped, as `cse` and `canonicalize` do."""


def is_reshard(op: ir.Operation) -> bool:
    """Whether `op` is a step of a plan: it gives the tensor that it takes, lying otherwise.

    A permutation of shards that lie alike is none, it makes another tensor; nor is one that leads
    to another grid, or one of the local form.
    """
    if op.name not in COLLECTIVES or "cluster" in op.attributes:
        return False
    if op.name != "mesh.collective_permute":
        return True
    return "mesh_axis" in op.attributes and op.operands[0].type != op.results[0].type


class _NoMemoryEffect(ir.MemoryEffectsOpInterface):  # type: ignore[misc]  # untyped base
    @staticmethod
    def get_effects(op: ir.Operation, effects: ir.MemoryEffectInstancesList) -> None:
        """None: so `cse` and `canonicalize` merge and drop the op."""


class _Speculatable(ir.ConditionallySpeculatable):  # type: ignore[misc]  # untyped base
    @staticmethod
    def get_speculatability(op: ir.Operation) -> ir.Speculatability:
        return ir.Speculatability.Speculatable


Check = Callable[[ir.Operation], None]
"""Raises `ShardError` if the op is wrong."""


def load(checks: Mapping[str, Check]) -> None:
    """Define the dialect in the current context, each op verified by its entry in `checks`.

    A second call in the same context does nothing.
    """
    context = ir.Context.current
    if context.is_dialect_loaded("mesh"):
        return
    irdl.load_dialects(ir.Module.parse(_DEFINITION.read_text()))
    for name, check in checks.items():
        ir.DynamicOpTrait.attach(name, _verifier(check))
    for name in PURE:
        _NoMemoryEffect.attach(name)
        _Speculatable.attach(name)


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
            return True  # it is not as IRDL defines it, whose turn to say so is next
        return True

    return type(
        "Verifier", (ir.DynamicOpTrait,), {"verify_invariants": staticmethod(verify_invariants)}
    )
