"""Find which op of an edited program went wrong, beside the program that it was made of.

A user edits a program between two passes. Its values are compared with those of the program of
`--reference` in the same form, wherever they stand: an edit moves and adds ops, and a value that
is there, too, is right.

    reference                  edited
    %0 = stablehlo.dot         %0 = stablehlo.dot             is there, too
    %1 = stablehlo.all_reduce  %1 = stablehlo.tanh %0         is not: the first one behind result 0
    %2 = stablehlo.tanh %1     return %1
    return %2

From a wrong result the search goes back through values that the reference does not have. The
first of these, in the order of the text, is the op that is named, with what the reference does with
its operands. A program in the local form runs on threads, a device each, and its values are
shards; earlier forms run without their shardings, and their values are whole tensors.

Padding holds anything, and an edit may change what. So the reference runs once more with other
numbers in the padding of its arguments: what these change, but no result, is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shard_dialect.abi.lowered_program import Boundary, find_function
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import Diagnostic, ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, note_at
from shard_dialect.ir.function import returns_of
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Grid
from shard_dialect.processes.to_parent import counted
from shard_dialect.runtime.checking.reference import Judge, judged_by
from shard_dialect.runtime.checking.tolerance import own_error
from shard_dialect.runtime.checking.values_of_run import (
    AT_ONCE,
    described,
    values_of,
    with_results,
)
from shard_dialect.runtime.communicators.world import InProcess

Shards = Sequence[Array]
"""What each device has of a value."""
Run = Callable[[ir.Module], tuple[list[Shards], list[Shards]]]
"""Runs a program, and gives what devices have of each argument, and of each result."""


@dataclass(frozen=True)
class Values:
    """A program's values, its arguments first, and its results, and what devices have of each."""

    function: ir.Operation
    values: list[ir.Value]
    shards: list[Shards]
    results: list[Shards]
    source: Source
    otherwise: list[Shards]
    """The same of each value where padding holds other numbers."""

    @classmethod
    def of(
        cls,
        source: Source,
        module: ir.Module,
        entry: str,
        run: Run,
        pipeline: str,
        otherwise: Run | None = None,
    ) -> Values:
        """Run the program that was made of `source`, after `pipeline`, in groups of values.

        `otherwise` runs it with other numbers in the padding of arguments.
        """
        values, shards, results = cls._computed(module, entry, run, pipeline)
        found = shards
        if otherwise is not None:
            _, found, others = cls._computed(module, entry, otherwise, pipeline)
            if not all(map(_are_same, others, results)):
                found = shards  # what is in the padding is read
        return cls(find_function(module.operation, entry), values, shards, results, source, found)

    @staticmethod
    def _computed(
        module: ir.Module, entry: str, run: Run, pipeline: str
    ) -> tuple[list[ir.Value], list[Shards], list[Shards]]:
        """The values, and what devices have of each, and of each result."""
        function = find_function(module.operation, entry)
        values = values_of(function)
        computed: list[Shards] = []
        given: list[Shards] = []
        results: list[Shards] = []
        for start in counted(range(0, len(values) or 1, AT_ONCE), "groups of values", "--bisect"):
            numbers = range(start, min(start + AT_ONCE, len(values)))
            given, found = run(with_results(module, entry, numbers, pipeline))
            own = len(found) - len(numbers)
            results, computed = found[:own], computed + found[own:]
        return [*body(function).arguments, *values], [*given, *computed], results

    def names(self) -> dict[ir.Value, int]:
        """The number of each value."""
        return {value: number for number, value in enumerate(self.values)}

    def note(self, op: ir.Operation, message: str) -> Diagnostic:
        """A note at one of its ops."""
        with self.source.file_locations():
            return note_at(op.location, message)

    def readers(self, value: ir.Value) -> Iterator[ir.Operation]:
        """The ops of the function's block that read a value, or hold an op that does."""
        for op in operations(body(self.function)):
            if value in _read_by(op):
                yield op

    def names_of_readers(self, op: ir.Operation) -> set[str]:
        """The names of the ops that read what an op computes."""
        return {reader.name for value in op.results for reader in self.readers(value)}


def on_threads(inputs: Sequence[Array], entry: str, *, pads_otherwise: bool = False) -> Run:
    """Run a program in the local form, each device in a thread.

    Of its own results it gives what is no padding.
    """

    def run(module: ir.Module) -> tuple[list[Shards], list[Shards]]:
        executable = InProcess.compile_local(module, entry)
        program = executable.program
        world = InProcess(program.devices)
        shards = [program.scatter(inputs, rank) for rank in world.ranks]
        for rank in world.ranks if pads_otherwise else ():
            shards[rank] = [
                _padded_otherwise(each, shard, rank, program.grids)
                for each, shard in zip(program.arguments, shards[rank], strict=True)
            ]
        outputs = [
            [
                each.own(array, rank, program.grids)
                for each, array in zip(program.results, made, strict=True)
            ]
            for rank, made in zip(world.ranks, world.run(executable, shards), strict=True)
        ]
        return list(zip(*shards, strict=True)), list(zip(*outputs, strict=True))

    return run


def _padded_otherwise(
    boundary: Boundary, shard: Array, rank: int, grids: Mapping[str, Grid]
) -> Array:
    """A shard whose padding holds no zeros, but NaN, which spreads; a halo's own zeros are read."""
    if boundary.sharding is None or boundary.sharding.halos:
        return shard
    is_exact = shard.dtype.kind in "biu"
    drawn = np.random.default_rng(rank).integers(1, 5, shard.shape)
    other = np.asarray(drawn if is_exact else drawn * np.nan, shard.dtype)
    boundary.own(other, rank, grids)[...] = boundary.own(shard, rank, grids)
    return other


def by_judge(inputs: Sequence[Array], entry: str, by: Judge | None) -> Run:
    """Run an unsharded program: its values are on one device."""

    def run(module: ir.Module) -> tuple[list[Shards], list[Shards]]:
        outputs = judged_by(module.operation, entry, by).run(inputs)
        return [[each] for each in inputs], [[each] for each in outputs]

    return run


def culprit(edited: Values, reference: Values, failure: Diagnostic) -> ShardError | None:
    """The first op of the edited program that goes wrong; `None` if no result is another."""
    wrong = [
        number
        for number, (own, other) in enumerate(zip(edited.results, reference.results, strict=True))
        if not _are_same(own, other)
    ]
    if not wrong:
        return None
    found = _Search(edited, reference, {})
    returned = returns_of(edited.function)[0].operands[wrong[0]]
    expected = returns_of(reference.function)[0].operands[wrong[0]]
    first = found.first_unknown(returned)
    if first is not None:
        return found.accused(first, wrong[0], failure)
    notes = (
        [reference.note(expected.owner, f"it is {described(expected)}")]
        if _is_result(expected)
        else []
    )
    if not _is_result(returned):
        end = returns_of(edited.function)[0]
        message = f"result {wrong[0]} is an argument or a constant, and there it is another value"
        return error_at(end.location, message, *notes, failure)
    message = f"{described(returned)} is right, but is not what result {wrong[0]} is to be"
    return error_at(returned.owner.location, message, *notes, failure)


@dataclass(frozen=True)
class _Search:
    edited: Values
    reference: Values
    known: dict[int, int | None]
    """For values of the edited program that were looked at, the equal one of the reference."""

    def equal_to(self, number: int) -> int | None:
        """The first value of the reference that is the edited program's value `number`."""
        if number not in self.known:
            own = self.edited.shards[number]
            others = enumerate(zip(self.reference.shards, self.reference.otherwise, strict=True))
            self.known[number] = next((at for at, it in others if _are_same(own, *it)), None)
        return self.known[number]

    def first_unknown(self, value: ir.Value) -> int | None:
        """The first value that the reference does not have, of those on the way to `value`."""
        numbers = self.edited.names()
        waiting, seen, unknown = [value], {value}, []
        while waiting:
            each = waiting.pop()
            number = numbers.get(each)
            if not _is_result(each) or (number is not None and self.equal_to(number) is not None):
                continue
            unknown += [] if number is None else [number]
            more = [read for read in _read_by(each.owner) if read not in seen]
            seen.update(more)
            waiting += more
        return min(unknown, default=None)

    def accused(self, number: int, result: int, failure: Diagnostic) -> ShardError:
        """The error at the op of a value, with what the reference does with its operands."""
        value = self.edited.values[number]
        counterparts = self._counterparts(value)
        read_by = self.edited.names_of_readers(value.owner)
        same = [op for op in counterparts if op.name == value.owner.name]
        in_place = [op for op in counterparts if self.reference.names_of_readers(op) & read_by]
        own, numbers = self.edited.shards[number], self.reference.names()
        for op in [*same, *in_place]:
            for other in filter(numbers.__contains__, op.results):
                shards = self.reference.shards[numbers[other]]
                if _are_alike(own, shards):
                    otherwise = self.reference.otherwise[numbers[other]]
                    message = (
                        f"{described(value)} is another than that of '{op.name}' op in the program "
                        f"of --reference: {_difference(own, shards, otherwise)}"
                    )
                    return error_at(value.owner.location, message, self._there(op), failure)
        message = (
            f"{described(value)} is no value of the program of --reference, and result {result} "
            "depends on it"
        )
        notes = [self._there(op) for op in counterparts[:3]]
        return error_at(value.owner.location, message, *notes, failure)

    def _there(self, op: ir.Operation) -> Diagnostic:
        return self.reference.note(op, f"there, the same goes to '{op.name}' op")

    def _counterparts(self, value: ir.Value) -> list[ir.Operation]:
        """The ops of the reference that read what the op of `value` reads, most of it first."""
        numbers = self.edited.names()
        readers: dict[ir.Operation, int] = {}
        for operand in _read_by(value.owner):
            equal = self.equal_to(numbers[operand]) if operand in numbers else None
            if equal is None:
                continue
            for op in self.reference.readers(self.reference.values[equal]):
                readers[op] = readers.get(op, 0) + 1
        return sorted(readers, key=lambda op: -readers[op])


def _is_result(value: ir.Value) -> bool:
    return isinstance(value.owner, (ir.Operation, ir.OpView))


def _read_by(op: ir.Operation) -> list[ir.Value]:
    """What an op reads, also by ops inside of it."""
    ops = (op, *walk(op.operation))
    return list(dict.fromkeys(operand for each in ops for operand in each.operands))


def _are_alike(own: Shards, other: Shards) -> bool:
    """Whether all devices have arrays of one shape and type."""
    types = [[(each.shape, each.dtype) for each in shards] for shards in (own, other)]
    return types[0] == types[1]


def _are_same(own: Shards, other: Shards, otherwise: Shards | None = None) -> bool:
    """Whether all devices have the same, up to rounding, but for what is not so `otherwise`."""
    if not _are_alike(own, other):
        return False
    if otherwise is None or otherwise is other:
        return all(map(_is_same, own, other))
    kept = [_equal(*each) for each in zip(other, otherwise, strict=True)]
    pairs = zip(own, other, kept, strict=True)
    return any(each.any() for each in kept) and all(_is_same(a[at], b[at]) for a, b, at in pairs)


def _equal(one: Array, other: Array) -> Array:
    """Where two arrays are equal, or both not a number."""
    found: Array = (one == other) | ((one != one) & (other != other))
    return found


def _is_same(own: Array, other: Array) -> bool:
    if np.array_equal(own, other):
        return True
    is_float = own.dtype.kind not in "biu"
    return is_float and not own_error(own, other)[0]


def _difference(own: Shards, other: Shards, otherwise: Shards) -> str:
    """The largest difference of two values, where they are compared."""
    worst = ("", -1.0)
    for device, (mine, expected, changed) in enumerate(zip(own, other, otherwise, strict=True)):
        if not mine.size:
            continue
        with np.errstate(all="ignore"):
            wide = [np.asarray(each, np.complex128) for each in (mine, expected)]
            apart = np.nan_to_num(np.abs(wide[0] - wide[1]), nan=np.inf)
            apart = np.where(_equal(expected, changed), apart, 0)
        at = np.unravel_index(int(np.argmax(apart)), mine.shape)
        if apart[at] > worst[1]:
            place = f"on device {device} at {[int(each) for each in at]}"
            worst = (f"{place} is {mine[at]}, there {expected[at]}", float(apart[at]))
    return worst[0]
