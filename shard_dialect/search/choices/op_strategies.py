"""The ways in which an op can be partitioned: for each grid axis, what it does to the op.

    dot_general ([i, k], [k, j]) -> ([i, j]) on a grid of one axis
        nothing   ([[], []], [[], []]) -> [[], []]
        i         ([[0], []], [[], []]) -> [[0], []]
        j         ([[], []], [[], [0]]) -> [[], [0]]
        k         ([[], [0]], [[0], []]) -> [[], [], [0]]        the result is partial
        {0}       ([[], [], [0]], [[], []]) -> [[], [], [0]]     operand 0 is partial

Shards are equal, and axes split a dimension in the order of the grid.

`Prices` has the cost of a strategy, and of a reshard between two ops, for a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import gcd, prod

from shard_dialect.collectives.collective_time import seconds
from shard_dialect.errors import ShardError
from shard_dialect.model import Axes, Grid, Sharding, ShardingError
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.rule import Assignment
from shard_dialect.model.sharding import Shape
from shard_dialect.planner import plan
from shard_dialect.planner import prices as planner
from shard_dialect.planner.reshard_plan import EXACT
from shard_dialect.propagation.op_update import PreparedRule
from shard_dialect.search.choices.op_classes import OpClass, ValueClass
from shard_dialect.search.evaluate import OwnObjective

Mode = int | frozenset[int] | None
"""The thing that an axis splits: a factor, nothing, or the summands of operands, by number."""
Modes = tuple[Mode, ...]
"""One for each axis of the grid."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to partition an op; `None` for a value that is no tensor, or of any sharding."""

    modes: Modes
    assignment: Assignment
    operands: tuple[Sharding | None, ...]
    results: tuple[Sharding | None, ...]


@lru_cache(maxsize=4096)
def modes_of(prepared: PreparedRule, carried: tuple[frozenset[int], ...]) -> tuple[Mode, ...]:
    """All that an axis may do to an op."""
    rule = prepared.rule
    factors = [
        factor
        for factor, size in enumerate(rule.sizes)
        if size > 1 and factor not in rule.unsplit and factor not in rule.blocked
    ]
    return (None, *factors, *carried)


@lru_cache(maxsize=16384)
def strategies(
    prepared: PreparedRule, grid: Grid, choices: tuple[Modes, ...]
) -> tuple[Strategy, ...]:
    """The strategies whose mode of each axis is one of the choices for it."""
    found = (_strategy(prepared, grid, modes) for modes in product(*choices))
    return tuple([each for each in found if each is not None])


def _strategy(prepared: PreparedRule, grid: Grid, modes: Modes) -> Strategy | None:
    rule = prepared.rule
    assignment: list[Axes] = [()] * len(rule.sizes)
    for axis, mode in enumerate(modes):
        if isinstance(mode, int):
            assignment[mode] = (*assignment[mode], axis)
    divides = all(
        size % grid.axes_size(axes) == 0 for size, axes in zip(rule.sizes, assignment, strict=True)
    )
    kinds = {kind for factor, kind in rule.reductions if assignment[factor]}
    partial = {axis: mode for axis, mode in enumerate(modes) if isinstance(mode, frozenset)}
    if not divides or len(kinds) > 1 or (partial and kinds - {"sum"}):
        return None
    split = tuple(assignment)
    try:
        operands = [rule.operand_sharding(i, split, grid) for i in range(len(rule.operands))]
        results = [rule.result_sharding(i, split, grid) for i in range(len(rule.results))]
    except ShardingError:  # strided shards, or windows of different layouts
        return None
    for axis, numbers in partial.items():
        operands = list(_with_partial(operands, numbers, axis))
        results = list(_with_partial(results, range(len(results)), axis))
    for number in rule.inits:  # a fill with the identity of the reduction, mostly
        operands[number] = None
    return Strategy(modes, split, tuple(operands), tuple(results))


def _with_partial(
    shardings: Sequence[Sharding | None], numbers: Sequence[int] | frozenset[int], axis: int
) -> Iterator[Sharding | None]:
    for number, each in enumerate(shardings):
        is_partial = each is not None and number in numbers
        yield each.with_partial((*each.partial, axis)) if each and is_partial else each


_TIE = 1e-4
"""The price of a byte that is sent where memory is the objective."""
_LAYOUTS = 100
"""The most layouts that are visited for the price of a reshard: seldom is there a better one."""
_ELEMENTS = {1: "f8E4M3FN", 2: "bf16", 4: "f32", 8: "f64"}
"""The element type that stands for all of a size, in bytes."""


@dataclass(frozen=True)
class Prices:
    """Prices on a grid, by the objective: bytes sent or stored, or seconds on a device model."""

    grid: Grid
    device_model: DeviceModel
    objective: OwnObjective
    at_least: bool = False
    """Whether no op may cost less: then only the arithmetic of products counts."""

    def reshard(self, source: Sharding, target: Sharding, value: ValueClass) -> float | None:
        """Of one tensor from one sharding to another; `None` if there is no plan."""
        of = (value.shape, value.itemsize, self.grid, self.device_model)
        moved = _reshard(source, target, *of, exact=self.at_least)
        if moved is None:
            return None
        if self.objective == "memory":  # then communication decides between equal plans
            return 0.0 if self.at_least else _TIE * moved[0]
        return moved[1] if self.objective == "time" else moved[0]

    def op(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """Of one op: its seconds where time is asked for, else what it sends of its operands."""
        sent = self._exchange(op, strategy, values) if op.prepared.rule.exchanging else 0.0
        return sent + (self.seconds(op, strategy, values) if self.objective == "time" else 0.0)

    def _exchange(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """Of what devices send of the operands as a part of the op."""
        is_time, total = self.objective == "time", 0.0
        prices = planner.Prices(self.device_model) if is_time else planner.BYTES
        for number, (held, value) in enumerate(zip(strategy.operands, op.values, strict=False)):
            if held is not None:
                of, split = values[value], strategy.assignment
                sent = op.prepared.rule.exchanged(number, held, of.shape, split, self.grid)
                total += prices.rounds(sent, of.itemsize, self.grid)
        if self.objective == "memory":
            return 0.0 if self.at_least else _TIE * total
        return total / planner.PICOSECONDS if is_time else total

    def seconds(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """The time of an op that no compiler fuses into others: a product, a reduction.

        As long as its arithmetic or its traffic with the memory takes (`analysis.costs.schedule`).
        """
        rule = op.prepared.rule
        if not rule.reductions:
            return 0.0
        itemsize = max((values[each].itemsize for each in op.results), default=4)
        touched = 0 if self.at_least else self.touched(op, strategy, values)
        flops = rule.flops(strategy.assignment, self.grid)
        return max(self.device_model.op_seconds(flops, _ELEMENTS.get(itemsize, "f32"), touched))

    def tie(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> float:
        """The tie-break between plans of one cost: the bytes that their ops read and write."""
        touched = self.touched(op, strategy, values)
        if self.objective == "time":
            return self.device_model.op_seconds(0, "f32", touched)[1]
        return touched

    def touched(self, op: OpClass, strategy: Strategy, values: tuple[ValueClass, ...]) -> int:
        """The bytes of the shards of an op's operands and results."""
        return sum(
            self.stored(sharding, values[number])
            for number, sharding in zip(
                op.values, (*strategy.operands, *strategy.results), strict=True
            )
            if sharding is not None
        )

    def stored(self, sharding: Sharding, value: ValueClass) -> int:
        """The bytes of one device's shard."""
        return sharding.bare.local_elements(value.shape, self.grid) * value.itemsize


@lru_cache(maxsize=1 << 17)
def _reshard(
    source: Sharding,
    target: Sharding,
    shape: Shape,
    itemsize: int,
    grid: Grid,
    device_model: DeviceModel,
    *,
    exact: bool,
) -> tuple[int, float] | None:
    """The bytes that a device sends, and the seconds that it takes.

    Unless `exact`, not much time is taken to find plans with a bit less.
    """
    if source == target or not prod(shape):
        return 0, 0.0
    small = shape
    if source == source.bare and target == target.bare:
        source, target, shape, small = _one_of_alike(source, target, shape, grid)
    try:
        # The passes plan without sub-axes, by which less might be sent.
        found = plan(source, target, small, itemsize, grid, exact, EXACT if exact else _LAYOUTS)
    except ShardError:
        return None
    if found.grid != grid:  # on sub-axes, whose groups the model of time is not asked for
        fine = Refinement.finest(grid)
        assert fine is not None, "a plan on a finer grid"
        moved = planner.bytes_moved(found.steps, fine.refined(source), shape, itemsize, fine.fine)
        return moved, moved / device_model.links[0].bytes_per_second
    taken, now = 0.0, source
    for step in found.steps:
        operand = planner.operand_shape(step, now, shape, grid)
        taken += seconds(step, grid, operand, itemsize, device_model)
        now = step.after(now)
    return planner.bytes_moved(found.steps, source, shape, itemsize, grid), taken


def _one_of_alike(
    source: Sharding, target: Sharding, shape: Shape, grid: Grid
) -> tuple[Sharding, Sharding, Shape, Shape]:
    """The reshard with its dimensions in order, and a shape of which it has the same steps.

    A search prices thousands of reshards, and planning is what takes its time. Steps do not depend
    on the order of dimensions, nor on factors of a size that no devices split. Dimensions that stay
    whole are one:

        [[0], []] -> [[], [0]]  of 24x4096      [[], [0], [], []] -> [[0], [], [], []]  of 16x24x2x3
        on 2x4, both                            [[0], [], []] -> [[], [0], []]  of 8x8x2
    """
    dims = sorted(
        (
            each
            for each in zip(source.split_axes, target.split_axes, shape, strict=True)
            if each[0] or each[1]
        ),
        reverse=True,
    )
    rest = prod(shape) // prod(size for *_, size in dims)
    froms, tos, whole = zip(*dims, ((), (), rest), strict=True)
    small = tuple([gcd(size, grid.size) for size in whole])
    return replace(source, split_axes=froms), replace(target, split_axes=tos), whole, small
