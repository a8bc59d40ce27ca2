"""TOSA's convolutions and poolings, split along the image, against the unsharded op."""

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ir.numbered_function import read_functions
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import operations
from shard_dialect.ops.op_table import OpKinds
from tests.ops.test_stablehlo_windows import BESIDE, EXCHANGED, check

pytestmark = pytest.mark.usefixtures("unoptimized")

GATHERED = {"all_gather", "local_split"}
HEAD = """shard.grid @g(shape = {grid})
func.func @main(%x: tensor<{image}> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}}{more})
    -> (tensor<{made}> {{mesh.sharding = #mesh.shard<@g, [[], [0]]>}}) {{
"""


def listed(*sizes: int) -> str:
    return f"array<i64: {', '.join(map(str, sizes))}>"


def convolution(
    op: str, image: str, kernel: str, made: str, said: str, zero: int = 0, channels: int = 4
) -> str:
    """Of f32, or of i8 to i32 where a zero point is given."""
    given, result = ("i8", "i32") if zero else ("f32", "f32")
    image, kernel, made = f"{image}x{given}", f"{kernel}x{given}", f"{made}x{result}"
    number = "" if zero else ".0"
    bias = f"tensor<{channels}x{result}>"
    return (
        HEAD.format(grid=4, image=image, made=made, more=f", %w: tensor<{kernel}>, %b: {bias}")
        + f'%z = "tosa.const"() <{{values = dense<{zero}{number}> : tensor<1x{given}>}}> '
        f": () -> tensor<1x{given}>\n"
        f'%n = "tosa.const"() <{{values = dense<0{number}> : tensor<1x{given}>}}> '
        f": () -> tensor<1x{given}>\n"
        f"%r = tosa.{op} %x, %w, %b, %z, %n {{acc_type = {result}, {said}}} : (tensor<{image}>, "
        f"tensor<{kernel}>, {bias}, tensor<1x{given}>, tensor<1x{given}>) -> tensor<{made}>\n"
        f"return %r : tensor<{made}>\n}}\n"
    )


def said(stride: tuple[int, ...], pad: tuple[int, ...], dilation: tuple[int, ...]) -> str:
    return f"stride = {listed(*stride)}, pad = {listed(*pad)}, dilation = {listed(*dilation)}"


SAME = said((1, 1), (1, 1, 1, 1), (1, 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (convolution("conv2d", "1x16x6x3", "4x3x3x3", "1x16x6x4", SAME), EXCHANGED),
        (
            convolution(
                "conv2d", "1x32x6x3", "4x3x3x3", "1x16x6x4", said((2, 1), (0, 1, 1, 1), (1, 1))
            ),
            EXCHANGED,
        ),
        (
            convolution(
                "conv2d", "1x16x6x3", "4x3x3x3", "1x16x6x4", said((1, 1), (2, 2, 1, 1), (2, 1))
            ),
            EXCHANGED,
        ),
        (
            convolution(
                "conv2d", "1x32x6x3", "4x2x3x3", "1x16x6x4", said((2, 1), (0, 0, 1, 1), (1, 1))
            ),
            BESIDE,
        ),
        (convolution("conv2d", "1x16x6x3", "4x3x3x3", "1x16x6x4", SAME, zero=3), GATHERED),
        (
            convolution(
                "conv3d",
                "1x16x6x4x3",
                "4x3x3x1x3",
                "1x16x6x4x4",
                said((1, 1, 1), (1, 1, 1, 1, 0, 0), (1, 1, 1)),
            ),
            EXCHANGED,
        ),
        (
            convolution("depthwise_conv2d", "1x16x6x3", "3x3x3x2", "1x16x6x6", SAME, channels=6),
            EXCHANGED,
        ),
    ],
    ids=["same", "by two", "far apart", "side by side", "zero point", "3d", "depthwise"],
)
def test_a_convolution(text: str, expected: set[str]) -> None:
    check(text, expected)


@pytest.mark.parametrize(
    ("op", "element", "expected"),
    [
        ("max_pool2d %x {", "f32", EXCHANGED),
        ("max_pool2d %x {", "i8", EXCHANGED),
        ("max_pool2d %x {nan_mode = IGNORE, ", "f32", GATHERED),
    ],
)
def test_a_pooling(op: str, element: str, expected: set[str]) -> None:
    type_ = f"2x16x5x3x{element}"
    text = (
        HEAD.format(grid=4, image=type_, made=type_, more="")
        + f"%r = tosa.{op}kernel = {listed(3, 3)}, stride = {listed(1, 1)}, "
        f"pad = {listed(1, 1, 1, 1)}}} : (tensor<{type_}>) -> tensor<{type_}>\n"
        f"return %r : tensor<{type_}>\n}}\n"
    )
    check(text, expected)


def test_each_convolution_has_the_rule_of_its_own_bias() -> None:
    zero, one = (f'"tosa.const"() <{{values = dense<{n}> : tensor<4xf32>}}>' for n in (0.0, 1.0))
    points = said((1, 1), (0, 0, 0, 0), (1, 1))
    conv = (
        f"tosa.conv2d %x, %w, %{{}}, %z, %z {{{{acc_type = f32, {points}}}}} : (tensor<1x2x2x8xf32>"
    )
    types = (
        ", tensor<4x1x1x8xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x2x4xf32>"
    )
    text = (
        "func.func @main(%x: tensor<1x2x2x8xf32>, %w: tensor<4x1x1x8xf32>) {\n"
        '%z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>\n'
        f"%a = {zero} : () -> tensor<4xf32>\n%b = {one} : () -> tensor<4xf32>\n"
        f"%0 = {conv.format('a')}{types}\n%1 = {conv.format('b')}{types}\nreturn\n}}\n"
    )
    with make_context():
        module = Source.of(text).parse()
        (function,) = read_functions(list(operations(module.body)))
        kinds = OpKinds()
        convolutions = [op for op in function.ops if op.name == "tosa.conv2d"]
        rules = [kinds.kind_in(function.values, op).rule for op in convolutions]
        assert [rule is not None and bool(rule.reductions) for rule in rules] == [True, False]
