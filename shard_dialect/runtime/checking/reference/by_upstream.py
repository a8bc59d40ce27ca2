"""Upstream's own passes as the judge: each op becomes a loop of its own, in program order.

It uses no pass of ours that changes the computation, no fusion, no elementary functions and no
BLAS, so it is slow. Its buffers are those of the bindings' runtime.

Upstream's loops compute long sums of f32 in f64:

    %r = linalg.reduce { arith.addf } ins(%x : tensor<4096xf32>) outs(%z : tensor<f32>)

becomes the same op on `arith.extf %x`, followed by `arith.truncf`. Added one by one in f32, the
last of many elements would be rounded away.

They compute floats of 16 bits in f32, and round to 16 bits after each op:

    %y = linalg.matmul ins(%a, %b : tensor<4x4xbf16>, ...) outs(%c : tensor<4x4xbf16>)
    %z = arith.mulf %y, %factors

becomes

    %y = linalg.matmul ins(%a, %b : tensor<4x4xf32>, ...) outs(%c : tensor<4x4xf32>)
    %z = arith.mulf %y, %factors : tensor<4x4xf32>
    %r = arith.extf (arith.truncf %z : tensor<4x4xbf16>) : tensor<4x4xf32>

because upstream's loops would otherwise round to bf16 after each addition. The rounded values are
those that have factors (`rounding`). A function's arguments and results keep their types.

Each loop is then a function of its own, of which equal ones are shared, because the time that LLVM
takes grows with the square of a function's loops.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from threading import Lock

import numpy as np

from shard_dialect.abi.lowered_program import find_function
from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.cpu.kernels import isolate
from shard_dialect.backends.cpu.machine_code import opt_level
from shard_dialect.ir.bindings import (
    PassManager,
    ir,
    know_stablehlo_passes,
    linalg_queries,
    provider,
    submodule,
)
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.diagnostics import from_mlir
from shard_dialect.ir.function import boundary, functions_of, returns_of, set_boundary, update_type
from shard_dialect.ir.numbered_function import itemsize
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.decompose_chlo import decompose_chlo
from shard_dialect.runtime.checking.reference.judge import CannotJudge, Compiled, boundary_types

_LONG = 1024
_F64_CASTS = ("arith.extf", "arith.truncf")


def sum_in_f64(function: ir.Operation) -> None:
    """Rewrite the linalg ops on tensors that reduce many elements of f32."""
    for op in walk(function):
        if op.name.startswith("linalg.") and len(op.results) and _makes_f32_of_many(op):
            with ir.InsertionPoint(op), op.location:
                _rewrite(op)


def _makes_f32_of_many(op: ir.Operation) -> bool:
    maps = linalg_queries.get_indexing_maps(op)
    inner = _inner(op)
    if maps is None or not inner or any(list(each.regions) for each in inner):
        return False
    if "arith.addf" not in [each.name for each in inner] or not any(map(_is_f32, op.results)):
        return False
    sizes: dict[int, int] = {}
    summed: set[int] = set()
    for operand, map_ in zip(op.operands, [each.value for each in maps], strict=True):
        shape = operand.type.shape if isinstance(operand.type, ir.RankedTensorType) else ()
        for expression, size in zip(map_.results, shape, strict=True):
            if isinstance(expression, ir.AffineDimExpr):
                sizes[expression.position] = size
    for map_ in [each.value for each in maps][-len(op.results) :]:
        kept = {each.position for each in map_.results if isinstance(each, ir.AffineDimExpr)}
        summed |= sizes.keys() - kept
    return prod(sizes[loop] for loop in summed) >= _LONG


def _inner(op: ir.Operation) -> list[ir.Operation]:
    return operations(body(op)) if op.regions and len(op.regions[0].blocks) else []


def _is_f32(value: ir.Value) -> bool:
    type_ = value.type
    return isinstance(type_.element_type if isinstance(type_, ir.ShapedType) else type_, ir.F32Type)


def _in_f64(type_: ir.Type) -> ir.Type:
    f64 = ir.F64Type.get()
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return ir.RankedTensorType.get(type_.shape, f64) if is_tensor else f64


def _rewrite(op: ir.Operation) -> None:
    for number, operand in enumerate(op.operands):
        if _is_f32(operand):
            op.operands[number] = build.cast("arith.extf", operand, _in_f64(operand.type))
    _widen([each for each in body(op).arguments if _is_f32(each)])
    for inner in _inner(op):
        if inner.name == "arith.constant" and _is_f32(inner.results[0]):
            value = inner.attributes["value"].value
            inner.attributes["value"] = ir.FloatAttr.get(ir.F64Type.get(), value)
        _widen([each for each in inner.results if _is_f32(each)])
        if inner.name in _F64_CASTS and inner.operands[0].type == inner.results[0].type:
            replace_op(inner, inner.operands[0])
    for result in op.results:
        if _is_f32(result):
            uses, type_ = list(result.uses), result.type
            result.set_type(_in_f64(type_))
            with ir.InsertionPoint.after(op):
                rounded = build.cast("arith.truncf", result, type_)
            build.redirect(uses, rounded)


def _widen(values: Sequence[ir.Value]) -> None:
    for each in values:
        each.set_type(_in_f64(each.type))


_CASTS = ("arith.extf", "arith.truncf")


def widen(function: ir.Operation, arguments: int) -> None:
    """Rewrite a function without calls, whose arguments from `arguments` on are factors."""
    own = list(body(function).arguments)
    products = [
        (use.owner.results[0], each.type)
        for each in own[arguments:]
        for use in each.uses
        if _is_narrow(each.type)
    ]
    types_before = [(each, each.type) for each in own]
    returned = [[each.type for each in end.operands] for end in returns_of(function)]
    for op in _all(function):
        _widen_op(op)
    for block in function.regions[0]:
        for argument in block.arguments:
            argument.set_type(_wide(argument.type))
    for value, type_ in products:
        _round(value, type_)
    for argument, type_ in types_before:
        argument.set_type(type_)
        _extend(argument, ir.InsertionPoint.at_block_begin(body(function)))
    for end, types in zip(returns_of(function), returned, strict=True):
        with ir.InsertionPoint(end), end.location:
            for number, type_ in enumerate(types):
                if _is_narrow(type_):
                    end.operands[number] = build.cast("arith.truncf", end.operands[number], type_)
    update_type(function)


def _all(op: ir.Operation) -> list[ir.Operation]:
    """All ops inside, also in the bodies of linalg's named ops."""
    ops = []
    for region in op.regions:
        for block in region:
            for inner in operations(block):
                ops += [inner, *_all(inner)]
    return ops


def _widen_op(op: ir.Operation) -> None:
    if "bitcast" in op.name and any(map(_is_narrow, _types(op))):
        raise CannotJudge(f"'{op.name}' op looks at the bits of a float that is computed in f32")
    if build.is_constant(op):
        _widen_constant(op)
        return
    for region in op.regions:
        for block in region:
            for argument in block.arguments:
                argument.set_type(_wide(argument.type))
    for result in op.results:
        result.set_type(_wide(result.type))
    if op.name in _CASTS and op.operands[0].type == op.results[0].type:
        replace_op(op, op.operands[0])


def _types(op: ir.Operation) -> list[ir.Type]:
    return [each.type for each in (*op.operands, *op.results)]


def _widen_constant(op: ir.Operation) -> None:
    type_ = op.results[0].type
    if not _is_narrow(type_):
        return
    value = op.attributes[build.CONSTANTS[op.name]]
    if not isinstance(type_, ir.ShapedType):
        wide: ir.Attribute = ir.FloatAttr.get(ir.F32Type.get(), value.value)
    elif build.is_splat(value):
        repeated = ir.FloatAttr.get(ir.F32Type.get(), value.get_splat_value().value)
        wide = ir.DenseElementsAttr.get_splat(_wide(type_), repeated)
    else:
        _extend(op.results[0], ir.InsertionPoint.after(op))
        return
    op.attributes[build.CONSTANTS[op.name]] = wide
    op.results[0].set_type(wide.type)


def _is_narrow(type_: ir.Type) -> bool:
    element = type_.element_type if isinstance(type_, ir.ShapedType) else type_
    return isinstance(element, ir.BF16Type | ir.F16Type)


def _wide(type_: ir.Type) -> ir.Type:
    if not _is_narrow(type_):
        return type_
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(type_.shape, ir.F32Type.get())
    if isinstance(type_, ir.ShapedType):
        raise CannotJudge(f"it computes on no {type_}")
    return ir.F32Type.get()


def _extend(value: ir.Value, at: ir.InsertionPoint) -> None:
    """Replace the uses of a narrow value by its extension to f32."""
    uses = list(value.uses)
    if _is_narrow(value.type) and uses:
        with at, ir.Location.unknown():
            wide = build.cast("arith.extf", value, _wide(value.type))
        build.redirect(uses, wide)


def _round(value: ir.Value, type_: ir.Type) -> None:
    """Replace the uses of an f32 value by the value rounded to `type_`."""
    uses = list(value.uses)
    with ir.InsertionPoint.after(value.owner), value.owner.location:
        rounded = build.cast("arith.extf", build.cast("arith.truncf", value, type_), value.type)
    build.redirect(uses, rounded)


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
    "buffer-results-to-out-params{modify-public-functions=true hoist-static-allocs=true})"
)
_DEALLOCATE = "builtin.module(buffer-deallocation-pipeline)"
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
_KERNEL = "kernel"
_KEPT = 1 << 26
"""The bytes of buffers that live as long as the code."""


def compile_by_upstream(module: ir.Operation, entry: str, count: int) -> Compiled:
    """Compile `entry`, whose arguments from `count` on are factors.

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
    described, alone = submodule("runtime").get_ranked_memref_descriptor, Lock()

    def execute(inputs: Sequence[Array]) -> list[Array]:
        results = [np.zeros(each.shape, each.dtype) for each in types]
        buffers = [described(_as_bits(np.ascontiguousarray(each))) for each in (*inputs, *results)]
        pointers = [ctypes.pointer(ctypes.pointer(each)) for each in buffers]
        with alone:  # buffers that live as long as the code are of one run
            engine.invoke(_ENTRY, *pointers)
        return results

    return Compiled(f"upstream's passes ({provider})", execute)


def _to_llvm(module: ir.Module, entry: str, count: int) -> None:
    op = module.operation
    _keep_alone(op, entry)
    decompose_chlo(op)
    if any(inner.name.startswith("stablehlo.") for inner in walk(op)):
        know_stablehlo_passes()
        _run(_FROM_STABLEHLO, op)
    _run(_FROM_TOSA, op)
    function = find_function(op, entry)
    widen(function, count)
    sum_in_f64(function)
    _keep_inputs(function)
    _run(_TO_BUFFERS, op)
    _keep_buffers(find_function(op, entry))
    _run(_DEALLOCATE, op)
    build.copies_to_loops(walk(op))  # of strided buffers one is a call of a library
    function = find_function(op, entry)
    function.attributes["sym_name"] = ir.StringAttr.get(_ENTRY)
    function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    _outline_loops(function)
    _run(_TO_LLVM, op)
    for inner in walk(op):
        if not inner.name.startswith("llvm."):
            raise CannotJudge(f"upstream has no code for '{inner.name}' op")


def _run(pipeline: str, op: ir.Operation) -> None:
    """Run upstream's passes, and verify what the last leaves: after each takes half of the time."""
    passes = PassManager.parse(pipeline)
    passes.enable_verifier(False)
    passes.run(op)
    op.verify()


def _keep_buffers(function: ir.Operation) -> None:
    """Let buffers outside of loops live as long as the code, while they take little memory.

    What frees buffers compares each with each other.
    """
    left = _KEPT
    for op in operations(body(function)):
        if op.name != "memref.alloc" or not op.results[0].type.has_static_shape:
            continue
        type_ = op.results[0].type
        left -= max(1, prod(type_.shape)) * itemsize(type_.element_type)
        if left < 0:
            return
        name = f"buffer.{left}"
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(type_),
            "initial_value": ir.UnitAttr.get(),
        }
        with ir.InsertionPoint(function), op.location:
            build.create("memref.global", [], [], attributes)
        with ir.InsertionPoint(op), op.location:
            named = {"name": ir.FlatSymbolRefAttr.get(name)}
            kept = build.create("memref.get_global", [type_], [], named)
        replace_op(op, kept.results[0])


def _outline_loops(function: ir.Operation) -> None:
    """Move the outermost loops into functions, and let LLVM leave alone what is between them."""
    alone, as_is = (
        ir.ArrayAttr.get([ir.StringAttr.get(each) for each in attributes])
        for attributes in (("noinline",), ("noinline", "optnone"))
    )
    function.attributes["llvm.passthrough"] = as_is
    names: dict[str, str] = {}
    for loop in _loops(function):
        with ir.InsertionPoint(function), ir.Location.unknown():
            kernel = build.declare(_KERNEL, ir.FunctionType.get([], []))
            with ir.InsertionPoint(kernel.regions[0].blocks.append()):
                end = build.create("func.return", [], [])
        kernel.attributes["llvm.passthrough"] = alone
        with ir.InsertionPoint.after(loop), loop.location:
            loop.move_before(end)
            captured = isolate(kernel)
            if all(map(_is_known_by_address, captured)):
                kernel.attributes["llvm.bareptr"] = ir.UnitAttr.get()
            text = str(kernel.get_asm(use_local_scope=True, assume_verified=True))
            is_new = text not in names
            name = names.setdefault(text, f"{_KERNEL}.{len(names)}")
            build.call(name, captured, [])
        if is_new:
            kernel.attributes["sym_name"] = ir.StringAttr.get(name)
        else:
            kernel.erase()


def _is_known_by_address(value: ir.Value) -> bool:
    """Whether its address is all that code needs, or it is a number: a call hands over less."""
    type_ = value.type
    if not isinstance(type_, ir.ShapedType):
        return True
    is_plain = isinstance(type_, ir.MemRefType) and type_.affine_map == ir.AffineMap.get_identity(
        type_.rank
    )
    return is_plain and type_.has_static_shape


def _loops(op: ir.Operation) -> Iterator[ir.Operation]:
    """The outermost loops in an op that pass no values on."""
    for region in op.regions:
        for inner in (each for block in region for each in operations(block)):
            if not len(inner.results) and inner.name.startswith(("linalg.", "scf.for")):
                yield inner
            else:
                yield from _loops(inner)


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
                end.operands[number] = build.allocate_copy(value)


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


def _is_made(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block)


def _is_on_bits(op: ir.Operation) -> bool:
    return str(op.results[0].type.element_type) == "i1"


def _has_batches(op: ir.Operation) -> bool:
    return "operand_batching_dims" in str(op.attributes["dimension_numbers"])


def _has_unsigned_indices(op: ir.Operation) -> bool:
    return any(
        isinstance(each.type.element_type, ir.IntegerType) and each.type.element_type.is_unsigned
        for each in list(op.operands)[1:]
    )


def _counts_in_narrow_floats(op: ir.Operation) -> bool:
    """Whether it counts further than an integer as wide as its floats may hold."""
    type_ = op.results[0].type
    is_narrow = isinstance(type_.element_type, ir.FloatType) and type_.element_type.width < 32
    return is_narrow and max(type_.shape, default=0) >= 128


_WRONG: Mapping[str, Callable[[ir.Operation], bool]] = {
    "bufferization.materialize_in_destination": _always,
    "stablehlo.add": _is_on_bits,
    "stablehlo.dynamic_slice": _has_unsigned_indices,
    "stablehlo.dynamic_update_slice": _has_unsigned_indices,
    "stablehlo.gather": lambda op: _has_batches(op) or _has_unsigned_indices(op),
    "stablehlo.iota": _counts_in_narrow_floats,
    "stablehlo.pad": lambda op: any(op.attributes["interior_padding"]) and _is_made(op.operands[0]),
    "stablehlo.reduce": lambda op: not list(op.attributes["dimensions"]),
    "stablehlo.select_and_scatter": _always,
    "tensor.insert_slice": lambda op: {*op.attributes["static_strides"]} != {1},
}
"""Found by running them beside XLA (tests/ops/test_run_as_others.py)."""
