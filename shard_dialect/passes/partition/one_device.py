"""Programs of one device: picked from that of all, or written so.

    %r = shard.process_linear_index on @g : index       %r = arith.constant 2 : index
    %s = shard.all_slice %x on @g ... slice_axis = 0    %s = tensor.extract_slice %x[4] [4] [1]
    scf.if %is_of_the_first_stage { ... }               nothing, on a device of the second

Ops that the device does not run are erased, so each stage of a pipeline gets a program of its own.
Collectives stay, since other devices take part in them.

A program of one device that names no grid, as `--lower=target=stablehlo` writes, gets the grid with
the fewest axes that its groups allow: `replica_groups = [[0, 4], [1, 5], [2, 6], [3, 7]]` are along
axis 0 of a grid of 2x4. So do programs that upstream's `shard-partition` has made, which are local
and do not say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from shard_dialect.collectives.collective_table import LOCAL, record_of
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir, run_upstream
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building.build import create, replace_op
from shard_dialect.ir.diagnostics import error_at, located
from shard_dialect.ir.function import (
    BOUNDARY,
    boundary,
    drop_from_boundary,
    form_of,
    functions_of,
    has_programs_of_devices,
    name_of,
    set_form,
)
from shard_dialect.ir.grids import grids_of, write_grid
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.annotation_ops import computations_around
from shard_dialect.ir.mesh.attributes import DEVICE, SHARDING, SHARDINGS, drop_attributes, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.sdy import ops as sdy
from shard_dialect.ir.shard.local_collectives import is_between_devices, is_of_stablehlo, read_local
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Axes, Grid, Reduction
from shard_dialect.model.grid_refinement import prime_factors
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, Pass, needs
from shard_dialect.passes.manual.replica_group_collectives import (
    axes_of_collective,
    write_stablehlo_collectives,
)
from shard_dialect.passes.specialize.fold_grid_queries import fold_device_positions

_RANK = "shard.process_linear_index"


@needs(grid=True)
@dataclass(frozen=True)
class PickDevice(Pass):
    """Specialize the program of all devices to one device."""

    name = "pick-device"
    rank: int = 0
    """The device's number on its grid."""

    def rewrite(self, module: ir.Operation) -> None:
        """Specialize all local functions; raise if the grid has no device of this rank."""
        grids = grids_of(module)
        largest = max(grids.values(), key=lambda grid: grid.size)
        if not 0 <= self.rank < largest.size:
            raise ShardError(
                f"--pick-device=rank={self.rank}: grid {largest} has no such device: expected 0 to "
                f"{largest.size - 1}"
            )
        fold_device_positions(module)
        for handle in functions_of(module, "local"):
            for op in walk(handle):
                record = LOCAL.get(op.name)
                if op.name == _RANK or (record is not None and record.alone is not None):
                    with located(op), ir.InsertionPoint(op), op.location:
                        picked = self._picked(op, grids)
                    replace_op(op, picked)
            handle.attributes[DEVICE] = ir.IntegerAttr.get(ir.IndexType.get(), self.rank)
        with collectives_kept(module):
            run_upstream("builtin.module(canonicalize)", module)

    def _picked(self, op: ir.Operation, grids: dict[str, Grid]) -> ir.Value:
        """The result of the op on the device."""
        grid = grids[symbol(op.attributes["cluster" if "cluster" in op.attributes else "grid"])]
        if self.rank >= grid.size:
            raise ShardError(
                f"--pick-device=rank={self.rank}: grid {grid} has no such device: expected 0 to "
                f"{grid.size - 1}"
            )
        if op.name == _RANK:
            return build.index(self.rank)
        read = read_local(op.name, op.attributes)
        assert read is not None, "it is a collective of the local form"
        alone = record_of(read[1]).alone
        assert alone is not None, "it does not communicate"
        picked: ir.Value = alone(_OneDevice(op.operands[0], read[1], grid, self.rank))
        return picked


@contextmanager
def collectives_kept(module: ir.Operation) -> Iterator[None]:
    """Keep the collectives in programs of one device alive meanwhile."""
    keep_collectives(module)
    yield
    release_collectives(module)


_KEPT = "mesh_kept_"


@needs(fact=has_programs_of_devices)
def keep_collectives(module: ir.Operation) -> Outcome:
    """Keep the collectives in programs of one device alive, by calls that use them.

    MLIR drops ops without uses. Where all devices run one program, all of them drop a collective.
    But in a program of one device it must stay, since the other devices of the group wait for it.
    """
    handles = [each for each in functions_of(module) if DEVICE in each.attributes]
    declared: dict[ir.Type, ir.Operation] = {}
    for op in [op for handle in handles for op in walk(handle)]:
        if read_local(op.name, op.attributes) is None:
            continue
        type_ = op.results[0].type
        if type_ not in declared:
            with ir.InsertionPoint.at_block_begin(body(module)), ir.Location.unknown():
                name = f"{_KEPT}{len(declared)}"
                declared[type_] = build.declare(name, ir.FunctionType.get([type_], []))
        with ir.InsertionPoint.after(op), op.location:
            build.call(name_of(declared[type_]), [op.results[0]])
    return None if declared else UNCHANGED


@needs(fact=has_programs_of_devices)
def release_collectives(module: ir.Operation) -> Outcome:
    """Erase the calls that kept collectives alive."""
    found = operations(body(module))
    declared = [op for op in found if op.name == "func.func" and name_of(op).startswith(_KEPT)]
    if not declared:
        return UNCHANGED
    for op in walk(module):
        if op.name == "func.call" and op.attributes["callee"].value.startswith(_KEPT):
            op.erase()
    for op in declared:
        op.erase()
    return None


@dataclass(frozen=True)
class _OneDevice:
    """A step without communication, on the device of a known rank."""

    operand: ir.Value
    step: Any
    grid: Grid
    rank: int

    def own_slice(self, value: ir.Value, dim: int) -> ir.Value:
        """The device's slice along `dim`."""
        size = value.type.shape[dim] // self.grid.axes_size(self.step.axes)
        return _slice(value, self.grid.index_along(self.rank, self.step.axes) * size, size, dim)

    def only_on(self, member: int, value: ir.Value, reduction: Reduction) -> ir.Value:
        """The value on one member of each group; the others have the identity of a reduction."""
        is_member = self.grid.index_along(self.rank, self.step.axes) == member
        return value if is_member else reductions.identity_tensor(reduction, value.type)


def _slice(value: ir.Value, start: int, size: int, dim: int) -> ir.Value:
    """A slice along `dim`; of a constant list of integers a constant, so that branches fold."""
    numbers = build.constant_value(value)
    if len(value.type.shape) == 1 and isinstance(numbers, ir.DenseIntElementsAttr):
        element = value.type.element_type
        picked = [ir.IntegerAttr.get(element, numbers[start + at]) for at in range(size)]
        type_ = ir.RankedTensorType.get([size], element)
        return build.scalar(ir.DenseElementsAttr.get(picked, type_))
    return build.extract_slice(value, start, size, dim)


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
    # The finest grid has a prime in each axis. If groups are along axes of any grid of this many
    # devices in row-major order, they are along axes of some order of primes; neighbouring axes
    # that all collectives use together are merged after.
    primes = prime_factors(count) or (1,)
    grid = Grid(NAME, _merged(primes, list(_axes_in(module, Grid(NAME, primes)))))
    with ir.InsertionPoint.at_block_begin(body(module)), ir.Location.unknown(module.context):
        write_grid(grid)
    for each in functions:
        drop_from_boundary(each, "mesh.")  # shardings on grids that are not declared
        drop_attributes(each, _CLUSTER)
        set_form(each, "local")
        write_stablehlo_collectives(each, Shardings.of(module))


def _is_of_devices(op: ir.Operation) -> bool:
    return is_of_stablehlo(op.name) or op.name == "stablehlo.replica_id"


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
    replace_op(op, number.results[0])


def _axes_in(module: ir.Operation, grid: Grid) -> Iterable[Axes]:
    for op in walk(module):
        if is_of_stablehlo(op.name) and op.name != "stablehlo.partition_id":
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


_ANNOTATIONS = (*annotation_ops.OPS, "shard.shard", "shard.sharding")


def mark_local(module: ir.Operation) -> None:
    """Give functions the local form, in place, where `module` is the program of one device.

    It is if it has collectives of the local form, which no annotated program may have, and neither
    a function in another form nor an annotation.
    """
    functions = functions_of(module)
    ops = walk(module)
    if (
        any(map(_is_of_one_device, ops))
        and not any(map(_is_annotated, ops))
        and all(form_of(each) == "annotated" for each in functions)
    ):
        for each in functions:
            set_form(each, "local")


def _is_of_one_device(op: ir.Operation) -> bool:
    is_ours = op.name.startswith(("shard.", "mesh."))
    return is_ours and is_between_devices(op) and next(computations_around(op), None) is None


def _is_annotated(op: ir.Operation) -> bool:
    if op.name == "func.func":
        entries = [entry for key in BOUNDARY for entry in boundary(op, key)]
        return any(SHARDING in each or sdy.SHARDING in each for each in entries)
    return op.name in _ANNOTATIONS or SHARDINGS in op.attributes or sdy.SHARDING in op.attributes
