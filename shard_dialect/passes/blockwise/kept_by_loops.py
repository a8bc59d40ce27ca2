"""Compute again, in the loop of a backward pass, what that of the forward pass has kept of scores.

    %s, %q = while ... {                       the scores of each layer, and the queries
      %e = dot_general %query, %key
      %s = dynamic_update_slice %s, %e, %i
      %q = dynamic_update_slice %q, %query, %i ...
    }
    while ... {
      %e = dynamic_slice %s, %j        ->      %query = dynamic_slice %q, %j ...
    }                                          %e = dot_general %query, %key

A loop that counts from 0 to the rows of a stack writes row i in turn i. So each row of one stack
can be computed from those of others with the same number, and from what the loop does not change.
The stack of scores is then neither written nor carried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.building.build import (
    copy_along,
    is_constant,
    is_used,
    replace_op,
    replace_values,
    splat_value,
    without_carried,
)
from shard_dialect.ir.reading.constants import counter_of
from shard_dialect.ir.walk import maker_of, operations, walk
from shard_dialect.ops import rule_of

_WHILE = "stablehlo.while"
_LONGEST = 64
"""The most ops that are computed again for a row."""


def compute_kept_again(function: ir.Operation, is_large: Callable[[ir.Type], bool]) -> None:
    """Compute the large rows that loops keep for other loops where these read them."""
    while any(_compute_again(op, is_large) for op in walk(function) if op.name == _WHILE):
        pass  # the loops are others now


def _compute_again(op: ir.Operation, is_large: Callable[[ir.Type], bool]) -> bool:
    """Compute again what this loop keeps; whether there was any."""
    loop = _Loop.of(op)
    kept = [each for each in loop.stacks if is_large(each.row.type)] if loop else []
    again = {each.number for each in kept if loop and loop.compute_again(each, kept)}
    if again:
        _drop_carried(op, again)
    return bool(again)


@dataclass(frozen=True)
class _Stack:
    """A tensor that a loop carries, and writes one row of in each turn."""

    number: int
    """Of the loop's operand, argument and result."""
    update: ir.Operation

    @property
    def row(self) -> ir.Value:
        """The row, whose first dimension has size 1."""
        value: ir.Value = self.update.operands[1]
        return value


@dataclass(frozen=True)
class _Loop:
    """A loop that counts the rows of the stacks that it writes."""

    op: ir.Operation
    body: ir.Block
    end: ir.Operation
    stacks: tuple[_Stack, ...]

    @classmethod
    def of(cls, op: ir.Operation) -> _Loop | None:
        condition, body = (region.blocks[0] for region in op.regions)
        counter = counter_of(op)
        if counter is None or counter.first != 0 or counter.step != 1:
            return None
        *_, end = operations(body)
        stacks = []
        for number, (argument, value) in enumerate(zip(body.arguments, end.operands, strict=True)):
            update = maker_of(value, "stablehlo.dynamic_update_slice")
            if update is None or update.operands[0] != argument:
                continue
            uses = [argument.uses, update.results[0].uses, condition.arguments[number].uses]
            if [len(list(each)) for each in uses] != [1, 1, 0]:
                continue
            _, row, turn, *others = update.operands
            sizes, rows = list(argument.type.shape), list(row.type.shape)
            is_row = sizes[0] == counter.trips and rows == [1, *sizes[1:]]
            if is_row and turn == body.arguments[counter.place] and all(map(_is_zero, others)):
                stacks.append(_Stack(number, update))
        return cls(op, body, end, tuple(stacks))

    def compute_again(self, stack: _Stack, kept: Sequence[_Stack]) -> bool:
        """Compute the rows where other loops read them; whether all who read the stack do."""
        places = [_slices_of(use) for use in self.op.results[stack.number].uses]
        chain = self._chain(stack.row, kept)
        if not places or None in places or chain is None:
            return False
        slices = [each for found in places if found for each in found]
        known = [self._known(each, chain) for each in slices]
        if None in known:
            return False
        for each, values in zip(slices, known, strict=True):
            assert values is not None, "checked above"
            with ir.InsertionPoint(each):
                for op in chain.ops:
                    copy_along(op, values)
            replace_op(each, values[stack.row])
        return True

    def _chain(self, row: ir.Value, kept: Sequence[_Stack]) -> _Chain | None:
        """How a row is computed from those of the stacks that are not among `kept`."""
        rows = {}
        for stack in self.stacks:
            if stack not in kept:
                rows[stack.row] = stack
                source = _reshaped(stack.row)
                if source is not None:
                    rows.setdefault(source, stack)
        used: dict[ir.Value, _Stack] = {}
        ops: dict[ir.Value, ir.Operation] = {}
        unchanged: dict[ir.Value, int] = {}
        todo = [row]
        while todo:
            value = todo.pop()
            if value in rows:
                used[value] = rows[value]
            elif value in self.body.arguments:
                unchanged[value] = value.arg_number
            elif not isinstance(value.owner, ir.Block) and value.owner.operation.block == self.body:
                ops[value] = value.owner.operation
                todo += [each for each in ops[value].operands if each not in ops]
        is_short = len(ops) <= _LONGEST and all(map(_may_repeat, ops.values()))
        stay = all(self.end.operands[number] == value for value, number in unchanged.items())
        if not is_short or not stay:
            return None
        ordered = [op for op in operations(self.body) if op.results and op.results[0] in ops]
        return _Chain(tuple(ordered), used, unchanged)

    def _known(self, place: ir.Operation, chain: _Chain) -> dict[ir.Value, ir.Value] | None:
        """The values that a chain begins with, at a place that reads a row; `None` if one lacks."""
        reader = place.block
        around = reader.owner.operation
        carried: dict[ir.Value, ir.Value] = {}
        *_, end = operations(reader)
        for argument, operand in zip(reader.arguments, around.operands, strict=True):
            if end.operands[argument.arg_number] == argument:
                carried.setdefault(operand, argument)
        known: dict[ir.Value, ir.Value] = {}
        with ir.InsertionPoint(place), place.location:
            for value, number in chain.unchanged.items():
                operand = self.op.operands[number]
                known[value] = carried.get(operand, operand)
            for value, stack in chain.rows.items():
                tensor = carried.get(self.op.results[stack.number])
                if tensor is None:
                    return None
                starts = _starts(place, tensor.type.rank)
                row = hlo.dynamic_slice(tensor, starts, [1, *tensor.type.shape[1:]])
                known[value] = hlo.reshape(row, value.type.shape)
        return known


@dataclass(frozen=True)
class _Chain:
    """The ops that compute a row, in order, from rows of stacks and arguments that stay."""

    ops: tuple[ir.Operation, ...]
    rows: dict[ir.Value, _Stack]
    unchanged: dict[ir.Value, int]


def _may_repeat(op: ir.Operation) -> bool:
    return len(op.results) == 1 and (is_constant(op) or rule_of(op) is not None)


def _starts(place: ir.Operation, rank: int) -> list[ir.Value]:
    """The places of a row: that of the slice at `place`, and zeros."""
    _, turn, *others = place.operands
    if len(others) >= rank - 1:
        return [turn, *others[: rank - 1]]
    zero = hlo.number(0, turn.type)
    return [turn, *[zero] * (rank - 1)]


def _slices_of(use: ir.OpOperand) -> list[ir.Operation] | None:
    """The ops by which a loop reads rows of a stack; `None` where something else is done to it."""
    loop, number = use.owner.operation, use.operand_number
    if loop.name != _WHILE or is_used(loop.results[number]):
        return None
    condition, body = (region.blocks[0] for region in loop.regions)
    *_, end = operations(body)
    stack = body.arguments[number]
    if end.operands[number] != stack or is_used(condition.arguments[number]):
        return None
    readers = [each.owner.operation for each in stack.uses if each.owner.operation != end]
    is_alone = len(list(stack.uses)) == len(readers) + 1
    return readers if is_alone and all(_is_row(each, stack) for each in readers) else None


def _is_row(op: ir.Operation, stack: ir.Value) -> bool:
    if op.name != "stablehlo.dynamic_slice" or op.operands[0] != stack:
        return False
    sizes = list(op.results[0].type.shape)
    is_whole = sizes == [1, *stack.type.shape[1:]] and op.block == stack.owner
    return is_whole and all(map(_is_zero, list(op.operands)[2:]))


def _reshaped(row: ir.Value) -> ir.Value | None:
    """The value whose elements, in their order, a row has behind a dimension of size 1."""
    for name in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
        op = maker_of(row, name)
        if op is not None and prod(op.operands[0].type.shape) == prod(row.type.shape):
            dims = op.attributes.get("broadcast_dimensions")
            if dims is None or list(dims) == sorted(dims):
                source: ir.Value = op.operands[0]
                return source
    return None


def _is_zero(value: ir.Value) -> bool:
    known = splat_value(value)
    return known is not None and known.value == 0


def _drop_carried(loop: ir.Operation, numbers: set[int]) -> None:
    """Let neither this loop nor those that got them from it carry these stacks."""
    for number in numbers:
        while uses := list(loop.results[number].uses):
            _without(uses[0].owner.operation, {uses[0].operand_number})
    _without(loop, numbers)


def _without(loop: ir.Operation, numbers: set[int]) -> None:
    """Replace a loop by one that does not carry these of its operands, which it only passes on."""
    body = loop.regions[1].blocks[0]
    *_, end = operations(body)
    for number in numbers:
        value, end.operands[number] = end.operands[number], body.arguments[number]
        if not isinstance(value.owner, ir.Block):
            value.owner.operation.erase()
    inits = [loop.operands[number] for number in sorted(numbers)]
    new = without_carried(loop, numbers, list(loop.operands))
    kept = (result for number, result in enumerate(loop.results) if number not in numbers)
    replace_values(kept, new.results)
    loop.erase()
    for value in inits:
        is_made = not isinstance(value.owner, ir.Block)
        if is_made and value.owner.name != _WHILE and not is_used(value):
            value.owner.operation.erase()
