"""The versions of each value that materialization has made so far: the same tensor, lying in
different ways. A version is made once, where it is first needed, and shared from then on.

Two kinds of value cost nothing to have in any sharding. A *constant* is whole on every device, and
a slice of it is free. A *fresh* value (`tensor.empty`, `linalg.fill`) holds nothing that came from
elsewhere: it is made again for each sharding. Both can be partial where what they repeat allows it.

A version made in a block is no use outside of it, so they are kept by level: the function's block,
and the region of each loop or branch that is entered. What is needed in a loop of a value from
outside is made before the loop, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered import Function, Op
from shard_dialect.model import Grid, ReshardError, Sharding
from shard_dialect.model.sharding import Shape
from shard_dialect.planner import Plan, plan

FRESH = ("tensor.empty", "linalg.fill")


def is_fresh(op: Op, function: Function) -> bool:
    return op.name in FRESH and function.values[op.results[0]].shape is not None


@dataclass
class _Level:
    """A block that is being worked on, and the versions made there; `loop` repeats it, if one."""

    loop: Op | None = None
    made: dict[int, dict[Sharding, ir.Value]] = field(default_factory=dict)


class ReshardedValues:
    """The versions of a function's values, on one grid."""

    def __init__(self, function: Function, shardings: Shardings, grid: Grid) -> None:
        self.function = function
        self.grid = grid
        self._attributes = shardings
        self._of: dict[int, dict[Sharding, ir.Value]] = {}
        self._fresh: dict[int, Op] = {}
        self._uses = function.count_uses()
        self._levels = [_Level()]
        self._level_of: dict[int, int] = {}

    @contextmanager
    def block(self, loop: Op | None = None) -> Iterator[None]:
        """While working on a block, of a region of `loop` if it is one."""
        self._levels.append(_Level(loop))
        yield
        self._levels.pop()

    def shardings(self, value: int) -> list[Sharding]:
        return list(self._visible(value))

    def _visible(self, value: int) -> dict[Sharding, ir.Value]:
        found = dict(self._of.get(value, ()))
        for level in self._levels:
            found |= level.made.get(value, {})
        return found

    def add(self, value: int, handle: ir.Value, sharding: Sharding) -> None:
        """Note that `handle` is `value`, lying as `sharding`."""
        self._level_of.setdefault(value, len(self._levels) - 1)
        self._of.setdefault(value, {})[sharding] = handle

    def add_fresh(self, value: int, op: Op) -> None:
        """Note that `op` makes `value` from nothing, and may be made again at will."""
        self._fresh[value] = op
        self._level_of[value] = len(self._levels) - 1
        self._of[value] = {}

    def define(self, value: int, produced: Sharding, wanted: Sharding, op: Op) -> None:
        """Note what `op` produced; if several will use it, bring it at once to what is wanted.

        A single user may do better straight from what was produced.
        """
        handle = self.function.values[value].handle
        self.add(value, handle, produced)
        if produced != wanted and self._uses[value] > 1:
            with ir.InsertionPoint.after(op.handle), op.location:
                made = self._emit(value, handle, produced, wanted)
            self._of[value] = (
                {wanted: made} if produced.partial else {produced: handle, wanted: made}
            )

    def alias(self, value: int, source: int, sharding: Sharding, op: Op) -> None:
        """Make `value` the version of `source` that lies as `sharding`."""
        if source in self._fresh:
            self.add_fresh(value, self._fresh[source])
        elif self._uses[value]:
            self.add(value, self.get(source, sharding, op), sharding)

    def price(self, value: int, target: Sharding) -> int:
        """The bytes moved per device to have `value` lie as `target`."""
        if target in self._visible(value):
            return 0
        if value in self._fresh:
            return self.plan(value, target.bare, target).bytes_moved
        if target.partial and self.can_be_partial(value, target):
            return 0
        return self._best(value, target)[1].bytes_moved

    def get(self, value: int, target: Sharding, before: Op) -> ir.Value:
        """`value` lying as `target`, made in front of `before` if need be."""
        resharded = self._visible(value)
        if target not in resharded:
            if value in self._fresh and target.halos:  # made again it would have no fill
                resharded[target.bare] = self.get(value, target.bare, before)
            user, level = self._place(value, before)
            may_be_partial = bool(target.partial) and self.can_be_partial(value, target)
            with ir.InsertionPoint(user.handle), user.location:
                is_fresh = value in self._fresh and not target.halos
                if is_fresh and (not target.partial or may_be_partial):
                    made = self._make_again(self._fresh[value], target)
                elif may_be_partial:
                    made = self._splat_constant(value, target)
                else:
                    source, _ = self._best(value, target, level)
                    made = self._emit(value, resharded[source], source, target)
            self._levels[level].made.setdefault(value, {})[target] = made
            return made
        return resharded[target]

    def _place(self, value: int, before: Op) -> tuple[Op, int]:
        """Where to make a version that `before` wants: in front of the loops it does not vary in.

        And the number of the level that this is on.
        """
        level = len(self._levels) - 1
        while level > self._level_of.get(value, 0):
            loop = self._levels[level].loop
            if loop is None:
                break
            before, level = loop, level - 1
        return before, level

    def whole(self, value: int, before: Op) -> ir.Value:
        """`value`, whole on every device."""
        rank = len(self.shape(value))
        return self.get(value, Sharding.replicated(self.grid.name, rank), before)

    def can_be_partial(self, value: int, target: Sharding) -> bool:
        """Whether `value` can be had partial as `target`, and still means the same."""
        owner = self.function.values[value].handle.owner
        op = self._fresh[value].handle if value in self._fresh else owner
        if isinstance(op, ir.Block) or op.operation.name not in (*FRESH, *build.CONSTANTS):
            return False
        return reductions.may_be_partial(op.operation, target.reduction)

    def identity(self, value: int, target: Sharding, before: Op) -> ir.Value:
        """A tensor like `value`, partial as `target`, that adds nothing to a reduction."""
        handle = self.function.values[value].handle
        type_ = self._attributes.typed(handle.type, target)
        with ir.InsertionPoint(before.handle), before.location:
            if reductions.is_unsigned(type_.element_type):  # a fill does not show what it repeats
                one = reductions.identity(target.reduction, type_.element_type)
                made = {"value": ir.DenseElementsAttr.get_splat(type_, one)}
                return build.create("stablehlo.constant", [type_], [], made).results[0]
            identity_value = reductions.identity_value(target.reduction, type_.element_type)
            filled = build.fill(identity_value, build.empty(type_).results[0])
        return filled.results[0]

    def combine(self, value: int, op: Op, init: int, produced: Sharding, wanted: Sharding) -> None:
        """Reduce what `op` produced from the identity to `wanted`, and combine it with the init."""
        handle = self.function.values[value].handle
        with ir.InsertionPoint.after(op.handle), op.location:
            reduced = self._emit(value, handle, produced, wanted)
        following = reduced.owner.operation
        start = self.get(init, wanted, op)
        with ir.InsertionPoint.after(following), op.location:
            combined = reductions.combine(produced.reduction, start, reduced)
        self.add(value, combined, wanted)

    def _best(
        self, value: int, target: Sharding, level: int | None = None
    ) -> tuple[Sharding, Plan]:
        """The version that is cheapest to bring to `target`; of equals, the first made.

        Of those that are seen on `level`.
        """
        plans = []
        refusal: ReshardError | None = None
        sources = dict(self._of.get(value, ()))
        for each in self._levels[: len(self._levels) if level is None else level + 1]:
            sources |= each.made.get(value, {})
        for source in sources:
            try:
                plans.append((source, self.plan(value, source, target)))
            except ReshardError as error:
                refusal = error
        if not plans:
            raise refusal or ReshardError(f"no version of the value leads to {target}")
        return min(plans, key=lambda each: each[1].bytes_moved)

    def plan(self, value: int, source: Sharding, target: Sharding) -> Plan:
        """The plan from the one sharding of `value` to the other."""
        of = self.function.values[value]
        return plan(source, target, self.shape(value), of.kind.itemsize, self.grid, False)

    def shape(self, value: int) -> Shape:
        shape = self.function.values[value].shape
        assert shape is not None, "only tensors of known size have versions"
        return shape

    def _emit(self, value: int, handle: ir.Value, source: Sharding, target: Sharding) -> ir.Value:
        steps = self.plan(value, source, target).steps
        return write_steps(steps, handle, source, self._attributes)

    def _make_again(self, op: Op, target: Sharding) -> ir.Value:
        made = build.empty(self._attributes.typed(op.handle.results[0].type, target))
        if op.name == "linalg.fill":
            made = build.fill(op.handle.operands[0], made.results[0])
        return made.results[0]

    def _splat_constant(self, value: int, target: Sharding) -> ir.Value:
        type_ = self._attributes.typed(self.function.values[value].handle.type, target)
        return build.constant_like(self.function.values[value].handle, type_)
