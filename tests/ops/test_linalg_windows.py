"""linalg's convolutions and poolings, cut in every way and at random, against the unsharded op."""

import pytest

from shard_dialect.ir.bindings import submodule
from tests.ops import test_linalg
from tests.ops.placed import (
    Case,
    at_random,
    case,
    check_every_split,
    check_means_the_same,
    rule_text,
)
from tests.ops.test_linalg import named

pytestmark = pytest.mark.usefixtures("unoptimized")

STRIDES = "strides = dense<{}> : tensor<{}xi64>"
BY_TWO_1D, BY_TWO_2D = (f"{{{STRIDES.format(2, rank)}}}" for rank in (1, 2))
POOLED = "max min sum"

WINDOWED = {
    "conv_1d": named("conv_1d", "6 3", "4"),
    "conv_2d": named("conv_2d", "6x6 3x3", "4x4"),
    "conv_3d": named("conv_3d", "4x4x4 1x1x1", "4x4x4"),
    "conv_1d_nwc_wcf": named("conv_1d_nwc_wcf", "2x6x4 3x4x2", "2x4x2"),
    "conv_1d_ncw_fcw": named("conv_1d_ncw_fcw", "2x4x8 2x4x2", "2x2x4", BY_TWO_1D),
    "conv_2d_nhwc_hwcf": named("conv_2d_nhwc_hwcf", "2x6x6x4 3x3x4x2", "2x4x4x2"),
    "conv_2d_nhwc_hwcf of points": named("conv_2d_nhwc_hwcf", "2x4x4x4 1x1x4x2", "2x4x4x2"),
    "conv_2d_nhwc_hwcf of patches": named(
        "conv_2d_nhwc_hwcf", "2x8x8x4 2x2x4x2", "2x4x4x2", BY_TWO_2D
    ),
    "conv_2d_nhwc_hwcf that leaves a rest": named(
        "conv_2d_nhwc_hwcf", "2x10x8x4 2x2x4x2", "2x4x4x2", BY_TWO_2D
    ),
    "conv_2d_nchw_fchw": named("conv_2d_nchw_fchw", "2x4x6x6 2x4x3x3", "2x2x4x4"),
    "conv_2d_nhwc_fhwc": named("conv_2d_nhwc_fhwc", "2x6x6x4 2x3x3x4", "2x4x4x2"),
    "conv_2d_ngchw_fgchw": named("conv_2d_ngchw_fgchw", "2x2x2x4x4 2x2x2x3x3", "2x2x2x2x2"),
    "conv_2d_ngchw_gfchw": named("conv_2d_ngchw_gfchw", "2x2x2x4x4 2x2x2x3x3", "2x2x2x2x2"),
    "conv_2d_nhwgc_gfhwc": named("conv_2d_nhwgc_gfhwc", "2x4x4x2x2 2x2x3x3x2", "2x2x2x2x2"),
    "conv_3d_ndhwc_dhwcf": named("conv_3d_ndhwc_dhwcf", "2x4x4x4x2 1x3x1x2x2", "2x4x2x4x2"),
    "conv_3d_ncdhw_fcdhw": named("conv_3d_ncdhw_fcdhw", "2x2x4x4x4 2x2x1x3x1", "2x2x4x2x4"),
    "depthwise_conv_1d_ncw_cw": named("depthwise_conv_1d_ncw_cw", "2x4x6 4x3", "2x4x4"),
    "depthwise_conv_1d_nwc_wc": named("depthwise_conv_1d_nwc_wc", "2x6x4 3x4", "2x4x4"),
    "depthwise_conv_1d_nwc_wcm": named("depthwise_conv_1d_nwc_wcm", "2x6x4 3x4x2", "2x4x4x2"),
    "depthwise_conv_2d_nchw_chw": named("depthwise_conv_2d_nchw_chw", "2x4x6x6 4x3x3", "2x4x4x4"),
    "depthwise_conv_2d_nhwc_hwc": named("depthwise_conv_2d_nhwc_hwc", "2x6x6x4 3x3x4", "2x4x4x4"),
    "depthwise_conv_2d_nhwc_hwcm": named(
        "depthwise_conv_2d_nhwc_hwcm", "2x4x4x4 3x3x4x2", "2x2x2x4x2"
    ),
    "depthwise_conv_3d_ndhwc_dhwc": named(
        "depthwise_conv_3d_ndhwc_dhwc", "2x4x4x4x2 1x3x1x2", "2x4x2x4x2"
    ),
    "depthwise_conv_3d_ncdhw_cdhw": named(
        "depthwise_conv_3d_ncdhw_cdhw", "2x2x4x4x4 2x1x3x1", "2x2x4x2x4"
    ),
    "depthwise_conv_3d_ndhwc_dhwcm": named(
        "depthwise_conv_3d_ndhwc_dhwcm", "2x4x4x4x2 1x3x1x2x2", "2x4x2x4x2x2"
    ),
    **{
        f"pooling_{layout}_{kind}": named(f"pooling_{layout}_{kind}", f"{image} {window}", made)
        for layout, image, window, made in (
            ("nhwc", "2x4x4x4", "3x3", "2x2x2x4"),
            ("nwc", "2x6x4", "3", "2x4x4"),
            ("ndhwc", "2x4x4x4x2", "3x1x1", "2x2x4x4x2"),
        )
        for kind in POOLED.split()
    },
    **{
        f"pooling_{layout}_{kind}": named(f"pooling_{layout}_{kind}", f"{image} {window}", made)
        for layout, image, window, made in (
            ("nchw", "2x4x4x4", "3x3", "2x4x2x2"),
            ("ncw", "2x4x6", "3", "2x4x4"),
        )
        for kind in ("max", "sum")
    },
    **{
        f"pooling_{layout}_{kind}_unsigned": named(
            f"pooling_{layout}_{kind}_unsigned", f"{image} {window}", made, element="i32"
        )
        for layout, image, window, made in (
            ("nhwc", "2x4x4x4", "3x3", "2x2x2x4"),
            ("nwc", "2x6x4", "3", "2x4x4"),
        )
        for kind in ("max", "min")
    },
    "pooling_nhwc_sum side by side": named("pooling_nhwc_sum", "2x8x8x4 2x2", "2x4x4x4", BY_TWO_2D),
    "pooling_nhwc_max side by side": named("pooling_nhwc_max", "2x8x8x4 2x2", "2x4x4x4", BY_TWO_2D),
}


def quantized(op: str, image: str, kernel: str, made: str) -> Case:
    return case(
        f"linalg.{op}",
        f"{image}xi8 {kernel}xi8 {made}xi32",
        f"%a = arith.constant 1 : i32\n%b = arith.constant 2 : i32\n%r = linalg.{op}"
        " ins(%0, %1, %a, %b : $0, $1, i32, i32) outs(%2 : $2) -> $r",
        f"{made}xi32",
    )


QUANTIZED = {
    op: quantized(op, *shapes.split())
    for op, shapes in {
        "quantized_batch_matmul": "2x4x8 2x8x4 2x4x4",
        "conv_2d_nchw_fchw_q": "2x4x4x4 2x4x3x3 2x2x2x2",
        "conv_2d_nhwc_fhwc_q": "2x4x4x4 2x3x3x4 2x2x2x2",
        "conv_2d_nhwc_hwcf_q": "2x4x4x4 3x3x4x2 2x2x2x2",
        "conv_2d_ngchw_gfchw_q": "2x2x2x4x4 2x2x2x3x3 2x2x2x2x2",
        "conv_2d_nhwgc_gfhwc_q": "2x4x4x2x2 2x2x3x3x2 2x2x2x2x2",
        "conv_3d_ndhwc_dhwcf_q": "2x4x4x4x2 1x3x1x2x2 2x4x2x4x2",
        "depthwise_conv_2d_nhwc_hwc_q": "2x4x4x4 3x3x4 2x2x2x4",
        "depthwise_conv_2d_nhwc_hwcm_q": "2x4x4x4 3x3x4x2 2x2x2x4x2",
    }.items()
}

CASES = WINDOWED | QUANTIZED


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_every_split_is_reached(name: str) -> None:
    assert check_every_split(CASES[name], runs=1) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_placed_at_random_it_means_the_same(name: str) -> None:
    check_means_the_same(at_random(CASES[name], 0))


RULES_AS_TEXT = {
    "conv_1d": "([a], [b], [a]) -> ([a]) whole={b} permuted={a}",
    "conv_2d_nhwc_hwcf of points": "([a, b, c, g], [e, f, g, d], [a, b, c, d]) -> ([a, b, c, d])"
    " reduction={e: sum, f: sum, g: sum}",
    "conv_2d_nhwc_hwcf that leaves a rest": "([a, b, cf, g], [e, f, g, d], [a, b, c, d])"
    " -> ([a, b, c, d]) reduction={f: sum, g: sum} whole={e} permuted={b}",
    "pooling_nhwc_max side by side": "([a, be, cf, d], [e, f], [a, b, c, d]) -> ([a, b, c, d])"
    " reduction={e: max, f: max}",
}


@pytest.mark.parametrize("name", RULES_AS_TEXT)
def test_the_rule_is(name: str) -> None:
    assert rule_text(CASES[name]) == RULES_AS_TEXT[name]


def test_every_op_of_linalg_is_tried() -> None:
    bindings = vars(submodule("dialects._linalg_ops_gen")).values()
    names = {getattr(each, "OPERATION_NAME", None) for each in bindings} - {None}
    tables = (CASES, test_linalg.CASES, test_linalg.ELEMENTWISE)
    tried = {each.op for table in tables for each in table.values()}
    assert names - tried == {"linalg.fill", "linalg.index", "linalg.yield"}
