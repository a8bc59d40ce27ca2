"""`python -m shard_dialect.report`: what a program costs each of its devices, and why.

    python -m shard_dialect.report in.mlir
    python -m shard_dialect.report in.mlir --suggest
    python -m shard_dialect.report in.mlir --what-if='w1=[[], [model]]'
    python -m shard_dialect.report in.mlir --suggest --html out.html --trace out.json
    python -m shard_dialect.report in.mlir --prove --json

Each collective is listed with the bytes that a device sends, and explained: the two shardings that
it connects, each traced back to an annotation in the file. `--suggest` looks for a change of one
annotation that removes it, and runs the passes to see what that costs. `--prove` says whether each
device computes the unsharded program.
"""

from __future__ import annotations

from shard_dialect.processes import startup

startup.begin(__name__)

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shard_dialect import __version__, plugins
from shard_dialect.cli.flags import (
    Parser,
    add_debug,
    add_option,
    check_needed,
    complete,
    seconds_above_0,
)
from shard_dialect.cli.printing import STDIN, STDOUT, guarded, write_page, write_to
from shard_dialect.errors import ShardError, cannot, of_option, say
from shard_dialect.processes.atomic_files import Output
from shard_dialect.processes.launchers import MPICH, OPEN_MPI, SLURM, TORCHRUN, launched_by
from shard_dialect.processes.supervise import supervised
from shard_dialect.processes.to_parent import doing, is_watched

if TYPE_CHECKING:
    from shard_dialect.analysis.changes.comparison import Comparison
    from shard_dialect.analysis.program_report import ProgramReport
    from shard_dialect.ir.bindings import ir
    from shard_dialect.ir.reading.source import Source
    from shard_dialect.runtime.confirmed_proof import Unsharded


_NEEDS = {"suggest_seconds": ("suggest",), "backend": ("measure",), "devices": ("measure",)}
"""The options that an option is for."""
_PRICES = {"device_model": "h100", "allocator": "unfused"}
"""The options that say how costs are counted, and what they are if they are not given."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with `arguments` and return the exit status; by default the command line's, watched."""
    if arguments is None:
        complete(_parser)
        rank = launched_by((TORCHRUN, MPICH, OPEN_MPI, SLURM))  # for --measure
        is_first = rank is None or rank.number == 0
        return supervised(lambda: guarded(lambda: _main(sys.argv[1:])), is_first=is_first)
    return guarded(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    _check(options)
    if options.measure is not None:
        return _measure(options)
    if options.show is not None:
        return _show(options)
    from shard_dialect.analysis.explained import explain
    from shard_dialect.analysis.page.report_page import report_html
    from shard_dialect.analysis.program_report import ProgramReport
    from shard_dialect.analysis.trace import trace_of

    report = _report(options)
    if options.html is not None:
        write_to(options.html, report_html(report))
    if isinstance(report, ProgramReport):
        if options.trace is not None:
            write_to(options.trace, json.dumps(trace_of(report)))
        if options.explorer_data is not None:
            _write_explorer_data(report, Path(options.explorer_data))
    if options.json:
        text = json.dumps(report.as_json(), indent=2) + "\n"
    elif options.explain is not None and isinstance(report, ProgramReport):
        with of_option(f"--explain={options.explain}"):
            text = explain(report, options.explain)
    else:
        text = str(report)
    if options.output == STDOUT and not options.json:
        write_page(text)
    else:
        write_to(options.output, text)
    _refuse_refuted(report)
    return 0


def _refuse_refuted(report: ProgramReport | Comparison) -> None:
    """Raise for a refutation, which the report has: it is an error besides."""
    from shard_dialect.analysis.program_report import ProgramReport

    if isinstance(report, ProgramReport) and report.proof is not None:
        from shard_dialect.runtime.confirmed_proof import told

        told(report.proof)


def _check(options: argparse.Namespace) -> None:
    """Raise for flags that exclude each other, and for files that may not be written."""
    check_needed(options, _NEEDS)
    alone = ("what_if", "compare", "suggest", "show", "measure")
    given = [flag for flag in alone if getattr(options, flag)]
    if given and given != ["suggest"]:
        others = ["trace", "explorer_data", "measured", "explain", "prove"]
        others += ["html", "json", *_PRICES] if {"show", "measure"} & {*given} else []
        others += ["entry"] if "measure" in given else []
        given += [flag for flag in others if getattr(options, flag) not in (None, False)]
    unheard = ["json", "prove", *(["suggest"] if options.html is None else [])]
    if options.explain is not None and (flags := [each for each in unheard if vars(options)[each]]):
        given = [flags[0], "explain"]
    if options.explorer_data is not None and options.allocator == "arena":
        given = ["explorer_data", "allocator=arena"]  # its buffers are not those of single ops
    if options.measure is not None and options.input != STDIN:
        raise ShardError(f"--measure reads no program: leave out '{options.input}'")
    if len(given) > 1:
        first, second = (f"--{flag.replace('_', '-')}" for flag in given[:2])
        raise ShardError(f"{first} is given together with {second}: use one of them")
    for flag, usual in _PRICES.items():
        setattr(options, flag, getattr(options, flag) or usual)
    for written in (options.output, options.trace, options.html, options.measure):
        if written not in (STDOUT, None):
            Output(written).check((options.input, *plugins.files(options.load_plugin)))


def _report(options: argparse.Namespace) -> ProgramReport | Comparison:
    from shard_dialect.abi.lowered_program import choose_entry
    from shard_dialect.analysis.changes.comparison import Comparison, what_if
    from shard_dialect.analysis.program_report import report_on
    from shard_dialect.ir.bindings import without_op_classes
    from shard_dialect.ir.context import make_context
    from shard_dialect.ir.fatal_errors import report_fatal_errors
    from shard_dialect.ir.reading.source import Source
    from shard_dialect.model.devices.device_model import DeviceModel

    without_op_classes()
    if is_watched():
        report_fatal_errors(say)
    plugins.load(options.load_plugin)
    source = Source.read(options.input)
    with make_context(), source.file_locations():
        module = source.parse()
        doing("the report")
        DeviceModel.read(options.device_model)
        with _of_entry(options):
            choose_entry(module.operation, options.entry)
        if options.what_if:
            return what_if(
                module,
                options.what_if,
                options.entry,
                device_model=options.device_model,
                allocator=options.allocator,
            )
        unsharded = _unsharded(source, module, options.entry) if options.prove else None
        report = report_on(
            module,
            options.entry,
            suggest=options.suggest,
            suggest_seconds=options.suggest_seconds or 30.0,
            device_model=options.device_model,
            allocator=options.allocator,
            measured=options.measured,
            file_text=source.file_text,
        )
        if unsharded is not None:
            report = _proven(report, unsharded, module)
    if options.compare is None:
        return report
    other = Source.read(options.compare)
    with make_context(), other.file_locations(), of_option(f"--compare={options.compare}"):
        return Comparison(
            report,
            report_on(
                other.parse(),
                options.entry,
                device_model=options.device_model,
                allocator=options.allocator,
            ),
        )


def _unsharded(source: Source, module: ir.Module, entry: str | None) -> Unsharded:
    from shard_dialect.runtime.confirmed_proof import Unsharded

    return Unsharded.of(module, entry, source)


def _proven(report: ProgramReport, unsharded: Unsharded, local: ir.Module) -> ProgramReport:
    from shard_dialect.runtime.confirmed_proof import confirmed_proof

    doing("the proof")
    return replace(report, proof=confirmed_proof(unsharded, local, report.entry))


def _of_entry(options: argparse.Namespace) -> AbstractContextManager[None]:
    return nullcontext() if options.entry is None else of_option(f"--entry={options.entry}")


def _show(options: argparse.Namespace) -> int:
    from shard_dialect.abi.lowered_program import choose_entry
    from shard_dialect.analysis.explained import drawn
    from shard_dialect.ir.context import make_context
    from shard_dialect.ir.reading.source import Source

    source = Source.read(options.input)
    with make_context(), source.file_locations():
        module = source.parse()
        with _of_entry(options):
            choose_entry(module.operation, options.entry)
        with of_option(f"--show={options.show}"):
            found = drawn(module, options.show, options.entry, source.file_text)
    in_terminal = options.output == STDOUT and sys.stdout.isatty()
    text = "\n".join(each.to_terminal() if in_terminal else str(each) for each in found)
    write_to(options.output, text)
    return 0


def _measure(options: argparse.Namespace) -> int:
    from shard_dialect.runtime.communicators.launched_world import world_of
    from shard_dialect.runtime.communicators.world import MAX_DEVICES
    from shard_dialect.runtime.profiling.measure_devices import measured_model

    if options.measure != STDOUT and not options.measure.endswith(".toml"):
        raise ShardError(
            f"--measure={options.measure}: a device model is a file whose name ends in .toml"
        )
    backend, devices = options.backend or "devices", options.devices or os.cpu_count() or 1
    if backend == "devices" and devices > MAX_DEVICES:
        raise ShardError(
            f"--devices={devices}: in one process there can be at most {MAX_DEVICES:,}"
        )
    joining = world_of(backend)
    ranks = joining() if joining else None
    try:
        model = measured_model(ranks, devices)
    except BaseException as error:
        if ranks is not None:
            ranks.fail(error)  # which ends the others, too
        raise
    if ranks is None or ranks.speaks:
        write_to(options.measure, model.to_toml())
    if ranks is not None:
        ranks.close()
    return 0


def _write_explorer_data(report: ProgramReport, folder: Path) -> None:
    from shard_dialect.explorer.graphs import node_data_of

    texts = node_data_of(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot("write", str(folder), error) from None
    for name, text in texts.items():
        write_to(str(folder / name), text)


def _parser() -> Parser:
    parser = Parser("shard-report", __doc__)
    option = partial(add_option, parser)
    parser.add_argument("input", nargs="?", default=STDIN, help="a .mlir file; '-': standard input")
    option("--entry NAME", "the function to report on (default: main)")
    option(
        "--suggest",
        "for each collective, find the change of one annotation that removes it",
    )
    option(
        "--suggest-seconds N",
        "how many seconds --suggest may take; it lists what it has not tried (default: 30)",
        type=seconds_above_0,
    )
    option(
        "--what-if NAME=SHARDING",
        "report what another sharding of an argument or result would change, as in "
        "w1=[[],[0]]; NAME is its name "
        "in the file or framework, arg0, or result0, with * for any; may be repeated",
        action="append",
    )
    option(
        "--prove",
        "say whether each device computes the unsharded program for all inputs; a refuted "
        "program is an error after the report (docs/proof.md)",
    )
    option("--compare FILE", "report how the costs of another program differ")
    option(
        "--show NAME",
        "draw which device holds which part of a tensor: an argument or result, named as for "
        "--what-if, a value of the file, or %%3 as --propagate prints it",
    )
    from shard_dialect.model.devices.device_model import device_model_names

    option(
        "--device-model NAME",
        f"the device model of the times: {', '.join(device_model_names())}, or a file.toml "
        "(default: h100)",
    )
    option(
        "--allocator",
        "how memory is counted: each op's result by itself (default), as in the arena of our "
        "own code, or with XLA's fusion",
        choices=("unfused", "arena", "xla"),
    )
    option("--trace FILE", "write the modelled schedule, too, as a trace for ui.perfetto.dev")
    option(
        "--explain WHAT",
        "explain only the sharding of a tensor (its name in the file, or %%3 as --propagate "
        "prints it), a collective (#2), or both at a line of the file (18)",
    )
    option(
        "--measure FILE.toml",
        "measure the devices at hand, and write a device model of them, instead of a report",
    )
    option(
        "--backend",
        "what --measure measures: threads of this process, or the ranks that mpiexec or "
        "torchrun has started",
        choices=("devices", "mpi4py", "torch"),
    )
    option(
        "--devices N",
        "how many threads --measure measures (default: as many as cores)",
        type=_count,
    )
    option(
        "--measured FILE",
        "compare with a run: the trace that shard-run --profile=FILE wrote",
    )
    option(
        "--html FILE",
        "write the report, too, as an HTML page: what costs most and why, graph, tables; with "
        "--compare or --what-if, both reports side by side",
    )
    option(
        "--explorer-data FOLDER",
        "write bytes sent, microseconds and live bytes of each op, too, as files for Model "
        "Explorer's --node_data_paths",
    )
    option("--json", "print one JSON object, nothing else")
    parser.add_argument("-o", "--output", default=STDOUT, metavar="FILE", help="write to a file")
    plugins.add_argument(parser)
    add_debug(parser)
    parser.add_argument("--version", action="version", version=f"shard-report {__version__}")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
