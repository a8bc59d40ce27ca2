"""Who judges: the most independent executor that can, and none that passes its own faults."""

from time import process_time

import numpy as np
import pytest

from shard_dialect.backends.cpu import elementary_functions
from shard_dialect.errors import ShardError
from shard_dialect.processes.to_parent import what_is_done
from shard_dialect.runtime.checking.reference import JUDGES, Judge
from shard_dialect.runtime.random_inputs import random_inputs
from shard_dialect.testing import reference_of, run_and_check
from tests.extras import needs
from tests.programs.mixed_precision import mixed_program

TANH = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %xs = shard.shard %x to %s : tensor<8x4xf32>
  %y = math.tanh %xs : tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
"""
ADDS = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = stablehlo.add %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""


def test_upstream_judges_a_chain_in_time_that_grows_with_it() -> None:
    count = 1_000
    ops = [f"%{n} = math.tanh %{n - 1} : tensor<8x4xf32>" for n in range(1, count)]
    text = "func.func @main(%0: tensor<8x4xf32>) -> tensor<8x4xf32> {\n" + "\n".join(ops)
    before = process_time()
    reference_of(f"{text}\nreturn %{count - 1} : tensor<8x4xf32>\n}}", "upstream")
    assert process_time() - before < 15  # it takes 3; where LLVM compiles all as one, over 100


@needs("jax")
def test_xla_judges_stablehlo() -> None:
    assert reference_of(ADDS).judge.startswith("XLA (jaxlib ")


@needs("jax")
def test_xla_judges_transposes_that_cancel() -> None:
    """XLA's fusion emitters, for one, recurse on them until the stack ends."""
    text = """
    func.func @main(%x: tensor<12x8xbf16>) -> tensor<12x8xbf16> {
      %0 = stablehlo.logistic %x : tensor<12x8xbf16>
      %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<12x8xbf16>) -> tensor<8x12xbf16>
      %2 = stablehlo.logistic %1 : tensor<8x12xbf16>
      %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<8x12xbf16>) -> tensor<12x8xbf16>
      return %3 : tensor<12x8xbf16>
    }"""
    assert run_and_check(text, "spmd,lower").verdict.passed


@needs("jax")
def test_a_crash_of_a_judge_would_name_it() -> None:
    reference_of(ADDS, by="xla")
    assert what_is_done()[1].endswith("(--reference-by=xla)")


def test_upstream_judges_what_xla_does_not_know() -> None:
    assert reference_of(TANH).judge.startswith("upstream's passes")


def test_our_own_code_judges_what_no_other_can() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %e = arith.addf %x, %x : tensor<4xf32>
      %y = "stablehlo.sort"(%e) ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    assert reference_of(text).judge == "our own code, as the devices are"


@pytest.mark.parametrize("by", ["xla", "upstream"])
def test_a_judge_that_cannot_says_why(by: Judge) -> None:
    text = {
        "xla": TANH,
        "upstream": "func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> {\n"
        "%y = math.sin %x : tensor<0xf32>\nreturn %y : tensor<0xf32>\n}",
    }[by]
    reason = f"cannot run the unsharded program with --reference-by={by}: "
    with pytest.raises(ShardError, match=reason):
        reference_of(text, by)


@pytest.mark.parametrize("spoiled", [False, True])
def test_our_own_code_does_not_pass_its_own_faults(
    monkeypatch: pytest.MonkeyPatch, spoiled: bool
) -> None:
    right = elementary_functions._FUNCTIONS["math.tanh"]["f32"]
    if spoiled:
        wrong = {"f32": lambda w, x: w.multiply(right(w, x), 1.0001)}
        monkeypatch.setitem(elementary_functions._FUNCTIONS, "math.tanh", wrong)
    assert run_and_check(TANH, "spmd,lower").verdict.passed != spoiled
    assert run_and_check(TANH, "spmd,lower", reference=reference_of(TANH, "self")).verdict.passed


@needs("jax")
@pytest.mark.parametrize("seed", range(6))
def test_judges_agree_where_nothing_is_moved(seed: int) -> None:
    text = mixed_program(seed)
    first, *others = (reference_of(text, by) for by in JUDGES)
    inputs = random_inputs(first.arguments, seed)
    expected = [each.astype(np.float64) for each in first.run(inputs)]
    for other in others:
        for a, b in zip(expected, other.run(inputs), strict=True):
            np.testing.assert_allclose(b.astype(np.float64), a, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("by", ["upstream", "self"])
def test_roundings_to_narrow_floats_are_moved_by_their_last_place(by: Judge) -> None:
    reference = reference_of(
        """
        func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
          %n = arith.truncf %x : tensor<64xf32> to tensor<64xbf16>
          %w = arith.extf %n : tensor<64xbf16> to tensor<64xf32>
          return %w : tensor<64xf32>
        }""",
        by,
    )
    x = np.linspace(1, 2, 64, endpoint=False, dtype=np.float32)
    (plain,) = reference.run([x])
    (moved,) = reference.run_rounding_otherwise([x], 1, move_inputs=True)
    assert np.all(np.abs(plain - x) <= 2**-8)
    assert 0 < np.max(np.abs(moved - plain)) <= 2**-6
    np.testing.assert_allclose(reference.run_nearby([x], 1, 1)[0], plain, rtol=1e-2)


def test_what_upstream_converts_wrongly_it_does_not_judge() -> None:
    text = """
    func.func @main(%x: tensor<4xi1>) -> tensor<4xi1> {
      %y = stablehlo.add %x, %x : tensor<4xi1>
      return %y : tensor<4xi1>
    }"""
    with pytest.raises(ShardError, match=r"converts such a 'stablehlo\.add' op wrongly"):
        reference_of(text, "upstream")


@needs("jax")
@pytest.mark.parametrize(
    ("start", "judge"),
    [("dense<0.0> : tensor<f32>", "XLA"), ("dense<1.0> : tensor<f32>", "upstream")],
)
def test_what_a_reduction_starts_from_may_not_be_for_xla_to_say(start: str, judge: str) -> None:
    """Of one element it makes that element, and leaves out the start."""
    text = f"""
    func.func @main(%x: tensor<1x4xf32>) -> tensor<4xf32> {{
      %c = stablehlo.constant {start}
      %s = stablehlo.reshape %c : (tensor<f32>) -> tensor<f32>
      %y = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [0]
        : (tensor<1x4xf32>, tensor<f32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }}"""
    assert reference_of(text).judge.startswith(judge)


@pytest.mark.parametrize("by", ["upstream", "self"])
@pytest.mark.parametrize("of", ["arith.sitofp", "arith.uitofp"])
def test_numbers_that_are_no_tensors_are_converted(of: str, by: Judge) -> None:
    text = f"""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %n = arith.constant 3 : i32
      %f = {of} %n : i32 to f32
      %s = tensor.splat %f : tensor<4xf32>
      %e = math.exp %x : tensor<4xf32>
      %y = arith.mulf %e, %s : tensor<4xf32>
      return %y : tensor<4xf32>
    }}"""
    x = np.array([0.0, 1.0, -1.0, 2.0], np.float32)
    np.testing.assert_allclose(reference_of(text, by).run([x])[0], 3 * np.exp(x), rtol=1e-6)


@needs("jax")
def test_constants_of_all_kinds_are_the_same_in_64_bits() -> None:
    text = """
    func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<f32>) {
      %c = stablehlo.constant dense<[0x7F800000, -1.5, 0xFF800000]> : tensor<3xf32>
      %d = stablehlo.constant dense<"0x0000803F0000004000004040"> : tensor<3xf32>
      %m = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = stablehlo.minimum %x, %c : tensor<3xf32>
      %1 = stablehlo.multiply %x, %d : tensor<3xf32>
      %2 = stablehlo.reduce(%x init: %m) applies stablehlo.maximum across dimensions = [0]
        : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
      return %0, %1, %2 : tensor<3xf32>, tensor<3xf32>, tensor<f32>
    }"""
    inputs = [np.array([2, -3, 4], np.float32)]
    expected = [[2, -3, -np.inf], [2, -6, 12], 4]
    true = reference_of(text).run_in_f64(inputs)
    assert true is not None
    for own, other in zip(true, expected, strict=True):
        assert own.dtype == np.float64
        assert own.tolist() == other
