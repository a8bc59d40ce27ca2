"""MLIR's Python bindings, those that the package uses: for passes, rules and backends of users.

    from shard_dialect.bindings import ir

They are those of `mlir`, else of `torch_mlir`; a module of other bindings is not read.
"""

from shard_dialect.ir.bindings import PassManager, ir, provider, submodule

__all__ = ["PassManager", "ir", "provider", "submodule"]
