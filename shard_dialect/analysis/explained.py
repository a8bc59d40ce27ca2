"""One tensor, collective or line of a program explained: what `--explain` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.analysis.report_text import collective_text
from shard_dialect.errors import ShardError

_PLACE = re.compile(r"(?:.*:)??(\d+)(?::(\d+))?")


def explain(report: ProgramReport, what: str) -> str:
    """Explain a tensor by its name, a collective by its number, or all at a place in the file.

    `what` is `w1`, `%3` as `--propagate` prints it, `#2` as the report numbers collectives, or a
    line: `18`, `in.mlir:18`, `in.mlir:18:8`. Raises `ShardError` if there is no such thing.
    """
    found = list(_tensors(report, what)) + list(_collectives(report, what))
    if not found:
        raise ShardError(
            f"there is nothing called '{what}' to explain in @{report.entry}: give the name of an "
            "argument or result, that of a value as --propagate prints it, as in %3, a collective "
            "of the report, as in #2, or a line of the file, as in 18"
        )
    return "\n".join(found) + "\n"


def _tensors(report: ProgramReport, what: str) -> Iterator[str]:
    for each in report.tensors:
        if any(fnmatchcase(name, what) for name in each.names) or _is_at(each.location, what):
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
    """Whether a place is on the line, and at the column, if there is one, that are asked for."""
    asked, place = _PLACE.fullmatch(what), re.search(r":(\d+):(\d+)$", location or "")
    if asked is None or place is None:
        return False
    return asked[1] == place[1] and asked[2] in (None, place[2])
