"""The names that values have where their module is printed: `%3`, `%arg0`.

A file in upstream's `shard` vocabulary is printed in it, and there annotations have no numbers:

    mesh     %0 = mesh.annotate %x        %1 = math.tanh %0
    shard    %sharding_annotated = ...    %0 = math.tanh %sharding_annotated
"""

from __future__ import annotations

from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.walk import is_made_by, walk

PrintedAs = Literal["mesh", "shard"]
_ANNOTATE = "mesh.annotate"


def printed_names(module: ir.Operation, printed_as: PrintedAs) -> dict[ir.Value, str]:
    """Each value's name; in `shard`, annotations have none."""
    if printed_as == "mesh":
        state = ir.AsmState(module)
        return {each: each.get_name(state) for each in _values_of(module)}
    copy = module.clone()
    values = zip(_values_of(module), _values_of(copy), strict=True)
    pairs = [pair for pair in values if not _is_annotated(pair[0])]
    for op in walk(copy):
        if op.name == _ANNOTATE:
            replace_op(op, op.operands[0])
    state = ir.AsmState(copy)
    return {original: each.get_name(state) for original, each in pairs}


def _values_of(module: ir.Operation) -> list[ir.Value]:
    values: list[ir.Value] = []
    for op in walk(module):
        values += op.results
        values += [each for region in op.regions for block in region for each in block.arguments]
    return values


def _is_annotated(value: ir.Value) -> bool:
    return is_made_by(value, _ANNOTATE)
