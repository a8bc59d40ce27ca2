"""Keep uneven shardings that nobody annotated where fewer bytes move with them.

    %p = pad %x                   56 rows become 57, on 4 devices: shards of 15, the last of 12
    %s = select_and_scatter %p    reads rows of the neighbours
    %r = slice %s                 56 rows again

Propagation splits only what devices divide, since padding is work, and many ops gather uneven
dimensions. But where a few ops lie between two tensors that are split, to have all of them whole in
between may cost much more than a few rows of the neighbours. Tensors that an op links stay uneven
together, or none of them does. A tensor that a loop carries, a function takes or gives back, or a
manual computation reads is even.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from shard_dialect.errors import ShardError
from shard_dialect.ir.building import build
from shard_dialect.ir.mesh import annotation_ops
from shard_dialect.ir.numbered_function import Op
from shard_dialect.model import Sharding, ShardingError
from shard_dialect.ops.op_table import OpKinds
from shard_dialect.passes.materialize.carried_sums import joined
from shard_dialect.passes.materialize.choose_op_sharding import Choices
from shard_dialect.passes.materialize.resharded_values import ReshardedValues, is_fresh
from shard_dialect.passes.materialize.target_shardings import TargetShardings
from shard_dialect.planner import Prices


def keep_uneven(targets: TargetShardings, kinds: OpKinds, prices: Prices) -> TargetShardings:
    """The same target shardings of a function in one stage, but uneven where that is cheaper."""
    function = targets.function
    made = {value for op in function.ops if _is_computed(op) for value in op.results}
    uneven = {v: each for v, each in targets.uneven.items() if v in made}
    even, padded = (
        _Priced(replace(targets, of=of), kinds, prices) for of in (targets.of, targets.of | uneven)
    )
    touching = {
        id(op): [value for value in (*op.operands, *op.results) if value in uneven]
        for op in function.ops
    }
    part_of = joined(touching.values())
    saved = dict.fromkeys(map(id, part_of.values()), 0.0)
    for op in function.ops:
        if values := touching[id(op)]:
            saved[id(part_of[values[0]])] += even.price(op) - padded.price(op)
    kept = {v: each for v, each in uneven.items() if saved[id(part_of[v])] > 0}
    return replace(targets, of=targets.of | kept)


def _is_computed(op: Op) -> bool:
    """Whether an op's results are what it computes, and are not passed on."""
    return not (op.blocks or op.name == "func.call" or build.is_constant(op.handle))


@dataclass(frozen=True)
class _Priced:
    """The prices of ops, if each value comes in its target sharding."""

    targets: TargetShardings
    kinds: OpKinds
    prices: Prices

    def price(self, op: Op) -> float:
        """What the reshards of an op's operands and results cost; infinite if there is no plan."""
        function, of = self.targets.function, self.targets.of
        choices, kind = self._choices, self.kinds.kind_in(function.values, op)
        try:
            if _is_computed(op) and kind.rule is not None:
                loops = self.targets.loops(op, kind.rule)
                return choices.priced(op, kind, self.targets.grid_of(op), loops)[0]
            wanted = {
                (value, self._passed(op, number))
                for number, value in enumerate(op.operands)
                if value in of
            }
            return sum(choices.resharded.price(value, each) for value, each in wanted)
        except (ShardError, ShardingError):
            return inf

    def _passed(self, op: Op, number: int) -> Sharding:
        """The sharding in which an op passes an operand on."""
        value = op.operands[number]
        of, shape = self.targets.of, self.targets.function.values[value].shape
        asked = self.targets.signature.results[number] if op.name == "func.return" else None
        if asked is not None:
            return asked
        if op.name in annotation_ops.OPS and op.results:
            return of[op.results[0]]
        sharding = of[value]
        grid = self.targets.stages.shardings.grid(sharding.grid)
        return sharding if shape is None else sharding.without_uneven_axes(shape, grid)

    @cached_property
    def _choices(self) -> Choices:
        targets, values = self.targets, self.targets.function.values
        shardings = targets.stages.shardings
        resharded = ReshardedValues(targets.function, shardings, targets.grid, self.prices)
        makers = {value: op for op in targets.function.ops for value in op.results}
        for value, sharding in targets.of.items():
            op = makers.get(value)
            if op is not None and is_fresh(op, targets.function):
                resharded.add_fresh(value, op)
                continue
            if op is not None and build.is_constant(op.handle):
                sharding = Sharding.replicated(targets.grid.name, sharding.rank)
            resharded.add(value, values[value].handle, sharding)
        return Choices(resharded, targets.of, self.kinds)
