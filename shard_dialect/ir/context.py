"""Contexts in which the `shard` and `mesh` dialects can be parsed."""

from __future__ import annotations

from shard_dialect.ir import mesh, verify
from shard_dialect.ir.bindings import ir

# Python-built ops need their dialect loaded; the parser loads the others when it meets them.
_LOADED = [
    "builtin",
    "irdl",
    "func",
    "shard",
    "arith",
    "tensor",
    "linalg",
    "bufferization",
    "memref",
]


def make_context(allow_unregistered: bool = False) -> ir.Context:
    """A new context with upstream's dialects and our `mesh`.

    Single-threaded: MLIR's worker threads would wait for the interpreter's lock, which the thread
    that started them holds, as soon as a verifier is written in Python.
    """
    context = ir.Context(load_on_create_dialects=_LOADED)
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = allow_unregistered
    with context:
        mesh.load(verify.MESH_OPS)
    return context
