"""Random programs of several precisions: bf16 and f16 in the middle of f32, in StableHLO.

Each computes on a row of values that it draws from; shapes divide the grid or do not; arguments are
split anyhow. What they give is finite, and depends on no comparison of what was rounded.
"""

import random
from dataclasses import dataclass, field

ELEMENTS = ("f32", "bf16", "f32", "f16", "bf16")
GRIDS = ((4,), (2, 2), (2, 3), (2, 2, 2))
SIZES = (4, 6, 8, 12, 5, 16, 10, 7, 9)


def typed(shape: "tuple[int, ...]", element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


@dataclass
class Value:
    name: str
    shape: "tuple[int, ...]"
    element: str

    def __str__(self) -> str:
        return typed(self.shape, self.element)


@dataclass
class Mixed:
    """One program, while it is drawn."""

    draw: random.Random
    grid: "tuple[int, ...]" = ()
    lines: "list[str]" = field(default_factory=list)
    arguments: "list[str]" = field(default_factory=list)
    values: "list[Value]" = field(default_factory=list)
    count: int = 0

    def argument(self, shape: "tuple[int, ...]", element: str) -> Value:
        value = Value(f"%a{len(self.arguments)}", shape, element)
        axes = list(range(len(self.grid)))
        self.draw.shuffle(axes)
        dims = [
            f'{{"x{axes.pop()}"}}' if axes and self.draw.random() < 0.6 else "{}" for _ in shape
        ]
        sharding = f"#sdy.sharding<@mesh, [{', '.join(dims)}]>"
        self.arguments.append(f"{value.name}: {value} {{sdy.sharding = {sharding}}}")
        return value

    def op(self, text: str, shape: "tuple[int, ...]", element: str) -> Value:
        self.count += 1
        value = Value(f"%{self.count}", shape, element)
        self.lines.append(f"{value.name} = {text}")
        self.values.append(value)
        return value

    def splat(self, number: str, like: Value) -> Value:
        """A constant repeated to another value's shape, which nothing draws."""
        element = like.element
        scalar = self.constant(number, element)
        text = f"stablehlo.broadcast_in_dim {scalar}, dims = [] : (tensor<{element}>) -> {like}"
        made = self.op(text, like.shape, element)
        self.values.pop()
        return made

    def keep_last(self, before: int) -> None:
        """Let nothing draw what was made on the way: of some of it only roundings would be left."""
        del self.values[before:-1]

    def matrix(self) -> Value:
        return self.draw.choice([each for each in self.values[-4:] if len(each.shape) == 2])

    def as_(self, value: Value, element: str) -> Value:
        if value.element == element:
            return value
        made = typed(value.shape, element)
        return self.op(
            f"stablehlo.convert {value.name} : ({value}) -> {made}", value.shape, element
        )

    def constant(self, number: str, element: str) -> str:
        self.count += 1
        self.lines.append(f"%{self.count} = stablehlo.constant dense<{number}> : tensor<{element}>")
        return f"%{self.count}"


def convert(p: Mixed) -> None:
    p.as_(p.matrix(), p.draw.choice(ELEMENTS))


def product(p: Mixed) -> None:
    x = p.matrix()
    w = p.argument((x.shape[1], p.draw.choice(SIZES)), p.draw.choice((x.element, "f32")))
    w = p.as_(w, x.element)
    shape = (x.shape[0], w.shape[1])
    y = p.op(
        f"stablehlo.dot_general {x.name}, {w.name}, contracting_dims = [1] x [0] : ({x}, {w})"
        f" -> {typed(shape, x.element)}",
        shape,
        x.element,
    )
    wide = p.splat(f"{x.shape[1] ** -0.5:.3f}", y)
    p.op(f"stablehlo.multiply {y.name}, {wide.name} : {y}", shape, y.element)


def elementwise(p: Mixed) -> None:
    x = p.matrix()
    name = p.draw.choice(("tanh", "logistic", "negate", "sine", "abs"))
    p.op(f"stablehlo.{name} {x.name} : {x}", x.shape, x.element)


def joined(p: Mixed) -> None:
    x = p.matrix()
    same = [each for each in p.values if (each.shape, each.element) == (x.shape, x.element)]
    y = p.draw.choice([*same, p.argument(x.shape, x.element)])
    name = p.draw.choice(("add", "subtract", "multiply", "maximum"))
    p.op(f"stablehlo.{name} {x.name}, {y.name} : {x}", x.shape, x.element)


def mean(p: Mixed) -> None:
    """Taken from each element: a normalization."""
    before, x = len(p.values), p.matrix()
    dim = p.draw.randrange(2)
    zero = p.constant("0.0", x.element)
    shape = (x.shape[1 - dim],)
    s = p.op(
        f"stablehlo.reduce({x.name} init: {zero}) applies stablehlo.add across dimensions = [{dim}]"
        f" : ({x}, tensor<{x.element}>) -> {typed(shape, x.element)}",
        shape,
        x.element,
    )
    wide = p.splat(f"{x.shape[dim]}.0", s)
    m = p.op(f"stablehlo.divide {s.name}, {wide.name} : {s}", shape, x.element)
    b = p.op(
        f"stablehlo.broadcast_in_dim {m.name}, dims = [{1 - dim}] : ({m}) -> {x}",
        x.shape,
        x.element,
    )
    p.op(f"stablehlo.subtract {x.name}, {b.name} : {x}", x.shape, x.element)
    p.keep_last(before)


def neighbours(p: Mixed) -> None:
    """The difference of elements next to each other: a stencil."""
    x = p.matrix()
    dim = p.draw.randrange(2)
    n = x.shape[dim] - 1
    if n < 3:
        return
    shape = (n, x.shape[1]) if dim == 0 else (x.shape[0], n)

    def part(start: int) -> Value:
        ends = [f"0:{size}" for size in x.shape]
        ends[dim] = f"{start}:{start + n}"
        text = f"stablehlo.slice {x.name} [{', '.join(ends)}] : ({x}) -> "
        return p.op(text + typed(shape, x.element), shape, x.element)

    a, b = part(0), part(1)
    p.op(f"stablehlo.add {a.name}, {b.name} : {a}", shape, x.element)


def transposed(p: Mixed) -> None:
    x = p.matrix()
    shape = (x.shape[1], x.shape[0])
    text = f"stablehlo.transpose {x.name}, dims = [1, 0] : ({x}) -> {typed(shape, x.element)}"
    p.op(text, shape, x.element)


STEPS = (product, product, elementwise, joined, mean, neighbours, convert, transposed)


def mixed_program(seed: int) -> str:
    """A module with `@main`; the same for one seed. Some value in it has 16 bits."""
    draw = random.Random(seed)
    p = Mixed(draw, grid=draw.choice(GRIDS))
    p.values.append(p.argument((draw.choice(SIZES), draw.choice(SIZES)), draw.choice(ELEMENTS)))
    p.as_(p.values[0], draw.choice(("bf16", "f16")))
    for _ in range(draw.randint(3, 9)):
        draw.choice(STEPS)(p)
    results = [p.matrix()]
    if draw.random() < 0.5:
        results.append(p.as_(p.matrix(), "f32"))
    axes = ", ".join(f'"x{number}"={size}' for number, size in enumerate(p.grid))
    types = ", ".join(map(str, results))
    body = "\n  ".join(p.lines)
    return f"""\
"sdy.mesh"() <{{mesh = #sdy.mesh<[{axes}]>, sym_name = "mesh"}}> : () -> ()
func.func @main({", ".join(p.arguments)}) -> ({types}) {{
  {body}
  return {", ".join(each.name for each in results)} : {types}
}}
"""
