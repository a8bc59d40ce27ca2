"""From annotated to propagated: give every tensor value a sharding.

    func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
      %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
      %0 = shard.shard %w to %s : tensor<8x16xf32>
      %1 = linalg.matmul ins(%x, %0 ...) outs(%zero ...) -> tensor<4x16xf32>

becomes the following, where the annotations stay and attributes have the inferred shardings

    func.func @main(%x: ... {mesh.sharding = #mesh.shard<@g, [[], []]>}, %w: ...
      %1 = linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} ins(...

The pass reads the module once into a graph (`module_graph`), propagates shardings through the graph
to a fixed point (`propagation`), and writes the resulting shardings once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text, warn
from shard_dialect.ir.function import (
    boundary,
    form_of,
    functions_of,
    refuse_form,
    set_boundary,
    set_form,
    update_type,
)
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDING, SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.no_grid import declares_no_grid
from shard_dialect.ir.numbered_function import Block, Function, Op
from shard_dialect.ir.read_function import read_functions
from shard_dialect.ir.region_flow import FLOWS
from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.passes.framework.base import Pass
from shard_dialect.passes.manual.manual_bodies import open_bodies
from shard_dialect.passes.propagate.constraints import (
    Constraints,
    check_grid,
    default_grid,
    read_constraints,
)
from shard_dialect.passes.propagate.inline_named_computations import inline_named
from shard_dialect.passes.propagate.module_graph import GROUP, ModuleGraph, module_graph
from shard_dialect.passes.propagate.soft_constraints import followed
from shard_dialect.passes.propagate.split_constants import SplitConstants
from shard_dialect.passes.propagate.strided_merges import take_apart_strided_merges
from shard_dialect.passes.specialize.clone_per_call import Calls
from shard_dialect.passes.specialize.device_positions import fold_sizes
from shard_dialect.passes.stages.rewrite_annotations import merge_equal_grids
from shard_dialect.passes.stages.settle_grids import settle_grids
from shard_dialect.passes.stages.stages_to_grid import stages_to_grid_axis
from shard_dialect.passes.vocabularies.import_ import import_annotations
from shard_dialect.propagation.engine import Engine
from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.propagation.spread_extents import spread_extents
from shard_dialect.propagation.upstream_propagation import Traversal, Upstream
from shard_dialect.propagation.visit_order import STRATEGIES, Strategy


@dataclass(frozen=True)
class Propagate(Pass):
    """Complete the annotations: give every tensor value a sharding, as attributes."""

    name = "propagate"

    strategy: Literal["basic", "aggressive", "op-priority", "user-priority", "cost"] = "cost"
    """How far shardings propagate, and how conflicts are resolved: see docs/propagation.md."""

    traversal: Literal["forward", "backward", "forward-backward", "backward-forward"] | None = None
    """Instead of a strategy, visit each op once in each direction, like upstream's
    `sharding-propagation`."""

    stop_after_priority: int | None = None
    """Propagate only the annotations of the priorities up to this one."""

    conservative: bool = False
    """Pass on whole axes alone, and only where they divide the dimension."""

    remarks: bool = False
    """Report each conflict: the op, both sides, which side was kept, and why."""

    explain: str | None = None
    """Report the origin of a value's sharding: `%3` as printed, `@f:%3`, or a line of the file."""

    def __post_init__(self) -> None:
        if self.traversal is not None and self.strategy != type(self).strategy:
            raise ShardError(
                f"pass 'propagate' has strategy={self.strategy} and traversal={self.traversal}: "
                "give one of the two"
            )
        if self.traversal is not None and self.conservative:
            raise ShardError(
                f"pass 'propagate' has traversal={self.traversal} and conservative: a traversal "
                "goes as upstream's pass does; give one of the two"
            )
        if self.stop_after_priority is not None:
            self._check_priority(self.stop_after_priority)

    def _check_priority(self, priority: int) -> None:
        if priority < 0:
            raise ShardError(
                f"pass 'propagate' has stop-after-priority={priority}: priorities are from 0 on"
            )
        without = f"traversal={self.traversal}" if self.traversal else f"strategy={self.strategy}"
        if self.traversal or not STRATEGIES[self.strategy].priorities:
            raise ShardError(
                f"pass 'propagate' has stop-after-priority={priority} and {without}, which ignores "
                "priorities: use strategy=cost or strategy=user-priority"
            )

    def rewrite(self, module: ir.Operation) -> None:
        """Propagate the functions in the annotated and propagated forms; raises `ShardError`."""
        fold_sizes(module)
        names = import_annotations(module)
        if declares_no_grid(module):
            return
        merge_equal_grids(module, Shardings.of(module))
        settle_grids(module)
        stages_to_grid_axis(module)
        if "scf.execute_region" in names:
            Calls(module).refuse_recursion()
            open_bodies(module)
        calls = Calls(module)
        if "func.call" in names:
            calls.separate()
        handles = [
            handle
            for handle in functions_of(module)
            if form_of(handle) in ("annotated", "propagated")
        ]
        for handle in handles if "scf.execute_region" in names else ():
            inline_named(handle)
        shardings = Shardings.of(module)
        if handles:
            done = self._complete(handles, shardings)
            if self.remarks or self.explain:
                self._report(module, *done)
        calls.join()

    def _complete(
        self, handles: Sequence[ir.Operation], shardings: Shardings
    ) -> tuple[ModuleGraph, Engine]:
        """Write the propagated shardings; again where that makes merges worth taking apart."""
        strategy = replace(STRATEGIES[self.strategy], conservative=self.conservative)
        how = (strategy, self.traversal, self.stop_after_priority)
        may_rewrite = self.strategy == "cost" and self.traversal is None
        while True:
            functions, constraints = _read(handles, shardings)
            graph, engine = _propagated(functions, constraints, shardings, *how)
            if not may_rewrite or not take_apart_strided_merges(graph, engine):
                self.observe(graph, engine)
                _write(graph, engine, constraints, shardings)
                return graph, engine

    def observe(self, graph: ModuleGraph, engine: Engine) -> None:
        """See the shardings before they are written; for subclasses, that report on them."""

    def _report(self, module: ir.Operation, graph: ModuleGraph, engine: Engine) -> None:
        from shard_dialect.passes.propagate.propagation_report import Report  # rarely needed

        report = Report(module, graph, engine)
        if self.remarks:
            report.remark_conflicts()
        if self.explain:
            report.explain(self.explain)


def complete_again(module: ir.Operation) -> tuple[list[ir.Operation], Shardings]:
    """Give a sharding to every tensor that passes have created since propagation.

    Returns the functions in the propagated form; later forms are left as they are. Raises a
    located `ShardError` for a function in the annotated form.
    """
    if "scf.execute_region" in import_annotations(module):
        open_bodies(module)
    shardings = Shardings.of(module)
    later = ("distributed", "local", "lowered")
    handles = [op for op in functions_of(module) if form_of(op) not in later]
    for handle in handles:
        if form_of(handle) != "propagated":
            raise refuse_form(handle, ": run --propagate first")
    functions, constraints = _read(handles, shardings)
    for each in zip(functions, constraints, strict=True):
        _grid_of(*each, shardings)  # checks it
    if not all(_is_complete(*each, shardings) for each in zip(functions, constraints, strict=True)):
        _write(*_propagated(functions, constraints, shardings), constraints, shardings)
    return handles, shardings


def _read(
    handles: Sequence[ir.Operation], shardings: Shardings
) -> tuple[list[Function], list[Constraints]]:
    functions = read_functions(handles)
    return functions, [read_constraints(function, shardings) for function in functions]


def _is_complete(function: Function, constraints: Constraints, shardings: Shardings) -> bool:
    """Whether every tensor has a sharding that propagation may not change.

    Propagation also checks groups, and annotations of loops.
    """
    if any(op.name == GROUP or annotation_ops.has_loops(op.handle) for op in function.ops):
        return False
    for op in function.ops:  # an annotation op may tell the sharding of an operand without one
        has_tensors = any(function.values[value].shape is not None for value in op.results)
        if has_tensors and not shardings.of_results(op.handle):
            return False
    results = function.handle.attributes["function_type"].value.results
    tensors = [n for n, value in enumerate(function.values) if value.shape is not None]
    known = [constraints.known.get(number) for number in tensors]
    known += [constraints.returned.get(index) for index in range(len(results))]
    return not constraints.soft_constraints and all(each and not each.open for each in known)


def _propagated(
    functions: Sequence[Function],
    constraints: Sequence[Constraints],
    shardings: Shardings,
    strategy: Strategy = STRATEGIES["cost"],
    traversal: Traversal | None = None,
    last_priority: int | None = None,
) -> tuple[ModuleGraph, Engine]:
    """The graph of functions, of which there is at least one, and its shardings.

    The shardings in `constraints` stay. Annotations of priorities after `last_priority` are not
    propagated, nor are soft constraints. Raises a located `ShardError`.
    """
    grids = [_grid_of(*each, shardings) for each in zip(functions, constraints, strict=True)]
    if traversal is None:
        graph = module_graph(functions, constraints, grids, shardings)
        engine = Engine(graph.graph, shardings.grids, strategy)
    else:  # users' annotations do not reach the value; no constant is copied
        unconstrained = [replace(each, constrained={}) for each in constraints]
        graph = module_graph(functions, unconstrained, grids, shardings, copies_constants=False)
        engine = Upstream(graph.graph, shardings.grids, traversal)
    engine.last_priority = last_priority
    engine.run()
    for number, each in enumerate(constraints):
        _follow_soft_constraints(engine, graph, number, each)
    spread_extents(engine)
    return graph, engine


def _write(
    graph: ModuleGraph, engine: Engine, constraints: Sequence[Constraints], shardings: Shardings
) -> None:
    """Bring the graph's functions to the propagated form."""
    grids = [_grid_of(*each, shardings) for each in zip(graph.functions, constraints, strict=True)]
    SplitConstants(graph, engine, shardings, grids[0].name).run()
    for number, function in enumerate(graph.functions):
        _Writer(graph, number, engine, grids[number], shardings).write(function)


def _grid_of(function: Function, constraints: Constraints, shardings: Shardings) -> Grid:
    """The grid for values without a sharding: the one that all annotations name, or the default."""
    names = sorted(
        {each.grid for each in (*constraints.known.values(), *constraints.returned.values())}
    )
    for name in names:
        check_grid(shardings.grid(name), function)
    if len(names) == 1:
        return shardings.grid(names[0])
    return check_grid(default_grid(function, shardings), function)


def _follow_soft_constraints(
    engine: Engine, graph: ModuleGraph, number: int, constraints: Constraints
) -> None:
    """Apply each soft constraint that the constraints leave open; warn of the others."""
    overruled = []
    for soft_constraint in constraints.soft_constraints:
        value = graph.number_of(number, soft_constraint.value)
        if value == NO_TENSOR:
            continue  # a constant, which has a sharding for each of its users
        both = followed(engine.known(value), soft_constraint.annotation)
        if both is None:
            overruled.append((soft_constraint, value))
        else:
            engine.learn(value, both)
    if constraints.soft_constraints and engine.last_priority is None:
        engine.settle()
    warned = set()
    for soft_constraint, value in overruled:
        location = location_text(soft_constraint.location)
        if location not in warned:  # one op may annotate two values
            warned.add(location)
            annotation = engine.known(value)
            warn(
                f"the soft constraint {soft_constraint.annotation} is overruled: other "
                "annotations make "
                f"the value {annotation.sharding if annotation else 'replicated'}",
                soft_constraint.location,
            )


@dataclass
class _Writer:
    """Writes the shardings that propagation gave one function's values."""

    module_graph: ModuleGraph
    number: int
    engine: Engine
    grid: Grid
    shardings: Shardings
    _attributes: dict[tuple[int, int], ir.Attribute] = field(default_factory=dict)

    def write(self, function: Function) -> None:
        self.function = function
        self._boundary("arg_attrs", [self._known(value) for value in function.arguments])
        exits = [
            self.module_graph.exits.get((self.number, index)) for index in range(self._results())
        ]
        self._boundary("res_attrs", [self._returned(*each) for each in enumerate(exits)])
        self._blocks(function.handle, function.blocks[1:])
        for op in function.ops:
            self._op(op)
        update_type(function.handle)
        set_form(function.handle, "propagated")

    def _op(self, op: Op) -> None:
        if op.results and any(self._is_sized(value) for value in op.results):
            entries = [self._attribute(value) for value in op.results]
            op.handle.attributes[SHARDINGS] = ir.ArrayAttr.get(entries)
        elif op.name in FLOWS and SHARDINGS in op.handle.attributes:
            del op.handle.attributes[SHARDINGS]  # of results that were removed
        self._blocks(op.handle, op.blocks)

    def _blocks(self, handle: ir.Operation, blocks: Sequence[Block]) -> None:
        if BLOCKS in handle.attributes:
            del handle.attributes[BLOCKS]
        if any(self._is_sized(value) for block in blocks for value in block.arguments):
            handle.attributes[BLOCKS] = ir.ArrayAttr.get(
                [
                    ir.ArrayAttr.get([self._attribute(value) for value in block.arguments])
                    for block in blocks
                ]
            )

    def _is_sized(self, value: int) -> bool:
        return self.function.values[value].shape is not None

    def _attribute(self, value: int) -> ir.Attribute:
        shape = self.function.values[value].shape
        if shape is None:
            return ir.UnitAttr.get()
        key = (self.engine.number(self.module_graph.number_of(self.number, value)), len(shape))
        if key not in self._attributes:
            known = self._known(value)
            assert known is not None, "a tensor of static shape"
            self._attributes[key] = self.shardings.write(known)
        return self._attributes[key]

    def _known(self, value: int) -> Sharding | None:
        """The sharding of a value; `None` unless it is a tensor of static shape."""
        if not self._is_sized(value):
            return None
        annotation = self.engine.known(self.module_graph.number_of(self.number, value))
        return annotation.sharding if annotation is not None else self._replicated(value)

    def _replicated(self, value: int) -> Sharding:
        return Sharding.replicated(self.grid.name, len(self.function.values[value].shape or ()))

    def _results(self) -> int:
        return len(self.function.handle.attributes["function_type"].value.results)

    def _returned(self, index: int, exit_value: int | None) -> Sharding | None:
        """The sharding of a result: as annotated, or that of the returned value."""
        returned = [end.operands[index] for end in self.function.returns]
        if exit_value is None or not returned:
            return self._known(returned[0]) if returned else None
        annotation = self.engine.known(exit_value)
        return annotation.sharding if annotation is not None else self._replicated(returned[0])

    def _boundary(self, key: str, known: Sequence[Sharding | None]) -> None:
        entries = boundary(self.function.handle, key)
        for index, (sharding, attributes) in enumerate(zip(known, entries, strict=True)):
            if sharding is None:
                continue
            sharding = sharding.with_partial(())  # callers cannot reduce partial values
            if SHARDING in attributes:
                annotation = self.shardings.read_annotation(attributes[SHARDING], sharding.rank)
                sharding = (annotation.meet(Annotation(sharding)) or annotation).sharding
            else:
                sharding = self._even(key, index, sharding)
            attributes[SHARDING] = self.shardings.write(sharding)
        set_boundary(self.function.handle, key, entries)

    def _even(self, key: str, index: int, sharding: Sharding) -> Sharding:
        """The even part of an inferred sharding, so that callers need not handle padding.

        The sharding of a value with an annotation op is not inferred, and returned unchanged.
        """
        if key == "arg_attrs":
            value = self.function.arguments[index]
        else:
            value = self.function.returns[0].operands[index]
        shape = self.function.values[value].shape or ()
        even = sharding.without_uneven_axes(shape, self.shardings.grid(sharding.grid))
        return sharding if even != sharding and value in self._annotated() else even

    def _annotated(self) -> set[int]:
        """The values that annotation ops constrain, other than by soft constraints."""
        annotated: set[int] = set()
        for op in self.function.ops:
            if op.name in annotation_ops.OPS and (bound := annotation_ops.binds(op.handle)):
                annotated.update(op.results, op.operands[:1] if bound == "value" else ())
        return annotated
