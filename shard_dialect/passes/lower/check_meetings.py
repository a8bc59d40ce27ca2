"""Check that the devices of a group meet at one collective, where not all of them may reach it.

    %r = scf.if %is_first -> tensor<4xf32> {                    one device of the group
      %1 = shard.all_reduce %0 on @g grid_axes = [0] ...
    } else {                                                    another one
      %2 = shard.shift %0 on @g grid_axes = [0] ...

The libraries would do something else, or wait forever. Each kind of collective of such groups has a
number, and the end of the program is 0. Before each one, and at the end,

    %most = shard.all_reduce [n, -n] on @g grid_axes = [0] reduction = max
    cf.assert %is_no_other, "f.mlir:3:8: error: ... other devices are at 'shard.shift', f.mlir:5:8"

Collectives that differ in nothing but their operands are of one kind, and may meet. Groups of other
axes are not asked: devices that wait for each other through several groups wait. A message needs no
meeting; and a program of one device cannot ask the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from shard_dialect.collectives import AllReduce, LocalStep
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.building.build import create, create_value
from shard_dialect.ir.diagnostics import located, location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.mesh.attributes import DEVICE, symbol
from shard_dialect.ir.shard.local_collectives import read_local, write_local
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Axes
from shard_dialect.passes.framework.base import UNCHANGED, Outcome, needs
from shard_dialect.passes.lower.partly_reached import reached_apart

_BRANCHES = (
    *("scf.if", "scf.index_switch", "scf.for", "scf.while"),
    *("stablehlo.case", "stablehlo.if", "stablehlo.while"),
)
_END = 0
_Key = tuple[str, Axes]
"""The grid and the axes of a collective's groups."""


@dataclass(frozen=True)
class _Site:
    """A collective at which the devices of a group meet."""

    op: ir.Operation
    key: _Key
    kind: Hashable

    @property
    def text(self) -> str:
        place = location_text(self.op.location)
        return f"'{self.op.name}'{', ' if place else ''}{place or ''}"


@needs(ops=_BRANCHES)
def check_meetings(module: ir.Operation) -> Outcome:
    """Assert that the devices of a group are at one collective, where some may not reach it."""
    if all(op.name not in _BRANCHES for op in walk(module)):  # called by itself, not as a step
        return UNCHANGED
    functions = list(functions_of(module))
    sites = list(_sites(functions))
    if not sites or any(DEVICE in each.attributes or _has_jumps(each) for each in functions):
        return UNCHANGED
    apart = reached_apart(module)
    sizes = {name: grid.size for name, grid in grids_of(module).items()}
    everywhere = {name for name, size in sizes.items() if size == max(sizes.values())}
    keys = {site.key for site in sites if site.op in apart and site.key[0] in everywhere}
    for key in sorted(keys, key=str):
        _check_all([site for site in sites if site.key == key], functions)
    return None if keys else UNCHANGED


def _check_all(sites: Sequence[_Site], functions: Sequence[ir.Operation]) -> None:
    """Before each of the collectives of some groups, and at the end."""
    first: dict[Hashable, _Site] = {}
    for site in sites:
        first.setdefault(site.kind, site)
    numbers = {kind: number for number, kind in enumerate(first, 1)}
    texts = ["the end of the program", *(site.text for site in first.values())]
    for site in sites:
        _check(site.op, sites[0].key, numbers[site.kind], texts)
    for function in _uncalled(functions):
        *_, last = operations(body(function))
        _check(last, sites[0].key, _END, texts)


def _check(op: ir.Operation, key: _Key, number: int, texts: Sequence[str]) -> None:
    """Before `op`, whose number this is, assert that the others of its group are at no other."""
    grid, axes = key
    place = location_text(op.location)
    what = f"'{op.name}' op" if number else texts[_END]
    with ir.InsertionPoint(op), op.location:
        index = ir.IndexType.get()
        both = build.scalar(build.dense([number, -number], index))
        most = write_local(AllReduce(axes, "max"), grid, both, both.type)
        largest, least = (
            create_value("tensor.extract", index, [most, build.index(at)]) for at in range(2)
        )
        for other, text in enumerate(texts):
            if other != number:
                found, named = (largest, other) if other > number else (least, -other)
                message = (
                    f"{place + ': ' if place else ''}error: {what} is reached while other devices "
                    f"of the group are at {text}: all must reach the same collectives in one order"
                )
                differs = build.compare("ne", found, build.index(named))
                create("cf.assert", [], [differs], {"msg": ir.StringAttr.get(message)})


def _sites(functions: Sequence[ir.Operation]) -> Iterator[_Site]:
    for function in functions:
        for op in walk(function):
            attributes = {name: op.attributes[name] for name in op.attributes}
            with located(op):
                read = read_local(op.name, attributes)
            if read is not None and _is_met(read[1]):
                grid, step = read
                types = (str(each.type) for each in (op.operands[0], *op.results))
                said = (f"{name} = {attributes[name]}" for name in sorted(attributes))
                yield _Site(op, (grid, step.axes), (op.name, *types, *said))


def _is_met(step: LocalStep) -> bool:
    return step.communicates and not step.is_message


def _has_jumps(function: ir.Operation) -> bool:
    return any(len(list(region.blocks)) > 1 for region in function.regions)


def _uncalled(functions: Sequence[ir.Operation]) -> list[ir.Operation]:
    called = {
        symbol(op.attributes["callee"])
        for each in functions
        for op in walk(each)
        if op.name == "func.call"
    }
    return [each for each in functions if name_of(each) not in called]
