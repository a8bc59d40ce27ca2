"""Placements are those of the user's mesh, also where the compiler splits the mesh."""

from itertools import permutations
from typing import Any

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import _StridedShard

import shard_dialect as sd
from shard_dialect.errors import ShardError
from shard_dialect.model import Axis, Grid, Sharding, SubAxis
from shard_dialect.torch.plans.placement_lists import (
    ByAxis,
    annotation_of,
    placements_of,
    sayable,
)
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


def test_what_chooses_experts_is_computed_once() -> None:
    """A product of another shape may have other last bits, and not be among its own largest."""
    f = partitioned(draw(42, [(4,)]))
    local = f.compiled.text("local")
    assert f.compiled.check().passed
    assert local.count("stablehlo.dot_general") == 3, local  # the router's, and two of the experts


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
S, S4 = Shard(0), _StridedShard(0, split_factor=4)


@pytest.mark.parametrize(
    ("axes", "size", "given", "expected"),
    [
        ((0, 1), 8, {}, (0, 1)),
        ((1, 0), 8, {}, (1,)),
        ((1, 0), 8, {0: S}, (0,)),
        ((1, 0), 8, {1: S}, (1,)),
        ((1, 0), 8, {0: S4, 1: S}, (1, 0)),
        ((1, 0, 2), 16, {0: S4, 1: S}, (1, 0, 2)),
        ((2, 1, 0), 16, {0: S4, 1: S}, (1, 0)),
        ((0, 1), 8, {0: S4, 1: S}, (1, 0)),
        ((0, SubAxis(1, 1, 2)), 8, {}, (0,)),
        ((0, SubAxis(1, 1, 2), 2), 8, {}, (0,)),
        ((0, 1), 12, {}, (0,)),
        ((0, 1), 12, {1: S}, (1,)),
        ((), 8, {0: S, 2: S}, (0, 2)),
        ((0, 1, 2), 16, {1: R}, (0,)),
    ],
)
def test_the_nearest_placements(
    axes: tuple[Axis, ...], size: int, given: ByAxis, expected: tuple[int, ...]
) -> None:
    found = sayable(Sharding("mesh", (axes,)), (size,), MESH, given)
    assert found.split_axes == (expected,)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_any_order_of_mesh_dimensions(order: tuple[int, ...]) -> None:
    """As torch splits by the placements."""
    sharding, mesh = Sharding("mesh", (order,)), (2, 3, 4)
    grid = Grid("mesh", mesh)
    placements = placements_of(sharding, grid)
    found = annotation_of(dict(enumerate(placements)), (24,), grid)
    assert found.sharding == sharding
    for rank in range(grid.size):
        at = list(grid.coordinates(rank))
        _, offsets = _compute_local_shape_and_global_offset((24,), mesh, at, placements)
        assert sharding.shard(rank, (24,), grid)[0].start == offsets[0]


def test_a_split_factor_that_no_mesh_dimension_has() -> None:
    with pytest.raises(ShardError, match="into 4 parts, not first into 3"):
        annotation_of({0: _StridedShard(0, split_factor=3), 1: S}, (24,), MESH)
