"""What the user said about one function, from which propagation infers the rest.

Said by annotation ops and by attributes, those of the propagated form too, which is read again
after other passes have changed it.
"""

from __future__ import annotations

from dataclasses import dataclass

from shard_dialect.errors import ShardError
from shard_dialect.ir import annotation
from shard_dialect.ir.attributes import SHARDINGS
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, warn
from shard_dialect.ir.local import LOCAL_COLLECTIVES
from shard_dialect.ir.program import Function
from shard_dialect.ir.shardings import Shardings
from shard_dialect.ir.statements import Statement, merged, statements
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Grid, SubAxis

_UNSUPPORTED = ("mesh.collective_permute", "mesh.to_global", "mesh.to_local")
"""Read, checked and converted; what propagation does not know what to do with yet."""
_NOT_IN_REGIONS = (
    *annotation.OPS,
    *LOCAL_COLLECTIVES,
    *_UNSUPPORTED,
    "mesh.idx",
    "mesh.propagation_barrier",
    "mesh.sharding_group",
)


@dataclass(frozen=True, slots=True)
class Hint:
    """How a value is to lie, if facts do not say otherwise."""

    value: int
    said: Annotation
    location: ir.Location


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of each value, by its number, and what is only wished."""

    known: dict[int, Annotation]
    hints: tuple[Hint, ...]


def read_facts(function: Function, shardings: Shardings) -> Facts:
    """Read and check them. Raises a located `ShardError`."""
    _refuse_what_is_not_annotated(function)
    said = statements(function.handle, shardings)
    numbers = {value.handle: number for number, value in enumerate(function.values)}
    said = [
        each
        for each in said
        if each.value in numbers and _holds(each, function, numbers[each.value], shardings)
    ]
    known = {numbers[value]: both for value, both in merged(said).items()}
    for each in said:
        if each.strength == "weak":
            known.setdefault(numbers[each.value], each.said)
    hints = [
        Hint(numbers[each.value], each.said, each.location)
        for each in said
        if each.strength == "hint"
    ]
    return Facts(known, tuple(hints))


def _holds(each: Statement, function: Function, number: int, shardings: Shardings) -> bool:
    """Whether a statement can be true; raises where one that binds cannot."""
    try:
        _check(each, function, number, shardings)
    except ShardError as error:
        if each.strength != "hint":
            raise
        warn(f"the hint {each.said} cannot hold: {error.message}", each.location)
        return False
    return True


def _check(each: Statement, function: Function, number: int, shardings: Shardings) -> None:
    """Refuse what propagation cannot start from."""
    sharding, shape = each.said.sharding, function.values[number].shape
    if shape is None:
        raise error_at(each.location, f"sharding {sharding} is on a tensor of unknown size")
    for axis in (*sharding.axes, *each.said.replicated):
        if isinstance(axis, SubAxis):
            raise error_at(
                each.location, f"sub-axis {axis} in {each.said}: sub-axes are not propagated yet"
            )
    if number in function.arguments and sharding.partial:
        raise error_at(
            each.location,
            f"an argument is annotated {sharding}: only a value that an op makes can be partial",
        )
    try:
        sharding.local_shape(shape, shardings.grid(sharding.grid))
    except ShardError as error:
        raise error_at(each.location, error.message) from None


def _refuse_what_is_not_annotated(function: Function) -> None:
    for op in function.ops:
        if op.name in (*LOCAL_COLLECTIVES, "mesh.idx"):
            raise error_at(
                op.location, f"'{op.name}' op is of the local form: here tensors are global"
            )
        if op.name in _UNSUPPORTED:
            raise error_at(op.location, f"'{op.name}' op is read, but not propagated yet")
        for inner in walk(op.handle):
            if inner.name in _NOT_IN_REGIONS:
                raise error_at(
                    inner.location, f"'{inner.name}' op is inside a region: that is not read yet"
                )
            if SHARDINGS in inner.attributes or annotation.has_loops(inner):
                raise error_at(
                    inner.location,
                    f"'{inner.name}' op says how it is split inside a region: that is not read yet",
                )


def grid_of(function: Function, facts: Facts, shardings: Shardings) -> Grid:
    """The one grid that the function's annotations are on, else its default, else the module's."""
    names = sorted({said.grid for said in facts.known.values()})
    if len(names) > 1:
        raise error_at(
            function.handle.location,
            f"function @{function.name} is annotated on grids @{names[0]} and @{names[1]}: "
            "one grid a function is supported yet",
        )
    if not names and "mesh_cluster" in function.handle.attributes:
        names = [annotation.cluster_name(function.handle)]
    if not names:
        names = list(shardings.grids)[:1]
    if not names:
        raise error_at(
            function.handle.location,
            "the module has no grid: declare one, as in `shard.grid @grid(shape = 2x4)`",
        )
    grid = shardings.grid(names[0])
    if grid.device_ids:
        raise error_at(
            function.handle.location,
            f"grid {grid} of function @{function.name} has its devices in an order of its own: "
            "that is not followed yet",
        )
    if not grid.is_static:
        raise error_at(
            function.handle.location,
            f"grid {grid} of function @{function.name} has unknown sizes: they must be given yet",
        )
    return grid
