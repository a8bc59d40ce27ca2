"""A JAX function as a module in the annotated form."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shard_dialect.errors import ShardError, cannot, first_line_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.jaxlib_reader import generic_text
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.runtime.xla.local_function import jax_of_user


@dataclass(frozen=True)
class LoweredFunction:
    """A JAX function, for arguments of certain shapes, as a module whose entry is `main`."""

    module: ir.Module
    results: Any
    """The pytree of the results' shapes and types."""


def lower_function(
    jitted: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> LoweredFunction:
    """Lower what `jax.jit(..., keep_unused=True)` has made; arguments may be shapes.

    Raises `ShardError` for functions with effects, and for those that call back to Python.
    """
    traced = jitted.trace(*arguments, **keywords)
    if effects := sorted(str(each) for each in traced.jaxpr.effects):
        raise ShardError(
            f"the function has effects ({', '.join(effects)}), which devices would have together: "
            "sd.jax.jit takes functions without; use jax.jit for this one"
        )
    lowered = traced.lower()
    module = _read(generic_text(lowered.compiler_ir("stablehlo")), "a JAX function")
    return LoweredFunction(module, lowered.out_info)


def load(path: str | Path) -> ir.Module:
    """Read what `jax.export` has serialized. Raises `ShardError` if the file holds no function."""
    export = importlib.import_module(f"{jax_of_user().__name__}.export")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise cannot("read", str(path), error) from None
    try:
        exported = export.deserialize(bytearray(data))
        text = exported.mlir_module()
    except Exception as error:  # any that reading bytes which mean something else can end with
        raise ShardError(
            f"'{path}' holds no function that jax.export has serialized: {first_line_of(error)}"
        ) from None
    return _read(text, str(path))


def _read(text: str, name: str) -> ir.Module:
    with make_context():
        module = Source.of(text, name).parse()
    for op in walk(module.operation):
        if op.name == "stablehlo.custom_call" and _calls_back(op):
            raise ShardError(
                "the function calls back to Python, which the devices cannot do together: take "
                "jax.pure_callback, jax.debug.print and the like out of it, or use jax.jit"
            )
    return module


def _calls_back(op: ir.Operation) -> bool:
    return "python" in str(op.attributes["call_target_name"])
