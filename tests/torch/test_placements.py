"""Placements are those of the user's mesh, also where the compiler splits the mesh."""

from typing import Any

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset

import shard_dialect as sd
from shard_dialect.model import Axis, Grid, Sharding, SubAxis
from shard_dialect.torch.plans.placement_lists import Dims, dims_of
from tests.torch.drawn_modules import Drawn, Experts, draw
from tests.torch.models import assert_close

pytestmark = pytest.mark.usefixtures("unoptimized")

R = Replicate()


def partitioned(drawn: Drawn, **options: Any) -> Any:
    grid = Grid("mesh", drawn.mesh, tuple(f"m{each}" for each in range(len(drawn.mesh))))
    return sd.torch.partition(drawn.module, (drawn.x,), drawn.plan, grid, **options)


def assert_as_torch_splits(f: Any, drawn: Drawn) -> None:
    """Each device's shard of each tensor is what torch says of the placements of `plan()`."""
    program, grid, said = f.compiled.program, Grid("mesh", drawn.mesh), f.plan()
    first = f._engine.programs[0]
    boundaries = {each.name: each.boundary for each in (*first.arguments, *first.results)}
    for name, placements in said.items():
        each = boundaries[name]
        shape = each.global_type.shape
        for rank in range(grid.size):
            sizes, offsets = _compute_local_shape_and_global_offset(
                shape, drawn.mesh, list(grid.coordinates(rank)), placements
            )
            held = [
                range(*part.indices(size))
                for part, size in zip(each.shard(rank, program.grids), shape, strict=True)
            ]
            assert tuple(map(len, held)) == tuple(sizes), (name, placements, rank)
            if all(sizes):
                assert tuple(part.start for part in held) == tuple(offsets), (name, placements)


@pytest.mark.parametrize("seed", range(12))
def test_drawn(seed: int) -> None:
    drawn = draw(seed)
    f = partitioned(drawn)
    said = f.plan()
    assert {name: said[name] for name in drawn.plan} == drawn.plan
    assert_as_torch_splits(f, drawn)
    torch.testing.assert_close(f(drawn.x), drawn.module(drawn.x).detach(), rtol=1e-4, atol=1e-5)
    assert_close(f.state_dict(), drawn.module.state_dict())


@pytest.mark.parametrize("seed", range(20, 24))
def test_drawn_gradients(seed: int) -> None:
    drawn = draw(seed)
    plan = {name: each for name, each in drawn.plan.items() if name != "output"}
    drawn = Drawn(drawn.module, drawn.x, drawn.mesh, plan)
    f = partitioned(drawn, loss=lambda y: y.square().mean())
    said = f.plan()
    for name, _ in drawn.module.named_parameters():
        assert said[name] == said[f"gradient.{name}"] == plan.get(name, [R] * len(drawn.mesh))
    assert_as_torch_splits(f, drawn)
    _, gradients = f(drawn.x)
    drawn.module(drawn.x).square().mean().backward()
    assert_close(gradients, {name: each.grad for name, each in drawn.module.named_parameters()})


@pytest.mark.parametrize("mesh", [(4,), (4, 2)])
def test_a_mesh_that_the_compiler_splits(mesh: tuple[int, ...]) -> None:
    rest = [R] * (len(mesh) - 1)
    split = [Shard(0), *rest]
    plan = {"x": [R, *rest], "up": split, "down": split}
    torch.manual_seed(0)
    drawn = Drawn(Experts(), torch.randn(4, 8, 16), mesh, plan)
    f = partitioned(drawn)
    assert len(f.compiled.program.grids) > 1, "the program is on a finer grid"
    said = f.plan()
    assert [said[name] for name in ("up", "down", "x")] == [split, split, [R, *rest]]
    assert_as_torch_splits(f, drawn)


MESH = Grid("mesh", (2, 4, 2))


@pytest.mark.parametrize(
    ("axes", "size", "named", "expected"),
    [
        ((0, 1), 8, {}, (0, 0, None)),
        ((1, 0), 8, {}, (None, 0, None)),
        ((1, 0), 8, {0: 0}, (0, None, None)),
        ((1, 0), 8, {1: 0}, (None, 0, None)),
        ((0, SubAxis(1, 1, 2)), 8, {}, (0, None, None)),
        ((0, SubAxis(1, 1, 2), 2), 8, {}, (0, None, None)),
        ((0, 1), 12, {}, (0, None, None)),
        ((0, 1), 12, {1: 0}, (None, 0, None)),
        ((), 8, {0: 0, 2: 0}, (0, None, 0)),
        ((0, 1, 2), 16, {1: None}, (0, None, None)),
    ],
)
def test_the_nearest_placements(
    axes: tuple[Axis, ...], size: int, named: dict[int, int | None], expected: Dims
) -> None:
    assert dims_of(Sharding("mesh", (axes,)), (size,), MESH, named) == expected
