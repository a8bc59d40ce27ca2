"""Convolutions and reductions over windows, split along what windows go over.

Each against the unsharded op; and nothing is gathered where shards and their halos are enough.
"""

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import pytest

from shard_dialect.errors import ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.pipeline import run_pipeline
from tests.test_end_to_end import run_and_check

pytestmark = pytest.mark.usefixtures("unoptimized")


@dataclass(frozen=True)
class Along:
    """One dimension: its size, the windows that go over it, and the grid axes that split it."""

    size: int
    window: int
    stride: int = 1
    dilation: int = 1
    pad: tuple[int, int] = (0, 0)
    axes: tuple[int, ...] = (0,)

    @property
    def made(self) -> int:
        reach = (self.window - 1) * self.dilation + 1
        return max((self.size + sum(self.pad) - reach) // self.stride + 1, 0)

    def __str__(self) -> str:
        low, high = self.pad
        return (
            f"{self.size} by {self.window} stride {self.stride} dilation {self.dilation} "
            f"padding {low} {high} axes {list(self.axes)}"
        )


def array(values: list[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>"


def tensor(shape: list[int], element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def function(dims: list[Along], grid: str, operands: list[str], made: str, body: str) -> str:
    """The first operand and the result are split along the dimensions after the first."""
    split = f"mesh.sharding = #mesh.shard<@g, [[], {', '.join(str(list(d.axes)) for d in dims)}]>"
    arguments = [f"%0: {operands[0]} {{{split}}}"]
    arguments += [f"%{place}: {type_}" for place, type_ in enumerate(operands) if place]
    return (
        f"shard.grid @g(shape = {grid})\n"
        f"func.func @main({', '.join(arguments)}) -> ({made} {{{split}}}) {{\n"
        f"{body}\nreturn %r : {made}\n}}\n"
    )


def convolution(grid: str, *dims: Along, element: str = "f32") -> str:
    places = ", ".join(map(str, range(len(dims))))
    image = tensor([2, *(each.size for each in dims), 3], element)
    kernel = tensor([*(each.window for each in dims), 3, 4], element)
    made = tensor([2, *(each.made for each in dims), 4], element)
    padding = [list(each.pad) for each in dims]
    body = (
        '%r = "stablehlo.convolution"(%0, %1) <{batch_group_count = 1 : i64, '
        f"dimension_numbers = #stablehlo.conv<[b, {places}, f]x[{places}, i, o]->[b, {places}, f]>,"
        " feature_group_count = 1 : i64, "
        f"padding = dense<{padding}> : tensor<{len(dims)}x2xi64>, "
        f"window_strides = {array([each.stride for each in dims])}, "
        f"rhs_dilation = {array([each.dilation for each in dims])}}}> "
        f": ({image}, {kernel}) -> {made}"
    )
    return function(list(dims), grid, [image, kernel], made, body)


def pooling(grid: str, kind: str, init: str, *dims: Along, element: str = "f32") -> str:
    image = tensor([2, *(each.size for each in dims)], element)
    made = tensor([2, *(each.made for each in dims)], element)
    padding = [[0, 0], *(list(each.pad) for each in dims)]
    one = f"tensor<{element}>"
    body = (
        f"%i = stablehlo.constant dense<{init}> : {one}\n"
        f'%r = "stablehlo.reduce_window"(%0, %i) <{{padding = dense<{padding}> '
        f": tensor<{len(padding)}x2xi64>, "
        f"window_dimensions = {array([1, *(each.window for each in dims)])}, "
        f"window_strides = {array([1, *(each.stride for each in dims)])}, "
        f"window_dilations = {array([1, *(each.dilation for each in dims)])}}}> ({{\n"
        f"^bb0(%a: {one}, %b: {one}):\n%s = stablehlo.{kind} %a, %b : {one}\n"
        f"stablehlo.return %s : {one}\n}}) : ({image}, {one}) -> {made}"
    )
    return function(list(dims), grid, [image], made, body)


def collectives(text: str) -> set[str]:
    with make_context(), warnings.catch_warnings():
        warnings.simplefilter("error", ShardWarning)
        module = Source.of(text).parse()
        run_pipeline(module, "propagate,materialize")
        names = {op.name.partition(".")[2] for op in walk(module.operation) if "mesh." in op.name}
    return names - {"cluster"}


def check(text: str, expected: set[str]) -> None:
    assert collectives(text) == expected, text
    verdict = run_and_check(text, "spmd", "lower")
    assert verdict.passed, f"{text}\n{verdict.failure}"


EXCHANGED, BESIDE = {"update_halo"}, set[str]()
DIMS = {
    "same": (Along(24, 3, pad=(1, 1)), EXCHANGED),
    "before": (Along(24, 3, pad=(2, 0)), EXCHANGED),
    "after": (Along(24, 3, pad=(0, 2)), EXCHANGED),
    "even": (Along(24, 2, pad=(0, 1)), EXCHANGED),
    "wide": (Along(24, 7, pad=(3, 3)), EXCHANGED),
    "far apart": (Along(24, 3, dilation=2, pad=(2, 2)), EXCHANGED),
    "by two": (Along(24, 3, 2, pad=(0, 1)), EXCHANGED),
    "by two before": (Along(24, 3, 2, pad=(1, 0)), EXCHANGED),
    "by two, padded more than is read": (Along(24, 3, 2, pad=(1, 1)), EXCHANGED),
    "by three": (Along(36, 5, 3, pad=(1, 1)), EXCHANGED),
    "side by side": (Along(24, 2, 2), BESIDE),
    "side by side, with a rest": (Along(24, 1, 2), BESIDE),
    "moved on": (Along(24, 3, pad=(-1, 3)), EXCHANGED),
    "moved back": (Along(24, 3, pad=(4, -2)), EXCHANGED),
    "past the end": (Along(24, 1, 2, pad=(2, -2)), EXCHANGED),
}


@pytest.mark.parametrize("grid", ["2", "3", "4"])
@pytest.mark.parametrize("name", DIMS)
def test_a_split_dimension(name: str, grid: str) -> None:
    along, expected = DIMS[name]
    check(convolution(grid, along), expected)
    check(pooling(grid, "maximum", "0xFF800000", along), expected)


@pytest.mark.parametrize(
    ("kind", "init", "element"),
    [
        ("add", "0.0", "f32"),
        ("multiply", "1.0", "f32"),
        ("minimum", "0x7FF0000000000000", "f64"),
        ("maximum", "0.5", "f32"),
        ("maximum", "-128", "i8"),
        ("minimum", "2", "i32"),
        ("add", "0", "i64"),
        ("maximum", "0xFC00", "f16"),
    ],
)
def test_what_past_the_ends_changes_nothing(kind: str, init: str, element: str) -> None:
    along = Along(24, 3, pad=(1, 1))
    check(pooling("4", kind, init, along, element=element), EXCHANGED)


@pytest.mark.parametrize("init", ["1.0", "2.0"])  # 1 changes nothing in a product
def test_a_sum_that_starts_from_something_is_computed_whole(init: str) -> None:
    text = pooling("2", "add", init, Along(24, 3, pad=(1, 1)))
    check(text, {"all_gather", "local_split"})


@pytest.mark.parametrize(("kind", "init"), [("maximum", "0.0"), ("power", "1.0")])
def test_halos_have_an_init_that_changes_nothing_elsewhere(kind: str, init: str) -> None:
    check(pooling("2", kind, init, Along(24, 3, pad=(1, 1))), EXCHANGED)


def test_where_nothing_is_padded_the_init_may_be_anything() -> None:
    check(pooling("2", "add", "1.0", Along(24, 2, 2)), BESIDE)


@pytest.mark.parametrize(
    ("grid", "along"),
    [
        ("6", Along(12, 7, pad=(3, 3))),  # from two shards away
        ("8", Along(8, 5, pad=(2, 2))),
        ("2", Along(10, 3)),
        ("4", Along(14, 3)),
        ("4", Along(13, 3, pad=(1, 1))),
        ("4", Along(13, 3, 2, pad=(1, 1))),
        ("3", Along(25, 4, 3, dilation=2, pad=(2, 3))),
    ],
    ids=str,
)
def test_windows_need_not_begin_where_shards_do(grid: str, along: Along) -> None:
    check(convolution(grid, along), EXCHANGED)
    check(pooling(grid, "maximum", "0xFF800000", along), EXCHANGED)


def test_what_is_outside_is_not_exchanged() -> None:
    along = Along(16, 3, 3, pad=(1, 1))  # the first three windows read 0 to 7, the others the rest
    check(convolution("2", along), BESIDE)
    check(pooling("2", "maximum", "0xFF800000", along), BESIDE)


def test_what_reads_all_of_it_is_gathered() -> None:
    check(convolution("4", Along(24, 25, pad=(12, 12))), {"all_gather", "local_split"})


@pytest.mark.parametrize(
    "along", [Along(4, 5), Along(4, 9, 2), Along(8, 3, 2, 5), Along(8, 3, pad=(-3, -4))], ids=str
)
@pytest.mark.parametrize(
    "draw", [convolution, lambda grid, each: pooling(grid, "add", "0.0", each)]
)
def test_a_window_that_fits_nowhere_is_not_split(draw: Callable[..., str], along: Along) -> None:
    assert along.made == 0
    verdict = run_and_check(draw("2", along), "spmd", "lower")
    assert verdict.passed, verdict.failure


def test_an_init_may_be_repeated_by_a_broadcast() -> None:
    """As JAX writes it."""
    one = "tensor<f32>"
    text = pooling("4", "add", "0.0", Along(24, 3, pad=(1, 1)))
    repeated = f"%i = stablehlo.broadcast_in_dim %c, dims = [] : ({one}) -> {one}"
    head, constant, rest = text.partition("%i = stablehlo.constant dense<0.0> : tensor<f32>")
    assert constant
    text = f"{head}{constant.replace('%i', '%c')}\n{repeated}{rest}"
    check(text, EXCHANGED)


@pytest.mark.parametrize("value", ["2.0", "0.0"])
@pytest.mark.parametrize("low", range(3))
def test_padding_between_elements_stays_beside_them(low: int, value: str) -> None:
    text = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: tensor<24xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}})
        -> (tensor<72xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) {{
      %c = stablehlo.constant dense<{value}> : tensor<f32>
      %r = stablehlo.pad %x, %c, low = [{low}], high = [{2 - low}], interior = [2]
        : (tensor<24xf32>, tensor<f32>) -> tensor<72xf32>
      return %r : tensor<72xf32>
    }}
    """
    check(text, BESIDE)


@pytest.mark.parametrize("base", [2, 3])
@pytest.mark.parametrize("grid", ["2", "4"])
def test_a_dilated_operand(grid: str, base: int) -> None:
    along = Along(12, 3, pad=(1, 1))
    made = (12 - 1) * base + 1
    text = convolution(grid, along).replace(
        "rhs_dilation", f"lhs_dilation = array<i64: {base}>, rhs_dilation"
    )
    verdict = run_and_check(text.replace("x12x4xf32", f"x{made}x4xf32"), "spmd,lower")
    assert verdict.passed, text


@pytest.mark.parametrize(
    ("grid", "dims"),
    [
        ("2x2", (Along(16, 3, pad=(1, 1)), Along(16, 5, pad=(2, 2), axes=(1,)))),
        ("2x2", (Along(16, 3, 2, pad=(0, 1)), Along(16, 3, 2, pad=(1, 0), axes=(1,)))),
        ("2x2", (Along(32, 3, pad=(1, 1), axes=(1, 0)), Along(8, 3, pad=(1, 1), axes=()))),
        ("2x4", (Along(16, 3, pad=(1, 1)), Along(32, 3, dilation=2, pad=(2, 2), axes=(1,)))),
        ("3x2", (Along(24, 4, pad=(1, 2)), Along(16, 2, 2, axes=(1,)))),
    ],
    ids=str,
)
def test_corners_come_from_two_devices_away(grid: str, dims: tuple[Along, Along]) -> None:
    check(convolution(grid, *dims), EXCHANGED)
    check(pooling(grid, "maximum", "0xFF800000", *dims), EXCHANGED)


@pytest.mark.parametrize("seed", range(60))
def test_at_random_it_means_the_same(seed: int) -> None:
    rng = random.Random(seed)
    grid = rng.choice([(2,), (3,), (4,), (2, 2), (2, 3)])
    dims = []
    for number in range(rng.randint(1, 2)):
        axes = tuple(range(len(grid))) if number == len(grid) else (number,)
        axes = () if number >= len(grid) else axes
        window, stride, dilation = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 2)
        size = prod(grid) * stride * rng.randint(1, 4) + rng.choice([0, 0, 1, 2])
        reach = (window - 1) * dilation + 1
        low = rng.randint(-1, reach)
        high = reach - stride - low + rng.randrange(stride)  # as many windows as there are places
        high = rng.choice([high, rng.randint(max(-1, reach - size - low), reach)])
        dims.append(Along(size, window, stride, dilation, (low, high), axes))
    text = convolution("x".join(map(str, grid)), *dims)
    if rng.random() < 0.5:
        kind, init = rng.choice([("add", "0.0"), ("maximum", "0xFF800000"), ("add", "2.0")])
        text = pooling("x".join(map(str, grid)), kind, init, *dims)
    verdict = run_and_check(text, "spmd,lower")
    assert verdict.passed, f"{text}\n{verdict.failure}"


def test_two_windows_over_one_tensor_share_the_wider_halo() -> None:
    text = """
    shard.grid @g(shape = 4)
    func.func @main(%x: tensor<2x24xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
        -> (tensor<2x24xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}) {
      %i = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %a = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 5>,
          padding = dense<[[0, 0], [2, 2]]> : tensor<2x2xi64>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.maximum %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2x24xf32>, tensor<f32>) -> tensor<2x24xf32>
      %b = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 1, 3>,
          padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.maximum %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }) : (tensor<2x24xf32>, tensor<f32>) -> tensor<2x24xf32>
      %r = stablehlo.add %a, %b : tensor<2x24xf32>
      return %r : tensor<2x24xf32>
    }"""
    check(text, EXCHANGED)
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "spmd")
        names = [op.name for op in walk(module.operation)]
    assert names.count("shard.update_halo") == 1
    assert names.count("tensor.extract_slice") == 1
