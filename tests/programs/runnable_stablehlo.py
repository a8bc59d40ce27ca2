"""Random StableHLO programs with control flow, calls and odd shardings, of ops that can be lowered.

Loops run a few times, branches depend on data, and values are kept small, so that a wrong number
shows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.programs.stablehlo import SIZES, Shape, _Program, tensor

MESHES = (
    (("x", 2), ("y", 2)),
    (("x", 4), ("y", 2)),
    (("x", 2), ("y", 4), ("z", 2)),
    (("x", 8),),
    (("x", 2), ("y", 3)),
    (("x", 1), ("y", 4)),
    (("x", 6), ("y", 1)),
)
UNSAID = ("applies", "constant", "convolution", "optimization_barrier")
"""Whose text has its attributes elsewhere."""
LARGEST = 1 << 12
"""The most elements of a value."""


class Runnable(_Program):
    """`depth` is the number of regions around; `functions` can be called: name, shapes in and out.

    `is_even` keeps what is said of shardings to what divides.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.axes = dict(self.rng.choice(MESHES))
        sizes = ", ".join(f'"{name}"={size}' for name, size in self.axes.items())
        self.mesh = f"<[{sizes}]>"
        self.depth = 0
        self.functions: list[tuple[str, list[Shape], Shape]] = []
        self.texts: list[str] = []
        self.groups: dict[Shape, int] = {}
        self.is_even = self.rng.random() < 0.97

    # Shardings

    def sharding(self, shape: Shape, may_be_open: bool = True) -> str:
        rng = self.rng
        parts = self._parts()
        priorities = rng.random() < 0.1
        dims = []
        for size in shape:
            here, devices = [], 1
            while parts and rng.random() < 0.4:
                text, count = parts.pop()
                if not self.is_even or size % (devices * count) == 0:
                    here.append(text)
                    devices *= count
            opened = ["?"] if may_be_open and rng.random() < 0.6 else []
            priority = f"p{rng.randrange(3)}" if priorities and (here or opened) else ""
            dims.append(f"{{{', '.join([*here, *opened])}}}{priority}")
        order = list(self.axes)
        left = sorted(
            (text for text, _ in parts if rng.random() < 0.1),
            key=lambda text: (order.index(text[1]), text),
        )
        replicated = f", replicated={{{', '.join(left)}}}" if left else ""
        return f"#sdy.sharding<@m, [{', '.join(dims)}]{replicated}>"

    def _parts(self) -> list[tuple[str, int]]:
        """The axes, some of them in one or two parts, in any order."""
        found = []
        for name, size in self.axes.items():
            factors = [factor for factor in (2, 3, 4) if size % factor == 0 and size > factor]
            if factors and self.rng.random() < 0.3:
                major = self.rng.choice(factors)
                shards = [
                    (f'"{name}":(1){major}', major),
                    (f'"{name}":({major}){size // major}', size // major),
                ]
                # In order they would be one axis, and are to be written so.
                found += [self.rng.choice(shards)]
            else:
                found.append((f'"{name}"', size))
        self.rng.shuffle(found)
        return found

    def said(self, shape: Shape) -> str:
        """An attribute for an op's result, now and then."""
        if not shape or self.rng.random() >= 0.08:
            return ""
        said = self.sharding(shape).removeprefix("#sdy.sharding")
        return f" {{sdy.sharding = #sdy.sharding_per_value<[{said}]>}}"

    # Values

    def add(self, shape: Shape, text: str) -> str:
        if text.startswith("stablehlo.") and not any(each in text for each in UNSAID):
            before, _, after = text.rpartition(" : ")
            text = f"{before}{self.said(shape)} : {after}"
        name = super().add(shape, text)
        if prod(shape) > LARGEST or len(shape) > 4:
            self.values.pop()
        return name

    def constant(self, shape: Shape) -> str:
        if shape and self.rng.random() < 0.15 and prod(shape) <= 64:
            numbers = [f"{(7 * place % 11) / 8 - 0.5}" for place in range(prod(shape))]
            return self.add(
                shape, f"stablehlo.constant dense<{_nested(numbers, shape)}> : {tensor(shape)}"
            )
        return super().constant(shape)

    def emit(self, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def number(self, value: int) -> str:
        return self.emit(f"stablehlo.constant dense<{value}> : tensor<i32>")

    def scalar(self) -> str:
        """A tensor<f32> made of some value, by a sum over all of it."""
        value, shape = self.pick()
        if not shape:
            return value
        zero = self.emit("stablehlo.constant dense<0.0> : tensor<f32>")
        dims = list(range(len(shape)))
        return self.emit(
            f"stablehlo.reduce({value} init: {zero}) applies stablehlo.add across dimensions = "
            f"{dims} : ({tensor(shape)}, tensor<f32>) -> tensor<f32>"
        )

    def flag(self) -> str:
        """A tensor<i1> that depends on the data; far from where rounding decides, mostly."""
        limit = self.emit("stablehlo.constant dense<0.125> : tensor<f32>")
        types = "(tensor<f32>, tensor<f32>) -> tensor<i1>"
        return self.emit(f"stablehlo.compare LT, {self.scalar()}, {limit} : {types}")

    def index(self) -> str:
        if self.rng.random() < 0.5:
            return self.number(self.rng.randrange(3))
        return self.emit(f"stablehlo.convert {self.scalar()} : (tensor<f32>) -> tensor<i32>")

    # Ops

    def unary(self) -> None:
        value, shape = self.pick()
        name = self.rng.choice(["abs", "negate", "sine", "tanh", "tanh", "logistic"])
        self.add(shape, f"stablehlo.{name} {value} : {tensor(shape)}")

    def binary(self) -> None:
        value, shape = self.pick()
        name = self.rng.choice(["add", "multiply", "maximum", "subtract", "minimum"])
        pair = [value, self.like(shape)]
        self.rng.shuffle(pair)
        self.add(shape, f"stablehlo.{name} {pair[0]}, {pair[1]} : {tensor(shape)}")

    def dot(self) -> None:
        super().dot()
        self.tame()

    def tame(self) -> None:
        """Keep what sums made small."""
        if self.values and self.rng.random() < 0.7:
            value, shape = self.values[-1]
            self.add(shape, f"stablehlo.tanh {value} : {tensor(shape)}")

    def reduce(self) -> None:
        value, shape = self.pick(1)
        rng = self.rng
        dims = sorted(rng.sample(range(len(shape)), rng.choice([1, min(2, len(shape))])))
        made = tuple(size for dim, size in enumerate(shape) if dim not in dims)
        name, inits = rng.choice(
            [
                ("add", ["0.0", "0.0", "1.0"]),
                ("maximum", ["0xFF800000", "0.0"]),
                ("minimum", ["0x7F800000", "0.0"]),
                ("multiply", ["1.0"]),
            ]
        )
        init = self.emit(f"stablehlo.constant dense<{rng.choice(inits)}> : tensor<f32>")
        if rng.random() < 0.1:
            init = self.scalar()
        self.add(
            made,
            f"stablehlo.reduce({value} init: {init}) applies stablehlo.{name} across dimensions = "
            f"{dims} : ({tensor(shape)}, tensor<f32>) -> {tensor(made)}",
        )

    def slice(self) -> None:
        value, shape = self.pick(1)
        ranges, made = [], []
        for size in shape:
            low = self.rng.choice([0, 0, 0, size // 4, size // 2])
            high = self.rng.choice([size, size, max(low + 1, 3 * size // 4)])
            step = self.rng.choice([1, 1, 1, 2])
            ranges.append(f"{low}:{high}:{step}")
            made.append(-(-(high - low) // step))
        to = tensor(tuple(made))
        text = f"[{', '.join(ranges)}] : ({tensor(shape)}) -> {to}"
        self.add(tuple(made), f"stablehlo.slice {value} {text}")

    def pad(self) -> None:
        value, shape = self.pick(1)
        zero = self.emit(f"stablehlo.constant dense<{self.rng.choice([0.0, 1.0])}> : tensor<f32>")
        low, high, interior = (
            [self.rng.choice([0, 0, 0, most]) for _ in shape] for most in (2, 2, 1)
        )
        if self.rng.random() < 0.2:
            low[0] = -min(1, shape[0] - 1)
        made = tuple(
            size + a + b + c * (size - 1)
            for size, a, b, c in zip(shape, low, high, interior, strict=True)
        )
        edges = f"low = {low}, high = {high}, interior = {interior}"
        types = f"({tensor(shape)}, tensor<f32>) -> {tensor(made)}"
        self.add(made, f"stablehlo.pad {value}, {zero}, {edges} : {types}")

    def window(self) -> None:
        """A pooling of a 2-d value."""
        value, shape = self.pick(2)
        if len(shape) != 2 or min(shape) < 4:
            return
        rng = self.rng
        size, step = [rng.choice([1, 2, 3]) for _ in shape], [rng.choice([1, 2]) for _ in shape]
        made = tuple((a - b) // c + 1 for a, b, c in zip(shape, size, step, strict=True))
        name, init = rng.choice([("add", "0.0"), ("maximum", "0xFF800000")])
        zero = self.emit(f"stablehlo.constant dense<{init}> : tensor<f32>")
        self.add(
            made,
            f'"stablehlo.reduce_window"({value}, {zero}) <{{window_dimensions = array<i64: '
            f"{size[0]}, {size[1]}>, window_strides = array<i64: {step[0]}, {step[1]}>}}> ({{\n"
            f"^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%c = stablehlo.{name} %a, %b : tensor<f32>\n"
            f"stablehlo.return %c : tensor<f32>\n}}) : ({tensor(shape)}, tensor<f32>) -> "
            f"{tensor(made)}",
        )

    def convolution(self) -> None:
        value, shape = self.pick(2)
        if len(shape) != 2 or min(shape) < 4:
            return
        wide = (2, *shape, 4)
        image = self.emit(
            f"stablehlo.broadcast_in_dim {value}, dims = [1, 2] : ({tensor(shape)}) -> "
            f"{tensor(wide)}"
        )
        size, step, features = self.rng.choice([1, 2, 3]), self.rng.choice([1, 2]), 8
        kernel_shape = (size, size, 4, features)
        kernel = self.like(kernel_shape)
        made = (2, *((extent - size) // step + 1 for extent in shape), features)
        self.add(
            made,
            f"stablehlo.convolution({image}, {kernel}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->"
            f"[b, 0, 1, f], window = {{stride = [{step}, {step}]}} {{batch_group_count = 1 : i64, "
            f"feature_group_count = 1 : i64}} : ({tensor(wide)}, {tensor(kernel_shape)}) -> "
            f"{tensor(made)}",
        )
        self.tame()

    def argmax(self) -> None:
        """A reduction of two values at once."""
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        made = tuple(size for place, size in enumerate(shape) if place != dim)
        first = self.emit("stablehlo.constant dense<0xFF800000> : tensor<f32>")
        second = self.number(0)
        kind, count, small = tensor(shape), tensor(shape, "i32"), tensor(made)
        place = self.emit(f"stablehlo.iota dim = {dim} : {count}")
        name = self.emit(
            f"stablehlo.reduce({value} init: {first}), ({place} init: {second}) across "
            f"dimensions = [{dim}] : ({kind}, {count}, tensor<f32>, tensor<i32>) -> "
            f"({small}, {tensor(made, 'i32')})\n"
            "reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {\n"
            "%e = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
            "%f = stablehlo.select %e, %a, %b : tensor<i1>, tensor<f32>\n"
            "%g = stablehlo.select %e, %c, %d : tensor<i1>, tensor<i32>\n"
            "stablehlo.return %f, %g : tensor<f32>, tensor<i32>\n}"
        )
        self.lines[-1] = self.lines[-1].replace(f"{name} = ", f"{name}:2 = ", 1)
        self.values.append((f"{name}#0", made))

    def mark(self) -> None:
        """A sharding group, a barrier, or a constraint."""
        value, shape = self.pick(1)
        kind = self.rng.randrange(3)
        if kind == 0:
            number = self.groups.setdefault(shape, len(self.groups))
            self.lines.append(
                f'"sdy.sharding_group"({value}) <{{group_id = {number} : i64}}> : '
                f"({tensor(shape)}) -> ()"
            )
        elif kind == 1:
            way = self.rng.randrange(3)
            types = f"({tensor(shape)}) -> {tensor(shape)}"
            text = f'"sdy.propagation_barrier"({value}) <{{allowed_direction = {way} : i32}}>'
            super().add(shape, f"{text} : {types}")
        else:
            self.constraint()

    # Control flow

    def region(self, shapes: list[Shape], given: list[tuple[str, Shape]]) -> tuple[str, list[str]]:
        """The text of some ops in a region, and values of these shapes to end it with."""
        lines, values = self.lines, list(self.values)
        self.lines = []
        self.values += given
        self.depth += 1
        for _ in range(self.rng.randrange(1, 4)):
            kinds = KINDS if self.depth < 3 else PLAIN
            self.rng.choice(kinds)(self)
        results = []
        for shape in shapes:
            found = [name for name, other in self.values[len(values) :] if other == shape]
            results.append(self.rng.choice(found[-2:]) if found else self.like(shape))
        self.depth -= 1
        inside, self.lines, self.values = self.lines, lines, values
        return "\n".join(inside), results

    def carried(self) -> list[tuple[str, Shape]]:
        return [self.pick(1) for _ in range(self.rng.choice([1, 1, 2]))]

    def while_loop(self) -> None:
        inits = self.carried()
        zero, limit, one = (self.number(each) for each in (0, self.rng.randrange(4), 1))
        counter, states = self.new(), [self.new() for _ in inits]
        shapes = [shape for _, shape in inits]
        given = list(zip(states, shapes, strict=True))
        text, found = self.region(shapes, given)
        lines, self.lines = self.lines, []
        values, self.values = self.values, [*self.values, *given]
        p = self.emit(
            f"stablehlo.compare LT, {counter}, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        )
        if self.rng.random() < 0.3:
            p = self.emit(f"stablehlo.and {p}, {self.flag()} : tensor<i1>")
        condition, self.lines, self.values = "\n".join(self.lines), lines, values
        types = ", ".join(["tensor<i32>", *map(tensor, shapes)])
        bound = ", ".join(
            f"{state} = {init}" for state, (init, _) in zip(states, inits, strict=True)
        )
        name, step = self.new(), self.new()
        self.lines.append(
            f"{name}:{1 + len(inits)} = stablehlo.while({counter} = {zero}, {bound}) : {types}"
            f"{self.loop_said(shapes)}\n"
            f"cond {{\n{condition}\nstablehlo.return {p} : tensor<i1>\n}} do {{\n{text}\n"
            f"{step} = stablehlo.add {counter}, {one} : tensor<i32>\n"
            f"stablehlo.return {', '.join([step, *found])} : {types}\n}}"
        )
        self.values += [(f"{name}#{1 + place}", shape) for place, shape in enumerate(shapes)]

    def loop_said(self, shapes: list[Shape]) -> str:
        """What is said of a loop's results."""
        if self.rng.random() >= 0.15:
            return ""
        said = [self.sharding(shape).removeprefix("#sdy.sharding") for shape in shapes]
        each = ", ".join(["<@m, []>", *said])
        return f" attributes {{sdy.sharding = #sdy.sharding_per_value<[{each}]>}}"

    def branch(self) -> None:
        """An `if`, or a `case` of one to three branches."""
        shapes = [shape for _, shape in self.carried()]
        kind, count = "if", 2
        decides = self.flag()
        if self.rng.random() < 0.5:
            kind, count = "case", self.rng.choice([1, 2, 3])
            decides = self.emit(f"stablehlo.convert {decides} : (tensor<i1>) -> tensor<i32>")
        types = ", ".join(map(tensor, shapes))
        regions = []
        for _ in range(count):
            text, found = self.region(shapes, [])
            regions.append(f"{{\n{text}\nstablehlo.return {', '.join(found)} : {types}\n}}")
        flag = "tensor<i1>" if kind == "if" else "tensor<i32>"
        name = self.new()
        results = f":{len(shapes)}" if len(shapes) > 1 else ""
        self.lines.append(
            f'{name}{results} = "stablehlo.{kind}"({decides}) ({", ".join(regions)}) : '
            f"({flag}) -> ({types})"
        )
        self.values += [
            (f"{name}#{place}" if results else name, shape) for place, shape in enumerate(shapes)
        ]

    def call(self) -> None:
        if not self.functions:
            return
        name, shapes, made = self.rng.choice(self.functions)
        operands = [self.like(shape) for shape in shapes]
        types = f"({', '.join(map(tensor, shapes))}) -> {tensor(made)}"
        self.add(made, f"func.call @{name}({', '.join(operands)}) : {types}")

    # Functions

    def function(self, name: str, is_private: bool, count: int) -> None:
        rng = self.rng
        self.values, self.lines, self.groups = [], [], {}
        arguments = []
        for _ in range(rng.randrange(1, 4)):
            shape = tuple(rng.choice(SIZES) for _ in range(rng.choice([1, 2, 2, 2, 3])))
            if rng.random() < 0.2:
                shape = (*shape[:-1], rng.choice([3, 5, 9, 12]))
            value = self.new()
            self.values.append((value, shape))
            said = self.attribute(shape, 0.25 if is_private else 0.6)
            arguments.append((value, shape, said))
        for _ in range(count):
            rng.choice(KINDS)(self)
        results = [self.values[-1]]
        if name == "main" and rng.random() < 0.4:
            results.append(self.pick())
        types = ", ".join(tensor(shape) for _, shape in results)
        given = [_with(tensor(shape), self.attribute(shape, 0.25)) for _, shape in results]
        inputs = [f"{value}: {_with(tensor(shape), said)}" for value, shape, said in arguments]
        visibility = "private " if is_private else ""
        body = "\n".join(self.lines)
        self.texts.append(
            f"func.func {visibility}@{name}({', '.join(inputs)}) -> ({', '.join(given)}) {{\n"
            f"{body}\nreturn {', '.join(value for value, _ in results)} : {types}\n}}\n"
        )
        self.functions.append((name, [shape for _, shape, _ in arguments], results[0][1]))


def _with(type_: str, said: str) -> str:
    return f"{type_} {{{said}}}" if said else type_


def _nested(numbers: list[str], shape: Shape) -> str:
    if not shape:
        return numbers[0]
    count = len(numbers) // shape[0]
    parts = [numbers[place * count : (place + 1) * count] for place in range(shape[0])]
    return f"[{', '.join(_nested(part, shape[1:]) for part in parts)}]"


PLAIN: list[Callable[[Runnable], None]] = [
    *[Runnable.unary] * 3,
    *[Runnable.binary] * 5,
    *[Runnable.dot] * 4,
    *[Runnable.transpose] * 2,
    *[Runnable.reshape] * 3,
    *[Runnable.broadcast] * 2,
    *[Runnable.reduce] * 3,
    Runnable.select,
    Runnable.concatenate,
    *[Runnable.slice] * 2,
    Runnable.pad,
    Runnable.reverse,
    Runnable.dynamic_slice,
    Runnable.dynamic_update_slice,
    Runnable.gather,
    Runnable.window,
    Runnable.convolution,
    Runnable.argmax,
    *[Runnable.mark] * 4,
    Runnable.barrier,
]
KINDS = [*PLAIN, *[Runnable.while_loop] * 3, *[Runnable.branch] * 3, *[Runnable.call] * 3]


def runnable_stablehlo(seed: int) -> str:
    """A module with `main`, and functions that it and each other call."""
    program = Runnable(seed)
    for number in range(program.rng.choice([0, 0, 1, 2, 3])):
        program.function(f"f{number}", program.rng.random() < 0.8, program.rng.randrange(1, 5))
    program.function("main", is_private=False, count=program.rng.randrange(3, 12))
    return (
        f'"sdy.mesh"() <{{mesh = #sdy.mesh{program.mesh}, sym_name = "m"}}> : () -> ()\n'
        + "".join(program.texts)
    )
