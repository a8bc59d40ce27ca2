"""Reading the local form: calls, loops and how often they run, collectives, boundaries."""

import pytest

import shard_dialect as sd
from shard_dialect.collectives import AllGather, ReduceScatter
from tests.analysis.local_programs import EXAMPLES, local


def test_collectives_and_types() -> None:
    program = local(EXAMPLES / "mlp_1d.mlir")
    steps = [op for op, _, _ in program.walk() if op.step]
    assert [type(op.step) for op in steps] == [AllGather, ReduceScatter]
    assert [str(op.operands[0].tensor) for op in steps] == ["2x4x4xf32", "2x4x8xf32"]
    assert steps[0].grid is not None
    assert steps[0].grid.shape == (2,)
    assert program.devices == 2
    assert [info.global_shape for info in program.entry.arguments] == [(2, 4, 8), (8, 32), (32, 8)]


def times(text: str) -> dict[str, tuple[int, bool]]:
    return {op.name: (times, known) for op, times, known in local(text).walk()}


LOOP = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %low = arith.constant 0 : index
  %high = arith.constant 10 : index
  %step = arith.constant 3 : index
  %r = scf.for %i = %low to %high step %step iter_args(%a = %x) -> tensor<4xf32> {
    %s = scf.for %j = %low to %i step %step iter_args(%b = %a) -> tensor<4xf32> {
      %t = math.tanh %b : tensor<4xf32>
      scf.yield %t : tensor<4xf32>
    }
    %e = math.exp %s : tensor<4xf32>
    scf.yield %e : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""
GRID = "shard.grid @g(shape = 2)\n"


def test_trips_of_for() -> None:
    found = times(GRID + LOOP.replace("func @main", "func @main", 1).replace("@main(", "@main("))
    assert found["math.exp"] == (4, True)
    assert found["math.tanh"] == (4, False)  # the inner loop's bound is not known: it counts once


WHILE = """
func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<2> : tensor<i32>
  %bound = stablehlo.constant dense<8> : tensor<i32>
  %r:3 = stablehlo.while(%a = %x, %i = %low, %h = BOUND)
      : tensor<4xf32>, tensor<i32>, tensor<i32> cond {
    %go = stablehlo.compare DIRECTION, %i, %h : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add STEP : tensor<i32>
    %t = stablehlo.tanh %a : tensor<4xf32>
    stablehlo.return %t, %j, %h : tensor<4xf32>, tensor<i32>, tensor<i32>
  }
  return %r#0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("bound", "direction", "step", "expected"),
    [
        ("%bound", "LT", "%i, %one", (6, True)),
        ("%bound", "LT", "%one, %i", (6, True)),
        ("%bound", "LE", "%i, %one", (7, True)),
        ("%bound", "GE", "%i, %one", (1, False)),
        ("%n", "LT", "%i, %one", (1, False)),
        ("%bound", "LT", "%i, %i", (1, False)),
    ],
)
def test_trips_of_while(bound: str, direction: str, step: str, expected: tuple[int, bool]) -> None:
    text = WHILE.replace("BOUND", bound).replace("DIRECTION", direction).replace("STEP", step)
    assert times(GRID + text)["stablehlo.tanh"] == expected


@pytest.mark.parametrize(
    ("element", "first", "bound", "step", "expected"),
    [
        ("f32", "0.0", "3.0", "1.5", (1, False)),  # no integer
        ("i8", "0", "100", "60", (2, True)),
        ("i8", "0", "127", "51", (1, False)),  # it wraps, and the loop goes on
        ("ui8", "100", "140", "20", (2, True)),
        ("ui8", "250", "255", "3", (1, False)),
        ("i32", "-2", "3", "2", (3, True)),
    ],
)
def test_counters_that_hold_their_numbers(
    element: str, first: str, bound: str, step: str, expected: tuple[int, bool]
) -> None:
    text = f"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %first = stablehlo.constant dense<{first}> : tensor<{element}>
  %bound = stablehlo.constant dense<{bound}> : tensor<{element}>
  %step = stablehlo.constant dense<{step}> : tensor<{element}>
  %r:2 = stablehlo.while(%a = %x, %i = %first) : tensor<4xf32>, tensor<{element}>
  cond {{
    %c = stablehlo.compare LT, %i, %bound : (tensor<{element}>, tensor<{element}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %step : tensor<{element}>
    %t = stablehlo.tanh %a : tensor<4xf32>
    stablehlo.return %t, %j : tensor<4xf32>, tensor<{element}>
  }}
  return %r#0 : tensor<4xf32>
}}
"""
    assert times(GRID + text)["stablehlo.tanh"] == expected


def test_calls_are_followed() -> None:
    text = """
    func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = math.tanh %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = func.call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %1 = func.call @twice(%0) : (tensor<4xf32>) -> tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    """
    assert sum(op.name == "math.tanh" for op, _, _ in local(GRID + text).walk()) == 2


def test_donated_arguments() -> None:
    text = """
    func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32},
        %y: tensor<4xf32> {jax.buffer_donor = true}, %z: tensor<4xf32>) -> tensor<4xf32> {
      %0 = stablehlo.add %x, %y : tensor<4xf32>
      %1 = stablehlo.add %0, %z : tensor<4xf32>
      return %1 : tensor<4xf32>
    }
    """
    arguments = local(GRID + text).entry.arguments
    assert [(info.donated, info.aliases) for info in arguments] == [
        (True, 0),
        (True, None),
        (False, None),
    ]


def test_another_form_is_refused() -> None:
    from shard_dialect.analysis.costs.local_program import read_program

    module = sd.parse(EXAMPLES / "mlp_1d.mlir")
    with module.context, pytest.raises(sd.ShardError, match="is in the annotated form"):
        read_program(module.operation, "main")


def test_unknown_sizes_are_refused() -> None:
    text = """
    func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = math.tanh %x : tensor<?xf32>
      return %0 : tensor<?xf32>
    }
    """
    with pytest.raises(sd.ShardError, match="not known: give sizes, as in shard-opt --specialize"):
        local(text.replace("{\n", 'attributes {mesh.form = "local"} {\n', 1))
