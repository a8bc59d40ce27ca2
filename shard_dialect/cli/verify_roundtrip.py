"""`--verify-roundtrip`: check that printed IR is parsed as the same IR."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator

from shard_dialect.errors import ShardError, note
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.reading.source import Source

_SHOWN = 12
"""The most lines of a difference that are shown."""


def verify_roundtrip(module: ir.Module) -> None:
    """Print `module` in each form and parse it again, in its context.

    Raises a `ShardError` that names the form, if it is refused or gives other IR.
    """
    for form, source, has_locations in _printed(module):
        try:
            again = source.parse()
        except ShardError as error:
            raise ShardError(
                f"the module's {form} is not read back: {error.message}", error.location
            ) from None
        expected, actual = _text(module, True, has_locations), _text(again, True, has_locations)
        if actual != expected:
            raise ShardError(
                f"the module's {form} is read back as other IR",
                notes=[note(f"the difference:\n{_difference(expected, actual)}")],
            )


def _printed(module: ir.Module) -> Iterator[tuple[str, Source, bool]]:
    """Each form, and whether it has all locations: text lacks those of implicit regions."""
    yield "custom form", Source.of(_text(module, False, True), "<custom form>"), False
    yield "generic form", Source.of(_text(module, True, True), "<generic form>"), True
    file = io.BytesIO()
    module.operation.write_bytecode(file)
    yield "bytecode", Source("<bytecode>", file.getvalue()), True


def _text(module: ir.Module, is_generic: bool, has_locations: bool) -> str:
    return module.operation.get_asm(
        print_generic_op_form=is_generic, enable_debug_info=has_locations
    )


def _difference(expected: str, actual: str) -> str:
    lines = difflib.unified_diff(
        expected.splitlines(), actual.splitlines(), "before", "after", lineterm="", n=0
    )
    return "\n".join(list(lines)[:_SHOWN])
