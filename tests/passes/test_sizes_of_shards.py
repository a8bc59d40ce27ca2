"""`shard.shard_shape` and `mesh.size` give the same on all devices, so they run in any form."""

import random
import re

import numpy as np
import pytest

from shard_dialect.errors import ShardError
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Grid, Sharding
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.testing import check_program
from tests.runtime.alone import run_on

pytestmark = pytest.mark.usefixtures("unoptimized")

GRIDS = ((4,), (2, 3), (3, 2, 2))


def random_queries(seed: int) -> tuple[str, list[int]]:
    """A program that returns sizes of shards on devices, and these sizes by the model."""
    draw = random.Random(seed)
    grid = Grid("g", draw.choice(GRIDS))
    lines: list[str] = []
    names: list[str] = []
    expected: list[int] = []

    def number(value: int, type_: str = "index", known: float = 0.5) -> str:
        """The number itself, or a value that has it."""
        if draw.random() < known:
            return str(value)
        lines.append(f"  %n{len(lines)} = arith.constant {value} : {type_}")
        return lines[-1].split()[0]

    for query in range(6):
        axes = draw.sample(range(grid.rank), grid.rank)
        cut = draw.randint(0, grid.rank)
        split = (tuple(axes[:cut]), tuple(axes[cut : draw.randint(cut, grid.rank)]))
        shape = [draw.randint(0, 30), draw.randint(1, 9)]
        offsets: list[tuple[int, ...]] = [(), ()]
        if draw.random() < 0.4 and max(map(len, split)) < 2:  # as upstream counts offsets
            for dim, dim_axes in enumerate(split):
                cuts = [draw.randint(0, shape[dim]) for _ in range(grid.axes_size(dim_axes) - 1)]
                offsets[dim] = (0, *sorted(cuts), shape[dim]) if dim_axes else ()
        sharding = Sharding("g", split, offsets=tuple(offsets) if any(offsets) else ())
        rank = draw.randrange(grid.size)
        known = draw.randrange(2)  # upstream takes no offsets of which some are known
        written = [number(size, "i64", known) for each in offsets for size in each]
        fields = f" sharded_dims_offsets = [{', '.join(written)}]" if written else ""
        lists = [list(each) for each in split]
        dims = ", ".join(map(number, shape))
        device = ", ".join(number(at) for at in np.unravel_index(rank, grid.shape))
        lines.append(f"  %s{query} = shard.sharding @g split_axes = {lists}{fields}")
        lines.append(
            f"  %r{query}:2 = shard.shard_shape dims = [{dims}] sharding = %s{query} "
            f"device = [{device}] : index, index"
        )
        names += [f"%r{query}#0", f"%r{query}#1"]
        for dim, size in enumerate(shape):
            bounds = sharding.bounds(dim, size, grid)
            at = grid.index_along(rank, split[dim])
            expected.append(bounds[at + 1] - bounds[at])
    types = f"tensor<{len(names)}xindex>"
    body = "\n".join(lines)
    sizes = "x".join(map(str, grid.shape))
    text = f"""shard.grid @g(shape = {sizes})
func.func @main(%x: tensor<12xf32> {{mesh.sharding = #mesh.shard<@g, [[0]]>}}) -> {types}MODE {{
{body}
  %t = tensor.from_elements {", ".join(names)} : {types}
  return %t : {types}
}}
"""
    return text, expected


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mode", ["", ' attributes {mesh.form = "local"}'])
def test_sizes_of_shards_are_those_of_the_model(seed: int, mode: str) -> None:
    text, expected = random_queries(seed)
    local = text.replace("12xf32> {mesh.sharding = #mesh.shard<@g, [[0]]>}", "12xf32>")
    text = (local if mode else text).replace("MODE", mode)
    if mode:
        _, (result,) = run_on(text, [np.zeros(12, np.float32)])
        assert list(result) == expected, text
    else:
        assert constants_of(text) == expected, text
        assert check_program.run_and_check(text, "spmd,lower").verdict.passed


def constants_of(text: str) -> list[int]:
    """The list that the program for all devices returns, whatever its arguments are."""
    with make_context():
        module = Source.of(text).parse()
        run_pipeline(module, "spmd,canonicalize")
        (found,) = re.findall(r"dense<\[([-\d, ]+)\]> : tensor<\d+xindex>", str(module))
    return [int(each) for each in found.split(",")]


def test_sizes_of_an_annotated_value_and_of_groups_are_constants() -> None:
    text = """
shard.grid @g(shape = 2x3)
func.func @main(%x: tensor<7x8xf32>) -> tensor<3xindex> attributes {mesh_cluster = @g} {
  %s = shard.sharding @g split_axes = [[1]]
  %a = shard.shard %x to %s : tensor<7x8xf32>
  %of = shard.get_sharding %a : tensor<7x8xf32> -> !shard.sharding
  %m = shard.shard_shape dims = [7] sharding = %of device = [0, 2] : index
  %n = mesh.size(1)
  %all = mesh.size : index
  %t = tensor.from_elements %m, %n, %all : tensor<3xindex>
  return %t : tensor<3xindex>
}
"""
    assert constants_of(text) == [1, 3, 6]
    assert check_program.run_and_check(text, "spmd,lower").verdict.passed


@pytest.mark.parametrize(
    "op", ["mesh.idx {axis = 1 : index} : index", "shard.process_linear_index on @g : index"]
)
@pytest.mark.parametrize("form", ["", ', mesh.form = "distributed"'])
def test_an_index_is_refused_where_tensors_are_global(op: str, form: str) -> None:
    text = f"""shard.grid @g(shape = 2x3)
func.func @main(%x: tensor<6xf32>) -> index attributes {{mesh_cluster = @g{form}}} {{
  %i = {op}
  return %i : index
}}
"""
    source = Source.of(text, "in.mlir")
    with make_context(), source.file_locations():
        module = source.parse()
        with pytest.raises(ShardError, match="what it gives differs between devices") as raised:
            run_pipeline(module, "partition" if form else "spmd")
    assert raised.value.location == "in.mlir:3:8"
