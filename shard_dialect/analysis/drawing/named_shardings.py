"""The tensors of a propagated function by name, each with its sharding and where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shard_dialect.analysis.changes.annotations import Site, annotations_in
from shard_dialect.analysis.changes.what_if import names_of
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.origins import Origins
from shard_dialect.propagation.graph import NO_TENSOR


@dataclass(frozen=True)
class NamedSharding:
    """How a tensor is split over the grid, what it is called, and where it is made."""

    names: tuple[str, ...]
    """From the least telling one, `arg0`, to what the file says."""
    shape: Shape
    sharding: Sharding
    grid: Grid
    location: str | None
    _number: int | None = field(default=None, repr=False, compare=False)
    """The number of its value in the graph of `_origins`."""
    _origins: Origins | None = field(default=None, repr=False, compare=False)
    given_steps: tuple[Reason, ...] = field(default=(), repr=False, compare=False)
    """The steps of a tensor that was not propagated."""

    @property
    def name(self) -> str:
        """The most telling name."""
        return self.names[-1]

    @property
    def text(self) -> str:
        """The axes of each dimension, by name if the grid has names: `[["data"], []]`."""
        split = ", ".join(self.grid.axes_text(axes) for axes in self.sharding.split_axes)
        partial = self.sharding.partial
        return f"[{split}]" + (f", partial over {self.grid.axes_text(partial)}" if partial else "")

    def steps(self) -> list[Reason]:
        """For each split, the steps of propagation back to an annotation; the last one is its."""
        if self._origins is None or self._number is None:
            return list(self.given_steps)
        known = self._origins.engine.known(self._number)
        notes = [
            note
            for dim, axes in enumerate(known.sharding.split_axes if known else ())
            if axes
            for note in self._origins.chain(self._number, dim)
        ]
        return [Reason(note.message, note.location) for note in dict.fromkeys(notes)]


def named_shardings(
    module: ir.Operation, entry: str, text: str | None = None, origins: Origins | None = None
) -> Iterator[NamedSharding]:
    """The shardings of a function's arguments and results, then those of its ops.

    The module is in our vocabulary. `text` is that of the user's file, in which arguments have
    names; an op has the name with which the module is printed, as in `%3`. `origins` are those of
    the propagation of this module.
    """
    shardings = Shardings.of(module)
    numbers = _Numbers(entry, origins)
    for each in annotations_in(module):
        if each.site.function == entry and each.annotation is not None:
            sharding = each.annotation.sharding
            yield NamedSharding(
                names_of(each, text),
                each.shape,
                sharding,
                shardings.grid(sharding.grid),
                each.location,
                numbers.at(each.site),
                origins,
            )
    state = ir.AsmState(module)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    for op in walk(function):
        by_result = shardings.of_results(op) if len(op.results) else {}
        for number, annotation in by_result.items():
            result = op.results[number]
            sharding = annotation.sharding
            yield NamedSharding(
                (result.get_name(state),),
                tuple(result.type.shape),
                sharding,
                shardings.grid(sharding.grid),
                location_text(op.location),
                numbers.of(result),
                origins,
            )


class _Numbers:
    """The numbers of a function's values in the graph through which shardings propagated."""

    def __init__(self, entry: str, origins: Origins | None) -> None:
        self._by_handle: dict[ir.Value, int] = {}
        self._by_site: dict[Site, int] = {}
        graph = origins.graph if origins else None
        for index, function in enumerate(graph.functions if graph else ()):
            assert graph is not None, "it has functions"
            if function.name != entry:
                continue
            for number, value in enumerate(function.values):
                self._by_handle[value.handle] = graph.number_of(index, number)
            for place, number in enumerate(function.arguments):
                self._by_site[Site("argument", entry, place)] = graph.number_of(index, number)
            for (of, place), number in graph.exits.items():
                if of == index:
                    self._by_site[Site("result", entry, place)] = number

    def at(self, site: Site) -> int | None:
        return self._known(self._by_site.get(site))

    def of(self, value: ir.Value) -> int | None:
        return self._known(self._by_handle.get(value))

    def _known(self, number: int | None) -> int | None:
        return None if number == NO_TENSOR else number
