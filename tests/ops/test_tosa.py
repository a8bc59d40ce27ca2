"""Each TOSA op, cut in every way its rule allows and at random, against the unsharded op."""

from dataclasses import dataclass

import pytest

from shard_dialect.ir.context import make_context
from shard_dialect.ops.dialects.tosa_rules import RECORDS
from tests.ops.placed import (
    Case,
    at_random,
    check_every_split,
    check_means_the_same,
    rule_text,
)

pytestmark = pytest.mark.usefixtures("unoptimized")


@dataclass(frozen=True)
class Constant:
    """An operand that is no argument: what makes it, and its type."""

    made_by: str
    type: str


def dense(value: object, type_: str) -> Constant:
    type_ = f"tensor<{type_}>"
    return Constant(f'"tosa.const"() {{values = dense<{value}> : {type_}}} : () -> {type_}', type_)


def shape(*sizes: int) -> Constant:
    count = len(sizes)
    type_ = f"!tosa.shape<{count}>"
    values = f"{{values = dense<{list(sizes)}> : tensor<{count}xindex>}}"
    return Constant(f"tosa.const_shape {values} : () -> {type_}", type_)


def tosa(
    op: str, operands: list[str | Constant], made: str, attributes: str = "", *, runs: bool = True
) -> Case:
    """`%r = tosa.op operands {attributes}`, of arguments of these types and constants."""
    arguments = [f"tensor<{each}>" for each in operands if isinstance(each, str)]
    results = tuple(f"tensor<{each}>" for each in made.split())
    lines, names, types = [], [], []
    for each in operands:
        if isinstance(each, str):
            names.append(f"%{len(names) - len(lines)}")
            types.append(f"tensor<{each}>")
        else:
            names.append(f"%c{len(lines)}")
            types.append(each.type)
            lines.append(f"{names[-1]} = {each.made_by}")
    several = f":{len(results)}" if len(results) > 1 else ""
    given = f" {{{attributes}}}" if attributes else ""
    lines.append(
        f"%r{several} = tosa.{op} {', '.join(names)}{given}"
        f" : ({', '.join(types)}) -> ({', '.join(results)})"
    )
    return Case(f"tosa.{op}", tuple(arguments), "\n".join(lines), results, runs)


F, I, B = "4x8xf32", "4x8xi32", "4x8xi1"
IMAGE = "2x8x8x4xf32"
ZERO = dense(0.0, "1xf32")
NO_BIAS = dense(0.0, "8xf32")
ALONG_1 = "axis = 1 : i32"
OVERLAPPING = "pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>"
SIDE_BY_SIDE = "pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>"
BARE = "pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>"
IN_F32 = "acc_type = f32"
UNDILATED = f"{IN_F32}, dilation = array<i64: 1, 1>"
FLOAT_UNARY = "abs ceil cos erf exp floor identity log reciprocal rsqrt sigmoid sin tanh"
FLOAT_BINARY = "add maximum minimum pow sub"
INTEGER_BINARY = "add bitwise_and bitwise_or bitwise_xor maximum minimum sub"
BY_THREE = "intdiv logical_left_shift logical_right_shift"

ELEMENTWISE = {
    **{f"{name} of f32": tosa(name, [F], F) for name in FLOAT_UNARY.split()},
    **{f"{name} of f32s": tosa(name, [F, F], F) for name in FLOAT_BINARY.split()},
    **{f"{name} of i32s": tosa(name, [I, I], I) for name in INTEGER_BINARY.split()},
    **{f"{name} by three": tosa(name, [I, dense(3, I)], I) for name in BY_THREE.split()},
    **{name: tosa(name, [B, B], B) for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: tosa(name, [F, "4x1xf32"], B) for name in ("equal", "greater", "greater_equal")},
    "arithmetic_right_shift": tosa("arithmetic_right_shift", [I, dense(1, I)], I, "round = false"),
    "bitwise_not": tosa("bitwise_not", [I], I),
    "cast": tosa("cast", [F], I),
    "clamp": tosa("clamp", [F], F, "min_val = -0.5 : f32, max_val = 0.5 : f32"),
    "clz": tosa("clz", [I], I),
    "const": tosa("add", [F, dense([[float(n) for n in range(8)]] * 4, F)], F),
    "logical_not": tosa("logical_not", [B], B),
    "mul": tosa("mul", [F, "1x8xf32", dense(0, "1xi8")], F),
    "negate": tosa("negate", [F, ZERO, ZERO], F),
    "select": tosa("select", ["4x1xi1", F, "1x8xf32"], F),
    "table": tosa("table", ["4x8xi8", dense(list(range(-128, 128)), "256xi8")], "4x8xi8"),
}

REDUCED = {"f32": "sum max min product", "i32": "sum max min", "i1": "all any"}
SCALING = (
    "scale32 = true, rounding_mode = SINGLE_ROUND, input_unsigned = false, output_unsigned = false"
)
ZEROS = [dense(0, "1xi32"), dense(0, "1xi8")]

CASES = {
    **{
        f"reduce_{kind} of {type_}": tosa(
            f"reduce_{kind}", [f"4x8x{type_}"], f"4x1x{type_}", ALONG_1
        )
        for type_, kinds in REDUCED.items()
        for kind in kinds.split()
    },
    "reduce_max that ignores NaN": tosa(
        "reduce_max", [F], "4x1xf32", f"{ALONG_1}, nan_mode = IGNORE"
    ),
    "argmax": tosa("argmax", ["4x8x2xf32"], "4x2xi32", ALONG_1),
    "add of broadcast": tosa("add", ["4x1x8xf32", "1x6x8xf32"], "4x6x8xf32"),
    "concat": tosa("concat", [F, "4x4xf32"], "4x12xf32", ALONG_1),
    "pad": tosa("pad", [F, shape(0, 0, 1, 3), ZERO], "4x12xf32"),
    "reshape that splits": tosa("reshape", [F, shape(4, 2, 4)], "4x2x4xf32"),
    "reshape that merges": tosa("reshape", ["4x2x8xf32", shape(8, 8)], "8x8xf32"),
    "reverse": tosa("reverse", [F], F, ALONG_1),
    "slice": tosa("slice", ["4x8x2xf32", shape(0, 2, 0), shape(4, 4, 2)], "4x4x2xf32"),
    "tile": tosa("tile", ["2x8xf32", shape(4, 1)], "8x8xf32"),
    "transpose": tosa("transpose", ["4x8x2xf32"], "2x4x8xf32", "perms = array<i32: 2, 0, 1>"),
    "gather": tosa(
        "gather", ["2x6x4xf32", dense([[0, 5, 1, 4], [2, 2, 3, 0]], "2x4xi32")], "2x4x4xf32"
    ),
    "row_gather": tosa(
        "row_gather", ["2x6x4xf32", "2x4xi32", dense(2, "1xi32")], "2x8x4xf32", runs=False
    ),
    "scatter": tosa(
        "scatter", ["2x6x4xf32", dense([[1, 3], [0, 5]], "2x2xi32"), "2x2x4xf32"], "2x6x4xf32"
    ),
    "matmul": tosa("matmul", ["2x4x8xf32", "2x8x6xf32", ZERO, ZERO], "2x4x6xf32"),
    "matmul of i8": tosa(
        "matmul", ["2x4x8xi8", "2x8x6xi8", dense(1, "1xi8"), dense(2, "1xi8")], "2x4x6xi32"
    ),
    "matmul_t": tosa("matmul_t", ["2x4x8xf32", "2x6x8xf32", ZERO, ZERO], "2x4x6xf32", runs=False),
    "conv2d": tosa(
        "conv2d",
        [IMAGE, "8x3x3x4xf32", NO_BIAS, ZERO, ZERO],
        "2x8x8x8xf32",
        f"{UNDILATED}, {OVERLAPPING}",
    ),
    "conv2d with bias": tosa(
        "conv2d",
        [IMAGE, "8x3x3x4xf32", "8xf32", ZERO, ZERO],
        "2x8x8x8xf32",
        f"{UNDILATED}, {OVERLAPPING}",
    ),
    "conv2d of points": tosa(
        "conv2d", [IMAGE, "8x1x1x4xf32", NO_BIAS, ZERO, ZERO], "2x8x8x8xf32", f"{UNDILATED}, {BARE}"
    ),
    "conv2d of patches": tosa(
        "conv2d",
        [IMAGE, "8x2x2x4xf32", NO_BIAS, ZERO, ZERO],
        "2x4x4x8xf32",
        f"{UNDILATED}, {SIDE_BY_SIDE}",
    ),
    "conv2d of overlapping patches": tosa(
        "conv2d",
        [IMAGE, "8x4x4x4xf32", NO_BIAS, ZERO, ZERO],
        "2x3x3x8xf32",
        f"{UNDILATED}, {SIDE_BY_SIDE}",
    ),
    "conv3d": tosa(
        "conv3d",
        ["2x4x4x4x2xf32", "8x1x3x1x2xf32", NO_BIAS, ZERO, ZERO],
        "2x4x4x4x8xf32",
        f"{IN_F32}, dilation = array<i64: 1, 1, 1>, pad = array<i64: 0, 0, 1, 1, 0, 0>,"
        " stride = array<i64: 1, 1, 1>",
    ),
    "depthwise_conv2d": tosa(
        "depthwise_conv2d",
        [IMAGE, "3x1x4x2xf32", "8xf32", ZERO, ZERO],
        "2x8x8x8xf32",
        f"{UNDILATED}, pad = array<i64: 1, 1, 0, 0>, stride = array<i64: 1, 1>",
    ),
    "transpose_conv2d": tosa(
        "transpose_conv2d",
        ["2x4x4x4xf32", "8x3x3x4xf32", NO_BIAS, ZERO, ZERO],
        "2x9x9x8xf32",
        f"{IN_F32}, out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>",
    ),
    "max_pool2d": tosa("max_pool2d", [IMAGE], IMAGE, f"kernel = array<i64: 3, 3>, {OVERLAPPING}"),
    "max_pool2d side by side": tosa(
        "max_pool2d", [IMAGE], "2x4x4x4xf32", f"kernel = array<i64: 2, 2>, {SIDE_BY_SIDE}"
    ),
    "avg_pool2d": tosa(
        "avg_pool2d",
        [IMAGE, ZERO, ZERO],
        "2x4x4x4xf32",
        f"{IN_F32}, kernel = array<i64: 2, 2>, {SIDE_BY_SIDE}",
    ),
    "resize": tosa(
        "resize",
        ["2x4x4x4xf32", shape(4, 2, 4, 2), shape(0, 0), shape(2, 2)],
        "2x8x8x4xf32",
        "mode = BILINEAR",
    ),
    "rescale": tosa(
        "rescale",
        [I, dense(1 << 30, "1xi32"), dense(30, "1xi8"), *ZEROS],
        "4x8xi8",
        f"{SCALING}, per_channel = false",
    ),
    **{
        f"rescale of channels {shifted}": tosa(
            "rescale",
            [I, dense([n << 26 for n in range(8, 16)], "8xi32"), dense(shifts, "8xi8"), *ZEROS],
            "4x8xi8",
            f"{SCALING}, per_channel = true",
        )
        for shifted, shifts in (("alike", 30), ("apart", [29, 30] * 4))
    },
    "fft2d": tosa("fft2d", ["4x4x8xf32"] * 2, "4x4x8xf32 4x4x8xf32", "inverse = false"),
    "rfft2d": tosa("rfft2d", ["4x4x8xf32"], "4x4x5xf32 4x4x5xf32"),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_every_split_is_reached(name: str) -> None:
    assert check_every_split(CASES[name]) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [name for name, each in CASES.items() if each.runs])
def test_placed_at_random_it_means_the_same(name: str, seed: int) -> None:
    check_means_the_same(at_random(CASES[name], seed))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_ops_mean_the_same(name: str) -> None:
    check_means_the_same(at_random(ELEMENTWISE[name], 0))


RULES_AS_TEXT = {
    "reduce_max of f32": "([a, b]) -> ([a, 1]) reduction={b: max}",
    "reduce_max that ignores NaN": "([a, b]) -> ([a, 1]) whole={b}",
    "reduce_any of i1": "([a, b]) -> ([a, 1]) reduction={b: bitwise_or}",
    "argmax": "([a, b, c]) -> ([a, c]) whole={b}",
    "add of broadcast": "([a, 1, c], [1, b, c]) -> ([a, b, c])",
    "concat": "([a, b], [a, b]) -> ([a, b]) whole={b}",
    "pad": "([a, b], -, [1]) -> ([a, b]) permuted={b}",
    "slice": "([a, b, c], -, -) -> ([a, b, c]) permuted={b}",
    "tile": "([b, c], -) -> ([ab, c])",
    "gather": "([a, b, d], [a, c]) -> ([a, c, d]) whole={b}",
    "row_gather": "([a, b, e], [a, c], [1]) -> ([a, cd, e]) whole={b, d}",
    "scatter": "([a, b, d], [a, c], [a, c, d]) -> ([a, b, d]) whole={b, c}",
    "conv2d": "([a, b, c, d], [e, 1, 1, d], [e], [1], [1]) -> ([a, b, c, e]) reduction={d: sum}"
    " permuted={b, c}",
    "conv2d with bias": "([a, b, c, d], [e, 1, 1, d], [e], [1], [1]) -> ([a, b, c, e]) whole={d}"
    " permuted={b, c}",
    "conv2d of patches": "([a, bc, de, f], [g, c, e, f], [g], [1], [1]) -> ([a, b, d, g])"
    " reduction={f: sum} whole={c, e}",
    "depthwise_conv2d": "([a, b, c, e], [1, d, e, f], [ef], [1], [1]) -> ([a, b, c, ef])"
    " whole={d} permuted={b}",
    "max_pool2d": "([a, b, c, d]) -> ([a, b, c, d]) permuted={b, c}",
    "rescale of channels alike": "([a, b], [b], [b], [1], [1]) -> ([a, b])",
    "rfft2d": "([a, b, c]) -> ([a, b, c], [a, b, c]) whole={b, c}",
}


@pytest.mark.parametrize("name", RULES_AS_TEXT)
def test_the_rule_is(name: str) -> None:
    assert rule_text(CASES[name]) == RULES_AS_TEXT[name]


def test_every_op_of_the_table_is_tosas() -> None:
    with make_context() as context:
        assert context.dialects["tosa"]  # loads it
        assert not [name for name in RECORDS if not context.is_registered_operation(name)]


def test_every_op_of_the_table_is_tried() -> None:
    tried = {each.op for each in (*CASES.values(), *ELEMENTWISE.values())}
    rest = {"dim", "apply_scale", "avg_pool2d_adaptive", "max_pool2d_adaptive", "const"}
    rest |= {"variable_read", "variable_write"}
    assert set(RECORDS) - tried == {f"tosa.{name}" for name in rest}
