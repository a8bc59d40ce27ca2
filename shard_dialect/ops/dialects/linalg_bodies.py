"""The bodies of `linalg` ops on shards: they use global indices, and ignore padding.

    %i = linalg.index 0                      of a loop that is split
    %s = arith.addf %in, %out                of a sum over a loop whose shards are uneven
    linalg.yield %s

becomes

    %j = linalg.index 0
    %i = arith.addi %j, %begin
    %s = arith.addf %in, %out
    %is_held = arith.cmpi slt, %j, %count
    %t = arith.select %is_held, %s, %out
    linalg.yield %t
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ir.building.build import create, scalar, select
from shard_dialect.ir.building.loops_and_masks import as_index, is_within
from shard_dialect.ir.walk import body, has_own_body, operations, walk
from shard_dialect.model import ShardingRule
from shard_dialect.ops.dialects.arith_math import RECORDS
from shard_dialect.ops.dialects.linalg_rules import plain_loops
from shard_dialect.ops.padding import Filling, identities
from shard_dialect.ops.partitioned_op import PartitionedOp, Shard

_Loops = dict[int, tuple[Shard, int]]
"""For each split loop, a shard that it iterates over, and the dimension."""


def partition_body(partitioned: PartitionedOp) -> None:
    """Rewrite indices, reductions and divisions of the body for one device's shard."""
    loops = _split_loops(partitioned)
    _add_begins(partitioned.op, loops)
    uneven = {loop: (shard, dim) for loop, (shard, dim) in loops.items() if shard.is_uneven(dim)}
    if uneven:
        _leave_padding(partitioned, uneven)


def _split_loops(partitioned: PartitionedOp) -> _Loops:
    split_loops: _Loops = {}
    for map_, shard in zip(_maps(partitioned.op), partitioned.operands, strict=True):
        for dim, expr in enumerate(map_.results):
            if shard is not None and isinstance(expr, ir.AffineDimExpr) and shard.is_split(dim):
                split_loops.setdefault(expr.position, (shard, dim))
    return split_loops


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    return [attribute.value for attribute in linalg_queries.get_indexing_maps(op) or ()]


def _add_begins(op: ir.Operation, loops: _Loops) -> None:
    """Turn each local index of a split loop into the global index."""
    begins: dict[int, ir.Value] = {}
    for inner in [each for each in walk(op) if each.name == "linalg.index"]:
        loop = inner.attributes["dim"].value
        if loop not in loops:
            continue
        if loop not in begins:
            shard, dim = loops[loop]
            with ir.InsertionPoint(op), op.location:
                begins[loop] = as_index(shard.begin(dim))
        with ir.InsertionPoint.after(inner), inner.location:
            index = inner.results[0]
            shifted = create("arith.addi", [index.type], [index, begins[loop]])
        index.replace_all_uses_except(shifted.results[0], shifted)


def _leave_padding(partitioned: PartitionedOp, uneven: _Loops) -> None:
    """Keep padding out of reductions, and from ops that could end the program."""
    op, block = partitioned.op, body(partitioned.op)
    kept = plain_loops(_maps(op)[len(partitioned.operands) - len(partitioned.results) :])
    reduced = [loop for loop in uneven if loop not in kept]
    traps = [inner for inner in walk(op) if inner.name in HARMLESS]
    if not reduced and not traps:
        return
    with ir.InsertionPoint(op), op.location:
        counts = {loop: as_index(shard.end(dim)) for loop, (shard, dim) in uneven.items()}
    if traps:
        with ir.InsertionPoint.at_block_begin(block), op.location:
            is_held = is_within(counts)
        for inner in traps:
            _avoid(inner, is_held)
    if reduced:
        end = operations(block)[-1]
        inits = list(block.arguments)[len(block.arguments) - len(partitioned.results) :]
        with ir.InsertionPoint(end), op.location:
            is_held = is_within({loop: counts[loop] for loop in reduced})
            for number, init in enumerate(inits):
                end.operands[number] = select(is_held, end.operands[number], init)


def _avoid(op: ir.Operation, is_held: ir.Value) -> None:
    """Give an op a harmless second operand in padding, where it could end the program."""
    divisor = op.operands[1]
    with ir.InsertionPoint(op), op.location:
        harmless = scalar(ir.IntegerAttr.get(divisor.type, HARMLESS[op.name]))
        op.operands[1] = select(is_held, divisor, harmless)


HARMLESS = {
    name: record.harmless for name, record in RECORDS.items() if record.harmless is not None
}
"""Ops that end the program for some second operands, each with a harmless one."""
_LOADS = ("tensor.extract", "memref.load")
_CASTS = ("arith.extf", "arith.extsi", "arith.extui", "arith.sitofp", "arith.uitofp")


def may_be_padded(op: ir.Operation, _: ShardingRule) -> bool:
    """Whether the op's body may compute padding elements without harm."""
    inside = walk(op) if has_own_body(op.name) else _inside(op)
    names = {inner.name for inner in inside}
    if names & set(_LOADS):
        return False
    return has_own_body(op.name) or not names & set(HARMLESS)


def padding(op: ir.Operation, rule: ShardingRule) -> list[Filling] | None:
    """The contents of reduced operands' padding; `None` where no value is known.

    A named op must add up products. Other bodies ignore padding themselves (`partition_body`).
    """
    if has_own_body(op.name):
        return []
    return identities(op, rule) if _is_product(op, rule) else None


def _inside(op: ir.Operation) -> list[ir.Operation]:
    has_one = len(op.regions) > 0 and len(op.regions[0].blocks) > 0
    return operations(body(op)) if has_one else []


def _is_product(op: ir.Operation, rule: ShardingRule) -> bool:
    """Whether a body adds up products of elements of tensors that all have the reduced factors."""
    names = [inner.name for inner in _inside(op)]
    reduced = frozenset(rule.reduction_of)
    inputs = [dims or () for number, dims in enumerate(rule.operands) if number not in rule.inits]
    covers_all = all(reduced <= {factor for dim in dims for factor in dim} for dims in inputs)
    computing = [name for name in names if name not in _CASTS]
    products = (["arith.mulf", "arith.addf"], ["arith.muli", "arith.addi"])
    return covers_all and computing[:-1] in products
