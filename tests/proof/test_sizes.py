"""Programs too large to evaluate are judged by smaller ones, and only where that is sound."""

import re
import warnings
from math import prod
from random import Random

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.proof import prove as prover
from shard_dialect.proof.factors import Factors
from shard_dialect.testing.random_program import any_program
from tests.slow import seed_of
from tests.testing.faults import faults_in
from tests.testing.proof_table import with_fault

LARGE = """
sdy.mesh @mesh = <["data"=128, "fsdp"=16, "tensor"=8]>
func.func @main(
    %x: tensor<2048x8192x16384xbf16>
      {sdy.sharding = #sdy.sharding<@mesh, [{"data", "fsdp"}, {}, {}]>},
    %w1: tensor<16384x53248xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"fsdp"}, {"tensor"}]>},
    %w2: tensor<53248x16384xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tensor"}, {"fsdp"}]>})
    -> tensor<2048x8192x16384xbf16> {
  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [2] x [0]
    : (tensor<2048x8192x16384xbf16>, tensor<16384x53248xbf16>) -> tensor<2048x8192x53248xbf16>
  %1 = stablehlo.tanh %0 : tensor<2048x8192x53248xbf16>
  %2 = stablehlo.dot_general %1, %w2, contracting_dims = [2] x [0]
    : (tensor<2048x8192x53248xbf16>, tensor<53248x16384xbf16>) -> tensor<2048x8192x16384xbf16>
  return %2 : tensor<2048x8192x16384xbf16>
}
"""


@pytest.fixture
def always_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "_MANY_ELEMENTS", -1)


def partitioned(text: str) -> str:
    module = sd.parse(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        sd.run_pipeline(module, "spmd")
    return sd.to_text(module)


def test_equal_products_share_their_factors() -> None:
    factors = Factors()
    a, b, c = (factors.new(value) for value in (64, 32, 8))
    factors.equate(a + c, b + factors.new(16))
    assert factors.value(factors.factors(a + c)) == 512
    smallest, *others = factors.choices()
    assert set(smallest.values()) == {2}
    assert len(others) == sum(factors.own[factor] > 2 for factor in smallest)
    assert all(sorted(each.values())[-2:] == [2, 3] for each in others)


def test_axes_that_split_one_size_have_nothing_in_common() -> None:
    factors = Factors()
    stages, data, rest, other = (factors.new(value) for value in (16, 8, 1024, 2048))
    factors.equate(stages + rest, data + other)
    assert not set(factors.factors(stages)) & set(factors.factors(data))


def test_sizes_of_positions_keep_their_order() -> None:
    factors = Factors()
    terms = [factors.new(size) for size in (4096, 126, 8192)]
    factors.hold_positions(*terms)
    factors.keep_order(terms)
    for chosen in factors.choices():
        rows, layers, twice = (
            prod(chosen[factor] for factor in factors.factors(term)) for term in terms
        )
        assert 3 <= layers <= rows
        assert twice == 2 * rows


def test_digits_of_one_number_are_refined() -> None:
    factors = Factors()
    given, made = [factors.new(6), factors.new(4)], [factors.new(3), factors.new(8)]
    factors.refine(given, made)
    assert factors.factors(given[0] + given[1]) == factors.factors(made[0] + made[1])


def test_a_number_is_another_one_and_more() -> None:
    factors = Factors()
    image, padded, again, window = (factors.new(size) for size in (112, 114, 112, 56))
    factors.add(padded, image, 2)
    factors.add(again, padded, -2)
    factors.equate(image, factors.constant(2) + window)
    factors.hold_least(window, 3)
    smallest, *_ = factors.choices()
    assert factors.factors(again) == factors.factors(image)
    assert [prod(smallest[f] for f in factors.factors(t)) for t in (window, image, padded)] == [
        3, 6, 8
    ]  # fmt: skip


def test_numbers_that_cannot_be_sums_stay() -> None:
    factors = Factors()
    a, b = factors.new(12) + factors.new(5), factors.new(19) + factors.new(3)
    factors.add(a, b, 3)
    for chosen in factors.choices():
        assert prod(chosen[f] for f in a) == 60 == prod(chosen[f] for f in b) + 3


def test_a_step_for_thousands_of_devices_is_proven() -> None:
    proof = sd.prove(sd.parse(LARGE), sd.parse(partitioned(LARGE)))
    assert proof.answer == "proven"
    assert re.search("16384 devices as .* 53248 as ", str(proof))


@pytest.mark.parametrize("number", range(6))
def test_its_faults_are_seen(number: int) -> None:
    module = sd.parse(partitioned(LARGE))
    with module.context:
        found = faults_in(module.operation)
        found[number % len(found)].make()
    proof = sd.prove(sd.parse(LARGE), module)
    assert proof.answer == "unknown"
    assert proof.counterexample is not None or "elements in all" in proof.reason


@pytest.mark.parametrize("seed", range(60))
def test_smaller_programs_are_right_where_the_larger_are(
    seed: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = any_program(Random(1000 * seed_of(request.config) + 500 + seed))
    text = program.unsharded or program.text
    try:
        local = partitioned(program.text)
    except ShardError:
        return
    monkeypatch.setattr(prover, "_MOST_ELEMENTS", 1 << 20)
    whole = sd.prove(sd.parse(text), sd.parse(local))
    monkeypatch.setattr(prover, "_MANY_ELEMENTS", -1)
    assert sd.prove(sd.parse(text), sd.parse(local)).answer in (whole.answer, "unknown")


SIZE = 64
BODIES = {
    "an element": """
      %at = stablehlo.constant dense<5> : tensor<i32>
      %0 = stablehlo.constant dense<0.0> : tensor<1x1xf32>
      %y = stablehlo.dynamic_update_slice %x, %0, %at, %at
        : (tensor<NxNxf32>, tensor<1x1xf32>, tensor<i32>, tensor<i32>) -> tensor<NxNxf32>""",
    "rows beyond an integer": """
      %i = stablehlo.iota dim = 0 : tensor<NxNxi32>
      %c = stablehlo.constant dense<10> : tensor<NxNxi32>
      %b = stablehlo.compare LT, %i, %c : (tensor<NxNxi32>, tensor<NxNxi32>) -> tensor<NxNxi1>
      %0 = stablehlo.constant dense<0.0> : tensor<NxNxf32>
      %y = stablehlo.select %b, %x, %0 : tensor<NxNxi1>, tensor<NxNxf32>""",
    "rows beyond a float": """
      %i = stablehlo.iota dim = 0 : tensor<NxNxf32>
      %c = stablehlo.constant dense<10.0> : tensor<NxNxf32>
      %b = stablehlo.compare LT, %i, %c : (tensor<NxNxf32>, tensor<NxNxf32>) -> tensor<NxNxi1>
      %0 = stablehlo.constant dense<0.0> : tensor<NxNxf32>
      %y = stablehlo.select %b, %x, %0 : tensor<NxNxi1>, tensor<NxNxf32>""",
    "a converted position": """
      %j = stablehlo.iota dim = 0 : tensor<NxNxi32>
      %i = stablehlo.convert %j : (tensor<NxNxi32>) -> tensor<NxNxf32>
      %c = stablehlo.constant dense<10.0> : tensor<NxNxf32>
      %m = stablehlo.maximum %i, %c : tensor<NxNxf32>
      %z = stablehlo.multiply %x, %m : tensor<NxNxf32>
      %y = stablehlo.divide %z, %c : tensor<NxNxf32>""",
    "rows beyond a sum": """
      %i = stablehlo.iota dim = 0 : tensor<NxNxi32>
      %one = stablehlo.constant dense<1> : tensor<NxNxi32>
      %two = stablehlo.add %one, %one : tensor<NxNxi32>
      %four = stablehlo.add %two, %two : tensor<NxNxi32>
      %b = stablehlo.compare LT, %i, %four : (tensor<NxNxi32>, tensor<NxNxi32>) -> tensor<NxNxi1>
      %0 = stablehlo.constant dense<0.0> : tensor<NxNxf32>
      %y = stablehlo.select %b, %x, %0 : tensor<NxNxi1>, tensor<NxNxf32>""",
    "odd rows": """
      %i = stablehlo.iota dim = 0 : tensor<NxNxi32>
      %c = stablehlo.constant dense<62> : tensor<NxNxi32>
      %o = stablehlo.and %i, %c : tensor<NxNxi32>
      %z = stablehlo.constant dense<0> : tensor<NxNxi32>
      %b = stablehlo.compare EQ, %o, %z : (tensor<NxNxi32>, tensor<NxNxi32>) -> tensor<NxNxi1>
      %0 = stablehlo.constant dense<0.0> : tensor<NxNxf32>
      %y = stablehlo.select %b, %x, %0 : tensor<NxNxi1>, tensor<NxNxf32>""",
    "a shuffle twice": """
      %a = stablehlo.reshape %x : (tensor<NxNxf32>) -> tensor<4x16xNxf32>
      %b = stablehlo.transpose %a, dims = [1, 0, 2] : (tensor<4x16xNxf32>) -> tensor<16x4xNxf32>
      %c = stablehlo.reshape %b : (tensor<16x4xNxf32>) -> tensor<NxNxf32>
      %d = stablehlo.reshape %c : (tensor<NxNxf32>) -> tensor<4x16xNxf32>
      %e = stablehlo.transpose %d, dims = [1, 0, 2] : (tensor<4x16xNxf32>) -> tensor<16x4xNxf32>
      %y = stablehlo.reshape %e : (tensor<16x4xNxf32>) -> tensor<NxNxf32>""",
    "another mean": """
      %c = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0]
        : (tensor<NxNxf32>, tensor<f32>) -> tensor<Nxf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<Nxf32>) -> tensor<NxNxf32>
      %h = stablehlo.constant dense<2.0> : tensor<NxNxf32>
      %m = stablehlo.divide %b, %h : tensor<NxNxf32>
      %n = stablehlo.multiply %m, %h : tensor<NxNxf32>
      %p = stablehlo.subtract %b, %n : tensor<NxNxf32>
      %q = stablehlo.add %x, %p : tensor<NxNxf32>
      %y = stablehlo.multiply %q, %h : tensor<NxNxf32>""",
    "padding": """
      %0 = stablehlo.constant dense<0.0> : tensor<f32>
      %a = stablehlo.slice %x [0:59, 0:N] : (tensor<NxNxf32>) -> tensor<59xNxf32>
      %y = stablehlo.pad %a, %0, low = [0, 0], high = [5, 0], interior = [0, 0]
        : (tensor<59xNxf32>, tensor<f32>) -> tensor<NxNxf32>""",
    "a permutation of blocks": """
      %a = stablehlo.slice %x [0:16, 0:N] : (tensor<NxNxf32>) -> tensor<16xNxf32>
      %b = stablehlo.slice %x [16:N, 0:N] : (tensor<NxNxf32>) -> tensor<48xNxf32>
      %y = stablehlo.concatenate %b, %a, dim = 0
        : (tensor<48xNxf32>, tensor<16xNxf32>) -> tensor<NxNxf32>""",
}


@pytest.mark.usefixtures("always_smaller")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_depends_on_where_an_element_is_is_seen(body: str) -> None:
    """The first program returns its argument, the second one as good as."""
    type_ = f"tensor<{SIZE}x{SIZE}xf32>"
    plain = f"func.func @main(%x: {type_}) -> {type_} {{ return %x : {type_} }}"
    text = f"func.func @main(%x: {type_}) -> {type_} {{ {body} return %y : {type_} }}"
    other = (
        text.replace("N]", f"{SIZE}]").replace(":N", f":{SIZE}").replace("NxN", f"{SIZE}x{SIZE}")
    )
    other = other.replace("xNx", f"x{SIZE}x").replace("<Nx", f"<{SIZE}x")
    proof = sd.prove(sd.parse(plain), sd.parse(other))
    assert proof.answer == "refuted", proof


@pytest.mark.usefixtures("always_smaller")
@pytest.mark.parametrize(
    ("permutation", "is_right"),
    [([1, 2, 3, 4, 5, 6, 7, 0], True), ([7, 0, 1, 2, 3, 4, 5, 6], False)],
    ids=["to the next", "to the one before"],
)
def test_shifts_keep_their_direction(permutation: "list[int]", is_right: bool) -> None:
    whole = """
      shard.grid @g(shape = 8)
      func.func @main(%x: tensor<8x64xf32>) -> tensor<8x64xf32> {
        %a = stablehlo.slice %x [0:7, 0:64] : (tensor<8x64xf32>) -> tensor<7x64xf32>
        %b = stablehlo.slice %x [7:8, 0:64] : (tensor<8x64xf32>) -> tensor<1x64xf32>
        %y = stablehlo.concatenate %b, %a, dim = 0
          : (tensor<1x64xf32>, tensor<7x64xf32>) -> tensor<8x64xf32>
        return %y : tensor<8x64xf32>
      }
    """
    local = f"""
      shard.grid @g(shape = 8)
      func.func @main(
          %x: tensor<1x64xf32> {{mesh.argument = tensor<8x64xf32, #mesh.shard<@g, [[0]]>>}})
          -> (tensor<1x64xf32> {{mesh.result = tensor<8x64xf32, #mesh.shard<@g, [[0]]>>}})
          attributes {{mesh.form = "local"}} {{
        %y = "mesh.collective_permute"(%x)
          {{cluster = @g, mesh_axis = [0], permutation = {permutation}}}
          : (tensor<1x64xf32>) -> tensor<1x64xf32>
        return %y : tensor<1x64xf32>
      }}
    """
    assert (sd.prove(sd.parse(whole), sd.parse(local)).answer == "proven") == is_right


REORDERED = """
sdy.mesh @mesh = <["a"=128, "b"=16]>
func.func @main(
    %x: tensor<16384x65536xf32> {sdy.sharding = #sdy.sharding<@mesh, [{GIVEN}, {}]>})
    -> (tensor<16384x65536xf32> {sdy.sharding = #sdy.sharding<@mesh, [{MADE}, {}]>}) {
  %0 = stablehlo.tanh %x : tensor<16384x65536xf32>
  return %0 : tensor<16384x65536xf32>
}
"""


@pytest.mark.parametrize("is_inverse", [False, True])
@pytest.mark.parametrize("axes", [('"a", "b"', '"b", "a"'), ('"b", "a"', '"a", "b"')])
def test_axes_whose_order_changes_have_sizes_of_their_own(
    axes: "tuple[str, str]", is_inverse: bool
) -> None:
    text = REORDERED.replace("GIVEN", axes[0]).replace("MADE", axes[1])
    local = partitioned(text)
    listed = re.search(r"permutation = \[([\d, ]*)\]", local)
    assert listed is not None
    to = [int(each) for each in listed[1].split(", ")]
    if is_inverse:
        local = local.replace(listed[1], ", ".join(str(to.index(n)) for n in range(len(to))))
    proof = sd.prove(sd.parse(text), sd.parse(local))
    assert (proof.answer == "proven") != is_inverse
    assert re.search("2048 devices as [46],", str(proof))  # of 2x2 it is its own inverse


WINDOWS = """
sdy.mesh @mesh = <["data"=4]>
func.func @main(
    %x: tensor<8x224x224x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}, {}]>},
    %w: tensor<7x7x3x16xf32>) -> (tensor<8x1x1x16xf32>, tensor<8x7x7x16xf32>) {
  %c = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [32, 32], pad = [[LOW, 3], [3, 3]]}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<8x224x224x3xf32>, tensor<7x7x3x16xf32>) -> tensor<8x7x7x16xf32>
  %t = stablehlo.tanh %c : tensor<8x7x7x16xf32>
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %p = "stablehlo.reduce_window"(%t, %0) <{window_dimensions = array<i64: 1, 7, 7, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x7x7x16xf32>, tensor<f32>) -> tensor<8x1x1x16xf32>
  %e = stablehlo.pad %p, %0, low = [0, 6, 6, 0], high = [0, 6, 6, 0], interior = [0, 0, 0, 0]
    : (tensor<8x1x1x16xf32>, tensor<f32>) -> tensor<8x13x13x16xf32>
  %q = "stablehlo.reduce_window"(%e, %0) <{window_dimensions = array<i64: 1, 7, 7, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x13x13x16xf32>, tensor<f32>) -> tensor<8x7x7x16xf32>
  %l = stablehlo.pad %q, %0, low = [0, 1, 1, 0], high = [0, 1, 1, 0], interior = [0, 0, 0, 0]
    : (tensor<8x7x7x16xf32>, tensor<f32>) -> tensor<8x9x9x16xf32>
  %k = stablehlo.slice %l [0:8, AT, 1:8, 0:16]
    : (tensor<8x9x9x16xf32>) -> tensor<8x7x7x16xf32>
  return %p, %k : tensor<8x1x1x16xf32>, tensor<8x7x7x16xf32>
}
"""


def windows(low: str = "3", at: str = "1:8") -> str:
    return WINDOWS.replace("LOW", low).replace("AT", at)


@pytest.mark.usefixtures("always_smaller")
def test_windows_move_over_images_of_any_size() -> None:
    local = partitioned(windows())
    proof = sd.prove(sd.parse(windows()), sd.parse(local))
    assert proof.answer == "proven"
    assert "224 as 64" in str(proof)
    assert sd.prove(sd.parse(windows("2")), sd.parse(local)).answer == "refuted"
    for at in ("0:7", "2:9"):
        assert sd.prove(sd.parse(windows(at=at)), sd.parse(local)).answer == "refuted"


@pytest.mark.usefixtures("always_smaller")
@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")
@pytest.mark.parametrize("seed", range(40))
def test_faults_are_seen_at_smaller_sizes(seed: int, request: pytest.FixtureRequest) -> None:
    program = any_program(Random(1000 * seed_of(request.config) + seed))
    with make_context():
        found = with_fault(program, seed)
    assert found is None or found[1].answer != "proven"
