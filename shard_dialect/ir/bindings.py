"""Finds MLIR's Python bindings; all other modules import them from here.

It uses `mlir` (the `mlir-python-bindings` wheels) if that is installed, else `torch_mlir` (on
PyPI), which contains all of upstream MLIR and does not need torch.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from shard_dialect.errors import ShardError

PROVIDERS = ("mlir", "torch_mlir")


def _find() -> str:
    for name in PROVIDERS:
        try:
            if importlib.util.find_spec(f"{name}.dialects.irdl"):
                return name
        except ModuleNotFoundError:
            continue
    raise ShardError("no MLIR Python bindings are installed: run `pip install torch-mlir`")


provider = _find()
"""The package that the bindings come from."""


def submodule(name: str) -> ModuleType:
    """Import a submodule of the bindings, such as `submodule("execution_engine")`."""
    return importlib.import_module(f"{provider}.{name}")


def know_stablehlo_passes() -> None:
    """Register StableHLO's passes, so that pipelines can use them by name."""
    submodule("_mlir_libs._stablehlo").register_stablehlo_passes()


def without_op_classes() -> None:
    """Stop the bindings from importing the Python classes of a dialect at its first op.

    Our code needs none of them, and importing `linalg`'s alone takes 80 ms. This is for programs,
    not for libraries: it holds for the whole process.
    """
    submodule("_mlir_libs._mlir").globals.dialect_search_modules = []


@contextmanager
def plain_ops() -> Iterator[None]:
    """As `without_op_classes`, within a `with` block."""
    registry = submodule("_mlir_libs._mlir").globals
    searched = registry.dialect_search_modules
    registry.dialect_search_modules = []
    try:
        yield
    finally:
        registry.dialect_search_modules = searched


@cache
def spelled(attribute: str) -> str:
    """The name in these bindings of an attribute of `shard`, whose name in LLVM 22 is given."""
    if attribute != "scatter_axis":
        return attribute
    op = submodule("dialects.shard").ReduceScatterOp
    return "scatter_dim" if hasattr(op, "scatter_dim") else "scatter_axis"


if TYPE_CHECKING:
    # From where they are compiled: of `torch_mlir.ir`, which imports `*` from there, pyright would
    # think that it has none of these names.
    from torch_mlir._mlir_libs import _mlirDialectsIRDL as irdl
    from torch_mlir._mlir_libs import _mlirDialectsLinalg as linalg_queries
    from torch_mlir._mlir_libs._mlir import ir
    from torch_mlir._mlir_libs._mlir.passmanager import PassManager
else:
    ir = submodule("ir")
    """MLIR's `ir`: contexts, operations, attributes, types."""
    irdl = submodule("_mlir_libs._mlirDialectsIRDL")
    linalg_queries = submodule("_mlir_libs._mlirDialectsLinalg")
    PassManager = submodule("passmanager").PassManager
    """MLIR's own pass manager."""


def run_upstream(pipeline: str, module: ir.Operation) -> None:
    """Run passes of MLIR's own inside of a pass of ours, after which the module is verified.

    Verifying after each of theirs would take as long as they do.
    """
    manager = PassManager.parse(pipeline)
    manager.enable_verifier(False)
    manager.run(module)


submodule("_mlir_libs._mlir").globals.append_dialect_search_prefix("shard_dialect.ir.classless")

__all__ = [
    "PassManager",
    "ir",
    "irdl",
    "linalg_queries",
    "plain_ops",
    "provider",
    "run_upstream",
    "spelled",
    "submodule",
]
