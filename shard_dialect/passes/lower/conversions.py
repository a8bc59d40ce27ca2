"""Convert to linalg and buffers, by upstream's passes and by ours where upstream has none.

Most steps run upstream's passes on modules with the ops that these convert:

    cf.cond_br, cf.br        scf.if, scf.while
    tosa.*, stablehlo.*      linalg.*, arith.*, tensor.*
    tensor<4xf32>            memref<4xf32>, results as arguments that the caller passes

`decompose-linalg` decomposes the composite ops of linalg, which upstream cannot lower to loops
directly.

    linalg.softmax      a maximum, exponentials, their sum, a quotient
    linalg.pack         tensor.pad, tensor.expand_shape, linalg.transpose

Upstream has these decompositions as transforms only, so a schedule in the transform dialect applies
them.

`drop-signs` makes integer types signless, as ops on buffers require.

    %0 = builtin.unrealized_conversion_cast %a : tensor<8xui32> to tensor<8xi32>
    %1 = linalg.generic ... arith.divui ... ins(%0 : tensor<8xi32>)

StableHLO's ops on unsigned integers have become ops such as `arith.divui`, so the signedness that
is left in types, on boundaries, loops and collectives, has no meaning any more.

`expand_matmuls` expands TOSA's matrix product with zero points that are no constants, for which
upstream has no code.

    %r = tosa.matmul %a, %b, %p, %q
      becomes, each line a `linalg.generic` in the type of %r,
    %x[n, h, c] = %a[n, h, c] - %p[0]
    %y[n, c, w] = %b[n, c, w] - %q[0]
    %r[n, h, w] = the sum over c of %x[n, h, c] * %y[n, c, w]

Source: TOSA 1.0, MATMUL.

`refuse-custom-calls` refuses calls of functions of a framework's runtime, which we lack.

    error: 'stablehlo.custom_call' op of @lapack_strsyl_ffi ... run it with --backend=xla

The calls of torch and of LAPACK, to which JAX lowers decompositions, are called by devices, too
(`ops.library_calls`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir, know_stablehlo_passes, run_upstream, submodule
from shard_dialect.ir.building import build, loops_and_masks
from shard_dialect.ir.building.build import replace_op
from shard_dialect.ir.building.reductions import signless
from shard_dialect.ir.diagnostics import error_at, from_mlir, location_text
from shard_dialect.ir.function import functions_of, name_of, update_type
from shard_dialect.ir.shard.local_collectives import is_of_stablehlo
from shard_dialect.ir.walk import operations, walk
from shard_dialect.ops.library_calls import routine_of
from shard_dialect.ops.stablehlo.custom_call import CUSTOM_CALL, calls_library, target_of
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, Pass, known, needs, ops_of
from shard_dialect.passes.lower.boundary import NOT_LOWERED
from shard_dialect.passes.manual.replica_group_collectives import ONE_DEVICE

_PACK_RESULTS = ("tensor.pad", "tensor.expand_shape", "linalg.transpose")
_UNPACK_RESULTS = (
    "tensor.empty",
    "linalg.transpose",
    "tensor.collapse_shape",
    "tensor.extract_slice",
    "linalg.copy",
)
_TRANSFORMS = {
    "linalg.softmax": ("decompose_interface", ()),
    "linalg.pack": ("lower_pack", _PACK_RESULTS),
    "linalg.unpack": ("lower_unpack", _UNPACK_RESULTS),
    "linalg.winograd_filter_transform": ("decompose_winograd_op", ()),
    "linalg.winograd_input_transform": ("decompose_winograd_op", ()),
    "linalg.winograd_output_transform": ("decompose_winograd_op", ()),
}
"""The transform for each op, and the ops that it returns handles of, if several."""


@needs(ops=("linalg.",), forms=NOT_LOWERED)
def decompose_linalg(module: ir.Operation) -> Outcome:
    """Replace the ops of the table by their decompositions."""
    names = sorted(known(module, ops_of) & set(_TRANSFORMS))
    if not names:
        return UNCHANGED
    schedule = ir.Module.parse(_schedule(names))
    sequence = operations(schedule.body)[0]
    submodule("dialects.transform.interpreter").apply_named_sequence(module, sequence, schedule)
    return None


def _schedule(names: list[str]) -> str:
    return f"""
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%module: !transform.any_op) {{
    {"".join(map(_step, names))}
    transform.yield
  }}
}}"""


def _step(name: str) -> str:
    transform, result_ops = _TRANSFORMS[name]
    types = ", ".join(f'!transform.op<"{each}">' for each in result_ops) or "!transform.any_op"
    of, handle = f'!transform.op<"{name}">', f"%{name.replace('.', '_')}"
    return f"""
    {handle} = transform.structured.match ops{{["{name}"]}} in %module
      : (!transform.any_op) -> {of}
    transform.foreach {handle} : {of} {{
    ^bb0(%each: {of}):
      %made:{len(result_ops) or 1} = transform.structured.{transform} %each : ({of}) -> ({types})
    }}"""


_UNSIGNED = ("stablehlo.partition_id", "stablehlo.replica_id")
"""Ops that nothing lowers, and whose result must be unsigned."""
_CASTS = ("builtin.unrealized_conversion_cast", "tensor.bitcast")


@needs(forms=NOT_LOWERED)
def drop_signs(module: ir.Operation) -> Outcome:
    """Make the types of all values, constants and functions signless."""
    changed = False
    plain = cache(signless)
    for op in walk(module):
        if op.name in _UNSIGNED:
            raise error_at(
                op.location,
                f"'{op.name}' op cannot be lowered: there is no code for it that a device could "
                "run",
            )
        values = list(op.results)
        if len(op.regions):
            inside = (block for region in op.regions for block in region)
            values += [argument for block in inside for argument in block.arguments]
        for value in values:
            type_ = value.type
            if (signless_type := plain(type_)) != type_:
                value.set_type(signless_type)
                if op.name == "arith.constant":
                    op.attributes["value"] = _plain_elements(op.attributes["value"])
                changed = True
        if op.name in _CASTS and op.operands[0].type == op.results[0].type:
            replace_op(op, op.operands[0])
            changed = True
    if not changed:
        return UNCHANGED
    for function in functions_of(module):
        update_type(function)
    return None


def _plain_elements(value: ir.Attribute) -> ir.Attribute:
    """The same bits in the signless type."""
    plain = signless(value.type)
    element = plain.element_type
    half = 2 ** (element.width - 1)
    numbers = [(number + half) % (2 * half) - half for number in value]
    return build.dense(numbers, element, plain.shape)


def expand_matmuls(ops: Iterable[ir.Operation]) -> None:
    """Replace the matrix products among `ops` whose zero points are not known."""
    for op in ops:
        if op.name == "tosa.matmul" and any(
            build.constant_value(each) is None for each in list(op.operands)[2:]
        ):
            with ir.InsertionPoint(op), op.location:
                replace_op(op, _expanded(op))


def _expanded(op: ir.Operation) -> ir.Value:
    type_ = op.results[0].type
    element = type_.element_type
    is_float = isinstance(element, ir.FloatType)
    suffix, widening = ("f", "arith.extf") if is_float else ("i", "arith.extsi")

    def wide(value: ir.Value) -> ir.Value:
        return build.cast(widening, value, element)

    def combine(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return build.arith(f"{name}{suffix}", a, b)

    def shifted(value: ir.Value, zero_point: ir.Value) -> ir.Value:
        scalar = ir.RankedTensorType.get([], zero_point.type.element_type)
        none = {"reassociation": ir.ArrayAttr.get([])}
        point = build.create_value("tensor.collapse_shape", scalar, [zero_point], none)
        into = build.empty(ir.RankedTensorType.get(value.type.shape, element))
        d = [ir.AffineDimExpr.get(number) for number in range(3)]
        return loops_and_masks.generic(
            [value, point],
            into,
            [_map(3, *d), _map(3), _map(3, *d)],
            ["parallel"] * 3,
            lambda each, point, _: combine("sub", wide(each), wide(point)),
        ).results[0]

    a, b, p, q = op.operands
    n, h, w, c = (ir.AffineDimExpr.get(number) for number in range(4))
    zero = ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0)
    into = build.fill(build.scalar(zero), build.empty(type_)).results[0]
    return loops_and_masks.generic(
        [shifted(a, p), shifted(b, q)],
        into,
        [_map(4, n, h, c), _map(4, n, c, w), _map(4, n, h, w)],
        ["parallel", "parallel", "parallel", "reduction"],
        lambda x, y, sum_: combine("add", sum_, combine("mul", x, y)),
    ).results[0]


def _map(rank: int, *results: ir.AffineExpr) -> ir.Attribute:
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, list(results)))


# Deallocation supports structured regions only. Unreachable blocks cannot be lifted to them.
_FROM_BRANCHES = "builtin.module(func.func(canonicalize,lift-cf-to-scf))"
_FROM_TOSA = (
    "builtin.module(func.func("
    "tosa-optional-decompositions,tosa-to-scf,tosa-to-linalg-named,tosa-to-linalg,"
    "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor))"
)


_FROM_STABLEHLO = (
    "builtin.module(stablehlo-legalize-to-linalg,"
    "func.func(canonicalize,empty-tensor-to-alloc-tensor,cse))"
)
# Before anything merges them (`separate_buffers`).
_TO_LINALG = "builtin.module(func.func(empty-tensor-to-alloc-tensor,convert-elementwise-to-linalg))"
_TO_BUFFERS = (
    "builtin.module("
    "one-shot-bufferize{{copy-before-write={} allow-return-allocs-from-loops"
    " bufferize-function-boundaries"
    " function-boundary-type-conversion=identity-layout-map}})"
)
_TO_ARGUMENTS = (
    "builtin.module("
    # Callers pass the buffers of results: new ones would be paged in at every run.
    "buffer-results-to-out-params{modify-public-functions=true hoist-static-allocs=true},"
    "canonicalize)"
)
_SIMPLER = "builtin.module(canonicalize,cse)"
_GENERALIZED = "builtin.module(func.func(linalg-generalize-named-ops))"
_FROM_AFFINE = "builtin.module(lower-affine)"


@needs(ops=("cf.",), forms=NOT_LOWERED)
def branches_to_scf(module: ir.Operation) -> None:
    """Convert branches between blocks to `scf`."""
    run_upstream(_FROM_BRANCHES, module)
    for op in walk(module):
        if op.name == "ub.poison" and isinstance(op.results[0].type, ir.RankedTensorType):
            with ir.InsertionPoint(op), op.location:
                unread = build.empty(op.results[0].type)
            replace_op(op, unread)


@needs(ops=("tosa.",), forms=NOT_LOWERED)
def tosa_to_linalg(module: ir.Operation) -> None:
    """Convert TOSA to linalg, `tensor` and `arith`."""
    ops = [op for op in walk(module) if op.name.startswith("tosa.")]
    _read_scales_alike(ops)
    expand_matmuls(ops)
    run_upstream(_FROM_TOSA, module)


@needs(ops=("stablehlo.",), forms=NOT_LOWERED)
def stablehlo_to_linalg(module: ir.Operation) -> None:
    """Convert StableHLO to linalg."""
    know_stablehlo_passes()
    run_upstream(_FROM_STABLEHLO, module)


@needs(forms=NOT_LOWERED)
def elementwise_to_linalg(module: ir.Operation) -> None:
    """Convert elementwise ops on tensors to linalg, and empty tensors to allocated ones."""
    run_upstream(_TO_LINALG, module)


@needs(ops=("linalg.",), forms=NOT_LOWERED)
def generalize_linalg(module: ir.Operation) -> None:
    """Write all of linalg as `linalg.generic`."""
    decompose_linalg(module)
    run_upstream(_GENERALIZED, module)


@needs(ops=("affine.",), forms=NOT_LOWERED)
def lower_affine_ops(module: ir.Operation) -> None:
    """Write affine ops as `scf` and `arith`."""
    run_upstream(_FROM_AFFINE, module)


@needs(forms=NOT_LOWERED)
@dataclass(frozen=True)
class Bufferize(Pass):
    """Replace tensors by buffers."""

    name = "bufferize"

    copy_before_write: bool = False
    """Copy before every write: slower, but correct whatever the buffer analysis overlooks."""

    def rewrite(self, module: ir.Operation) -> None:
        """Raises a located `ShardError` for an op that has no buffers."""
        copies = "true" if self.copy_before_write else "false"
        try:
            run_upstream(_TO_BUFFERS.format(copies), module)
        except ir.MLIRError as error:
            raise _named(from_mlir(error)) from None


@needs(forms=NOT_LOWERED)
def results_to_arguments(module: ir.Operation) -> None:
    """Let functions write their results to buffers that the caller passes."""
    run_upstream(_TO_ARGUMENTS, module)


@needs(forms=NOT_LOWERED)
def simplify_lowered(module: ir.Operation) -> None:
    """Canonicalize, and share values that are computed twice."""
    run_upstream(_SIMPLER, module)


def _named(error: ShardError) -> ShardError:
    """The same error with a clear message, if it is that an op was not bufferized."""
    shown = error.notes[0].message if error.notes else ""
    op_match, target = _OP.match(shown), _CALLED.search(shown)
    if error.message != _NOT_BUFFERIZED or op_match is None:
        return error
    name = f"'{op_match[1]}' op" + (f" of {as_symbol(target[1])}" if target else "")
    text = f"{name} cannot be lowered: there is no code for it that a device could run"
    more = ONE_DEVICE if is_of_stablehlo(op_match[1]) else _OWN_CODE
    return ShardError(text + more, error.location)


_OWN_CODE = "; the code of an op of your own is given by 'lowering=' (docs/library.md)"
_NOT_BUFFERIZED = "op was not bufferized"
_OP = re.compile(r'see current operation:\s*(?:%[^"]*= )?"([^"]+)"')
_CALLED = re.compile(r'\bcall_target_name = "([^"]+)"')


def _read_scales_alike(ops: Iterable[ir.Operation]) -> None:
    """Hide a multiplier or shift that alone is constant, as upstream makes it an empty tensor."""
    for op in [each for each in ops if each.name == "tosa.rescale"]:
        scales = list(op.operands)[1:3]
        known = [build.constant_value(scale) is not None for scale in scales]
        if known[0] == known[1]:
            continue
        with ir.InsertionPoint(op), op.location:
            copied = build.allocate_copy(scales[known.index(True)])
        op.operands[1 + known.index(True)] = copied


_LAPACK = "lapack_"


@needs(ops=(CUSTOM_CALL,), forms=NOT_LOWERED)
def refuse_custom_calls(module: ir.Operation) -> None:
    """Raise a located `ShardError` for the first call that is left."""
    for function in functions_of(module):
        for op in walk(function):
            if op.name == CUSTOM_CALL and not calls_library(op):
                raise ShardError(_message(op), _place(op, function, module))


def calls_lapack(module: ir.Operation) -> bool:
    """Whether a module calls LAPACK."""
    return any(op.name == CUSTOM_CALL and target_of(op).startswith(_LAPACK) for op in walk(module))


def _message(op: ir.Operation) -> str:
    target = target_of(op)
    head = f"'stablehlo.custom_call' op of {as_symbol(target)} cannot be lowered: "
    if not target.startswith(_LAPACK):
        return f"{head}there is no code for it that a device could run"
    why = "its matrices are not stored by columns" if routine_of(target) else "only jaxlib has it"
    return f"{head}{why}: run the program with --backend=xla"


def _place(op: ir.Operation, function: ir.Operation, module: ir.Operation) -> str | None:
    """The place of the op, or of a call of its function: JAX's own functions have no places."""
    places = [op.location, function.location]
    for each in walk(module):
        if each.name == "func.call" and each.attributes["callee"].value == name_of(function):
            places.append(each.location)
    return next((text for each in places if (text := location_text(each))), None)
