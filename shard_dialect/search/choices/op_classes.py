"""Ops and values that look alike, as those of the layers of a model do: each class is decided once.

    %h1 = dot_general %x, %w1      one class of ops, of %w1, %w2, %w3, and of %h1, %h2, %h3
    %h2 = dot_general %h1, %w2
    %h3 = dot_general %h2, %w3

Classes start from what an op or a value is by itself: its rule, or its type. Each round then tells
apart those whose neighbours are in different classes (colour refinement: Weisfeiler and Leman,
1968). Small programs are refined until nothing changes. In large ones this would number the layers,
so that refinement ends when there would be more than `MOST` classes of ops.

`live_values` has the tensors that are live together where a function needs most memory, unsharded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, count
from math import prod

from shard_dialect.ir.numbered_function import LOOPS, Block, flows_through
from shard_dialect.ir.reading.constants import trips_of
from shard_dialect.model import Annotation
from shard_dialect.model.sharding import Shape
from shard_dialect.ops.op_table import carries, traits_of
from shard_dialect.ops.scalar_functions import Trait
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.graph import NO_TENSOR, Node
from shard_dialect.propagation.op_update import PreparedRule
from shard_dialect.search.searched_function import SearchedFunction

MOST = 300
"""The most classes of ops in a program that has more ops."""
_GROWTH = 1.1
"""In such a program, a round that tells apart fewer than this times the classes only numbers
layers."""


@dataclass(frozen=True, slots=True)
class OpClass:
    """Ops that look alike, by one of them."""

    prepared: PreparedRule
    values: tuple[int, ...]
    """The classes of its operands and results; `NO_TENSOR` for values that are no tensors."""
    runs: int
    """How often they run, all together: an op in a loop as often as the loop does."""
    carried: tuple[frozenset[int], ...]
    """Sets of operands: if those of one are partial sums, the result is."""
    in_turns: tuple[bool, ...]
    """For each operand, whether the op is in a loop that carries it, changed in each turn."""
    name: str
    """The op's name; "" for a flow, or for what a function returns."""

    @property
    def operands(self) -> tuple[int, ...]:
        """The classes of the operands."""
        return self.values[: self.prepared.results]

    @property
    def results(self) -> tuple[int, ...]:
        """The classes of the results."""
        return self.values[self.prepared.results :]


@dataclass(frozen=True, slots=True)
class ValueClass:
    """Tensors that look alike."""

    shape: Shape
    itemsize: int
    count: int
    runs: int
    """How often they are made, all together; what a loop carries, once in all its turns."""
    turns: int
    """The same, as ops inside the loop see it: what a loop changes is another in each turn."""
    annotation: Annotation | None
    is_free: bool
    """Whether no op with a rule makes it, but it may have any sharding: arguments, constants."""

    @property
    def bytes(self) -> int:
        """The bytes of one of the tensors, unsharded."""
        return prod(self.shape) * self.itemsize


@dataclass(frozen=True)
class Classes:
    """The classes of a program's ops and values."""

    ops: tuple[OpClass, ...]
    values: tuple[ValueClass, ...]
    """The first one stands for all values that are no tensors."""
    of_value: Sequence[int]
    """The class of each of the graph's values."""


def classes_of(graph: ModuleGraph, free: Iterable[int]) -> Classes:
    """The classes of a graph, whose values in `free` may have any sharding."""
    refinement = _Refinement(graph, frozenset(free))
    refinement.run()
    return refinement.classes()


@dataclass
class _Refinement:
    graph: ModuleGraph
    free: frozenset[int]
    nodes: list[Node] = field(init=False)
    carried: list[tuple[frozenset[int], ...]] = field(init=False)
    constants: frozenset[int] = field(init=False)
    times: Mapping[int, int] = field(init=False)
    """How often each op runs in one run of its function, by the op's `id`."""
    turns: Mapping[int, tuple[int, frozenset[int]]] = field(init=False)
    """For each value that a loop changes, how often its body runs, and the `id`s of the ops in it.
    """
    op_colours: list[int] = field(init=False)
    value_colours: list[int] = field(init=False)
    _known: dict[Hashable, tuple[frozenset[int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph.graph
        self.nodes = [*graph.nodes, *graph.exits]
        count = len(graph.nodes)
        self.constants = frozenset(copy.number for copy in self.graph.copies)
        self.times = {
            op: times for each in self.graph.functions for op, times in _times(each.blocks, 1)
        }
        self.turns = dict(self._changed_by_loops())
        self.carried = [
            self._carried(node) if number < count else () for number, node in enumerate(self.nodes)
        ]
        self.op_colours = _numbered(
            (
                node.rule_number,
                number < count and self._name(node),
                self.carried[number],
                self._in_turns(node),
            )
            for number, node in enumerate(self.nodes)
        )
        self.value_colours = _numbered(
            (value != NO_TENSOR, graph.kinds[value], value in self.free, graph.annotations[value])
            for value in range(len(graph.kinds))
        )

    def run(self) -> None:
        """Refine at least once, and until nothing changes, or there would be too many classes."""
        for number in count():
            ops = self._ops_refined(self.value_colours)
            values = self._values_refined(ops)
            after = len(set(self._ops_refined(values)))
            before = len(set(self._ops_refined(self.value_colours)))
            is_large = number > 0 and len(self.nodes) > MOST
            if is_large and (after > MOST or after < _GROWTH * before):
                return
            if len(set(values)) == len(set(self.value_colours)):
                return
            self.op_colours, self.value_colours = ops, values

    def _ops_refined(self, values: Sequence[int]) -> list[int]:
        return _numbered(
            (self.op_colours[number], tuple([values[each] for each in node.values]))
            for number, node in enumerate(self.nodes)
        )

    def _values_refined(self, ops: Sequence[int]) -> list[int]:
        uses: list[list[tuple[int, int]]] = [[] for _ in self.value_colours]
        for number, node in enumerate(self.nodes):
            for index, value in enumerate(node.values):
                uses[value].append((ops[number], index))
        uses[NO_TENSOR] = []
        return _numbered(
            (colour, tuple(sorted(Counter(uses[value]).items())))
            for value, colour in enumerate(self.value_colours)
        )

    def classes(self) -> Classes:
        """The classes by the present colours; an op's class tells those of its values."""
        graph = self.graph.graph
        ops = self._ops_refined(self.value_colours)
        first: dict[int, int] = {}
        for number, colour in enumerate(ops):
            first.setdefault(colour, number)
        runs: Counter[int] = Counter()
        made = [1] * len(self.value_colours)
        for number, node in enumerate(self.nodes):
            times = self._times(node)
            runs[ops[number]] += times
            for value in node.values[graph.rules[node.rule_number].results :]:
                made[value] = max(made[value], times)
        op_classes = tuple(
            OpClass(
                graph.rules[self.nodes[number].rule_number],
                tuple([self.value_colours[each] for each in self.nodes[number].values]),
                runs[colour],
                self.carried[number],
                self._in_turns(self.nodes[number]),
                self._name(self.nodes[number]) if number < len(graph.nodes) else "",
            )
            for colour, number in first.items()
        )
        turns = made.copy()
        for value, (times, _) in self.turns.items():
            turns[value] = times
        members: dict[int, list[int]] = defaultdict(list)
        for value, colour in enumerate(self.value_colours):
            members[colour].append(value)
        values = tuple(
            self._value_class(
                each, sum(made[value] for value in each), sum(turns[value] for value in each)
            )
            for each in members.values()
        )
        return Classes(op_classes, values, self.value_colours)

    def _value_class(self, members: Sequence[int], runs: int, turns: int) -> ValueClass:
        graph, first = self.graph.graph, members[0]
        shape, itemsize = graph.sizes[graph.kinds[first]]
        annotation = graph.annotations[first]
        return ValueClass(
            shape, itemsize, len(members), runs, turns, annotation, first in self.free
        )

    def _times(self, node: Node) -> int:
        """How often a node's op runs in one run of its function."""
        return self.times[id(self.graph.ops[node.origin][1])]

    def _changed_by_loops(self) -> Iterator[tuple[int, tuple[int, frozenset[int]]]]:
        for index, function in enumerate(self.graph.functions):
            for op in function.ops:
                if op.name in LOOPS:
                    times = self.times[id(op.blocks[-1].end)]
                    inside = frozenset(each for each, _ in _times(op.blocks, 1))
                    for flow in flows_through(op):
                        if not flow.is_unchanged:
                            yield self.graph.number_of(index, flow.targets[0]), (times, inside)

    def _in_turns(self, node: Node) -> tuple[bool, ...]:
        """For each operand, whether the op is in a loop that changes it."""
        op = id(self.graph.ops[node.origin][1])
        operands = node.values[: self.graph.graph.rules[node.rule_number].results]
        return tuple([value in self.turns and op in self.turns[value][1] for value in operands])

    def _name(self, node: Node) -> str:
        op = self.graph.ops[node.origin][1]
        return op.name if len(node.values) == len(op.operands) + len(op.results) else ""

    def _carried(self, node: Node) -> tuple[frozenset[int], ...]:
        """The sets of operands that must be partial sums together, so that the result is one."""
        op = self.graph.ops[node.origin][1]
        if op.blocks:  # a loop may carry a sum of parts, if it starts from a constant such as zero
            sources = enumerate(node.values[:-1])
            return (frozenset(number for number, value in sources if value not in self.constants),)
        if not self._name(node) or len(op.results) != 1:
            return ()
        same = tuple([op.operands.index(value) for value in op.operands])
        key = (op.name, node.rule_number, same)
        if key not in self._known:
            rule = self.graph.graph.rules[node.rule_number].rule
            found = []
            for number, value in enumerate(node.values[:-1]):
                alike = frozenset(i for i, each in enumerate(same) if each == same[number])
                numbers = value != NO_TENSOR and carries(
                    op.handle, rule, alike, "sum", narrow=False
                )
                if numbers:
                    found.append(frozenset(numbers))
            self._known[key] = tuple(dict.fromkeys(found))
        return self._known[key]


def _times(blocks: Iterable[Block], outer: int) -> Iterator[tuple[int, int]]:
    """The `id` of each op, with how often it runs; a loop of unknown length runs once."""
    for block in blocks:
        for op in block.ops:
            yield id(op), outer
            if op.blocks:
                trips = trips_of(op.handle)
                yield from _times(op.blocks, outer * (1 if trips is None else trips))


def _numbered(colours: Iterable[Hashable]) -> list[int]:
    """Numbers, from 0 on in the order of appearance, in the place of colours."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(colour, len(numbers)) for colour in colours]


_PARTS = 8
"""Each of so many parts of a program has a peak of its own."""

_STORE_NOTHING = (
    "func.call",
    "linalg.fill",
    "stablehlo.bitcast_convert",
    "stablehlo.optimization_barrier",
    "tensor.empty",
)
"""Ops whose results others store, or may lie where their operands are, as reshaped ones may."""

LiveValues = Mapping[int, int]
"""How many values of each class are live at one point."""


def live_values(function: SearchedFunction, classes: Classes) -> list[LiveValues]:
    """The values that are live at the peaks of the function's parts, with arguments and results.

    A value is live from the op that makes it to the last one that reads it, an argument all the
    time, a result to the end. No program needs less, however it is sharded: left out is what may be
    stored with another value.
    """
    ranges = _ranges(function)
    if not ranges:
        return []
    end = max(last for _, _, last in ranges) + 1
    changes = [0] * (end + 1)
    for value, first, last in ranges:
        size = classes.values[classes.of_value[value]].bytes
        changes[first] += size
        changes[last + 1] -= size
    totals = list(accumulate(changes))[:end]
    length = -(-end // _PARTS)
    peaks = {
        max(range(begin, min(begin + length, end)), key=totals.__getitem__)
        for begin in range(0, end, length)
    }
    found = [_live_at(peak, ranges, classes) for peak in sorted(peaks)]
    return [dict(each) for each in dict.fromkeys(tuple(sorted(each.items())) for each in found)]


def _live_at(point: int, ranges: Sequence[tuple[int, int, int]], classes: Classes) -> Counter[int]:
    return Counter(
        classes.of_value[value] for value, first, last in ranges if first <= point <= last
    )


def _ranges(function: SearchedFunction) -> list[tuple[int, int, int]]:
    """The graph's number of each value of the function, with the ops that it lives from and to."""
    graph = function.graph
    index = next(n for n, each in enumerate(graph.functions) if each.name == function.name)
    read = graph.functions[index]
    first: dict[int, int] = dict.fromkeys(read.arguments, 0)
    last: dict[int, int] = {}
    for position, op in enumerate(read.ops):
        if not (op.blocks or op.name in _STORE_NOTHING or _is_in_place(op.name)):
            first.update(dict.fromkeys(op.results, position))
        last.update(dict.fromkeys(op.read, position))
    end = len(read.ops)
    last.update(dict.fromkeys(read.arguments, end))
    last.update({each: end for op in read.returns for each in op.operands})
    numbered = ((graph.number_of(index, value), value) for value in first)
    return [
        (number, first[value], last.get(value, first[value]))
        for number, value in numbered
        if number != NO_TENSOR
    ]


def _is_in_place(name: str) -> bool:
    traits = traits_of(name)
    return Trait.RESHAPES in traits or Trait.UPDATES in traits


def tied_classes(function: SearchedFunction, classes: Classes) -> frozenset[tuple[int, int]]:
    """The classes of arguments with those of the results that are sharded as they are."""
    return frozenset(
        (classes.of_value[function.boundary[argument]], classes.of_value[function.boundary[result]])
        for argument, result in function.states
    )
