"""Random annotated programs, as text."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

GRIDS = ((2,), (4,), (2, 2), (2, 3), (1, 2), (2, 2, 2))
SIZES = (12, 24)
"""Divided by the axes of every grid, and mostly by several together."""
FOR_USERS = " annotate_for_users"

Shape = tuple[int, ...]


@dataclass
class Program:
    """A function under construction: its lines, and the tensors that there are."""

    draw: random.Random
    grid: tuple[int, ...]
    lines: list[str] = field(default_factory=list)
    values: list[tuple[str, Shape]] = field(default_factory=list)
    annotated: dict[str, str] = field(default_factory=dict)
    """Results of annotations: whether they are for users."""
    count: int = 0

    def emit(self, text: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def define(self, text: str, shape: Shape) -> None:
        self.values.append((self.emit(text), shape))

    def any_value(self, rank: int | None = None) -> tuple[str, Shape] | None:
        fitting = [value for value in self.values if rank in (None, len(value[1]))]
        return self.draw.choice(fitting) if fitting else None

    def init(self, shape: Shape, value: str = "0.0") -> str:
        """A filled tensor, or one that was computed, or an argument: reductions start from it."""
        same = [name for name, other in self.values if other == shape]
        if same and self.draw.random() < 0.3:
            return self.draw.choice(same)
        if self.draw.random() < 0.2:
            value = "2.0"
        scalar = self.emit(f"arith.constant {value} : f32")
        empty = self.emit(f"tensor.empty() : {tensor(shape)}")
        return self.emit(
            f"linalg.fill ins({scalar} : f32) outs({empty} : {tensor(shape)}) -> {tensor(shape)}"
        )


def tensor(shape: Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def random_program(seed: int) -> str:
    """A module with a function `main` of two to four arguments and three to eight ops."""
    draw = random.Random(seed)
    program = Program(draw, draw.choice(GRIDS))
    arguments = []
    for number in range(draw.randint(2, 4)):
        shape = tuple(draw.choice(SIZES) for _ in range(2))
        arguments.append(f"%a{number}: {tensor(shape)}")
        program.values.append((f"%a{number}", shape))
        if draw.random() < 0.6:
            annotate(program)
    for _ in range(draw.randint(3, 8)):
        draw.choice(OPS)(program)
    results = [program.values[-1], *draw.sample(program.values, draw.randint(0, 1))]
    types = ", ".join(tensor(shape) for _, shape in results)
    names = ", ".join(name for name, _ in results)
    return "\n".join(
        [
            "#row = affine_map<(i, j) -> (i)>",
            "#id = affine_map<(i, j) -> (i, j)>",
            "#mk = affine_map<(m, n, k) -> (m, k)>",
            "#nk = affine_map<(m, n, k) -> (n, k)>",
            "#nm = affine_map<(m, n, k) -> (n, m)>",
            f"shard.grid @g(shape = {'x'.join(map(str, program.grid))})",
            f"func.func @main({', '.join(arguments)}) -> ({types}) {{",
            *program.lines,
            f"  return {names} : {types}",
            "}\n",
        ]
    )


def annotate(program: Program) -> None:
    """Say how the newest value lies, for itself or for its users; what has been said stays so."""
    name, shape = program.values[-1]
    said = program.annotated.get(name)
    if said == FOR_USERS:
        return
    axes = list(range(len(program.grid)))
    program.draw.shuffle(axes)
    split: list[list[int]] = [[] for _ in shape]
    for axis in axes:
        if program.draw.random() < 0.7:
            dim = program.draw.randrange(len(shape))
            devices = program.grid[axis]
            for other in split[dim]:
                devices *= program.grid[other]
            if shape[dim] % devices == 0:
                split[dim].append(axis)
    lies = program.emit(f"shard.sharding @g split_axes = {split} : !shard.sharding")
    for_users = FOR_USERS if said is not None else program.draw.choice(["", FOR_USERS])
    program.define(f"shard.shard {name} to {lies}{for_users} : {tensor(shape)}", shape)
    program.annotated[program.values[-1][0]] = for_users


def matmul(program: Program) -> None:
    pairs = [
        (a, b)
        for a in program.values
        for b in program.values
        if len(a[1]) == len(b[1]) == 2 and a[1][1] == b[1][0]
    ]
    if not pairs:
        return
    (a, a_shape), (b, b_shape) = program.draw.choice(pairs)
    shape = (a_shape[0], b_shape[1])
    init = program.init(shape)
    program.define(
        f"linalg.matmul ins({a}, {b} : {tensor(a_shape)}, {tensor(b_shape)}) "
        f"outs({init} : {tensor(shape)}) -> {tensor(shape)}",
        shape,
    )


def contract_transposed(program: Program) -> None:
    """c[n, m] += a[m, k] b[n, k]."""
    pairs = [
        (a, b)
        for a in program.values
        for b in program.values
        if len(a[1]) == len(b[1]) == 2 and a[1][1] == b[1][1]
    ]
    if not pairs:
        return
    (a, a_shape), (b, b_shape) = program.draw.choice(pairs)
    shape = (b_shape[0], a_shape[0])
    init = program.init(shape)
    program.define(
        f"linalg.contract indexing_maps = [#mk, #nk, #nm] "
        f"ins({a}, {b} : {tensor(a_shape)}, {tensor(b_shape)}) "
        f"outs({init} : {tensor(shape)}) -> {tensor(shape)}",
        shape,
    )


def unary(program: Program) -> None:
    name, shape = program.draw.choice(program.values)
    function = program.draw.choice(["tanh", "absf", "sin"])
    program.define(f"math.{function} {name} : {tensor(shape)}", shape)


def binary(program: Program) -> None:
    name, shape = program.draw.choice(program.values)
    other = program.draw.choice([each for each, of in program.values if of == shape])
    function = program.draw.choice(["addf", "mulf", "maximumf", "subf"])
    program.define(f"arith.{function} {name}, {other} : {tensor(shape)}", shape)


def with_constant(program: Program) -> None:
    name, shape = program.draw.choice(program.values)
    splat = program.emit(f"arith.constant dense<0.5> : {tensor(shape)}")
    program.define(f"arith.mulf {name}, {splat} : {tensor(shape)}", shape)


def transpose(program: Program) -> None:
    found = program.any_value(2)
    if found is None:
        return
    name, shape = found
    turned = (shape[1], shape[0])
    empty = program.emit(f"tensor.empty() : {tensor(turned)}")
    program.define(
        f"linalg.transpose ins({name} : {tensor(shape)}) outs({empty} : {tensor(turned)}) "
        "permutation = [1, 0]",
        turned,
    )


def reduce(program: Program) -> None:
    found = program.any_value(2)
    if found is None:
        return
    name, shape = found
    dim = program.draw.randrange(2)
    rest = (shape[1 - dim],)
    combiner, identity = program.draw.choice(
        [("addf", "0.0"), ("maximumf", "0xFF800000"), ("minimumf", "1.0"), ("mulf", "1.0")]
    )
    init = program.init(rest, identity)
    program.define(
        f"linalg.reduce {{arith.{combiner}}} ins({name} : {tensor(shape)}) "
        f"outs({init} : {tensor(rest)}) dimensions = [{dim}]",
        rest,
    )


def broadcast(program: Program) -> None:
    found = program.any_value(1)
    if found is None:
        return
    name, shape = found
    dim = program.draw.randrange(2)
    size = program.draw.choice(SIZES)
    wide = (size, *shape) if dim == 0 else (*shape, size)
    empty = program.emit(f"tensor.empty() : {tensor(wide)}")
    program.define(
        f"linalg.broadcast ins({name} : {tensor(shape)}) outs({empty} : {tensor(wide)}) "
        f"dimensions = [{dim}]",
        wide,
    )


def row_index(program: Program) -> None:
    """A generic op that reads one of its indices."""
    found = program.any_value(2)
    if found is None:
        return
    name, shape = found
    empty = program.emit(f"tensor.empty() : {tensor(shape)}")
    program.define(
        "linalg.generic {indexing_maps = [#id, #id], iterator_types = "
        f'["parallel", "parallel"]}} ins({name} : {tensor(shape)}) '
        f"outs({empty} : {tensor(shape)}) {{\n"
        "  ^bb0(%in: f32, %out: f32):\n"
        f"    %i = linalg.index {program.draw.randrange(2)} : index\n"
        "    %w = arith.index_cast %i : index to i32\n"
        "    %f = arith.sitofp %w : i32 to f32\n"
        "    %s = arith.addf %in, %f : f32\n"
        "    linalg.yield %s : f32\n"
        f"  }} -> {tensor(shape)}",
        shape,
    )


def without_rule(program: Program) -> None:
    name, shape = program.draw.choice(program.values)
    program.define(f"tensor.cast {name} : {tensor(shape)} to {tensor(shape)}", shape)


OPS: list[Callable[[Program], None]] = [
    annotate,
    annotate,
    matmul,
    matmul,
    contract_transposed,
    unary,
    binary,
    binary,
    with_constant,
    transpose,
    reduce,
    reduce,
    broadcast,
    row_index,
    without_rule,
]
