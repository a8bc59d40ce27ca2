"""Permutations that are joined with the collectives after them leave the results as they were."""

from random import Random

import numpy as np
import pytest

import shard_dialect as sd
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.walk import walk
from tests.slow import seed_of

NAME = "mesh.collective_permute"
LOCAL = "tensor<6x6xf32>"
AXES = {"[0]": 2, "[1]": 3, "[0, 1]": 6, "[1, 0]": 6}


def permute(random: Random, value: str, name: str) -> list[str]:
    """Among devices along some axes, mostly of all of them."""
    axes = random.choice(list(AXES))
    to = random.sample(range(AXES[axes]), AXES[axes])
    if random.random() < 0.2:
        to[random.randrange(len(to))] = -1
    return [
        f'{name} = "{NAME}"({value}) {{cluster = @g, mesh_axis = {axes}, permutation = {to}}} '
        f": ({LOCAL}) -> {LOCAL}"
    ]


def compute(random: Random, value: str, name: str) -> list[str]:
    """An op of a shard, whose other operand is a constant, a device's own, or an argument."""
    other = random.choice(["constant", "own", "argument", None, None])
    if other is None:
        return [
            random.choice(
                (
                    f"{name} = stablehlo.reverse {value}, dims = [1] : {LOCAL}",
                    f"{name} = stablehlo.cosine {value} : {LOCAL}",
                    f"{name} = stablehlo.transpose {value}, dims = [1, 0] : ({LOCAL}) -> {LOCAL}",
                )
            )
        ]
    if other == "argument":
        return [f"{name} = stablehlo.add {value}, %y : {LOCAL}"]
    if other == "constant":
        lines = [f"{name}_c = stablehlo.constant dense<2.0> : {LOCAL}"]
    else:
        axes = random.choice(list(AXES))
        count = AXES[axes]
        lines = [
            f"{name}_t = stablehlo.constant dense<{[float(i) for i in range(count)]}> "
            f": tensor<{count}xf32>",
            f"{name}_o = shard.all_slice {name}_t on @g grid_axes = {axes} slice_axis = 0 "
            f": tensor<{count}xf32> -> tensor<1xf32>",
            f"{name}_c = stablehlo.broadcast_in_dim {name}_o, dims = [{random.randint(0, 1)}] "
            f": (tensor<1xf32>) -> {LOCAL}",
        ]
    return [*lines, f"{name} = stablehlo.multiply {value}, {name}_c : {LOCAL}"]


def collect(random: Random, value: str, name: str) -> list[str]:
    """A collective, and a slice, of the size of a shard."""
    axes = random.choice(list(AXES))
    count, dim = AXES[axes], random.randint(0, 1)
    shape = [6, 6]
    kind = random.choice(["all_gather", "all_to_all", "all_reduce", "reduce_scatter"])
    if kind == "all_reduce":
        return [f"{name} = shard.all_reduce {value} on @g grid_axes = {axes} : {LOCAL} -> {LOCAL}"]
    if kind == "all_gather":
        shape[dim] *= count
        along = f"gather_axis = {dim}"
    elif kind == "reduce_scatter":
        shape[dim] //= count
        along = f"scatter_axis = {dim}"
    else:
        shape[dim] //= count
        shape[1 - dim] *= count
        along = f"split_axis = {dim} concat_axis = {1 - dim}"
    type_ = f"tensor<{shape[0]}x{shape[1]}xf32>"
    return [
        f"{name}_w = shard.{kind} {value} on @g grid_axes = {axes} {along} : {LOCAL} -> {type_}",
        f"{name}_z = stablehlo.constant dense<1.0> : tensor<f32>",
        f"{name} = stablehlo.pad {name}_w, {name}_z, low = [{6 - shape[0]}, 0], "
        f"high = [0, {6 - shape[1]}], interior = [0, 0] : ({type_}, tensor<f32>) -> {LOCAL}",
    ]


def program(random: Random) -> str:
    """Permutations of shards on 2x3 devices, what is computed of them, and collectives."""
    lines, value, made = [], "%x", ["%x"]
    for number in range(random.randint(3, 8)):
        name = f"%v{number}"
        lines += random.choice((permute, compute, compute, collect))(random, value, name)
        made.append(name)
        value = name if random.random() < 0.95 else random.choice(made)
    whole = "tensor<36x6xf32, #mesh.shard<@g, [[0, 1], []]>>"
    lines.append(f"return {value} : {LOCAL}")
    argument = f"{LOCAL} {{mesh.argument = {whole}}}"
    return (
        "shard.grid @g(shape = 2x3)\n"
        f"func.func @main(%x: {argument}, %y: {argument}) -> ({LOCAL} {{mesh.result = {whole}}})\n"
        'attributes {mesh.form = "local"} {\n' + "\n".join(lines) + "\n}\n"
    )


def permutations(module: ir.Module) -> int:
    return sum(op.name == NAME for op in walk(module.operation))


@pytest.mark.parametrize("number", range(30))
def test_results_are_the_same(number: int, request: pytest.FixtureRequest) -> None:
    random = Random(1000 * seed_of(request.config) + number)
    text = program(random)
    before, after = sd.parse(text), sd.parse(text)
    sd.run_pipeline(after, "bundle-collectives")
    assert permutations(after) <= permutations(before)
    inputs = [
        np.random.default_rng(number).normal(size=(36, 6)).astype("f")
        for _ in sd.compile(before).program.arguments
    ]
    found, expected = (sd.compile(each)(*inputs) for each in (after, before))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=text)


def test_what_was_joined_before_may_be_joined_again() -> None:
    """The permutation that the first and the last become has been looked at before the second."""

    def along(axis: int, to: list[int]) -> str:
        attributes = f"{{cluster = @g, mesh_axis = [{axis}], permutation = {to}}}"
        return f"{attributes} : ({LOCAL}) -> {LOCAL}"

    module = sd.parse(
        f"""
shard.grid @g(shape = 2x3)
func.func @main() -> ({LOCAL} {{mesh.result = {LOCAL}}}) attributes {{mesh.form = "local"}} {{
  %c = stablehlo.constant dense<2.0> : {LOCAL}
  %1 = "{NAME}"(%c) {along(0, [1, 0])}
  %2 = "{NAME}"(%c) {along(1, [1, 2, 0])}
  %3 = stablehlo.add %1, %2 : {LOCAL}
  %4 = "{NAME}"(%3) {along(0, [1, 0])}
  return %4 : {LOCAL}
}}"""
    )
    sd.run_pipeline(module, "bundle-collectives")
    assert permutations(module) == 1


def test_many_are_joined() -> None:
    """Of drawn programs with permutations a third has fewer of them afterwards."""
    fewer = had = 0
    for number in range(150):
        module = sd.parse(program(Random(number)))
        count = permutations(module)
        sd.run_pipeline(module, "bundle-collectives")
        had += count > 0
        fewer += permutations(module) < count
    assert fewer * 3 > had > 50, (fewer, had)


REVERSED = """
sdy.mesh @m = <["x"=4]>
func.func @main(%x: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@m, [FROM]>})
    -> (tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@m, [TO]>}) {
  %0 = stablehlo.reverse %x, dims = [0] : tensor<16x8xf32>
  %1 = stablehlo.tanh %0 : tensor<16x8xf32>
  return %1 : tensor<16x8xf32>
}
"""


@pytest.mark.parametrize("to", ["{}, {}", '{}, {"x"}'])
def test_a_reversal_costs_nothing_before_a_reshard(to: str) -> None:
    text = REVERSED.replace("FROM", '{"x"}, {}').replace("TO", to)
    plain = text.replace("stablehlo.reverse %x, dims = [0]", "stablehlo.negate %x")
    moved = []
    for each in (text, plain):
        module = sd.parse(each)
        sd.run_pipeline(module, "spmd")
        moved.append(sd.communication(module).bytes_moved)
    assert moved[0] == moved[1]
