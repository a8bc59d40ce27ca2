"""Give programs of one device that name no grid one of their own: those that StableHLO runs.

    module attributes {mhlo.num_replicas = 8} {            shard.grid @devices(shape = 2x4)
      ... replica_groups = [[0, 4], [1, 5], [2, 6], ...]   shard.all_gather ... grid_axes = [0]
      ... replica_groups = [[0, 1, 2, 3], [4, 5, 6, 7]]    shard.all_gather ... grid_axes = [1]

`--lower=target=stablehlo` writes such programs, and XLA takes them. The grid has as few axes as the
groups allow. Other programs stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import drop_from_boundary, form_of, functions_of, set_form
from shard_dialect.ir.grids import grids_of, write_grid
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import body, walk
from shard_dialect.model import Axes, Grid
from shard_dialect.passes.manual.replica_group_collectives import (
    axes_of_collective,
    is_of_stablehlo,
    write_stablehlo_collectives,
)

NAME = "devices"
_CLUSTER = "mesh_cluster"
"""The grid of a function, which a program in StableHLO may name, and does not have."""
_COUNTS = ("mhlo.num_replicas", "mhlo.num_partitions")


def give_grid(module: ir.Operation) -> None:
    """Bring a program that StableHLO runs on several devices to the local form, in place.

    Raises a located `ShardError` for groups of devices that no grid has.
    """
    functions = functions_of(module)
    ops = [op for op in walk(module) if _is_of_devices(op)]
    if not ops or grids_of(module) or any(form_of(each) != "annotated" for each in functions):
        return
    count = _devices(module)
    if count is None:
        raise error_at(
            ops[0].location,
            f"'{ops[0].name}' op is on devices whose number is not known: give the module "
            "{mhlo.num_replicas = 8 : i32}, or declare a grid, as in "
            "`shard.grid @grid(shape = 2x4)`",
        )
    for op in ops:
        if op.name == "stablehlo.replica_id":  # of one partition each
            _number_partitions(op)
    primes = tuple(_primes(count)) or (1,)
    grid = Grid(NAME, _merged(primes, list(_axes_in(module, Grid(NAME, primes)))))
    with ir.InsertionPoint.at_block_begin(body(module)), ir.Location.unknown(module.context):
        write_grid(grid)
    for each in functions:
        drop_from_boundary(each, "mesh.")  # shardings on grids that are not declared
        if _CLUSTER in each.attributes:
            del each.attributes[_CLUSTER]
        set_form(each, "local")
        write_stablehlo_collectives(each, Shardings.of(module))


def _is_of_devices(op: ir.Operation) -> bool:
    return is_of_stablehlo(op) or op.name == "stablehlo.replica_id"


def _devices(module: ir.Operation) -> int | None:
    """The number of devices, of which replicas and partitions are two ways to say it."""
    counts = [int(module.attributes[name].value) for name in _COUNTS if name in module.attributes]
    others = [count for count in counts if count != 1]
    if len(others) > 1:
        raise ShardError(f"the module runs on {counts[0]} replicas of {counts[1]} partitions each")
    return next(iter(others), None)


def _number_partitions(op: ir.Operation) -> None:
    with ir.InsertionPoint(op), op.location:
        number = create("stablehlo.partition_id", [op.results[0].type], [])
    op.results[0].replace_all_uses_with(number.results[0])
    op.erase()


def _primes(count: int) -> Iterable[int]:
    divisor = 2
    while count > 1:
        while count % divisor == 0:
            yield divisor
            count //= divisor
        divisor += 1


def _axes_in(module: ir.Operation, grid: Grid) -> Iterable[Axes]:
    for op in walk(module):
        if is_of_stablehlo(op) and op.name != "stablehlo.partition_id":
            with located(op):
                yield axes_of_collective(op, grid)


def _merged(primes: Sequence[int], used: Sequence[Axes]) -> tuple[int, ...]:
    """The sizes where axes are one that every collective has beside each other, or not at all."""
    shape = [primes[0]]
    for axis in range(1, len(primes)):
        if all(_are_one(axis - 1, axis, axes) for axes in used):
            shape[-1] *= primes[axis]
        else:
            shape.append(primes[axis])
    return tuple(shape)


def _are_one(axis: int, other: int, axes: Axes) -> bool:
    return (axis, other) in pairwise(axes) or (axis not in axes and other not in axes)
