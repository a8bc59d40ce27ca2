"""Random programs whose ops are spread over the stages of a pipeline, as text."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from operator import add, le, sub
from random import Random

from shard_dialect.errors import as_symbol

STAGED = frozenset(
    f"stablehlo.{name}"
    for name in ("add", "dot_general", "maximum", "multiply", "sine", "subtract", "tanh")
)
"""The ops of these programs, besides `scf.for` and calls."""
_Part = tuple[list[int], list[int]]
"""Offsets and sizes of a box of devices."""
GRIDS = ((2,), (3,), (4,), (2, 2), (3, 2), (2, 4), (2, 2, 2), (8,), (6,), (6, 2), (5,))
SIZE = 24
"""Divided by all devices of a stage."""
TYPE = f"tensor<{SIZE}x{SIZE}xf32>"


@dataclass
class Staged:
    """A function under construction: the values that each stage has."""

    draw: Random
    parts: list[_Part]
    """The offsets and sizes of each stage; the last one is the whole grid."""
    values: list[list[str]]
    lines: list[str] = field(default_factory=list)
    count: int = 0
    functions: list[str] = field(default_factory=list)
    """Functions that are called."""
    lands: list[int | None] = field(default_factory=list)
    """The stage on which each function's result is; `None` where it is that of the argument."""
    said: set[str] = field(default_factory=set)
    """Values of which something is said: a second word would have to agree."""

    def emit(self, stage: int, text: str) -> str:
        """Add an op of a stage; returns the name of its result."""
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        self.values[stage].append(name)
        return name

    def sharding(self, stage: int, lists: str = "") -> str:
        """A split of rows and columns among the devices of a stage, or none."""
        axes = [axis for axis, size in enumerate(self.parts[stage][1]) if size > 1]
        rows = [axis for axis in axes if self.draw.random() < 0.4]
        columns = [axis for axis in axes if axis not in rows and self.draw.random() < 0.6]
        return f"#mesh.shard<{as_symbol(self.name(stage))}, [{rows}, {columns}{lists}]>"

    def name(self, stage: int) -> str:
        """The name of a stage, or of the grid."""
        return "g" if stage == len(self.parts) - 1 else f"s{stage}"

    def step(self) -> None:
        """Add one or more ops on a stage that has values."""
        having = [stage for stage, values in enumerate(self.values) if values]
        stage = self.draw.choice(having)
        self.draw.choice(_STEPS)(self, stage)


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


def _scaled(program: Staged, stage: int) -> None:
    """A constant times an element, which the op reads in its region alone."""
    value, number = program.draw.choice(program.values[stage]), program.count
    at = ", ".join(program.draw.choice(("%c0", "%c1", "%c3")) for _ in range(2))
    program.lines.append(f"  %e{number} = tensor.extract {value}[{at}] : {TYPE}")
    program.lines.append(f"  %o{number} = tensor.empty() : {TYPE}")
    same = "affine_map<(i, j) -> (i, j)>"
    program.emit(
        stage,
        f"linalg.generic {{indexing_maps = [{same}, {same}], "
        f'iterator_types = ["parallel", "parallel"]}} ins(%half : {TYPE}) '
        f"outs(%o{number} : {TYPE}) {{\n  ^bb0(%p: f32, %q: f32):\n"
        f"    %m = arith.mulf %p, %e{number} : f32\n    linalg.yield %m : f32\n  }} -> {TYPE}",
    )


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
        text = f'"mesh.collective_permute"({value}) {{cluster = {as_symbol(program.name(target))}}}'
    else:
        sharding = program.sharding(target)
        text = f'"mesh.annotate"({value}) {{as_result = false, sharding = {sharding}}}'
    program.said.add(program.emit(target, f"{text} : ({TYPE}) -> {TYPE}"))


def _part_passed(program: Staged, stage: int) -> None:
    """A box of a value goes to any stage, and from there into a value of any stage."""
    value, number = program.draw.choice(program.values[stage]), program.count
    others = range(len(program.values))
    middle, target = program.draw.choice(others), program.draw.choice(others)
    if middle == stage or target == middle or not program.values[target]:
        return
    into = program.draw.choice([*program.values[target], "%half"])
    sizes = [program.draw.randint(1, SIZE) for _ in range(2)]
    offsets = [[program.draw.randint(0, SIZE - size) for size in sizes] for _ in range(2)]
    box = f"tensor<{sizes[0]}x{sizes[1]}xf32>"
    there, back = (
        f"{{cluster = {as_symbol(program.name(to))}, offsets = {at}}}"
        for to, at in zip((middle, target), offsets, strict=True)
    )
    program.lines.append(
        f'  %p{number} = "mesh.transfer"({value}) {there} : ({TYPE}) -> {box}\n'
        f"  %q{number} = stablehlo.sine %p{number} : {box}"
    )
    program.emit(target, f'"mesh.transfer"(%q{number}, {into}) {back} : ({box}, {TYPE}) -> {TYPE}')


def _called(program: Staged, stage: int) -> None:
    """A call of a function, which may say that it is on another stage."""
    value, number = program.draw.choice(program.values[stage]), len(program.functions)
    target = program.draw.choice((stage, *range(len(program.values))))
    is_said = target != stage or program.draw.random() < 0.3
    said = f" {{mesh.sharding = {program.sharding(target)}}}" if is_said else ""
    inner = [f"%0 = stablehlo.sine %x : {TYPE}", f"return %0 : {TYPE}"]
    if number and program.draw.random() < 0.4:
        inner.insert(1, f"%1 = call @f{number - 1}(%0) : ({TYPE}) -> {TYPE}")
        inner[-1] = f"return %1 : {TYPE}"
        target = program.lands[number - 1] if program.lands[number - 1] is not None else target
    program.lands.append(target if is_said or len(inner) > 2 else None)
    program.functions.append(
        f"func.func private @f{number}(%x: {TYPE}{said}) -> {TYPE} {{\n  "
        + "\n  ".join(inner)
        + "\n}"
    )
    program.said |= {value, program.emit(target, f"call @f{number}({value}) : ({TYPE}) -> {TYPE}")}


def _to_and_fro(program: Staged, stage: int) -> None:
    """A loop that passes what it carries to another stage and back."""
    value, count = program.draw.choice(program.values[stage]), program.count
    other = program.draw.choice([each for each in range(len(program.values)) if each != stage])
    there, back = (
        f"{{cluster = {as_symbol(program.name(each))}}} : ({TYPE})" for each in (other, stage)
    )
    program.emit(
        stage,
        f"scf.for %i = %c0 to %c3 step %c1 iter_args(%r = {value}) -> ({TYPE}) {{\n"
        f'    %t{count} = "mesh.collective_permute"(%r) {there} -> {TYPE}\n'
        f"    %u{count} = stablehlo.sine %t{count} : {TYPE}\n"
        f'    %w{count} = "mesh.collective_permute"(%u{count}) {back} -> {TYPE}\n'
        f"    scf.yield %w{count} : {TYPE}\n  }}",
    )


def _carried_on(program: Staged, stage: int) -> None:
    """A loop that carries a value of one stage, and computes it on another."""
    value, count = program.draw.choice(program.values[stage]), program.count
    other = program.draw.choice([each for each in range(len(program.values)) if each != stage])
    program.emit(
        stage,
        f"scf.for %i = %c0 to %c3 step %c1 iter_args(%r = {value}) -> ({TYPE}) {{\n"
        f'    %t{count} = "mesh.annotate"(%r) {{as_result = false, '
        f"sharding = {program.sharding(other)}}} : ({TYPE}) -> {TYPE}\n"
        f"    %u{count} = stablehlo.sine %t{count} : {TYPE}\n"
        f"    scf.yield %u{count} : {TYPE}\n  }}",
    )


def _chosen(program: Staged, stage: int) -> None:
    """A branch between values of two stages: its result is on the first one's."""
    having = [other for other, values in enumerate(program.values) if values]
    a, b = (program.draw.choice(program.values[at]) for at in (stage, program.draw.choice(having)))
    count = program.count
    sine = f"%t{count} = stablehlo.sine {a} : {TYPE}"
    moved = f'%u{count} = "mesh.annotate"({b}) {{as_result = false, sharding = '
    moved += f"{program.sharding(program.draw.choice(having))}}} : ({TYPE}) -> {TYPE}"
    condition = program.draw.choice(("true", "false"))
    program.lines.append(f"  %f{count} = arith.constant {condition}")
    program.emit(
        stage,
        f"scf.if %f{count} -> ({TYPE}) {{\n    {sine}\n    scf.yield %t{count} : {TYPE}\n"
        f"  }} else {{\n    {moved}\n    scf.yield %u{count} : {TYPE}\n  }}",
    )


_STEPS = (
    *(_binary, _binary, _product, _scaled, _repeated),
    *(_annotated, _passed, _passed, _passed, _part_passed, _to_and_fro, _called),
    *(_carried_on, _chosen),
)


def _parts(draw: Random, grid: tuple[int, ...]) -> list[_Part]:
    """Two or three parts of a grid: the devices with one index, or boxes of several sizes.

    Boxes need not begin at a multiple of their size.
    """
    if draw.random() < 0.5:
        axis = draw.choice([axis for axis, size in enumerate(grid) if size < 4 or len(grid) == 1])
        indices = draw.sample(range(grid[axis]), draw.randint(2, min(3, grid[axis])))
        return [
            (
                [index if other == axis else 0 for other in range(len(grid))],
                [1 if other == axis else size for other, size in enumerate(grid)],
            )
            for index in indices
        ]
    parts = []
    is_aligned = draw.random() < 0.5
    for _ in range(draw.randint(2, 3)):
        if not is_aligned:
            sizes = [draw.randint(1, size) for size in grid]
            offsets = [
                draw.randint(0, whole - size) for whole, size in zip(grid, sizes, strict=True)
            ]
            parts.append((offsets, sizes))
            continue
        sizes = [
            draw.choice([each for each in (1, 2, 3, 4, size) if size % each == 0]) for size in grid
        ]
        offsets = [draw.randrange(0, whole, size) for whole, size in zip(grid, sizes, strict=True)]
        parts.append((offsets, sizes))
    return parts


def _declared(parts: list[_Part]) -> Iterator[tuple[str, list[int], list[int]]]:
    """The cluster, offsets and sizes of each part: those within the first are parts of that."""
    around, most = parts[0]
    for number, (offsets, sizes) in enumerate(parts):
        inner = list(map(sub, offsets, around))
        ends = map(add, inner, sizes)
        if number and min(inner) >= 0 and all(map(le, ends, most)):
            yield "s0", inner, sizes
        else:
            yield "g", offsets, sizes


def staged_program(draw: Random) -> str:
    """A module with a function `main` of up to three stages, and ops that all devices run."""
    grid = draw.choice(GRIDS)
    parts = [*_parts(draw, grid), ([0] * len(grid), list(grid))]
    with_all = draw.random() < 0.6
    program = Staged(draw, parts, [[] for _ in (parts if with_all else parts[:-1])])
    arguments = []
    for number in range(draw.randint(1, 4)):
        stage = draw.randrange(len(program.values)) if number else 0
        program.values[stage].append(f"%a{number}")
        program.said.add(f"%a{number}")
        is_open = ", {open = [0, 1]}" if draw.random() < 0.5 else ""
        sharding = program.sharding(stage, is_open)
        arguments.append(f"%a{number}: {TYPE} {{mesh.sharding = {sharding}}}")
    for _ in range(draw.randint(4, 12)):
        program.step()
    made = [value for values in program.values for value in values[-1:]]
    returned = draw.sample(made, draw.randint(1, len(made)))
    devices = list(range(prod(grid)))
    if draw.random() < 0.3:
        draw.shuffle(devices)
    order = f", device_ids = {devices}" if devices != sorted(devices) else ""
    return "\n".join(
        [
            f'"mesh.cluster"() {{sym_name = "g", rank = {len(grid)} : i64, '
            f"dim_sizes = {list(grid)}{order}}} : () -> ()",
            *(
                f'"mesh.sub_cluster"() {{sym_name = "s{number}", cluster = {as_symbol(cluster)}, '
                f"offsets = {offsets}, sizes = {sizes}}} : () -> ()"
                for number, (cluster, offsets, sizes) in enumerate(_declared(parts[:-1]))
            ),
            f"func.func @main({', '.join(arguments)}) -> ({', '.join([TYPE] * len(returned))}) {{",
            f"  %half = stablehlo.constant dense<0.5> : {TYPE}",
            *(f"  %c{number} = arith.constant {number} : index" for number in (0, 1, 3)),
            *program.lines,
            f"  return {', '.join(returned)} : {', '.join([TYPE] * len(returned))}",
            "}",
            *program.functions,
        ]
    )
