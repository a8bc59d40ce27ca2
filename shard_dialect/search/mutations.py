"""All programs that differ in one decision: one annotation splits a dimension along another axis.

What the rest of the program does is derived anew. So a mutation is right as the program is; what
changes is its costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from shard_dialect.analysis.changes.annotations import (
    Edit,
    Placed,
    annotations_in,
    apply_edit,
    with_axes,
    without_axes,
)
from shard_dialect.analysis.changes.what_if import Question, edits_for, names_of
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.codegen.lowered_program import choose_entry
from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.grids import grids_of
from shard_dialect.model import Annotation, Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.search.evaluate import Evaluator
from shard_dialect.search.plan import Plan


@dataclass(frozen=True)
class Mutation:
    """Another annotation of one tensor, and what it adds to what each device does."""

    number: int
    """Its place in the list."""
    what: str
    """The name of the tensor as `what_if` takes it, or the place of the op that annotates it."""
    before: str
    after: str
    bytes_change: int
    memory_change: int
    seconds_change: float

    def as_json(self) -> dict[str, object]:
        """The fields of an entry of `opt --list-mutations`."""
        return asdict(self)


def mutations(
    module: ir.Module,
    entry: str | None = None,
    *,
    device_model: str = "h100",
    file_text: str | None = None,
) -> list[Mutation]:
    """The mutations of a module in the annotated form, each with what it changes.

    The passes run once for each; those that they refuse are left out. Raises `ShardError` for a
    module that cannot be partitioned as it is.
    """
    text = module.operation.get_asm(enable_debug_info=True)
    name = choose_entry(module.operation, entry)
    prices = DeviceModel.read(device_model)
    before = _evaluator(imported(text), name, prices).known_costs(Plan())
    found = []
    start = imported(text)
    grids = grids_of(start.operation)
    for number, (placed, edit) in enumerate(_edits(start, name)):
        changed = imported(text)
        apply_edit(changed.operation, edit)
        costs = _evaluator(changed, name, prices).costs(Plan())
        if costs is not None:
            found.append(
                Mutation(
                    number,
                    _name(placed, file_text),
                    _text(placed.annotation, grids[edit.annotation.grid]),
                    _text(edit.annotation, grids[edit.annotation.grid]),
                    costs.bytes - before.bytes,
                    costs.peak - before.peak,
                    costs.seconds - before.seconds,
                )
            )
    return found


def mutated(
    module: ir.Module, what: Sequence[str], entry: str | None = None, file_text: str | None = None
) -> ir.Module:
    """A copy of the module with mutations: numbers of the list, or `w1=[[], [model]]`.

    Raises `ShardError` for one that there is not.
    """
    name = choose_entry(module.operation, entry)
    changed = imported(module.operation.get_asm(enable_debug_info=True))
    edits = list(_edits(changed, name))
    for each in what:
        if each.isdecimal():
            if int(each) >= len(edits):
                raise ShardError(f"there is no mutation {each}: --list-mutations lists them")
            chosen = [edits[int(each)][1]]
        else:
            chosen = edits_for(changed.operation, name, Question.read(each), file_text)
        for edit in chosen:
            apply_edit(changed.operation, edit)
    return changed


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
    return Evaluator(module.operation.get_asm(enable_debug_info=True), entry, grid, prices)


def _name(placed: Placed, file_text: str | None) -> str:
    if placed.site.kind == "op":
        return f"annotation at {placed.location}"
    return names_of(placed, file_text)[-1]


def _text(annotation: Annotation | None, grid: Grid) -> str:
    if annotation is None:
        return "not annotated"
    return f"[{', '.join(grid.axes_text(axes) for axes in annotation.sharding.split_axes)}]"
