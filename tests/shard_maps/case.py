"""What programs with `shard_map` are written with: a table of them, meshes, short forms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

Program = Callable[..., Any]
Shapes = tuple[tuple[int, ...], ...]

CASES: dict[str, tuple[Program, Shapes]] = {}

AXES = {"d": 2, "x": 4}
THREE = {"d": 2, "x": 2, "y": 2}


def mesh_of(axes: dict[str, int]) -> Mesh:
    """Made when a program is traced: who imports this may have one device."""
    return jax.make_mesh(
        tuple(axes.values()), tuple(axes), axis_types=(jax.sharding.AxisType.Auto,) * len(axes)
    )


def local(
    axes: dict[str, int], names: str, in_specs: Any, out_specs: Any, *, check: bool = True
) -> Callable[[Program], Program]:
    """`shard_map` over the axes in `names`, a letter each; the others are free inside."""
    return partial(
        jax.shard_map,
        mesh=mesh_of(axes),
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names=set(names),
        check_vma=check,
    )


def constrained(value: Any, *spec: Any) -> Any:
    """With a constraint in the body, which speaks of free axes only."""
    return lax.with_sharding_constraint(value, P(*spec))


def inner(names: str, in_specs: Any, out_specs: Any) -> Callable[[Program], Program]:
    """A `shard_map` within another, whose mesh it takes."""
    return partial(jax.shard_map, in_specs=in_specs, out_specs=out_specs, axis_names=set(names))


def case(*shapes: tuple[int, ...]) -> Callable[[Program], Program]:
    """A program and the shapes of its arguments."""

    def add(program: Program) -> Program:
        CASES[program.__name__] = (program, shapes)
        return program

    return add
