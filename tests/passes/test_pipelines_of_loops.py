"""Pipelines of loops over layers, and of functions that call others, compute the same."""

import re
from collections import Counter
from random import Random
from typing import Any

import pytest

from shard_dialect import communication
from shard_dialect.errors import ShardError, ShardWarning
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing.check_program import reference_of, run_and_check
from tests.extras import needs

H, W, WS = "tensor<8x4xf32>", "tensor<4x4xf32>", "tensor<{layers}x4x4xf32>"

# As JAX writes a scan over stacked weights, with functions that it calls.
SCAN = """
shard.grid @grid(shape = {grid})
func.func public @main(%x: tensor<8x4xf32>, %w: tensor<{layers}x4x4xf32>) -> tensor<8x4xf32> {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%ws = %w, %i = %c, %h = %x) : tensor<{layers}x4x4xf32>, tensor<i32>, tensor<8x4xf32>
  cond {{
    %n = stablehlo.constant dense<{layers}> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %1 = func.call @weights(%ws, %i) : (tensor<{layers}x4x4xf32>, tensor<i32>) -> tensor<4x4xf32>
    %2 = func.call @layer(%h, %1) : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %3 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %ws, %3, %2 : tensor<{layers}x4x4xf32>, tensor<i32>, tensor<8x4xf32>
  }}
  return %0#2 : tensor<8x4xf32>
}}
func.func private @weights(%w: tensor<{layers}x4x4xf32>, %i: tensor<i32>) -> tensor<4x4xf32> {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.dynamic_slice %w, %i, %c, %c, sizes = [1, 4, 4] : (tensor<{layers}x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
  %1 = stablehlo.reshape %0 : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}}
func.func private @layer(%h: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {{
  %0 = stablehlo.dot_general %h, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.tanh %0 : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}}
"""  # noqa: E501
FOR = """
shard.grid @grid(shape = {grid})
func.func @main(%x: tensor<8x4xf32>, %w: tensor<{layers}x4x4xf32>) -> tensor<8x4xf32> {{
  %c0 = arith.constant 0 : index
  %n = arith.constant {layers} : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> (tensor<8x4xf32>) {{
    %1 = tensor.extract_slice %w[%i, 0, 0] [1, 4, 4] [1, 1, 1] : tensor<{layers}x4x4xf32> to tensor<4x4xf32>
    %e = tensor.empty() : tensor<8x4xf32>
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<8x4xf32>) -> tensor<8x4xf32>
    %2 = linalg.matmul ins(%h, %1 : tensor<8x4xf32>, tensor<4x4xf32>) outs(%f : tensor<8x4xf32>) -> tensor<8x4xf32>
    %3 = math.tanh %2 : tensor<8x4xf32>
    scf.yield %3 : tensor<8x4xf32>
  }}
  return %0 : tensor<8x4xf32>
}}
"""  # noqa: E501


def pipeline(text: str, options: str) -> str:
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, f"pipeline{{{options}}}")
        return str(module)


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("text", [SCAN, FOR], ids=["stablehlo.while", "scf.for"])
@pytest.mark.parametrize(
    ("grid", "layers", "options"),
    [
        ("2", 4, "stages=2 microbatches=4"),
        ("2x2", 3, "stages=2 microbatches=2"),
        ("4", 4, "stages=4 microbatches=8 schedule=gpipe"),
    ],
)
@needs("jax")
def test_a_loop_over_layers_is_divided(text: str, grid: str, layers: int, options: str) -> None:
    text = text.format(grid=grid, layers=layers)
    made = pipeline(text, options)
    stages = int(options[len("stages=")])
    most = -(-layers // stages)
    several = sum(min(most, layers - most * stage) > 1 for stage in range(stages))
    inside = several if "stablehlo.while" in text else 0
    # Over ticks, and over the layers of each stage that has several.
    assert len(re.findall(r"stablehlo.while\(|= scf.for ", made)) == 1 + inside
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


@pytest.mark.parametrize("text", [SCAN, FOR], ids=["stablehlo.while", "scf.for"])
def test_each_stage_has_its_trips(text: str) -> None:
    made = pipeline(text.format(grid="4", layers=4), "stages=4 microbatches=2")
    targets = Counter(re.findall(r"collective_permute.*cluster = @stage(\d)", made))
    assert targets == {"1": 1, "2": 1, "3": 1}  # in the loop over ticks
    taken = re.findall(r"mesh.transfer.*cluster = @stage(\d), offsets = \[(\d), 0, 0\]", made)
    assert taken == [(str(stage), str(stage)) for stage in range(4)]


def layers_of(loop: str, w: Any, x: Any) -> Any:
    """What layers of weights `w` make of `x`, in a loop of this kind."""
    import jax
    import jax.numpy as jnp

    def layer(h: jax.Array, w: jax.Array) -> tuple[jax.Array, None]:
        return jnp.tanh(h @ w), None

    if loop == "index":
        return jax.lax.fori_loop(0, len(w), lambda i, h: layer(h, w[i])[0], x)
    if loop == "unrolled":
        for each in range(len(w)):
            x, _ = layer(x, w[each])
        return x
    return jax.lax.scan(jax.checkpoint(layer) if loop == "checkpoint" else layer, x, w)[0]


def training_step(
    optimizer: str, layers: int, grid: str, weights: str = "", loop: str = "scan"
) -> str:
    """A step of `tanh` layers in a loop, as JAX lowers it; the weights are annotated `weights`."""
    import jax
    import jax.numpy as jnp

    def sgd(g: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        return (w - 0.1 * g,)

    def momentum(g: jax.Array, w: jax.Array, m: jax.Array) -> tuple[jax.Array, ...]:
        m = 0.9 * m + g
        return w - 0.1 * m, m

    def adam(g: jax.Array, w: jax.Array, m: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return w - 0.1 * m / (jnp.sqrt(v * v) + 1.0), m, v

    def clipped(g: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        return (w - 0.1 * g / jnp.maximum(jnp.sqrt(jnp.sum(g * g)), 1.0),)

    def gradient(g: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        return (g,)

    update, state = {
        "sgd": (sgd, 0),
        "momentum": (momentum, 1),
        "adam": (adam, 2),
        "clipped": (clipped, 0),
        "gradient": (gradient, 0),
    }[optimizer]

    def step(x: jax.Array, y: jax.Array, w: jax.Array, *state: jax.Array) -> tuple[jax.Array, ...]:
        def loss(w: jax.Array) -> jax.Array:
            return jnp.sum((layers_of(loop, w, x) - y) ** 2)

        value, g = jax.value_and_grad(loss)(w)
        return value, *update(g, w, *state)

    shapes = [(8, 4), (8, 4), *[(layers, 4, 4)] * (1 + state)]
    text = jax.jit(step).lower(*(jax.ShapeDtypeStruct(shape, "float32") for shape in shapes))
    head, rest = text.as_text().split("{\n", 1)
    if weights:
        kind = f"%arg2: tensor<{layers}x4x4xf32>"
        rest = rest.replace(kind, f"{kind} {{mesh.sharding = #mesh.shard<@g, {weights}>}}", 1)
    return f"{head}{{\nshard.grid @g(shape = {grid})\n{rest}"


SENT = 3 * 4 * 4 * 4
"""The bytes of two microbatches through two stages, which send to each other in three ticks."""
OPTIMIZERS = ("sgd", "momentum", "adam", "clipped", "gradient")


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("layers", "grid", "weights", "options"),
    [
        (4, "4", "", "stages=4 microbatches=4"),
        (4, "2x2", "[[], [], [1]]", "stages=2 microbatches=2 schedule=gpipe"),
        (4, "4", "[[], [0], []]", "stages=2 microbatches=2"),  # along the two devices of a stage
        (4, "2", "[[0], [], []]", "stages=2 microbatches=4"),  # as it will be
        (3, "2", "", "stages=2 microbatches=2"),  # the stages do not divide the layers
    ],
)
@needs("jax")
def test_the_backward_pass_of_a_scan_is_divided(
    optimizer: str, layers: int, grid: str, weights: str, options: str
) -> None:
    text = training_step(optimizer, layers, grid, weights)
    made = pipeline(text, f"{options} arguments='0,1'")
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, outcome.verdict
    # What a layer keeps for its backward pass stays on its stage: no stack of it is passed on.
    assert not re.search(r"collective_permute.*-> tensor<\dx\dx4xf32>", made)


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize("loop", ["scan", "index", "unrolled", "checkpoint"])
@needs("jax")
def test_loops_of_all_kinds_move_activations_alone(loop: str) -> None:
    text = training_step("sgd", 4, "2", loop=loop)
    made = pipeline(text, "stages=2 microbatches=2 arguments='0,1'")
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, outcome.verdict
    with make_context():
        module = Source.of(made).parse()
        run_pipeline(module, "spmd")
        assert communication(module).bytes_moved == SENT


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@needs("jax")
def test_stages_have_their_layers_and_their_state(optimizer: str) -> None:
    """No weights, gradients and momenta move, but for the sum that clipping needs."""
    made = pipeline(training_step(optimizer, 4, "2"), "stages=2 microbatches=2 arguments='0,1'")
    with make_context():
        module = Source.of(made).parse()
        run_pipeline(module, "spmd")
        text = str(module)
        report = communication(module)
    signature = next(line for line in text.splitlines() if "func.func" in line)
    stacks = re.findall(r"tensor<(\d)x4x4xf32> {", signature)
    assert set(stacks) == {"2"}, signature
    assert report.bytes_moved == SENT + (4 if optimizer == "clipped" else 0)


def random_loop(draw: Random) -> str:
    """A loop over layers of one to three ops, some of which read the layer's own weights."""
    layers, first, step = draw.randint(2, 5), draw.randrange(3), draw.choice((1, 2))
    ops, now = [], "%h"
    for number in range(draw.randint(1, 3)):
        kind = draw.choice(("dot", "scale", "tanh", "count"))
        made = f"%r{number}"
        if kind == "dot":
            ops.append(
                f"{made} = stablehlo.dot_general {now}, %m, contracting_dims = [1] x [0] "
                f": ({H}, {W}) -> {H}"
            )
        elif kind == "scale":
            ops.append(f"{made} = stablehlo.multiply {now}, %x : {H}")
        elif kind == "tanh":
            ops.append(f"{made} = stablehlo.tanh {now} : {H}")
        else:
            ops += [
                f"%f{number} = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>",
                f"%b{number} = stablehlo.broadcast_in_dim %f{number}, dims = [] : (tensor<f32>) -> {H}",  # noqa: E501
                f"{made} = stablehlo.add {now}, %b{number} : {H}",
            ]
        now = made
    all_weights = WS.format(layers=layers)
    body = "\n    ".join(ops)
    reverse = draw.random() < 0.5
    at = "%back" if reverse else "%i"
    return f"""
shard.grid @grid(shape = {draw.choice(("2", "4", "2x2"))})
func.func @main(%x: {H}, %w: {all_weights}) -> {H} {{
  %c = stablehlo.constant dense<{first}> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<i32>
  %last = stablehlo.constant dense<{layers - 1}> : tensor<i32>
  %0:2 = stablehlo.while(%i = %c, %h = %x) : tensor<i32>, {H}
  cond {{
    %n = stablehlo.constant dense<{first + step * layers - draw.randrange(step)}> : tensor<i32>
    %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }} do {{
    %back = stablehlo.subtract %last, %i : tensor<i32>
    %s = stablehlo.dynamic_slice %w, {at}, %z, %z, sizes = [1, 4, 4] : ({all_weights}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %m = stablehlo.reshape %s : (tensor<1x4x4xf32>) -> {W}
    {body}
    %by = stablehlo.constant dense<{step}> : tensor<i32>
    %next = stablehlo.add %i, %by : tensor<i32>
    stablehlo.return %next, {now} : tensor<i32>, {H}
  }}
  return %0#1 : {H}
}}
"""  # noqa: E501


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")  # of idle stages
@pytest.mark.parametrize("seed", range(24))
@needs("jax")
def test_random_loops_compute_the_same(seed: int) -> None:
    text = random_loop(Random(seed))
    made = pipeline(text, f"stages=2 microbatches={(2, 4, 8)[seed % 3]}")
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{text}\n{made}"


def test_a_loop_of_too_many_trips_is_refused() -> None:
    text = FOR.format(grid="2", layers=2000)
    with pytest.raises(ShardError, match=r"runs 2000 times: at most 1024 trips"):
        pipeline(text, "stages=2 microbatches=2")


def test_two_functions_for_others_are_refused() -> None:
    text = FOR.format(grid="2", layers=2) + "func.func @other() {\n  return\n}"
    with pytest.raises(ShardError, match="the module has 2 that others may call"):
        pipeline(text, "")


def test_what_has_no_place_is_refused_at_what_holds_it() -> None:
    text = """
shard.grid @grid(shape = 2)
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.custom_call @other(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32> loc(unknown)
  return %0 : tensor<8x4xf32>
}"""
    with pytest.raises(ShardError, match="its batch cannot be split") as raised:
        pipeline(text, "stages=2 microbatches=2")
    assert str(raised.value).startswith("-:3:1: error: ")


def test_a_stage_without_work_is_told() -> None:
    text = """
shard.grid @grid(shape = 4)
func.func @main(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}"""
    with pytest.warns(ShardWarning, match="4 stages are more than .* has nothing to do"):
        pipeline(text, "stages=4 microbatches=2")


def test_what_is_said_of_one_layer_stays() -> None:
    text = """
shard.grid @g(shape = 2x2)
func.func @main(%x: tensor<8x4xf32>, %w: tensor<2x4x4xf32>) -> tensor<8x4xf32> {
  %a = stablehlo.slice %w [0:1, 0:4, 0:4] : (tensor<2x4x4xf32>) -> tensor<1x4x4xf32>
  %s = shard.sharding @g split_axes = [[], [], [1]]
  %aa = shard.shard %a to %s : tensor<1x4x4xf32>
  %b = stablehlo.slice %w [1:2, 0:4, 0:4] : (tensor<2x4x4xf32>) -> tensor<1x4x4xf32>
  %ar = stablehlo.reshape %aa : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
  %br = stablehlo.reshape %b : (tensor<1x4x4xf32>) -> tensor<4x4xf32>
  %0 = stablehlo.dot_general %x, %ar, contracting_dims = [1] x [0]
         : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.dot_general %0, %br, contracting_dims = [1] x [0]
         : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}"""
    made = pipeline(text, "stages=2 microbatches=2")
    first = re.search(r"(%\d+) = .mesh.transfer.*cluster = @stage0", made)
    assert first is not None
    said = f'"mesh.annotate"({first[1]}) {{as_result = true, required = true, sharding'
    assert f"{said} = #mesh.shard<@stage0, [[], [], [1]]>}}" in made
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed


def test_what_is_made_once_may_be_read_often() -> None:
    """There are 2^60 ways from the scale to the constant: each value is followed once."""
    ops = (f"  %k{at + 1} = stablehlo.multiply %k{at}, %k{at} : {W}" for at in range(60))
    doubled = "\n".join(ops)
    text = f"""
shard.grid @grid(shape = 2)
func.func @main(%x: {H}, %w: {W}, %v: {W}) -> ({H}, {W}) {{
  %k0 = stablehlo.constant dense<1.0> : {W}
{doubled}
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({H}, {W}) -> {H}
  %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : ({H}, {W}) -> {H}
  %g = stablehlo.dot_general %0, %1, contracting_dims = [0] x [0] : ({H}, {H}) -> {W}
  %2 = stablehlo.multiply %g, %k60 : {W}
  return %1, %2 : {H}, {W}
}}"""
    made = pipeline(text, "stages=2 microbatches=2")
    assert "cluster = @stage1" in made


STACK, ROW = "tensor<4x8x4xf32>", "tensor<1x8x4xf32>"
UPDATING = f"""
shard.grid @grid(shape = {{grid}})
func.func public @main(%x: {H}, %w: tensor<4x4x4xf32>) -> {H} {{{{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %n = stablehlo.constant dense<4> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %ones = stablehlo.constant dense<1.0> : {STACK}
  %0:3 = stablehlo.while(%i = %c, %h = %x, %s = %ones) : tensor<i32>, {H}, {STACK}
  cond {{{{
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }}}} do {{{{
    %row = stablehlo.reshape %h : ({H}) -> {ROW}
    %kept = stablehlo.dynamic_update_slice %s, %row, %i, %c, %c
           : ({STACK}, {ROW}, tensor<i32>, tensor<i32>, tensor<i32>) -> {STACK}
    {{body}}
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %made, %kept : tensor<i32>, {H}, {STACK}
  }}}}
  return %0#1 : {H}
}}}}"""
UPDATED = f"""
    %updated = stablehlo.dynamic_update_slice {{stack}}, %row, %i, %c, %c
           : ({STACK}, {ROW}, tensor<i32>, tensor<i32>, tensor<i32>) -> {STACK}
    %sum = stablehlo.reduce(%updated init: %zero) applies stablehlo.add across dimensions = [0]
           : ({STACK}, tensor<f32>) -> {H}"""
PRODUCT = f"""
    %1 = stablehlo.dynamic_slice %w, %i, %c, %c, sizes = [1, 4, 4]
           : (tensor<4x4x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x4xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x4x4xf32>) -> {W}
    %made = stablehlo.dot_general %sum, %2, contracting_dims = [1] x [0] : ({H}, {W}) -> {H}"""
IN_A_BRANCH = f"""
    %first = stablehlo.compare LT, %i, %two, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %sum = "stablehlo.if"(%first) ({{{{
{UPDATED.format(stack="%kept").replace("%sum", "%all")}
      stablehlo.return %all : {H}
    }}}}, {{{{
      stablehlo.return %h : {H}
    }}}}) : (tensor<i1>) -> {H}"""


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.parametrize(
    "body",
    [UPDATED.format(stack="%ones") + PRODUCT, IN_A_BRANCH.format() + PRODUCT],
    ids=["a tensor from outside", "a carried one, in a branch"],
)
@needs("jax")
def test_stacks_that_are_read_as_a_whole_once_updated_stay_whole(body: str) -> None:
    text = UPDATING.format(grid="2", body=body)
    made = pipeline(text, "stages=2 microbatches=2")
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"


def test_a_loop_without_products_may_be_all_of_one_stage() -> None:
    text = UPDATING.format(grid="1", body=f"%made = stablehlo.tanh %h : {H}")
    assert "stablehlo.while" in pipeline(text, "stages=1 microbatches=2")


@pytest.mark.usefixtures("unoptimized")
@pytest.mark.filterwarnings("ignore::shard_dialect.errors.ShardWarning")  # of idle stages
@pytest.mark.parametrize("trips", [(4, 0), (0, 4)])
@needs("jax")
def test_a_loop_of_no_trips_has_no_parts(trips: tuple[int, int]) -> None:
    """The loops read rows of one stack, so the second one is divided where the first one is."""

    def loop(result: str, init: str, count: int) -> str:
        return f"""
  {result}:2 = stablehlo.while(%i = %c, %h = {init}) : tensor<i32>, {H}
  cond {{
    %n = stablehlo.constant dense<{count}> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %sum = stablehlo.tanh %h : {H}
    {PRODUCT}
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %next, %made : tensor<i32>, {H}
  }}"""

    text = f"""
shard.grid @grid(shape = 2)
func.func public @main(%x: {H}, %w: tensor<4x4x4xf32>) -> {H} {{
  %c = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  {loop("%first", "%x", trips[0])}
  {loop("%second", "%first#1", trips[1])}
  return %second#1 : {H}
}}"""
    made = pipeline(text, "stages=2 microbatches=2")
    outcome = run_and_check(made, "spmd,lower", reference=reference_of(text))
    assert outcome.verdict.passed, f"{outcome.verdict}\n{made}"
