"""What the prover accepts, refutes, and does not know."""

import warnings
from importlib import import_module
from pathlib import Path
from random import Random

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect import opt
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.proof.field import PRIME_GAPS, Field
from shard_dialect.testing.random_program import any_program
from tests.slow import seed_of
from tests.test_empty_tensors import PROGRAMS
from tests.testing.faults import faults_in

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGATRON = (EXAMPLES / "megatron.mlir").read_text()


def proof(text: str, local: "str | None" = None) -> "sd.Proof":
    """The proof of what `--spmd` makes of a program, or of a local program that is given."""
    unsharded, module = sd.parse(text), sd.parse(local or text)
    if local is None:
        sd.run_pipeline(module, "spmd")
    return sd.prove(unsharded, module)


def partitioned(text: str) -> str:
    module = sd.parse(text)
    sd.run_pipeline(module, "spmd")
    return sd.to_text(module)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.mlir")), ids=lambda path: path.stem)
def test_examples_are_proven(path: Path) -> None:
    found = proof(path.read_text())
    assert found.answer == "proven", found


@pytest.mark.parametrize("seed", range(40))
def test_no_right_program_is_refuted(seed: int, request: pytest.FixtureRequest) -> None:
    program = any_program(Random(1000 * seed_of(request.config) + seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        try:
            local = partitioned(program.text)
        except ShardError:
            return
    assert proof(program.unsharded or program.text, local).answer != "refuted"


@pytest.mark.parametrize("number", range(20))
def test_no_program_with_a_fault_is_proven(number: int) -> None:
    module = sd.parse(MEGATRON)
    sd.run_pipeline(module, "spmd")
    with module.context:
        found = faults_in(module.operation)
        if number >= len(found):
            return
        found[number].make()
    refuted = sd.prove(sd.parse(MEGATRON), module)
    assert refuted.answer == "refuted", found[number].kind
    assert refuted.counterexample is not None


LOCAL = partitioned(MEGATRON)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("grid_axes = [1] : tensor<4x16xf32>", "grid_axes = [0] : tensor<4x16xf32>"),
        ("math.tanh %2", "math.exp %2"),
        ("arith.constant 0.000000e+00", "arith.constant 2.500000e-01"),
        ("[[1], []]>>}", "[[0], []]>>}"),
    ],
)
def test_a_changed_text_is_refuted(right: str, wrong: str) -> None:
    assert right in LOCAL
    assert proof(MEGATRON, LOCAL.replace(right, wrong)).answer == "refuted"


def test_a_difference_below_rounding_is_not_proven() -> None:
    tiny = LOCAL.replace("arith.constant 0.000000e+00", "arith.constant 1.000000e-30")
    assert proof(MEGATRON, tiny).answer == "unknown"


def test_a_reduction_that_is_left_out_is_refuted() -> None:
    lines = [line for line in LOCAL.splitlines() if "all_reduce %" not in line]
    text = "\n".join(lines).replace("return %all_reduce", "return %6")
    found = proof(MEGATRON, text)
    assert str(found).startswith("refuted: result 0: the device at [0, 0] has another number at")
    # The device at [0, 0] has the first 16 of 32 terms: the other half of %w2.
    assert "unsharded program: it should depend on %" in str(found)


def test_padding_that_is_read_is_refuted() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}) -> tensor<f32> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<5xf32>, tensor<f32>) -> tensor<f32>
      return %sum : tensor<f32>
    }"""
    assert proof(text).answer == "proven"
    local = partitioned(text)
    unmasked = local.replace("arith.cmpi slt", "arith.cmpi sle")
    assert unmasked != local
    assert proof(text, unmasked).answer == "refuted"


def test_what_is_not_understood_is_unknown_only_where_it_is_split() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4x4xf32> {mesh.sharding = #mesh.shard<@g, [[], [0]]>})
        -> tensor<4x4xf32> {
      %y = stablehlo.custom_call @strange(%x) {api_version = 4 : i32}
        : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %y : tensor<4x4xf32>
    }"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShardWarning)
        local = partitioned(text)
    assert proof(text, local).answer == "proven"
    cut = local.replace("@strange", "@other")
    found = proof(text, cut)
    assert found.answer == "unknown"
    assert "nothing is known of what these ops compute: 'stablehlo.custom_call' at" in found.reason


def test_a_lowered_program_is_an_error() -> None:
    lowered = sd.parse(MEGATRON)
    sd.run_pipeline(lowered, "spmd,lower")
    with pytest.raises(ShardError, match="nothing is proven of it; expected the local form"):
        sd.prove(sd.parse(MEGATRON), lowered)


@pytest.mark.parametrize("pipeline", ["propagate", "propagate,materialize"])
def test_forms_of_global_tensors_are_judged(pipeline: str) -> None:
    module = sd.parse(MEGATRON)
    sd.run_pipeline(module, pipeline)
    assert sd.prove(sd.parse(MEGATRON), module).answer == "proven"
    wrong = sd.parse(MEGATRON.replace("math.tanh", "math.exp"))
    sd.run_pipeline(wrong, pipeline)
    assert str(sd.prove(sd.parse(MEGATRON), wrong)).startswith("refuted: result 0: the program has")


EXPONENTIALS = """
shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  BODY
}"""
OF_SUM = """%s = arith.addf %x, %y : tensor<4xf32>
  %e = math.exp %s : tensor<4xf32>
  return %e : tensor<4xf32>"""
PRODUCT = """%a = math.exp %x : tensor<4xf32>
  %b = math.exp %y : tensor<4xf32>
  %e = arith.mulf %a, %b : tensor<4xf32>
  return %e : tensor<4xf32>"""


SMALL = "func.func @main(%x: tensor<{0}>) -> tensor<{0}> {{ return %x : tensor<{0}> }}"


@pytest.mark.parametrize(
    ("unsharded", "local", "message"),
    [
        (
            SMALL.format("4xf32"),
            SMALL.format("2xf32"),
            "1:1: error: argument 0 of @main is a tensor<2xf32>, and that of the unsharded program "
            "a tensor<4xf32>: nothing is compared",
        ),
        (SMALL.format("4xf32"), SMALL.format("4xi32"), "argument 0 of @main is a tensor<4xi32>"),
        (
            MEGATRON,
            SMALL.format("4xf32"),
            "@main has 1 arguments, and the unsharded program 3: nothing is compared",
        ),
        (LOCAL, LOCAL, "@main is in the local form, which no longer has the unsharded program"),
    ],
)
def test_what_does_not_fit_is_an_error_with_its_place(
    unsharded: str, local: str, message: str
) -> None:
    with pytest.raises(ShardError) as caught:
        proof(unsharded, local)
    assert message in str(caught.value)
    assert caught.value.location is not None


def test_open_sizes_are_unknown() -> None:
    text = SMALL.format("?x4xf32")
    assert str(proof(text, text)) == (
        "unknown: an argument of type tensor<?x4xf32> has sizes that only a run knows: nothing is "
        "proven of it; `--specialize` gives them"
    )


def test_places_are_those_of_each_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = stablehlo.custom_call @strange(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
      return %y : tensor<4x4xf32>
    }"""
    for name, call in (("one", "strange"), ("two", "other")):
        (tmp_path / name).write_text(text.replace("strange", call))
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    assert opt.main([two, f"--prove={one}", "-o", "/dev/null"]) == 0
    assert f"at {one}:3:12, 'stablehlo.custom_call' at {two}:3:12" in capfd.readouterr().err
    modules = [sd.parse(Path(each)) for each in (one, two)]
    assert f"at {one}:3:12, 'stablehlo.custom_call' at {two}:3:12" in str(sd.prove(*modules))


def test_the_input_is_read_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.mlir"
    file.write_text(
        """shard.grid @g(shape = 2)
        func.func @main(%x: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"}) -> tensor<4xf32> {
          return %x : tensor<4xf32>
        }"""
    )
    assert opt.main([str(file), "--spmd", "--prove", "--prove-each", "-o", "/dev/null"]) == 0
    assert capfd.readouterr().err.count("'mhlo.sharding' is not read") == 1


WINDOWS_OF_NOTHING = """func.func @main(%x: tensor<0x4xf32>, %y: tensor<0x2xf32>)
    -> tensor<0x4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %y, %zero) <{window_dimensions = array<i64: 1, 2>,
      window_strides = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<0x4xf32>, tensor<0x2xf32>, tensor<f32>) -> tensor<0x4xf32>
  return %r : tensor<0x4xf32>
}"""
EMPTY = {**{name: text for name, (text, _) in PROGRAMS.items()}, "windows": WINDOWS_OF_NOTHING}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_tensors_without_elements_are_proven(text: str) -> None:
    assert proof(text).answer == "proven"


def test_numbers_that_are_none_and_strings_of_any_bytes_are_read() -> None:
    text = """func.func @main() -> (tensor<2xcomplex<f32>>, tensor<f32>) {
      %x = stablehlo.constant dense<[(0x7FC00000,0x7FC00000), (1.0,0xFF800000)]>
        : tensor<2xcomplex<f32>>
      %y = stablehlo.custom_call @strange() {backend_config = "\\FF\\FE"} : () -> tensor<f32>
      return %x, %y : tensor<2xcomplex<f32>>, tensor<f32>
    }"""
    assert proof(text, text).answer == "proven"


def test_bodies_read_values_of_outside() -> None:
    """A comparison of a sort whose constant has been moved out, as common subexpressions are."""
    text = """shard.grid @g(shape = 2)
    func.func @main(%x: tensor<4x6xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>})
        -> tensor<4x6xf32> {
      CONSTANT
      %s = "stablehlo.sort"(%x) <{dimension = 1 : i64}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        CONSTANT
        %c = stablehlo.multiply %a, %z : tensor<f32>
        %d = stablehlo.multiply %b, %z : tensor<f32>
        %e = stablehlo.compare LT, %c, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %e : tensor<i1>
      }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
      return %s : tensor<4x6xf32>
    }"""
    constant = "%z = stablehlo.constant dense<-1.0> : tensor<f32>"
    inside, outside = (text.split("CONSTANT") for _ in range(2))
    unsharded = inside[0] + inside[1] + constant + inside[2]
    moved = outside[0] + constant + outside[1] + outside[2]
    assert proof(unsharded).answer == "proven"
    assert proof(unsharded, partitioned(moved)).answer == "proven"
    other = partitioned(moved.replace("-1.0", "1.0"))
    assert proof(unsharded, other).answer == "refuted"


def test_parts_are_alike_along_the_other_axes() -> None:
    """An argument that is a partial sum along one axis is the same on devices along the other."""
    text = """shard.grid @g(shape = 2x3)
    func.func @main(%x: tensor<4xf32> {mesh.argument = tensor<4xf32, ARGUMENT>})
        -> (tensor<4xf32> {mesh.result = tensor<4xf32, #mesh.shard<@g, [[]]>>})
        attributes {mesh.form = "local"} {
      %y = shard.all_reduce %x on @g grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
      return %y : tensor<4xf32>
    }"""
    for axis, answer in ((1, "proven"), (0, "refuted")):
        local = text.replace("ARGUMENT", f"#mesh.shard<@g, [[], [{axis}]]>")
        assert proof(SMALL.format("4xf32"), local).answer == answer


def test_the_program_ends_with_a_status_for_each_answer(tmp_path: Path) -> None:
    main = import_module("shard_dialect.prove").main
    one, two, wrong, none = (str(tmp_path / name) for name in ("one", "two", "wrong", "none"))
    Path(one).write_text(EXPONENTIALS.replace("BODY", OF_SUM))
    Path(two).write_text(EXPONENTIALS.replace("BODY", PRODUCT))
    Path(wrong).write_text(EXPONENTIALS.replace("BODY", OF_SUM.replace("exp", "tanh")))
    assert main([one, one]) == 0
    assert main([one, wrong]) == 1
    assert main([one, none]) == 1
    assert main([one, two]) == 2


def test_a_law_that_the_prover_does_not_know_is_no_refutation() -> None:
    one, other = (EXPONENTIALS.replace("BODY", body) for body in (OF_SUM, PRODUCT))
    found = proof(one, partitioned(other))
    assert found.answer == "unknown"
    assert "on random inputs the numbers agree" in found.reason


def test_a_refutation_is_confirmed_by_a_run() -> None:
    one = EXPONENTIALS.replace("BODY", OF_SUM)
    other = EXPONENTIALS.replace("BODY", PRODUCT.replace("mulf", "addf"))
    assert "a run on random inputs confirms it" in proof(one, partitioned(other)).reason


def test_the_laws_of_the_field() -> None:
    field = Field(PRIME_GAPS[0], 1)
    a, b, c = (field.random(np.random.default_rng(seed), (100,)) for seed in range(3))
    for law in (field.add, field.mul, field.max, field.min):
        np.testing.assert_array_equal(law(a, law(b, c)), law(law(c, a), b))
    np.testing.assert_array_equal(
        field.mul(a, field.add(b, c)), field.add(field.mul(a, b), field.mul(a, c))
    )
    np.testing.assert_array_equal(field.mul(field.div(a, b), b), a)
    least = field.of_floats(np.array(-np.inf), 3e38)
    np.testing.assert_array_equal(field.max(a, least), a)
    np.testing.assert_array_equal(field.min(a, field.neg(least)), a)
    assert np.all(field.max(a, a) != a), "an element that is counted twice shows"


@pytest.mark.parametrize("gap", PRIME_GAPS)
def test_products_of_matrices_are_exact(gap: int) -> None:
    field = Field(gap, 0)
    generator = np.random.default_rng(0)
    a, b = field.random(generator, (3, 40, 700)), field.random(generator, (700, 6))
    exact = (a.astype(object) @ b.astype(object)) % field.prime
    np.testing.assert_array_equal(field.matmul(a, b), exact.astype(np.uint64))


def test_floats_are_the_fractions_that_they_are() -> None:
    field = Field(PRIME_GAPS[0], 0)
    numbers = field.of_floats(np.array([0.1, 10.0, 2.0**-40, 2.0**40, -3.5, 0.0]), 3e38)
    tenth = int(0.1 * 2**56) * pow(2**56, -1, field.prime) % field.prime
    assert numbers[0] == tenth
    assert field.mul(numbers[2], numbers[3]) == 1
    assert field.add(numbers[4], numbers[4]) == field.prime - 7
    assert numbers[5] == 0


BAD_PASS = """
import shard_dialect as sd
from shard_dialect.ir.walk import walk

class DropReductions(sd.Pass):
    name = "drop-reductions"
    description = "Is wrong: partial sums are taken for sums."

    def rewrite(self, module):
        for op in walk(module):
            if op.name == "shard.all_reduce":
                op.results[0].replace_all_uses_with(op.operands[0])

sd.register_pass(DropReductions)
"""


def test_the_first_wrong_pass_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plugin = tmp_path / "bad.py"
    plugin.write_text(BAD_PASS)
    flags = ["--spmd", "--lower", "--prove-each", "-o", str(tmp_path / "out.mlir")]
    example = str(EXAMPLES / "megatron.mlir")
    assert opt.main([example, *flags]) == 0
    wrong = [f"--load-plugin={plugin}", "--insert-after=partition=drop-reductions"]
    assert opt.main([example, *wrong, *flags]) == 1
    assert "first after the pass 'drop-reductions'" in capfd.readouterr().err


def test_prove_compares_with_the_input_or_with_a_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    local = tmp_path / "local.mlir"
    example = str(EXAMPLES / "megatron.mlir")
    assert opt.main([example, "--spmd", "--prove", "-o", str(local)]) == 0
    assert "note: proven: every device computes the unsharded program" in capfd.readouterr().err
    assert opt.main([str(local), f"--prove={example}", "-o", str(tmp_path / "again.mlir")]) == 0
    local.write_text(local.read_text().replace("grid_axes = [1]", "grid_axes = [0]"))
    assert opt.main([str(local), f"--prove={example}", "-o", str(tmp_path / "never.mlir")]) == 1
    assert "error: refuted: result 0: the device at [0, 0]" in capfd.readouterr().err
    assert not (tmp_path / "never.mlir").exists()


def test_infinities_are_at_the_ends_of_the_order() -> None:
    for seed in range(20):
        field = Field(PRIME_GAPS[0], seed)
        numbers = field.of_floats(np.array([-np.inf, -0.5, 0.0, 0.5, np.inf]), 3e38)
        ranks = field.ranks(np.concatenate([numbers, field.random(np.random.default_rng(0), (9,))]))
        assert ranks.argmin() == 0
        assert ranks.argmax() == 4
        integers = field.ranks(field.of_integers(np.arange(-3, 4)))
        assert integers.tolist() == sorted(integers.tolist())


def test_a_reduction_that_skips_padding_is_proven() -> None:
    text = """
    shard.grid @g(shape = 4)
    func.func @main(%x: tensor<5xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}, %y: tensor<f32>)
        -> tensor<f32> {
      %m = linalg.reduce {arith.minimumf} ins(%x : tensor<5xf32>) outs(%y : tensor<f32>)
        dimensions = [0]
      return %m : tensor<f32>
    }"""
    assert proof(text).answer == "proven"


def test_a_refutation_names_an_element_that_tells_the_programs_apart() -> None:
    text = """
    shard.grid @g(shape = 2)
    func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %r = stablehlo.multiply %x, %y : tensor<8xf32>
      return %r : tensor<8xf32>
    }"""
    local = partitioned(text)
    turn = "%t = stablehlo.reverse %arg1, dims = [0] : tensor<8xf32>\n %0 = "
    turned = local.replace("%0 = ", turn).replace("%arg0, %arg1 :", "%arg0, %t :")
    assert turned != local
    assert "it should depend on %y at [0], and does not; 8 of 8" in str(proof(text, turned))


def test_winograd_outputs_are_added_to_what_is_there() -> None:
    text = """
    func.func @main(%x: tensor<6x6x1x1x2x3xf32>, %y: tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32> {
      %r = linalg.winograd_output_transform fmr(F_4_3) ins(%x : tensor<6x6x1x1x2x3xf32>)
        outs(%y : tensor<2x4x4x3xf32>) -> tensor<2x4x4x3xf32>
      return %r : tensor<2x4x4x3xf32>
    }"""
    other = text.replace(
        "%r = ", "%z = arith.addf %y, %y : tensor<2x4x4x3xf32>\n      %r = "
    ).replace("outs(%y", "outs(%z")
    assert proof(text, other).answer == "refuted"
