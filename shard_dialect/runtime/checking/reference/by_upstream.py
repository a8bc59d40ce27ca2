"""Upstream's own passes as the judge: each op becomes a loop of its own, in program order.

It uses no pass of ours that changes the computation, no fusion, no elementary functions and no
BLAS, so it is slow. Its buffers are those of the bindings' runtime.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from shard_dialect.codegen.array_types import Array
from shard_dialect.codegen.lowered_program import find_function
from shard_dialect.codegen.machine_code import opt_level
from shard_dialect.ir.bindings import PassManager, ir, know_stablehlo_passes, provider, submodule
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import from_mlir
from shard_dialect.ir.function import boundary, functions_of, returns_of, set_boundary
from shard_dialect.ir.walk import body, walk
from shard_dialect.runtime.checking.reference.judge import CannotJudge, Execute, boundary_types
from shard_dialect.runtime.checking.reference.sum_in_f64 import sum_in_f64
from shard_dialect.runtime.checking.reference.widen import widen

_FROM_STABLEHLO = "builtin.module(stablehlo-legalize-to-linalg,func.func(canonicalize))"
_FROM_TOSA = (
    "builtin.module("
    "func.func(tosa-optional-decompositions,tosa-to-scf,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor))"
)
_TO_BUFFERS = (
    "builtin.module("
    "func.func(empty-tensor-to-alloc-tensor,convert-elementwise-to-linalg),"
    "one-shot-bufferize{copy-before-write=true bufferize-function-boundaries"
    " allow-return-allocs-from-loops function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{modify-public-functions=true hoist-static-allocs=true},"
    "buffer-deallocation-pipeline)"
)
_TO_LLVM = (
    "builtin.module("
    "func.func(convert-linalg-to-loops),lower-affine,convert-scf-to-cf,convert-complex-to-standard,"
    "math-extend-to-supported-types,expand-strided-metadata,lower-affine,"
    "math-expand-ops{ops=clampf,fpowi,rsqrt},convert-math-to-libm,convert-math-to-llvm,"
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32},"
    "arith-expand{include-bf16=true},convert-complex-to-llvm,finalize-memref-to-llvm,"
    "convert-index-to-llvm,convert-arith-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,"
    "convert-func-to-llvm,reconcile-unrealized-casts,canonicalize)"
)
_ENTRY = "main"


def compile_by_upstream(module: ir.Operation, entry: str, count: int) -> tuple[str, Execute]:
    """The judge's name, and the function; its arguments from `count` on are factors.

    Raises `CannotJudge`; `module` is not changed.
    """
    for op in walk(module):
        _refuse_what_goes_wrong(op)
    copy = ir.Module.parse(module.get_asm(enable_debug_info=True), module.context)
    with module.context, ir.Location.unknown():
        try:
            types = boundary_types(find_function(copy.operation, entry))[1]
            _to_llvm(copy, entry, count)
            level = min(opt_level(), 1)  # it runs once
            engine = submodule("execution_engine").ExecutionEngine(copy, opt_level=level)
        except ir.MLIRError as error:
            raise CannotJudge(f"upstream's passes refuse it: {from_mlir(error).message}") from None
    if not engine.raw_lookup(f"_mlir_ciface_{_ENTRY}"):  # it has printed what is missing
        raise CannotJudge("it calls functions that are not there")
    described = submodule("runtime").get_ranked_memref_descriptor

    def execute(inputs: Sequence[Array]) -> list[Array]:
        results = [np.zeros(each.shape, each.dtype) for each in types]
        buffers = [described(_as_bits(np.ascontiguousarray(each))) for each in (*inputs, *results)]
        pointers = [ctypes.pointer(ctypes.pointer(each)) for each in buffers]
        engine.invoke(_ENTRY, *pointers)
        return results

    return f"upstream's passes ({provider})", execute


def _to_llvm(module: ir.Module, entry: str, count: int) -> None:
    op = module.operation
    _keep_alone(op, entry)
    if any(inner.name.startswith("stablehlo.") for inner in walk(op)):
        know_stablehlo_passes()
        PassManager.parse(_FROM_STABLEHLO).run(op)
    PassManager.parse(_FROM_TOSA).run(op)
    function = find_function(op, entry)
    widen(function, count)
    sum_in_f64(function)
    _keep_inputs(function)
    PassManager.parse(_TO_BUFFERS).run(op)
    for inner in walk(op):
        if inner.name == "memref.copy":  # of strided buffers it is a call of a library
            with ir.InsertionPoint(inner), inner.location:
                build.copy(*inner.operands)
            inner.erase()
    function = find_function(op, entry)
    function.attributes["sym_name"] = ir.StringAttr.get(_ENTRY)
    function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    PassManager.parse(_TO_LLVM).run(op)
    for inner in walk(op):
        if not inner.name.startswith("llvm."):
            raise CannotJudge(f"upstream has no code for '{inner.name}' op")


def _keep_alone(module: ir.Operation, entry: str) -> None:
    """Inline all callees into the function `entry`, and drop all other functions."""
    PassManager.parse("builtin.module(inline)").run(module)
    function = find_function(module, entry)
    for other in functions_of(module):
        if other != function:
            other.erase()
    if any(inner.name == "func.call" for inner in walk(function)):
        raise CannotJudge("it has calls that cannot be put where they are")


def _keep_inputs(function: ir.Operation) -> None:
    """Let the function write to none of its arguments, and return each result once."""
    set_boundary(function, "res_attrs", [{} for _ in boundary(function, "res_attrs")])
    read_only = {"bufferization.writable": ir.BoolAttr.get(False)}
    set_boundary(function, "arg_attrs", [read_only for _ in body(function).arguments])
    for end in returns_of(function):
        with ir.InsertionPoint(end):
            for number, value in enumerate(end.operands):
                end.operands[number] = build.allocate_copy(value).results[0]


def _as_bits(array: Array) -> Array:
    """View the memory with an element type that the bindings' runtime supports."""
    return array if array.dtype.kind in "fc" else array.view(f"u{array.dtype.itemsize}")


def _refuse_what_goes_wrong(op: ir.Operation) -> None:
    """Raise for ops that upstream is known to convert wrongly."""
    is_wrong = _WRONG.get(op.name)
    if is_wrong is not None and is_wrong(op):
        raise CannotJudge(f"upstream converts such a '{op.name}' op wrongly")
    for value in (*op.operands, *op.results):
        if isinstance(value.type, ir.RankedTensorType) and 0 in value.type.shape:
            raise CannotJudge(f"upstream converts '{op.name}' op on no elements wrongly")


def _always(_: ir.Operation) -> bool:
    return True


def _is_on_bits(op: ir.Operation) -> bool:
    return str(op.results[0].type.element_type) == "i1"


def _has_batches(op: ir.Operation) -> bool:
    return "operand_batching_dims" in str(op.attributes["dimension_numbers"])


def _has_unsigned_indices(op: ir.Operation) -> bool:
    return any(
        isinstance(each.type.element_type, ir.IntegerType) and each.type.element_type.is_unsigned
        for each in list(op.operands)[1:]
    )


_WRONG: Mapping[str, Callable[[ir.Operation], bool]] = {
    "bufferization.materialize_in_destination": _always,
    "stablehlo.add": _is_on_bits,
    "stablehlo.dynamic_slice": _has_unsigned_indices,
    "stablehlo.dynamic_update_slice": _has_unsigned_indices,
    "stablehlo.gather": lambda op: _has_batches(op) or _has_unsigned_indices(op),
    "stablehlo.reduce": lambda op: not list(op.attributes["dimensions"]),
    "stablehlo.select_and_scatter": _always,
}
"""What is found by running them beside XLA (tests/rules/test_run_as_others.py)."""
