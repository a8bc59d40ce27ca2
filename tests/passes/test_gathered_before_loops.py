"""What a loop reads piece by piece is gathered once before it, where fewer bytes move then."""

import pytest

import shard_dialect as sd

ROWS, TURNS = 32, 32
SHARD = ROWS * 64 * 4 // 4
"""The bytes of a device's rows."""
GATHERED = 3 * SHARD


def scan(rows: str, body: str, turns: int = TURNS, functions: str = "") -> str:
    """A loop over the rows of a split tensor, which it carries unchanged."""
    return f"""
    shard.grid @g(shape = 4)
    func.func @main(%xs: tensor<{rows}x64xf32> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}},
                    %h: tensor<64xf32>) -> tensor<64xf32> {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<{turns}> : tensor<i32>
      %r:3 = stablehlo.while(%x = %xs, %i = %zero, %a = %h)
          : tensor<{rows}x64xf32>, tensor<i32>, tensor<64xf32>
      cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{{body}
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %x, %j, %b : tensor<{rows}x64xf32>, tensor<i32>, tensor<64xf32>
      }}
      return %r#2 : tensor<64xf32>
    }}{functions}"""


def row(rows: int) -> str:
    return f"""
        %s = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 64]
            : (tensor<{rows}x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>"""


STEP = """
        %v = stablehlo.reshape %s : (tensor<1x64xf32>) -> tensor<64xf32>
        %w = stablehlo.multiply %a, %v : tensor<64xf32>
        %b = stablehlo.tanh %w : tensor<64xf32>"""
CALLED = f"""
    func.func private @row(%x: tensor<{ROWS}x64xf32>, %i: tensor<i32>) -> tensor<1x64xf32> {{
      %zero = stablehlo.constant dense<0> : tensor<i32>{row(ROWS)}
      return %s : tensor<1x64xf32>
    }}"""
CALL = f"""
        %s = func.call @row(%x, %i) : (tensor<{ROWS}x64xf32>, tensor<i32>) -> tensor<1x64xf32>"""
TWICE = f"""
        %q:3 = stablehlo.while(%y = %x, %k = %zero, %e = %a)
            : tensor<{ROWS}x64xf32>, tensor<i32>, tensor<64xf32>
        cond {{
          %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %s = stablehlo.dynamic_slice %y, %k, %zero, sizes = [1, 64]
              : (tensor<{ROWS}x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
          %v = stablehlo.reshape %s : (tensor<1x64xf32>) -> tensor<64xf32>
          %w = stablehlo.multiply %e, %v : tensor<64xf32>
          %f = stablehlo.tanh %w : tensor<64xf32>
          %l = stablehlo.add %k, %one : tensor<i32>
          stablehlo.return %y, %l, %f : tensor<{ROWS}x64xf32>, tensor<i32>, tensor<64xf32>
        }}
        %b = stablehlo.negate %q#2 : tensor<64xf32>"""
CAPTURED = f"""
    shard.grid @g(shape = 4)
    func.func @main(%x: tensor<{ROWS}x64xf32> {{mesh.sharding = #mesh.shard<@g, [[0], []]>}},
                    %h: tensor<64xf32>) -> tensor<64xf32> {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %n = arith.constant {TURNS} : index
      %none = stablehlo.constant dense<0> : tensor<i64>
      %r = scf.for %i = %zero to %n step %one iter_args(%a = %h) -> tensor<64xf32> {{
        %k = arith.index_cast %i : index to i64
        %at = tensor.from_elements %k : tensor<i64>
        %s = stablehlo.dynamic_slice %x, %at, %none, sizes = [1, 64]
            : (tensor<{ROWS}x64xf32>, tensor<i64>, tensor<i64>) -> tensor<1x64xf32>{STEP}
        scf.yield %b : tensor<64xf32>
      }}
      return %r : tensor<64xf32>
    }}"""
GATHERS = {
    "each row": scan(str(ROWS), row(ROWS) + STEP),
    "in a function": scan(str(ROWS), CALL + STEP, functions=CALLED),
    "in a loop inside": scan(str(ROWS), TWICE, turns=8),
    "from outside": CAPTURED,
}


@pytest.mark.parametrize("kind", GATHERS)
def test_rows_are_gathered_before_the_loop(kind: str) -> None:
    compiled = sd.compile(sd.parse(GATHERS[kind]))
    assert [each.kind for each in compiled.report.entries] == ["all_gather"]
    assert compiled.report.bytes_moved == GATHERED
    assert compiled.check().passed


def test_few_rows_of_many_are_reduced() -> None:
    compiled = sd.compile(sd.parse(scan("4096", row(4096) + STEP, turns=8)))
    assert compiled.report.bytes_moved < 8 * 2 * 64 * 4
    assert compiled.check().passed


def test_the_sum_of_all_rows_is_carried() -> None:
    add = """
        %v = stablehlo.reshape %s : (tensor<1x64xf32>) -> tensor<64xf32>
        %b = stablehlo.add %a, %v : tensor<64xf32>"""
    compiled = sd.compile(sd.parse(scan(str(ROWS), row(ROWS) + add)))
    assert compiled.report.bytes_moved <= 2 * 64 * 4
    assert compiled.check().passed


@pytest.mark.parametrize("kind", ["each row", "in a function", "in a loop inside"])
def test_rows_that_are_needed_in_parts_are_exchanged(kind: str) -> None:
    """The state is split along columns, and so is each row that is multiplied by it."""
    split = "tensor<64xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}"
    text = GATHERS[kind].replace(
        "%h: tensor<64xf32>) -> tensor<64xf32>", f"%h: {split}) -> ({split})"
    )
    compiled = sd.compile(sd.parse(text))
    assert [each.kind for each in compiled.report.entries] == ["all_to_all"]
    assert compiled.report.bytes_moved == GATHERED // 4
    assert compiled.check().passed
