"""Programs that are too much to follow, or that the prover does not read, are unknown."""

import re

import pytest

import shard_dialect as sd

ROW = "tensor<4xf32>"


def function(body: str, result: str = ROW) -> str:
    return f"func.func @main(%x: {ROW}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


def counted(step: int, bound: int) -> str:
    return function(f"""%zero = arith.constant 0 : index
    %step = arith.constant {step} : index
    %bound = arith.constant {bound} : index
    %r = scf.for %i = %zero to %bound step %step iter_args(%y = %x) -> ({ROW}) {{
      %s = arith.addf %y, %y : {ROW}
      scf.yield %s : {ROW}
    }}""")


PROGRAMS = {
    "a step of 0": (counted(0, 3), "has a step of 0"),
    "too many turns": (counted(1, 2000000000), "too many turns"),
    "for ever": (
        function(f"""%z = stablehlo.constant dense<0.0> : tensor<f32>
        %a = stablehlo.slice %x [0:1] : ({ROW}) -> tensor<1xf32>
        %b = stablehlo.reshape %a : (tensor<1xf32>) -> tensor<f32>
        %r = stablehlo.while(%y = %x) : {ROW} cond {{
          %g = stablehlo.compare LT, %b, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %g : tensor<i1>
        }} do {{
          %s = stablehlo.tanh %y : {ROW}
          stablehlo.return %s : {ROW}
        }}"""),
        "as floats decide",
    ),
    "recursion": (function(f"%r = func.call @main(%x) : ({ROW}) -> {ROW}"), "recursion"),
    "quantized elements": (
        function(f"""%q = stablehlo.uniform_quantize %x
            : ({ROW}) -> tensor<4x!quant.uniform<i8:f32, 0.5:3>>
        %r = stablehlo.uniform_dequantize %q
            : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> {ROW}"""),
        "not known",
    ),
    "windows of many elements": (
        function(
            """%i = stablehlo.constant dense<0.0> : tensor<f32>
        %w = stablehlo.constant dense<0.0> : tensor<65536xf32>
        %r = "stablehlo.reduce_window"(%w, %i) ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) {window_dimensions = array<i64: 32768>} : (tensor<65536xf32>, tensor<f32>)
            -> tensor<32769xf32>""",
            "tensor<32769xf32>",
        ),
        "windows of \\[32768\\] have 1,073,774,592 elements",
    ),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_what_is_not_followed_is_unknown(what: str) -> None:
    text, reason = PROGRAMS[what]
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("_MOST_TURNS", "_MOST_STEPS"):
            patch.setattr(f"shard_dialect.proof.machine.{limit}", 1 << 10)
        proof = sd.prove(sd.parse(text), sd.parse(text))
    assert proof.answer == "unknown"
    assert re.search(reason, proof.reason), proof.reason
