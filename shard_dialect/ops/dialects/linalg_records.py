"""The records of `linalg`'s ops: rules, bodies on shards, and partial values."""

from __future__ import annotations

from math import prod
from typing import Any

from shard_dialect.ir.bindings import ir, linalg_queries
from shard_dialect.ops.dialects.linalg_bodies import may_be_padded, padding, partition_body
from shard_dialect.ops.dialects.linalg_rules import pack, softmax, structured, unpack, winograd
from shard_dialect.ops.op_record import Later, OpRecord
from shard_dialect.ops.operations import Flops, LocalOp
from shard_dialect.ops.partial_values import (
    adds,
    divides,
    moves,
    multiplies,
    negates,
    scales,
    takes_maximum,
    takes_minimum,
)
from shard_dialect.ops.scalar_functions import Trait


def loops(op: LocalOp) -> Flops | None:
    """Each step of the loops runs the body, which named ops have, too."""
    sizes = _loop_sizes(op)
    if sizes is None:
        return None
    return op.body(0) * prod(sizes) if len(op.handle.regions) else Flops()


def _loop_sizes(op: LocalOp) -> tuple[int, ...] | None:
    """The sizes of the loops; on buffers, of which a rule knows nothing, from the maps."""
    if not any(isinstance(each.type, ir.MemRefType) for each in op.handle.operands):
        rule = op.rule()
        return rule.sizes if rule else None
    sizes: dict[int, int] = {}
    maps = [each.value for each in linalg_queries.get_indexing_maps(op.handle) or ()]
    for map_, tensor in zip(maps, op.operands, strict=False):
        for expr, size in zip(map_.results, tensor.shape if tensor else (), strict=False):
            if isinstance(expr, ir.AffineDimExpr):
                sizes[expr.position] = size
    found = range(maps[0].n_dims if maps else 0)
    return tuple(sizes[loop] for loop in found) if all(loop in sizes for loop in found) else None


def softmaxes(op: LocalOp) -> Flops:
    """A maximum, a subtraction, an exponential, a sum and a division for each element."""
    return Flops(5, 1) * op.made


def _record(**facets: Any) -> OpRecord:
    given = {"rule": structured, "padding": padding, "operations": loops, **facets}
    shapes = Later("passes.specialize.shape_rules:structured")
    return OpRecord(may_be_padded=may_be_padded, shapes=shapes, **given)


def _sample(name: str, *given: Any) -> Later:
    return Later(f"testing.samples.linalg_samples:{name}", given)


STRUCTURED = _record()
"""The record of all ops with indexing maps that have no record of their own."""

_CONVOLUTIONS = (
    "conv_1d conv_2d conv_3d conv_1d_ncw_fcw conv_1d_nwc_wcf conv_2d_nchw_fchw "
    "conv_2d_nchw_fchw_q conv_2d_ngchw_fgchw conv_2d_ngchw_gfchw conv_2d_ngchw_gfchw_q "
    "conv_2d_nhwc_fhwc conv_2d_nhwc_fhwc_q conv_2d_nhwc_hwcf conv_2d_nhwc_hwcf_q "
    "conv_2d_nhwgc_gfhwc conv_2d_nhwgc_gfhwc_q conv_3d_ncdhw_fcdhw conv_3d_ndhwc_dhwcf "
    "conv_3d_ndhwc_dhwcf_q depthwise_conv_1d_ncw_cw depthwise_conv_1d_nwc_wc "
    "depthwise_conv_1d_nwc_wcm depthwise_conv_2d_nchw_chw depthwise_conv_2d_nhwc_hwc "
    "depthwise_conv_2d_nhwc_hwc_q depthwise_conv_2d_nhwc_hwcm depthwise_conv_2d_nhwc_hwcm_q "
    "depthwise_conv_3d_ncdhw_cdhw depthwise_conv_3d_ndhwc_dhwc depthwise_conv_3d_ndhwc_dhwcm"
).split()
_POOLINGS = (
    "pooling_nchw_max pooling_nchw_sum pooling_ncw_max pooling_ncw_sum pooling_ndhwc_max "
    "pooling_ndhwc_min pooling_ndhwc_sum pooling_nhwc_max pooling_nhwc_max_unsigned "
    "pooling_nhwc_min pooling_nhwc_min_unsigned pooling_nhwc_sum pooling_nwc_max "
    "pooling_nwc_max_unsigned pooling_nwc_min pooling_nwc_min_unsigned pooling_nwc_sum"
).split()

_CONTRACTIONS = {
    "batch_matmul": "bmk bkn bmn",
    "batch_matvec": "bmk bk bm",
    "batch_mmt4d": "bmkxz bnkyz bmnxy",
    "batch_reduce_matmul": "bmk bkn mn",
    "batch_vecmat": "bk bkn bn",
    "dot": "k k ",
    "matmul": "mk kn mn",
    "matvec": "mk k m",
    "mmt4d": "mkxz nkyz mnxy",
    "quantized_matmul": "mk kn mn",
    "quantized_batch_matmul": "bmk bkn bmn",
    "vecmat": "k kn n",
}
"""The loops of both operands and of the result."""
_UNARY = {
    **{name: name for name in "abs ceil erf exp floor log reciprocal round rsqrt sqrt".split()},
    "square": "mul",
    "tanh": "tanh",
}

RECORDS: dict[str, OpRecord] = {
    f"linalg.{name}": record
    for name, record in {
        **{name: _record(function=each, sample="f32") for name, each in _UNARY.items()},
        **{
            name: _record(sample=_sample("contraction", name, loops_of))
            for name, loops_of in _CONTRACTIONS.items()
        },
        **{
            name: _record(sample=Later("testing.samples.linalg_samples:windowed", (name,)))
            for name in (*_CONVOLUTIONS, *_POOLINGS)
        },
        **{
            name: _record(sample=_sample("contraction", name, _CONTRACTIONS[name]), partial=scales)
            for name in ("batch_matmul", "dot", "matmul", "matvec", "vecmat")
        },
        **{
            f"winograd_{name}_transform": _record(
                rule=winograd(spec), padding=None, sample=_sample("winograd", name)
            )
            for name, spec in {
                "filter": "f11c,11cf->11cf",
                "input": "n11c,1111nc->1111nc",
                "output": "1111nf,n11f->n11f",
            }.items()
        },
        "add": _record(function="add", sample="f32 f32", partial=adds),
        "broadcast": _record(sample=_sample("broadcast"), partial=moves, traits=Trait.MOVES),
        "contract": _record(sample=_sample("contract")),
        "copy": _record(function="identity", sample="f32", partial=moves),
        "div": _record(function="div", sample="f32 f32", partial=divides),
        "div_unsigned": _record(
            function="quotient", sample=_sample("div_unsigned"), traits=Trait.UNSIGNED
        ),
        "elementwise": _record(sample="f32 f32 | kind = #linalg.elementwise_kind<add> "),
        "fill": _record(sample=_sample("fill"), traits=Trait.EXACT),
        "fill_rng_2d": _record(sample=_sample("fill_rng_2d")),
        "generic": _record(
            sample=_sample("generic"),
            partition=partition_body,
            python=Later("backends.python.ops.linalg_ops:generic"),
            stablehlo=Later("passes.lower.to_stablehlo.stablehlo_contractions:structured"),
        ),
        "index": OpRecord(operations=0, traits=Trait.EXACT),
        "map": _record(sample=_sample("map_"), partition=partition_body),
        "max": _record(function="max", sample="f32 f32", partial=takes_maximum),
        "min": _record(function="min", sample="f32 f32", partial=takes_minimum),
        "mul": _record(function="mul", sample="f32 f32", partial=multiplies),
        "negf": _record(function="neg", sample="f32", partial=negates),
        "pack": _record(rule=pack, padding=None, sample=_sample("pack")),
        "powf": _record(function="power", sample="f32 f32"),
        "reduce": _record(sample=_sample("reduce"), partition=partition_body),
        "select": _record(function="select", sample=_sample("select")),
        "softmax": _record(
            rule=softmax,
            padding=None,
            sample=_sample("softmax"),
            operations=softmaxes,
            traits=Trait.VARIES,
        ),
        "sub": _record(function="sub", sample="f32 f32", partial=adds),
        "transpose": _record(sample=_sample("transpose"), partial=moves, traits=Trait.MOVES),
        "unpack": _record(rule=unpack, padding=None, sample=_sample("unpack")),
        "yield": OpRecord(operations=0, traits=Trait.EXACT),
    }.items()
}
