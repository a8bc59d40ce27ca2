"""A function whose shardings are to be found, as the graph that shardings propagate through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.function import functions_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, read_functions
from shard_dialect.model import Annotation, Grid
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.framework.pipeline import make_pass, steps_of
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.passes.propagate.propagate_shardings import Propagated, PropagateShardings
from shard_dialect.propagation.engine import STRATEGIES, Engine
from shard_dialect.propagation.graph import NO_TENSOR

Site = tuple[str, int, int]
"""A value: the name of its function, the index of its op in the function, and of the result."""


@dataclass(frozen=True)
class SearchedFunction:
    """The graph of a module, and which of its values are the arguments and results of a function.

    The graph has handles of ops, so the module must live as long.
    """

    name: str
    module: ir.Module
    graph: ModuleGraph
    boundary: tuple[int, ...]
    """The arguments, then the results; `NO_TENSOR` for one that is no tensor."""
    arguments: int
    """The number of arguments."""
    shapes: tuple[Shape, ...]
    """The shapes at the boundary; `()` for a value that is no tensor."""
    sites: Mapping[int, Site]
    """The values that ops make and that can be annotated, by their numbers in the graph."""
    grids: Mapping[str, Grid]
    states: tuple[tuple[int, int], ...] = ()
    """Arguments with the results that are sharded as they are, by their numbers at the boundary."""

    @property
    def free(self) -> frozenset[int]:
        """The graph's values that may have any sharding: arguments, and copies of constants."""
        return frozenset(
            self.graph.number_of(index, value)
            for index, each in enumerate(self.graph.functions)
            for value in each.arguments
        ) | {copy.number for copy in self.graph.copies}

    def propagated(
        self, annotations: Mapping[int, Annotation]
    ) -> Callable[[int], Annotation | None]:
        """The annotation that each value of the graph gets if some have these."""
        graph = self.graph.graph
        known = [annotations.get(value, each) for value, each in enumerate(graph.annotations)]
        engine = Engine(replace(graph, annotations=known), self.grids, STRATEGIES["cost"])
        engine.run()
        return engine.known


def searched(module: ir.Operation) -> list[ir.Operation]:
    """The functions of a module that are not partitioned yet."""
    return functions_of(module, "annotated", "propagated")


def searched_function(
    module: ir.Module, entry: str, states: tuple[tuple[int, int], ...] = ()
) -> SearchedFunction | None:
    """The function `entry` of a module, which is propagated in place; `None` without any tensor.

    Raises a located `ShardError` for what cannot be propagated.
    """
    before = {each.name: _names(each) for each in read_functions(searched(module.operation))}
    observer = _Observer()
    for name in steps_of("propagate"):
        (observer if name == observer.name else make_pass(name)).run(module)
    graph = observer.graph
    if graph is None:
        return None
    index = next(n for n, each in enumerate(graph.functions) if each.name == entry)
    function = graph.functions[index]
    arguments = [graph.number_of(index, value) for value in function.arguments]
    results = {place: number for (of, place), number in graph.exits.items() if of == index}
    count = len(function.handle.attributes["function_type"].value.results)
    boundary = (*arguments, *(results.get(place, NO_TENSOR) for place in range(count)))
    sizes, kinds = graph.graph.sizes, graph.graph.kinds
    shapes = tuple(sizes[kinds[each]][0] if each != NO_TENSOR else () for each in boundary)
    grids = Shardings.of(module.operation).grids
    sites = _sites(graph, before)
    return SearchedFunction(
        entry, module, graph, boundary, len(arguments), shapes, sites, grids, states
    )


def _sites(graph: ModuleGraph, before: Mapping[str, list[str]]) -> dict[int, Site]:
    """Where values are, but for functions that propagation has changed, or copied for a call."""
    return {
        graph.number_of(index, value): (function.name, position, result)
        for index, function in enumerate(graph.functions)
        if before.get(function.name) == _names(function)
        for position, op in enumerate(function.ops)
        for result, value in enumerate(op.results)
    }


def _names(function: Function) -> list[str]:
    return [op.name for op in function.ops]


class _Observer(PropagateShardings):
    """Propagation that keeps its graph."""

    graph: ModuleGraph | None

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "graph", None)

    def observe(self, found: Propagated) -> None:
        """As `PropagateShardings.observe`."""
        object.__setattr__(self, "graph", found.graph)
