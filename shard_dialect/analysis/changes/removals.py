"""The removal of a collective: another annotation without it, tried by running the passes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from time import monotonic
from typing import Any, ClassVar

from shard_dialect.analysis.changes.annotations import (
    Edit,
    Placed,
    annotations_in,
    apply_edit,
    site_of,
    with_axes,
    without_axes,
)
from shard_dialect.analysis.changes.what_if_question import annotated_arguments, names_of
from shard_dialect.analysis.program_costs import Costs, partitioned_costs, signed_micro
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.analysis.reasons.explained_passes import imported, result_places
from shard_dialect.analysis.reasons.why import Why
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.diagnostics import silent
from shard_dialect.model import Axes, Axis, Grid
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.processes.to_parent import counted


class _InReport:
    """What a dataclass says in the JSON report."""

    key: ClassVar[str]
    """The name of the field in the JSON report."""

    def as_json(self) -> dict[str, Any]:
        """The fields of the JSON report."""
        return asdict(self)  # type: ignore[call-overload]  # of a dataclass


@dataclass(frozen=True)
class Removal(_InReport):
    """The change of one annotation without which a collective would not be there."""

    what: str
    """The name of the tensor whose annotation is changed, as `what_if` takes it, or its place."""
    location: str | None
    before: str
    after: str
    bytes_change: int
    """The bytes that it adds to those which each device sends in the whole program."""
    seconds_change: float
    """The time that it adds to that of the whole program, on the device model."""
    memory_change: int
    """The bytes that it adds to the peak of what a device stores, each result by itself."""

    key = "removal"

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.before} -> {self.after}: {self.bytes_change:+,} bytes, "
            f"{signed_micro(self.seconds_change)} microseconds, "
            f"{self.memory_change:+,} bytes of memory"
        )


@dataclass(frozen=True)
class NotTried(_InReport):
    """Why changes that might remove a collective were not tried."""

    why: str
    key = "not_tried"

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True)
class NoneBetter(_InReport):
    """Changes remove a collective, but the program is not better for any of them."""

    seconds_change: float
    """The time that the one with the least adds."""
    key = "none_better"

    def __str__(self) -> str:
        return (
            "no change of one annotation that removes it makes the program faster: "
            f"{signed_micro(self.seconds_change)} microseconds at the least"
        )


Tried = Removal | NotTried | NoneBetter | None
"""The removal of a collective; `None` if no change of one annotation behind it is one."""
_NOISE = 1e-12
"""Seconds by which times of programs that are as fast may differ, since they are sums of floats."""
SECONDS = 30.0
"""How long removals are looked for where no limit is given."""


class Removals:
    """Finds removals for the collectives of one module, within `seconds`.

    Each change is tried once. Of collectives that are alike, as in the layers of a model, the first
    has its turn before others; of these, the one that takes longest.
    """

    def __init__(
        self,
        text: str,
        entry: str,
        collectives: Sequence[Collective],
        grids: Mapping[str, Grid],
        device_model: DeviceModel,
        file_text: str | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._seconds = seconds
        self._end = monotonic() + seconds
        self._device_model = device_model
        self._text = text
        self._entry = entry
        self._counts = _counted(collectives)
        self._grids = grids
        self._tried: dict[Edit, Mapping[_Key, int] | None] = {}
        self._costs: dict[Edit, Costs] = {}
        module = imported(text)
        self._placed = {
            each.site: _in_text(each, file_text) for each in annotations_in(module.operation)
        }
        self._of_arguments = annotated_arguments(module.operation)
        with silent():  # the report itself has warned
            self._before, _ = partitioned_costs(module, entry, device_model)

    def all(self, read: Sequence[tuple[Collective, Why]]) -> tuple[Tried, ...]:
        """The removal of each."""
        like = alike([each for each, _ in read])
        found: dict[int, Tried] = {}
        in_order = sorted(
            range(len(read)), key=lambda number: (like[number] != number, -read[number][0].seconds)
        )
        for number in counted(in_order, "collectives", "--suggest"):
            tried = self.best(*read[number])
            if isinstance(tried, NotTried) and like[number] != number:
                tried = NotTried(
                    f"not all of its changes are tried: it is like #{like[number] + 1}"
                )
            found[number] = tried
        return tuple(found[number] for number in range(len(read)))

    def best(self, collective: Collective, why: Why) -> Tried:
        """The change of one annotation that leaves the fewest bytes, and not the collective.

        Of those with equally many bytes, the one with which devices store least; only those that
        make the program faster, or as fast with fewer bytes.
        """
        found = []
        is_over = False
        for placed, edit in self._candidates(collective, why):
            is_over = edit not in self._tried and monotonic() > self._end
            if is_over:
                break
            counts = self._try(edit)
            key = _key(collective)
            if counts is not None and counts.get(key, 0) < self._counts[key]:
                found.append((placed, edit))
        better = [each for each in found if self._is_better(self._costs[each[1]])]
        if better:
            return self._removal(*min(better, key=lambda each: self._rank(*each)))
        if is_over:
            return NotTried(
                f"not all of its changes are tried: the {self._seconds:g} seconds of "
                "--suggest-seconds are over"
            )
        if not found:
            return None
        least = min(self._costs[edit].seconds for _, edit in found)
        return NoneBetter(least - self._before.seconds)

    def _is_better(self, costs: Costs) -> bool:
        change = costs.seconds - self._before.seconds
        return change < -_NOISE or (change < _NOISE and costs.bytes < self._before.bytes)

    def _rank(self, placed: Placed, edit: Edit) -> tuple[int, int]:
        return self._costs[edit].bytes, self._stored(placed, edit)

    def _removal(self, placed: Placed, edit: Edit) -> Removal:
        before, after = self._before, self._costs[edit]
        return Removal(
            self._name(placed),
            placed.location,
            self._text_of(placed),
            self._text_of(Placed(edit.site, placed.shape, edit.annotation, placed.location)),
            after.bytes - before.bytes,
            after.seconds - before.seconds,
            after.peak - before.peak,
        )

    def _candidates(self, collective: Collective, why: Why) -> Iterator[tuple[Placed, Edit]]:
        """Annotations behind the collective without its axes, or with them elsewhere."""
        axes, grid = collective.step.axes, collective.grid
        for origin in (*why.origins, *why.others):
            placed = self._placed.get(site) if (site := site_of(origin)) else None
            if placed is None or placed.annotation is None:
                continue
            own = _own(placed, axes, self._grids)
            edit = without_axes(placed, origin.dim, own)
            if edit is None:
                continue
            yield placed, edit
            left = replace(placed, annotation=edit.annotation)
            for dim in range(len(placed.shape)):
                moved = with_axes(left, dim, own, self._grids[edit.annotation.grid])
                if moved is not None and dim != origin.dim:
                    yield placed, moved
                yield from self._along_others(placed, left, dim, own)
        for origin in why.whole:
            placed = self._placed.get(site) if (site := site_of(origin)) else None
            for dim in range(len(placed.shape) if placed else 0):
                assert placed is not None, "it has dimensions"
                edit = with_axes(placed, dim, axes, grid) if grid.name in self._grids else None
                if edit is not None:
                    yield placed, edit

    def _along_others(
        self, placed: Placed, left: Placed, dim: int, own: Axes
    ) -> Iterator[tuple[Placed, Edit]]:
        """The annotation with a dimension split along another axis of the grid, in place of `own`.

        Then there may be a collective along that axis instead.
        """
        assert left.annotation is not None, "its axes are left out"
        grid = self._grids[left.annotation.sharding.grid]
        for axis in range(grid.rank):
            if axis not in own and grid.axes_size((axis,)) > 1:
                edit = with_axes(left, dim, (axis,), grid)
                if edit is not None:
                    yield placed, edit

    def _try(self, edit: Edit) -> Mapping[_Key, int] | None:
        """The collectives of the program after an edit; `None` if it is refused."""
        if edit not in self._tried:
            try:
                module = imported(self._text)
                apply_edit(module.operation, edit)
                costs, found = partitioned_costs(module, self._entry, self._device_model)
            except ShardError:
                self._tried[edit] = None
            else:
                self._tried[edit] = _counted(found)
                self._costs[edit] = costs
        return self._tried[edit]

    def _stored(self, placed: Placed, edit: Edit) -> int:
        """The elements that a device stores of the tensor."""
        sharding = edit.annotation.sharding
        return sharding.local_elements(placed.shape, self._grids[sharding.grid])

    def _name(self, placed: Placed) -> str:
        if placed.site.kind == "op":
            argument = self._of_arguments.get(placed.site.number)
            if argument is None or argument not in self._placed:
                return str(placed.site)
            placed = self._placed[argument]
        name, function = names_of(placed)[-1], placed.site.function
        return name if function == self._entry else f"{name} of {as_symbol(function)}"

    def _text_of(self, placed: Placed) -> str:
        if placed.annotation is None:
            return "not annotated"
        sharding = placed.annotation.sharding
        grid = self._grids[sharding.grid]
        return f"[{', '.join(grid.axes_text(axes) for axes in sharding.split_axes)}]"


def _in_text(placed: Placed, text: str | None) -> Placed:
    """A result with its own place, where the text of the file has it."""
    if placed.site.kind != "result" or text is None:
        return placed
    places = result_places(text, placed.location)
    number = placed.site.number
    return replace(placed, location=places[number]) if number < len(places) else placed


_Key = tuple[str, tuple[str, ...], str | None]


def _key(collective: Collective) -> _Key:
    return collective.kind, collective.axes, collective.location


def alike(collectives: Sequence[Collective]) -> list[int]:
    """For each collective, the first that is like it, as in another layer of a model."""
    first: dict[tuple[object, ...], int] = {}
    return [first.setdefault(_likeness(each), number) for number, each in enumerate(collectives)]


def _likeness(collective: Collective) -> tuple[object, ...]:
    """The key of equal collectives: all but places, and numbers and names of values."""
    texts = tuple(re.sub(r"argument \d+, .*?, |\d+", "0", step.text) for step in collective.why)
    what = (collective.kind, collective.axes, collective.operand, collective.result)
    return (*what, collective.times, texts)


def _counted(collectives: Sequence[Collective]) -> dict[_Key, int]:
    counts: dict[_Key, int] = {}
    for each in collectives:
        counts[_key(each)] = counts.get(_key(each), 0) + 1
    return counts


def _own(placed: Placed, axes: Axes, grids: Mapping[str, Grid]) -> tuple[Axis, ...]:
    """Those of the collective's axes; all of the annotation's, if its grid was refined."""
    assert placed.annotation is not None, "it is an origin"
    used = placed.annotation.sharding.axes
    same = tuple(axis for axis in used if axis in axes)
    return same or tuple(used)
