"""Prepare the bodies of manual computations for propagation, and inline them at the end.

    scf.execute_region {                        scf.execute_region {
      %a = "mesh.to_local"(%x) ...                %a = "mesh.to_local"(%x) ...
      %b = func.call @body(%a)                    %b = "stablehlo.all_reduce"(%a) ...
      %c = math.absf %k                           %l = "mesh.to_local"(%k) ... unsharded
      ...                                         %c = math.absf %l
    } {mesh.manual_axes = [0]}                  } {mesh.manual_axes = [0]}

Functions that a body calls are inlined, since called elsewhere they have other manual axes. A
tensor that a body captures, such as a constant that upstream's passes hoisted, enters by a
`mesh.to_local` that does not split it along the manual axes.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import (
    create,
    create_value,
    inline_before,
    replace_op,
    replace_values,
)
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    form_of,
    functions_of,
    name_of,
)
from shard_dialect.ir.mesh.annotation_ops import OPS as ANNOTATIONS
from shard_dialect.ir.mesh.annotation_ops import (
    TO_GLOBAL,
    TO_LOCAL,
    anything,
    grid_of,
    manual_computations,
)
from shard_dialect.ir.mesh.attributes import MANUAL, i64_array, ints
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import FLOWS
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.calls import Calls, annotated, drop_uncalled
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs

_MOST = 10_000
"""The largest number of calls that are inlined into one region."""


@needs(ops=("scf.execute_region",), forms=("annotated", "propagated"), grid=True)
def open_manual_computations(module: ir.Operation) -> Outcome:
    """Inline calls in manual computations, and let captured tensors enter by `mesh.to_local`.

    Raises a located `ShardError` for recursion, and for an invalid manual computation.
    """
    Calls(module).refuse_recursion()
    functions = {name_of(op): op for op in functions_of(module)}
    handles = [op for op in functions.values() if form_of(op) in ("annotated", "propagated")]
    regions = [region for handle in handles for region in manual_computations(handle)]
    if not regions:
        return UNCHANGED
    shardings = Shardings.of(module)
    was_called: set[str] = set()
    for region in regions:
        _inline_calls(region, functions, was_called)
    for handle in handles:
        for region in manual_computations(handle):  # also those that were inlined
            with located(region):
                _drop_scalar_annotations(region)
                _captures_to_operands(region, shardings)
                _check_boundary_ops(region)
    drop_uncalled(module, was_called)
    return None


def _inline_calls(
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
    """Replace `call` by a copy of the body of `callee`; return the calls in it."""
    copy = callee.clone(ip=ir.InsertionPoint(call)).operation
    block = body(copy)
    with ir.InsertionPoint(call), call.location:
        operands = annotated(call.operands, copy, "arg_attrs")
    replace_values(list(block.arguments), operands)
    calls = [op for op in walk(copy) if op.name == "func.call"]
    if len(copy.regions[0].blocks) == 1:
        results = inline_before(call, block)
    else:
        results = _blocks_to_region(call, copy)
    with ir.InsertionPoint(call), call.location:
        results = annotated(results, copy, "res_attrs")
    replace_op(call, *results)
    copy.erase()
    return calls


def _blocks_to_region(call: ir.Operation, copy: ir.Operation) -> list[ir.Value]:
    """Move the blocks of `copy` to an `scf.execute_region`; return its results."""
    while len(list(body(copy).arguments)):
        body(copy).erase_argument(0)
    with ir.InsertionPoint(call), call.location:
        types = [result.type for result in call.results]
        # Upstream's canonicalization would inline the region into the block around it.
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


def _drop_scalar_annotations(region: ir.Operation) -> None:
    """Drop annotations of scalars in a reduction's region: JAX annotates every tensor there."""
    for op in walk(region):
        around = op.parent
        is_scalar = op.name in ANNOTATIONS and op.results[0].type.rank == 0
        if is_scalar and around is not None and around.name not in FLOWS:
            replace_op(op, op.operands[0])


def _captures_to_operands(region: ir.Operation, shardings: Shardings) -> None:
    """Let captured tensors enter by a `to_local` that does not split them."""
    inside = list(walk(region))
    defined_inside = [value for op in inside for value in op.results]
    defined_inside += [
        argument
        for op in inside
        for each in op.regions
        for block in each.blocks
        for argument in block.arguments
    ]
    known = set(defined_inside)
    arguments: dict[ir.Value, ir.Value] = {}
    for op in inside:
        if op.name == TO_LOCAL and op.parent == region:
            continue
        for number, value in enumerate(op.operands):
            if value in known or not isinstance(value.type, ir.RankedTensorType):
                continue
            if value not in arguments:
                annotation = anything(grid_of(region, shardings), value.type.rank)
                attributes = {
                    "sharding": shardings.write(annotation),
                    "manual_axes": i64_array(ints(region.attributes[MANUAL])),
                }
                with ir.InsertionPoint.at_block_begin(body(region)), op.location:
                    arguments[value] = create_value(TO_LOCAL, value.type, [value], attributes)
            op.operands[number] = arguments[value]


def _check_boundary_ops(region: ir.Operation) -> None:
    """Raise unless tensors enter by `to_local` and leave by `to_global` only."""
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
        is_from_to_global = not isinstance(owner, ir.Block) and owner.operation.name == TO_GLOBAL
        if isinstance(value.type, ir.ShapedType) and not is_from_to_global:
            raise error_at(
                end.location,
                f"'{end.name}' op gives a {value.type} from the inside of a manual computation: "
                f"only what a '{TO_GLOBAL}' op makes is for outside",
            )
