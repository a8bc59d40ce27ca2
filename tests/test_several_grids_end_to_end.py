"""Random programs with tensors on several grids of the same devices give the right numbers."""

from math import prod
from random import Random

import pytest

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid
from shard_dialect.testing.check_program import reference_of, run_and_check
from shard_dialect.testing.placement import cluster, encoding
from shard_dialect.testing.random_shardings import any_sharding
from tests.extras import needs

SHAPES = {
    4: ((4,), (2, 2)),
    6: ((6,), (2, 3), (3, 2)),
    8: ((8,), (2, 4), (4, 2), (2, 2, 2)),
    12: ((12,), (3, 4), (4, 3), (2, 6), (2, 3, 2)),
}
SMALLER = {
    devices: tuple(
        shape for shape in ((1,), (2,), (3,), (2, 2), (4,), (6,), (3, 2)) if prod(shape) < devices
    )
    for devices in SHAPES
}
OPS = (
    "stablehlo.add {0}, {1} : tensor<{n}x{n}xf32>",
    "stablehlo.tanh {0} : tensor<{n}x{n}xf32>",
    "stablehlo.transpose {0}, dims = [1, 0] : (tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>",
    "stablehlo.dot_general {0}, {1}, contracting_dims = [1] x [0] "
    ": (tensor<{n}x{n}xf32>, tensor<{n}x{n}xf32>) -> tensor<{n}x{n}xf32>",
)


def any_program(rng: Random, *, extents: bool = False, has_smaller: bool = False) -> str:
    """A module with two or three grids, and ops on square matrices annotated on any of them.

    With `extents`, some shards have halos, or begin at offsets. With `has_smaller`, some grids are
    of the first few devices.
    """
    devices = rng.choice(list(SHAPES))
    grids = []
    for name in "abc"[: rng.randint(2, 3)]:
        has_order = rng.random() < 0.3 and not has_smaller
        order = rng.sample(range(devices), devices) if has_order else ()
        is_smaller = has_smaller and grids and rng.random() < 0.7
        shapes = SMALLER[devices] if is_smaller else SHAPES[devices]
        grids.append(Grid(name, rng.choice(shapes), device_ids=tuple(order)))
    size = rng.choice((devices, 2 * devices, devices + 1))
    shape, type_ = (size, size), f"tensor<{size}x{size}xf32>"

    def sharding() -> str:
        uses = {"extents": True} if extents else {"sub_axes": rng.random() < 0.3}
        return encoding(any_sharding(rng, shape, rng.choice(grids), even=True, **uses))

    values, lines = ["%x", "%y"], []
    for number in range(rng.randint(2, 7)):
        operands = [rng.choice(values[-3:]) for _ in range(2)]
        lines.append(f"%v{number} = {rng.choice(OPS).format(*operands, n=size)}")
        values.append(f"%v{number}")
        if rng.random() < 0.6:
            attribute = sharding()[2:-1].removeprefix("mesh.")
            users = rng.choice(("true", "false"))
            lines.append(
                f'%s{number} = "mesh.annotate"(%v{number}) {{{attribute}, as_result = {users}}} '
                f": ({type_}) -> {type_}"
            )
            values.append(f"%s{number}")
    return (
        "".join(map(cluster, grids))
        + f"func.func @main(%x: {type_}{sharding()}, %y: {type_}) -> ({type_}{sharding()}) {{\n"
        + "\n".join(lines)
        + f"\nreturn {values[-1]} : {type_}\n}}\n"
    )


@needs("jax")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("extents", [False, True])
@pytest.mark.parametrize("results", ["pieces", "whole"])
def test_numbers_are_right(seed: int, extents: bool, results: str) -> None:
    rng = Random(seed)
    collectives = 0
    options = f"{{arguments={results} results={results}}}"
    pipeline = f"propagate,materialize,optimize-collectives,partition{options},lower"
    for _ in range(3):
        text = any_program(rng, extents=extents)
        outcome = run_and_check(text, pipeline, reference=reference_of(text))
        assert outcome.verdict.passed, f"{outcome.verdict}\n{text}"
        collectives += outcome.collectives.total()
    assert collectives


@needs("jax")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.filterwarnings("ignore:.*on it is (unsharded|split):shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("seed", range(8))
def test_grids_of_other_sizes_are_of_the_first_devices(seed: int) -> None:
    rng = Random(seed)
    for _ in range(3):
        text = any_program(rng, has_smaller=True)
        try:
            outcome = run_and_check(text, "spmd,lower", reference=reference_of(text))
        except ShardError as error:
            if "which cross each other" not in error.message:  # as 2x3 beside 3x2
                raise
            continue
        assert outcome.verdict.passed, f"{outcome.verdict}\n{text}"


@needs("jax", "torch")
@pytest.mark.parametrize("seed", range(6))
def test_numbers_in_emitted_python_are_right(seed: int) -> None:
    """Devices in any order: emitted programs list the ranks by their positions."""
    rng = Random(seed)
    programs = (any_program(rng) for _ in range(40))
    ordered = [text for text in programs if "device_ids" in text][:3]
    assert len(ordered) == 3
    for text in ordered:
        outcome = run_and_check(text, "spmd", reference=reference_of(text), compiler="torch")
        assert outcome.verdict.passed, f"{outcome.verdict}\n{text}"


MANUAL = """
"mesh.cluster"() {{sym_name = "a", rank = 1 : i64, dim_sizes = [4]}} : () -> ()
"sdy.mesh"() <{{mesh = #sdy.mesh<["x"=2, "y"=2]{order}>, sym_name = "b"}}> : () -> ()
func.func @main(%x: tensor<8x8xf32> {{mesh.sharding = #mesh.shard<@a, {source}>}})
    -> (tensor<8x8xf32> {{mesh.sharding = #mesh.shard<@a, {target}>}}) {{
  %1 = stablehlo.tanh %x : tensor<8x8xf32>
  %2 = "sdy.manual_computation"(%1) <{{in_shardings = #sdy.sharding_per_value<[<@b, [{{"x"}}, {{}}]>]>, manual_axes = #sdy<manual_axes{{{axes}}}>, out_shardings = #sdy.sharding_per_value<[<@b, [{{"x"}}, {{}}]>]>}}> ({{
  ^bb0(%p: tensor<4x8xf32>):
    %q = stablehlo.sine %p : tensor<4x8xf32>
    "sdy.return"(%q) : (tensor<4x8xf32>) -> ()
  }}) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = stablehlo.tanh %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}}
"""  # noqa: E501
UNSHARDED = """
func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %1 = stablehlo.tanh %x : tensor<8x8xf32>
  %2 = stablehlo.sine %1 : tensor<8x8xf32>
  %3 = stablehlo.tanh %2 : tensor<8x8xf32>
  return %3 : tensor<8x8xf32>
}
"""


@needs("jax")
@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("order", ["", ", device_ids=[2, 0, 3, 1]", ", device_ids=[1, 2, 3, 0]"])
@pytest.mark.parametrize("axes", ['"x"', '"x", "y"'])
def test_a_manual_computation_is_on_a_grid_of_its_own(order: str, axes: str) -> None:
    for source, target in (("[[0], []]", "[[], [0]]"), ("[[], [0]]", "[[0], []]")):
        text = MANUAL.format(order=order, axes=axes, source=source, target=target)
        outcome = run_and_check(text, "spmd,lower", reference=reference_of(UNSHARDED))
        assert outcome.verdict.passed, f"{outcome.verdict}\n{text}"


def test_sizes_by_constants_are_numbers_on_a_common_grid() -> None:
    """What is printed after each pass has as many operands as sizes that are open."""
    text = """
    shard.grid @g(shape = 3x2)
    shard.grid @h(shape = 3x2)
    func.func @main(%x: tensor<10xf32>,
                    %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@h, [[0]]>})
        -> (tensor<10xf32>, tensor<8xf32>) {
      %0 = stablehlo.tanh %x : tensor<10xf32>
      %ten = arith.constant 10 : i64
      %s = shard.sharding @g split_axes = [[1, 0]] sharded_dims_offsets = [0, 0, 1, 8, 9, %ten, 10]
      %1 = shard.shard %0 to %s : tensor<10xf32>
      return %1, %y : tensor<10xf32>, tensor<8xf32>
    }"""
    assert run_and_check(text, "propagate", "materialize", "partition,lower").verdict.passed


@pytest.mark.parametrize("sizes", ["halo = [[], [0, 1]]", "offsets = [[], [0, 5]]"])
def test_an_axis_of_one_device_that_the_common_grid_has_not(sizes: str) -> None:
    text = f"""
    shard.grid @g(shape = 2)
    shard.grid @h(shape = 1x2)
    func.func @main(%x: tensor<5x5xf32> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}},
                    %y: tensor<5x5xf32>
                      {{mesh.sharding = #mesh.shard<@h, [[1], [0], {{{sizes}}}]>}})
        -> (tensor<5x5xf32>, tensor<5x5xf32>) {{
      %0 = stablehlo.tanh %y : tensor<5x5xf32>
      return %x, %0 : tensor<5x5xf32>, tensor<5x5xf32>
    }}"""
    assert run_and_check(text, "spmd,lower").verdict.passed


SQUARE = '"sdy.mesh"() <{mesh = #sdy.mesh<["a"=2, "b"=2]>, sym_name = "square"}> : () -> ()'
LINE = '"sdy.mesh"() <{mesh = #sdy.mesh<["z"=4]>, sym_name = "line"}> : () -> ()'
TURNED = (
    '"sdy.mesh"() <{mesh = #sdy.mesh<["z"=4], device_ids = [3, 2, 1, 0]>, sym_name = "line"}>'
    " : () -> ()"
)
EMPTY = '"sdy.mesh"() <{mesh = #sdy.mesh<[]>, sym_name = "empty"}> : () -> ()'
ONE = '"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids = [1]>, sym_name = "one"}> : () -> ()'
ANOTHER = '"sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids = [0]>, sym_name = "other"}> : () -> ()'
ROWS, ANY, WHOLE = '[{"z"}, {}]', "[{?}, {?}]", "[{}, {}]"
FEW = {
    "one device alone": ([ONE], [("one", "[]")]),
    "two devices, each alone": ([ONE, ANOTHER], [("one", "[]"), ("other", "[]")]),
    "one device of a grid that nothing is on": ([SQUARE, ONE], [("one", "[]")]),
    "the empty grid beside two": (
        [SQUARE, LINE, EMPTY],
        [("square", '[{"a"}, {"b"}]'), ("line", ROWS), ("empty", ANY)],
    ),
    "replicated on the empty grid": (
        [SQUARE, LINE, EMPTY],
        [("square", '[{"a"}, {"b"}]'), ("empty", WHOLE), ("line", ROWS)],
    ),
    "the empty grid after one device": (
        [SQUARE, LINE, ONE, EMPTY],
        [("square", '[{"a"}, {"b"}]'), ("one", "[]"), ("empty", ANY)],
    ),
    "one device beside two grids": (
        [SQUARE, LINE, ONE],
        [("square", '[{"b"}, {"a"}]'), ("one", "[]"), ("line", ROWS)],
    ),
    "one device of a grid in its own order": (
        [TURNED, ONE],
        [("line", ROWS), ("one", "[]"), ("line", '[{}, {"z"}]')],
    ),
}


@pytest.mark.parametrize("name", FEW)
def test_grids_of_one_device_and_of_none(name: str) -> None:
    meshes, said = FEW[name]
    lines = []
    for number, (mesh, dims) in enumerate(said):
        sharding = f"#sdy.sharding<@{mesh}, {dims}>"
        lines += [
            f'%c{number} = "sdy.sharding_constraint"(%t{number}) <{{sharding = {sharding}}}> '
            ": (tensor<8x8xf32>) -> tensor<8x8xf32>",
            f"%t{number + 1} = stablehlo.tanh %c{number} : tensor<8x8xf32>",
        ]
    text = "\n".join(
        [
            *meshes,
            "func.func @main(%t0: tensor<8x8xf32>) -> tensor<8x8xf32> {",
            *lines,
            f"return %t{len(said)} : tensor<8x8xf32>",
            "}",
        ]
    )
    for pipeline in ("spmd,lower", "import,propagate,materialize,partition,lower"):
        outcome = run_and_check(text, pipeline, reference=reference_of(text))
        assert outcome.verdict.passed, text


BRANCH = """
shard.grid @g(shape = 2x3)
shard.grid @h(shape = 3)
func.func @main(%x: tensor<10xf32>, %w: tensor<i32> {mesh.sharding = #mesh.shard<@g, []>},
                %y: tensor<4xf32>) -> tensor<10xf32> {
  %0 = tosa.abs %x : (tensor<10xf32>) -> tensor<10xf32>
  %1 = "stablehlo.case"(%w) ({
    %2 = tosa.abs %y : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "mesh.annotate"(%2) {sharding = #mesh.shard<@h, [[]]>, as_result = true}
      : (tensor<4xf32>) -> tensor<4xf32>
    stablehlo.return %0 : tensor<10xf32>
  }, {
    %2 = arith.addf %0, %x : tensor<10xf32>
    stablehlo.return %2 : tensor<10xf32>
  }) : (tensor<i32>) -> tensor<10xf32>
  %4 = tosa.abs %1 : (tensor<10xf32>) -> tensor<10xf32>
  %5 = "mesh.annotate"(%4) {sharding = #mesh.shard<@g, [[0]]>, as_result = true}
    : (tensor<10xf32>) -> tensor<10xf32>
  return %5 : tensor<10xf32>
}
"""
"""All devices run the branches, in which one value is of a few."""
CAPTURED = """
shard.grid @g(shape = 4)
shard.grid @h(shape = 2)
func.func @main(%x: tensor<8xf32> {mesh.sharding = #mesh.shard<@h, [[0]]>},
                %y: tensor<8xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<8xf32> {
  %zero = arith.constant 0 : index
  %two = arith.constant 2 : index
  %one = arith.constant 1 : index
  %0 = scf.for %i = %zero to %two step %one iter_args(%a = %x) -> tensor<8xf32> {
    %1 = arith.mulf %y, %y : tensor<8xf32>
    %2 = arith.addf %a, %1 : tensor<8xf32>
    scf.yield %2 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}
"""
"""A loop carries what is on a few devices, and reads what is on all."""
ALONE = """
shard.grid @g(shape = 2x2)
shard.grid @h(shape = 1x2)
func.func @main(%x: tensor<8x8xf32> {mesh.sharding = #mesh.shard<@g, [[0], [1]]>})
    -> tensor<8x8xf32> {
  %0 = stablehlo.tanh %x : tensor<8x8xf32>
  %s = shard.sharding @h split_axes = [[0], [1]] halo_sizes = [2, 3, 1, 0] : !shard.sharding
  %1 = shard.shard %0 to %s : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
"""
"""Halos along an axis of one device."""
COUNTED = """
shard.grid @g(shape = 4)
shard.grid @h(shape = 3)
func.func @main(%x: tensor<6x6xf32> {mesh.sharding = #mesh.shard<@g, [[], []]>},
                %y: tensor<f32> {mesh.sharding = #mesh.shard<@h, []>})
    -> (tensor<6x6xf32>, tensor<f32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<6x6xf32>
  cond {
    %p = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %v = stablehlo.negate %a : tensor<6x6xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %v : tensor<i32>, tensor<6x6xf32>
  }
  %1 = stablehlo.shift_right_arithmetic %0#0, %one : tensor<i32>
  %2 = stablehlo.exponential %y : tensor<f32>
  return %0#1, %2, %1 : tensor<6x6xf32>, tensor<f32>, tensor<i32>
}
"""
"""An op on no tensor of a grid reads the counter of a loop that all devices run."""


@pytest.mark.parametrize(
    "text", [BRANCH, CAPTURED, ALONE, COUNTED], ids=["branch", "captured", "alone", "counted"]
)
def test_a_few_devices_beside_all(text: str) -> None:
    assert run_and_check(text, "spmd,lower").verdict.passed
