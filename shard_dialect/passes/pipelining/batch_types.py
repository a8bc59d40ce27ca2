"""How the values of a function depend on its batch, also in the regions of its loops and branches.

Microbatches are to time what devices are to a grid, so a value has a sharding along the one axis of
a grid of microbatches: the batch splits a dimension of it, or it is partial, a sum (say) to which
each microbatch adds its part. Others are the same for all microbatches.

    %0:2 = stablehlo.while(%i = 0, %h = %x, %g = zeros)     %h is split, as %x is
      %a = dot_general %h, %w                               split: the product has the batch
      %b = dot_general %h, %a                               partial: it sums over the batch
      %s = dynamic_update_slice %g, %b, %i                  and so %g is, which begins as zeros

What a loop carries is typed as what flows to it, until nothing changes. An op may read a partial
value if it is linear in it (`ops.partial_values`). The total of all microbatches is known after
them only, so no op in a loop may read one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from shard_dialect.errors import ShardError
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.numbered_function import (
    ENDS,
    FLOWS,
    Flow,
    Function,
    Op,
    flows_through,
    read_by,
)
from shard_dialect.ir.walk import is_made_by, source_behind
from shard_dialect.model import Assignment, Grid, Reduction, Sharding, ShardingRule
from shard_dialect.ops.op_table import OpKinds, carries

AXIS = 0
"""The axis of the grid of microbatches."""
_CHEAP = ("broadcast", "elementwise", "pass")
_ANNOTATE = "mesh.annotate"
_REPEATS = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
Types = dict[int, Sharding]
"""The shardings of the values that depend on the batch, by their numbers."""


@dataclass(frozen=True)
class Needs:
    """What an op needs of its operands, by number, and its results, to work on one microbatch.

    The `inits`, by result, are operands that need what the result is.
    """

    operands: Mapping[int, Sharding]
    results: Sequence[Sharding]
    inits: Sequence[int] = ()


def batch_dim(shape: Sequence[int]) -> int:
    """The dimension that is the batch: the first of several elements.

    >>> batch_dim([1, 32, 8])
    1
    """
    return next((dim for dim, size in enumerate(shape) if size != 1), 0)


def ops_in(op: Op) -> Iterator[Op]:
    """An op, and those in its regions, each before those inside it."""
    yield op
    for block in op.blocks:
        for inner in block.ops:
            yield from ops_in(inner)


class _AskedLateError(Exception):
    """An op needs parts of what a loop before it has made for all microbatches alike."""


@dataclass
class BatchTypes:
    """Types the values of one function."""

    function: Function
    grid: Grid
    of: Types = field(default_factory=dict)
    asked: Types = field(default_factory=dict)
    """The shardings that results of loops have because ops after these need parts of them."""
    alike: set[int] = field(default_factory=set)
    """The results of ops that read the batch which are the same for all microbatches."""
    kinds: OpKinds = field(default_factory=OpKinds)

    @cached_property
    def maker(self) -> Mapping[int, Op]:
        """The op that makes each value."""
        return {value: op for op in self.function.ops for value in op.results}

    @cached_property
    def outer(self) -> frozenset[int]:
        """The values of the function's first block."""
        block = self.function.blocks[0]
        made = (value for op in block.ops for value in op.results)
        return frozenset([*block.arguments, *made])

    def first_refused(self, batched: Iterable[int]) -> tuple[Op, ShardError] | None:
        """The first op of the first block that cannot work on microbatches alone, and why.

        Arguments with the numbers in `batched` have the batch. What loops are asked for is noted.
        """
        while True:
            self.of.clear()
            for number in batched:
                if number < len(self.function.arguments):
                    self.split(self.function.arguments[number])
            try:
                for op in self.function.blocks[0].ops[:-1]:
                    if self.reads_batch(op):
                        made = self.made_by(op)
                        kept = made.keys() & set(op.results)
                        self.of |= {v: made[v] for v in kept if not made[v].partial}
            except ShardError as error:
                return op, error
            except _AskedLateError:
                continue
            return None

    def reads_batch(self, op: Op) -> bool:
        """Whether an op, or one in it, reads a value that depends on the batch."""
        return any(value in self.of for value in read_by(op))

    def split(self, value: int) -> None:
        """Let an argument have the batch."""
        shape = self.function.values[value].shape or (0,)
        whole = Sharding.replicated(self.grid.name, len(shape))
        self.of[value] = whole.with_dim(batch_dim(shape), (AXIS,))

    def made_by(self, op: Op) -> Types:
        """The shardings of what an op of the first block makes, also in its regions.

        Raises a `ShardError` where it cannot work on microbatches alone.
        """
        if not flows_through(op):
            needs = self.needs(op, self.of)
            for number, sharding in needs.operands.items():
                if sharding.axes and op.operands[number] not in self.of:
                    self.may_be_part(op.operands[number], sharding)
            return dict(zip(op.results, needs.results, strict=True))
        made = _Regions(self, op).typed()
        self.alike.update(value for value in op.results if value not in made)
        return made

    def needs(self, op: Op, of: Mapping[int, Sharding]) -> Needs:
        """What an op that reads the batch needs, where values have these shardings."""
        if len(op.read) > len(op.operands):
            raise ShardError(
                f"'{op.name}' op reads a microbatch in its regions: only ops with sharding rules "
                "can be split into microbatches"
            )
        if op.name == _ANNOTATE:
            return Needs({}, [of[op.operands[0]]])
        rule = self.kinds.kind_in(self.function.values, op).rule
        if rule is None:
            raise ShardError(f"'{op.name}' op has no sharding rule: its batch cannot be split")
        partial = {n for n, v in enumerate(op.operands) if v in of and of[v].partial}
        if partial:
            return self._of_partial(op, rule, partial, of)
        assignment = self._assignment(op, rule, of)
        operands, results = {}, []
        for number in range(len(op.operands)):
            needed = rule.operand_sharding(number, assignment, self.grid)
            if needed is not None and number not in rule.inits:
                operands[number] = needed
        for number in range(len(op.results)):
            made = rule.result_sharding(number, assignment, self.grid)
            if made is None or not made.axes:
                raise ShardError(
                    f"'{op.name}' op does not pass the batch on to its result {number}"
                )
            results.append(made)
        return Needs(operands, results, rule.inits)

    def _of_partial(
        self, op: Op, rule: ShardingRule, partial: set[int], of: Mapping[int, Sharding]
    ) -> Needs:
        kinds = {of[op.operands[number]].reduction for number in partial}
        split = [v for n, v in enumerate(op.operands) if v in of and n not in partial]
        numbers = None
        if len(kinds) == 1 and not split:
            reduction = next(iter(kinds))
            numbers = carries(op.handle, rule, frozenset(partial), reduction, narrow=False)
        if numbers is None:
            raise ShardError(
                f"'{op.name}' op reads what all microbatches make together, and each alone in a "
                "region: no pipeline can do that"
            )
        values = self.function.values
        (kind,) = kinds

        def typed(value: int) -> Sharding:
            return self.partial(len(values[value].shape or ()), kind)

        operands = {number: typed(op.operands[number]) for number in numbers}
        return Needs(operands, [typed(value) for value in op.results])

    def partial(self, rank: int, reduction: Reduction) -> Sharding:
        """The sharding of a value to which each microbatch adds its part."""
        whole = Sharding.replicated(self.grid.name, rank)
        return whole.with_partial((AXIS,), reduction)

    def _assignment(self, op: Op, rule: ShardingRule, of: Mapping[int, Sharding]) -> Assignment:
        """The factor of the op's rule that is the batch, assigned to the axis of microbatches."""
        factors: set[int] = set()
        for dims, value in zip(rule.operands, op.operands, strict=True):
            if dims is not None and value in of:
                by_factor = rule.factors_of(dims, of[value], self.grid)
                factors.update(factor for factor, axes in by_factor.items() if axes)
        if len(factors) != 1:
            raise ShardError(
                f"'{op.name}' op reads microbatches along {len(factors)} of its loops, each beside "
                "all others: no pipeline can do that"
            )
        (batch,) = factors
        if batch in rule.unsplit:
            raise ShardError(
                f"'{op.name}' op must not be split along its batch: its rule is {rule}"
            )
        return self.assignment(op, rule, batch)

    def assignment(self, op: Op, rule: ShardingRule, batch: int) -> Assignment:
        """The assignment of a factor to the axis of microbatches, which must divide it."""
        if rule.sizes[batch] % self.grid.size:
            raise ShardError(
                f"'{op.name}' op cannot split its loop of size {rule.sizes[batch]} into "
                f"{self.grid.size} microbatches"
            )
        return tuple((AXIS,) if factor == batch else () for factor in range(len(rule.sizes)))

    def is_identity(self, value: int, sharding: Sharding) -> bool:
        """Whether a constant adds nothing to a partial value."""
        handle = source_behind(self.function.values[value].handle, *_REPEATS)
        return reductions.is_identity(sharding.reduction, handle)

    def parts(self, value: int, needed: Sharding) -> Mapping[int, Sharding] | None:
        """What the op that makes a value reads to make a part of it, if it may as well make that.

        By the number of the operand, where that has the batch, too; `None` for ops whose elements
        depend on where they are.
        """
        maker = self.maker.get(value)
        if maker is None or len(maker.read) > len(maker.operands):
            return None
        if build.is_constant(maker.handle):
            return {} if build.is_splat(build.constant_value(maker.handle.results[0])) else None
        return self.operand_parts(maker, needed, _CHEAP)

    def operand_parts(
        self, op: Op, needed: Sharding, roles: Sequence[str] = ()
    ) -> Mapping[int, Sharding] | None:
        """What an op reads to make a part of its result alone; `None` if it cannot.

        By the number of the operand, where that has the batch, too. If there are `roles`, the op
        has one of them.
        """
        if op.blocks or len(op.results) != 1 or not op.operands:
            return None
        if op.name == _ANNOTATE:
            return {0: needed}
        rule = self.kinds.kind_in(self.function.values, op).rule
        if rule is None or (roles and rule.role not in roles) or not rule.results[0]:
            return None
        by_factor = rule.factors_of(rule.results[0], needed, self.grid)
        batch = {factor for factor, axes in by_factor.items() if axes}
        if len(batch) != 1 or not batch.isdisjoint(rule.unsplit):
            return None
        (factor,) = batch
        if rule.sizes[factor] % self.grid.size:
            return None
        assignment = self.assignment(op, rule, factor)
        if rule.result_sharding(0, assignment, self.grid) != needed:
            return None
        found = {}
        for number in range(len(op.operands)):
            sharding = rule.operand_sharding(number, assignment, self.grid)
            if sharding is not None and sharding.axes:
                found[number] = sharding
        return found

    def may_be_part(self, value: int, needed: Sharding) -> bool:
        """Whether a value that is the same for all microbatches can be a part for each."""
        if value in self.outer:
            if value in self.alike and not self.maker[value].name.endswith("barrier"):
                self.asked[value] = needed
                raise _AskedLateError
            return True
        parts = self.parts(value, needed)
        if parts is not None:
            operands = self.maker[value].operands
            if all(self.may_be_part(operands[n], each) for n, each in parts.items()):
                return True
        return self.is_outside(value)

    def is_outside(self, value: int) -> bool:
        """Whether a value could be made outside of the regions around it."""
        if value in self.outer:
            return True
        maker = self.maker.get(value)
        if maker is None or maker.blocks or len(maker.read) > len(maker.operands):
            return False
        return all(map(self.is_outside, maker.operands))


_DECIDES = ("scf.if", "scf.index_switch", "stablehlo.case", "stablehlo.if")
"""The ops whose first operand decides which region runs."""


class _Regions:
    """Types an op of the first block through which values flow, and all ops in it."""

    def __init__(self, types: BatchTypes, op: Op) -> None:
        self.types, self.op = types, op
        self.ops = list(ops_in(op))
        self.of: Types = dict(types.of)
        self.targets: dict[int, Flow] = {}
        self.flows = {id(each): flows_through(each) for each in self.ops if each.name in FLOWS}
        for flows in self.flows.values():
            for flow in flows:
                self.targets |= dict.fromkeys(flow.targets, flow)
        self.of |= {value: types.asked[value] for value in op.results if value in types.asked}

    def typed(self) -> Types:
        """The shardings of all values that are made; raise a `ShardError` where it cannot be."""
        before: Types = {}
        while before != self.of:
            before = dict(self.of)
            for op in self.ops:
                with located(op.handle):
                    if id(op) in self.flows:
                        for flow in self.flows[id(op)]:
                            self._flow(flow)
                    elif op.name not in ENDS and any(value in self.of for value in op.read):
                        self._op(op)
        self._check()
        return {v: each for v, each in self.of.items() if v not in self.types.of}

    def _op(self, op: Op) -> None:
        needs = self.types.needs(op, self.of)
        self.of |= zip(op.results, needs.results, strict=True)
        for number, sharding in needs.operands.items():
            self._ask(op.operands[number], sharding, op)

    def _flow(self, flow: Flow) -> None:
        sources = [op.operands[number] for op, number in flow.sources]
        known = {self.of[value] for value in (*sources, *flow.targets) if value in self.of}
        if not known:
            return
        if len(known) > 1:
            raise ShardError(
                f"'{self.op.name}' op carries a value of which microbatches have different parts "
                f"from iteration to iteration: {' and '.join(sorted(map(str, known)))}"
            )
        (sharding,) = known
        self.of |= dict.fromkeys(flow.targets, sharding)
        for op, number in flow.sources:
            self._ask(op.operands[number], sharding, op)

    def _ask(self, value: int, sharding: Sharding, op: Op) -> None:
        """Let a value that is the same for all microbatches be what `op` needs of it, or raise."""
        if value in self.of or not sharding.axes:
            return
        if sharding.partial:
            may_be = self.types.is_identity(value, sharding)
        else:
            may_be = self.types.may_be_part(value, sharding)
        if may_be:  # it is then made as such
            return
        if value in self.targets:
            self.of[value] = sharding
        elif sharding.partial:
            self._ask_for_sum(value, sharding, op)
        else:
            self._ask_for_part(value, sharding, op)

    def _ask_for_part(self, value: int, sharding: Sharding, op: Op) -> None:
        maker = None if value in self.types.outer else self.types.maker.get(value)
        operands = None if maker is None else self.types.operand_parts(maker, sharding)
        if maker is None or operands is None:
            raise ShardError(
                f"'{op.name}' op reads a microbatch, and its part of what an iteration makes for "
                "all: no pipeline can do that"
            )
        self.of[value] = sharding
        for number, each in operands.items():
            self._ask(maker.operands[number], each, maker)

    def _ask_for_sum(self, value: int, sharding: Sharding, op: Op) -> None:
        types = self.types
        maker, needs = types.maker.get(value), None
        if value not in types.outer and maker is not None and len(maker.results) == 1:
            one, rule = frozenset({0}), types.kinds.kind_in(types.function.values, maker).rule
            if maker.name == _ANNOTATE:
                needs = one
            elif rule is not None:
                needs = carries(maker.handle, rule, one, sharding.reduction, narrow=False)
        if needs is None or maker is None:
            raise ShardError(
                f"'{op.name}' op adds what is the same for all microbatches to what each makes, "
                "in a region: no pipeline can do that"
            )
        self.of[value] = sharding
        for number in needs:
            operand = maker.operands[number]
            rank = len(types.function.values[operand].shape or ())
            self._ask(operand, types.partial(rank, sharding.reduction), maker)

    def _check(self) -> None:
        """Raise for an op that needs a part of what is not there for all microbatches."""
        for op in self.ops:
            with located(op.handle):
                if id(op) in self.flows:
                    self._check_control(op)
                    for flow in self.flows[id(op)]:
                        sharding = self.of.get(flow.targets[0])
                        if sharding is not None:
                            for source, number in flow.sources:
                                self._check_operand(source, number, sharding)
                elif op.name not in ENDS and any(value in self.of for value in op.read):
                    needs = self.types.needs(op, self.of)
                    for number, sharding in needs.operands.items():
                        self._check_operand(op, number, sharding)
                    for number, made in zip(needs.inits, needs.results, strict=False):
                        check = self._check_identity if made.partial else self._check_operand
                        check(op, number, made)

    def _check_identity(self, op: Op, number: int, made: Sharding) -> None:
        is_empty = is_made_by(op.handle.operands[number], "tensor.empty")
        if not is_empty and not self.types.is_identity(op.operands[number], made):
            raise ShardError(
                f"'{op.name}' op reduces a microbatch in a region, and starts from a value of all: "
                "no pipeline can do that"
            )

    def _check_operand(self, op: Op, number: int, needed: Sharding) -> None:
        value = op.operands[number]
        known = self.of.get(value)
        if known == needed or (known is None and not needed.axes):
            return
        if known is not None:
            raise ShardError(f"'{op.name}' op needs all microbatches of its operand {number}")
        if not needed.partial and not self.types.may_be_part(value, needed):
            raise ShardError(
                f"'{op.name}' op reads a microbatch, and its part of what an iteration makes for "
                "all: no pipeline can do that"
            )

    def _check_control(self, op: Op) -> None:
        control = [block.ops[-1].operands[0] for block in op.blocks[:1] if self._is_test(op)]
        control += op.operands[:1] if op.name in _DECIDES else ()
        control += op.operands[:3] if op.name == "scf.for" else ()
        if any(value in self.of for value in control):
            raise ShardError(
                f"'{op.name}' op runs as a microbatch says, which differs: no pipeline can do that"
            )

    @staticmethod
    def _is_test(op: Op) -> bool:
        return op.name.endswith("while") or op.name == "tosa.while_loop"
