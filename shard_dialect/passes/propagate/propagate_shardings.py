"""From annotated to propagated: infer the sharding of every tensor value, and write it.

    func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x16xf32>) -> tensor<4x16xf32> {
      %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
      %0 = shard.shard %w to %s : tensor<8x16xf32>
      %1 = linalg.matmul ins(%x, %0 ...) outs(%zero ...) -> tensor<4x16xf32>

becomes the following, where the annotations stay and attributes have the inferred shardings

    func.func @main(%x: ... {mesh.sharding = #mesh.shard<@g, [[], []]>}, %w: ...
      %1 = linalg.matmul {mesh.shardings = [#mesh.shard<@g, [[], [0]]>]} ins(...

In the pipeline `propagate`, other passes come before it: there is one vocabulary then, one grid,
and a copy of a function for each call.

`Propagation` infers the shardings, and changes nothing in the module. It reads it once into a graph
(`module_graph`), through which shardings propagate to a fixed point (`propagation`):

    found = known(module, Propagation())
    found.engine.known(found.graph.number_of(0, 3))    the sharding of the first function's value 3

`write_shardings` writes them. Each user of a constant had a copy of it in the graph, and
`SplitConstants` makes one op for each sharding among the copies:

    %b = stablehlo.broadcast_in_dim %c        %b   = ... {mesh.shardings = [[0], []]}
    %0 = stablehlo.add %x, %b                 %b_1 = ... {mesh.shardings = [[], []]}

Copies with the same sharding and the same operands share an op. Plain constants are never
duplicated: they are replicated, and a slice of a replicated tensor is free.

`complete_shardings` gives a sharding to values that passes have made since propagation, by running
it once more; all shardings that are there stay.

    %1 = stablehlo.reshape %0        without `mesh.shardings`, as `split-reductions` writes it
    %2 = stablehlo.tanh %1 {mesh.shardings = [#mesh.shard<@g, [[0]]>]}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import error_at, location_text, warn
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
from shard_dialect.ir.mesh.attributes import BLOCKS, SHARDING, SHARDINGS, drop_attributes
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import FLOWS, Block, Function, Op, read_functions
from shard_dialect.ir.walk import walk
from shard_dialect.model import Annotation, Grid, Sharding
from shard_dialect.passes.framework.base import (
    CURRENT,
    UNCHANGED,
    Outcome,
    Pass,
    forget_analyses,
    known,
    learn,
    needs,
    ops_of,
)
from shard_dialect.passes.framework.options import OPTIONS, PropagationOptions
from shard_dialect.passes.propagate.constants import Copy
from shard_dialect.passes.propagate.constraints import (
    Constraints,
    check_grid,
    default_grid,
    followed,
    read_constraints,
)
from shard_dialect.passes.propagate.module_graph import GROUP, ModuleGraph, module_graph
from shard_dialect.propagation.engine import STRATEGIES, Engine
from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.propagation.spread_extents import return_halos, spread_offsets
from shard_dialect.propagation.upstream_traversals import Upstream


@dataclass(frozen=True)
class Propagated:
    """Functions with the shardings that their values are to have."""

    graph: ModuleGraph
    engine: Engine
    constraints: Sequence[Constraints]
    shardings: Shardings

    def grids(self) -> list[Grid]:
        """For each function the grid for values without a sharding."""
        pairs = zip(self.graph.functions, self.constraints, strict=True)
        return [grid_of(*each, self.shardings) for each in pairs]


@dataclass(frozen=True)
class Propagation(PropagationOptions):
    """Propagation with some options: a function of a module, and a key to keep its result by."""

    @classmethod
    def like(cls, options: PropagationOptions) -> Propagation:
        """Propagation with the options of a pass."""
        return cls(*(getattr(options, name) for name in OPTIONS))

    def __call__(self, module: ir.Operation) -> Propagated:
        """Propagate in all functions that are not materialized. Raises a located `ShardError`."""
        forms = ("annotated", "propagated")
        shardings = Shardings.of(module)
        return self.between(functions_of(module, *forms), shardings)

    def between(self, handles: Sequence[ir.Operation], shardings: Shardings) -> Propagated:
        """Propagate in some functions of a module."""
        functions, constraints = read_constrained(handles, shardings)
        return self.of(functions, constraints, shardings)

    def of(
        self,
        functions: Sequence[Function],
        constraints: Sequence[Constraints],
        shardings: Shardings,
    ) -> Propagated:
        """Propagate in functions that have been read.

        The shardings in `constraints` stay. Annotations of priorities after the last are not
        propagated, nor are soft constraints.
        """
        grids = [grid_of(*each, shardings) for each in zip(functions, constraints, strict=True)]
        if self.traversal is None:
            strategy = replace(STRATEGIES[self.strategy], conservative=self.conservative)
            graph = module_graph(functions, constraints, grids, shardings)
            engine = Engine(graph.graph, shardings.grids, strategy)
        else:  # users' annotations do not reach the value; no constant is copied
            unconstrained = [replace(each, constrained={}) for each in constraints]
            graph = module_graph(functions, unconstrained, grids, shardings, copies_constants=False)
            engine = Upstream(graph.graph, shardings.grids, self.traversal)
        engine.last_priority = self.stop_after_priority
        engine.run()
        for number, each in enumerate(constraints):
            _follow_soft_constraints(engine, graph, number, each)
        # Upstream's order and the conservative one split by whole axes that divide alone.
        if engine.is_uneven:
            splits = self.traversal is None and not self.conservative
            spread_offsets(engine, splits=splits)
        if engine.has_halos:
            return_halos(engine)
        return Propagated(graph, engine, constraints, shardings)


def read_constrained(
    handles: Sequence[ir.Operation], shardings: Shardings
) -> tuple[list[Function], list[Constraints]]:
    """Read functions, with the annotations of their values."""
    functions = read_functions(handles)
    return functions, [read_constraints(function, shardings) for function in functions]


def grid_of(function: Function, constraints: Constraints, shardings: Shardings) -> Grid:
    """The grid for values without a sharding: one that annotations name, or else the default.

    Annotated loops of ops are on the default.
    """
    named = {each.grid for each in (*constraints.known.values(), *constraints.returned.values())}
    if any(annotation_ops.has_loops(op.handle) for op in function.ops):
        named.add(default_grid(function, shardings).name)
    names = sorted(named)
    for name in names:
        check_grid(shardings.grid(name), function)
    if len(names) == 1:
        return shardings.grid(names[0])
    return check_grid(default_grid(function, shardings, named), function)


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


_NEVER_DUPLICATED = (*build.CONSTANTS, "tensor.empty")
_Key = tuple[object, ...]


@dataclass
class SplitConstants:
    """Makes the ops, and replaces the operands of their users."""

    module_graph: ModuleGraph
    engine: Engine
    shardings: Shardings
    default: str
    """The name of the grid for values without a sharding."""
    _copies: dict[_Key, ir.Value] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrite, in place, the operands of all ops that use a copied constant."""
        for copy in self.module_graph.copies:
            if copy.user is not None:
                value = self._value_of(copy)
                if copy.user.handle.operands[copy.operand_number] != value:
                    copy.user.handle.operands[copy.operand_number] = value

    def _value_of(self, copy: Copy) -> ir.Value:
        """The value that the users of a copy get."""
        values = {number: self._value_of(each) for number, each in copy.operands.items()}
        original = (copy.function, copy.value)
        key = self._key(copy)
        if key not in self._copies:
            is_written = self.module_graph.is_known(*original)
            if is_written and copy.op.name not in _NEVER_DUPLICATED:
                self._copies[key] = self._duplicate(copy, values)
            else:
                if not is_written:
                    self.module_graph.put(*original, copy.number)
                _set_operands(copy.op.handle, values)
                self._copies[key] = copy.op.handle.results[0]
        return self._copies[key]

    def _key(self, copy: Copy) -> _Key:
        """The key of a copy; copies with the same key are one op."""
        operands = tuple(self._key(each) for each in copy.operands.values())
        return copy.function, copy.value, self._sharding_of(copy), operands

    def _sharding_of(self, copy: Copy) -> Sharding | None:
        known = self.engine.known(copy.number)
        return known.sharding if known is not None else None

    def _duplicate(self, copy: Copy, values: dict[int, ir.Value]) -> ir.Value:
        with ir.InsertionPoint.after(copy.op.handle):
            duplicate = copy.op.handle.clone().operation
        _set_operands(duplicate, values)
        type_ = duplicate.results[0].type
        sharding = self._sharding_of(copy) or Sharding.replicated(self.default, type_.rank)
        duplicate.attributes[SHARDINGS] = ir.ArrayAttr.get([self.shardings.write(sharding)])
        return duplicate.results[0]


def _set_operands(op: ir.Operation, values: dict[int, ir.Value]) -> None:
    for number, value in values.items():
        if op.operands[number] != value:
            op.operands[number] = value


def write_shardings(found: Propagated) -> None:
    """Bring the functions to the propagated form."""
    grids = found.grids()
    # Before the writers: the op of a constant gets the number of one of its copies, under which
    # they look up its sharding.
    SplitConstants(found.graph, found.engine, found.shardings, grids[0].name).run()
    for number, function in enumerate(found.graph.functions):
        _Writer(found.graph, number, found.engine, grids[number], found.shardings).write(function)


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
        # A called function has no exits: its results have the shardings of the returned values.
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
        elif op.name in FLOWS:
            drop_attributes(op.handle, SHARDINGS)  # of results that were removed
        if len(op.handle.regions):
            self._blocks(op.handle, op.blocks)

    def _blocks(self, handle: ir.Operation, blocks: Sequence[Block]) -> None:
        drop_attributes(handle, BLOCKS)
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
        # A static tensor that is not in the graph has the number of no tensor, whatever its rank.
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

        The sharding of a value with an annotation op is not inferred, and returned unchanged. So is
        that of a result where an annotation is uneven: its even part would have to be gathered.
        """
        if key == "arg_attrs":
            value = self.function.arguments[index]
        else:
            value = self.function.returns[0].operands[index]
        shape = self.function.values[value].shape or ()
        even = sharding.without_uneven_axes(shape, self.shardings.grid(sharding.grid))
        if even == sharding or value in self._annotated():
            return sharding
        return sharding if key == "res_attrs" and self._is_anything_uneven() else even

    def _is_anything_uneven(self) -> bool:
        """Whether an annotation in the function is uneven."""
        graph = self.engine.graph
        for value in range(len(self.function.values)):
            number = self.module_graph.number_of(self.number, value) if self._is_sized(value) else 0
            annotation, (shape, _) = graph.annotations[number], graph.sizes[graph.kinds[number]]
            if annotation is None:
                continue
            grid = self.shardings.grid(annotation.grid)
            if annotation.sharding.uneven_dim(shape, grid) is not None:
                return True
        return False

    def _annotated(self) -> set[int]:
        """The values that annotation ops constrain, other than by soft constraints."""
        annotated: set[int] = set()
        for op in self.function.ops:
            if op.name in annotation_ops.OPS and (bound := annotation_ops.binds(op.handle)):
                annotated.update(op.results, op.operands[:1] if bound == "value" else ())
        return annotated


def refuse_unread(module: ir.Operation) -> None:
    """Raise for annotations that are not imported yet: what they are on would be replicated."""
    unread = known(module, ops_of) & {"shard.shard", "sdy.mesh"}
    for op in walk(module) if unread else ():
        if op.name in unread:
            raise error_at(
                op.location,
                f"'{op.name}' op has not been imported: run --propagate, or --import first",
            )


@needs(forms=("annotated", "propagated"), grid=True)
@dataclass(frozen=True)
class PropagateShardings(PropagationOptions, Pass):
    """Infer the shardings of all tensors from those that are annotated, and write them."""

    name = "propagate-shardings"

    remarks: bool = False
    """Report each conflict: the op, both sides, which side was kept, and why."""
    explain: str | None = None
    """Report the origin of a value's sharding: `%3` as printed, `@f:%3`, or a line of the file."""
    printed_as: Literal["mesh", "shard"] = "mesh"
    """The vocabulary in which `explain` names a value: in `shard`, annotations have no numbers."""

    def rewrite(self, module: ir.Operation) -> Outcome:
        """Propagate the functions in the annotated and propagated forms; raises `ShardError`."""
        refuse_unread(module)
        found = known(module, Propagation.like(self))
        self.observe(found)
        write_shardings(found)
        if self.remarks or self.explain:
            self._report(module, found)
        forget_analyses()
        learn(module, incomplete, None)
        return CURRENT

    def observe(self, found: Propagated) -> None:
        """See the shardings before they are written; for subclasses, that report on them."""

    def _report(self, module: ir.Operation, found: Propagated) -> None:
        from shard_dialect.passes.propagate.origins import Report  # rarely needed

        report = Report(module, found.graph, found.engine, self.printed_as)
        if self.remarks:
            report.remark_conflicts()
        if self.explain:
            report.explain(self.explain)


@needs(forms=("annotated", "propagated"), grid=True)
def complete_shardings(module: ir.Operation) -> Outcome:
    """Give a sharding to every tensor that passes have created since propagation.

    Raises a located `ShardError` for a function in the annotated form.
    """
    found = known(module, incomplete)
    if found is None:
        return UNCHANGED
    write_shardings(Propagation().of(*found, Shardings.of(module)))
    return None


def incomplete(module: ir.Operation) -> tuple[list[Function], list[Constraints]] | None:
    """The functions, read, if a tensor of one has no sharding that propagation may not change.

    `None` if all have one. Raises as `complete_shardings`.
    """
    refuse_unread(module)
    shardings = Shardings.of(module)
    later = ("distributed", "local", "lowered")
    handles = [op for op in functions_of(module) if form_of(op) not in later]
    for handle in handles:
        if form_of(handle) != "propagated":
            raise refuse_form(handle, ": run --propagate first")
    functions, constraints = read_constrained(handles, shardings)
    pairs = list(zip(functions, constraints, strict=True))
    for each in pairs:
        grid_of(*each, shardings)  # checks it
    is_complete = all(_is_complete(*each, shardings) for each in pairs)
    return None if is_complete else (functions, constraints)


def _is_complete(function: Function, constraints: Constraints, shardings: Shardings) -> bool:
    """Whether every tensor has a sharding that propagation may not change.

    Propagation also checks groups, and annotations of loops.
    """
    for op in function.ops:  # an annotation op may tell the sharding of an operand without one
        has_tensors = any(function.values[value].shape is not None for value in op.results)
        if has_tensors and not shardings.of_results(op.handle):
            return False
    results = function.handle.attributes["function_type"].value.results
    tensors = [n for n, value in enumerate(function.values) if value.shape is not None]
    known = [constraints.known.get(number) for number in tensors]
    known += [constraints.returned.get(index) for index in range(len(results))]
    if constraints.soft_constraints or not all(each and not each.open for each in known):
        return False
    return not any(op.name == GROUP or annotation_ops.has_loops(op.handle) for op in function.ops)
