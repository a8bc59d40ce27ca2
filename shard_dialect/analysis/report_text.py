"""The report as text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from shard_dialect.analysis.communication import Collective
from shard_dialect.analysis.removals import Removal


def communication_text(
    collectives: Sequence[Collective], removals: Sequence[Removal | None]
) -> str:
    """A table of collectives, then each with its reasons as a compiler's notes."""
    return "\n".join(_communication(collectives, removals))


def _communication(
    collectives: Sequence[Collective], removals: Sequence[Removal | None]
) -> Iterator[str]:
    if not collectives:
        yield "no communication"
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
        for number, each in enumerate(collectives, 1)
    ]
    rows.append([None, "total", None, None, None, None, sum(each.bytes for each in collectives)])
    heads = ["", "collective", "axes", "devices", "operand", "result", "bytes a device sends"]
    yield tabulate(rows, heads, tablefmt="plain")
    tried = removals or (None,) * len(collectives)
    for number, (each, removal) in enumerate(zip(collectives, tried, strict=True), 1):
        yield from _why(number, each, removal, asked=bool(removals))


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
