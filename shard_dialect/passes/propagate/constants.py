"""Find constants, and values computed only from constants, to copy for propagation.

    %c = stablehlo.constant dense<1.0>        each user of %b gets its own copy of %b and %c, so
    %b = stablehlo.broadcast_in_dim %c        that no sharding propagates from one user to the
    %0 = stablehlo.add %x, %b                 other through %b
    %1 = stablehlo.multiply %y, %b

After propagation, copies with one sharding are one op again; the others become separate ops.
Source: Shardy, constant-or-scalar-splitter and -merger.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_dialect.ir.numbered_function import Function, Op
from shard_dialect.model import ShardingRule
from shard_dialect.ops.op_table import traits_of
from shard_dialect.ops.scalar_functions import Trait

_SLICES = ("stablehlo.slice", "tensor.extract_slice")


@dataclass(slots=True)
class Copy:
    """A copy of the result `value` of `op` in `function`; its number in the graph is `number`.

    `operands` has the copies that it uses, by operand number. Its user is either another copy, or
    the operand number `operand_number` of `user`.
    """

    function: int
    op: Op
    value: int
    number: int
    operands: dict[int, Copy] = field(default_factory=dict)
    user: Op | None = None
    operand_number: int = 0


class Constants:
    """The values of a function to copy for each user; maps each to the op that defines it."""

    def __init__(self, function: Function) -> None:
        self._values = function.values
        self._ops: dict[int, Op] = {}
        self._constant: set[int] = set()

    def __contains__(self, value: int) -> bool:
        return value in self._ops

    def __getitem__(self, value: int) -> Op:
        return self._ops[value]

    def add(self, op: Op, rule: ShardingRule | None) -> bool:
        """Record `op` if its result is a constant or a repeated scalar; return whether it is."""
        if len(op.results) != 1 or op.captures:
            return False
        is_given = Trait.CONSTANT in traits_of(op.name) and op.name != "tosa.const_shape"
        is_constant = is_given or self._keeps_constant(op, rule)
        if is_constant:
            self._constant.add(op.results[0])
        if is_constant or self._repeats_scalar(op):
            self._ops[op.results[0]] = op
            return True
        return False

    def _keeps_constant(self, op: Op, rule: ShardingRule | None) -> bool:
        """Whether it computes a constant from constants element by element, which is cheap."""
        is_cheap = rule is not None and (
            rule.role in ("elementwise", "broadcast")
            or Trait.RESHAPES in traits_of(op.name)
            or op.name in _SLICES
        )
        return is_cheap and bool(op.operands) and self._constant.issuperset(op.operands)

    def _repeats_scalar(self, op: Op) -> bool:
        shapes = [self._values[value].shape for value in op.operands]
        if op.name == "linalg.fill":
            return shapes[0] is None and op.operands[1] in self._constant
        return Trait.REPEATS in traits_of(op.name) and not shapes[0]
