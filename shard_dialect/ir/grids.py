"""Grids in a module: `shard.grid @g(shape = 2x4)` and `"mesh.cluster"()` <-> Grid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import prod
from operator import add

from shard_dialect.errors import Diagnostic, ShardError, as_symbol, note
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building.build import create
from shard_dialect.ir.diagnostics import error_at, located, location_text, noting
from shard_dialect.ir.mesh.attributes import (
    AXIS_NAMES,
    DEVICE_IDS,
    DYNAMIC,
    PART_OF,
    STAGE_AXES,
    expect,
    i64_array,
    integer,
    ints,
    symbol,
)
from shard_dialect.ir.sdy.syntax import read_mesh
from shard_dialect.ir.shard.check_text import MOST_DEVICES
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import Grid, ShardingError, SubCluster

OPS = ("shard.grid", "mesh.cluster", "mesh.sub_cluster", "sdy.mesh")
_MAX_RANK = 64


def grids_of(module: ir.Operation) -> dict[str, Grid]:
    """The module's grids by name, whichever op declares them. Raises a located `ShardError`."""
    grids: dict[str, Grid] = {}
    for op in operations(body(module)):
        grid = read_grid(op)
        if grid is None:
            continue
        if grid.name in grids:
            raise error_at(op.location, f"two grids are named {as_symbol(grid.name)}")
        if prod(size for size in grid.shape if size is not None) > MOST_DEVICES:
            raise error_at(
                op.location, f"'{op.name}' op grid {grid} has more than {MOST_DEVICES} devices"
            )
        grids[grid.name] = grid
    return grids


def has_unlike_grids(module: ir.Operation) -> bool:
    """Whether the module declares several grids, or one without axes, as of a single device."""
    grids = grids_of(module)
    return len(grids) > 1 or not all(grid.rank for grid in grids.values())


@contextmanager
def explaining_grids(module: ir.Operation) -> Iterator[None]:
    """Add a note to errors and warnings of the `with` block about each grid made in it."""
    given: dict[str, Grid] = {}
    with suppress(ShardError):
        given = grids_of(module)

    def notes_on(message: str) -> Iterator[Diagnostic]:
        names = re.findall(r"@(\w+)", message)
        if given.keys() >= set(names):
            return
        parts, grids = sub_clusters_of(module), grids_of(module)
        names += [parts[name].of for name in names if name in parts]
        for grid in (grids[name] for name in dict.fromkeys(names) if name in grids):
            if grid.name in given:
                continue
            same = [each for each in given.values() if each.is_static and each.size == grid.size]
            what = (
                "a grid"
                if grid.name not in parts
                else f"a part of {as_symbol(parts[grid.name].of)}"
            )
            devices = f": the devices of {' and '.join(map(str, same))}" if same else ""
            place = _declared_at(module, same[0].name if same else grid.name)
            yield note(f"{grid} is {what} that the compiler has made{devices}", place)

    with noting(lambda message: tuple(notes_on(message))):
        yield


def _declared_at(module: ir.Operation, name: str) -> str | None:
    declared = (op for op in operations(body(module)) if op.name in OPS)
    places = (
        location_text(op.location) for op in declared if op.attributes["sym_name"].value == name
    )
    return next(places, None)


def refuse_more_devices(module: ir.Operation, most: int, for_what: str) -> None:
    """Raise a located `ShardError` unless some grid that is no part has up to `most` devices."""
    declared = [op for op in operations(body(module)) if op.name != "mesh.sub_cluster"]
    grids = [(op, grid) for op in declared if (grid := read_grid(op)) is not None]
    if not grids or any(not grid.is_static or grid.size <= most for _, grid in grids):
        return
    op, grid = min(grids, key=lambda each: each[1].size)
    raise error_at(
        op.location,
        f"grid {grid} has {grid.size:,} devices: {for_what} at most {most:,}; give it fewer",
    )


def sub_clusters_of(module: ir.Operation) -> dict[str, SubCluster]:
    """The sub-clusters that the module declares, by name.

    A part of a part is one of the cluster that this is a part of. Raises `ShardError` for parts of
    each other.
    """
    declared = {}
    for op in operations(body(module)):
        of = "cluster" if op.name == "mesh.sub_cluster" else PART_OF
        grid = read_grid(op) if of in op.attributes else None
        if grid is not None:
            with located(op):
                offsets = tuple(ints(expect(op, "offsets", ir.ArrayAttr, "a list of integers")))
                if len(offsets) != grid.rank:
                    raise ShardingError(f"has {len(offsets)} offsets for {grid.rank} axes")
            sizes = tuple(size or 0 for size in grid.shape)
            declared[grid.name] = SubCluster(grid.name, symbol(op.attributes[of]), offsets, sizes)
    return {name: _in_cluster(part, declared) for name, part in declared.items()}


def _in_cluster(part: SubCluster, declared: Mapping[str, SubCluster]) -> SubCluster:
    around, offsets = part.of, part.offsets
    for _ in declared:
        if around not in declared:
            return replace(part, of=around, offsets=offsets)
        outer = declared[around]
        around, offsets = outer.of, tuple(map(add, offsets, outer.offsets))
    raise ShardError(f"sub-cluster {part} is a part of itself, through {as_symbol(part.of)}")


def read_grid(op: ir.Operation) -> Grid | None:
    """The grid that `op` declares, or `None` if it declares none."""
    with located(op):
        if op.name == "shard.grid":
            sizes = [None if size == DYNAMIC else size for size in op.attributes["shape"]]
            devices = tuple(ints(op.attributes[DEVICE_IDS])) if DEVICE_IDS in op.attributes else ()
            name = op.attributes["sym_name"].value
            axes = _stage_axes(op, len(sizes))
            return Grid(name, tuple(sizes), _names(op, AXIS_NAMES), devices, axes)
        if op.name == "mesh.cluster":
            return _read_cluster(op)
        if op.name == "mesh.sub_cluster":
            name = expect(op, "sym_name", ir.StringAttr, "a string").value
            return Grid(name, tuple(ints(op.attributes["sizes"])))
        if op.name == "sdy.mesh":
            name = expect(op, "sym_name", ir.StringAttr, "a string").value
            if "mesh" not in op.attributes:
                raise ShardError(f"'sdy.mesh' op {as_symbol(name)} has no attribute 'mesh'")
            grid = read_mesh(str(op.attributes["mesh"]), name)
            return replace(grid, stage_axes=_stage_axes(op, grid.rank))
    return None


def _read_cluster(op: ir.Operation) -> Grid:
    """As in the RFC: `dim_sizes` has the sizes of the first axes; 0, -1 and no size are unknown."""
    name = expect(op, "sym_name", ir.StringAttr, "a string").value
    rank = integer(expect(op, "rank", ir.IntegerAttr, "an integer"))
    if not 0 <= rank <= _MAX_RANK:
        raise ShardError(f"cluster {as_symbol(name)} has rank {rank}: expected 0 to {_MAX_RANK}")
    sizes = ints(op.attributes["dim_sizes"]) if "dim_sizes" in op.attributes else []
    if len(sizes) > rank:
        raise ShardError(f"cluster {as_symbol(name)} of rank {rank} has {len(sizes)} dim_sizes")
    known = [None if size in (0, -1, DYNAMIC) else size for size in sizes]
    devices = tuple(ints(op.attributes["device_ids"])) if "device_ids" in op.attributes else ()
    if devices and (len(sizes) < rank or None in known):
        raise ShardError(f"cluster {as_symbol(name)} has device_ids, and sizes that are not known")
    shape = (*known, *(None,) * (rank - len(sizes)))
    return Grid(name, shape, _names(op, "axis_names"), devices, _stage_axes(op, rank))


def _stage_axes(op: ir.Operation, rank: int) -> tuple[int, ...]:
    axes = tuple(ints(op.attributes[STAGE_AXES])) if STAGE_AXES in op.attributes else ()
    for axis in axes:
        if not 0 <= axis < rank:
            raise ShardError(f"{STAGE_AXES} has axis {axis} of a cluster of rank {rank}")
    return axes


def _names(op: ir.Operation, key: str) -> tuple[str, ...]:
    if key not in op.attributes:
        return ()
    entries = list(expect(op, key, ir.ArrayAttr, "a list of names"))
    if not all(isinstance(entry, ir.StringAttr) for entry in entries):
        raise ShardingError(f"attribute '{key}' must be a list of strings, found {entries}")
    return tuple(entry.value for entry in entries)


def write_cluster(grid: Grid, replaced: ir.Operation | None = None) -> ir.Operation:
    """Create the `mesh.cluster` of a grid at the current insertion point and location.

    It is as visible as `replaced`, the op that it replaces, if there is one, and the same part.
    """
    if replaced is not None and PART_OF in replaced.attributes:
        part = {
            "sym_name": ir.StringAttr.get(grid.name),
            "cluster": replaced.attributes[PART_OF],
            "offsets": replaced.attributes["offsets"],
            "sizes": i64_array([size or 0 for size in grid.shape]),
        }
        return create("mesh.sub_cluster", [], [], part | _visibility(replaced))
    attributes = {
        "sym_name": ir.StringAttr.get(grid.name),
        "rank": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), grid.rank),
    }
    if grid.shape:
        attributes["dim_sizes"] = i64_array([-1 if size is None else size for size in grid.shape])
    if grid.axes:
        attributes["axis_names"] = names_attribute(grid)
    if grid.device_ids:
        attributes["device_ids"] = i64_array(grid.device_ids)
    return create("mesh.cluster", [], [], attributes | part_attributes(grid, replaced))


def write_sub_cluster(part: SubCluster) -> None:
    """Create the `mesh.sub_cluster` of a part of a grid, at the insertion point and location."""
    attributes = {
        "sym_name": ir.StringAttr.get(part.name),
        "cluster": ir.FlatSymbolRefAttr.get(part.of),
        "offsets": i64_array(part.offsets),
        "sizes": i64_array(part.sizes),
    }
    create("mesh.sub_cluster", [], [], attributes)


def erase_cluster(module: ir.Operation, name: str) -> None:
    """Erase the declaration `mesh.cluster` of a grid that nothing uses."""
    for op in list(body(module).operations):
        if op.operation.name == "mesh.cluster" and op.attributes["sym_name"].value == name:
            op.operation.erase()


def write_grid(grid: Grid, replaced: ir.Operation | None = None) -> ir.Operation:
    """Create the `shard.grid` of a grid; one without axes gets an axis of size 1 for upstream.

    It is as visible as `replaced`, the op that it replaces, if there is one.
    """
    sizes = [DYNAMIC if size is None else size for size in grid.shape] or [1]
    attributes = {
        "sym_name": ir.StringAttr.get(grid.name),
        "shape": ir.DenseI64ArrayAttr.get(sizes),
    }
    if grid.axes:
        attributes[AXIS_NAMES] = names_attribute(grid)
    if grid.device_ids:
        attributes[DEVICE_IDS] = i64_array(grid.device_ids)
    return create("shard.grid", [], [], attributes | part_attributes(grid, replaced))


def part_attributes(grid: Grid, replaced: ir.Operation | None) -> dict[str, ir.Attribute]:
    """What a grid's declaration has besides its axes: stages, and what it takes from another."""
    found = _visibility(replaced)
    if grid.stage_axes:
        found[STAGE_AXES] = i64_array(grid.stage_axes)
    if replaced is not None and replaced.name == "mesh.sub_cluster":
        found[PART_OF], found["offsets"] = (replaced.attributes[k] for k in ("cluster", "offsets"))
    return found


def _visibility(op: ir.Operation | None) -> dict[str, ir.Attribute]:
    key = "sym_visibility"
    return {key: op.attributes[key]} if op is not None and key in op.attributes else {}


def set_sizes(op: ir.Operation, sizes: Sequence[int]) -> None:
    """Set the sizes of a `shard.grid` or `mesh.cluster`."""
    if op.name == "shard.grid":
        op.attributes["shape"] = ir.DenseI64ArrayAttr.get(list(sizes))
    else:
        op.attributes["dim_sizes"] = i64_array(list(sizes))


def names_attribute(grid: Grid) -> ir.ArrayAttr:
    """The names of the grid's axes as an attribute."""
    return ir.ArrayAttr.get([ir.StringAttr.get(name) for name in grid.axes])


def has_several_grids(module: ir.Operation) -> bool:
    """Whether the module declares more than one grid."""
    return len(grids_of(module)) > 1


def fresh_name(name: str, names: set[str]) -> str:
    """`name`, or with a number behind it, as none of `names` is, to which it is added."""
    found, number = name, 1
    while found in names:
        number += 1
        found = f"{name}_{number}"
    names.add(found)
    return found
