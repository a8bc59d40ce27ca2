"""After propagation: constants whose copies came to lie in several ways are several ops.

    %b = stablehlo.broadcast_in_dim %c        %b   = ... {mesh.shardings = [[0], []]}
    %0 = stablehlo.add %x, %b                 %b_1 = ... {mesh.shardings = [[], []]}

Copies that lie alike, and take alike, share an op. Plain constants are never doubled: a slice of
one that is whole everywhere is free.
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

_NEVER_DOUBLED = (*build.CONSTANTS, "tensor.empty")
_Key = tuple[object, ...]


@dataclass
class SplitConstants:
    """Makes the ops, and lets each of the users have its own."""

    mirrored: ModuleGraph
    engine: Engine
    shardings: Shardings
    default: str
    """The grid of what nothing reaches."""
    _made: dict[_Key, ir.Value] = field(default_factory=dict)

    def run(self) -> None:
        for copy in self.mirrored.copies:
            if copy.user is not None:
                value = self._value_of(copy)
                if copy.user.handle.operands[copy.place] != value:
                    copy.user.handle.operands[copy.place] = value

    def _value_of(self, copy: Copy) -> ir.Value:
        """What the users of a copy see."""
        values = {place: self._value_of(each) for place, each in copy.operands.items()}
        place = (copy.function, copy.value)
        key = self._key(copy)
        if key not in self._made:
            is_taken = self.mirrored.is_known(*place)
            if is_taken and copy.op.name not in _NEVER_DOUBLED:
                self._made[key] = self._double(copy, values)
            else:
                if not is_taken:
                    self.mirrored.put(*place, copy.number)
                _set_operands(copy.op.handle, values)
                self._made[key] = copy.op.handle.results[0]
        return self._made[key]

    def _key(self, copy: Copy) -> _Key:
        """Copies with the same key are one op."""
        operands = tuple(self._key(each) for each in copy.operands.values())
        return copy.function, copy.value, self._lies(copy), operands

    def _lies(self, copy: Copy) -> Sharding | None:
        known = self.engine.known(copy.number)
        return known.sharding if known is not None else None

    def _double(self, copy: Copy, values: dict[int, ir.Value]) -> ir.Value:
        with ir.InsertionPoint.after(copy.op.handle):
            made = copy.op.handle.clone().operation
        _set_operands(made, values)
        type_ = made.results[0].type
        lies = self._lies(copy) or Sharding.replicated(self.default, type_.rank)
        made.attributes[SHARDINGS] = ir.ArrayAttr.get([self.shardings.write(lies)])
        return made.results[0]


def _set_operands(op: ir.Operation, values: dict[int, ir.Value]) -> None:
    for place, value in values.items():
        if op.operands[place] != value:
            op.operands[place] = value
