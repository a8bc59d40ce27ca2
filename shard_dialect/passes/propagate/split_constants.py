"""After propagation, make one op for each sharding among the copies of a constant.

    %b = stablehlo.broadcast_in_dim %c        %b   = ... {mesh.shardings = [[0], []]}
    %0 = stablehlo.add %x, %b                 %b_1 = ... {mesh.shardings = [[], []]}

Copies with the same sharding and the same operands share an op. Plain constants are never
duplicated: they are replicated, and a slice of a replicated tensor is free.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.mesh.attributes import SHARDINGS
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.model import Sharding
from shard_dialect.passes.propagate.constants import Copy
from shard_dialect.passes.propagate.module_graph import ModuleGraph
from shard_dialect.propagation.engine import Engine

_NEVER_DUPLICATED = (*build.CONSTANTS, "tensor.empty")
_Key = tuple[object, ...]


@dataclass
class SplitConstants:
    """Makes the ops, and replaces the operands of their users."""

    module_graph: ModuleGraph
    engine: Engine
    shardings: Shardings
    default: str
    """The name of the grid for values without a sharding."""
    _copies: dict[_Key, ir.Value] = field(default_factory=dict)

    def run(self) -> None:
        """Rewrite, in place, the operands of all ops that use a copied constant."""
        for copy in self.module_graph.copies:
            if copy.user is not None:
                value = self._value_of(copy)
                if copy.user.handle.operands[copy.operand_number] != value:
                    copy.user.handle.operands[copy.operand_number] = value

    def _value_of(self, copy: Copy) -> ir.Value:
        """The value that the users of a copy get."""
        values = {number: self._value_of(each) for number, each in copy.operands.items()}
        original = (copy.function, copy.value)
        key = self._key(copy)
        if key not in self._copies:
            is_written = self.module_graph.is_known(*original)
            if is_written and copy.op.name not in _NEVER_DUPLICATED:
                self._copies[key] = self._duplicate(copy, values)
            else:
                if not is_written:
                    self.module_graph.put(*original, copy.number)
                _set_operands(copy.op.handle, values)
                self._copies[key] = copy.op.handle.results[0]
        return self._copies[key]

    def _key(self, copy: Copy) -> _Key:
        """The key of a copy; copies with the same key are one op."""
        operands = tuple(self._key(each) for each in copy.operands.values())
        return copy.function, copy.value, self._sharding_of(copy), operands

    def _sharding_of(self, copy: Copy) -> Sharding | None:
        known = self.engine.known(copy.number)
        return known.sharding if known is not None else None

    def _duplicate(self, copy: Copy, values: dict[int, ir.Value]) -> ir.Value:
        with ir.InsertionPoint.after(copy.op.handle):
            duplicate = copy.op.handle.clone().operation
        _set_operands(duplicate, values)
        type_ = duplicate.results[0].type
        sharding = self._sharding_of(copy) or Sharding.replicated(self.default, type_.rank)
        duplicate.attributes[SHARDINGS] = ir.ArrayAttr.get([self.shardings.write(sharding)])
        return duplicate.results[0]


def _set_operands(op: ir.Operation, values: dict[int, ir.Value]) -> None:
    for number, value in values.items():
        if op.operands[number] != value:
            op.operands[number] = value
