"""Pairs of small programs that choose by floats, bits and integers made of floats, and differ."""

import pytest

import shard_dialect as sd
from tests.extras import missing, needs, skip_without

ROW, WORDS = "tensor<8xf32>", "tensor<4xi32>"


def function(arguments: str, result: str, body: str) -> str:
    return f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"


def largest(rows: int, first: int = 0, compare: str = "GT", of: str = "%a") -> str:
    """The place of the largest of a row's elements from the first on."""
    left = rows - first
    values, places = f"tensor<{left}xf32>", f"tensor<{left}xi32>"
    body = f"""%v = stablehlo.slice %x [{first}:{rows}] : (tensor<{rows}xf32>) -> {values}
    %all = stablehlo.iota dim = 0 : tensor<{rows}xi32>
    %i = stablehlo.slice %all [{first}:{rows}] : (tensor<{rows}xi32>) -> {places}
    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %s:2 = stablehlo.reduce(%v init: %least), (%i init: %zero) across dimensions = [0] :
        ({values}, {places}, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%k: tensor<i32>, %l: tensor<i32>) {{
      %origin = stablehlo.constant dense<0.0> : tensor<f32>
      %cut = stablehlo.maximum %a, %origin : tensor<f32>
      %p = stablehlo.compare {compare}, {of}, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %m = stablehlo.select %p, %a, %b : tensor<i1>, tensor<f32>
      %n = stablehlo.select %p, %k, %l : tensor<i1>, tensor<i32>
      stablehlo.return %m, %n : tensor<f32>, tensor<i32>
    }}
    %r = stablehlo.add %s#1, %zero : tensor<i32>"""
    return function(f"%x: tensor<{rows}xf32>", "tensor<i32>", body)


def maximum(first: int) -> str:
    cut = f"tensor<{128 - first}xf32>"
    return function("%x: tensor<128xf32>", "tensor<f32>", f"""
    %v = stablehlo.slice %x [{first}:128] : (tensor<128xf32>) -> {cut}
    %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %r = stablehlo.reduce(%v init: %c) applies stablehlo.maximum across dimensions = [0] :
        ({cut}, tensor<f32>) -> tensor<f32>""")  # fmt: skip


def top(first: int) -> str:
    cut = f"tensor<{128 - first}xf32>"
    return function("%x: tensor<128xf32>", "tensor<1xf32>", f"""
    %v = stablehlo.slice %x [{first}:128] : (tensor<128xf32>) -> {cut}
    %r, %i = "chlo.top_k"(%v) {{k = 1 : i64}}
        : ({cut}) -> (tensor<1xf32>, tensor<1xi32>)""")  # fmt: skip


def branch(no: str, yes: str) -> str:
    """Of a condition as JAX has it: a bit, as an integer, chooses."""
    return function(f"%b: tensor<f32>, %x: {ROW}", ROW, f"""
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.compare LT, %b, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %i = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>
    %r = "stablehlo.case"(%i) ({{
      %n = stablehlo.{no} %x : {ROW}
      stablehlo.return %n : {ROW}
    }}, {{
      %y = stablehlo.{yes} %x : {ROW}
      stablehlo.return %y : {ROW}
    }}) : (tensor<i32>) -> {ROW}""")  # fmt: skip


def loop(body: str) -> str:
    return function(f"%b: tensor<f32>, %x: {ROW}", ROW, f"""
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %w:2 = stablehlo.while(%e = %b, %y = %x) : tensor<f32>, {ROW} cond {{
      %g = stablehlo.compare LT, %e, %c : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %g : tensor<i1>
    }} do {{
      %n = stablehlo.add %e, %c : tensor<f32>
      %z = stablehlo.{body} %y : {ROW}
      stablehlo.return %n, %z : tensor<f32>, {ROW}
    }}
    %r = stablehlo.reshape %w#1 : ({ROW}) -> {ROW}""")  # fmt: skip


def truncated(then: str, number: int) -> str:
    return function("%x: tensor<4xf32>", WORDS, f"""
    %i = stablehlo.convert %x : (tensor<4xf32>) -> {WORDS}
    %k = stablehlo.constant dense<{number}> : {WORDS}
    %r = stablehlo.{then} %i, %k : {WORDS}""")  # fmt: skip


def digits(then: str) -> str:
    return function("%x: tensor<4xf32>", WORDS, f"""
    %i = stablehlo.bitcast_convert %x : (tensor<4xf32>) -> {WORDS}
    %k = stablehlo.constant dense<1> : {WORDS}
    %r = stablehlo.{then} %i, %k : {WORDS}""")  # fmt: skip


def compared(direction: str) -> str:
    return function("%x: tensor<f32>, %y: tensor<f32>", "tensor<i32>", f"""
    %p = stablehlo.compare {direction}, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %r = stablehlo.convert %p : (tensor<i1>) -> tensor<i32>""")  # fmt: skip


def resource(then: str) -> str:
    body = function("", WORDS, f"""
    %i = stablehlo.constant dense_resource<k> : {WORDS}
    %k = stablehlo.constant dense<1> : {WORDS}
    %r = stablehlo.{then} %i, %k : {WORDS}""")  # fmt: skip
    digits = "0x0400000005000000060000000700000008000000"
    return f'{body}\n{{-# dialect_resources: {{ builtin: {{ k: "{digits}" }} }} #-}}'


def chosen_at(bound: str, kind: str = "GT", of: str = "%x") -> str:
    """One of two numbers, by how another one compares with a constant."""
    return function(f"%x: {ROW}, %a: {ROW}, %b: {ROW}", ROW, f"""
    %c = stablehlo.constant dense<{bound}> : {ROW}
    %d = stablehlo.subtract %x, %a : {ROW}
    %m = stablehlo.compare {kind}, {of}, %c : ({ROW}, {ROW}) -> tensor<8xi1>
    %r = stablehlo.select %m, %a, %b : tensor<8xi1>, {ROW}""")  # fmt: skip


def integers_below(bound: int) -> str:
    bits = "tensor<4xi1>"
    return function(f"%x: {WORDS}", bits, f"""
    %c = stablehlo.constant dense<{bound}> : {WORDS}
    %r = stablehlo.compare LT, %x, %c : ({WORDS}, {WORDS}) -> {bits}""")  # fmt: skip


BOUNDS = [
    *(("0.0", each) for each in ("0.5", "1.0e-5", "-0.5", "3.0")), ("0.5", "0.25"),
    *(("10.0", each) for each in ("20.0", "11.0", "-10.0")), ("100.0", "1000.0"), ("0.1", "0.2"),
]  # fmt: skip
NEVER = ["0.5", "1.5", "-0.5", "-1.5", "-2.5", "100.5", "0.00390625", "0.000030517578125", "0.1"]


PAIRS = {
    "the first element is left out": (largest(128), largest(128, 1)),
    "of equal elements another is chosen": (largest(8), largest(8, compare="GE")),
    "elements below zero are taken for it": (largest(8), largest(8, of="%cut")),
    "a maximum leaves one out": (maximum(0), maximum(1)),
    "the largest is left out": (top(0), top(1)),
    "a branch that is seldom taken": (branch("negate", "tanh"), branch("negate", "sine")),
    "the other branch": (branch("negate", "tanh"), branch("sine", "tanh")),
    "the body of a loop": (loop("tanh"), loop("negate")),
    "below zero": (truncated("maximum", 0), truncated("add", 0)),
    "above 15": (truncated("minimum", 15), truncated("add", 0)),
    "bits of floats": (digits("and"), digits("or")),
    "where numbers are equal": (compared("LT"), compared("LE")),
    "which is less": (compared("LT"), compared("GT")),
    "elements of a resource": (resource("minimum"), resource("maximum")),
}


@pytest.mark.parametrize("of", ["%x", "%d"])
@pytest.mark.parametrize("bounds", BOUNDS, ids="_".join)
def test_choices_at_other_bounds_are_not_proven(bounds: "tuple[str, str]", of: str) -> None:
    for kind in ("GT", "LE"):
        one, other = (sd.parse(chosen_at(each, kind, of)) for each in bounds)
        assert sd.prove(one, other).answer != "proven"


def divided_by_zero(above: str, then: str = "%q") -> str:
    """A quotient that is no number, or infinite."""
    return function(f"%x: {ROW}", ROW, f"""
    %c = stablehlo.constant dense<0.0> : {ROW}
    %q = stablehlo.divide {above}, %c : {ROW}
    %r = stablehlo.add {then}, %x : {ROW}""")  # fmt: skip


@pytest.mark.parametrize("above", ["%x", "%c"])
def test_quotients_by_zero_are_no_zeros(above: str) -> None:
    one, other = (sd.parse(divided_by_zero(above, then)) for then in ("%q", "%c"))
    assert sd.prove(one, other).answer != "proven"
    assert sd.prove(one, one).answer == "proven"


@pytest.mark.parametrize("bound", NEVER)
def test_a_choice_at_a_fraction_is_not_always_the_same(bound: str) -> None:
    for made in ("%a", "%b"):
        arguments = f"%x: {ROW}, %a: {ROW}, %b: {ROW}"
        always = f"func.func @main({arguments}) -> {ROW} {{ return {made} : {ROW} }}"
        assert sd.prove(sd.parse(chosen_at(bound)), sd.parse(always)).answer != "proven"


def test_integers_at_other_bounds_are_not_proven() -> None:
    one, other = map(integers_below, (100, 101))
    grid = "shard.grid @g(shape = 1)\n"
    local = grid + other.replace("> {", '> attributes {mesh.form = "local"} {', 1)
    one, other = sd.parse(grid + one), sd.parse(local)
    assert sd.prove(one, other).answer != "proven"


@pytest.mark.parametrize("what", PAIRS)
def test_programs_that_differ_are_not_proven(what: str) -> None:
    if "chlo." in PAIRS[what][0] and missing(["jax"]):
        skip_without("jax")
    one, other = map(sd.parse, PAIRS[what])
    assert sd.prove(one, other).answer in ("refuted", "unknown")
    if what != "the body of a loop":
        assert sd.prove(one, one).answer == sd.prove(other, other).answer == "proven"


def test_both_branches_of_a_condition_are_evaluated() -> None:
    given = sd.parse(branch("negate", "tanh"))
    assert sd.prove(given, given).assumptions == ()


@needs("jax")
def test_what_is_chosen_by_an_order_says_at_how_many_points() -> None:
    given = sd.parse(top(0))
    assert sd.prove(given, given).assumptions == ("the order of floats at 168 random points only",)


@pytest.mark.parametrize("size", [3, 15])
@pytest.mark.parametrize("kind", ["or", "and"])
def test_bits_of_padding_are_seen(kind: str, size: int) -> None:
    def text(local: int, given: str = "", made: str = "", form: str = "", end: str = "") -> str:
        bits, neutral = f"tensor<{local}xi1>", "false" if kind == "or" else "true"
        return f"""func.func @main(%x: {bits}{given}) -> (tensor<i1>{made}){form} {{
            %c = stablehlo.constant dense<{neutral}> : tensor<i1>
            %s = stablehlo.reduce(%x init: %c) applies stablehlo.{kind} across dimensions = [0] :
                ({bits}, tensor<i1>) -> tensor<i1>
            {end or "return %s : tensor<i1>"} }}"""

    sharded = f" {{mesh.argument = tensor<{size}xi1, #mesh.shard<@g, [[0]]>>}}"
    local = "shard.grid @g(shape = 2)\n" + text(
        (size + 1) // 2,
        sharded,
        " {mesh.result = tensor<i1>}",
        ' attributes {mesh.form = "local"}',
        f"""%r = shard.all_reduce %s on @g grid_axes = [0] reduction = bitwise_{kind}
            : tensor<i1> -> tensor<i1>
        return %r : tensor<i1>""",
    )
    assert sd.prove(sd.parse(text(size)), sd.parse(local)).answer == "refuted"


CLAMPED = """
func.func @main(%x: tensor<4xf32>, %a: tensor<4xf32>) -> tensor<4xf32> {
  GIVEN
  %1 = stablehlo.minimum %0, %a : tensor<4xf32>
  %2 = stablehlo.maximum %1, %a : tensor<4xf32>
  %3 = stablehlo.maximum %2, %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}
"""


def test_a_maximum_is_of_the_same_numbers_since_one_may_be_nan() -> None:
    """What is at least `a` and at most `a` is `a`, unless it is NaN."""
    sine = CLAMPED.replace("GIVEN", "%0 = stablehlo.sine %x : tensor<4xf32>")
    twice = sine.replace("%3 = stablehlo.maximum %2, %2", "%3 = stablehlo.maximum %2, %1")
    cosine = sine.replace("sine", "cosine")
    assert sd.prove(sd.parse(sine), sd.parse(twice)).answer == "proven"
    found = sd.prove(sd.parse(sine), sd.parse(cosine))
    assert found.answer == "unknown"
    assert "unless no float is NaN" in str(found)
