"""A program for each device, called from a function that JAX traces.

    @jax.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def local(x):
        return call_local(text, "main", [x], results)

The text is StableHLO whose devices are partitions. It becomes a part of the module that JAX lowers,
so that XLA compiles it and JAX calls it as any other function. Only public interfaces of JAX are
used: a primitive, its lowering, and `jax.shard_map`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from shard_dialect.codegen.array_types import TensorType
from shard_dialect.errors import MissingExtra
from shard_dialect.processes.xla_log import without_notices

_numbers = count(1)


def call_local(
    text: str, entry: str, arguments: Sequence[Any], results: Sequence[TensorType]
) -> list[Any]:
    """The results of the function `entry` of `text`, under JAX's trace."""
    found: list[Any] = _primitive().bind(*arguments, text=text, entry=entry, results=tuple(results))
    return found


def jax_of_user() -> Any:
    """The module `jax`. Raises `MissingExtra` if it is not installed."""
    without_notices()
    try:
        import jax
    except ImportError:
        raise MissingExtra("jax, through which XLA runs programs,", "jax") from None
    return jax


@cache
def find_lapack() -> None:
    """Let calls of LAPACK, in programs that JAX exported elsewhere, find it.

    JAX looks for it when it lowers the first decomposition; a call before that would crash.
    """
    jax = jax_of_user()
    one = jax.ShapeDtypeStruct((1, 1), "float32")
    jax.jit(jax.numpy.linalg.cholesky).trace(one).lower(lowering_platforms=("cpu",))


@cache
def _primitive() -> Any:
    jax = jax_of_user()
    from jax.extend import core
    from jax.interpreters import mlir

    primitive: Any = core.Primitive("shard_dialect_local")
    primitive.multiple_results = True

    def shapes(*_: Any, text: str, entry: str, results: Sequence[TensorType]) -> list[Any]:
        return [jax.core.ShapedArray(each.shape, each.dtype) for each in results]

    primitive.def_abstract_eval(shapes)
    mlir.register_lowering(primitive, _lower)
    return primitive


def _lower(
    context: Any, *arguments: Any, text: str, entry: str, results: Sequence[TensorType]
) -> Any:
    """Put the functions of `text` into JAX's module, under new names, and call `entry`."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    source = ir.Module.parse(text)
    prefix = f"shard_dialect.{next(_numbers)}"
    functions = [op.operation for op in source.body.operations]
    types: list[Any] = []
    for function in functions:
        old = ir.StringAttr(function.attributes["sym_name"]).value
        if old == entry:
            types = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
        new = f"{prefix}.{old}"
        ir.SymbolTable.replace_all_symbol_uses(old, new, source.operation)
        function.attributes["sym_name"] = ir.StringAttr.get(new)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for function in functions:
        function.clone(ip=ir.InsertionPoint.at_block_begin(context.module_context.module.body))
    name = ir.FlatSymbolRefAttr.get(f"{prefix}.{entry}")
    return func.CallOp(types, name, list(arguments)).results
