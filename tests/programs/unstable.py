"""Random programs whose results in f32 or bf16 are far from exact ones: right all the same.

text = unstable_program(7)
"""

import random

_SCALES = (0.01, 1.0, 20.0, 30.0, 40.0, 100.0, 3000.0)
_SQUARES = """
  %shift = stablehlo.constant dense<$K> : $T
  %v = stablehlo.add %s, %shift : $T
  %q = stablehlo.multiply %v, %v : $T
  SUM %m %v
  SUM %n %q
  %k = stablehlo.constant dense<$N> : $R
  %a = stablehlo.divide %m, %k : $R
  %c = stablehlo.divide %n, %k : $R
  %d = stablehlo.multiply %a, %a : $R
"""
"""The mean of squares, `%c`, and the square of the mean, `%d`."""
_BODIES = {
    "softmax without its maximum": """
  %e = stablehlo.exponential %s : $T
  SUM %r %e
  WIDE %b %r
  %y = stablehlo.divide %e, %b : $T""",
    "logarithm of a sum of exponentials": """
  %e = stablehlo.exponential %s : $T
  SUM %r %e
  %y = stablehlo.log %r : $R""",
    "variance by squares": _SQUARES + """  %y = stablehlo.subtract %c, %d : $R""",
    "normalized by a variance by squares": _SQUARES
    + """  %w = stablehlo.subtract %c, %d : $R
  %i = stablehlo.rsqrt %w : $R
  WIDE %j %i
  %y = stablehlo.multiply %s, %j : $T""",
    "difference of large sums": """
  %shift = stablehlo.constant dense<$K> : $T
  %v = stablehlo.add %s, %shift : $T
  SUM %m %v
  %k = stablehlo.constant dense<$N> : $R
  %a = stablehlo.divide %m, %k : $R
  WIDE %b %a
  %y = stablehlo.subtract %v, %b : $T""",
    "difference that divides": """
  SUM %m %s
  WIDE %b %m
  %d = stablehlo.subtract %b, %s : $T
  SUM %n %d
  WIDE %c %n
  %g = stablehlo.subtract %c, %d : $T
  %h = stablehlo.subtract %c, %b : $T
  %y = stablehlo.divide %g, %h : $T""",
    "long product": """
  PRODUCT %y %s""",
    "logarithm of a small sum": """
  SUM %m %s
  %p = stablehlo.multiply %m, %m : $R
  %t = stablehlo.constant dense<1.0> : $R
  %u = stablehlo.add %t, %p : $R
  %w = stablehlo.subtract %u, %t : $R
  %y = stablehlo.log %w : $R""",
    "power of a sum": """
  SUM %m %s
  %o = stablehlo.exponential %m : $R
  WIDE %b %o
  %e = stablehlo.exponential %s : $T
  %y = stablehlo.divide %e, %b : $T""",
}
KINDS = tuple(_BODIES)


def unstable_program(seed: int) -> str:
    """The program of a seed: `KINDS[seed % len(KINDS)]`, of a random type, size and scale."""
    draw = random.Random(seed)
    element = draw.choice(("f32", "f32", "bf16"))
    rows, columns = draw.choice((4, 8)), draw.choice((16, 63, 64, 256))
    wide, narrow = f"tensor<{rows}x{columns}x{element}>", f"tensor<{rows}x{element}>"
    dims = draw.choice(('{}, {"x", "y"}', '{"x"}, {"y"}', '{}, {"y"}', '{"y"}, {"x"}'))
    body = "\n".join(
        _written(line, wide, narrow, element)
        for line in _BODIES[KINDS[seed % len(KINDS)]].split("\n")
    )
    result = wide if body.rstrip().endswith("$T") else narrow
    text = f"""sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%x: $T {{sdy.sharding = #sdy.sharding<@mesh, [{dims}]>}}) -> {result} {{
  %scale = stablehlo.constant dense<{draw.choice(_SCALES)}> : $T
  %s = stablehlo.multiply %x, %scale : $T{body}
  return %y : {result}
}}
"""
    shift = str(float(draw.choice((1, 100, 10000))))
    for name, value in (("$T", wide), ("$R", narrow), ("$K", shift), ("$N", f"{columns}.0")):
        text = text.replace(name, value)
    return text


def _written(line: str, wide: str, narrow: str, element: str) -> str:
    """A line, with the short forms of reductions and broadcasts written out."""
    match line.split():
        case ["SUM" | "PRODUCT" as kind, result, operand]:
            op, start = ("add", "0.0") if kind == "SUM" else ("multiply", "1.0")
            zero = f"{result}_start"
            return (
                f"  {zero} = stablehlo.constant dense<{start}> : tensor<{element}>\n"
                f"  {result} = stablehlo.reduce({operand} init: {zero}) applies stablehlo.{op} "
                f"across dimensions = [1] : ({wide}, tensor<{element}>) -> {narrow}"
            )
        case ["WIDE", result, operand]:
            return (
                f"  {result} = stablehlo.broadcast_in_dim {operand}, dims = [0] : "
                f"({narrow}) -> {wide}"
            )
    return line
