"""Choose the stage of each op of one microbatch's program.

The forward pass is what comes until the last argument is used for the first time. It is divided in
its order, so that stages have about as many floating-point operations of products. An argument is
on the stage that uses it first. A later op is where its operands are, to move as few bytes as
possible: so the backward pass of a layer is where its weights are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import Grid
from shard_dialect.rules.op_kinds import OpKinds

_ONE_DEVICE = Grid("one", ())


@dataclass
class StageChoice:
    """The stages of ops and values; `count` stages, for one microbatch's `ops` in order.

    `once` are the ops that do not depend on the batch. They are on the stage of the first user.
    """

    function: Function
    count: int
    ops: Sequence[Op]
    once: Sequence[Op]
    of_value: dict[int, int] = field(default_factory=dict)
    of_op: dict[int, int] = field(default_factory=dict)
    """By the op's id."""
    needed: dict[int, set[int]] = field(default_factory=dict)
    """The other stages that use a value."""
    forward: int = 0
    """The number of `ops` in the forward pass."""

    def __post_init__(self) -> None:
        self._maker = {value: op for op in self.once for value in op.results}
        self._roots = {value: {value} for value in self.function.arguments}
        for op in self.once:
            roots = set().union(*(self._roots.get(value, set()) for value in op.operands))
            self._roots |= dict.fromkeys(op.results, roots)
        self.forward = self._find_forward()
        self._choose_forward()
        for op in self.ops[self.forward :]:
            self.place(op)
        if all(self.of_op[id(op)] == self.count - 1 for op in self.ops[self.forward :]):
            self.forward = len(self.ops)  # there is no backward pass

    def _find_forward(self) -> int:
        """The number of ops until the last argument is used for the first time."""
        seen: set[int] = set()
        last = 0
        for number, op in enumerate(self.ops, 1):
            roots = set().union(*(self._roots.get(value, set()) for value in op.operands))
            if roots - seen:
                last = number
            seen |= roots
        return last

    def _choose_forward(self) -> None:
        kinds = OpKinds()
        flops = []
        for op in self.ops[: self.forward]:
            rule = kinds.kind_in(self.function.values, op).rule
            flops.append(rule.flops(((),) * len(rule.sizes), _ONE_DEVICE) if rule else 0)
        total, before, stage = sum(flops), 0.0, 0
        for op, count in zip(self.ops[: self.forward], flops, strict=True):
            is_due = count and before + count / 2 > total * (stage + 1) / self.count
            if is_due and stage < self.count - 1:
                stage += 1
            before += count
            self._put(op, stage)

    def place(self, op: Op) -> None:
        """Put an op on the stage of one of its operands: the first to which fewest bytes move."""
        stages = sorted({self.of_value[v] for v in op.operands if v in self.of_value})
        stages = stages or [self.count - 1]
        self._put(op, min(stages, key=lambda stage: self._bytes_to(op, stage)))

    def _bytes_to(self, op: Op, stage: int) -> int:
        total = 0
        for value in set(op.operands):
            at = self.of_value.get(value, stage)
            if at != stage and stage not in self.needed.get(value, ()):
                kind = self.function.values[value].kind
                total += prod(kind.shape or ()) * kind.itemsize
        return total

    def _put(self, op: Op, stage: int) -> None:
        self.of_op[id(op)] = stage
        for value in op.operands:
            self._use(value, stage)
        self.of_value |= dict.fromkeys(op.results, stage)

    def _use(self, value: int, stage: int) -> None:
        """Note that a stage uses a value; one that is on no stage yet is put there."""
        if not self._roots.get(value, {value}):
            return  # a constant, which all stages have
        if value not in self.of_value:
            self.of_value[value] = stage
            maker = self._maker.get(value)
            if maker is not None and id(maker) not in self.of_op:
                self._put(maker, stage)
        if self.of_value[value] != stage:
            self.needed.setdefault(value, set()).add(stage)
