"""A module in a notebook: its functions with their forms, its grids, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import form_of, functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.model.notebook_html import text_html

_MOST_ELEMENTS = 16
"""The most elements of a constant that are shown."""


def module_html(module: ir.Module) -> str:
    """The module as HTML; elements of large constants are left out."""
    text = module.operation.get_asm(
        large_elements_limit=_MOST_ELEMENTS, large_resource_limit=_MOST_ELEMENTS
    )
    return text_html("; ".join(_parts(module.operation)) or "a module", text)


def _parts(module: ir.Operation) -> Iterator[str]:
    with suppress(ShardError):  # of a module that no pass has checked
        for function in functions_of(module):
            yield f"{as_symbol(name_of(function))}, {form_of(function)} form"
    with suppress(ShardError):
        yield from (f"grid {grid}" for grid in grids_of(module).values())
