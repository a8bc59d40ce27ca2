"""The report as text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from shard_dialect.analysis.changes.removals import Removal, Tried
from shard_dialect.analysis.costs.arithmetic import Compute
from shard_dialect.analysis.costs.memory import Memory
from shard_dialect.analysis.costs.schedule import Schedule, TimedOp
from shard_dialect.analysis.measurement import MeasuredCollective, Measurement
from shard_dialect.analysis.program_costs import micro
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.analysis.reasons.why import Reason


def communication_text(collectives: Sequence[Collective], removals: Sequence[Tried]) -> str:
    """A table of collectives, then each with its reasons as a compiler's notes."""
    return "\n".join(_communication(collectives, removals))


def _communication(collectives: Sequence[Collective], removals: Sequence[Tried]) -> Iterator[str]:
    if not collectives:
        yield "no communication"
        return
    sides = ("left", "left", "left", "right", "left", "left", "right", "right")
    texts = [HEADS.index("axes"), HEADS.index("microseconds")]
    rows = communication_rows(collectives)
    yield tabulate(rows, HEADS, "plain", intfmt=",", colalign=sides, disable_numparse=texts)
    tried = removals or (None,) * len(collectives)
    for number, (each, removal) in enumerate(zip(collectives, tried, strict=True), 1):
        yield ""
        yield collective_text(number, each, removal, asked=bool(removals))


def collective_text(number: int, each: Collective, removal: Tried, *, asked: bool) -> str:
    """As a compiler's notes: the collective, and the steps to the annotations behind it."""
    return "\n".join(_why(number, each, removal, asked=asked))


def _why(number: int, each: Collective, removal: Tried, *, asked: bool) -> Iterator[str]:
    along = f" along {', '.join(each.axes)}" if each.axes else ""
    wanted = " at ".join(filter(None, (each.layer, each.location)))
    place = f", for {wanted}" if wanted else ""
    yield f"#{number} {_often(each)}{along}: {each.bytes:,} bytes{place}"
    if each.open_loop:
        yield f"  {each.open_loop}: this loop counts once, since how often it runs is not known"
    for step in _folded(each.why):
        yield f"  {step}"
    if len(each.readers) > 1:
        yield f"  shared by {len(each.readers)} ops:"
        for reader in each.readers:
            yield f"    {reader}"
    if isinstance(removal, Removal):
        yield f"  {_place(removal.location)}without it: {removal}"
    elif removal:
        yield f"  {removal}"
    elif asked:
        yield "  no change of one annotation behind it removes it"


HEADS = ("", "collective", "axes", "devices", "operand", "result", "bytes sent", "microseconds")
"""The heads of the columns of `communication_rows`."""


def communication_rows(collectives: Sequence[Collective]) -> list[list[object]]:
    """A row for each collective, and one for their total."""
    rows: list[list[object]] = [
        [
            f"#{number}",
            _often(each),
            ", ".join(each.axes),
            each.group,
            each.operand,
            each.result,
            each.bytes,
            micro(each.seconds),
        ]
        for number, each in enumerate(collectives, 1)
    ]
    total = sum(each.bytes for each in collectives)
    seconds = micro(sum(each.seconds for each in collectives))
    return [*rows, ["", "total", None, None, None, None, total, seconds]]


_FIRST = 3
"""The steps of a long chain that are shown before its annotation."""


def _folded(steps: Sequence[Reason]) -> Iterator[str]:
    """The steps, of a long chain only the first ones and its annotation."""
    chain: list[Reason] = []
    for step in steps:
        chain.append(step)
        if step.annotation:
            yield from _chain(chain)
            chain = []
    yield from map(str, chain)


def _chain(steps: Sequence[Reason]) -> Iterator[str]:
    more = len(steps) - _FIRST - 1
    if more < 2:
        yield from map(str, steps)
        return
    yield from map(str, steps[:_FIRST])
    yield f"... {more} more steps, all of them with --json"
    yield str(steps[-1])


def _often(each: Collective) -> str:
    """The kind, with how often it runs: `all_gather x10`; `x?` for a loop of unknown length."""
    times = f" x{each.times}" if each.times != 1 else ""
    return each.kind + times + (" x?" if each.open_loop else "")


def _place(location: str | None) -> str:
    return f"{location}: " if location else ""


_MOST = 8
"""The number of lines for values that are live at the peak, and for ops."""


def memory_text(memory: Memory) -> str:
    """The memory of a device: the most of each kind, and the values that are live at the peak."""
    names = ("arguments", "results", "temporaries", "constants", "donated", "peak")
    rows = [[name, getattr(memory, name)] for name in names if getattr(memory, name)]
    lines = [tabulate(rows, ["memory", "bytes on a device"], tablefmt="plain", intfmt=",")]
    live = memory.live_at_peak[:_MOST]
    if live:
        rows = [[each.bytes, each.kind, each.name, each.type, each.location] for each in live]
        heads = ["bytes", "live at the peak", "value", "type", "from"]
        lines.append(tabulate(rows, heads, tablefmt="plain", intfmt=","))
    rest = len(memory.live_at_peak) - len(live)
    return "\n\n".join(lines) + (f"\nand {rest} more" if rest else "")


def compute_text(compute: Compute) -> str:
    """The arithmetic of a device: in all, by op, and the part that other devices repeat."""
    rows = [
        ["floating-point operations", compute.flops],
        ["of these repeated on other devices", compute.repeated_flops],
        ["bytes read and written", compute.bytes],
    ]
    lines = [tabulate(rows, ["compute", "on a device"], tablefmt="plain", intfmt=",")]
    ops = compute.ops[:_MOST]
    if ops:
        table = [
            [each.flops, each.repeated_flops, each.bound, each.name, each.result, each.location]
            for each in ops
        ]
        heads = ["operations", "repeated", "bound by", "op", "result", "at"]
        lines.append(tabulate(table, heads, tablefmt="plain", intfmt=","))
    repeated = sorted(compute.ops, key=lambda each: -each.repeated_flops)[:_MOST]
    table = [
        [each.repeated_flops, f"{each.copies:g}", each.name, each.result, each.location]
        for each in repeated
        if each.repeated_flops
    ]
    if table:
        heads = ["repeated", "on devices", "op", "result", "at"]
        lines.append(tabulate(table, heads, tablefmt="plain", intfmt=","))
    notes = [
        f"{_place(each.location)}{each.name} is uneven in dimension {each.dim}: "
        f"shards have {min(each.sizes):,} to {each.local_size:,}, "
        f"{each.padding:.1%} of what devices compute is padding"
        for each in compute.uneven
    ]
    notes += [f"nothing is known of the arithmetic of '{name}' ops" for name in compute.unknown]
    notes += [f"{place}: this loop counts once" for place in compute.open_loops]
    return "\n\n".join(lines) + "".join(f"\n{note}" for note in notes)


def schedule_text(schedule: Schedule) -> str:
    """How long a device takes, how much of it it waits, and the ops that hold it up most."""
    rows = [
        ["as written", micro(schedule.total)],
        ["of these waiting for collectives", micro(schedule.exposed_communication)],
        ["with collectives beside other ops", micro(schedule.overlapped_total)],
        ["the longest chain of ops", micro(schedule.critical_path)],
    ]
    lines = [tabulate(rows, ["time", "microseconds"], tablefmt="plain", disable_numparse=True)]
    slowest = sorted(schedule.critical_ops, key=lambda each: -each.seconds)[:_MOST]
    if slowest:
        table = [
            [micro(each.seconds), each.bound, f"{indent}{each.name}", each.result, each.location]
            for whole in slowest
            for indent, each in _with_inside(whole)
        ]
        heads = ["microseconds", "bound by", "op of the chain", "result", "at"]
        sides = ("right", "left", "left", "left", "left")
        lines.append(tabulate(table, heads, "plain", colalign=sides, disable_numparse=True))
    return "\n\n".join(lines)


def _with_inside(op: TimedOp) -> list[tuple[str, TimedOp]]:
    """An op of the chain, and of a loop the slowest ones in it, each after the one before it."""
    slowest = sorted(op.inside, key=lambda each: -each.seconds)[:_FIRST]
    return [("", op), *(("in it: ", each) for each in slowest)]


def measurement_text(measurement: Measurement, collectives: Sequence[Collective]) -> str:
    """The time of a run, and that of each collective as modelled and as measured."""
    rows = [
        ["the run", micro(measurement.total)],
        ["computing", micro(measurement.computing)],
        ["waiting for collectives", micro(measurement.waiting)],
    ]
    lines = [tabulate(rows, ["measured", "microseconds"], tablefmt="plain", disable_numparse=True)]
    if collectives:
        table = [
            [f"#{number}", each.kind, micro(each.seconds), *_measured(found)]
            for number, (each, found) in enumerate(
                zip(collectives, measurement.collectives, strict=True), 1
            )
        ]
        heads = ["", "collective", "modelled", "measured", "waits for others"]
        sides = ("left", "left", "right", "right", "right")
        lines.append(tabulate(table, heads, "plain", colalign=sides, disable_numparse=True))
    return "\n\n".join(lines)


def _measured(found: MeasuredCollective | None) -> list[str]:
    return [micro(found.seconds), micro(found.waiting)] if found else ["did not run", ""]
