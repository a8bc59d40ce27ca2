"""The tensors of a propagated function by name, each with its sharding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shard_dialect.analysis.changes.annotations import annotations_in
from shard_dialect.analysis.changes.what_if import names_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape


@dataclass(frozen=True)
class NamedSharding:
    """How a tensor is split over the grid, and what it is called."""

    names: tuple[str, ...]
    """From the least telling one, `arg0`, to what the file says."""
    shape: Shape
    sharding: Sharding
    grid: Grid

    @property
    def name(self) -> str:
        """The most telling name."""
        return self.names[-1]


def named_shardings(
    module: ir.Operation, entry: str, text: str | None = None
) -> Iterator[NamedSharding]:
    """The shardings of a function's arguments and results, then those of its ops.

    The module is in our vocabulary. `text` is that of the user's file, in which arguments have
    names; an op has the name with which the module is printed, as in `%3`.
    """
    shardings = Shardings.of(module)
    for each in annotations_in(module):
        if each.site.function == entry and each.annotation is not None:
            sharding = each.annotation.sharding
            grid = shardings.grid(sharding.grid)
            yield NamedSharding(names_of(each, text), each.shape, sharding, grid)
    state = ir.AsmState(module)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    for op in walk(function):
        by_result = shardings.of_results(op) if len(op.results) else {}
        for number, annotation in by_result.items():
            result = op.results[number]
            names = (result.get_name(state),)
            sharding = annotation.sharding
            grid = shardings.grid(sharding.grid)
            yield NamedSharding(names, tuple(result.type.shape), sharding, grid)
