"""A sharding compiler for MLIR.

    import shard_dialect as sd

    module = sd.parse(Path("in.mlir"))
    sd.run_pipeline(module, "spmd")
    print(sd.to_text(module), sd.communication(module))

See docs/library.md. Nothing is imported before one of these names is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`: importing it takes time, and an interrupt meanwhile
if TYPE_CHECKING:
    from shard_dialect.api import (
        AUTO,
        AutoOptions,
        AutoResult,
        Comparison,
        CompiledProgram,
        Diagnostic,
        DrawnSharding,
        Grid,
        Instruments,
        Mutation,
        Pass,
        ProgramReport,
        Query,
        Report,
        ShardError,
        Sharding,
        ShardingRule,
        ShardWarning,
        annotate,
        auto,
        communication,
        compare,
        compile,  # noqa: A004
        explain,
        gather,
        join_shards,
        load_plugin,
        make_context,
        mutate,
        mutations,
        parse,
        register_dialect,
        register_pass,
        report,
        report_html,
        run,
        run_pipeline,
        scatter,
        sharding_rule,
        show,
        to_text,
        what_if,
    )

__version__ = "0.1.0"

__all__ = [
    "AUTO",
    "AutoOptions",
    "AutoResult",
    "Comparison",
    "CompiledProgram",
    "Diagnostic",
    "DrawnSharding",
    "Grid",
    "Instruments",
    "Mutation",
    "Pass",
    "ProgramReport",
    "Query",
    "Report",
    "ShardError",
    "ShardWarning",
    "Sharding",
    "ShardingRule",
    "annotate",
    "auto",
    "communication",
    "compare",
    "compile",
    "explain",
    "gather",
    "join_shards",
    "load_plugin",
    "make_context",
    "mutate",
    "mutations",
    "parse",
    "register_dialect",
    "register_pass",
    "report",
    "report_html",
    "run",
    "run_pipeline",
    "scatter",
    "sharding_rule",
    "show",
    "to_text",
    "what_if",
]


_MODULES = ("jax", "run", "torch")
"""Imported on first use: packages for the users of other frameworks, and the program `run`, whose
module can be called as the function, since a package has one attribute of a name."""


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"shard_dialect.{name}")
    if name not in __all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value: object = getattr(import_module("shard_dialect.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
