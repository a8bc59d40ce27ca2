"""Random linalg programs with loops, branches, blocks and calls, annotated anywhere, as text."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.programs.annotated import GRIDS, Program, Shape, tensor
from tests.programs.annotated import OPS as PLAIN

SIZE = 12
DEEPEST = 2


class FlowProgram(Program):
    """`depth` is the number of regions around; `functions` may be called."""

    def __init__(self, draw: random.Random, grid: tuple[int, ...]) -> None:
        super().__init__(draw, grid)
        self.depth = 0
        self.functions: list[tuple[str, list[Shape], Shape]] = []

    def shaped(self, shape: Shape) -> str:
        """A value of this shape."""
        same = [name for name, other in self.values if other == shape]
        return self.draw.choice(same[-3:]) if same else self.init(shape, "0.5")

    def flag(self) -> str:
        """An i1 that depends on data."""
        name, shape = self.draw.choice(self.values)
        at = [self.index(self.draw.randrange(size)) for size in shape]
        element = self.emit(f"tensor.extract {name}[{', '.join(at)}] : {tensor(shape)}")
        limit = self.emit("arith.constant 0.11 : f32")
        return self.emit(f"arith.cmpf olt, {element}, {limit} : f32")

    def index(self, number: int) -> str:
        return self.emit(f"arith.constant {number} : index")

    def region(
        self, shapes: list[Shape], given: list[tuple[str, Shape]]
    ) -> tuple[list[str], list[str]]:
        """The lines of a region, and values of these shapes to end it with."""
        lines, values = self.lines, list(self.values)
        self.lines = []
        self.values += given
        self.depth += 1
        for _ in range(self.draw.randint(1, 3)):
            self.draw.choice(OPS if self.depth <= DEEPEST else PLAIN)(self)
        results = [self.shaped(shape) for shape in shapes]
        self.depth -= 1
        inside, self.lines, self.values = self.lines, lines, values
        self.annotated.setdefault(values[-1][0], "")  # inside, perhaps
        return inside, results

    def carried(self) -> list[tuple[str, Shape]]:
        return [self.draw.choice(self.values) for _ in range(self.draw.choice([1, 1, 2]))]

    def results(self, name: str, shapes: list[Shape]) -> None:
        several = len(shapes) > 1
        self.values += [
            (f"{name}#{place}" if several else name, shape) for place, shape in enumerate(shapes)
        ]


def _types(shapes: list[Shape]) -> str:
    return ", ".join(map(tensor, shapes))


def _fresh(program: FlowProgram) -> str:
    program.count += 1
    return f"%v{program.count - 1}"


def _named(name: str, shapes: list[Shape]) -> str:
    return f"{name}:{len(shapes)}" if len(shapes) > 1 else name


def for_loop(program: FlowProgram) -> None:
    inits = program.carried()
    shapes = [shape for _, shape in inits]
    low, high, step = (program.index(number) for number in (0, program.draw.randrange(4), 1))
    names = [_fresh(program) for _ in inits]
    inside, found = program.region(shapes, list(zip(names, shapes, strict=True)))
    name = _fresh(program)
    pairs = ", ".join(f"{a} = {b}" for a, (b, _) in zip(names, inits, strict=True))
    program.lines += [
        f"  {_named(name, shapes)} = scf.for {_fresh(program)} = {low} to {high} step {step} "
        f"iter_args({pairs}) -> ({_types(shapes)}) {{",
        *inside,
        f"  scf.yield {', '.join(found)} : {_types(shapes)}",
        "  }",
    ]
    program.results(name, shapes)


def while_loop(program: FlowProgram) -> None:
    """What the condition passes on is not what comes around."""
    inits, passed = program.carried(), [shape for _, shape in program.carried()]
    shapes = [shape for _, shape in inits]
    zero = program.emit("arith.constant 0 : i32")
    limit = program.emit(f"arith.constant {program.draw.randrange(4)} : i32")
    one = program.emit("arith.constant 1 : i32")
    names = [_fresh(program) for _ in inits]
    counter = _fresh(program)
    before, found = program.region(passed, list(zip(names, shapes, strict=True)))
    arguments = [_fresh(program) for _ in passed]
    number = _fresh(program)
    after, back = program.region(shapes, list(zip(arguments, passed, strict=True)))
    name, flag, more = _fresh(program), _fresh(program), _fresh(program)
    pairs = ", ".join(f"{a} = {b}" for a, (b, _) in zip(names, inits, strict=True))
    blocks = ", ".join(f"{a}: {tensor(b)}" for a, b in zip(arguments, passed, strict=True))
    program.lines += [
        f"  {name}:{1 + len(passed)} = scf.while ({counter} = {zero}, {pairs}) : "
        f"(i32, {_types(shapes)}) -> (i32, {_types(passed)}) {{",
        *before,
        f"  {flag} = arith.cmpi slt, {counter}, {limit} : i32",
        f"  scf.condition({flag}) {counter}, {', '.join(found)} : i32, {_types(passed)}",
        "  } do {",
        f"  ^bb0({number}: i32, {blocks}):",
        *after,
        f"  {more} = arith.addi {number}, {one} : i32",
        f"  scf.yield {more}, {', '.join(back)} : i32, {_types(shapes)}",
        "  }",
    ]
    program.values += [(f"{name}#{1 + place}", shape) for place, shape in enumerate(passed)]


def branch(program: FlowProgram) -> None:
    shapes = [shape for _, shape in program.carried()]
    flag = program.flag()
    if program.draw.random() < 0.1:
        inside, _ = program.region([], [])
        program.lines += [f"  scf.if {flag} {{", *inside, "  }"]
        return
    (then, first), (otherwise, second) = (program.region(shapes, []) for _ in range(2))
    name = _fresh(program)
    program.lines += [
        f"  {_named(name, shapes)} = scf.if {flag} -> ({_types(shapes)}) {{",
        *then,
        f"  scf.yield {', '.join(first)} : {_types(shapes)}",
        "  } else {",
        *otherwise,
        f"  scf.yield {', '.join(second)} : {_types(shapes)}",
        "  }",
    ]
    program.results(name, shapes)


def switch(program: FlowProgram) -> None:
    shapes = [shape for _, shape in program.carried()]
    wide = program.emit(f"arith.extui {program.flag()} : i1 to i32")
    which = program.emit(f"arith.index_cast {wide} : i32 to index")
    name = _fresh(program)
    lines = [f"  {_named(name, shapes)} = scf.index_switch {which} -> {_types(shapes)}"]
    for case in ("case 0", "case 1", "case 7", "default")[program.draw.randrange(3) :]:
        inside, found = program.region(shapes, [])
        lines += [
            f"  {case} {{",
            *inside,
            f"  scf.yield {', '.join(found)} : {_types(shapes)}",
            "  }",
        ]
    program.lines += lines
    program.results(name, shapes)


def blocks(program: FlowProgram) -> None:
    """A region of blocks: a diamond, whose branches carry values, and perhaps a loop."""
    carried = program.carried()
    shapes = [shape for _, shape in carried]
    flag = program.flag()
    name, first = _fresh(program), _fresh(program)
    label = first[1:]
    given = [_fresh(program) for _ in shapes]
    left, from_left = program.region(shapes, [])
    right, from_right = program.region(shapes, list(zip(given, shapes, strict=True)))
    ends = [_fresh(program) for _ in shapes]
    end, out = program.region(shapes, list(zip(ends, shapes, strict=True)))

    def passed(names: list[str]) -> str:
        return f"{', '.join(names)} : {_types(shapes)}"

    def taken(names: list[str]) -> str:
        return ", ".join(f"{a}: {tensor(b)}" for a, b in zip(names, shapes, strict=True))

    to_right = passed([name for name, _ in carried])
    parts = [
        [f"^l{label}:", *left, f"  cf.br ^e{label}({passed(from_left)})"],
        [f"^r{label}({taken(given)}):", *right, f"  cf.br ^e{label}({passed(from_right)})"],
        [f"^e{label}({taken(ends)}):", *end, f"  scf.yield {passed(out)}"],
    ]
    program.draw.shuffle(parts)
    program.lines += [
        f"  {_named(name, shapes)} = scf.execute_region -> ({_types(shapes)}) {{",
        f"  cf.cond_br {flag}, ^l{label}, ^r{label}({to_right})",
        *(line for part in parts for line in part),
        "  }",
    ]
    program.results(name, shapes)


def call(program: FlowProgram) -> None:
    if not program.functions:
        return
    name, shapes, made = program.draw.choice(program.functions)
    operands = [program.shaped(shape) for shape in shapes]
    program.define(
        f"func.call @{name}({', '.join(operands)}) : ({_types(shapes)}) -> {tensor(made)}", made
    )


def tame(program: FlowProgram) -> None:
    name, shape = program.values[-1]
    program.define(f"math.tanh {name} : {tensor(shape)}", shape)


def slices(program: FlowProgram) -> None:
    """A part of a tensor, taken out or put in, perhaps at a place that is computed."""
    name, shape = program.draw.choice(program.values)
    half = tuple(size // 2 for size in shape)
    at = ", ".join("0" if program.draw.random() < 0.5 else str(size // 2) for size in shape)
    sizes, steps = ", ".join(map(str, half)), ", ".join("1" for _ in shape)
    part = program.emit(
        f"tensor.extract_slice {name}[{at}] [{sizes}] [{steps}] : {tensor(shape)} to {tensor(half)}"
    )
    sine = program.emit(f"math.sin {part} : {tensor(half)}")
    program.define(
        f"tensor.insert_slice {sine} into {name}[{at}] [{sizes}] [{steps}] : {tensor(half)} into "
        f"{tensor(shape)}",
        shape,
    )


def forall(program: FlowProgram) -> None:
    name, shape = program.draw.choice(program.values)
    if len(shape) != 2:
        return
    init = program.shaped(shape)
    made, at, shared, row, sine = (_fresh(program) for _ in range(5))
    part = (1, shape[1])
    place = f"[{at}, 0] [1, {shape[1]}] [1, 1]"
    program.lines += [
        f"  {made} = scf.forall ({at}) in ({shape[0]}) shared_outs({shared} = {init}) -> "
        f"({tensor(shape)}) {{",
        f"  {row} = tensor.extract_slice {name}{place} : {tensor(shape)} to {tensor(part)}",
        f"  {sine} = math.sin {row} : {tensor(part)}",
        "  scf.forall.in_parallel {",
        f"  tensor.parallel_insert_slice {sine} into {shared}{place} : {tensor(part)} into "
        f"{tensor(shape)}",
        "  }",
        "  }",
    ]
    program.values.append((made, shape))


FLOWS: list[Callable[[FlowProgram], None]] = [
    *[for_loop] * 3,
    *[while_loop] * 2,
    *[branch] * 2,
    switch,
    *[blocks] * 2,
    *[call] * 2,
    *[tame] * 2,
    slices,
    forall,
]
OPS: list[Callable[..., None]] = [*PLAIN, *FLOWS]


def _function(program: FlowProgram, name: str, count: int) -> list[str]:
    """The lines of a function; in `main` some ops may stand in blocks of their own."""
    draw = program.draw
    program.lines, program.values, program.annotated = [], [], {}
    arguments, shapes = [], []
    for _ in range(draw.randint(1, 3)):
        shape = tuple(draw.choice([SIZE, SIZE, 24]) for _ in range(draw.choice([1, 2, 2])))
        value = _fresh(program)
        arguments.append(f"{value}: {tensor(shape)}")
        shapes.append(shape)
        program.values.append((value, shape))
        if draw.random() < 0.5:
            OPS[0](program)
    for _ in range(count):
        draw.choice(OPS)(program)
    results = [program.values[-1]]
    if name == "main":
        results += draw.sample(program.values, draw.randint(0, 1))
    private = "private " if name != "main" and draw.random() < 0.8 else ""
    types = _types([shape for _, shape in results])
    program.functions.append((name, shapes, results[0][1]))
    return [
        f"func.func {private}@{name}({', '.join(arguments)}) -> ({types}) {{",
        *program.lines,
        f"  return {', '.join(value for value, _ in results)} : {types}",
        "}",
    ]


def random_flow_program(seed: int) -> str:
    """A module with a function `main`, and functions that it and each other call."""
    draw = random.Random(seed)
    program = FlowProgram(draw, draw.choice(GRIDS))
    lines = []
    for number in range(draw.choice([0, 0, 1, 2])):
        lines += _function(program, f"f{number}", draw.randint(1, 3))
    lines += _function(program, "main", draw.randint(3, 8))
    return "\n".join(
        [
            "#row = affine_map<(i, j) -> (i)>",
            "#id = affine_map<(i, j) -> (i, j)>",
            "#mk = affine_map<(m, n, k) -> (m, k)>",
            "#nk = affine_map<(m, n, k) -> (n, k)>",
            "#nm = affine_map<(m, n, k) -> (n, m)>",
            f"shard.grid @g(shape = {'x'.join(map(str, program.grid))})",
            *lines,
            "",
        ]
    )
