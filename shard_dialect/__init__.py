"""A sharding compiler for MLIR.

    import shard_dialect as sd

    module = sd.parse(Path("in.mlir"))
    sd.run_pipeline(module, "spmd")
    print(sd.to_text(module), sd.communication(module))

See docs/library.md. Nothing is imported before one of these names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shard_dialect.api import (
        CompiledProgram,
        Diagnostic,
        Grid,
        Instruments,
        Pass,
        Query,
        Report,
        ShardError,
        Sharding,
        ShardingRule,
        ShardWarning,
        annotate,
        communication,
        compile,  # noqa: A004
        gather,
        load_plugin,
        make_context,
        parse,
        register_dialect,
        register_pass,
        run,
        run_pipeline,
        scatter,
        sharding_rule,
        to_text,
    )

__version__ = "0.1.0"

__all__ = [
    "CompiledProgram",
    "Diagnostic",
    "Grid",
    "Instruments",
    "Pass",
    "Query",
    "Report",
    "ShardError",
    "ShardWarning",
    "Sharding",
    "ShardingRule",
    "annotate",
    "communication",
    "compile",
    "gather",
    "load_plugin",
    "make_context",
    "parse",
    "register_dialect",
    "register_pass",
    "run",
    "run_pipeline",
    "scatter",
    "sharding_rule",
    "to_text",
]


_DOORS = ("jax", "torch")
"""Packages for the users of other frameworks, imported on first use."""


def __getattr__(name: str) -> object:
    if name in _DOORS:
        from importlib import import_module

        return import_module(f"shard_dialect.{name}")
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from importlib import import_module

    value: object = getattr(import_module("shard_dialect.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
