"""Each StableHLO op with a rule, cut at random, against the unsharded op."""

import random
import re
import warnings
from collections.abc import Iterator

import pytest

from shard_dialect.errors import ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import ShardingRule
from shard_dialect.ops import rule_of
from shard_dialect.ops.stablehlo import RECORDS
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.ops.stablehlo_ops import COMPILED, INTERPRETED, NOT_RUN, Family, drawn
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")

T = "tensor<4x8xf32>"
UNARY = "abs cbrt ceil cosine exponential exponential_minus_one floor log_plus_one logistic negate"
UNARY += " round_nearest_afz round_nearest_even sign sine tan tanh"
BINARY = "add atan2 divide maximum minimum multiply power remainder subtract"
WINDOW = "window = {stride = [1, 1], pad = [[1, 1], [0, 0]]}"
LAYOUT = "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
COUNTS = "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
ZERO = "%z = stablehlo.constant dense<0.0> : tensor<f32>"
LOW = "%z = stablehlo.constant dense<0xFF800000> : tensor<f32>"

PROGRAMS: dict[str, tuple[tuple[str, ...], str, str]] = {
    **{name: ((T,), f"%r = stablehlo.{name} %0 : {T}", T) for name in UNARY.split()},
    **{name: ((T, T), f"%r = stablehlo.{name} %0, %1 : {T}", T) for name in BINARY.split()},
    "compare and select": (
        (T, T),
        f"%p = stablehlo.compare LT, %0, %1 : ({T}, {T}) -> tensor<4x8xi1>\n"
        f"%r = stablehlo.select %p, %0, %1 : tensor<4x8xi1>, {T}",
        T,
    ),
    "select by a scalar": (
        (T, T),
        "%p = stablehlo.constant dense<true> : tensor<i1>\n"
        f"%r = stablehlo.select %p, %0, %1 : tensor<i1>, {T}",
        T,
    ),
    "clamp": (
        (T,),
        "%l = stablehlo.constant dense<-0.5> : tensor<f32>\n"
        "%h = stablehlo.constant dense<0.5> : tensor<f32>\n"
        f"%r = stablehlo.clamp %l, %0, %h : (tensor<f32>, {T}, tensor<f32>) -> {T}",
        T,
    ),
    "convert": ((T,), f"%r = stablehlo.convert %0 : ({T}) -> tensor<4x8xf64>", "tensor<4x8xf64>"),
    "dot_general": (
        ("tensor<2x4x8xf32>", "tensor<8x2x6xf32>"),
        "%r = stablehlo.dot_general %0, %1, batching_dims = [0] x [1], contracting_dims = [2] x [0]"
        " : (tensor<2x4x8xf32>, tensor<8x2x6xf32>) -> tensor<2x4x6xf32>",
        "tensor<2x4x6xf32>",
    ),
    "broadcast_in_dim": (
        ("tensor<8x1xf32>",),
        "%r = stablehlo.broadcast_in_dim %0, dims = [2, 0]"
        " : (tensor<8x1xf32>) -> tensor<6x4x8xf32>",
        "tensor<6x4x8xf32>",
    ),
    "transpose": (
        ("tensor<2x4x8xf32>",),
        "%r = stablehlo.transpose %0, dims = [2, 0, 1] : (tensor<2x4x8xf32>) -> tensor<8x2x4xf32>",
        "tensor<8x2x4xf32>",
    ),
    "reshape that splits": (
        (T,),
        f"%r = stablehlo.reshape %0 : ({T}) -> tensor<4x2x4xf32>",
        "tensor<4x2x4xf32>",
    ),
    "reshape that merges": (
        ("tensor<2x4x8xf32>",),
        "%r = stablehlo.reshape %0 : (tensor<2x4x8xf32>) -> tensor<8x8xf32>",
        "tensor<8x8xf32>",
    ),
    "reshape without common parts": (
        ("tensor<4x6x4xf32>",),
        "%r = stablehlo.reshape %0 : (tensor<4x6x4xf32>) -> tensor<4x4x6xf32>",
        "tensor<4x4x6xf32>",
    ),
    "reshape with ones": (
        (T,),
        f"%r = stablehlo.reshape %0 : ({T}) -> tensor<1x4x1x8xf32>",
        "tensor<1x4x1x8xf32>",
    ),
    **{
        f"reduce by {kind} over {dims}": (
            (T,),
            f"{start}\n%r = stablehlo.reduce(%0 init: %z) applies stablehlo.{kind} across "
            f"dimensions = {dims} : ({T}, tensor<f32>) -> {made}",
            made,
        )
        for kind, start in (("add", ZERO), ("maximum", LOW))
        for dims, made in (
            ("[0]", "tensor<8xf32>"),
            ("[1]", "tensor<4xf32>"),
            ("[0, 1]", "tensor<f32>"),
        )
    },
    "reduce that starts from one": (
        (T,),
        "%z = stablehlo.constant dense<1.0> : tensor<f32>\n"
        "%r = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [1]"
        f" : ({T}, tensor<f32>) -> tensor<4xf32>",
        "tensor<4xf32>",
    ),
    "dynamic_update_slice": (
        (T, "tensor<4x2xf32>", "tensor<i32>"),
        f"%r = stablehlo.dynamic_update_slice %0, %1, %2, %2"
        f" : ({T}, tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> {T}",
        T,
    ),
    "iota": (
        (T,),
        f"%i = stablehlo.iota dim = 1 : {T}\n%r = stablehlo.add %0, %i : {T}",
        T,
    ),
    "constant": (
        ("tensor<2x4xf32>",),
        "%c = stablehlo.constant dense<[[1., 2., 3., 4.], [5., 6., 7., 8.]]> : tensor<2x4xf32>\n"
        "%r = stablehlo.multiply %0, %c : tensor<2x4xf32>",
        "tensor<2x4xf32>",
    ),
    "slice": (
        ("tensor<4x8x2xf32>",),
        "%r = stablehlo.slice %0 [0:4, 2:8:3, 0:2] : (tensor<4x8x2xf32>) -> tensor<4x2x2xf32>",
        "tensor<4x2x2xf32>",
    ),
    "concatenate": (
        (T, "tensor<4x2xf32>"),
        f"%r = stablehlo.concatenate %0, %1, dim = 1 : ({T}, tensor<4x2xf32>) -> tensor<4x10xf32>",
        "tensor<4x10xf32>",
    ),
    "pad": (
        (T,),
        f"{ZERO}\n%r = stablehlo.pad %0, %z, low = [0, 1], high = [0, 3], interior = [0, 0]"
        f" : ({T}, tensor<f32>) -> tensor<4x12xf32>",
        "tensor<4x12xf32>",
    ),
    "reverse": ((T,), f"%r = stablehlo.reverse %0, dims = [1] : {T}", T),
    "gather rows": (
        ("tensor<6x8xf32>", "tensor<4x2x1xi32>"),
        '%r = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}> : "
        "(tensor<6x8xf32>, tensor<4x2x1xi32>) -> tensor<4x2x8xf32>",
        "tensor<4x2x8xf32>",
    ),
    "gather batched": (
        ("tensor<4x8xf32>", "tensor<4x2x1xi32>"),
        '%r = "stablehlo.gather"(%0, %1) <{dimension_numbers = #stablehlo.gather<'
        "collapsed_slice_dims = [1], operand_batching_dims = [0], "
        "start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, "
        "slice_sizes = array<i64: 1, 1>}> : "
        "(tensor<4x8xf32>, tensor<4x2x1xi32>) -> tensor<4x2xf32>",
        "tensor<4x2xf32>",
    ),
    "reduce_window": (
        (T,),
        f'{ZERO}\n%r = "stablehlo.reduce_window"(%0, %z) <{{window_dimensions = array<i64: 1, 2>, '
        "window_strides = array<i64: 1, 2>}> ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%s = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %s : tensor<f32>\n}) : "
        f"({T}, tensor<f32>) -> tensor<4x4xf32>",
        "tensor<4x4xf32>",
    ),
    "convolution": (
        ("tensor<4x6x6x4xf32>", "tensor<3x1x4x8xf32>"),
        f"%r = stablehlo.convolution(%0, %1) {LAYOUT}, {WINDOW} {COUNTS}"
        " : (tensor<4x6x6x4xf32>, tensor<3x1x4x8xf32>) -> tensor<4x6x6x8xf32>",
        "tensor<4x6x6x8xf32>",
    ),
}

NOT_LOWERED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "sort": (
        (T,),
        f'%r = "stablehlo.sort"(%0) <{{dimension = 1 : i64, is_stable = true}}> ({{\n'
        "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
        "%c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        f"stablehlo.return %c : tensor<i1>\n}}) : ({T}) -> {T}",
        T,
    ),
}
"""Ops that StableHLO's lowering to linalg does not know: see test_stablehlo_shards.py."""


def program(name: str, seed: int) -> str:
    """The op on arguments that lie at random on a 2x2 grid, and its result too."""
    arguments, body, made = (PROGRAMS | NOT_LOWERED)[name]
    inputs = ", ".join(f"%{number}: {type_}" for number, type_ in enumerate(arguments))
    text = f"func.func @main({inputs}) -> ({made}) {{\n{body}\nreturn %r : {made}\n}}\n"
    return sharded(text, random.Random(f"{name}/{seed}"))


def sharded(text: str, rng: random.Random) -> str:
    """The function with arguments, and perhaps results, that lie at random on a 2x2 grid."""

    def said(match: re.Match[str]) -> str:
        sizes = [int(size) for size in match[1].split("x")[:-1]]
        split: list[list[int]] = [[] for _ in sizes]
        for axis in rng.sample((0, 1), 2):
            dim = rng.randrange(len(sizes) + 1) if sizes else 0
            if dim < len(sizes) and sizes[dim] % 2 ** (len(split[dim]) + 1) == 0:
                split[dim].append(axis)
        return f"{match[0]} {{mesh.sharding = #mesh.shard<@g, {split}>}}"

    head, rest = text.split(" {\n", 1)
    arguments, results = head.split(" -> ")
    arguments = re.sub(r"tensor<([\w]*)>", said, arguments)
    if rng.random() < 0.5:
        results = re.sub(r"tensor<([\w]*)>", said, results)
    return (
        '"mesh.cluster"() {sym_name = "g", rank = 2 : i64, dim_sizes = [2, 2]} : () -> ()\n'
        f"{arguments} -> {results} {{\n{rest}"
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_cut_at_random_it_equals_the_unsharded_op(name: str, seed: int) -> None:
    check(program(name, seed))


def lowered() -> Iterator[tuple[str, str]]:
    """Ops drawn at random, those that the lowering to linalg knows."""
    for family in (*INTERPRETED.values(), *COMPILED.values()):
        for name, case in drawn(family).items():
            text = str(case)
            if case.name in LOWERED and not any(odd in text for odd in ODD.get(case.name, ())):
                yield name, text


LOWERED = (
    "bitcast_convert broadcast_in_dim concatenate convolution dot dot_general dynamic_slice "
    "dynamic_update_slice gather iota map pad reduce reduce_window reshape reverse slice transpose"
).split()
ODD = {
    "dot_general": ("complex",),
    # With some batching dimensions the lowering crashes.
    "gather": (
        "batching_dims = [0]",
        "batching_dims = [1]",
        "batching_dims = [2]",
        "batching_dims = [3]",
        "xui",
    ),
    "reduce": ("dimensions = array<i64>", "i1>"),
}
"""Of these ops, what the lowering or the collectives do not know."""
DRAWN = dict(lowered())


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", DRAWN)
def test_drawn_and_cut_at_random_it_equals_the_unsharded_op(name: str) -> None:
    check(sharded(DRAWN[name], random.Random(name)))


def check(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ShardWarning)  # no op runs replicated for want of a rule
        verdict = run_and_check(text, "spmd,lower")
    assert verdict.passed, f"{text}\n{verdict.failure}"


SCATTER = """
  %r = "stablehlo.scatter"(%x, %i, %u) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
      inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
    : (tensor<6x8xf32>, tensor<64x1xi32>, tensor<64x8xf32>) -> tensor<6x8xf32>
"""


@pytest.mark.parametrize(
    ("onto", "steps"),
    [
        (
            "stablehlo.constant dense<0.0>",
            ["stablehlo.constant", "stablehlo.scatter", "mesh.all_reduce"],
        ),
        ("stablehlo.abs %y", ["linalg.fill", "stablehlo.scatter", "mesh.all_reduce", "arith.addf"]),
    ],
)
def test_what_is_scattered_on_each_device_is_added_up_once(onto: str, steps: list[str]) -> None:
    text = (
        '"mesh.cluster"() {sym_name = "g", rank = 1 : i64, dim_sizes = [2]} : () -> ()\n'
        "func.func @main(%y: tensor<6x8xf32>, %i: tensor<64x1xi32>, %u: tensor<64x8xf32> "
        "{mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<6x8xf32> {\n"
        f"%x = {onto} : tensor<6x8xf32>{SCATTER}return %r : tensor<6x8xf32>\n}}\n"
    )
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "propagate,materialize,canonicalize")
        names = [op.name for op in operations(body(operations(module.body)[1]))]
    places = [names.index(name) for name in steps]
    assert places == sorted(places)


RULES_AS_TEXT = {
    "dot_general": "([a, b, d], [d, a, c]) -> ([a, b, c]) reduction={d: sum}",
    "reshape that splits": "([a, bc]) -> ([a, b, c])",
    "reshape that merges": "([a, b, c]) -> ([ab, c])",
    "reshape without common parts": "([a, bc, fg]) -> ([a, bd, eg]) whole={c, d, e, f}",
    "reduce by add over [1]": "([a, b], []) -> ([a]) reduction={b: sum}",
    "reduce that starts from one": "([a, b], []) -> ([a]) whole={b}",
    "broadcast_in_dim": "([d, a]) -> ([b, c, d])",
    "sort": "([a, b]) -> ([a, b]) whole={b}",
    "gather rows": "([d, c], [a, b, e]) -> ([a, b, c]) reduction={d: sum} whole={e}",
    "gather batched": "([a, c], [a, b, d]) -> ([a, b]) reduction={c: sum} whole={d}",
    "reduce_window": "([a, b], []) -> ([a, b]) permuted={b}",
    "dynamic_update_slice": "([a, b], [a, c], [], []) -> ([a, b]) whole={c}",
    "convolution": "([a, b, c, d], [1, 1, d, e]) -> ([a, b, c, e]) reduction={d: sum} permuted={b}",
}


@pytest.mark.parametrize("name", RULES_AS_TEXT)
def test_the_rule_is(name: str) -> None:
    with make_context():
        module = Source.of(program(name, 0)).parse()
        run_pipeline(module, "import")
        function = module.body.operations[1].operation
        *_, op, _ = (each.operation for each in function.regions[0].blocks[0].operations)
        assert str(rule_of(op)) == RULES_AS_TEXT[name]


ROLES = {
    "reshape": "pass",
    "transpose": "pass",
    "dynamic_slice": "forward",
    "dynamic_update_slice": "forward",
    "broadcast_in_dim": "broadcast",
}


@pytest.mark.parametrize("family", (INTERPRETED | COMPILED | NOT_RUN).values())
def test_roles_are_shardys(family: Family) -> None:
    """Elementwise is what StableHLO calls so: `map` is not."""
    for case in drawn(family).values():
        rule = rule_of_text(str(case))
        if rule is None or case.name in ("custom_call", "bitcast_convert"):
            continue
        is_elementwise = family.__name__ in ("elementwise", "complexes") and case.name not in (
            "map",
            "dot_general",
            "reduce",
        )
        default = "elementwise" if is_elementwise else "other"
        assert rule.role == ROLES.get(case.name, default), case


def rule_of_text(text: str) -> ShardingRule | None:
    with make_context():
        module = Source.of(text).parse()
        *_, op, _ = operations(body(operations(module.body)[0]))
        return rule_of(op)


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("bitcast_convert %a : (tensor<4x8xf32>) -> tensor<4x8xi32>", "elementwise"),
        ("bitcast_convert %a : (tensor<4x8xf32>) -> tensor<4x8x4xi8>", "other"),
        ("custom_call @MoveToHost(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "pass"),
        ("custom_call @LayoutConstraint(%a) : (tensor<4x8xf32>) -> tensor<4x8xf32>", "other"),
    ],
)
def test_the_role_is(text: str, role: str) -> None:
    rule = rule_of_text(f"func.func @main(%a: {T}) {{\n%r = stablehlo.{text}\nreturn\n}}\n")
    assert rule is not None
    assert rule.role == role


@pytest.mark.parametrize(
    "call",
    [
        f"custom_call @Eigh(%a) : ({T}) -> {T}",
        f"custom_call @Qr(%a, %a) : ({T}, {T}) -> {T}",
        f"custom_call @mhlo.topk(%a) : ({T}) -> tensor<8xf32>",
        f"custom_call @PartialReduce(%a) : ({T}) -> tensor<8xf32>",
        f"custom_call @of_ours(%a) : ({T}) -> {T}",
    ],
)
def test_a_call_that_is_not_as_its_target_says_has_no_rule(call: str) -> None:
    assert rule_of_text(f"func.func @main(%a: {T}) {{\n%r = stablehlo.{call}\nreturn\n}}\n") is None


def test_every_op_of_the_table_is_stablehlos() -> None:
    with make_context() as context:
        Source.of("// stablehlo.abs\n").parse()
        assert not [name for name in RECORDS if not context.is_registered_operation(name)]
