"""Inline private functions that only slice, pad and join.

    %p = call @_pad(%x, %f)                             JAX makes a function of `jnp.pad`
    %s = slice %p [0:64]

becomes

    %g = convert %f
    %p = pad %x, %g, low = [1], high = [1]
    %s = slice %p [0:64]

so that the slice and the padding are seen together. A function that nothing calls then is dropped.
"""

from __future__ import annotations

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of
from shard_dialect.ir.walk import body, walk
from shard_dialect.passes.shifts.shifted_views import VIEWS

_MOVING = VIEWS | {"stablehlo.reverse"}
_INLINED = _MOVING | {
    "stablehlo.broadcast_in_dim",
    "stablehlo.constant",
    "stablehlo.convert",
    "stablehlo.reshape",
}


def inline_views(module: ir.Operation) -> None:
    """Replace the calls of such functions in the propagated form by what they do."""
    while _inline_innermost(module):
        pass  # callers of these are such functions now


def _inline_innermost(module: ir.Operation) -> bool:
    """Whether anything was inlined."""
    functions = functions_of(module)
    made_of_views = {
        function.attributes["sym_name"].value: function
        for function in functions
        if form_of(function) == "propagated" and _only_views(function)
    }
    if not made_of_views:
        return False
    called = set()
    is_inlined = False
    for function in functions:
        for op in list(walk(function)):
            if op.name != "func.call":
                continue
            name = op.attributes["callee"].value
            if name in made_of_views and form_of(function) == "propagated":
                _inline(op, made_of_views[name])
                is_inlined = True
            else:
                called.add(name)
    for name, function in made_of_views.items():
        if name not in called:
            function.erase()
    return is_inlined


def _only_views(function: ir.Operation) -> bool:
    visibility = function.attributes.get("sym_visibility")
    if visibility is None or visibility.value != "private" or len(function.regions[0].blocks) != 1:
        return False
    *ops, last = (op.operation for op in body(function).operations)
    names = {op.name for op in ops}
    return bool(names & _MOVING) and names <= _INLINED and last.name == "func.return"


def _inline(call: ir.Operation, function: ir.Operation) -> None:
    block = body(function)
    values = dict(zip(block.arguments, call.operands, strict=True))
    with ir.InsertionPoint(call):
        for each in block.operations:
            op = each.operation
            if op.name == "func.return":
                break
            copy = op.clone().operation
            for number, operand in enumerate(op.operands):
                copy.operands[number] = values[operand]
            values.update(zip(op.results, copy.results, strict=True))
    for result, returned in zip(call.results, op.operands, strict=True):
        result.replace_all_uses_with(values[returned])
    call.erase()
