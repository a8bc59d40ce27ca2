"""The report as text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from tabulate import tabulate

from shard_dialect.analysis.communication import Collective
from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.analysis.removals import Removal


def text_of(report: ProgramReport) -> str:
    """The whole report; it ends with a newline."""
    return "\n".join([_head(report), *_communication(report)]) + "\n"


def _head(report: ProgramReport) -> str:
    return f"@{report.entry} on {report.devices} devices"


def _communication(report: ProgramReport) -> Iterator[str]:
    if not report.communication:
        yield "\nno communication"
        return
    rows = [
        [
            f"#{number}",
            each.kind,
            ", ".join(each.axes),
            each.group,
            each.operand,
            each.result,
            each.bytes,
        ]
        for number, each in enumerate(report.communication, 1)
    ]
    rows.append([None, "total", None, None, None, None, report.bytes_moved])
    heads = ["", "collective", "axes", "devices", "operand", "result", "bytes a device sends"]
    yield "\n" + tabulate(rows, heads, tablefmt="plain")
    removals = report.removals or (None,) * len(report.communication)
    for number, (each, removal) in enumerate(zip(report.communication, removals, strict=True), 1):
        yield from _why(number, each, removal, asked=bool(report.removals))


def _why(number: int, each: Collective, removal: Removal | None, *, asked: bool) -> Iterator[str]:
    """As a compiler's notes: the collective, and the steps to the annotations behind it."""
    along = f" along {', '.join(each.axes)}" if each.axes else ""
    place = f", for {each.location}" if each.location else ""
    yield f"\n#{number} {each.kind}{along}: {each.bytes} bytes{place}"
    for step in each.why:
        yield f"  {_place(step.location)}{step.text}"
    if len(each.readers) > 1:
        yield f"  shared by {len(each.readers)} ops:"
        for reader in each.readers:
            yield f"    {_place(reader.location)}{reader.text}"
    if removal:
        yield f"  {_place(removal.location)}without it: {removal}"
    elif asked:
        yield "  no change of one annotation removes it"


def _place(location: str | None) -> str:
    return f"{location}: " if location else ""
