"""`python -m shard_dialect.opt`: run passes over a module, as `mlir-opt` does.

    python -m shard_dialect.opt in.mlir --spmd
    python -m shard_dialect.opt in.mlir --propagate --canonicalize --materialize
    python -m shard_dialect.opt in.mlir --pass-pipeline='builtin.module(propagate,cse)'

Any pass of ours or of upstream's is a flag; they run in the order given. The options of a pass
stand behind its name: --materialize=strict=true, --pass-pipeline='materialize{strict=true}'.
"""

from __future__ import annotations

from shard_dialect.processes import startup

startup.begin(__name__)

import argparse
import gc
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

from shard_dialect import plugins
from shard_dialect.cli.flags import complete_opt, parse_arguments, unknown_flag
from shard_dialect.cli.printing import STDOUT, guarded, write_output, write_to
from shard_dialect.errors import ShardError, cannot, note, say
from shard_dialect.processes.atomic_files import Output
from shard_dialect.processes.supervise import supervised
from shard_dialect.processes.to_parent import doing, is_watched

if TYPE_CHECKING:
    from shard_dialect.ir.bindings import ir
    from shard_dialect.ir.reading.source import Source
    from shard_dialect.passes.framework.instruments import Instruments
    from shard_dialect.passes.framework.pipeline import Pipeline
    from shard_dialect.proof.prove import Proof
    from shard_dialect.runtime.confirmed_proof import ProofOfEach, Unsharded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` and return the exit status; by default the command line's, watched."""
    if arguments is None:
        complete_opt(__doc__ or "")
        searches = any(each.lstrip("-").startswith("auto") for each in sys.argv[1:])
        main_program = partial(guarded, partial(_main, sys.argv[1:]))
        return supervised(main_program, stops_by_itself=searches)
    return guarded(lambda: _main(arguments))


def _header_of(object_file: str) -> str:
    return object_file.removesuffix("o") + "h"


def _check_header(path: str) -> None:
    """Raise `ShardError` if a file that the user has not named is no header of an object."""
    from shard_dialect.backends.cpu.object_file import HEADER_START

    try:
        with open(path, "rb") as file:
            start = file.read(len(HEADER_START))
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot("read", path, error) from None
    if start != HEADER_START.encode():
        raise ShardError(
            f"'{path}' is no header of an object, and would be written over: give -o "
            "another name, or remove it"
        )


def _main(arguments: Sequence[str]) -> int:
    gc.set_threshold(50_000)  # a short run makes little garbage; looking for it takes 5 ms
    options, pipeline = parse_arguments(arguments, __doc__ or "")
    if options.output != STDOUT:
        Output(options.output).check(plugins.files(options.load_plugin))
    if options.emit_object:
        if not options.output.endswith(".o") or options.split_input_file:
            raise ShardError("--emit-object writes FILE.o and FILE.h of one module: give -o FILE.o")
        header = _header_of(options.output)
        Output(header).check([options.input, *plugins.files(options.load_plugin)])
        _check_header(header)
    if options.crash_reproducer:
        others = (options.input, options.output, *plugins.files(options.load_plugin))
        Output(options.crash_reproducer).check(others)
    _import_bindings()
    plugins.load(options.load_plugin)
    if options.show_dialects:
        from shard_dialect.ir.context import available_dialects

        write_output(f"Available Dialects: {','.join(available_dialects())}\n")
        return 0
    return _Driver(options, pipeline, _instruments(options)).run()


def _import_bindings() -> None:
    """Import the bindings without numpy and op classes: it saves a third of a short run's time."""
    # The bindings import numpy if it is there, for four builders of attributes that only op classes
    # use. This takes 50 ms, and starts a thread per core. Plugins may import it later.
    is_first = "numpy" not in sys.modules
    if is_first:
        sys.modules["numpy"] = cast("ModuleType", None)
    try:
        from shard_dialect.ir.bindings import without_op_classes
    finally:
        if is_first:
            del sys.modules["numpy"]
    without_op_classes()
    if is_watched():
        from shard_dialect.ir.fatal_errors import report_fatal_errors

        report_fatal_errors(say)


def _instruments(options: argparse.Namespace) -> Instruments:
    from shard_dialect.passes.framework.instruments import Instruments

    given = vars(options)
    named = {each.name: given[each.name] for each in fields(Instruments) if each.name in given}
    shown = options.statistics_display if options.statistics else None
    return Instruments(**named | {"statistics": shown})


_CHOOSES = re.compile(r"(?<![\w-])(?:import|export-\w+|annotations-to-\w+)(?![\w-])")
"""A pass by which a user chooses the vocabulary of the output."""


@dataclass(frozen=True)
class _Driver:
    options: argparse.Namespace
    pipeline: str
    instruments: Instruments

    def run(self) -> int:
        from shard_dialect.ir.reading.source import Source

        path, marker = self.options.input, self.options.split_input_file
        sources = Source.read_split_input(path, marker) if marker else [Source.read(path)]
        if self.options.dump_pass_pipeline:
            self._dump_pipeline()
        outputs, status = [], 0
        for source in sources:
            try:
                outputs.append(self._process(source))
            except ShardError as error:
                if not marker:
                    raise
                say(error)
                status = 1
        separator = f"{self.options.output_split_marker}\n".encode()
        if not status or self.options.output == STDOUT:  # a file is whole, or stays as it was
            write_to(self.options.output, separator.join(filter(None, outputs)))
        return status

    def _process(self, source: Source) -> bytes:
        """The output for one module of the file."""
        from shard_dialect.ir.context import make_context
        from shard_dialect.passes.vocabularies.as_written import printed_as

        text, instruments = self.pipeline, self.instruments
        if self.options.run_reproducer:
            from shard_dialect.cli.reproducers import read_reproducer

            source, reproducer = read_reproducer(source)
            text = reproducer.pipeline
            instruments = replace(instruments, verify_each=reproducer.verify_each)
        with make_context(self.options.allow_unregistered_dialect), source.file_locations():
            if instruments.explain_sharding:
                numbered = printed_as(source.file_text or "")
                what = _by_line(instruments.explain_sharding, source)
                instruments = replace(
                    instruments, explain_printed_as=numbered, explain_sharding=what
                )
            of_each = self._proof_of_each()
            if of_each is not None:
                instruments = replace(instruments, seen=of_each.at)
            printed = partial(self._text, source=source)
            pipeline = self._build(text, replace(instruments, printed=printed))
            which = self.options.verify_diagnostics
            run = partial(self._transform, source, pipeline, text, of_each)
            if which is None:
                return run()
            from shard_dialect.cli.verify_options import verify_diagnostics

            return verify_diagnostics(source, which, run) or b""

    def _build(self, text: str, instruments: Instruments) -> Pipeline:
        from shard_dialect.passes.framework.pipeline import (
            Pipeline,
            UnknownPassError,
            likely_passes,
        )

        try:
            return Pipeline.build(text, instruments)
        except UnknownPassError as error:
            if error.name in self.options.pass_flags:
                raise unknown_flag(error.name, likely_passes()) from None
            raise

    def _transform(
        self, source: Source, pipeline: Pipeline, text: str, of_each: ProofOfEach | None
    ) -> bytes:
        module = source.parse()
        unsharded = self._unsharded(source, module, of_each)
        if self.options.mutate:
            from shard_dialect.search.mutations import mutated

            module = mutated(module, self.options.mutate, self.options.entry)
        if self.options.list_mutations:
            return self._mutations(module)
        if self.options.auto is not None:
            doing("the search")
            module = self._annotated(module)
        if self.options.verify_roundtrip:
            from shard_dialect.cli.verify_options import verify_roundtrip

            verify_roundtrip(module)
            self._run(pipeline, text, module)
            verify_roundtrip(module)
        else:
            self._run(pipeline, text, module)
        proof = None if unsharded is None else self._proof(unsharded, module)
        if self.options.report:
            doing("the report")
            self._report(module)
        doing("the printer")
        made = self._printed(module, source)
        if unsharded is not None and proof is not None and self.options.emit_python:
            doing("the proof of the text")
            self._prove_text(unsharded, proof, made.decode())
        return made

    def _mutations(self, module: ir.Module) -> bytes:
        from shard_dialect.search.mutations import mutations

        doing("the mutations")
        found = mutations(module, self.options.entry)
        return json.dumps([each.as_json() for each in found], indent=2).encode() + b"\n"

    def _annotated(self, module: ir.Module) -> ir.Module:
        """The module with the annotations that a search finds; says what it has found."""
        from shard_dialect.search.auto import AutoOptions, auto

        result = auto(module, AutoOptions.read(self.options.auto), self.options.entry)
        say(note(f"--auto: {result}"))
        return result.module

    def _proof_of_each(self) -> ProofOfEach | None:
        if not self.options.prove_each:
            return None
        from shard_dialect.runtime.confirmed_proof import ProofOfEach

        return ProofOfEach(self.options.entry)

    def _unsharded(
        self, source: Source, module: ir.Module, of_each: ProofOfEach | None
    ) -> Unsharded | None:
        """The program that the output is compared with, if it is; read before passes change it."""
        path = self.options.prove
        if path is None and of_each is None:
            return None
        from shard_dialect.runtime.confirmed_proof import Unsharded

        if of_each is not None:
            of_each.unsharded = Unsharded.of(module, self.options.entry, source)
        if path:
            return Unsharded.read(path, self.options.entry)
        return None if path is None else Unsharded.of(module, self.options.entry, source)

    def _proof(self, unsharded: Unsharded, module: ir.Module) -> Proof:
        """Whether the devices compute the unsharded program. Raises `ShardError` if not."""
        from shard_dialect.runtime.confirmed_proof import confirmed_proof, told

        doing("the proof")
        proof = confirmed_proof(unsharded, module, self.options.entry)
        if proof.answer == "refuted" or not self.options.emit_python:
            say(told(proof))
        return proof

    def _prove_text(self, unsharded: Unsharded, of_module: Proof, text: str) -> None:
        """Say the same of a program in Python. Raises `ShardError` if not."""
        from shard_dialect.runtime.confirmed_proof import proof_of_emitted, told

        path, entry = self.options.output, self.options.entry
        name = "<stdout>" if path == STDOUT else path
        say(told(proof_of_emitted(unsharded, text, name, of_module, entry)))

    def _report(self, module: ir.Module) -> None:
        """Say what the module costs: on standard error, since the module is the output."""
        from shard_dialect.analysis.program_report import report_on
        from shard_dialect.ir.bindings import ir

        copy = ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
        say(str(report_on(copy, self.options.entry)))

    def _run(self, pipeline: Pipeline, text: str, module: ir.Module) -> None:
        path = self.options.crash_reproducer
        if path is None:
            pipeline.run(module)
            return
        from shard_dialect.cli.reproducers import Reproducer
        from shard_dialect.passes.framework.pipeline import described

        # Written before, since a crash of MLIR leaves no time for it; removed if all goes well.
        reproducer = Reproducer(described(text, self.instruments), self.options.verify_each)
        text = reproducer.after(module.operation.get_asm())
        Output(path).replace(lambda file: file.write(text.encode()))
        try:
            pipeline.run(module)
        except ShardError:
            say(note(f"the module and the pipeline are in '{path}': run it by --run-reproducer"))
            raise
        if Path(path).is_file():  # it may be a device
            Path(path).unlink()

    def _printed(self, module: ir.Module, source: Source) -> bytes:
        """The module as text or bytecode, or as a Python program."""
        from shard_dialect.passes.framework.pipeline import run_pipeline

        options = self.options
        if options.emit_python:
            from shard_dialect.backends.python.python_module import emit_python

            return emit_python(module, options.emit_python).encode()
        if options.emit_object:
            return self._object(module)
        if options.emit_stablehlo:
            run_pipeline(module, "lower{target=stablehlo}")
        if options.emit_bytecode:
            file = io.BytesIO()
            module.operation.write_bytecode(file)
            return file.getvalue()
        return self._text(module.operation, source).rstrip("\n").encode() + b"\n"

    def _object(self, module: ir.Module) -> bytes:
        """The object; its header is written beside it, under the same name."""
        from shard_dialect.backends.cpu.object_file import object_file

        output = self.options.output
        name = re.sub(r"\W", "_", Path(output).stem, flags=re.ASCII)
        found = object_file(module, self.options.entry, f"_{name}" if name[0].isdigit() else name)
        header = found.header.encode()
        Output(_header_of(output)).replace(lambda file: file.write(header))
        return found.code

    def _text(self, operation: ir.Operation, source: Source) -> str:
        """The module in the vocabulary of its file, unless passes that are named have chosen one.

        Other tools are to read the local form as it is printed.
        """
        from shard_dialect.ir.diagnostics import with_file_names
        from shard_dialect.ir.pretty_ops import pretty
        from shard_dialect.ir.sdy.sdy_spelling import without_second_regions
        from shard_dialect.passes.vocabularies.as_written import as_written, is_local, vocabulary_of

        options = self.options
        is_changed = self.pipeline or options.auto is not None or options.mutate
        if is_changed and source.file_text and not _CHOOSES.search(self.pipeline):
            operation = as_written(operation, vocabulary_of(source.file_text))
        text = operation.get_asm(
            print_generic_op_form=options.mlir_print_op_generic,
            enable_debug_info=options.mlir_print_debuginfo,
            pretty_debug_info=options.mlir_pretty_debuginfo,
            assume_verified=options.mlir_print_assume_verified,
            skip_regions=options.mlir_print_skip_regions,
            use_name_loc_as_prefix=options.mlir_use_nameloc_as_prefix,
            large_resource_limit=options.mlir_elide_resource_strings_if_larger,
            use_local_scope=options.mlir_print_local_scope,
            large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
        )
        if options.mlir_print_debuginfo:
            text = with_file_names(text)
        text = without_second_regions(text)
        if options.mesh_pretty or not (options.mlir_print_op_generic or is_local(operation)):
            text = pretty(text)
        return text

    def _dump_pipeline(self) -> None:
        from shard_dialect.ir.context import make_context
        from shard_dialect.passes.framework.pipeline import described

        with make_context():
            say(described(self.pipeline, self.instruments.edits()))


def _by_line(name: str, source: Source) -> str:
    """The line on which the file defines a value, whose name there MLIR does not keep."""
    from shard_dialect.ir.reading.names_of_file import lines_defining

    lines = lines_defining(f"%{name.removeprefix('%')}", source.file_text or "")
    return str(lines[0] + source.lines_before) if len(lines) == 1 else name


if __name__ == "__main__":
    sys.exit(main())
