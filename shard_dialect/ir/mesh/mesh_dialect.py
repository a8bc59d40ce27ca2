"""The `mesh` dialect: the RFC's distributed tensors, defined through IRDL.

Types of the distributed form have a sharding, and each op changes it:

    %1 = "mesh.all_gather"(%0) {mesh_axis = [[], [0]]}
           : (tensor<4x8xf32, #mesh.shard<@g, [[], [0]]>>) -> tensor<4x8xf32>

Source: RFC "Sharding Framework Design for Device Mesh". MLIR prints IRDL ops in the generic form,
`opt` in the RFC's spelling (but for the local form), and both are read. Beyond the RFC are the list
`mesh_axis` of `mesh.idx` and `mesh.size`, and the `permutation` of a `mesh.collective_permute`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from shard_dialect.collectives.collective_record import Kind, Spelling
from shard_dialect.collectives.collective_table import DISTRIBUTED, ops_of_mesh
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir, irdl
from shard_dialect.ir.mesh.attributes import STAGES

_DEFINITION = Path(__file__).with_name("mesh.irdl.mlir")

NAME = "mesh"

UPDATE_HALO = "mesh.update_halo"
"""The collective whose operand may have halos."""
LOCAL_SPLIT = "mesh.local_split"
TRANSFER = "mesh.transfer"
"""The op that passes a part of a tensor to another stage."""

COLLECTIVES = DISTRIBUTED
"""The ops that are steps of reshard plans."""

PURE = (
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
"""Ops that may be merged and dropped, as `cse` and `canonicalize` do; so may all steps."""


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
    irdl.load_dialects(ir.Module.parse(definition()))
    for name, check in checks.items():
        ir.DynamicOpTrait.attach(name, _verifier(check))
    for name in (*PURE, *ops_of_mesh()):
        _NoMemoryEffect.attach(name)
        _Speculatable.attach(name)


def definition() -> str:
    """The dialect in IRDL: what its file has, and the ops of steps."""
    steps = "".join(map(_definition, ops_of_mesh().values()))
    return _text().rstrip().removesuffix("}") + steps + "}\n"


@cache
def _text() -> str:
    return _DEFINITION.read_text()


_BASES: dict[Kind, str] = {
    **dict.fromkeys(("axes", "split", "list"), 'irdl.base "#builtin.array"'),
    **dict.fromkeys(("number", "dimension", "axis"), 'irdl.base "#builtin.integer"'),
    "name": 'irdl.base "#builtin.string"',
}
"""The IRDL constraint of an attribute of a kind."""


def _definition(step: Spelling) -> str:
    """The op of a step, from one tensor to another."""
    required = {
        name: _BASES.get(kind, "irdl.any")
        for name, (kind, _) in step.attributes.items()
        if name not in step.optional
    }
    optional = f" [{', '.join(step.optional)}]" if step.optional else ""
    bases = "".join(f"    %{name} = {base}\n" for name, base in required.items())
    listed = ", ".join(f'"{name}" = %{name}' for name in required)
    attributes = f"    irdl.attributes {{{listed}}}\n" if required else ""
    return f"""  // {step.summary}{optional}
  irdl.operation {as_symbol(step.name.removeprefix("mesh."))} {{
    %from = irdl.any
    %to = irdl.any
{bases}    irdl.operands(source: %from)
{attributes}    irdl.results(result: %to)
  }}
"""


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
