"""Random `linalg` programs with upstream's annotations, of ops that its propagation knows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

GRIDS = ("2x2", "2x2x2")
SIZES = (8, 16)
Shape = tuple[int, ...]
UNARY = ("abs", "floor", "negf", "tanh")
BINARY = ("add", "max", "mul", "sub")


def tensor(shape: Shape) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def _affine(loops: int, maps: Sequence[Sequence[int]]) -> str:
    names = [f"d{loop}" for loop in range(loops)]
    one = f"affine_map<({', '.join(names)}) -> ("
    return ", ".join(f"{one}{', '.join(names[loop] for loop in dims)})>" for dims in maps)


class _Program:
    """`values` are those that later ops may take, each with its shape; all are f32.

    A value that is annotated itself is not taken any more, only what the annotation makes of it:
    upstream's way to annotate.
    """

    def __init__(self, seed: int, spelt_out: bool, runs: bool) -> None:
        self.rng = random.Random(seed)
        self.grid = self.rng.choice(GRIDS)
        self.annotated = self.rng.choice((0.1, 0.3, 0.5))
        self.spelt_out = spelt_out
        self.empty = "arith.constant dense<0.5>" if runs else "tensor.empty()"
        self.values: list[tuple[str, Shape]] = []
        self.lines: list[str] = []
        self.count = 0

    # Values

    def new(self) -> str:
        self.count += 1
        return f"%{self.count}"

    def add(self, shape: Shape, text: str) -> str:
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return self.put(name, shape)

    def put(self, name: str, shape: Shape) -> str:
        """Let a value be taken, annotated or not; the name to take it by."""
        if shape and self.rng.random() < self.annotated:
            name = self.annotate(name, shape, "")
        self.values.append((name, shape))
        if shape and self.rng.random() < self.annotated:
            for_users = self.annotate(name, shape, " annotate_for_users")
            self.values.append((for_users, shape))
            name = self.rng.choice([name, for_users])
        return name

    def annotate(self, name: str, shape: Shape, how: str) -> str:
        sharding, made = self.new(), self.new()
        axes = list(range(self.grid.count("x") + 1))
        self.rng.shuffle(axes)
        dims: list[list[int]] = [[] for _ in shape]
        for dim in self.rng.sample(range(len(shape)), len(shape)):
            while axes and self.rng.random() < 0.45:
                dims[dim].append(axes.pop())
        while len(dims) > 1 and not dims[-1] and not self.spelt_out:
            dims.pop()
        self.lines += [
            f"{sharding} = shard.sharding @g split_axes = {dims} : !shard.sharding",
            f"{made} = shard.shard {name} to {sharding}{how} : {tensor(shape)}",
        ]
        return made

    def pick(self, least: int = 0) -> tuple[str, Shape]:
        found = [each for each in self.values if len(each[1]) >= least]
        recent = found[-6:] if self.rng.random() < 0.7 else found
        return self.rng.choice(recent or self.values)

    def like(self, shape: Shape) -> str:
        """A value of this shape, made if there is none."""
        found = [name for name, other in self.values if other == shape]
        if found and self.rng.random() < 0.8:
            return self.rng.choice(found)
        return self.start(shape)

    def start(self, shape: Shape) -> str:
        """What results start from."""
        kind = self.rng.randrange(4)
        if kind == 0:
            return self.add(shape, f"arith.constant dense<1.0> : {tensor(shape)}")
        if kind == 1:
            return self.add(shape, f"tensor.splat %quarter : {tensor(shape)}")
        empty = self.add(shape, f"{self.empty} : {tensor(shape)}")
        if kind == 2:
            return empty
        outs = f"outs({empty} : {tensor(shape)}) -> {tensor(shape)}"
        return self.add(shape, f"linalg.fill ins(%quarter : f32) {outs}")

    # Ops

    def named(self, name: str, operands: Sequence[tuple[str, Shape]], made: Shape) -> None:
        ins = ", ".join(value for value, _ in operands)
        types = ", ".join(tensor(shape) for _, shape in operands)
        outs = f"outs({self.like(made)} : {tensor(made)}) -> {tensor(made)}"
        self.add(made, f"linalg.{name} ins({ins} : {types}) {outs}")

    def unary(self) -> None:
        value, shape = self.pick()
        self.named(self.rng.choice(UNARY), [(value, shape)], shape)

    def binary(self) -> None:
        value, shape = self.pick()
        pair = [(value, shape), (self.like(shape), shape)]
        self.rng.shuffle(pair)
        self.named(self.rng.choice(BINARY), pair, shape)

    def matmul(self) -> None:
        value, shape = self.pick(2)
        name = {2: "matmul", 3: "batch_matmul"}.get(len(shape))
        if name is not None:
            right = (*shape[:-2], shape[-1], self.rng.choice(SIZES))
            operands = [(value, shape), (self.like(right), right)]
            self.named(name, operands, (*shape[:-1], right[-1]))

    def transpose(self) -> None:
        value, shape = self.pick(2)
        if not shape:  # the parser crashes
            return
        order = self.rng.sample(range(len(shape)), len(shape))
        made = tuple(shape[dim] for dim in order)
        outs = f"outs({self.like(made)} : {tensor(made)}) permutation = {order}"
        self.add(made, f"linalg.transpose ins({value} : {tensor(shape)}) {outs}")

    def broadcast(self) -> None:
        value, shape = self.pick()
        if len(shape) > 2:
            return
        dim = self.rng.randrange(len(shape) + 1)
        made = (*shape[:dim], self.rng.choice(SIZES), *shape[dim:])
        outs = f"outs({self.like(made)} : {tensor(made)}) dimensions = [{dim}]"
        self.add(made, f"linalg.broadcast ins({value} : {tensor(shape)}) {outs}")

    def reduce(self) -> None:
        value, shape = self.pick(1)
        if not shape:
            return
        dims = sorted(self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape))))
        made = tuple(size for dim, size in enumerate(shape) if dim not in dims)
        outs = f"outs({self.like(made)} : {tensor(made)}) dimensions = {dims}"
        self.add(made, f"linalg.reduce {{ arith.addf }} ins({value} : {tensor(shape)}) {outs}")

    def generic(self) -> None:
        """One or two results, up to three operands, each along some of up to four loops."""
        rng = self.rng
        loops = rng.randint(1, 4)
        reduced = rng.randint(0, min(2, loops - 1))
        sizes = [rng.choice(SIZES) for _ in range(loops)]
        parallel = list(range(loops - reduced))
        ins = [rng.sample(range(loops), rng.randint(0, min(3, loops))) for _ in range(3)]
        ins = [range(loops), *ins] if reduced else ins[: rng.randint(1, 3)]
        outs = [rng.sample(parallel, len(parallel)) for _ in range(rng.choice([1, 1, 2]))]
        shapes = [tuple(sizes[loop] for loop in dims) for dims in (*ins, *outs)]
        names = [self.like(shape) for shape in shapes]
        kinds = ["parallel"] * len(parallel) + ["reduction"] * reduced
        types = [tensor(shape) for shape in shapes]
        first = len(ins)
        made = [self.new() for _ in outs]
        arguments = ", ".join(f"%i{place}: f32" for place in range(len(names)))
        body = [
            f"%m{place} = arith.addf %i0, %i{first + place} : f32" for place in range(len(made))
        ]
        iterators = ", ".join(f'"{kind}"' for kind in kinds)
        results = ", ".join(f"%m{place}" for place in range(len(made)))
        self.lines.append(
            f"{', '.join(made)} = linalg.generic "
            f"{{indexing_maps = [{_affine(loops, (*ins, *outs))}], "
            f"iterator_types = [{iterators}]}} "
            f"ins({', '.join(names[:first])} : {', '.join(types[:first])}) "
            f"outs({', '.join(names[first:])} : {', '.join(types[first:])}) {{\n"
            f"^bb0({arguments}):\n" + "\n".join(body) + "\n"
            f"linalg.yield {results} : {', '.join(['f32'] * len(made))}\n"
            f"}} -> ({', '.join(types[first:])})"
        )
        for name, shape in zip(made, shapes[first:], strict=True):
            self.put(name, shape)


KINDS: list[Callable[[_Program], None]] = [
    *[_Program.unary] * 2,
    *[_Program.binary] * 4,
    *[_Program.matmul] * 4,
    *[_Program.transpose] * 2,
    _Program.broadcast,
    *[_Program.reduce] * 2,
    *[_Program.generic] * 3,
]


def random_linalg(seed: int, spelt_out: bool = False, runs: bool = False) -> str:
    """A module with one function, of some five to thirty ops; it returns what has no other use.

    With `spelt_out`, annotations name trailing dimensions without axes too. One that `runs` reads
    no `tensor.empty`.
    """
    program = _Program(seed, spelt_out, runs)
    rng = program.rng
    arguments = []
    for number in range(rng.randint(1, 4)):
        shape = tuple(rng.choice(SIZES) for _ in range(rng.choice([1, 2, 2, 3])))
        arguments.append(f"%arg{number}: {tensor(shape)}")
        program.put(f"%arg{number}", shape)
    for _ in range(rng.randint(3, 12)):
        rng.choice(KINDS)(program)
    text = "\n".join(program.lines)
    words = text.replace(",", " ").replace(")", " ").replace(":", " ").split()
    unused = [each for each in program.values if words.count(each[0]) == 1] or program.values[-1:]
    types = ", ".join(tensor(shape) for _, shape in unused)
    return (
        f"shard.grid @g(shape = {program.grid})\n"
        f"func.func @main({', '.join(arguments)}) -> ({types}) {{\n"
        f"%quarter = arith.constant 0.25 : f32\n{text}\n"
        f"return {', '.join(name for name, _ in unused)} : {types}\n}}\n"
    )
