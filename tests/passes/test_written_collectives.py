"""Random programs in the distributed form, written by hand in the RFC's spelling, are right.

Gathers and scatters take axes wherever they stand among those that split a dimension.
"""

import random
from collections.abc import Callable
from math import prod

import pytest

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Grid, Sharding
from shard_dialect.planner import plan
from shard_dialect.testing import check_program

pytestmark = pytest.mark.usefixtures("unoptimized")

GRIDS = ([2, 2], [2, 3], [2, 2, 2], [3, 2, 2])
PIPELINES = ("partition,lower", "optimize-collectives,partition,lower")

Lists = list[list[int]]


def type_of(shape: list[int], split: Lists) -> str:
    sizes = "".join(f"{size}x" for size in shape)
    return f"tensor<{sizes}f32, #mesh.shard<{split}>>"


def some(draw: random.Random, axes: list[int]) -> list[int]:
    """At least one of the axes, in their order."""
    kept = set(draw.sample(axes, draw.randint(1, len(axes))))
    return [axis for axis in axes if axis in kept]


def gathered(draw: random.Random, split: Lists) -> tuple[str, Lists] | None:
    dims = [dim for dim, axes in enumerate(split) if axes]
    if not dims:
        return None
    chosen = {dim: some(draw, split[dim]) for dim in draw.sample(dims, draw.randint(1, len(dims)))}
    lists = [chosen.get(dim, []) for dim in range(len(split))]
    left = [[axis for axis in axes if axis not in lists[dim]] for dim, axes in enumerate(split)]
    return f"mesh.all_gather %v {{mesh_axis = {lists}}}", left


def cut(draw: random.Random, split: Lists, rank: int) -> tuple[str, Lists] | None:
    free = [axis for axis in range(rank) if all(axis not in axes for axes in split)]
    if not free:
        return None
    lists: Lists = [[] for _ in split]
    for axis in some(draw, free):
        draw.choice(lists).append(axis)
    result = [axes + added for axes, added in zip(split, lists, strict=True)]
    attributes = draw.choice((f" {{sharding = {lists}}}", ""))
    return f"mesh.local_split %v{attributes}", result


def random_steps(seed: int) -> str:
    draw = random.Random(seed)
    grid = draw.choice(GRIDS)
    shape = [draw.choice((5, 12, 24)), draw.choice((7, 12))]
    split: Lists = [[], []]
    for axis in draw.sample(range(len(grid)), len(grid)):
        draw.choice([*split, []]).append(axis)
    first, lines = type_of(shape, split), []
    value = "%x"
    for number in range(draw.randint(1, 4)):
        drawn = draw.choice((gathered(draw, split), cut(draw, split, len(grid))))
        if drawn is not None:
            op, result = drawn
            types = f"{type_of(shape, split)} -> {type_of(shape, result)}"
            lines.append(f"  %{number} = {op.replace('%v', value)} : {types}")
            split, value = result, f"%{number}"
    last = type_of(shape, split)
    body = "\n".join(lines)
    return f"""mesh.cluster @m(rank = {len(grid)}, dim_sizes = {grid})
func.func @main(%x: {first}) -> {last}
    attributes {{mesh_cluster = @m, mesh.form = "distributed"}} {{
{body}
  return {value} : {last}
}}
"""


def random_scatter(seed: int) -> str:
    """A product that is partial, reduced to shards along axes between those that split it."""
    draw = random.Random(seed)
    grid = draw.choice(GRIDS)
    axes = draw.sample(range(len(grid)), len(grid))
    count = draw.randint(1, len(grid) - 1)
    partial, kept = axes[:count], axes[count:]
    dim = draw.randrange(2)
    split: Lists = [[], []]
    split[dim] = kept
    scattered = some(draw, partial)
    places = sorted(draw.choices(range(len(kept) + 1), k=len(scattered)))
    after = list(kept)
    for place, axis in reversed(list(zip(places, scattered, strict=True))):
        after.insert(place, axis)
    left = [axis for axis in partial if axis not in scattered]
    result: Lists = [[], []]
    result[dim] = after
    m, k, n = draw.choice((5, 12, 24)), 12, draw.choice((7, 12))
    a, b = type_of([m, k], [split[0], partial]), type_of([k, n], [partial, split[1]])
    c, r = type_of([m, n], [*split, partial]), type_of([m, n], [*result, *([left] if left else [])])
    returned = type_of([m, n], result)
    reduce = (
        f"""%2 = mesh.all_reduce %1 {{mesh_axis = {left}, reduction = "sum"}} : {r} -> {returned}"""
    )
    return f"""mesh.cluster @m(rank = {len(grid)}, dim_sizes = {grid})
func.func @main(%a: {a}, %b: {b}) -> {returned} attributes {{mesh_cluster = @m}} {{
  %0 = "stablehlo.dot_general"(%a, %b) {{dot_dimension_numbers = #stablehlo.dot<
    lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}} : ({a}, {b}) -> {c}
  %1 = mesh.reduce_scatter %0 {{mesh_axis = {scattered}, reduction = "sum", tensor_axis = {dim}}}
    : {c} -> {r}
  {reduce if left else ""}
  return {"%2" if left else "%1"} : {returned}
}}
"""


def random_permutations(seed: int) -> str:
    """Shards change places along some axes, some of which may split no dimension."""
    draw = random.Random(seed)
    grid = draw.choice(GRIDS)
    shape = [24, 48]
    split: Lists = [[], []]
    for axis in draw.sample(range(len(grid)), len(grid)):
        draw.choice([*split, *split, []]).append(axis)
    lines, value, type_ = [], "%x", type_of(shape, split)
    for number in range(draw.randint(1, 3)):
        axes = draw.sample(range(len(grid)), draw.randint(1, len(grid)))
        count = prod(grid[axis] for axis in axes)
        attributes = f"mesh_axis = {axes}, permutation = {draw.sample(range(count), count)}"
        op = f"mesh.collective_permute {value} {{{attributes}}} : {type_} -> {type_}"
        value = f"%{number}"
        lines.append(f"  {value} = {op}")
    body = "\n".join(lines)
    return f"""mesh.cluster @m(rank = {len(grid)}, dim_sizes = {grid})
func.func @main(%x: {type_}) -> {type_} attributes {{mesh_cluster = @m}} {{
{body}
  return {value} : {type_}
}}
"""


@pytest.mark.parametrize("seed", range(40))
def test_permutations_are_those_of_slices(seed: int) -> None:
    text = random_permutations(seed)
    try:
        verdict = check_program.run_and_check(text, PIPELINES[seed % 2]).verdict
    except ShardError as error:
        assert "get different ones" in error.message, text  # noqa: PT017
        return
    assert verdict.passed, f"{text}\n{verdict.failure}"


def test_most_permutations_have_a_value() -> None:
    refused = 0
    for seed in range(40):
        with make_context():
            try:
                Source.of(random_permutations(seed)).parse()
            except ShardError:
                refused += 1
    assert refused < 20


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("program", [random_steps, random_scatter])
def test_numbers_are_those_of_the_unsharded_program(
    program: Callable[[int], str], seed: int, pipeline: str
) -> None:
    text = program(seed)
    verdict = check_program.run_and_check(text, pipeline).verdict
    assert verdict.passed, f"{text}\n{verdict.failure}"


@pytest.mark.parametrize("seed", range(30))
def test_a_written_gather_moves_what_the_planner_would(seed: int) -> None:
    """Along major axes too: shards change places before fewer of them are gathered."""
    draw = random.Random(seed)
    sizes = draw.choice(GRIDS)
    split: Lists = [[], []]
    for axis in draw.sample(range(len(sizes)), len(sizes)):
        draw.choice(split).append(axis)
    drawn = gathered(draw, split)
    assert drawn is not None
    op, left = drawn
    source, target = (type_of([24, 24], each) for each in (split, left))
    text = f"""mesh.cluster @m(rank = {len(sizes)}, dim_sizes = {sizes})
func.func @main(%v: {source}) -> {target}
    attributes {{mesh_cluster = @m, mesh.form = "distributed"}} {{
  %0 = {op} : {source} -> {target}
  return %0 : {target}
}}
"""
    grid = Grid("m", tuple(sizes))
    ends = (Sharding("m", tuple(map(tuple, each))) for each in (split, left))
    best = plan(*ends, (24, 24), 4, grid, sub_axes=False)
    assert sd.communication(sd.parse(text)).bytes_moved == best.bytes_moved


def test_a_gather_along_the_major_axis() -> None:
    text = """mesh.cluster @m(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<8x4xf32, #mesh.shard<[[0, 1], []]>>)
    -> tensor<8x4xf32, #mesh.shard<[[1], []]>>
    attributes {mesh_cluster = @m, mesh.form = "distributed"} {
  %0 = mesh.all_gather %x {mesh_axis = [[0], []]}
    : tensor<8x4xf32, #mesh.shard<[[0, 1], []]>> -> tensor<8x4xf32, #mesh.shard<[[1], []]>>
  return %0 : tensor<8x4xf32, #mesh.shard<[[1], []]>>
}
"""
    report = sd.communication(sd.parse(text))
    kinds = [(each.kind, each.bytes_moved) for each in report.entries]
    assert kinds == [("collective_permute", 32), ("all_gather", 32)]  # of 96 for all four shards


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_type_of_a_replicated_tensor_may_say_so(pipeline: str) -> None:
    rows, columns, partial, whole = (
        f"tensor<4x4xf32, #mesh.shard<{each}>>"
        for each in ("[[0], []]", "[[], [0]]", "[[], [], [0]]", "[[], []]")
    )
    text = f"""
    mesh.cluster @g(rank = 1, dim_sizes = [2])
    func.func @main(%a: {columns}, %b: {rows}) -> ({rows}, {whole})
        attributes {{mesh_cluster = @g}} {{
      %c = stablehlo.dot %a, %b : ({columns}, {rows}) -> {partial}
      %d = mesh.reduce_scatter %c {{mesh_axis = [0], reduction = "sum", tensor_axis = 0 : i64}}
        : {partial} -> {rows}
      %e = mesh.all_reduce %c {{mesh_axis = [0], reduction = "sum"}} : {partial} -> {whole}
      return %d, %e : {rows}, {whole}
    }}
    """
    verdict = check_program.run_and_check(text, pipeline).verdict
    assert verdict.passed, verdict.failure
