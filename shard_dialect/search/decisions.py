"""Decisions inside a function that annotations can change: how a value is split, and an op's loops.

    %h = stablehlo.dot_general %x, %w1       %h: [[0], []]   ->   [[0], [1]], [[], [0]], [[], []]
                                             its loops: [[0], [], []]   ->   [[], [], [0]], ...

Another sharding of a value moves the reshard in front of the op, or behind it. The splits of a
product's loops follow from its operands and results, and may be set. The present decisions are read
from the distributed form, which the passes make of the program.

A search at the boundary decides over groups: dimensions that the rules of propagation split
together.

    %h = stablehlo.dot_general %x, %w1      %x's columns and %w1's rows, %w1's columns and %h's, ...
    %y = stablehlo.dot_general %h, %w2      ... which are %w2's rows

A plan that splits one dimension of a group splits all, or communicates. Groups that look alike, as
those of the layers of a model do, are one class, and decided once. (The idea is TOAST's, arXiv
2508.15010.)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.annotation_ops import OPS, annotate_loops
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Op, read_function
from shard_dialect.model import Annotation, Axes, Grid, Sharding, ShardingError, ShardingRule
from shard_dialect.model.sharding import Shape
from shard_dialect.ops import rule_of
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.materialize.type_consistency import assignment_of
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.search.searched_function import SearchedFunction

Split = tuple[Axes, ...]
"""For each dimension, or each loop, the axes that split it."""


@dataclass(frozen=True)
class Decision:
    """Another split of a value that an op makes, or of its loops."""

    kind: Literal["value", "loops"]
    op: int
    """The index of the op in its function."""
    result: int
    """The number of the op's result; 0 for the loops."""
    what: str
    """The op's name and place."""
    before: Split
    after: Split
    alike: int
    """For how many ops of the function the same could be decided."""


def decisions(text: str, entry: str, grid: Grid) -> list[Decision]:
    """The decisions of a function, one for those that look alike, in the order of the program.

    Ops that look alike have one rule, and operands and results that are sharded alike. Left out are
    those that compute each element from the operands' at the same place, if all are sharded alike:
    their result follows. Empty where materialization has changed the ops of the function.
    """
    start, made = imported(text), imported(text)
    run_pipeline(made, "propagate,materialize")
    ops = _function(start.operation, entry).ops
    distributed = _function(made.operation, entry).ops
    distributed = [op for op in distributed if not op.name.startswith("mesh.")]
    if [op.name for op in ops if op.name not in OPS] != [op.name for op in distributed]:
        return []
    reader = _Reader(Shardings.of(made.operation), grid)
    indices = [index for index, op in enumerate(ops) if op.name not in OPS]
    found: dict[object, list[Decision]] = {}
    counts: dict[object, int] = {}
    for index, op in zip(indices, distributed, strict=True):
        key, of_op = reader.read(index, op, ops[index].handle)
        if of_op:
            found.setdefault(key, of_op)
            counts[key] = counts.get(key, 0) + 1
    return [
        replace(decision, alike=counts[key]) for key, of_op in found.items() for decision in of_op
    ]


@dataclass(frozen=True)
class _Reader:
    """Reads the present decisions about the ops of one function, in the distributed form."""

    shardings: Shardings
    grid: Grid

    def read(self, index: int, op: Op, original: ir.Operation) -> tuple[object, list[Decision]]:
        """The key that ops which are alike share, and the decisions about an op."""
        rule = rule_of(original)
        operands = [self._sharding(each) for each in op.handle.operands]
        results = [self._sharding(each) for each in op.handle.results]
        splits = {each.split_axes for each in (*operands, *results) if each is not None}
        if rule is None or (rule.is_elementwise and len(splits) < 2):
            return None, []
        what = f"'{op.name}' op at {location_text(original.location)}"
        found = []
        for number, (value, now) in enumerate(zip(original.results, results, strict=True)):
            if now is not None:
                shape = tuple(value.type.shape)
                for after in self._others(now.split_axes, shape):
                    found.append(Decision("value", index, number, what, now.split_axes, after, 1))
        if rule.is_product:
            found += self._loops(index, op, rule, operands, results, what)
        return (op.name, rule, *map(str, operands), *map(str, results)), found

    def _sharding(self, value: ir.Value) -> Sharding | None:
        if not isinstance(value.type, ir.RankedTensorType):
            return None
        return self.shardings.sharding_of(value.type, self.grid)

    def _others(self, now: Split, sizes: Sequence[int]) -> Iterator[Split]:
        """The splits in which one axis splits another dimension or loop, or none."""
        for axis in range(self.grid.rank):
            free = tuple(tuple(each for each in axes if each != axis) for axes in now)
            others = [free] + [
                (*free[:dim], (*free[dim], axis), *free[dim + 1 :]) for dim in range(len(sizes))
            ]
            for other in others:
                devices = [self.grid.axes_size(axes) for axes in other]
                divides = all(size % n == 0 for size, n in zip(sizes, devices, strict=True))
                if other != now and divides:
                    yield other

    def _loops(
        self,
        index: int,
        op: Op,
        rule: ShardingRule,
        operands: list[Sharding | None],
        results: list[Sharding | None],
        what: str,
    ) -> Iterator[Decision]:
        """The splits of a product's loops in which one axis splits another loop, or none."""
        try:
            before = assignment_of(op.name, rule, operands, results, self.grid)
        except ShardingError:
            return
        for after in self._others(before, rule.sizes):
            if not any(after[factor] for factor in rule.unsplit):
                yield Decision("loops", index, 0, what, before, after, 1)


def decide(module: ir.Operation, entry: str, decision: Decision, grid: str) -> None:
    """Annotate an imported module, in place, so that the decision holds."""
    function = _function(module, entry)
    op = function.ops[decision.op].handle
    if decision.kind == "loops":
        annotate_loops(function.handle, op, decision.after, grid)
        return
    annotation = Annotation(Sharding(grid, decision.after))
    attribute = Shardings.of(module).write(annotation)
    value = op.results[decision.result]
    with ir.InsertionPoint.after(op), op.location:
        annotated = build.annotate(value, attribute, as_result=True)
    value.replace_all_uses_except(annotated, annotated.owner.operation)


def _function(module: ir.Operation, name: str) -> Function:
    return read_function(next(op for op in functions_of(module) if name_of(op) == name))


Place = tuple[int, int]
"""A tensor of the entry's boundary (arguments, then results), and one of its dimensions."""
_Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class GroupClass:
    """Groups that look alike, by the dimensions of boundary tensors in them."""

    places: tuple[Place, ...]
    uses: int
    """The number of ops that these groups split."""


@dataclass(frozen=True, slots=True)
class TensorClass:
    """Arguments or results of one shape, with dimensions in groups of the same classes.

    Results that are the state of arguments are with these.
    """

    tensors: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Dimensions:
    """The variables of a search: classes of a function's boundary tensors and dimensions."""

    arguments: int
    """The number of arguments; results have the numbers after theirs."""
    shapes: tuple[Shape, ...]
    """Of the arguments and results; `()` for one that is no tensor."""
    groups: tuple[GroupClass, ...]
    tensors: tuple[TensorClass, ...]


def dimensions_of(program: SearchedFunction) -> Dimensions:
    """The dimensions of a function."""
    values, shapes = program.boundary, program.shapes
    ties = _Ties(program.graph)
    of_place = _classes_of_places(values, shapes, ties)
    roots: dict[int, set[_Key]] = defaultdict(set)
    groups: dict[int, list[Place]] = defaultdict(list)
    for place, number in of_place.items():
        groups[number].append(place)
        roots[number].add(ties.root((values[place[0]], place[1])))
    states = {result for _, result in program.states}
    alike: dict[object, list[int]] = defaultdict(list)
    for tensor, shape in enumerate(shapes):
        dims = tuple(of_place.get((tensor, dim)) for dim in range(len(shape)))
        if any(each is not None for each in dims):
            alike[tensor < program.arguments or tensor in states, shape, dims].append(tensor)
    return Dimensions(
        program.arguments,
        shapes,
        tuple(
            GroupClass(tuple(places), sum(n for root in roots[number] for _, n in ties.uses[root]))
            for number, places in groups.items()
        ),
        tuple(TensorClass(tuple(each), len(shapes[each[0]])) for each in alike.values()),
    )


def _classes_of_places(
    values: Sequence[int], shapes: Sequence[Shape], ties: _Ties
) -> dict[Place, int]:
    """The number of the class of each dimension's group."""
    by_group: dict[_Key, list[Place]] = defaultdict(list)
    for tensor, number in enumerate(values):
        for dim, size in enumerate(shapes[tensor]):
            if size > 1:
                by_group[ties.root((number, dim))].append((tensor, dim))
    numbers: dict[object, int] = {}
    found = {}
    for root, places in by_group.items():
        look = tuple(sorted((shapes[tensor], dim) for tensor, dim in places)), ties.uses[root]
        number = numbers.setdefault(look, len(numbers))
        found.update(dict.fromkeys(places, number))
    return found


class _Ties:
    """Which dimensions of a graph's values have a factor of some rule together (union-find)."""

    def __init__(self, graph: ModuleGraph) -> None:
        self._parents: dict[_Key, _Key] = {}
        self._graph = graph.graph
        nodes = [*self._graph.nodes, *self._graph.exits]
        for number, node in enumerate(nodes):
            for value, dim, factor in self._factors(node):
                self._tie((value, dim), ("factor", number, factor))
        for group in self._graph.groups:
            shape = self._graph.sizes[self._graph.kinds[group[0]]][0]
            for value in group[1:]:
                for dim in range(len(shape)):
                    self._tie((group[0], dim), (value, dim))
        self.uses = self._count(nodes)
        """For each group, the kinds of its uses: which factor of which rule, how often."""

    def root(self, key: _Key) -> _Key:
        """The member that stands for the group of a dimension, a value's number with a position."""
        parents = self._parents
        while key in parents:
            above = parents[key]
            if above in parents:
                parents[key] = parents[above]
            key = above
        return key

    def _tie(self, one: _Key, other: _Key) -> None:
        a, b = self.root(one), self.root(other)
        if a != b:
            parents = self._parents
            parents[b] = a

    def _factors(self, node: Node) -> Iterator[tuple[int, int, int]]:
        """The dimensions of a node's values, each with its major factor."""
        rule = self._graph.rules[node.rule_number]
        for value, dims in zip(node.values, rule.tensors, strict=True):
            if value == NO_TENSOR:
                continue
            for dim, factors in enumerate(dims):
                major = next((each for each in factors if rule.sizes[each] > 1), None)
                if major is not None and major not in rule.blocked:
                    yield value, dim, major

    def _count(self, nodes: Sequence[Node]) -> dict[_Key, frozenset[tuple[object, int]]]:
        counts: dict[_Key, Counter[object]] = defaultdict(Counter)
        for number, node in enumerate(nodes):
            for factor in {factor for _, _, factor in self._factors(node)}:
                root = self.root(("factor", number, factor))
                counts[root][node.rule_number, factor] += 1
        found: dict[_Key, frozenset[tuple[object, int]]] = defaultdict(frozenset)
        found.update({root: frozenset(each.items()) for root, each in counts.items()})
        return found
