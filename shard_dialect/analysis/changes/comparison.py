"""Two reports side by side: of two programs, or of one with other annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from shard_dialect.abi.lowered_program import choose_entry
from shard_dialect.analysis.changes.annotations import apply_edit
from shard_dialect.analysis.changes.what_if_question import edits_for, read_each
from shard_dialect.analysis.program_costs import micro, signed_micro
from shard_dialect.analysis.program_report import DEVICE_MODEL, Allocator, ProgramReport, report_on
from shard_dialect.analysis.reasons.explained_passes import imported
from shard_dialect.errors import as_symbol, of_option
from shard_dialect.ir.bindings import ir
from shard_dialect.model.devices.device_model import DeviceModel
from shard_dialect.model.notebook_html import print_text, table_html

_HEAD = ["", "before", "after", "change"]


@dataclass(frozen=True)
class Comparison:
    """The reports of two programs, and what changes from one to the other."""

    before: ProgramReport
    after: ProgramReport

    def as_json(self) -> dict[str, object]:
        """Both reports, and the difference of the second from the first."""
        change: dict[str, float] = {name: after - before for name, before, after in self._numbers()}
        change["seconds"] = self.after.schedule.total - self.before.schedule.total
        return {"before": self.before.as_json(), "after": self.after.as_json(), "change": change}

    def _rows(self) -> list[list[str]]:
        rows = [
            [name, f"{before:,}", f"{after:,}", f"{after - before:+,}"]
            for name, before, after in self.changes
        ]
        return [rows[0], self._times(), *rows[1:]]

    _repr_pretty_ = print_text

    def _repr_html_(self) -> str:
        return table_html(f"{as_symbol(self.after.entry)}, each device", _HEAD, self._rows())

    def __str__(self) -> str:
        return (
            tabulate(
                self._rows(),
                _HEAD,
                tablefmt="plain",
                disable_numparse=True,
                colalign=("left", "right", "right", "right"),
            )
            + "\n"
        )

    def _times(self) -> list[str]:
        before, after = (each.schedule.total for each in (self.before, self.after))
        return ["microseconds", micro(before), micro(after), signed_micro(after - before)]

    @property
    def changes(self) -> list[tuple[str, int, int]]:
        """The costs before and after, then the number of collectives of each kind."""
        return [*self._numbers(), *self._kinds()]

    def _numbers(self) -> list[tuple[str, int, int]]:
        before, after = self.before, self.after
        return [
            ("bytes", before.bytes_moved, after.bytes_moved),
            ("memory", before.memory.peak, after.memory.peak),
            ("flops", before.compute.flops, after.compute.flops),
            ("repeated_flops", before.compute.repeated_flops, after.compute.repeated_flops),
        ]

    def _kinds(self) -> list[tuple[str, int, int]]:
        """The number of collectives of each kind."""
        counts = [
            Counter(each.kind for each in report.communication)
            for report in (self.before, self.after)
        ]
        return [(kind, counts[0][kind], counts[1][kind]) for kind in sorted(counts[0] | counts[1])]


def what_if(
    module: ir.Module,
    questions: Sequence[str],
    entry: str | None = None,
    *,
    device_model: str | DeviceModel = DEVICE_MODEL,
    allocator: Allocator = "unfused",
) -> Comparison:
    """Compare a module with itself, sharded otherwise as `questions` say: `w1=[[], [model]]`.

    The module is not changed. Raises `ShardError` for a question about a thing that is not there.
    """
    asm = module.operation.get_asm(enable_debug_info=True)
    name = choose_entry(module.operation, entry)
    changed = imported(asm)
    for text, question in read_each(questions, "what-if"):
        with of_option(f"--what-if={text}"):
            for edit in edits_for(changed.operation, name, question):
                apply_edit(changed.operation, edit)
    before, after = (
        report_on(each, name, device_model=device_model, allocator=allocator)
        for each in (imported(asm), changed)
    )
    return Comparison(before, after)
