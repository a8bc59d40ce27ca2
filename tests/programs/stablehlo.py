"""Random StableHLO programs with random, partial shardings in Shardy's vocabulary."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from math import prod

MESHES = (
    '<["x"=2, "y"=2]>',
    '<["x"=4, "y"=2]>',
    '<["x"=2, "y"=4, "z"=2]>',
    '<["x"=8]>',
)
AXES = {MESHES[0]: "xy", MESHES[1]: "xy", MESHES[2]: "xyz", MESHES[3]: "x"}
SIZES = (4, 4, 8, 8, 8, 16, 2, 1, 6)
Shape = tuple[int, ...]


def tensor(shape: Shape, element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


class _Program:
    """`values` are those that later ops may take, each with its shape; all are f32."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.mesh = self.rng.choice(MESHES)
        self.values: list[tuple[str, Shape]] = []
        self.lines: list[str] = []
        self.count = 0

    # Shardings

    def sharding(self, shape: Shape, may_be_open: bool = True) -> str:
        rng = self.rng
        axes = list(AXES[self.mesh])
        rng.shuffle(axes)
        dims = []
        priorities = rng.random() < 0.15
        for _ in shape:
            here = []
            while axes and rng.random() < 0.35:
                here.append(f'"{axes.pop()}"')
            opened = ["?"] if may_be_open and rng.random() < 0.6 else []
            priority = f"p{rng.randrange(3)}" if priorities and (here or opened) else ""
            dims.append(f"{{{', '.join([*here, *opened])}}}{priority}")
        return f"#sdy.sharding<@m, [{', '.join(dims)}]>"

    def attribute(self, shape: Shape, chance: float) -> str:
        if self.rng.random() >= chance:
            return ""
        return f"sdy.sharding = {self.sharding(shape)}"

    # Values

    def new(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def add(self, shape: Shape, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape))
        return name

    def pick(self, least: int = 0) -> tuple[str, Shape]:
        found = [each for each in self.values if len(each[1]) >= least]
        recent = found[-6:] if self.rng.random() < 0.7 else found
        return self.rng.choice(recent or self.values)

    def like(self, shape: Shape) -> str:
        """A value of this shape, made if there is none."""
        found = [name for name, other in self.values if other == shape]
        if found and self.rng.random() < 0.9:
            return self.rng.choice(found)
        return self.constant(shape)

    def constant(self, shape: Shape) -> str:
        if shape and self.rng.random() < 0.5:
            scalar = self.constant(())
            dims = "dims = [] : (tensor<f32>)"
            return self.add(
                shape, f"stablehlo.broadcast_in_dim {scalar}, {dims} -> {tensor(shape)}"
            )
        if shape and self.rng.random() < 0.3:
            dim = self.rng.randrange(len(shape))
            return self.add(shape, f"stablehlo.iota dim = {dim} : {tensor(shape)}")
        return self.add(shape, f"stablehlo.constant dense<1.0> : {tensor(shape)}")

    # Ops

    def unary(self) -> None:
        value, shape = self.pick()
        name = self.rng.choice(["abs", "negate", "exponential", "tanh"])
        self.add(shape, f"stablehlo.{name} {value} : {tensor(shape)}")

    def binary(self) -> None:
        value, shape = self.pick()
        name = self.rng.choice(["add", "multiply", "maximum"])
        pair = [value, self.like(shape)]
        self.rng.shuffle(pair)
        self.add(shape, f"stablehlo.{name} {pair[0]}, {pair[1]} : {tensor(shape)}")

    def select(self) -> None:
        value, shape = self.pick()
        other = self.like(shape)
        flag = self.new()
        types = f"({tensor(shape)}, {tensor(shape)}) -> {tensor(shape, 'i1')}"
        self.lines.append(f"{flag} = stablehlo.compare LT, {value}, {other} : {types}")
        types = f"{tensor(shape, 'i1')}, {tensor(shape)}"
        self.add(shape, f"stablehlo.select {flag}, {value}, {other} : {types}")

    def dot(self) -> None:
        value, shape = self.pick(2)
        rng = self.rng
        dims = list(range(len(shape)))
        rng.shuffle(dims)
        batch = dims[: rng.choice([0, 0, 1])]
        summed = dims[len(batch) : len(batch) + 1]
        free = sorted(set(dims) - {*batch, *summed})
        width = rng.choice(SIZES)
        other_shape = (*(shape[d] for d in batch), *(shape[d] for d in summed), width)
        other = self.like(other_shape)
        made = (*(shape[d] for d in batch), *(shape[d] for d in free), width)
        right = list(range(len(other_shape)))
        batching = f"batching_dims = {batch} x {right[: len(batch)]}, " if batch else ""
        contracting = f"contracting_dims = {summed} x {right[len(batch) : -1]}"
        types = f"({tensor(shape)}, {tensor(other_shape)}) -> {tensor(made)}"
        self.add(made, f"stablehlo.dot_general {value}, {other}, {batching}{contracting} : {types}")

    def transpose(self) -> None:
        value, shape = self.pick(2)
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        made = tuple(shape[dim] for dim in order)
        types = f"({tensor(shape)}) -> {tensor(made)}"
        self.add(made, f"stablehlo.transpose {value}, dims = {order} : {types}")

    def reshape(self) -> None:
        value, shape = self.pick(1)
        made = list(shape)
        for _ in range(self.rng.randrange(1, 3)):
            dim = self.rng.randrange(len(made))
            factors = [f for f in (2, 3, 4, 8) if made[dim] % f == 0 and made[dim] > f]
            if factors and self.rng.random() < 0.5 and len(made) < 4:
                factor = self.rng.choice(factors)
                made[dim : dim + 1] = [factor, made[dim] // factor]
            elif dim + 1 < len(made):
                made[dim : dim + 2] = [made[dim] * made[dim + 1]]
            elif len(made) < 4:
                made.insert(dim, 1)
        types = f"({tensor(shape)}) -> {tensor(tuple(made))}"
        self.add(tuple(made), f"stablehlo.reshape {value} : {types}")

    def broadcast(self) -> None:
        value, shape = self.pick()
        if len(shape) > 3:
            return
        place = self.rng.randrange(len(shape) + 1)
        made = (*shape[:place], self.rng.choice(SIZES), *shape[place:])
        dims = [dim if dim < place else dim + 1 for dim in range(len(shape))]
        types = f"({tensor(shape)}) -> {tensor(made)}"
        self.add(made, f"stablehlo.broadcast_in_dim {value}, dims = {dims} : {types}")

    def reduce(self) -> None:
        value, shape = self.pick(1)
        dims = sorted(self.rng.sample(range(len(shape)), self.rng.choice([1, min(2, len(shape))])))
        made = tuple(size for dim, size in enumerate(shape) if dim not in dims)
        zero = self.new()
        self.lines.append(f"{zero} = stablehlo.constant dense<0.0> : tensor<f32>")
        name = self.rng.choice(["add", "maximum"])
        self.add(
            made,
            f"stablehlo.reduce({value} init: {zero}) applies stablehlo.{name} across dimensions = "
            f"{dims} : ({tensor(shape)}, tensor<f32>) -> {tensor(made)}",
        )

    def concatenate(self) -> None:
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        made = tuple(size * 2 if d == dim else size for d, size in enumerate(shape))
        types = f"({tensor(shape)}, {tensor(shape)}) -> {tensor(made)}"
        other = self.like(shape)
        self.add(made, f"stablehlo.concatenate {value}, {other}, dim = {dim} : {types}")

    def slice(self) -> None:
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        end = max(1, shape[dim] // 2)
        made = tuple(end if d == dim else size for d, size in enumerate(shape))
        ranges = ", ".join(f"0:{size}" for size in made)
        self.add(made, f"stablehlo.slice {value} [{ranges}] : ({tensor(shape)}) -> {tensor(made)}")

    def pad(self) -> None:
        value, shape = self.pick(1)
        zero = self.new()
        self.lines.append(f"{zero} = stablehlo.constant dense<0.0> : tensor<f32>")
        dim = self.rng.randrange(len(shape))
        low = [int(d == dim) * shape[dim] for d in range(len(shape))]
        made = tuple(size + low[d] for d, size in enumerate(shape))
        none = [0] * len(shape)
        edges = f"low = {low}, high = {none}, interior = {none}"
        types = f"({tensor(shape)}, tensor<f32>) -> {tensor(made)}"
        self.add(made, f"stablehlo.pad {value}, {zero}, {edges} : {types}")

    def reverse(self) -> None:
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        self.add(shape, f"stablehlo.reverse {value}, dims = [{dim}] : {tensor(shape)}")

    def dynamic_slice(self) -> None:
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        made = tuple(1 if d == dim else size for d, size in enumerate(shape))
        at = self.index()
        indices = ", ".join([at] * len(shape))
        types = ", ".join([tensor(shape), *["tensor<i32>"] * len(shape)])
        sizes = list(made)
        self.add(
            made,
            f"stablehlo.dynamic_slice {value}, {indices}, sizes = {sizes} : ({types}) -> "
            f"{tensor(made)}",
        )

    def dynamic_update_slice(self) -> None:
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        part = tuple(1 if d == dim else size for d, size in enumerate(shape))
        update = self.like(part)
        at = self.index()
        indices = ", ".join([at] * len(shape))
        types = ", ".join([tensor(shape), tensor(part), *["tensor<i32>"] * len(shape)])
        self.add(
            shape,
            f"stablehlo.dynamic_update_slice {value}, {update}, {indices} : ({types}) -> "
            f"{tensor(shape)}",
        )

    def index(self) -> str:
        name = self.new()
        self.lines.append(f"{name} = stablehlo.constant dense<0> : tensor<i32>")
        return name

    def gather(self) -> None:
        value, shape = self.pick(2)
        if len(shape) != 2:
            return
        count = self.rng.choice(SIZES)
        indices = self.new()
        kind = tensor((count, 1), "i32")
        self.lines.append(f"{indices} = stablehlo.iota dim = 0 : {kind}")
        made = (count, shape[1])
        self.add(
            made,
            f'"stablehlo.gather"({value}, {indices}) <{{dimension_numbers = #stablehlo.gather<'
            "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
            f"index_vector_dim = 1>, slice_sizes = array<i64: 1, {shape[1]}>}}> : "
            f"({tensor(shape)}, {kind}) -> {tensor(made)}",
        )

    def sort(self) -> None:
        value, shape = self.pick(1)
        dim = self.rng.randrange(len(shape))
        self.add(
            shape,
            f'"stablehlo.sort"({value}) <{{dimension = {dim} : i64, is_stable = true}}> ({{\n'
            "^bb0(%a: tensor<f32>, %b: tensor<f32>):\n"
            "%c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
            f"stablehlo.return %c : tensor<i1>\n}}) : ({tensor(shape)}) -> {tensor(shape)}",
        )

    def constraint(self) -> None:
        value, shape = self.pick(1)
        said = self.sharding(shape)
        self.add(
            shape,
            f'"sdy.sharding_constraint"({value}) <{{sharding = {said}}}> : ({tensor(shape)}) -> '
            f"{tensor(shape)}",
        )

    def while_loop(self) -> None:
        value, shape = self.pick(1)
        zero, limit, one = self.index(), self.index(), self.index()
        name, saved = self.new(), len(self.values)
        lines, self.lines = self.lines, []
        state = f"%s{self.count}"
        self.values.append((state, shape))
        for _ in range(self.rng.randrange(1, 4)):
            self.rng.choice([self.unary, self.binary, self.dot, self.transpose])()
        found = [each for each, other in self.values[saved:] if other == shape]
        inside, self.lines = self.lines, lines
        del self.values[saved:]
        kind = tensor(shape)
        counter = f"%i{self.count}"
        text = "\n".join(used(inside, [found[-1]]))
        self.lines.append(
            f"{name}:2 = stablehlo.while({counter} = {zero}, {state} = {value}) : "
            f"tensor<i32>, {kind}\ncond {{\n"
            f"%p = stablehlo.compare LT, {counter}, {limit} : "
            "(tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            f"stablehlo.return %p : tensor<i1>\n}} do {{\n{text}\n"
            f"%n = stablehlo.add {counter}, {one} : tensor<i32>\n"
            f"stablehlo.return %n, {found[-1]} : tensor<i32>, {kind}\n}}"
        )
        self.values.append((f"{name}#1", shape))

    def barrier(self) -> None:
        value, shape = self.pick(1)
        self.add(shape, f"stablehlo.optimization_barrier {value} : {tensor(shape)}")


KINDS: list[Callable[[_Program], None]] = [
    *[_Program.unary] * 3,
    *[_Program.binary] * 5,
    *[_Program.dot] * 5,
    *[_Program.transpose] * 2,
    *[_Program.reshape] * 3,
    *[_Program.broadcast] * 2,
    *[_Program.reduce] * 3,
    _Program.select,
    _Program.concatenate,
    _Program.slice,
    _Program.pad,
    _Program.reverse,
    _Program.dynamic_slice,
    _Program.dynamic_update_slice,
    _Program.gather,
    _Program.sort,
    *[_Program.constraint] * 2,
    _Program.while_loop,
    _Program.barrier,
]


def used(lines: list[str], results: list[str]) -> list[str]:
    """The lines that results depend on; Shardy's rewriter drops others, when it comes to them."""
    wanted = {name.partition("#")[0] for name in results}
    kept = []
    for line in reversed(lines):
        made = re.match(r"(%\w+)", line)
        if made and made[1] in wanted:
            kept.append(line)
            wanted |= set(re.findall(r"%\w+", line.partition("=")[2]))
    return kept[::-1]


def random_stablehlo(seed: int) -> str:
    """A module with one function, of some ten to thirty ops."""
    program = _Program(seed)
    rng = program.rng
    arguments = []
    for number in range(rng.randrange(1, 5)):
        shape = tuple(rng.choice(SIZES) for _ in range(rng.choice([1, 2, 2, 2, 3])))
        program.values.append((f"%arg{number}", shape))
        arguments.append((f"%arg{number}: {tensor(shape)}", program.attribute(shape, 0.6)))
    for _ in range(rng.randrange(4, 20)):
        rng.choice(KINDS)(program)
        if prod(program.values[-1][1]) > 1 << 14 or len(program.values[-1][1]) > 4:
            program.values.pop()
    results = [program.values[-1]]
    if rng.random() < 0.4:
        results.append(program.pick())
    types = ", ".join(tensor(shape) for _, shape in results)
    given = [
        f"{tensor(shape)} {{{said}}}" if (said := program.attribute(shape, 0.25)) else tensor(shape)
        for _, shape in results
    ]
    inputs = ", ".join(f"{text} {{{said}}}" if said else text for text, said in arguments)
    body = "\n".join(used(program.lines, [name for name, _ in results]))
    return (
        f'"sdy.mesh"() <{{mesh = #sdy.mesh{program.mesh}, sym_name = "m"}}> : () -> ()\n'
        f"func.func @main({inputs}) -> ({', '.join(given)}) {{\n{body}\n"
        f"return {', '.join(name for name, _ in results)} : {types}\n}}\n"
    )
