"""A sharding compiler for MLIR.

    import shard_dialect as sd

    module = sd.parse(Path("in.mlir"))
    sd.run_pipeline(module, "spmd")
    print(sd.to_text(module), sd.communication(module))

See docs/library.md. Nothing is imported before one of these names is used.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # that of `typing`: importing it takes time, and an interrupt meanwhile
if TYPE_CHECKING:
    from typing import Any

    from shard_dialect import jax as jax
    from shard_dialect import torch as torch
    from shard_dialect.api import (
        AUTO,
        AutoOptions,
        AutoResult,
        Boundary,
        CannotJudge,
        Comparison,
        CompiledProgram,
        Costs,
        DeviceModel,
        Diagnostic,
        DrawnSharding,
        Efficiency,
        Grid,
        Instruments,
        LocalOp,
        Mutation,
        NetworkLevel,
        PartitionedOp,
        Pass,
        Program,
        ProgramReport,
        Proof,
        Query,
        Report,
        ShardError,
        Sharding,
        ShardingRule,
        ShardWarning,
        Site,
        annotate,
        auto,
        built_in,
        communication,
        compare,
        compile,  # noqa: A004
        error_at,
        explain,
        form,
        gather,
        join_shards,
        listening,
        load,
        load_plugin,
        make_context,
        mutate,
        mutations,
        note_at,
        parse,
        plan_reshard,
        prove,
        read_collective,
        read_program,
        register_backend,
        register_device_model,
        register_dialect,
        register_judge,
        register_objective,
        register_pass,
        report,
        report_html,
        run,
        run_pipeline,
        scatter,
        sharding_of,
        sharding_rule,
        show,
        to_text,
        warn,
        what_if,
    )

__version__ = "0.2.0"

__all__ = [
    "AUTO",
    "AutoOptions",
    "AutoResult",
    "Boundary",
    "CannotJudge",
    "Comparison",
    "CompiledProgram",
    "Costs",
    "DeviceModel",
    "Diagnostic",
    "DrawnSharding",
    "Efficiency",
    "Grid",
    "Instruments",
    "LocalOp",
    "Mutation",
    "NetworkLevel",
    "PartitionedOp",
    "Pass",
    "Program",
    "ProgramReport",
    "Proof",
    "Query",
    "Report",
    "ShardError",
    "ShardWarning",
    "Sharding",
    "ShardingRule",
    "Site",
    "annotate",
    "auto",
    "built_in",
    "communication",
    "compare",
    "compile",
    "error_at",
    "explain",
    "form",
    "gather",
    "join_shards",
    "listening",
    "load",
    "load_plugin",
    "make_context",
    "mutate",
    "mutations",
    "note_at",
    "parse",
    "plan_reshard",
    "prove",
    "read_collective",
    "read_program",
    "register_backend",
    "register_device_model",
    "register_dialect",
    "register_judge",
    "register_objective",
    "register_pass",
    "report",
    "report_html",
    "run",
    "run_pipeline",
    "scatter",
    "sharding_of",
    "sharding_rule",
    "show",
    "to_text",
    "warn",
    "what_if",
]


_MODULES = ("jax", "torch")
"""Imported on first use: packages for the users of other frameworks."""


_WITHOUT_MLIR = {
    "DeviceModel": "model.devices.device_model",
    "Diagnostic": "errors",
    "Efficiency": "model.devices.device_model",
    "Grid": "model",
    "NetworkLevel": "model.devices.device_model",
    "ShardError": "errors",
    "Sharding": "model",
    "ShardingRule": "model",
    "plan_reshard": "planner.plan_reshard",
    "register_device_model": "model.devices.device_model",
}
"""Names of modules that need no MLIR, which takes a second to load."""


def _of_api(name: str) -> Any:
    from importlib import import_module

    return getattr(import_module(f"shard_dialect.{_WITHOUT_MLIR.get(name, 'api')}"), name)


class _Package(ModuleType):
    """The package, in which three functions have the names of programs.

    Importing the module of a program sets an attribute of its package, which is dropped here:
    `sd.run` is the function, also after `from shard_dialect.run import main`.
    """

    run = property(lambda _: _of_api("run"), lambda *_: None)
    report = property(lambda _: _of_api("report"), lambda *_: None)
    prove = property(lambda _: _of_api("prove"), lambda *_: None)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # to which a name that is not imported above is an error

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"shard_dialect.{name}")
        if name not in __all__:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        globals()[name] = value = _of_api(name)
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


def _show_modules_in_notebooks() -> None:
    """Have IPython, where this is imported in it, show modules of MLIR, unless it does so already.

    Their class is that of the bindings, and stays as it is.
    """
    shell_of = getattr(sys.modules.get("IPython"), "get_ipython", None)
    formatter = getattr(shell_of() if shell_of else None, "display_formatter", None)
    if formatter is None:
        return
    for kind, function in (("text/plain", _module_text), ("text/html", _module_html)):
        known = formatter.formatters[kind]
        for bindings in ("mlir", "torch_mlir"):
            name = f"{bindings}._mlir_libs._mlir.ir", "Module"
            if known.for_type_by_name(*name) is None:
                known.for_type_by_name(*name, function)


def _module_text(module: object, printer: Any, _is_cycle: bool) -> None:
    printer.text(str(module))


def _module_html(module: object) -> str:
    from importlib import import_module

    html: str = import_module("shard_dialect.ir.module_html").module_html(module)
    return html


_show_modules_in_notebooks()
