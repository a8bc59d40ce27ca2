"""What a loop carries for stages on different devices is one value: no device has room for all.

    %0:2 = stablehlo.while(%a = %x, %b = %y)            %a is the first stage's, %b the second's
      %c = scf.if %is_first { update %a } else { %a }
      %d = scf.if %is_second { update %b } else { %b }
      stablehlo.return %c, %d
    becomes
    %0 = stablehlo.while(%a = select %is_second, %y, %x)
      %c = scf.if %is_first { update %a } else { %a }
      %d = scf.if %is_second { update %c } else { %c }    which is %a on the second stage
      stablehlo.return %d

Where a stage makes a value anew, and does not update it, devices select that of their own stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build
from shard_dialect.ir.walk import operations, walk
from shard_dialect.model.sub_cluster import Place

SHARING = ("scf.for", "stablehlo.while")
"""The loops that may carry one value for several stages."""
_UPDATED = {
    "arith.select": 2,
    "stablehlo.dynamic_update_slice": 0,
    "stablehlo.select": 2,
    "tensor.insert_slice": 1,
}
"""By op that changes a part of a tensor, or all of it at times: the number of that operand."""
_BRANCHES = ("scf.index_switch", "stablehlo.case")
Member = tuple[int, Place]
"""The number of a value that a loop carries, and the place of its stage."""


def updated(value: ir.Value) -> ir.Value | None:
    """The tensor of which an op, or some of its branches, changes a part to make this one."""
    maker = value.owner
    if isinstance(maker, ir.Block):
        return None
    if maker.name in _UPDATED:
        return maker.operands[_UPDATED[maker.name]]
    if maker.name not in _BRANCHES:
        return None
    first, *others = (updated(each) or each for each in _yielded(maker, value.result_number))
    return first if all(each == first for each in others) else None


def share_carried(
    loop: ir.Operation, groups: Sequence[Sequence[Member]], is_of: Callable[[Place], ir.Value]
) -> None:
    """Let a loop carry one value for each group, in place.

    The values of a group have one type, and their stages no device in common. `is_of` writes
    whether this device is at a place.
    """
    if groups:
        sharing = _Sharing(loop, is_of)
        for group in groups:
            sharing.share(group)
        sharing.rebuild()


class _Sharing:
    def __init__(self, loop: ir.Operation, is_of: Callable[[Place], ir.Value]) -> None:
        self.loop, self.is_of = loop, is_of
        self.blocks = [region.blocks[0] for region in loop.regions]
        ops = operations(self.blocks[-1])
        self.order = {value: number for number, op in enumerate(ops) for value in op.results}
        self.end = ops[-1]
        self.count = len(loop.results)
        self.inits = list(loop.operands)
        self.kept: dict[int, int] = {}
        """By value that is carried no more: the one that stands for it."""

    def _at(self, number: int, values: Sequence[ir.Value]) -> int:
        """The place of a carried value among values of which they are the last."""
        return len(values) - self.count + number

    def _made(self, number: int) -> ir.Value:
        """What the body of the loop makes of a carried value."""
        return self.end.operands[self._at(number, self.end.operands)]

    def share(self, group: Sequence[Member]) -> None:
        """Let one value stand for those of the group."""
        (first, _), *others = group
        for block in self.blocks:
            arguments = list(block.arguments)
            whole = arguments[self._at(first, arguments)]
            for number, _ in others:
                arguments[self._at(number, arguments)].replace_all_uses_with(whole)
        with ir.InsertionPoint(self.loop), self.loop.location:
            init = self.inits[self._at(first, self.inits)]
            for number, place in others:
                init = self._selected(place, self.inits[self._at(number, self.inits)], init)
        with ir.InsertionPoint(self.end), self.end.location:
            made = self._joined(group, whole)
        self.kept |= dict.fromkeys([number for number, _ in others], first)
        self.end.operands[self._at(first, self.end.operands)] = made
        self.inits[self._at(first, self.inits)] = init

    def _joined(self, group: Sequence[Member], whole: ir.Value) -> ir.Value:
        """What each stage makes of `whole` on its own devices."""
        chains = [_updates_of(whole, self._made(number)) for number, _ in group]
        anew = [member for member, chain in zip(group, chains, strict=True) if chain is None]
        made = self._made(group[0][0]) if len(anew) == len(group) else whole
        # A stage may update its value again after others have updated theirs. In the order of the
        # body each update takes what the one before it leaves, which on the devices of its own
        # stage is the value that it took already.
        updates = [each for chain in chains for each in chain or ()]
        for each in sorted(updates, key=lambda update: self.order[update.result]):
            each.take(made)
            made = each.result
        for number, place in anew:
            made = self._selected(place, self._made(number), made)
        return made

    def _selected(self, place: Place, own: ir.Value, other: ir.Value) -> ir.Value:
        return other if _are_equal(own, other) else build.select(self.is_of(place), own, other)

    def rebuild(self) -> None:
        """Write the loop anew, without the values that are carried no more."""
        new = build.without_carried(self.loop, self.kept, self.inits)
        stays = [number for number in range(self.count) if number not in self.kept]
        for number, result in enumerate(self.loop.results):
            stands = self.kept.get(number, number)
            result.replace_all_uses_with(new.results[stays.index(stands)])
        self.loop.erase()


@dataclass(frozen=True)
class _Update:
    """A branch in which a stage updates a tensor, `kept`, that other devices keep as it is."""

    branch: ir.Operation
    kept: ir.Value
    result: ir.Value

    def take(self, value: ir.Value) -> None:
        """Let the branch update `value`, which comes before it, instead."""
        for op in walk(self.branch):
            for number, operand in enumerate(op.operands):
                if operand == self.kept:
                    op.operands[number] = value


def _updates_of(whole: ir.Value, made: ir.Value) -> list[_Update] | None:
    """The updates of `whole` that make another value; `None` if something else makes it."""
    found = []
    while made != whole:
        branch = made.owner
        if isinstance(branch, ir.Block) or branch.name != "scf.if":
            return None
        own, kept = _yielded(branch, list(branch.results).index(made))
        before = updated(own)
        if before is None or before != kept:
            return None
        found.append(_Update(branch.operation, kept, made))
        made = kept
    return found


def _are_equal(value: ir.Value, other: ir.Value) -> bool:
    """Whether the values are one, or equal constants.

    The zeros that loops begin with need no memory; what is selected of them does.
    """
    constant, its = build.constant_value(value), build.constant_value(other)
    return value == other or (constant is not None and its is not None and constant == its)


def _yielded(branch: ir.Operation, number: int) -> list[ir.Value]:
    """What the regions of an op yield for its result with a number."""
    return [operations(region.blocks[0])[-1].operands[number] for region in branch.regions]
