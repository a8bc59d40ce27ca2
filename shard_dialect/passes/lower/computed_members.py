"""Check the members of groups that a program computes as it runs: roots, and partners of messages.

    %1 = shard.broadcast %0 on @g grid_axes = [0] root = [%i] : ...

becomes, where @g has four devices along axis 0,

    cf.assert %is_member, "f.mlir:3:8: error: ... names no member: expected 0 to 3"
    %both = tensor.from_elements %i, -%i
    %most = shard.all_reduce %both on @g grid_axes = [0] reduction = max
    cf.assert %is_same, "f.mlir:3:8: error: ... names another root on other devices of its group"
    %1 = shard.broadcast %0 on @g grid_axes = [0] root = [%i] : ...

The largest and the smallest root are equal if all devices of the group name one. Otherwise each
library would do something else, or wait forever. A message needs no agreement; and a program of one
device, which has other collectives than the programs of others, cannot ask them.
"""

from __future__ import annotations

from collections.abc import Iterator

from shard_dialect.collectives import AllReduce, LocalStep
from shard_dialect.collectives.collective_table import LOCAL
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import create, create_value
from shard_dialect.ir.diagnostics import located, location_text
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import DEVICE
from shard_dialect.ir.shard.local_collectives import read_local, write_local
from shard_dialect.ir.walk import walk
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs


def members_of(op: ir.Operation, step: LocalStep) -> Iterator[ir.Value | int]:
    """The index along each axis of its group that a collective names, in numbers and values."""
    values = iter(list(op.operands)[1:])
    for at in getattr(step, step.names):
        yield next(values) if at is None else at


def computed_member(op: ir.Operation, step: LocalStep, sizes: tuple[int, ...]) -> ir.Value:
    """The number in its group of the member that a collective names, in row-major order."""
    number = build.index(0)
    for at, size in zip(members_of(op, step), sizes, strict=True):
        scaled = build.arith("muli", number, build.index(size))
        number = build.arith("addi", scaled, build.index(at) if isinstance(at, int) else at)
    return number


_NAME_MEMBERS = tuple(name for name, record in LOCAL.items() if record.step.names)


@needs(ops=_NAME_MEMBERS)
def check_members(module: ir.Operation) -> Outcome:
    """Assert that members that the program computes exist, and that roots are equal in a group."""
    grids = grids_of(module)
    checked = 0
    for function in functions_of(module):
        is_for_all = DEVICE not in function.attributes
        named = [op for op in walk(function) if op.name in _NAME_MEMBERS and len(op.operands) > 1]
        for op in named:
            with located(op):
                read = read_local(op.name, op.attributes)
            if read is not None and read[1].is_computed:
                checked += 1
                grid, step = read
                sizes = grids[grid].sizes_along(step.axes)
                with ir.InsertionPoint(op), op.location:
                    _check_exists(op, step, sizes)
                    if is_for_all and not step.is_message:
                        _check_agreement(op, grid, step, sizes)
    return None if checked else UNCHANGED


def _check_exists(op: ir.Operation, step: LocalStep, sizes: tuple[int, ...]) -> None:
    for at, size in zip(members_of(op, step), sizes, strict=True):
        if not isinstance(at, int):
            message = f"no member of its group as its {step.names}: expected 0 to {size - 1}"
            _assert(op, build.compare("sge", at, build.index(0)), message)
            _assert(op, build.compare("slt", at, build.index(size)), message)


def _check_agreement(op: ir.Operation, grid: str, step: LocalStep, sizes: tuple[int, ...]) -> None:
    member = computed_member(op, step, sizes)
    both = [member, build.arith("subi", build.index(0), member)]
    type_ = ir.RankedTensorType.get([2], ir.IndexType.get())
    listed = create_value("tensor.from_elements", type_, both)
    most = write_local(AllReduce(step.axes, "max"), grid, listed, type_)
    most_and_least = [
        create_value("tensor.extract", ir.IndexType.get(), [most, build.index(at)])
        for at in range(2)
    ]
    between = build.arith("addi", *most_and_least)
    message = f"another {step.names} on other devices of its group: expected one for all"
    _assert(op, build.compare("eq", between, build.index(0)), message)


def _assert(op: ir.Operation, condition: ir.Value, message: str) -> None:
    place = location_text(op.location)
    text = f"{place + ': ' if place else ''}error: '{op.name}' op names {message}"
    create("cf.assert", [], [condition], {"msg": ir.StringAttr.get(text)})
