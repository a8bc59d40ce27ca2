"""What an answer rests on, where a program has ops of which nothing is known."""

import warnings

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardWarning
from shard_dialect.proof import prove as proving
from tests.proof.test_prove import partitioned, proof


def judged(text: str, local: str) -> sd.Proof:
    """What evaluations say, without a run."""
    return proving.prove(sd.parse(text), sd.parse(local))


def local_of(text: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        return partitioned(text)


STRANGE = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>}, %y: tensor<4xf32>)
    -> (tensor<4x4xf32>, tensor<4xf32>) {
  %a = stablehlo.custom_call @strange(%x) {api_version = 4 : i32}
    : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = math.tanh %y : tensor<4xf32>
  return %a, %b : tensor<4x4xf32>, tensor<4xf32>
}"""


def test_what_is_wrong_whatever_an_op_computes_is_refuted() -> None:
    local = local_of(STRANGE)
    assert judged(STRANGE, local).answer == "proven"
    found = judged(STRANGE, local.replace("math.tanh", "math.exp"))
    assert found.answer == "refuted"
    assert found.counterexample is not None
    assert found.counterexample.result == 1


def test_of_a_call_that_both_programs_make_the_result_is_one() -> None:
    local = local_of(STRANGE)
    call = next(line for line in local.splitlines() if "custom_call" in line)
    name = call.split("=")[0].strip()
    doubled = f"{call}\n    %twice = arith.addf {name}, {name} : tensor<4x4xf32>"
    twice = local.replace(f"return {name},", "return %twice,").replace(call, doubled)
    found = judged(STRANGE, twice)
    assert found.answer == "refuted", found
    assert found.counterexample is not None
    assert found.counterexample.result == 0


TWO = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = stablehlo.custom_call @strange(%x) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  %b = stablehlo.custom_call @other(%y) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}"""


def test_unknown_names_the_ops_on_which_the_difference_depends() -> None:
    """Not those that both programs call alike."""
    found = judged(TWO, local_of(TWO).replace("@other", "@another"))
    assert found.answer == "unknown"
    assert {op.attributes["call_target_name"] for op in found.boxes} == {"other", "another"}


def test_an_op_that_is_not_known_is_one_function_of_each_element_in_a_body() -> None:
    text = """
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %y = linalg.map ins(%x : tensor<3xf32>) outs(%x : tensor<3xf32>) (%a: f32, %b: f32) {
        %c = arith.flush_denormals %a : f32
        linalg.yield %c : f32
      }
      return %y : tensor<3xf32>
    }"""
    turned = text.replace(
        "return %y", "%z = stablehlo.reverse %y, dims = [0] : tensor<3xf32>\n return %z"
    )
    assert judged(text, text).answer == "proven"
    assert judged(text, turned).answer == "refuted"


FOLDED = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant dense<0.5> : tensor<2xf32>
  %e = math.exp %c : tensor<2xf32>
  %y = arith.addf %x, %e : tensor<2xf32>
  return %y : tensor<2xf32>
}"""


def test_a_function_of_constants_that_is_folded_is_not_refuted() -> None:
    right = FOLDED.replace("math.exp %c", "arith.constant dense<1.6487212707> ")
    found = judged(FOLDED, right)
    assert found.answer == "unknown"
    assert "nothing is known of functions' numbers at constants" in found.reason
    assert proof(FOLDED, right).answer == "unknown"


def test_a_constant_that_is_another_number_is_refuted_by_a_run() -> None:
    wrong = FOLDED.replace("math.exp %c", "arith.constant dense<2.5> ")
    assert proof(FOLDED, wrong).answer == "refuted"


CANCELLED = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %z = arith.OP %x, %x : tensor<4xf32>
  return %z : tensor<4xf32>
}"""


@pytest.mark.parametrize("op", ["subf", "divf"])
def test_numbers_that_cancel_are_not_proven_where_others_do(op: str) -> None:
    """`x - x` is no number where x is none."""
    text = CANCELLED.replace("OP", op)
    assert judged(text, text).answer == "proven"
    turned = text.replace(
        "%z = ", "%r = stablehlo.reverse %x, dims = [0] : tensor<4xf32>\n  %z = "
    ).replace("%x, %x", "%r, %r")
    found = judged(text, turned)
    assert found.answer == "unknown"
    assert "a number minus itself is 0" in found.reason


def test_a_quotient_of_padding_is_refuted() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
        -> (tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
      %y = stablehlo.divide %x, %x : tensor<5xf32>
      return %y : tensor<5xf32>
    }"""
    local = local_of(text)
    assert judged(text, local).answer == "proven"
    late = local.replace("[0] [5] [1] : tensor<6xf32>", "[1] [5] [1] : tensor<6xf32>")
    assert late != local
    found = judged(text, late)
    assert found.answer == "refuted"
    assert "elements that nothing has written" in found.reason


def test_a_collective_that_some_devices_of_a_group_reach_is_refuted() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      return %x : tensor<4xf32>
    }"""
    local = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {mesh.form = "local"} {
      %i = shard.process_linear_index on @g : index
      %zero = arith.constant 0 : index
      %first = arith.cmpi eq, %i, %zero : index
      %y = scf.if %first -> (tensor<4xf32>) {
        %s = shard.all_reduce %x on @g grid_axes = [0] reduction = max
          : tensor<4xf32> -> tensor<4xf32>
        scf.yield %s : tensor<4xf32>
      } else {
        scf.yield %x : tensor<4xf32>
      }
      return %y : tensor<4xf32>
    }"""
    found = judged(text, local)
    assert found.answer == "refuted"
    assert "'shard.all_reduce' op is reached by some devices of a group and not by" in str(found)


def test_what_is_a_constant_in_one_program_only_is_refuted() -> None:
    """Whatever a function gives for padding."""
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
        -> (tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[]]>}) {
      %y = math.exp %x : tensor<5xf32>
      return %y : tensor<5xf32>
    }"""
    local = local_of(text)
    assert judged(text, local).answer == "proven"
    late = local.replace("[0] [5] [1] : tensor<6xf32> to", "[1] [5] [1] : tensor<6xf32> to")
    assert late != local
    assert judged(text, late).answer == "refuted"


@pytest.mark.parametrize("seed", range(5))
def test_a_part_of_the_comparisons_is_not_taken_for_all(seed: int) -> None:
    """Whether any of many is true is mostly decided by a few of them."""
    text = """
    func.func @main(%x: tensor<12xf32>, %y: tensor<1xf32>) -> tensor<1xi1> {
      %c = tosa.greater_equal %x, %y : (tensor<12xf32>, tensor<1xf32>) -> tensor<12xi1>
      %r = tosa.reduce_any %c {axis = 0 : i32} : (tensor<12xi1>) -> tensor<1xi1>
      return %r : tensor<1xi1>
    }"""
    part = text.replace(
        "%r = tosa.reduce_any %c",
        f"""%s = tensor.extract_slice %c[{seed}] [7] [1] : tensor<12xi1> to tensor<7xi1>
      %r = tosa.reduce_any %s""",
    ).replace("(tensor<12xi1>) -> tensor<1xi1>", "(tensor<7xi1>) -> tensor<1xi1>")
    assert judged(text, part).answer == "refuted"


def test_a_difference_of_parts_of_complex_numbers_is_what_a_run_says() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %a = stablehlo.complex %x, %y : tensor<4xcomplex<f32>>
      %b = stablehlo.complex %y, %x : tensor<4xcomplex<f32>>
      %s = stablehlo.add %a, %b : tensor<4xcomplex<f32>>
      %r = stablehlo.real %s : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    same = text.replace("%a, %b", "%b, %a")
    other = text.replace("%a, %b", "%a, %a")
    assert proof(text, partitioned(same)).answer == "proven"
    assert judged(text, partitioned(other)).answer == "unknown"
    assert proof(text, partitioned(other)).answer == "refuted"
