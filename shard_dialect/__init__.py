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
    from shard_dialect.api import *  # noqa: F403

__version__ = "0.2.0"

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
    """What `api.__all__` names, or this list itself."""
    from importlib import import_module

    module = import_module(f"shard_dialect.{_WITHOUT_MLIR.get(name, 'api')}")
    if name not in (*_WITHOUT_MLIR, "__all__", *getattr(module, "__all__", ())):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(module, name)


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
        from importlib.util import find_spec

        if name in _MODULES:
            return import_module(f"shard_dialect.{name}")
        # Importers ask whether a module of the package is an attribute, and for names of their own:
        # neither needs MLIR.
        is_special = name.startswith("_") and name != "__all__"
        if is_special or find_spec(f"shard_dialect.{name}") is not None:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        globals()[name] = value = _of_api(name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_of_api("__all__")})


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
