"""The choice of all shardings at once, as an integer program over classes of ops and values.

    minimize    the costs of all ops by their strategies, and of all reshards
    where       each op has one strategy,
                each result has the sharding in the strategy of its op,
                each reader gets each operand in the sharding of its own strategy, by a reshard from
                the sharding that the operand has; readers of equal shardings share it,
                at each peak, the live values fit the memory.

Strategies are those of `op_strategies`; an op whose strategy says nothing about an operand takes it
as it is. The formulation is that of Alpa's intra-operator pass (Zheng et al., OSDI 2022), with
shared reshards, and with partial values that ops pass on.

The variables of all axes together are many, so `solutions` solves for one axis after the other, and
takes the linear program: it is much faster, and its solution is mostly one of whole numbers. Where
the program is small enough, `solve` gives a bound, and proves how good they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, permutations

from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.model import Annotation, Axes, Sharding
from shard_dialect.propagation.graph import NO_TENSOR
from shard_dialect.search.budget import Budget
from shard_dialect.search.choices.integer_program import IntegerProgram, Solved
from shard_dialect.search.choices.op_classes import Classes, LiveValues, OpClass
from shard_dialect.search.choices.op_strategies import Modes, Prices, Strategy, modes_of, strategies

MOST_PAIRS = 100_000
"""The most pairs of a sharding that a value has and one that a reader wants, for a bound."""
MOST_PAIRS_OF_INTEGERS = 15_000
"""The same to `solve` for whole numbers."""
_ORDERS = 6
"""The most orders of the axes that are tried."""
_SWEEPS = 2
"""How often each axis is solved for."""
_LONG = 60.0
"""The most seconds of a solver."""
_TIE = 1e-5
"""The weight of the tie-break: small, so that it decides only between plans of equal cost."""
_TOO_MUCH = 1e3
"""The penalty for twice the memory limit, where the objective is about 1."""


@dataclass(frozen=True)
class Solution:
    """The modes of each class of ops, and the sharding of each class of values."""

    modes: tuple[Modes, ...]
    shardings: Mapping[int, Sharding]
    cost: float
    """The objective, in bytes or seconds, with the penalty for too much memory."""
    bound: float
    """A lower bound on the cost of all plans of the model; 0 if none is known."""


@dataclass(frozen=True)
class ShardingProgram:
    """The problem; `memory_limit` is in bytes, `peaks` are as in `live_values`."""

    classes: Classes
    prices: Prices
    memory_limit: int | None
    peaks: Sequence[LiveValues]
    tied: frozenset[tuple[int, int]] = frozenset()
    """Pairs of classes of values that have one sharding."""
    _solved: dict[tuple[Axes, tuple[Modes, ...]], Solution | None] = field(
        default_factory=dict, compare=False, repr=False
    )
    """The linear programs that `solutions` has solved, which a longer search needs again."""

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The axes of the grid that split anything."""
        grid = self.prices.grid
        return tuple(axis for axis in range(grid.rank) if grid.axes_size((axis,)) > 1)

    @cached_property
    def unsplit(self) -> tuple[Modes, ...]:
        """The modes of each op where every device does everything."""
        nothing: Modes = (None,) * self.prices.grid.rank
        return (nothing,) * len(self.classes.ops)

    def solutions(self, budget: Budget, orders: int = _ORDERS) -> list[Solution]:
        """Good solutions, the best first: those of one axis after the other, in several orders.

        Each step solves the linear program for an axis (of many axes, also for two at once), the
        others as they are, and rounds it. The first solution may take as long as the search that
        `budget` is a part of. Empty if annotations say what the model cannot.
        """
        found: dict[tuple[Modes, ...], Solution] = {}
        with suppress(_OutOfTimeError):
            for order in islice(permutations(self.axes), orders):
                for blocks in _blocks(order):
                    self._follow(blocks, found, budget)
        return sorted(found.values(), key=lambda each: each.cost)

    def _follow(
        self, blocks: list[Axes], found: dict[tuple[Modes, ...], Solution], budget: Budget
    ) -> None:
        """Solve for the axes of one block after the other, and add the plans to `found`."""
        modes = self.unsplit
        for number, block in enumerate(blocks * _SWEEPS):
            time = budget if found else budget.outermost
            solution = self._linear(block, modes, time)
            if solution is None:
                break
            modes = solution.modes
            # In the first sweep the later axes are still unsplit: what follows it is a plan.
            if number + 1 >= len(blocks) and modes not in found:
                rounded = self._linear((), modes, time)
                if rounded is not None:
                    found[modes] = rounded

    def _linear(self, axes: Axes, modes: tuple[Modes, ...], budget: Budget) -> Solution | None:
        if (axes, modes) not in self._solved:
            found = self._solve(axes, modes, budget, relaxed=True)
            if found is None and budget.is_over:
                return None
            self._solved[axes, modes] = found
        return self._solved[axes, modes]

    @cached_property
    def pairs(self) -> int:
        """About how many variables `solve` has."""
        of_value: dict[int, set[Sharding]] = defaultdict(set)
        wanted = []
        for op in self.classes.ops:
            known = self._strategies(op, self.axes, self.unsplit[0])
            for number, value in enumerate(op.values):
                tensors = {(*each.operands, *each.results)[number] for each in known} - {None}
                of_value[value].update(filter(None, tensors))
                if number < len(op.operands):
                    wanted.append((value, len(tensors)))
        return sum(len(of_value[value]) * count for value, count in wanted)

    def solve(self, budget: Budget, *, relaxed: bool = False) -> Solution | None:
        """The best solution that is found in this time, with a bound; `None` if there is none.

        If `relaxed`, the solution is only near to the best one, but the bound holds.
        """
        with suppress(_OutOfTimeError):
            return self._solve(self.axes, self.unsplit, budget, relaxed=relaxed)
        return None

    def _solve(
        self,
        axes: Axes,
        modes: Sequence[Modes],
        budget: Budget,
        *,
        relaxed: bool = False,
    ) -> Solution | None:
        """The best solution in which all axes but these do what `modes` says.

        Raises `_OutOfTimeError` if the problem is not written down in time.
        """
        problem = _Problem(self, axes, modes, budget)
        solved = problem.program.solve(min(budget.left, _LONG), relaxed=relaxed)
        return None if solved is None else problem.solution(solved)

    def _strategies(self, op: OpClass, axes: Axes, modes: Modes) -> tuple[Strategy, ...]:
        free = modes_of(op.prepared, op.carried)
        choices = tuple(free if axis in axes else (mode,) for axis, mode in enumerate(modes))
        return strategies(op.prepared, self.prices.grid, choices)


class _OutOfTimeError(Exception):
    """It takes too long to write a problem down: reshards are planned to be priced."""


@dataclass
class _Problem:
    """The integer program for some axes, written down in the time of `budget`."""

    model: ShardingProgram
    axes: Axes
    modes: Sequence[Modes]
    budget: Budget
    program: IntegerProgram = field(default_factory=IntegerProgram)
    chosen: list[list[tuple[int, Strategy]]] = field(default_factory=list)
    """For each class of ops, its strategies with their variables."""
    has: dict[int, dict[Sharding, int]] = field(default_factory=lambda: defaultdict(dict))
    """For each class of values, the shardings that it may have, with their variables."""

    def __post_init__(self) -> None:
        self.values = self.model.classes.values
        self.readers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """The ops that read each value, and as which operand."""
        self.makers: dict[int, list[OpClass]] = defaultdict(list)
        for number, op in enumerate(self.model.classes.ops):
            for index, value in enumerate(op.operands):
                self.readers[value].append((number, index))
            for value in op.results:
                self.makers[value].append(op)
        for number, op in enumerate(self.model.classes.ops):
            self._op(op, self.modes[number])
        for value in range(1, len(self.values)):
            if self.readers[value] or self.makers[value]:
                self._value(value)
        for one, other in self.model.tied:
            self._tie(one, other)
        self._memory()

    # Ops

    def _op(self, op: OpClass, modes: Modes) -> None:
        known = self.model._strategies(op, self.axes, modes)
        self.chosen.append(
            [(self.program.choice(op.runs * self._cost(op, each)), each) for each in known]
        )
        variables = [variable for variable, _ in self.chosen[-1]]
        self.program.row(variables, [1.0] * len(variables), 1.0, 1.0)
        for number, value in enumerate(op.results):
            if value == NO_TENSOR:
                continue
            # One equation for each sharding, and not for each strategy: strategies with one
            # sharding of the result are one term, which keeps the linear program tight.
            made = [(variable, each.results[number]) for variable, each in self.chosen[-1]]
            for sharding, chosen in _by_sharding(made).items():
                if sharding is not None:
                    self.program.equal(chosen, [self._variable_of(value, sharding)])

    def _cost(self, op: OpClass, strategy: Strategy) -> float:
        prices = self.model.prices
        tie = 0.0 if prices.at_least else _TIE * prices.tie(op, strategy, self.values)
        return self._scaled(prices.op(op, strategy, self.values) + tie)

    def _scaled(self, price: float) -> float:
        """Bytes in hundreds of KB, seconds in microseconds: solvers like numbers around 1."""
        return price * (1e6 if self.model.prices.objective == "time" else 1e-5)

    def _variable_of(self, value: int, sharding: Sharding) -> int:
        known = self.has[value]
        if sharding not in known:
            known[sharding] = self.program.variable()
        return known[sharding]

    # Values

    def _value(self, value: int) -> None:
        wanted = [
            _by_sharding([(variable, each.operands[index]) for variable, each in self.chosen[op]])
            for op, index in self.readers[value]
        ]
        kind = self.values[value]
        if not self.makers[value]:
            self._unmade(value, wanted)
        annotation = kind.annotation if self._holds(value) else None
        variables = list(self.has[value].values())
        self.program.row(variables, [1.0] * len(variables), 1.0, 1.0)
        for sharding, variable in self.has[value].items():
            if annotation is not None and not _fits(sharding, annotation):
                self.program.row([variable], [1.0], 0.0, 0.0)
        shared: dict[tuple[Sharding, Sharding, int], int] = {}
        for (op, index), each in zip(self.readers[value], wanted, strict=True):
            is_in_turns = self.model.classes.ops[op].in_turns[index]
            runs = kind.turns if is_in_turns else kind.runs
            self._reader(value, each, runs, shared if len(wanted) > 1 else None)

    def _tie(self, one: int, other: int) -> None:
        """Both have one sharding: what only one of them may have is none."""
        for sharding in dict.fromkeys((*self.has[one], *self.has[other])):
            known = [self.has[each].get(sharding) for each in (one, other)]
            both = [[] if each is None else [each] for each in known]
            self.program.equal(*both)

    def _unmade(self, value: int, wanted: Iterable[Mapping[Sharding | None, list[int]]]) -> None:
        """A value that no op makes has any sharding that a reader wants, or is replicated."""
        kind, grid = self.values[value], self.model.prices.grid
        self._variable_of(value, Sharding.replicated(grid.name, len(kind.shape)))
        if kind.is_free:
            for each in (sharding for by in wanted for sharding in by):
                if each is not None and not each.partial:
                    self._variable_of(value, each.bare)
            if kind.annotation is not None and not kind.annotation.open:
                self._variable_of(value, kind.annotation.sharding)

    def _holds(self, value: int) -> bool:
        """Whether the annotation is of the value as it is made, and not as it is read."""
        return not any(op.name and op.name not in annotation_ops.OPS for op in self.makers[value])

    def _reader(
        self,
        value: int,
        wanted: Mapping[Sharding | None, list[int]],
        runs: int,
        shared: dict[tuple[Sharding, Sharding, int], int] | None,
    ) -> None:
        """Add the reshards from each sharding of a value to each that a reader wants of it.

        They run so often, all together.
        """
        kind = self.values[value]
        from_source: dict[Sharding, list[int]] = {each: [] for each in self.has[value]}
        for target, chosen in wanted.items():
            if target is None:
                continue
            ways = []
            for source in self.has[value]:
                if not set(target.partial) <= set(source.partial):
                    continue
                price = self.model.prices.reshard(source, target, kind)
                if self.budget.is_over:
                    raise _OutOfTimeError
                if price is not None:
                    ways.append(self._way((source, target, runs), price * runs, shared))
                    from_source[source].append(ways[-1])
            self.program.equal(ways, chosen)
        for source, ways in from_source.items():
            variable = self.has[value][source]
            least = -1.0 if None in wanted else 0.0  # some strategies take it in any sharding
            # Reshards start from the sharding that the value has: their sum is its variable, 0 or
            # 1.
            factors = [1.0] * len(ways) + [-1.0]
            self.program.row([*ways, variable], factors, least, 0.0)

    def _way(
        self,
        reshard: tuple[Sharding, Sharding, int],
        price: float,
        shared: dict[tuple[Sharding, Sharding, int], int] | None,
    ) -> int:
        """A variable: the value is resharded so; readers that want the same pay once."""
        cost = self._scaled(price)
        if not cost or shared is None:
            return self.program.variable(cost)
        way = self.program.variable()
        if reshard not in shared:
            shared[reshard] = self.program.variable(cost)
        self.program.row([shared[reshard], way], [1.0, -1.0], 0.0)
        return way

    # Memory

    def _memory(self) -> None:
        """Live values fit at each peak, at a penalty; or the highest peak is the objective."""
        is_goal = self.model.prices.objective == "memory"
        limit = self.model.memory_limit
        if limit is None and not is_goal:
            return
        unit = float(self._unsplit_peak() if is_goal or limit is None else limit) or 1.0
        cost = self._scaled(unit) if is_goal else _TOO_MUCH
        excess = self.program.variable(cost, float("inf"))
        for peak in self.model.peaks:
            variables, factors = [excess], [-1.0]
            for value, count in peak.items():
                for sharding, variable in self.has[value].items():
                    variables.append(variable)
                    stored = self.model.prices.stored(sharding, self.values[value])
                    factors.append(count * stored / unit)
            self.program.row(variables, factors, upper=0.0 if is_goal else 1.0)

    def _unsplit_peak(self) -> int:
        sizes = [
            sum(count * self.values[value].bytes for value, count in peak.items())
            for peak in self.model.peaks
        ]
        return max(sizes, default=0)

    def solution(self, solution: Solved) -> Solution:
        """The solution that the values of the variables stand for."""
        solved = solution.values.tolist()
        modes = tuple(max(each, key=lambda pair: solved[pair[0]])[1].modes for each in self.chosen)
        shardings = {
            value: max(by, key=lambda sharding: solved[by[sharding]])
            for value, by in self.has.items()
            if by
        }
        unit = self._scaled(1.0)
        return Solution(
            modes, shardings, solution.objective / unit, max(0.0, solution.bound) / unit
        )


def _by_sharding(
    tensors: Iterable[tuple[int, Sharding | None]],
) -> Mapping[Sharding | None, list[int]]:
    """The variables of strategies, by the sharding that each has for one tensor."""
    found: dict[Sharding | None, list[int]] = defaultdict(list)
    for variable, sharding in tensors:
        found[sharding].append(variable)
    return found


def _blocks(order: Axes) -> Iterator[list[Axes]]:
    """The axes of an order one by one, and if there are more than two, two at a time."""
    yield [(axis,) for axis in order]
    if len(order) > 2:
        yield [order[n : n + 2] for n in range(0, len(order), 2)]


def _fits(sharding: Sharding, annotation: Annotation) -> bool:
    """Whether a sharding satisfies an annotation; open dimensions may be split further."""
    asked = annotation.sharding
    return sharding.grid != asked.grid or all(
        axes[: len(wanted)] == wanted if dim in annotation.open else axes == wanted
        for dim, (axes, wanted) in enumerate(
            zip(sharding.split_axes, asked.split_axes, strict=True)
        )
    )
