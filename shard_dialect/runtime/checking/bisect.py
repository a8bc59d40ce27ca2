"""Find where a sharded program goes wrong: the first op whose value differs on the devices.

    %1 = "mesh.collective_permute"(%0) ... : (tensor<..., #mesh.shard<...>>) -> ...
    %2 = math.exp %1
    return %2
      becomes
    return %2, %1, %2

In the distributed form each value's type has its sharding, so that each value can be returned:
halos cropped, partial values reduced. The program runs on the devices, and once more with its
shardings erased, and the values are compared in the order of the text. A difference inside of a
loop, branch or callee shows at the op that holds or calls it. Constants and scalars are not
compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shard_dialect.abi.lowered_program import Program, find_function
from shard_dialect.abi.tensor_types import Array, has_numpy_type
from shard_dialect.collectives import AllReduce
from shard_dialect.errors import Diagnostic, ShardError
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.building import build, reductions
from shard_dialect.ir.diagnostics import error_at, silent
from shard_dialect.ir.function import (
    boundary,
    form_of,
    functions_of,
    refuse_form,
    returns_of,
    set_boundary,
    update_type,
)
from shard_dialect.ir.mesh.annotation_ops import manual_computations
from shard_dialect.ir.mesh.mesh_collectives import write_steps
from shard_dialect.ir.mesh.mesh_dialect import UPDATE_HALO
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.passes.framework.pipeline import run_pipeline, steps_before
from shard_dialect.processes.progress import counted
from shard_dialect.runtime.checking.check import Compared, Expected, adds_narrow, compared
from shard_dialect.runtime.checking.reference import Judge, Reference, judged_by
from shard_dialect.runtime.checking.tolerance import compare
from shard_dialect.runtime.communicators.world import World
from shard_dialect.runtime.compile import parsed
from shard_dialect.runtime.dynamic_sizes import Sizes
from shard_dialect.runtime.local_programs import keep_reached

_TO_DISTRIBUTED = steps_before("partition", "spmd")
_AT_ONCE = 128
"""The number of values that one run returns: later ones need not be computed or kept."""
_UNWRITTEN = ("bufferization.alloc_tensor", "tensor.empty")


@dataclass(frozen=True)
class Suspect:
    """A program that failed a check: its source, and its distributed form."""

    source: Source
    module: ir.Module
    entry: str
    sizes: Sizes
    by: Judge | None = None
    """The judge that runs unsharded programs."""

    @classmethod
    def read(cls, source: Source, entry: str, sizes: Sizes, by: Judge | None = None) -> Suspect:
        """Raises a located `ShardError` for a program that is past the distributed form."""
        with source.file_locations():
            module, _ = parsed(source, entry, sizes)
            with silent():  # what they warn of was shown when the program was compiled
                run_pipeline(module, ",".join(_TO_DISTRIBUTED))
            function = find_function(module.operation, entry)
            if form_of(function) != "distributed":
                advice = ", where values no longer have shardings: give --bisect an earlier one"
                raise refuse_form(function, advice)
            _refuse_manual(module.operation)
        return cls(source, module, entry, sizes, by)

    def error(
        self, reference: Reference | None, inputs: Sequence[Array], world: World, failure: str
    ) -> ShardError:
        """The error for a check that failed with `failure`, with the op that causes it.

        If no value differs, the process that has the reference, and speaks, reports that.
        """
        with self.module.context, ir.Location.unknown(), self.source.file_locations(), silent():
            note = Diagnostic("note", failure)
            count = len(_values(find_function(self.module.operation, self.entry)))
            for start in counted(range(0, count, _AT_ONCE), "groups of values", "--bisect"):
                numbers = range(start, min(start + _AT_ONCE, count))
                difference = self._first_difference(numbers, inputs, world)
                if difference is not None:
                    number, message = difference
                    function = find_function(self.module.operation, self.entry)
                    value = ir.OpResult(_values(function)[number])
                    return error_at(value.owner.location, f"{_described(value)} {message}", note)
            where = self._elsewhere(reference, inputs) if reference else failure
            return ShardError(where, None, [note])

    def _first_difference(
        self, numbers: range, inputs: Sequence[Array], world: World
    ) -> tuple[int, str] | None:
        """The first value that differs on any device, by its index, and how."""
        sharded = world.compile_local(self._with_results(numbers, "partition"), self.entry)
        unsharded = judged_by(
            self._with_results(numbers, "erase-sharding").operation, self.entry, self.by
        )
        program = sharded.program
        expected = _expected(unsharded, inputs, program)
        shards = [program.scatter(inputs, rank) for rank in world.ranks]
        outputs = world.run(sharded, shards)
        own = len(program.results) - len(numbers)
        wrong: dict[int, Compared] = {}
        for each in compared(program, expected, world.ranks, outputs):
            if not each.difference.passed and each.number >= own:
                wrong.setdefault(each.number, each)
        # Devices may be in other processes: all need the same first index.
        firsts = [int(text) for text in world.share([str(min(wrong))] if wrong else [])]
        if not firsts:
            return None
        first = min(firsts)
        messages = world.share([str(wrong[first])] if first in wrong else [])
        return numbers[first - own], messages[0]

    def _with_results(self, numbers: range, pipeline: str) -> ir.Module:
        """The program after `pipeline`, with the values numbered `places` as further results."""
        module = ir.Module.parse(self.module.operation.get_asm(enable_debug_info=True))
        keep_reached(module.operation, self.entry)  # callers have its old type
        function = find_function(module.operation, self.entry)
        shardings = Shardings.of(module.operation)
        _add_results(function, [_values(function)[number_] for number_ in numbers], shardings)
        _write_all(module.operation, shardings)
        run_pipeline(module, pipeline)
        return module

    def _elsewhere(self, reference: Reference, inputs: Sequence[Array]) -> str:
        """The report if each value is right: a rewriting pass may be wrong."""
        expected = _expected(reference, inputs)
        for count in range(len(_TO_DISTRIBUTED) + 1):
            module, _ = parsed(self.source, self.entry, self.sizes)
            passes = ("import", *_TO_DISTRIBUTED[:count])
            run_pipeline(module, ",".join([*passes, "erase-sharding"]))
            outputs = judged_by(module.operation, self.entry, self.by).run(inputs)
            for number, output in enumerate(outputs):
                if compare(output, expected.results[number], expected.allowed[number]).passed:
                    continue
                if not count:
                    return "the reference is another program: without shardings they differ, too"
                return f"--{passes[-1]} makes another program: without shardings they differ, too"
        return (
            "every op's value is the unsharded program's where it is given as a result: the "
            "difference is made after the distributed form, by --partition or --lower"
        )


def _expected(
    reference: Reference, inputs: Sequence[Array], program: Program | None = None
) -> Expected:
    """What a check that fails has allowed; of whole tensors without `program`."""
    narrow_sums = program is None or adds_narrow(program)
    return Expected.of(reference, inputs, narrow_sums=narrow_sums).as_inexact_as(reference, inputs)[
        0
    ]


def _refuse_manual(module: ir.Operation) -> None:
    """Raise for a program with manual computations, which has no unsharded program."""
    for function in functions_of(module):
        for op in manual_computations(function):
            raise error_at(
                op.location,
                "a manual computation: what values before and after it are on "
                "whole tensors is not known to --bisect",
            )


def _described(value: ir.OpResult) -> str:
    op = value.owner
    which = f"result {value.result_number} of " if len(op.results) > 1 else "the result of "
    return f"{which}'{op.name}' op"


def _values(function: ir.Operation) -> list[ir.Value]:
    """The tensors that ops of the first block define, in order, if they can be returned."""
    return [
        result
        for op in operations(body(function))
        if not build.is_constant(op) and op.name not in _UNWRITTEN
        for result in op.results
        if _can_be_result(result.type)
    ]


def _can_be_result(type_: ir.Type) -> bool:
    if not isinstance(type_, ir.RankedTensorType) or not type_.has_static_shape:
        return False
    return has_numpy_type(type_.element_type)


def _add_results(function: ir.Operation, values: Sequence[ir.Value], shardings: Shardings) -> None:
    """Return `values` as further results, reduced and without halos."""
    last = operations(body(function))[-1]
    with ir.InsertionPoint(last), last.location:
        added = [_settled(value, shardings) for value in values]
    results = boundary(function, "res_attrs") + [{} for _ in values]
    for end in returns_of(function):
        with ir.InsertionPoint(end), end.location:
            build.create("func.return", [], [*end.operands, *added])
        end.erase()
    update_type(function)
    set_boundary(function, "res_attrs", results)


def _settled(value: ir.Value, shardings: Shardings) -> ir.Value:
    now = shardings.of_type(value.type)
    if now is not None and now.halos:
        now = replace(now, halos=(), fill="sum")
        value = build.create(UPDATE_HALO, [shardings.typed(value.type, now)], [value]).results[0]
    if now is not None and now.partial:
        value = write_steps([AllReduce(now.partial, now.reduction)], value, now, shardings)
    return value


def _write_all(module: ir.Operation, shardings: Shardings) -> None:
    """Initialize every tensor: uninitialized elements differ from device to device."""
    for op in walk(module):
        if op.name not in _UNWRITTEN or op.operands or not _can_be_result(op.results[0].type):
            continue
        type_ = op.results[0].type
        sharding = shardings.of_type(type_)
        reduction = sharding.reduction if sharding is not None and sharding.partial else "sum"
        with ir.InsertionPoint(op), op.location:
            constant = reductions.identity_tensor(reduction, type_)
        op.results[0].replace_all_uses_with(constant)
        op.erase()
