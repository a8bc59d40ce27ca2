"""Control flow as upstream's passes can lower it. Part of `lower`.

From StableHLO's to `scf`'s:

stablehlo.while(%a = %x) cond { return %p } do { return %b }
    scf.while (%a = %x) { condition(%p) %a } do { yield %b }
stablehlo.case(%i) { ... }, { ... }      scf.index_switch, the last branch the default
stablehlo.if(%p) { ... } else { ... }    scf.if
stablehlo.optimization_barrier           nothing: no pass behind this one moves ops past it

Each round of an `scf.while` is made to have an effect, which is no code: upstream's passes take it
for granted that loops end, and drop one that has none. What waits for its end, and never would go
on, would then give results that nobody has written:
scf.while ... { condition(%p) }          { llvm.inline_asm has_side_effects "", "" condition(%p) }

And then, because one-shot-bufferize overlooks that the branches of a switch write to one buffer:
scf.index_switch                         scf.if in each other's else
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import operations, walk


def to_scf(function: ir.Operation) -> None:
    """Convert all of it, what is inside of other ops first."""
    found = [op for op in walk(function) if op.name in _CONVERT]
    if found:
        ir.Context.current.dialects["scf"]  # loads it
        ir.Context.current.dialects["tensor"]
    for op in reversed(found):
        with ir.InsertionPoint(op), op.location:
            values = _CONVERT[op.name](op)
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


_EFFECT = "llvm.inline_asm"
"""Empty, and an effect to all passes; one that is known, as upstream's bufferization wants it."""


def keep_endless(function: ir.Operation) -> None:
    """Have no pass drop an `scf.while`, which may go on forever. Where it is done, it stays so."""
    for op in [each for each in walk(function) if each.name == "scf.while"]:
        *others, end = operations(op.regions[0].blocks[0])
        if any(each.name == _EFFECT for each in others):
            continue
        ir.Context.current.dialects["llvm"]  # loads it
        attributes: dict[str, ir.Attribute] = {
            "asm_string": ir.StringAttr.get(""),
            "constraints": ir.StringAttr.get(""),
            "has_side_effects": ir.UnitAttr.get(),
        }
        with ir.InsertionPoint(end), end.location:
            build.create(_EFFECT, [], [], attributes)


def for_llvm(module: ir.Operation) -> None:
    """In the form for LLVM: say the effect as what hinders none of its optimizations.

    Calls of `llvm.sideeffect` are no code; they are there to keep loops.
    """
    for op in [each for each in walk(module) if _is_empty(each)]:
        attributes: dict[str, ir.Attribute] = {
            "intrin": ir.StringAttr.get("llvm.sideeffect"),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
        }
        with ir.InsertionPoint(op), op.location:
            build.create("llvm.call_intrinsic", [], [], attributes)
        op.erase()


def _is_empty(op: ir.Operation) -> bool:
    return op.name == _EFFECT and not op.operands and op.attributes["asm_string"].value == ""


def switches_to_ifs(module: ir.Operation) -> None:
    """Convert every `scf.index_switch`, what is inside of other ops first."""
    for op in reversed([each for each in walk(module) if each.name == "scf.index_switch"]):
        default, *regions = op.regions
        cases = list(op.attributes["cases"])
        if cases:
            with ir.InsertionPoint(op), op.location:
                values = _ifs(op, cases, regions).results
        else:
            *moved, end = operations(default.blocks[0])
            values = end.operands
            for each in moved:
                each.move_before(op)
        for old, new in zip(op.results, list(values), strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _ifs(op: ir.Operation, cases: Sequence[int], regions: Sequence[ir.Region]) -> ir.Operation:
    """An `scf.if` for the first of some cases of a switch, in its else those that follow."""
    is_it = build.compare("eq", op.operands[0], build.index(cases[0]))
    types = [result.type for result in op.results]
    made = build.create("scf.if", types, [is_it], regions=2)
    regions[0].blocks[0].append_to(made.regions[0])
    if len(cases) == 1:
        op.regions[0].blocks[0].append_to(made.regions[1])
        return made
    with ir.InsertionPoint(made.regions[1].blocks.append()):
        build.create("scf.yield", [], list(_ifs(op, cases[1:], regions[1:]).results))
    return made


def _scalar(value: ir.Value) -> ir.Value:
    """The one element of a tensor."""
    return build.create("tensor.extract", [value.type.element_type], [value]).results[0]


def _move(op: ir.Operation, to: ir.Operation) -> None:
    """Move the blocks of each region over."""
    for old, new in zip(op.regions, to.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)


def _end(
    block: ir.Block, name: str, operands: Callable[[Sequence[ir.Value]], list[ir.Value]]
) -> None:
    """Exchange the op that ends a block for one on what `operands` makes of its operands."""
    end = operations(block)[-1]
    with ir.InsertionPoint(end), end.location:
        build.create(name, [], operands(list(end.operands)))
    end.erase()


def _while(op: ir.Operation) -> Sequence[ir.Value]:
    types = [result.type for result in op.results]
    made = build.create("scf.while", types, list(op.operands), regions=2)
    _move(op, made)
    before, after = (region.blocks[0] for region in made.regions)
    _end(before, "scf.condition", lambda given: [_scalar(given[0]), *before.arguments])
    _end(after, "scf.yield", list)
    return list(made.results)


def _if(op: ir.Operation) -> Sequence[ir.Value]:
    types = [result.type for result in op.results]
    made = build.create("scf.if", types, [_scalar(op.operands[0])], regions=2)
    _move(op, made)
    _end_all(made)
    return list(made.results)


def _case(op: ir.Operation) -> Sequence[ir.Value]:
    types = [result.type for result in op.results]
    scalar = _scalar(op.operands[0])
    index = build.create("arith.index_cast", [ir.IndexType.get()], [scalar]).results[0]
    cases = ir.DenseI64ArrayAttr.get(list(range(len(op.regions) - 1)))
    made = build.create(
        "scf.index_switch", types, [index], {"cases": cases}, regions=len(op.regions)
    )
    default, *others = made.regions  # which stands first, and is taken where no other is
    for old, new in zip(op.regions, (*others, default), strict=True):
        for block in list(old.blocks):
            block.append_to(new)
    _end_all(made)
    return list(made.results)


def _end_all(made: ir.Operation) -> None:
    for region in made.regions:
        _end(region.blocks[0], "scf.yield", list)


def _barrier(op: ir.Operation) -> Sequence[ir.Value]:
    return list(op.operands)


_CONVERT: dict[str, Callable[[ir.Operation], Sequence[ir.Value]]] = {
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.while": _while,
}
