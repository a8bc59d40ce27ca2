"""Reads by jaxlib's bindings what others cannot: Shardy's pretty text, and CHLO (as StableHLO)."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from shard_dialect.errors import MissingExtra, ShardError
from shard_dialect.ir.reading.blank_comments import code_of
from shard_dialect.ir.reading.edits import Edit
from shard_dialect.ir.sdy.pretty_spelling import pretty_edits
from shard_dialect.processes.xla_log import without_notices

_CHLO = re.compile(r"(?<![#\w.])chlo\.\w")
_DECOMPOSED = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
_LOCATION = re.compile(r'"-":(\d+):(\d+)')


def edits_without_jaxlib(text: str) -> list[Edit] | None:
    """The edits of Shardy's pretty ops that make `text` parse.

    `None` if it has ops that only jaxlib reads: CHLO, and most of Shardy's in pretty form.
    """
    if "chlo." in text and _CHLO.search(code_of(text)) is not None:
        return None
    return pretty_edits(text)


def to_generic(text: str, name: str, lines_before: int) -> str:
    """The module in generic text, with locations in `text`, and StableHLO instead of CHLO.

    Raises a located `ShardError` for text that does not parse, `MissingExtra` without jaxlib.
    """
    bindings, pass_manager = _bindings()
    context = _context()
    try:
        module = bindings.Module.parse(text, context)
        if "chlo." in text:
            pass_manager.parse(_DECOMPOSED, context).run(module.operation)
    except bindings.MLIRError as error:
        start = f"{name}:{lines_before + 1}:1"
        for diagnostic in error.error_diagnostics:
            match = _LOCATION.search(str(diagnostic.location))
            at = f"{name}:{int(match[1]) + lines_before}:{match[2]}" if match else start
            raise ShardError(_named(diagnostic.message), at) from None
        raise ShardError(str(error), start) from None
    generic: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return generic


def generic_text(module: Any) -> str:
    """A module of jaxlib's bindings in generic text, with StableHLO instead of CHLO, in place."""
    _, pass_manager = _bindings()
    with module.context:
        pass_manager.parse(_DECOMPOSED).run(module.operation)
    text: str = module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    return text


def _named(message: str) -> str:
    if "Dialect `shard' not found" not in message:
        return message
    return (
        "ops of 'shard' stand beside those of 'sdy' or 'chlo', which only jaxlib reads: it does "
        "not know them; annotate shardings by 'sdy' or 'mesh' attributes"
    )


@cache
def _bindings() -> tuple[Any, Any]:
    """Jaxlib's `ir` and `PassManager`, which knows StableHLO's passes."""
    without_notices()
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo
        from jaxlib.mlir.passmanager import PassManager
    except ImportError:
        raise MissingExtra("jaxlib, which reads text of Shardy and CHLO,", "jax") from None
    stablehlo.register_stablehlo_passes()
    return ir, PassManager


def _context() -> Any:
    """A context with all dialects of jaxlib."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, sdy, stablehlo

    context = ir.Context()
    context.enable_multithreading(False)  # a thread with an error would wait for the interpreter
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    for dialect in (chlo, sdy, stablehlo):
        dialect.register_dialect(context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    return context
