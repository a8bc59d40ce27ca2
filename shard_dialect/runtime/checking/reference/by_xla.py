"""XLA as the judge: jaxlib's compiler for CPUs, on the program as StableHLO.

The compiler's client is an internal interface of jaxlib, and is used only here.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

import ml_dtypes
import numpy as np

from shard_dialect.abi.tensor_types import Array
from shard_dialect.backends.xla.jax_functions import find_lapack
from shard_dialect.errors import first_line_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.reductions import is_identity
from shard_dialect.ir.function import BOUNDARY, functions_of, name_of
from shard_dialect.ir.walk import operations, source_behind, walk
from shard_dialect.ops.stablehlo.attribute_reading import numbers
from shard_dialect.ops.stablehlo.reduction_rules import combiner
from shard_dialect.passes.lower.conversions import calls_lapack
from shard_dialect.processes.startup import without_notices
from shard_dialect.runtime.checking.reference.judge import CannotJudge, Compiled, Execute

_DIALECTS = ("builtin", "func", "stablehlo", "chlo")
_SHAPES = ("stablehlo.broadcast", "stablehlo.broadcast_in_dim", "stablehlo.reshape")
_ENTRY = "main"
_DEEPEST = 500
"""XLA fuses chains of elementwise ops, and recurses along one: thousands are more than its threads'
stacks hold."""
_OF_CALLS = "mhlo.backend_config"
"""The attribute with the further arguments of a call to jaxlib's functions."""


def compile_by_xla(module: ir.Operation, entry: str, _: int) -> Compiled:
    """Compile `entry`. Raises `CannotJudge`; `module` is not changed."""
    if importlib.util.find_spec("jaxlib") is None or importlib.util.find_spec("jax") is None:
        raise CannotJudge("jax is not installed")
    for op in walk(module):
        if op.name.partition(".")[0] not in _DIALECTS:
            raise CannotJudge(f"it knows no '{op.name}' op")
        if is_open(op):
            raise CannotJudge(f"it may do otherwise what such a '{op.name}' op leaves open")
    number, client, device = _client()
    if calls_lapack(module):
        find_lapack()
    text = _text(module, entry)

    def compiled(text: bytes) -> Execute:
        try:
            executable = _compiled(client, device, text)
        except Exception as error:  # jaxlib's own exceptions have no common class that is public
            raise CannotJudge(f"it refuses the program: {first_line_of(error)}") from None

        def execute(inputs: Sequence[Array]) -> list[Array]:
            import jax

            with jax.enable_x64(True):
                on_device = [jax.device_put(each, device) for each in inputs]
            shards = executable.execute_sharded(on_device).disassemble_into_single_device_arrays()
            return [np.asarray(each) for (each,) in shards]

        return execute

    return Compiled(f"XLA (jaxlib {number})", compiled(text), lambda: compiled(_in_f64(text)))


_FLOATS = {b"f16": np.float16, b"bf16": ml_dtypes.bfloat16, b"f32": np.float32}
_DENSE = re.compile(rb'dense<"0x([0-9A-F]*)"> : (tensor<(?:\d+x)*)(b?f16|f32)>')
_BITS = re.compile(rb"(?<![\w\"])0x([0-9A-F]+)\b")
"""How an infinity or NaN is written."""
_NARROW = re.compile(rb"(?<![\w.])((?:\d+x)*)(?:b?f16|f32)\b")

_OF_EIGHT_BITS = re.compile(rb"f8E\dM\d")


def _in_f64(text: bytes) -> bytes:
    """The program with 64 bits for each float, in its types and in its constants' bytes.

    Raises `CannotJudge` for an infinity of 16 bits, since NaNs of another type look like it, and
    for floats of 8 bits, which are what a program rounds to on purpose.
    """
    if _OF_EIGHT_BITS.search(text):
        raise CannotJudge("it has floats of 8 bits")

    def widened(match: re.Match[bytes]) -> bytes:
        elements = np.frombuffer(bytes.fromhex(match[1].decode()), _FLOATS[match[3]])
        digits = elements.astype(np.float64).tobytes().hex().upper().encode()
        return b'dense<"0x' + digits + b'"> : ' + match[2] + b"f64>"

    def special(match: re.Match[bytes]) -> bytes:
        if len(match[1]) == 4:
            raise CannotJudge("it has an infinity of 16 bits")
        bits = np.array(int(match[1], 16), f"u{len(match[1]) // 2}")
        wide = bits.view(f"f{bits.itemsize}").astype(np.float64).view("u8")
        return f"0x{int(wide):016X}".encode()

    return _NARROW.sub(rb"\1f64", _BITS.sub(special, _DENSE.sub(widened, text)))


def _starts_from_something(op: ir.Operation) -> bool:
    """Whether the init is not neutral: StableHLO leaves open how often it is joined."""
    count = len(op.results)
    kind = combiner(op, count)
    starts = [_source(each) for each in list(op.operands)[count:]]
    return kind is not None and not all(is_identity(kind, each) for each in starts)


def _source(value: ir.Value) -> ir.Value:
    """The value from which a tensor of one element is made."""
    return source_behind(value, *_SHAPES)


def _writes_over_the_end(op: ir.Operation) -> bool:
    """Whether a window may be partly outside: XLA drops such windows entirely."""
    dims = numbers(op, "scatter_dimension_numbers", "ScatterDimensionNumbers")
    inserted = (*dims.inserted_window_dims, *dims.input_batching_dims)
    operand, indices = op.results[0].type.shape, op.operands[len(op.results)]
    kept = [d for d in range(len(operand)) if d not in inserted]
    shape = op.operands[len(op.results) + 1].type.shape
    sizes = dict(zip(kept, [shape[d] for d in dims.update_window_dims], strict=True))
    wide = [
        (number, operand[dim] - sizes[dim])
        for number, dim in enumerate(dims.scattered_dims_to_operand_dims)
        if sizes.get(dim, 1) > 1
    ]
    known = build.constant_value(indices)
    if known is None or not wide:
        return bool(wide)
    at = np.asarray(known).reshape(indices.type.shape)
    at = at[..., None] if dims.index_vector_dim == at.ndim else at
    components = [(at.take(number, dims.index_vector_dim), last) for number, last in wide]
    return any(bool(((each < 0) | (each > last)).any()) for each, last in components)


def _draws_no_bits(op: ir.Operation) -> bool:
    """XLA makes numbers of another type, where the element type is not unsigned."""
    element = op.results[1].type.element_type
    return not (isinstance(element, ir.IntegerType) and element.is_unsigned)


_OPEN: Mapping[str, Callable[[ir.Operation], bool]] = {
    "stablehlo.reduce": _starts_from_something,
    "stablehlo.reduce_window": _starts_from_something,
    "stablehlo.rng": lambda _: True,
    "stablehlo.rng_bit_generator": _draws_no_bits,
    "stablehlo.scatter": _writes_over_the_end,
}
"""By op: whether the definition of an instance leaves its result to the implementation."""


def is_open(op: ir.Operation) -> bool:
    """Whether XLA may give another result of the op than others do."""
    return op.name in _OPEN and _OPEN[op.name](op)


def _text(module: ir.Operation, entry: str) -> bytes:
    """The module with @main as its entry, and without attributes that do not affect values."""
    copy = ir.Module.parse(module.get_asm(enable_debug_info=True), module.context).operation
    for op in functions_of(copy):
        if entry != _ENTRY and name_of(op) in (entry, _ENTRY):
            new = _ENTRY if name_of(op) == entry else f"{_ENTRY}.called"
            ir.SymbolTable.replace_all_symbol_uses(name_of(op), new, copy)
            op.attributes["sym_name"] = ir.StringAttr.get(new, copy.context)
    for op in (copy, *walk(copy)):
        for name in list(op.attributes):
            is_ours = "." in name and name != _OF_CALLS
            if is_ours or name in (*BOUNDARY, "sym_visibility"):
                del op.attributes[name]
    for op in (copy, *walk(copy)):
        for region in op.regions:
            for block in region.blocks:
                _cut_chains(block)
    text: str = copy.get_asm(print_generic_op_form=True)
    return text.encode()


def _cut_chains(block: ir.Block) -> None:
    """Put a barrier, which nothing is fused over, behind the last op of each long chain of ops."""
    depths: dict[ir.Value, int] = {}
    for op in list(operations(block)):
        depth = 1 + max((depths.get(operand, 0) for operand in op.operands), default=0)
        if depth == _DEEPEST and len(op.results):
            _put_barrier(op)  # whose results are of depth 0
        depths |= dict.fromkeys(op.results, depth)


def _put_barrier(op: ir.Operation) -> None:
    results = list(op.results)
    with ir.InsertionPoint.after(op), op.location:
        types = [each.type for each in results]
        barrier = build.create("stablehlo.optimization_barrier", types, results)
    for result, behind in zip(results, barrier.results, strict=True):
        result.replace_all_uses_except(behind, barrier)


@cache
def _client() -> tuple[str, Any, Any]:
    """Jaxlib's version, a client for CPUs, and its one device.

    The client is the judge's own: the user may want more devices of jax's.
    """
    without_notices()
    from jaxlib import xla_client

    client: Any = xla_client.make_cpu_client(num_devices=1)
    return version("jaxlib"), client, client.local_devices()[0]


def _compiled(client: Any, device: Any, text: bytes) -> Any:
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    # Round to 16 bits exactly where the program does, and compute what it says: the simplifier
    # takes (a + c) - c for a, which is another number by what the sum is rounded.
    # Barriers stay until ops have been fused.
    options.env_option_overrides = [
        ("xla_allow_excess_precision", False),
        ("xla_disable_hlo_passes", "algsimp,cse_barrier_expander"),
        # XLA's fusion emitters recurse without end on two transposes that cancel (jaxlib 0.10.2).
        ("xla_cpu_use_fusion_emitters", False),
    ]
    return client.compile_and_load(text, xla_client.DeviceList((device,)), options)
