"""Constants, and what is worked out from nothing else, during propagation.

    %c = stablehlo.constant dense<1.0>        two users of %b, which want it in two ways, have
    %b = stablehlo.broadcast_in_dim %c        nothing to do with each other: each has its copy
    %0 = stablehlo.add %x, %b
    %1 = stablehlo.multiply %y, %b

Copies that come to lie alike are one op again; others are written as ops of their own.
Source: Shardy, constant-or-scalar-splitter and -merger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_dialect.ir.building import build
from shard_dialect.ir.numbered import Function, Op
from shard_dialect.model import ShardingRule

_MADE_FROM_NOTHING = (*build.CONSTANTS, "stablehlo.iota", "tensor.empty")
_REPEATING = ("stablehlo.broadcast_in_dim", "tensor.splat")
_RESHAPES = (
    "stablehlo.reshape",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.reshape",
    "tosa.reshape",
)
_SLICES = ("stablehlo.slice", "tensor.extract_slice")


@dataclass(slots=True)
class Copy:
    """A copy of what `op`, of a function, makes; in the graph it is `number`.

    `operands` are the copies that it takes, by place. What uses it is either another copy, or an
    operand of `user`.
    """

    function: int
    op: Op
    value: int
    number: int
    operands: dict[int, Copy] = field(default_factory=dict)
    user: Op | None = None
    place: int = 0


class Constants:
    """The values of a function to be copied for each user, each with the op that makes it."""

    def __init__(self, function: Function) -> None:
        self._values = function.values
        self._ops: dict[int, Op] = {}
        self._constant: set[int] = set()

    def __contains__(self, value: int) -> bool:
        return value in self._ops

    def __getitem__(self, value: int) -> Op:
        return self._ops[value]

    def add(self, op: Op, rule: ShardingRule | None) -> bool:
        """Note the op if it makes a constant, or repeats a scalar; whether it does."""
        if len(op.results) != 1 or op.captures:
            return False
        is_constant = op.name in _MADE_FROM_NOTHING or self._keeps_constant(op, rule)
        if is_constant:
            self._constant.add(op.results[0])
        if is_constant or self._repeats_scalar(op):
            self._ops[op.results[0]] = op
            return True
        return False

    def _keeps_constant(self, op: Op, rule: ShardingRule | None) -> bool:
        """Whether it makes a constant of constants; index by index, so that copies are cheap."""
        is_cheap = rule is not None and (
            rule.role in ("elementwise", "broadcast") or op.name in _RESHAPES or op.name in _SLICES
        )
        return is_cheap and bool(op.operands) and self._constant.issuperset(op.operands)

    def _repeats_scalar(self, op: Op) -> bool:
        shapes = [self._values[value].shape for value in op.operands]
        if op.name == "linalg.fill":
            return shapes[0] is None and op.operands[1] in self._constant
        return op.name in _REPEATING and not shapes[0]
