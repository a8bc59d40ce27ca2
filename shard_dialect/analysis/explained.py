"""Explain one tensor, collective or line of a program, for `--explain`, or draw its sharding."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.analysis.changes.name_patterns import called
from shard_dialect.analysis.changes.what_if_question import no_grid
from shard_dialect.analysis.drawing import DrawnSharding, named_shardings
from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.analysis.report_text import collective_text
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.grids import grids_of
from shard_dialect.ir.reading.names_of_file import lines_defining
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.passes.vocabularies.as_written import printed_as

_PLACE = re.compile(r"(?:(?P<file>.*\D.*):)?(?P<line>\d+)(?::(?P<column>\d+))?", re.DOTALL)
_WITH_COLUMN = re.compile(r"(?P<file>.+):(?P<line>\d+):(?P<column>\d+)", re.DOTALL)


def explain(report: ProgramReport, what: str) -> str:
    """Explain a tensor by its name, a collective by its number, or all at a place in the file.

    `what` is `w1`, `%3` as `--propagate` prints it, or as a later form has it, `%h` as the file
    calls the result of an op, `#2` as the report numbers collectives, or a line: `18`,
    `in.mlir:18`, `in.mlir:18:8`. Raises `ShardError` if there is no such thing.
    """
    bare = what.removeprefix("%")
    lines = lines_defining(f"%{bare}", report.file_text or "")
    text = (
        _explained(report, what)
        or "".join(_explained(report, str(line)) for line in lines)
        or _explained(report, bare)
    )
    if not text:
        raise ShardError(
            f"there is nothing called '{what}' to explain in {as_symbol(report.entry)}: give the "
            "name of an argument or result, that of a value in the file or as --propagate prints "
            "it, as in %3, a collective of the report, as in #2, or a line of the file, as in 18"
        )
    return text


def _explained(report: ProgramReport, what: str) -> str:
    is_tensor = any(what in each.names for each in report.tensors)
    place = "" if is_tensor else report.places.get(what, "")
    found = [*_tensors(report, place or what), *_collectives(report, place or what)]
    if place and not found:
        found = [f"{place}: {what} is computed on each device, and nothing is communicated for it"]
    return "".join(f"{each}\n" for each in found)


def _tensors(report: ProgramReport, what: str) -> Iterator[str]:
    numbered = enumerate(report.tensors)
    by_name = {*called(what, ((number, each.names) for number, each in numbered))}
    for number, each in enumerate(report.tensors):
        if number in by_name or _is_at(each.location, what):
            place = f"{each.location}: " if each.location else ""
            steps = each.steps()
            lines = [f"{place}{each.name} is sharded as {each.text}"]
            lines += [f"  {step}" for step in steps]
            if not any(each.sharding.split_axes) and not steps:
                lines += ["  nothing has reached it, so each device has all of it"]
            yield "\n".join(lines)


def _collectives(report: ProgramReport, what: str) -> Iterator[str]:
    removals = report.removals or (None,) * len(report.communication)
    for number, (each, removal) in enumerate(zip(report.communication, removals, strict=True), 1):
        if what == f"#{number}" or _is_at(each.location, what):
            yield collective_text(number, each, removal, asked=bool(report.removals))


def _is_at(location: str | None, what: str) -> bool:
    """Whether a place is in the file, on the line, and at the column that are asked for, if any.

    >>> [_is_at("a/b.mlir:18:8", each) for each in ("18", "18:8", "b.mlir:18", "a/b.mlir:18:8")]
    [True, True, True, True]
    >>> [_is_at("a/b.mlir:18:8", each) for each in ("8", "c.mlir:18", "b.mlir:18:9", "mlir:18")]
    [False, False, False, False]
    """
    asked = _WITH_COLUMN.fullmatch(what) or _PLACE.fullmatch(what)
    place = _WITH_COLUMN.fullmatch(location or "")
    if asked is None or place is None or asked["line"] != place["line"]:
        return False
    file = asked["file"]
    is_in = file is None or f"/{place['file']}".endswith(f"/{file}")
    return is_in and asked["column"] in (None, place["column"])


def drawn(
    module: ir.Module, pattern: str, entry: str | None = None, file_text: str | None = None
) -> list[DrawnSharding]:
    """The shardings of the arguments, results and ops of a function whose name matches.

    The name is that of the argument or result, as for `what_if`, that of a value in the file, whose
    text is `file_text`, or `%3` as `--propagate` prints it. The module, in the annotated or
    propagated form, is not changed. Raises `ShardError` if nothing has the name.
    """
    name = choose_entry(module.operation, entry)
    text = module.operation.get_asm(enable_debug_info=True)
    copy = imported(text)
    run_pipeline(copy, "propagate")
    tensors = list(named_shardings(copy.operation, name, printed_as(text)))
    lines = map(str, lines_defining(f"%{pattern.removeprefix('%')}", file_text or ""))
    chosen = called(pattern, ((each, each.names) for each in tensors)) or [
        each for line in lines for each in tensors if _is_at(each.location, line)
    ]
    found = [DrawnSharding(each.name, each.shape, each.sharding, each.grid) for each in chosen]
    if not found and not grids_of(module.operation):
        raise no_grid()
    if not found:
        known = ", ".join(each.name for each in tensors if not each.name.startswith("%"))
        raise ShardError(
            f"there is no value '{pattern}' with a sharding in {as_symbol(name)}: give the name "
            f"of an argument or result ({known}), or that of a value in the file or as --propagate "
            "prints it, as in %3"
        )
    return found
