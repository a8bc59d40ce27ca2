"""Put a part that is added to a part of a sum into zeros, where the sum is split along that part.

    %1 = stablehlo.dynamic_slice %sum, %i               the part has elements of one device or more:
    %2 = stablehlo.add %1, %part                        they are sent to all that add
    %3 = stablehlo.dynamic_update_slice %sum, %2, %i

    %1 = stablehlo.dynamic_update_slice %z, %part, %i   each device puts what it has of the part
    %2 = stablehlo.add %sum, %1                         into zeros, and sends nothing

So it is, too, where the sum is distributed anew: else both its slice and it would be. This is the
inverse of `sum-in-place`, which does not know the shardings. Adding zeros changes nothing but
the sign of a zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import create, create_value
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.grids import erase_cluster
from shard_dialect.ir.mesh.attributes import RULE
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import read_functions
from shard_dialect.ir.walk import maker_of, walk
from shard_dialect.model import Sharding
from shard_dialect.passes.framework.base import Pass, needs
from shard_dialect.passes.materialize.target_shardings import read_target_shardings

_ADD, _SLICE = "stablehlo.add", "stablehlo.dynamic_slice"
_UPDATE = "stablehlo.dynamic_update_slice"


@needs(ops=(_UPDATE,), forms=("propagated",))
@dataclass(frozen=True)
class SumApart(Pass):
    """Add parts that are put into zeros, where a sum is split along the dimensions of a part."""

    name = "sum-apart"

    def rewrite(self, module: ir.Operation) -> None:
        """Rewrite updates of functions in the propagated form; raises a located `ShardError`."""
        found = {
            name_of(function): sums
            for function in functions_of(module, "propagated")
            if (sums := list(_sums(function)))
        }
        if not found:
            return
        functions = [each for each in functions_of(module) if name_of(each) in found]
        read = read_functions(functions)
        shardings = Shardings.of(module)
        grids = set(shardings.grids)
        apart: list[_Sum] = []
        for targets in read_target_shardings(module, read, shardings):
            values = targets.function.values
            of = {values[number].handle: each for number, each in targets.of.items()}
            apart += [each for each in found[targets.function.name] if not each.is_in_place(of)]
        for each in apart:
            each.rewrite()
        for name in set(shardings.grids) - grids:
            erase_cluster(module, name)  # the ops written use the grids of before


@dataclass(frozen=True)
class _Sum:
    """An update of a part of a tensor by the sum of that part and another."""

    update: ir.Operation
    add: ir.Operation
    before: ir.Operation
    number: int
    """Of the operand of `add` that is the other."""

    @property
    def part(self) -> ir.Value:
        """What is added."""
        return self.add.operands[self.number]

    def is_in_place(self, of: Mapping[ir.Value, Sharding]) -> bool:
        """Whether each device has all of the part that it updates, of what it has before."""
        total, part, result = self.update.operands[0], self.part, self.update.results[0]
        source, target = of.get(total), of.get(result)
        if source is None or target is None:
            return True
        sizes = zip(target.split_axes, result.type.shape, part.type.shape, strict=True)
        return source == target and not any(axes and a != b for axes, a, b in sizes)

    def rewrite(self) -> None:
        """Put the part into zeros, and add all of that."""
        total, _, *starts = self.update.operands
        attributes = {name: self.update.attributes[name] for name in self.update.attributes}
        with ir.InsertionPoint(self.update), self.update.location:
            zeros = hlo.number(0, total.type)
            put = create(_UPDATE, [total.type], [zeros, self.part, *starts], attributes)
            result = create_value(_ADD, total.type, [total, put.results[0]], attributes)
        self.update.results[0].replace_all_uses_with(result)
        for op in (self.update, self.add, self.before):
            op.erase()


def _sums(function: ir.Operation) -> Iterator[_Sum]:
    for update in walk(function):
        if update.name != _UPDATE or not _is_plain(update):
            continue
        total, summed, *starts = update.operands
        add = _only_for(summed, _ADD)
        if add is None:
            continue
        for number in (0, 1):
            before = _only_for(add.operands[number], _SLICE)
            if before is not None and [*before.operands] == [total, *starts]:
                yield _Sum(update, add, before, 1 - number)
                break


def _only_for(value: ir.Value, name: str) -> ir.Operation | None:
    """The plain op of this name that makes a value with one use."""
    op = maker_of(value, name)
    return op if op is not None and _is_plain(op) and len(list(value.uses)) == 1 else None


def _is_plain(op: ir.Operation) -> bool:
    """Whether it has no rule of its own, and known sizes."""
    types = [each.type for each in (*op.operands, *op.results)]
    return RULE not in op.attributes and all(each.has_static_shape for each in types)
