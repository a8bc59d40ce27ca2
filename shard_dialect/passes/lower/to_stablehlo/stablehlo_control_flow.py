"""Control flow of `scf` as StableHLO's.

scf.for        stablehlo.while that counts
scf.while      stablehlo.while, whose second half runs only if its first half says so
scf.if         stablehlo.if
scf.index_switch     stablehlo.case
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create, inline_before, integer, replace_op
from shard_dialect.ir.walk import operations, walk

ConvertBlock = Callable[[ir.Block], ir.Operation]
"""Converts the ops of a block but the last, and returns that."""


def _filled(
    block: ir.Block, source: ir.Block, arguments: Sequence[ir.Value], convert: ConvertBlock
) -> list[ir.Value]:
    """Move the ops of `source` to the end of `block`, with these tensors as its arguments.

    Returns the operands of the last op.
    """
    with ir.InsertionPoint(block):
        for old, new in zip(source.arguments, arguments, strict=True):
            old.replace_all_uses_with(hlo.as_type(new, old.type))
    for op in operations(source):
        block.append(op)
    last = convert(block)
    values = hlo.tensors_of(last.operands)
    last.erase()
    return values


def _new_block(region: ir.Region, types: Sequence[ir.Type], location: ir.Location) -> ir.Block:
    return region.blocks.append(*types, arg_locs=[location] * len(types))


def _for(op: ir.Operation, convert: ConvertBlock) -> list[ir.Value]:
    low, high, step, *inits = hlo.tensors_of(op.operands)
    types = [each.type for each in (low, *inits)]
    loop = create("stablehlo.while", types, [low, *inits], {}, 2)
    condition, body = (_new_block(region, types, op.location) for region in loop.regions)
    with ir.InsertionPoint(condition), op.location:
        hlo.ends([hlo.compare("LT", condition.arguments[0], high)])
    with op.location:
        values = _filled(body, op.regions[0].blocks[0], list(body.arguments), convert)
        with ir.InsertionPoint(body):
            counter = body.arguments[0]
            hlo.ends([hlo.stablehlo_op("add", counter.type, [counter, step]), *values])
    return list(loop.results)[1:]


def _while(op: ir.Operation, convert: ConvertBlock) -> list[ir.Value]:
    """A loop that carries a flag to go on, the operands of its first half, and those of its second.

    `scf.while` computes before its condition, and `stablehlo.while` does not: so the first half is
    in the body, and the second in a branch of it.
    """
    before, after = (region.blocks[0] for region in op.regions)
    inits = hlo.tensors_of(op.operands)
    passed = [hlo.number(0, hlo.tensor_type(each.type)) for each in after.arguments]
    bit = hlo.tensor((), integer(1))
    carried = [hlo.number(1, bit), *inits, *passed]
    types = [each.type for each in carried]
    loop = create("stablehlo.while", types, carried, {}, 2)
    condition, body = (_new_block(region, types, op.location) for region in loop.regions)
    with ir.InsertionPoint(condition), op.location:
        hlo.ends([condition.arguments[0]])
    count = 1 + len(inits)
    with op.location:
        taken = list(body.arguments)[1:count]
        goes_on, *handed = _filled(body, before, taken, convert)
        with ir.InsertionPoint(body):
            branch = create("stablehlo.if", types[1:count], [goes_on], {}, 2)
            yes, no = (_new_block(region, [], op.location) for region in branch.regions)
            values = _filled(yes, after, handed, convert)
            with ir.InsertionPoint(yes):
                hlo.ends(values)
            with ir.InsertionPoint(no):
                hlo.ends(taken)
            hlo.ends([goes_on, *branch.results, *handed])
    return list(loop.results)[count:]


def _if(op: ir.Operation, convert: ConvertBlock) -> list[ir.Value]:
    return _branches(op, "if", hlo.tensor_of(op.operands[0]), list(op.regions), convert)


def _branches(
    op: ir.Operation,
    name: str,
    which: ir.Value,
    regions: Sequence[ir.Region],
    convert: ConvertBlock,
) -> list[ir.Value]:
    """A branch without results has no effect, and is dropped."""
    if not len(op.results):
        return []
    types = [hlo.tensor_type(each.type) for each in op.results]
    branch = create(f"stablehlo.{name}", types, [which], {}, len(regions))
    for old, new in zip(regions, branch.regions, strict=True):
        block = _new_block(new, [], op.location)
        with op.location:
            values = _filled(block, old.blocks[0], [], convert)
            with ir.InsertionPoint(block):
                hlo.ends(values)
    return list(branch.results)


def _index_switch(op: ir.Operation, convert: ConvertBlock) -> list[ir.Value]:
    """Its default is the first region, that of `stablehlo.case` the last branch."""
    default, *regions = op.regions
    value, narrow = hlo.tensor_of(op.operands[0]), hlo.tensor((), integer(32))
    which = hlo.number(len(regions), narrow)
    for position, case in enumerate(op.attributes["cases"]):
        which = hlo.select(
            hlo.compare("EQ", value, hlo.index(case)), hlo.number(position, narrow), which
        )
    return _branches(op, "case", which, [*regions, default], convert)


def inline_regions(function: ir.Operation) -> None:
    """Replace each `scf.execute_region` of one block by its ops."""
    for op in [each for each in walk(function) if each.name == "scf.execute_region"]:
        if len(op.regions[0].blocks) == 1:
            replace_op(op, *inline_before(op, op.regions[0].blocks[0]))


CONTROL_FLOW: dict[str, Callable[[ir.Operation, ConvertBlock], list[ir.Value]]] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.while": _while,
}
"""By op: the function that creates the tensors of its results."""
