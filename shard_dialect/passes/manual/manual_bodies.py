"""Bodies of manual computations, made ready for propagation, and put in their place at the end.

    scf.execute_region {                        scf.execute_region {
      %a = "mesh.to_local"(%x) ...                %a = "mesh.to_local"(%x) ...
      %b = func.call @body(%a)                    %b = "stablehlo.all_reduce"(%a) ...
      %c = math.absf %k                           %l = "mesh.to_local"(%k) ... whole
      ...                                         %c = math.absf %l
    } {mesh.manual_axes = [0]}                  } {mesh.manual_axes = [0]}

What a body calls is put in its place: elsewhere the same function has other axes that are manual.
What it reads from outside as it is, as upstream's passes leave constants, is whole along them.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import annotate, create
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import boundary, form_of, functions_of, is_private, name_of
from shard_dialect.ir.mesh.annotation_ops import OPS as ANNOTATIONS
from shard_dialect.ir.mesh.attributes import MANUAL, SHARDING, i64_array, ints
from shard_dialect.ir.mesh.manual_computation import (
    EDGES,
    TO_GLOBAL,
    TO_LOCAL,
    anything,
    grid_of,
    manual_computations,
)
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.region_flow import FLOWS
from shard_dialect.ir.walk import body, operations, walk

_MOST = 10_000
"""Calls that are put in place, of one module."""


def open_bodies(module: ir.Operation) -> None:
    """Change the module; raises a located `ShardError` for a body that cannot be."""
    functions = {name_of(op): op for op in functions_of(module)}
    handles = [op for op in functions.values() if form_of(op) in ("annotated", "propagated")]
    regions = [region for handle in handles for region in manual_computations(handle)]
    if not regions:
        return
    shardings = Shardings.of(module)
    was_called: set[str] = set()
    for region in regions:
        _put_calls_in_place(region, functions, was_called)
    for handle in handles:
        for region in manual_computations(handle):  # those that were put in place, too
            with located(region):
                _drop_said_of_scalars(region)
                _take_in_what_is_read(region, shardings)
                _check_edges(region)
    _drop_unused(module, functions, was_called)


def _put_calls_in_place(
    region: ir.Operation, functions: dict[str, ir.Operation], was_called: set[str]
) -> None:
    waiting = [op for op in walk(region) if op.name == "func.call"]
    count = 0
    while waiting:
        call = waiting.pop()
        callee = str(call.attributes["callee"].value)
        if callee not in functions:
            continue
        count += 1
        if count > _MOST:
            raise error_at(
                region.location, f"a manual computation calls functions more than {_MOST} times"
            )
        was_called.add(callee)
        waiting += _inline(call, functions[callee])


def _inline(call: ir.Operation, callee: ir.Operation) -> list[ir.Operation]:
    """Put a copy of what `callee` does in the place of `call`; the calls in it."""
    copy = callee.clone(ip=ir.InsertionPoint(call)).operation
    given = list(call.operands)
    entry = body(copy)
    with ir.InsertionPoint(call), call.location:
        for place, said in enumerate(boundary(copy, "arg_attrs")):
            if SHARDING in said:
                given[place] = annotate(given[place], said[SHARDING], as_result=False)
    for argument, value in zip(list(entry.arguments), given, strict=True):
        argument.replace_all_uses_with(value)
    calls = [op for op in walk(copy) if op.name == "func.call"]
    if len(copy.regions[0].blocks) == 1:
        *inside, end = operations(entry)
        for op in inside:
            op.move_before(call)
        made = list(end.operands)
    else:
        made = _blocks_in_place(call, copy)
    with ir.InsertionPoint(call), call.location:
        for place, said in enumerate(boundary(copy, "res_attrs")):
            if SHARDING in said:
                made[place] = annotate(made[place], said[SHARDING], as_result=False)
    for result, value in zip(call.results, made, strict=True):
        result.replace_all_uses_with(value)
    call.erase()
    copy.erase()
    return calls


def _blocks_in_place(call: ir.Operation, copy: ir.Operation) -> list[ir.Value]:
    """Blocks that branch to each other, as a region of their own."""
    while len(list(body(copy).arguments)):
        body(copy).erase_argument(0)
    with ir.InsertionPoint(call), call.location:
        types = [result.type for result in call.results]
        marks = {"no_inline": ir.UnitAttr.get()}
        region = create("scf.execute_region", types, [], marks, regions=1)
    for block in list(copy.regions[0].blocks):
        block.append_to(region.regions[0])
    for block in region.regions[0].blocks:
        end = operations(block)[-1]
        if end.name == "func.return":
            with ir.InsertionPoint(end), end.location:
                create("scf.yield", [], list(end.operands))
            end.erase()
    return list(region.results)


def _drop_said_of_scalars(region: ir.Operation) -> None:
    """What is said of the scalars that a reduction joins: JAX says something of every tensor."""
    for op in walk(region):
        around = op.parent
        is_scalar = op.name in ANNOTATIONS and op.results[0].type.rank == 0
        if is_scalar and around is not None and around.name not in FLOWS:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.erase()


def _take_in_what_is_read(region: ir.Operation, shardings: Shardings) -> None:
    """Let tensors that are read from outside, and are no operands, come in whole."""
    inside = list(walk(region))
    made = [value for op in inside for value in op.results]
    made += [
        argument
        for op in inside
        for each in op.regions
        for block in each.blocks
        for argument in block.arguments
    ]
    known = set(made)
    taken: dict[ir.Value, ir.Value] = {}
    for op in inside:
        if op.name == TO_LOCAL and op.parent == region:
            continue
        for place, value in enumerate(op.operands):
            if value in known or not isinstance(value.type, ir.RankedTensorType):
                continue
            if value not in taken:
                said = anything(grid_of(region, shardings), value.type.rank)
                attributes = {
                    "sharding": shardings.write(said),
                    "manual_axes": i64_array(ints(region.attributes[MANUAL])),
                }
                with ir.InsertionPoint.at_block_begin(body(region)), op.location:
                    taken[value] = create(TO_LOCAL, [value.type], [value], attributes).results[0]
            op.operands[place] = taken[value]


def _check_edges(region: ir.Operation) -> None:
    """Tensors come in and go out at the edges only."""
    *inside, end = operations(body(region))
    for op in inside:
        if op.name == TO_LOCAL:
            owner = op.operands[0].owner
            if not isinstance(owner, ir.Block) and owner.operation.parent == region:
                raise error_at(
                    op.location,
                    f"'{TO_LOCAL}' op takes what is made in the manual computation: expected a "
                    "tensor from outside",
                )
        elif op.name == TO_GLOBAL:
            for use in op.results[0].uses:
                if use.owner.operation != end:
                    raise error_at(
                        use.owner.operation.location,
                        f"'{use.owner.operation.name}' op reads a '{TO_GLOBAL}' op, which makes "
                        "what is for outside of the manual computation",
                    )
    for value in end.operands:
        owner = value.owner
        is_made = not isinstance(owner, ir.Block) and owner.operation.name == TO_GLOBAL
        if isinstance(value.type, ir.ShapedType) and not is_made:
            raise error_at(
                end.location,
                f"'{end.name}' op gives a {value.type} from the inside of a manual computation: "
                f"only what a '{TO_GLOBAL}' op makes is for outside",
            )


def _drop_unused(
    module: ir.Operation, functions: dict[str, ir.Operation], was_called: set[str]
) -> None:
    """Drop private functions that were called by bodies only, which have what they do."""
    inside = {name: functions[name] for name in was_called if is_private(functions[name])}
    dropped = set(inside)
    waiting = [op for op in operations(body(module)) if not _is_one_of(op, inside)]
    while waiting:
        used = {name for op in waiting for name in _named_in(op)} & dropped
        dropped -= used
        waiting = [inside[name] for name in used]
    for name in dropped:
        inside[name].erase()


def _is_one_of(op: ir.Operation, functions: dict[str, ir.Operation]) -> bool:
    return op.name == "func.func" and name_of(op) in functions


def _named_in(op: ir.Operation) -> Iterator[str]:
    for each in (op, *walk(op)):
        for key in each.attributes:
            if isinstance(each.attributes[key], ir.FlatSymbolRefAttr):
                yield each.attributes[key].value


def inline_bodies(function: ir.Operation) -> None:
    """Put what manual computations do in their place, where shards are what all tensors are."""
    for region in reversed(manual_computations(function)):
        *inside, end = operations(body(region))
        for op in inside:
            if op.name in EDGES:
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
            else:
                op.move_before(region)
        for result, value in zip(region.results, list(end.operands), strict=True):
            result.replace_all_uses_with(value)
        region.erase()
