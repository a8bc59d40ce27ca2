"""All programs that differ in one decision, and what that changes.

    annotation      an annotation splits a dimension along another axis, or no longer
    value           a value inside the function is sharded otherwise, and resharded elsewhere
    loops           a product is computed along another of its loops

What the rest of the program does is derived anew. So a mutation is right as the program is; what
changes is its costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.analysis.changes.annotations import (
    Edit,
    Placed,
    annotations_in,
    apply_edit,
    with_axes,
    without_axes,
)
from shard_dialect.analysis.changes.what_if_question import edits_for, names_of, read_each
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.errors import ShardError, of_option
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import warn
from shard_dialect.ir.grids import grids_of
from shard_dialect.model import Annotation, Axes, Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.processes.to_parent import counted
from shard_dialect.search.decisions import Decision, decide, decisions
from shard_dialect.search.evaluate import Evaluator
from shard_dialect.search.plan import Plan


@dataclass(frozen=True)
class Mutation:
    """A changed decision, and what it adds to a device's bytes, memory and time."""

    number: int
    """Its place in the list."""
    kind: Literal["annotation", "value", "loops"]
    what: str
    """The name of the tensor as `what_if` takes it, or an op and its place."""
    before: str
    after: str
    alike: int
    """For how many values or ops of the program the same could be decided."""
    bytes_change: int
    memory_change: int
    seconds_change: float

    def as_json(self) -> dict[str, object]:
        """The fields of an entry of `opt --list-mutations`."""
        return asdict(self)


@dataclass(frozen=True)
class _Change:
    """A mutation that has not been evaluated."""

    kind: Literal["annotation", "value", "loops"]
    what: str
    before: str
    after: str
    alike: int
    apply: Callable[[ir.Module], None]
    """Change an imported module in place."""


_DEVICE_MODEL = "h100"
SECONDS = 60.0
"""How long mutations are evaluated, by default."""


def mutations(
    module: ir.Module,
    entry: str | None = None,
    *,
    device_model: str | DeviceModel = _DEVICE_MODEL,
    seconds: float = SECONDS,
) -> list[Mutation]:
    """The mutations of a module in the annotated form, each with what it changes.

    The passes run once for each, until the time is over; those that they refuse are left out.
    Raises `ShardError` for a module that cannot be partitioned as it is.
    """
    end = time.monotonic() + seconds
    text = module.operation.get_asm(enable_debug_info=True)
    name = choose_entry(module.operation, entry)
    prices = DeviceModel.read(device_model)
    before = _evaluator(imported(text), name, prices).known_costs(Plan())
    found = []
    changes = _changes(text, name)
    for number, change in enumerate(counted(changes, "mutations", "--list-mutations")):
        changed = imported(text)
        if time.monotonic() > end:
            warn(
                f"{number} of {len(changes)} mutations were evaluated in {seconds:g} seconds: the "
                "others are not listed",
                changed.operation.location,
            )
            break
        change.apply(changed)
        costs = _evaluator(changed, name, prices).costs(Plan())
        if costs is not None:
            found.append(
                Mutation(
                    number,
                    change.kind,
                    change.what,
                    change.before,
                    change.after,
                    change.alike,
                    costs.bytes - before.bytes,
                    costs.peak - before.peak,
                    costs.seconds - before.seconds,
                )
            )
    return found


def mutated(module: ir.Module, what: Sequence[str], entry: str | None = None) -> ir.Module:
    """A copy of the module with mutations: numbers of the list, or `w1=[[], [model]]`.

    Several are changes of the module as it is, in their order. Raises `ShardError` for one that
    there is not.
    """
    name = choose_entry(module.operation, entry)
    asm = module.operation.get_asm(enable_debug_info=True)
    changed = imported(asm)
    numbers = [int(each) for each in what if each.isdecimal()]
    changes = _changes(asm, name) if numbers else []
    for number in numbers:
        if number >= len(changes) or not _is_listed(changes[number], asm, name):
            raise ShardError(
                f"--mutate={number}: there is no such mutation: --list-mutations lists them"
            )
    texts = [each for each in what if not each.isdecimal()]
    for text, question in read_each(texts, "mutate"):
        with of_option(f"--mutate={text}"):
            for edit in edits_for(changed.operation, name, question):
                apply_edit(changed.operation, edit)
    # Later ops first, so that inserted ops do not move those that are still to be changed.
    for number in sorted(numbers, reverse=True):
        changes[number].apply(changed)
    return changed


def _is_listed(change: _Change, text: str, entry: str) -> bool:
    """Whether the program with this change can be partitioned, as those that are listed can."""
    changed = imported(text)
    change.apply(changed)
    return _evaluator(changed, entry, DeviceModel.read(_DEVICE_MODEL)).costs(Plan()) is not None


def _changes(text: str, entry: str) -> list[_Change]:
    """All mutations: of annotations, then of decisions inside the function."""
    start = imported(text)
    grids = grids_of(start.operation)
    changes = [
        _Change(
            "annotation",
            _name(placed),
            _text(placed.annotation, grids[edit.annotation.grid]),
            _text(edit.annotation, grids[edit.annotation.grid]),
            1,
            partial(_apply, edit),
        )
        for placed, edit in _edits(start, entry)
    ]
    usable = [each for each in grids.values() if each.is_static and each.shape]
    if len(usable) == 1:
        changes += [_change(each, entry, usable[0]) for each in decisions(text, entry, usable[0])]
    return changes


def _apply(edit: Edit, module: ir.Module) -> None:
    apply_edit(module.operation, edit)


def _change(decision: Decision, entry: str, grid: Grid) -> _Change:
    return _Change(
        decision.kind,
        decision.what,
        _splits(decision.before, grid),
        _splits(decision.after, grid),
        decision.alike,
        lambda module: decide(module.operation, entry, decision, grid.name),
    )


def _edits(module: ir.Module, entry: str) -> Iterator[tuple[Placed, Edit]]:
    """For each annotation, and each tensor of the boundary, one split more, less, or elsewhere."""
    grids = [each for each in grids_of(module.operation).values() if each.is_static and each.shape]
    for placed in annotations_in(module.operation):
        if placed.site.kind != "op" and placed.site.function != entry:
            continue
        for grid in grids:
            if placed.annotation is None or placed.annotation.grid == grid.name:
                for edit in dict.fromkeys(_edits_of(placed, grid)):
                    yield placed, edit


def _edits_of(placed: Placed, grid: Grid) -> Iterator[Edit]:
    for axis in range(len(grid.shape)):
        joined = placed
        for dim in range(len(placed.shape)):
            edit = without_axes(joined, dim, (axis,))
            if edit is not None:
                yield edit
                joined = Placed(placed.site, placed.shape, edit.annotation, placed.location)
        for dim in range(len(placed.shape)):
            edit = with_axes(joined, dim, (axis,), grid)
            if edit is not None and edit.annotation != placed.annotation:
                yield edit


def _evaluator(module: ir.Module, entry: str, prices: DeviceModel) -> Evaluator:
    grid = next(iter(grids_of(module.operation)), "")
    text = module.operation.get_asm(enable_debug_info=True)
    return Evaluator(text, text, entry, grid, prices)


def _name(placed: Placed) -> str:
    if placed.site.kind == "op":
        return f"annotation at {placed.location}"
    return names_of(placed)[-1]


def _text(annotation: Annotation | None, grid: Grid) -> str:
    if annotation is None:
        return "not annotated"
    return _splits(annotation.sharding.split_axes, grid)


def _splits(splits: Sequence[Axes], grid: Grid) -> str:
    return f"[{', '.join(grid.axes_text(axes) for axes in splits)}]"
