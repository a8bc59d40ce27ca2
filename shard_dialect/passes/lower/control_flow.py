"""Bring control flow to a form that upstream's passes can lower. Steps of `lower`.

`control-flow-to-scf` makes StableHLO's control flow `scf`'s:

    stablehlo.while(%a = %x) cond { return %p } do { return %b }
        scf.while (%a = %x) { condition(%p) %a } do { yield %b }, or scf.for, if it is counted,
        or the ops of each trip, if these are few and on elements
    stablehlo.case(%i) { ... }, { ... }      scf.index_switch, the last branch the default
    stablehlo.if(%p) { ... } else { ... }    scf.if
    stablehlo.optimization_barrier           nothing: no later pass moves ops past it

`keep-endless-loops` gives each iteration of an `scf.while` a side effect that compiles to no code,
with the number of trips where it is known (`mesh.trips`). Upstream's passes assume that loops end,
and drop a loop without side effects. If the loop never ends, the program would then return results
that nothing has written:

    scf.while ... { condition(%p) }
        scf.while ... { llvm.inline_asm has_side_effects "", "" condition(%p) }

`switches-to-ifs` nests ifs instead of a switch, each in the else of the one before, since
one-shot-bufferize overlooks that the branches of a switch write to one buffer.

`copy-loop-carried` copies loop-carried values of `scf.while` and of deeply nested loops to new
memory:

    scf.while (%a = %init) ... do {          scf.while (%a = %init) ... do {
      scf.yield %x                             %c = bufferization.alloc_tensor() copy(%x)
    }                                          scf.yield %c
                                             }

Upstream's bufferization assumes that `%a` has its own memory, and may write to it. Without the copy
that is the memory of `%x`, which the next iteration may read, or even the caller's. A value that is
written in the body, or in place over the loop-carried value of its number, needs no copy.

To find the memory of a loop-carried tensor, upstream analyzes its initial and its yielded value
recursively: in nested `scf.for`, each level doubles the time. A copy ends the recursion; one in
every few levels is enough.

Nor does upstream see that an `scf.for` which yields one value twice has two results in one memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import copy_along, replace_op, replace_values
from shard_dialect.ir.mesh.attributes import TRIPS
from shard_dialect.ir.reading.constants import Counter, counter_of, trips_of
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.passes.framework.base import needs
from shard_dialect.passes.lower.boundary import NOT_LOWERED
from shard_dialect.passes.lower.buffers import INTO

_EFFECT = "llvm.inline_asm"
"""An empty op with a side effect, which upstream's bufferization accepts."""


@needs(ops=("scf.while",), forms=NOT_LOWERED)
def keep_endless_loops(module: ir.Operation) -> None:
    """Add the side effect to each `scf.while`, so that no pass drops one that never ends."""
    for op in [each for each in walk(module) if each.name == "scf.while"]:
        _keep(op, None)


def _keep(op: ir.Operation, trips: int | None) -> None:
    """Add the side effect to an `scf.while`, with how often the loop runs, if that is known."""
    *others, end = operations(op.regions[0].blocks[0])
    if any(each.name == _EFFECT for each in others):
        return
    ir.Context.current.dialects["llvm"]  # loads it
    attributes: dict[str, ir.Attribute] = {
        "asm_string": ir.StringAttr.get(""),
        "constraints": ir.StringAttr.get(""),
        "has_side_effects": ir.UnitAttr.get(),
    }
    if trips is not None:
        attributes[TRIPS] = build.i64(trips)
    with ir.InsertionPoint(end), end.location:
        build.create(_EFFECT, [], [], attributes)


def for_llvm(module: ir.Operation) -> None:
    """In the LLVM dialect, express the side effect in a way that hinders no optimization.

    Calls of `llvm.sideeffect` compile to no code; they only keep loops.
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


@needs(ops=("scf.index_switch",), forms=NOT_LOWERED)
def switches_to_ifs(module: ir.Operation) -> None:
    """Convert every `scf.index_switch`, inner ops first."""
    for op in reversed([each for each in walk(module) if each.name == "scf.index_switch"]):
        default, *regions = op.regions
        cases = list(op.attributes["cases"])
        if cases:
            with ir.InsertionPoint(op), op.location:
                values = _ifs(op, cases, regions).results
        else:
            values = build.inline_before(op, default.blocks[0])
        replace_op(op, *values)


def _ifs(op: ir.Operation, cases: Sequence[int], regions: Sequence[ir.Region]) -> ir.Operation:
    """An `scf.if` for the first of some cases of a switch, with the others in its else branch."""
    is_case = build.compare("eq", op.operands[0], build.index(cases[0]))
    types = [result.type for result in op.results]
    if_op = build.create("scf.if", types, [is_case], regions=2)
    regions[0].blocks[0].append_to(if_op.regions[0])
    if len(cases) == 1:
        op.regions[0].blocks[0].append_to(if_op.regions[1])
        return if_op
    with ir.InsertionPoint(if_op.regions[1].blocks.append()):
        build.create("scf.yield", [], list(_ifs(op, cases[1:], regions[1:]).results))
    return if_op


def _scalar(value: ir.Value) -> ir.Value:
    """The one element of a tensor."""
    return build.create_value("tensor.extract", value.type.element_type, [value])


def _move(op: ir.Operation, to: ir.Operation) -> None:
    """Move the blocks of each region of `op` to those of `to`."""
    for old, new in zip(op.regions, to.regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)


def _end(
    block: ir.Block, name: str, operands: Callable[[Sequence[ir.Value]], list[ir.Value]]
) -> None:
    """Replace the terminator of a block by one on what `operands` returns for its operands."""
    end = operations(block)[-1]
    with ir.InsertionPoint(end), end.location:
        build.create(name, [], operands(list(end.operands)))
    end.erase()


def _while(op: ir.Operation) -> Sequence[ir.Value]:
    counter = counter_of(op)
    if counter is not None and op.results[counter.place].type.element_type.is_signless:
        return _unrolled(op, counter) if _is_short(op, counter) else _for(op, counter)
    types, trips = [result.type for result in op.results], trips_of(op)
    while_op = build.create("scf.while", types, list(op.operands), regions=2)
    _move(op, while_op)
    before, after = (region.blocks[0] for region in while_op.regions)
    _end(before, "scf.condition", lambda values: [_scalar(values[0]), *before.arguments])
    _end(after, "scf.yield", list)
    _keep(while_op, trips)
    return list(while_op.results)


_FEW, _CHEAP = 8, 512
"""The most trips of a loop that is unrolled, and the most ops that it becomes."""


def _is_short(op: ir.Operation, counter: Counter) -> bool:
    """Whether the ops of all trips are few, and can share loops over elements.

    JAX draws random bits in five trips, each of which would read and write all of them.
    """
    *inside, _ = operations(op.regions[1].blocks[0])
    is_small = counter.trips <= _FEW and counter.trips * len(inside) <= _CHEAP
    return is_small and all(
        any(trait in traits_of(each.name) for trait in _OF_ELEMENTS) for each in inside
    )


_OF_ELEMENTS = (Trait.ELEMENTWISE, Trait.CONSTANT, Trait.REPEATS, Trait.RESHAPES, Trait.SLICES)


def _unrolled(op: ir.Operation, counter: Counter) -> Sequence[ir.Value]:
    """The results of a counted loop, of which each trip follows on the one before."""
    block = op.regions[1].blocks[0]
    *inside, end = operations(block)
    now, type_ = list(op.operands), op.results[counter.place].type
    for number in range(counter.first, counter.past, counter.step):
        now[counter.place] = _as_tensor(build.index(number), type_)
        of = dict(zip(block.arguments, now, strict=True))
        for each in inside:
            copy_along(each, of)
        now = [of.get(each, each) for each in end.operands]
    now[counter.place] = _as_tensor(build.index(counter.past), type_)
    return now


def _for(op: ir.Operation, counter: Counter) -> Sequence[ir.Value]:
    """A counted loop, whose carried values upstream keeps in place more often than a `while`'s."""
    place, old = counter.place, op.regions[1].blocks[0]

    def others(values: Sequence[ir.Value]) -> list[ir.Value]:
        return [value for number, value in enumerate(values) if number != place]

    inits = others(op.operands)
    bounds = [build.index(each) for each in (counter.first, counter.past, counter.step)]
    types = [init.type for init in inits]
    loop = build.create("scf.for", types, [*bounds, *inits], regions=1)
    types = [ir.IndexType.get(), *types]
    new = loop.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
    for each in operations(old):
        new.append(each)
    _end(new, "scf.yield", others)
    with ir.InsertionPoint.at_block_begin(new):
        counted = _as_tensor(new.arguments[0], op.results[place].type)
    arguments = [counted, *list(new.arguments)[1:]]
    arguments.insert(place, arguments.pop(0))
    replace_values(old.arguments, arguments)
    results = list(loop.results)
    results.insert(place, _as_tensor(build.index(counter.past), op.results[place].type))
    return results


def _as_tensor(index: ir.Value, type_: ir.RankedTensorType) -> ir.Value:
    number = build.cast("arith.index_cast", index, type_.element_type)
    return build.create_value("tensor.from_elements", type_, [number])


def _if(op: ir.Operation) -> Sequence[ir.Value]:
    types = [result.type for result in op.results]
    if_op = build.create("scf.if", types, [_scalar(op.operands[0])], regions=2)
    _move(op, if_op)
    _end_all(if_op)
    return list(if_op.results)


def _case(op: ir.Operation) -> Sequence[ir.Value]:
    types = [result.type for result in op.results]
    scalar = _scalar(op.operands[0])
    index = build.to_index(scalar)
    switch, regions = build.index_switch(index, types, len(op.regions))
    for old, new in zip(op.regions, regions, strict=True):
        for block in list(old.blocks):
            block.append_to(new)
    _end_all(switch)
    return list(switch.results)


def _end_all(op: ir.Operation) -> None:
    for region in op.regions:
        _end(region.blocks[0], "scf.yield", list)


def _barrier(op: ir.Operation) -> Sequence[ir.Value]:
    return list(op.operands)


_CONVERT: dict[str, Callable[[ir.Operation], Sequence[ir.Value]]] = {
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.while": _while,
}


@needs(ops=("scf.while", *_CONVERT), forms=NOT_LOWERED)
def control_flow_to_scf(module: ir.Operation) -> None:
    """Convert StableHLO's control flow to `scf`, and keep loops that may never end."""
    _convert(module)
    keep_endless_loops(module)


def _convert(module: ir.Operation) -> None:
    """Convert the control flow, inner ops first."""
    ops = [op for op in walk(module) if op.name in _CONVERT]
    if ops:
        ir.Context.current.dialects["scf"]  # loads it
        ir.Context.current.dialects["tensor"]
    for op in reversed(ops):
        with ir.InsertionPoint(op), op.location:
            values = _CONVERT[op.name](op)
        replace_op(op, *values)


_FRESH = ("bufferization.alloc_tensor", "tensor.empty")
_MAKES_ANEW = ("arith.", "math.", "shard.")
"""Dialects whose ops write to new memory, or over memory that nothing reads any more."""


_LEVELS = 6
"""The number of nested loops that upstream analyzes without a copy."""


@needs(ops=("scf.",), forms=NOT_LOWERED)
def copy_loop_carried(module: ir.Operation) -> None:
    """Insert the copies that bufferization needs."""
    for op in walk(module):
        if op.name == "scf.while":
            _copy(op)
        elif op.name == "scf.for":
            _copy_repeated(op)
            if _depth(op) % _LEVELS == _LEVELS - 1:
                _copy_inits(op)


def _depth(loop: ir.Operation) -> int:
    """The number of loops around a loop."""
    depth, around = 0, loop.parent
    while around is not None:
        depth += around.name == "scf.for"
        around = around.parent
    return depth


def _copy_inits(loop: ir.Operation) -> None:
    with ir.InsertionPoint(loop), loop.location:
        for number, value in enumerate(loop.operands):
            if isinstance(value.type, ir.RankedTensorType):
                copy = build.allocate_copy(value)
                copy.owner.attributes["memory_space"] = build.i64(0)
                loop.operands[number] = copy


def _copy_repeated(loop: ir.Operation) -> None:
    """Copy a value that a loop yields a second time, so that no two results share memory."""
    end = operations(body(loop))[-1]
    seen: list[ir.Value] = []
    for number, value in enumerate(end.operands):
        if isinstance(value.type, ir.RankedTensorType) and value in seen:
            with ir.InsertionPoint(end), end.location:
                end.operands[number] = build.allocate_copy(value)
        seen.append(value)


def _copy(loop: ir.Operation) -> None:
    before, after = (region.blocks[0] for region in loop.regions)
    forwarded = list(operations(before)[-1].operands)[1:]
    end = operations(after)[-1]
    seen: list[ir.Value] = []
    for number, value in enumerate(end.operands):
        if not isinstance(value.type, ir.RankedTensorType):
            continue
        carried = None
        if number < len(forwarded) and forwarded[number] == before.arguments[number]:
            carried = after.arguments[number]
        if value in seen or not _has_own(value, carried, after):
            with ir.InsertionPoint(end), end.location:
                end.operands[number] = build.allocate_copy(value)
        seen.append(value)


def _has_own(value: ir.Value, carried: ir.Value | None, block: ir.Block) -> bool:
    """Whether `value` will be in the memory of `carried`, or in memory allocated in the block."""
    while carried is None or value != carried:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.block != block:
            return False
        op = owner.operation
        if op.name in _FRESH or op.name.startswith(_MAKES_ANEW):
            return True
        if op.name in INTO:
            value = op.operands[INTO[op.name]]
        elif op.name.startswith("linalg."):
            number = next(number for number, each in enumerate(op.results) if each == value)
            value = op.operands[len(op.operands) - len(op.results) + number]
        else:
            return False
    return True
