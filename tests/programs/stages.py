"""Random programs whose ops are spread over the stages of a pipeline, as text."""

import random
from dataclasses import dataclass, field

GRIDS = ((2,), (3,), (2, 2), (3, 2), (2, 4), (2, 2, 2))
SIZE = 24
"""Divided by all devices of a stage."""
TYPE = f"tensor<{SIZE}x{SIZE}xf32>"


@dataclass
class Staged:
    """A function under construction: the values that each stage has."""

    draw: random.Random
    grid: tuple[int, ...]
    axis: int
    values: list[list[str]]
    lines: list[str] = field(default_factory=list)
    count: int = 0
    said: set[str] = field(default_factory=set)
    """Values of which something is said: a second word would have to agree."""

    def emit(self, stage: int, text: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        self.values[stage].append(name)
        return name

    def sharding(self, stage: int, lists: str = "") -> str:
        """A split of rows and columns among the devices of a stage, or none."""
        axes = [axis for axis in range(len(self.grid)) if axis != self.axis]
        rows = [axis for axis in axes if self.draw.random() < 0.4]
        columns = [axis for axis in axes if axis not in rows and self.draw.random() < 0.6]
        return f"#mesh.shard<@s{stage}, [{rows}, {columns}{lists}]>"

    def step(self) -> None:
        having = [stage for stage, values in enumerate(self.values) if values]
        stage = self.draw.choice(having)
        self.draw.choice((_binary, _binary, _product, _repeated, _annotated, _passed, _passed))(
            self, stage
        )


def _binary(program: Staged, stage: int) -> None:
    a, b = (program.draw.choice([*program.values[stage], "%half"]) for _ in range(2))
    if a != b or a != "%half":
        name = program.draw.choice(("add", "subtract", "multiply", "maximum"))
        program.emit(stage, f"stablehlo.{name} {a}, {b} : {TYPE}")


def _product(program: Staged, stage: int) -> None:
    a, b = (program.draw.choice(program.values[stage]) for _ in range(2))
    made = f"stablehlo.dot_general {a}, {b}, contracting_dims = [1] x [0]"
    product = program.emit(stage, f"{made} : ({TYPE}, {TYPE}) -> {TYPE}")
    program.emit(stage, f"stablehlo.tanh {product} : {TYPE}")


def _repeated(program: Staged, stage: int) -> None:
    a, b = (program.draw.choice(program.values[stage]) for _ in range(2))
    program.emit(
        stage,
        f"scf.for %i = %c0 to %c3 step %c1 iter_args(%r = {a}) -> ({TYPE}) {{\n"
        f"    %m = stablehlo.multiply %r, {b} : {TYPE}\n    scf.yield %m : {TYPE}\n  }}",
    )


def _annotated(program: Staged, stage: int) -> None:
    value = program.draw.choice(program.values[stage])
    is_of_users = program.draw.random() < 0.7 or value in program.said
    as_result = "as_result = false, " if is_of_users else ""
    made = program.emit(
        stage,
        f'"mesh.annotate"({value}) {{{as_result}sharding = {program.sharding(stage)}}} '
        f": ({TYPE}) -> {TYPE}",
    )
    program.said |= {made, value}


def _passed(program: Staged, stage: int) -> None:
    value = program.draw.choice(program.values[stage])
    others = [other for other in range(len(program.values)) if other != stage]
    target = program.draw.choice(others)
    if program.draw.random() < 0.5:
        text = f'"mesh.collective_permute"({value}) {{cluster = @s{target}}}'
    else:
        sharding = program.sharding(target)
        text = f'"mesh.annotate"({value}) {{as_result = false, sharding = {sharding}}}'
    program.said.add(program.emit(target, f"{text} : ({TYPE}) -> {TYPE}"))


def staged_program(seed: int) -> str:
    """A module with a function `main` of up to three stages."""
    draw = random.Random(seed)
    grid = draw.choice(GRIDS)
    axis = draw.choice([axis for axis, size in enumerate(grid) if size < 4])
    count = grid[axis]
    stages = draw.sample(range(count), draw.randint(2, min(3, count)))
    program = Staged(draw, grid, axis, [[] for _ in stages])
    arguments = []
    for number in range(draw.randint(1, 4)):
        stage = draw.randrange(len(stages)) if number else 0
        program.values[stage].append(f"%a{number}")
        program.said.add(f"%a{number}")
        is_open = ", {open = [0, 1]}" if draw.random() < 0.5 else ""
        sharding = program.sharding(stage, is_open)
        arguments.append(f"%a{number}: {TYPE} {{mesh.sharding = {sharding}}}")
    for _ in range(draw.randint(4, 12)):
        program.step()
    made = [value for values in program.values for value in values[-1:]]
    returned = draw.sample(made, draw.randint(1, len(made)))
    offsets = ([at if other == axis else 0 for other in range(len(grid))] for at in stages)
    sizes = [1 if other == axis else size for other, size in enumerate(grid)]
    return "\n".join(
        [
            f'"mesh.cluster"() {{sym_name = "g", rank = {len(grid)} : i64, '
            f"dim_sizes = {list(grid)}}} : () -> ()",
            *(
                f'"mesh.sub_cluster"() {{sym_name = "s{number}", cluster = @g, '
                f"offsets = {offset}, sizes = {sizes}}} : () -> ()"
                for number, offset in enumerate(offsets)
            ),
            f"func.func @main({', '.join(arguments)}) -> ({', '.join([TYPE] * len(returned))}) {{",
            f"  %half = stablehlo.constant dense<0.5> : {TYPE}",
            *(f"  %c{number} = arith.constant {number} : index" for number in (0, 1, 3)),
            *program.lines,
            f"  return {', '.join(returned)} : {', '.join([TYPE] * len(returned))}",
            "}",
        ]
    )
