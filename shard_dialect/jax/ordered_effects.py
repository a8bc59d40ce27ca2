"""Ordered effects of functions of JAX: at the boundary of what is partitioned are only tensors.

A token orders the effects of one call after another, and those of a call after those before it.

    func @main(%t: token, %x) -> (token, tensor) {      as JAX has lowered it
      %u, %r = custom_call @callback(%t, %x)
      return %u, %r
      --> hide_tokens -->
    func @main(%x) -> tensor {                          as it is partitioned
      %t = custom_call @shard_dialect.token_in()
      %u, %r = custom_call @callback(%t, %x)
      custom_call @shard_dialect.token_out(%u)
      return %r
      --> partition, show_tokens -->
    func @local(%x, %t: token) -> (tensor, token)       what each device does, tokens last

Functions and modules are those of jaxlib's bindings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_IN = "shard_dialect.token_in"
_OUT = "shard_dialect.token_out"
_CALL = "stablehlo.custom_call"
_TARGET = "call_target_name"
_NUMBER = "backend_config"


def is_token(value: Any) -> bool:
    """Whether a value orders effects."""
    return str(value.type) == "!stablehlo.token"


def tensors_of(values: Sequence[Any]) -> list[Any]:
    """The values that are no tokens."""
    return [each for each in values if not is_token(each)]


def tokens_of(values: Sequence[Any]) -> list[Any]:
    """The values that are tokens."""
    return [each for each in values if is_token(each)]


def hide_tokens(function: Any) -> None:
    """Take the tokens out of the boundary of a function of JAX's, which has one block."""
    from jaxlib.mlir import ir

    (block,) = function.regions[0].blocks
    end = _end(block)
    are_tokens = [*map(is_token, block.arguments)], [*map(is_token, end.operands)]
    if not any(map(any, are_tokens)):
        return
    with ir.InsertionPoint.at_block_begin(block), function.location:
        for number, argument in enumerate(tokens_of(block.arguments)):
            argument.replace_all_uses_with(_call(_IN, number, [argument.type], []).results[0])
    with ir.InsertionPoint(end), function.location:
        for number, value in enumerate(tokens_of(end.operands)):
            _call(_OUT, number, [], [value])
    for number in reversed(range(len(block.arguments))):
        if is_token(block.arguments[number]):
            block.erase_argument(number)
    _return(end, tensors_of(end.operands))
    for key, dropped in zip(("arg_attrs", "res_attrs"), are_tokens, strict=True):
        if key in function.attributes:
            entries = zip(ir.ArrayAttr(function.attributes[key]), dropped, strict=True)
            kept = [entry for entry, is_dropped in entries if not is_dropped]
            function.attributes[key] = ir.ArrayAttr.get(kept)
    _set_type(function)


def show_tokens(function: Any) -> None:
    """Make the hidden tokens of a function the last of its arguments and of its results."""
    from jaxlib.mlir import ir

    (block,) = function.regions[0].blocks
    end = _end(block)
    sources, sinks = _calls(function, _IN), _calls(function, _OUT)
    for each in sources:
        token = each.results[0]
        token.replace_all_uses_with(block.add_argument(token.type, each.location))
    returned = [*end.operands, *(each.operands[0] for each in sinks)]
    for each in (*sources, *sinks):
        each.erase()
    if sinks:
        _return(end, returned)
        for key, added in (("arg_attrs", len(sources)), ("res_attrs", len(sinks))):
            if key in function.attributes:
                entries = [*ir.ArrayAttr(function.attributes[key]), *[ir.DictAttr.get({})] * added]
                function.attributes[key] = ir.ArrayAttr.get(entries)
        _set_type(function)


def _end(block: Any) -> Any:
    return block.operations[len(block.operations) - 1].operation


def _call(target: str, number: int, results: Sequence[Any], operands: Sequence[Any]) -> Any:
    from jaxlib.mlir import ir

    attributes = {
        _TARGET: ir.StringAttr.get(target),
        _NUMBER: ir.StringAttr.get(str(number)),
        "has_side_effect": ir.BoolAttr.get(True),
    }
    return ir.Operation.create(_CALL, list(results), list(operands), attributes)


def _calls(function: Any, target: str) -> list[Any]:
    """The calls of a target in the order of their numbers."""
    from jaxlib.mlir import ir

    found = [
        op.operation
        for op in function.regions[0].blocks[0].operations
        if op.operation.name == _CALL and ir.StringAttr(op.attributes[_TARGET]).value == target
    ]
    return sorted(found, key=lambda op: int(ir.StringAttr(op.attributes[_NUMBER]).value))


def _return(end: Any, values: Sequence[Any]) -> None:
    """Return `values` in the place of what `end` returns."""
    from jaxlib.mlir import ir

    with ir.InsertionPoint(end), end.location:
        ir.Operation.create(end.name, [], list(values))
    end.erase()


def _set_type(function: Any) -> None:
    from jaxlib.mlir import ir

    (block,) = function.regions[0].blocks
    end = _end(block)
    types = [[each.type for each in values] for values in (block.arguments, end.operands)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*types))
