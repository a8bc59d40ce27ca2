"""The resharded values that materialization has made so far: one tensor in several shardings.

A resharded value is made once, where an op first needs it, and all later uses share it.

Two kinds of value cost nothing in any sharding. A *constant* is replicated, and a slice of it is
free. A *fresh* value is the result of `tensor.empty` or `linalg.fill`: the op is repeated for each
sharding. Both can be partial if the element that they repeat allows it.

A resharded value made in a block is not visible outside of it. They are therefore kept by level:
the function's block, and the region of each loop or branch that is entered. If an op in a loop
needs a value from outside in another sharding, the reshard is made once, before the loop.

`ManualBoundaries` reshards the tensors that enter or leave manual computations.

    %a = "mesh.to_local"(%x) ...      %x is resharded to the boundary's sharding, before the op
    %y = "mesh.to_global"(%b) ...     %y has the sharding of %b, and is split along the manual axes

Along the free axes a tensor has the sharding that propagation gave it, as far as this leaves every
device the same elements inside and outside.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from shard_dialect.collectives import AllSlice, ReshardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.mesh.annotation_ops import (
    TO_GLOBAL,
    TO_LOCAL,
    boundary_of,
    grid_of,
    is_manual,
    manual_axes_of,
    write_boundary,
    write_manual_axes,
)
from shard_dialect.ir.mesh.attributes import MANUAL, ints
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import Function, Kind, Op
from shard_dialect.model import Grid, ManualBoundary, Sharding
from shard_dialect.model.grid_refinement import Refinement
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.materialize.target_shardings import turns_of
from shard_dialect.planner import BYTES, Plan, Prices, plan, plan_between

FRESH = ("tensor.empty", "linalg.fill")


def is_fresh(op: Op, function: Function) -> bool:
    """Whether `op` makes a fresh value of static shape, which may be made again at no cost."""
    return op.name in FRESH and function.values[op.results[0]].shape is not None


@dataclass
class _Level:
    """A block that is being rewritten, with the resharded values made there.

    `loop` is the op that reshards move in front of, if there is one. The block runs `turns` times
    in one run of the function.
    """

    loop: Op | None = None
    turns: int = 1
    resharded: dict[int, dict[Sharding, ir.Value]] = field(default_factory=dict)


def plan_of(
    kind: Kind,
    source: Sharding,
    target: Sharding,
    shardings: Shardings,
    prices: Prices,
    manual: Sequence[int] = (),
) -> Plan:
    """The cheapest steps for a tensor of static shape; raises `ReshardError` if there are none.

    Along axes that are `manual` where the tensor is, devices hold different tensors.
    """
    assert kind.shape is not None, "only tensors of static shape are resharded"
    grid = shardings.grid(source.grid)
    if manual:
        grid = replace(grid, stage_axes=tuple(sorted({*grid.stage_axes, *manual})))
    if source.grid == target.grid:
        return plan(source, target, kind.shape, kind.itemsize, grid, False, prices=prices)
    to = shardings.grid(target.grid)
    return plan_between(source, target, kind.shape, kind.itemsize, grid, to, prices)


class ReshardedValues:
    """The resharded values of one function; `grid` is that of replicated ones."""

    def __init__(
        self, function: Function, shardings: Shardings, grid: Grid, prices: Prices = BYTES
    ) -> None:
        self.function = function
        self.prices = prices
        self.grid = grid
        self._attributes = shardings
        self._of: dict[int, dict[Sharding, ir.Value]] = {}
        self._fresh: dict[int, Op] = {}
        self._repeated: dict[int, Hashable] = {}
        self._uses = function.count_uses()
        self._has_manual_axes = any(is_manual(op.handle) for op in function.ops)
        self._levels = [_Level()]
        self._level_of: dict[int, int] = {}

    @contextmanager
    def block(self, loop: Op | None = None) -> Iterator[None]:
        """A context for rewriting a block; reshards for it may move in front of `loop`."""
        turns = self.turns() * (1 if loop is None else turns_of(loop))
        self._levels.append(_Level(loop, turns))
        yield
        self._levels.pop()

    def turns(self, value: int | None = None) -> int:
        """How often the current block runs, or `value` is resharded for it: before loops, once."""
        return self._levels[-1 if value is None else self._level_for(value)].turns

    def shardings(self, value: int) -> list[Sharding]:
        """The shardings in which `value` is available in the current block."""
        return list(self._visible(value))

    def _visible(self, value: int) -> dict[Sharding, ir.Value]:
        resharded = dict(self._of.get(value, ()))
        for level in self._levels:
            resharded |= level.resharded.get(value, {})
        return resharded

    def add(self, value: int, handle: ir.Value, sharding: Sharding) -> None:
        """Record that `handle` is `value` in `sharding`."""
        self._level_of.setdefault(value, len(self._levels) - 1)
        self._of.setdefault(value, {})[sharding] = handle

    def add_fresh(self, value: int, op: Op) -> None:
        """Record that `value` is the fresh result of `op`, to be repeated for each sharding."""
        self._fresh[value] = op
        self._level_of[value] = len(self._levels) - 1
        self._of[value] = {}

    def define(self, value: int, produced: Sharding, target: Sharding, op: Op) -> None:
        """Record that `op` produced `value`; reshard it to `target` at once if it has several uses.

        A single use may be cheaper straight from the sharding that was produced.
        """
        handle = self.function.values[value].handle
        self.add(value, handle, produced)
        if produced != target and self._uses[value] > 1:
            with ir.InsertionPoint.after(op.handle), op.location:
                resharded_value = self._emit(value, handle, produced, target)
            # With several uses the sum is paid once; left partial, each user might reduce it anew.
            self._of[value] = (
                {target: resharded_value}
                if produced.partial
                else {produced: handle, target: resharded_value}
            )

    def alias(self, value: int, source: int, sharding: Sharding, op: Op) -> None:
        """Make `value` an alias of `source` in `sharding`; a reshard goes in front of `op`."""
        if source in self._fresh:
            self.add_fresh(value, self._fresh[source])
        elif self._uses[value]:
            self.add(value, self.get(source, sharding, op), sharding)

    def situation(self, value: int) -> Hashable:
        """All that `price` and `can_be_partial` of a value depend on, besides the target."""
        resharded = tuple(self._visible(value))
        if value not in self._repeated:
            self._repeated[value] = self._read_repeated(value)
        return self.function.values[value].kind, resharded, self._repeated[value]

    def _read_repeated(self, value: int) -> Hashable:
        """The key of the element that a constant or fresh value repeats; `None` for others."""
        handle = self.function.values[value].handle
        op = self._fresh[value].handle if value in self._fresh else handle.owner
        if isinstance(op, ir.Block) or op.operation.name not in (*FRESH, *build.CONSTANTS):
            return None
        name, repeated = op.operation.name, None
        if name != "tensor.empty":
            repeated = op.operation.operands[0] if name == "linalg.fill" else handle
            repeated = build.constant_value(repeated) or repeated
        return name, value in self._fresh, repeated

    def price(self, value: int, target: Sharding) -> int:
        """The cost for each device to have `value` in `target`: 0 if it is available.

        A halo that is sliced off a whole tensor, which is free, counts as if it was exchanged. Else
        ops would be split because this costs nothing, and their results gathered later. Raises
        `ReshardError` if no plan leads there.
        """
        if target in self._visible(value):
            return 0
        if value in self._fresh:
            is_new = self._may_be_repeated(value, target)
            return 0 if is_new else self.plan(value, target.bare, target).cost
        if target.partial and self.can_be_partial(value, target):
            return 0
        _, best = self._best(value, target)
        return best.cost + (self._price_of_halos(value, best, target) if target.halos else 0)

    def _price_of_halos(self, value: int, best: Plan, target: Sharding) -> int:
        """The cost of exchanging the halos that slices in the plan read."""
        dims = [step.dim for step in best.steps if isinstance(step, AllSlice) and any(step.halo)]
        without = target
        for dim in dims:
            without = without.with_halo(dim, (0, 0), target.fill)
        return self.plan(value, without, target).cost

    def get(self, value: int, target: Sharding, before: Op) -> ir.Value:
        """`value` in `target`, resharded in front of `before` if it is not available.

        Raises `ReshardError` if no plan leads there.
        """
        resharded = self._visible(value)
        if target not in resharded:
            is_new = value in self._fresh and self._may_be_repeated(value, target)
            if value in self._fresh and not is_new:
                resharded[target.bare] = self.get(value, target.bare, before)
            user, level = self._insertion_point(value, before)
            may_be_partial = bool(target.partial) and self.can_be_partial(value, target)
            with ir.InsertionPoint(user.handle), user.location:
                if is_new and (not target.partial or may_be_partial):
                    resharded_value = self._recreate(self._fresh[value], target)
                elif may_be_partial:
                    resharded_value = self._splat_constant(value, target)
                else:
                    source, _ = self._best(value, target, level)
                    resharded_value = self._emit(value, resharded[source], source, target)
            self._levels[level].resharded.setdefault(value, {})[target] = resharded_value
            return resharded_value
        return resharded[target]

    def _may_be_repeated(self, value: int, target: Sharding) -> bool:
        """Whether the op of a fresh value may make it in `target`: a fill would not fill halos."""
        return not target.halos or self._fresh[value].name == "tensor.empty"

    def _insertion_point(self, value: int, before: Op) -> tuple[Op, int]:
        """The op in front of which to reshard `value` for `before`, and the number of its level.

        It is hoisted out of loops, up to a branch or the block that defines `value`.
        """
        outer = self._level_for(value)
        for level in self._levels[:outer:-1]:
            assert level.loop is not None, "a branch ends the way out"
            before = level.loop
        return before, outer

    def _level_for(self, value: int) -> int:
        """The level at which `value` is resharded for the current block."""
        level = len(self._levels) - 1
        while level > self._level_of.get(value, 0) and self._levels[level].loop is not None:
            level -= 1
        return level

    def unsharded(self, value: int, before: Op) -> ir.Value:
        """`value` replicated on every device, resharded in front of `before` if need be."""
        rank = len(self.shape(value))
        return self.get(value, Sharding.replicated(self.grid.name, rank), before)

    def can_be_partial(self, value: int, target: Sharding) -> bool:
        """Whether a constant or fresh `value` keeps its meaning if it is partial as in `target`."""
        owner = self.function.values[value].handle.owner
        op = self._fresh[value].handle if value in self._fresh else owner
        if isinstance(op, ir.Block) or op.operation.name not in (*FRESH, *build.CONSTANTS):
            return False
        return reductions.may_be_partial(op.operation, target.reduction)

    def identity(self, value: int, target: Sharding, before: Op) -> ir.Value:
        """A tensor shaped like `value`, in `target`, filled with the identity of its reduction."""
        handle = self.function.values[value].handle
        type_ = self._attributes.typed(handle.type, target)
        with ir.InsertionPoint(before.handle), before.location:
            if reductions.is_unsigned(type_.element_type):  # a fill would hide the identity
                one = reductions.identity(target.reduction, type_.element_type)
                return hlo.splat(one, type_)
            identity_value = reductions.identity_value(target.reduction, type_.element_type)
            filled = build.fill(identity_value, build.empty(type_))
        return filled.results[0]

    def combine(self, value: int, op: Op, init: int, produced: Sharding, target: Sharding) -> None:
        """Reshard the result of `op`, which started from the identity; combine it with `init`."""
        handle = self.function.values[value].handle
        with ir.InsertionPoint.after(op.handle), op.location:
            reduced = self._emit(value, handle, produced, target)
        following = reduced.owner.operation
        start = self.get(init, target, op)
        with ir.InsertionPoint.after(following), op.location:
            combined = reductions.combine(produced.reduction, start, reduced)
        self.add(value, combined, target)

    def _best(
        self, value: int, target: Sharding, level: int | None = None
    ) -> tuple[Sharding, Plan]:
        """The sharding of `value` visible on `level` that is cheapest to reshard, with the plan.

        Among equally cheap ones it is the first that was made.
        """
        plans = []
        refusal: ReshardError | None = None
        sources = dict(self._of.get(value, ()))
        for each in self._levels[: len(self._levels) if level is None else level + 1]:
            sources |= each.resharded.get(value, {})
        for source in sources:
            try:
                plans.append((source, self.plan(value, source, target)))
            except ReshardError as error:
                refusal = error
        if not plans:
            raise refusal or ReshardError(f"no version of the value leads to {target}")
        return min(plans, key=lambda each: each[1].cost)

    def plan(self, value: int, source: Sharding, target: Sharding) -> Plan:
        """The plan from `source` to `target`; raises `ReshardError` if there is none."""
        held = self.function.values[value]
        manual = manual_axes_of(held.handle) if self._has_manual_axes else ()
        return plan_of(held.kind, source, target, self._attributes, self.prices, manual)

    def itemsize(self, value: int) -> int:
        """The bytes of an element of `value`."""
        return self.function.values[value].kind.itemsize

    def shape(self, value: int) -> Shape:
        """The global shape of `value`, a tensor of static shape."""
        shape = self.function.values[value].shape
        assert shape is not None, "only tensors of static shape are resharded"
        return shape

    def _emit(self, value: int, handle: ir.Value, source: Sharding, target: Sharding) -> ir.Value:
        steps = self.plan(value, source, target).steps
        if source.is_replicated:  # the steps are on the target's grid
            source = replace(source, grid=target.grid)
        return write_steps(steps, handle, source, self._attributes)

    def _recreate(self, op: Op, target: Sharding) -> ir.Value:
        recreated = build.empty(self._attributes.typed(op.handle.results[0].type, target))
        if op.name == "linalg.fill":
            return build.fill(op.handle.operands[0], recreated).results[0]
        return recreated

    def _splat_constant(self, value: int, target: Sharding) -> ir.Value:
        type_ = self._attributes.typed(self.function.values[value].handle.type, target)
        return build.constant_like(self.function.values[value].handle, type_)


@dataclass(frozen=True)
class ManualBoundaries:
    """The manual boundaries of one function.

    `target_of` has the target sharding of each value, by number. `refinement_of` returns the
    refinement of the grid of a manual computation, or `None` if it was not refined.
    """

    shardings: Shardings
    resharded: ReshardedValues
    target_of: dict[int, Sharding]
    refinement_of: Callable[[Grid], Refinement | None]

    def open(self, computation: Op) -> None:
        """Rewrite the manual axes on the refined grid, and set the targets of the results.

        A result has outside the sharding in which it is made inside; its users reshard it.
        """
        fine = self.refinement_of(grid_of(computation.handle, self.shardings))
        if fine is not None:
            axes = fine.refined_axes(tuple(ints(computation.handle.attributes[MANUAL])))
            write_manual_axes(computation.handle, MANUAL, axes)
        block = computation.blocks[0]
        to_global_ops = {op.results[0]: op for op in block.ops if op.name == TO_GLOBAL}
        for value, result in zip(block.end.operands, computation.results, strict=True):
            if value in self.target_of:
                with located(to_global_ops[value].handle):
                    sharding = self._produced_sharding(to_global_ops[value])
                self.target_of[value] = self.target_of[result] = sharding

    def _produced_sharding(self, op: Op) -> Sharding:
        boundary = self._boundary(op)
        inside = boundary.inside(self.target_of[op.results[0]])
        return boundary.outside(boundary.fitting(inside, self.resharded.shape(op.operands[0])))

    def _boundary(self, op: Op) -> ManualBoundary:
        boundary = boundary_of(op.handle, self.shardings)
        return boundary.refined(self.refinement_of(boundary.grid))

    def cross(self, op: Op) -> Sharding | None:
        """Reshard the operand of a `to_local` or a `to_global`.

        Returns the sharding of its result, or `None` if that is not a tensor.
        """
        boundary, (value,), (result,) = self._boundary(op), op.operands, op.results
        if result not in self.target_of:
            write_boundary(op.handle, boundary, boundary.annotation.sharding, self.shardings)
            return None
        if op.name == TO_LOCAL:
            made = boundary.fitting(self.target_of[result], self.resharded.shape(result))
            outside = read = boundary.outside(made)
        else:
            made = outside = self._produced_sharding(op)
            read = boundary.inside(outside)
        op.handle.operands[0] = self.resharded.get(value, read, op)
        write_boundary(op.handle, boundary, outside, self.shardings)
        return made
