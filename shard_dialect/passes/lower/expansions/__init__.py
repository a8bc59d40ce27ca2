"""Expand ops, most of StableHLO, that upstream converts wrongly or not at all. A step of `lower`.

Each module has functions that create the expansion of an op at the insertion point, and return the
values of its results; these are the op's own if it stays. Some run before upstream's conversion,
which then converts the ops that they create. Others run after it, and create loops on buffers for
the ops that it left, whose regions it has converted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import from_mlir, located, location_text
from shard_dialect.ir.walk import walk
from shard_dialect.ops.dialects.mesh_rules import erase_roll
from shard_dialect.ops.op_record import LoweringFunction, OpRecord
from shard_dialect.ops.op_table import has_own_lowering, record_of
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED


@needs(ops=("mesh.roll",))
def expand_rolls(module: ir.Operation) -> None:
    """Replace each roll by slices of its operand, which are joined."""
    for op in [each for each in walk(module) if each.name == "mesh.roll"]:
        with located(op):
            erase_roll(op)


@needs(forms=NOT_LOWERED)
def expand_ops(module: ir.Operation) -> Outcome:
    """Expand to other ops, before upstream's conversion; users' own ops by their records."""
    return _expand(module, [(op, record.lowering) for op, record in _recorded(module)])


@needs(forms=NOT_LOWERED)
def expand_registered_ops(
    module: ir.Operation, facet: Literal["python", "stablehlo", "lowering"] = "stablehlo"
) -> Outcome:
    """Expand users' own ops by their records; for Python, all ops.

    Those that another facet writes stay.
    """
    return _expand(
        module,
        (
            (op, record.lowering)
            for op, record in _recorded(module)
            if (facet == "python" or has_own_lowering(op.name))
            and (
                facet == "lowering"
                or not (getattr(record, facet) or getattr(record.scalar_function, facet, ""))
            )
        ),
    )


@needs(forms=NOT_LOWERED)
def expand_to_loops(module: ir.Operation) -> Outcome:
    """Expand to loops, right before bufferization, which must see what the loops read.

    The passes before that would fold a buffer that loops fill into the op that reads it.
    """
    return _expand(module, [(op, record.loops) for op, record in _recorded(module)])


def _recorded(module: ir.Operation) -> Iterator[tuple[ir.Operation, OpRecord]]:
    return ((op, record) for op in walk(module) if (record := record_of(op)))


def _expand(
    module: ir.Operation, found: Iterable[tuple[ir.Operation, LoweringFunction | None]]
) -> Outcome:
    ops = [(op, expansion) for op, expansion in found if expansion]
    if not ops:
        return UNCHANGED
    for dialect in _MADE:
        ir.Context.current.dialects[dialect]  # loads it
    of_users: dict[str | None, str] = {}
    for op, expansion in reversed(ops):
        if has_own_lowering(op.name):
            of_users[location_text(op.location)] = op.name
        with ir.InsertionPoint(op), op.location:
            values = expansion(op)
        if list(values) == list(op.results):
            continue
        replace_op(op, *values)
    if of_users:
        _verify(module, of_users)
    return None


_MADE = ("arith", "bufferization", "complex", "linalg", "math", "memref", "scf", "tensor")
"""The dialects of the ops that expansions make."""


def _verify(module: ir.Operation, of_users: Mapping[str | None, str]) -> None:
    """Raise a `ShardError` that names the lowering where one that is a user's made invalid IR."""
    try:
        module.verify()
    except ir.MLIRError as error:
        found = from_mlir(error)
        name = of_users.get(found.location)
        if name is None:
            raise found from None
        message = f"the lowering of '{name}' made invalid IR: {found.message}"
        raise ShardError(message, found.location, found.notes, found.further) from None
