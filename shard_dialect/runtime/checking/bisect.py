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
compared. If no value differs, or values have no shardings, since the program is in the local form,
the values of the program of `--reference` tell which op was edited (`edited.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from shard_dialect.abi.lowered_program import Program, find_function
from shard_dialect.abi.tensor_types import Array
from shard_dialect.errors import Diagnostic, ShardError, note
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import error_at, silent
from shard_dialect.ir.function import (
    form_of,
    functions_of,
    refuse_form,
)
from shard_dialect.ir.mesh.annotation_ops import manual_computations
from shard_dialect.ir.reading.source import Source
from shard_dialect.passes.framework.pipeline import run_pipeline, steps_before
from shard_dialect.processes.to_parent import counted
from shard_dialect.runtime.checking.check import Compared, Expected, adds_narrow, compared
from shard_dialect.runtime.checking.edited import Values, by_judge, culprit, on_threads
from shard_dialect.runtime.checking.reference import Judge, Reference, judged_by
from shard_dialect.runtime.checking.tolerance import compare
from shard_dialect.runtime.checking.values_of_run import AT_ONCE, described, values_of, with_results
from shard_dialect.runtime.communicators.world import World
from shard_dialect.runtime.compile import local_program, parsed
from shard_dialect.runtime.dynamic_sizes import Sizes

_ADVICE = (
    ", where values no longer have shardings: give --bisect an earlier one, or of a local one the "
    "program that it was made of, as --reference"
)
_ANOTHER = "the reference is another program: without shardings they differ, too"
_NOWHERE = (
    "every value is one that the program of --reference has, too, as --spmd makes it: no op of "
    "the local form is to blame"
)
_TO_DISTRIBUTED = steps_before("partition")


@dataclass(frozen=True)
class Suspect:
    """A program that failed a check: its source, and its distributed form."""

    source: Source
    module: ir.Module
    entry: str
    sizes: Sizes
    by: Judge | None = None
    """The judge that runs unsharded programs."""
    of: Source | None = None
    """The program that it was made of, if it was edited."""

    @classmethod
    def read(
        cls,
        source: Source,
        entry: str,
        sizes: Sizes,
        by: Judge | None = None,
        of: Source | None = None,
    ) -> Suspect:
        """Raises a located `ShardError` for a program past the distributed form, or the local one.

        In the local form it is compared with the program `of`.
        """
        with source.file_locations():
            module, _ = parsed(source, entry, sizes)
            with silent():  # what they warn of was shown when the program was compiled
                run_pipeline(module, ",".join(_TO_DISTRIBUTED))
            function = find_function(module.operation, entry)
            if form_of(function) not in ("distributed", "local" if of else ""):
                raise refuse_form(function, _ADVICE)
            _refuse_manual(module.operation)
        return cls(source, module, entry, sizes, by, of)

    def error(
        self, reference: Reference | None, inputs: Sequence[Array], world: World, failure: str
    ) -> ShardError:
        """The error for a check that failed with `failure`, with the op that causes it.

        If no value differs, the process that has the reference, and speaks, finds out why.
        """
        with self.module.context, ir.Location.unknown(), self.source.file_locations(), silent():
            failed = note(failure)
            function = find_function(self.module.operation, self.entry)
            if self.of and form_of(function) == "local":
                found = self._edited(self.of, inputs, failed) if reference else None
                return _shared(found or ShardError(_NOWHERE, None, [failed]), world)
            count = len(values_of(find_function(self.module.operation, self.entry)))
            for start in counted(range(0, count, AT_ONCE), "groups of values", "--bisect"):
                numbers = range(start, min(start + AT_ONCE, count))
                difference = self._first_difference(numbers, inputs, world)
                if difference is not None:
                    number, message = difference
                    function = find_function(self.module.operation, self.entry)
                    value = ir.OpResult(values_of(function)[number])
                    return error_at(value.owner.location, f"{described(value)} {message}", failed)
            where = self._elsewhere(reference, inputs) if reference else failure
            found = self._edited(self.of, inputs, failed) if self.of and where == _ANOTHER else None
            return _shared(found or ShardError(where, None, [failed]), world)

    def _edited(self, of: Source, inputs: Sequence[Array], failed: Diagnostic) -> ShardError | None:
        """The error at the op that differs from the program `of`, in the same form."""
        is_local = form_of(find_function(self.module.operation, self.entry)) == "local"
        run = on_threads(inputs, self.entry) if is_local else None
        run = run or by_judge(inputs, self.entry, self.by)
        otherwise = on_threads(inputs, self.entry, pads_otherwise=True) if is_local else None
        pipeline = "" if is_local else "import,erase-sharding"
        module = self.module if is_local else parsed(self.source, self.entry, self.sizes)[0]
        edited = Values.of(self.source, module, self.entry, run, pipeline)
        with of.file_locations():
            make = local_program if is_local else parsed
            unedited = make(of, self.entry, self.sizes)[0]
            reference = Values.of(of, unedited, self.entry, run, pipeline, otherwise)
        return culprit(edited, reference, failed)

    def _first_difference(
        self, numbers: range, inputs: Sequence[Array], world: World
    ) -> tuple[int, str] | None:
        """The first value that differs on any device, by its index, and how."""
        partitioned, erased = (
            with_results(self.module, self.entry, numbers, pipeline)
            for pipeline in ("partition", "erase-sharding")
        )
        sharded = world.compile_local(partitioned, self.entry)
        unsharded = judged_by(erased.operation, self.entry, self.by)
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
                    return _ANOTHER
                return f"--{passes[-1]} makes another program: without shardings they differ, too"
        return (
            "every op's value is the unsharded program's where it is given as a result: the "
            "difference is made after the distributed form, by --partition or --lower"
        )


def _shared(error: ShardError, world: World) -> ShardError:
    """The error of the process that speaks, in every process, since any may show its own."""
    parts = [[each.message, each.location] for each in error.notes]
    own = [json.dumps([error.message, error.location, parts])] if world.speaks else []
    message, location, notes = json.loads(world.share(own)[0])
    return ShardError(message, location, [note(*each) for each in notes])


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
