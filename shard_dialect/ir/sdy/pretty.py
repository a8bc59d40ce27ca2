"""Shardy's pretty text, which only Shardy parses: jaxlib, which carries it, makes it generic."""

from __future__ import annotations

import re
from typing import Any

from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.ir.code import code_of

_PRETTY = re.compile(
    r'(?<!["#\w.])sdy\.(?:mesh|sharding_constraint|reshard|sharding_group|propagation_barrier|'
    r"manual_computation|named_computation|return|all_gather|all_slice|all_to_all|all_reduce|"
    r"collective_permute|reduce_scatter|constant|data_flow_edge)\b"
)
_PLACE = re.compile(r'loc\("-":(\d+):(\d+)')


def is_pretty(text: str) -> bool:
    """Whether Shardy's ops stand in `text` as Shardy prints them."""
    return "sdy." in text and _PRETTY.search(code_of(text)) is not None


def to_generic(text: str, name: str, lines_before: int) -> str:
    """The module in generic text, each op with its location in `text`."""
    ir, context = _context()
    try:
        module = ir.Module.parse(text, context)
    except ir.MLIRError as error:
        for diagnostic in error.error_diagnostics:
            place = _PLACE.match(str(diagnostic.location))
            at = f"{name}:{int(place[1]) + lines_before}:{place[2]}" if place else name
            raise ShardError(diagnostic.message, at) from None
        raise ShardError(str(error), name) from None
    generic: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return generic


def _context() -> tuple[Any, Any]:
    """Jaxlib's bindings, and a context with its dialects."""
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import sdy, stablehlo
    except ImportError:
        raise MissingExtra("jaxlib, which reads Shardy's pretty text,", "jax") from None
    context = ir.Context()
    context.enable_multithreading(False)  # a thread with an error would wait for the interpreter
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    sdy.register_dialect(context)
    stablehlo.register_dialect(context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    return ir, context
