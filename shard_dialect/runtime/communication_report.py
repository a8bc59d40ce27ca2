"""Report the bytes that a program moves, by the cost model, from the collectives that it calls.

Bytes moved per device, for a group of n: all-gather (n-1)/n of the result, reduce-scatter (n-1)/n
of the operand, all-reduce twice that, all-to-all (n-1)/n of the operand, permute the operand, a
halo exchange the halos from two neighbours. A slice or a mask of a device's own shard moves nothing
and is not reported. A collective in a loop counts as often as the loop runs, if that is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from tabulate import tabulate

from shard_dialect.abi.lowered_program import Site
from shard_dialect.model import Axis
from shard_dialect.model.notebook_html import print_text, table_html, text_html


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective of the program."""

    kind: str
    grid_axes: list[Axis]
    group_size: int
    operand: str
    result: str
    bytes_moved: int
    """The bytes moved per device, all times together."""
    times: int = 1
    """How often it runs; a loop of unknown length counts once."""
    times_known: bool = True
    axes: str = ""
    """The grid axes, by name if the grid has names."""


@dataclass(frozen=True, slots=True)
class Report:
    """The collectives of a program in their order."""

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, calls: Sequence[Site]) -> Report:
        """The report for these collectives."""
        entries = [site for site in calls if site.step.communicates and site.phase != "done"]
        return cls(tuple(map(_entry, entries)))

    @property
    def bytes_moved(self) -> int:
        """The bytes moved per device by all collectives."""
        return sum(entry.bytes_moved for entry in self.entries)

    def as_json(self) -> dict[str, object]:
        """The collectives and their totals, for `--json`."""
        by_kind = Counter(entry.kind for entry in self.entries)
        return {
            "collectives": [asdict(entry) for entry in self.entries],
            "totals": {
                "count": len(self.entries),
                "bytes_moved": self.bytes_moved,
                "by_kind": dict(sorted(by_kind.items())),
            },
        }

    def __str__(self) -> str:
        if not self.entries:
            return "no communication"
        note = self._note()
        return tabulate(self._rows(), _HEAD, tablefmt="plain", disable_numparse=[1]) + (
            f"\n{note}" if note else ""
        )

    _repr_pretty_ = print_text

    def _repr_html_(self) -> str:
        if not self.entries:
            return text_html("communication", "no communication")
        return table_html(self._note() or "communication", _HEAD, self._rows())

    def _rows(self) -> list[list[object]]:
        rows: list[list[object]] = []
        for entry, alike in groupby(self.entries):  # as the transfers of a pipeline's microbatches
            count = len(list(alike))
            e = replace(entry, times=count * entry.times, bytes_moved=count * entry.bytes_moved)
            rows.append([_often(e), e.axes, e.group_size, e.operand, e.result, e.bytes_moved])
        return [*rows, ["total", None, None, None, None, self.bytes_moved]]

    def _note(self) -> str:
        return COUNTS_ONCE if any(not each.times_known for each in self.entries) else ""


_HEAD = ["collective", "axes", "group", "operand", "result", "bytes moved per device"]
COUNTS_ONCE = "*: in a loop that counts once, since how often it runs is not known"


def _often(entry: Entry) -> str:
    times = f" x{entry.times}" if entry.times != 1 else ""
    return f"{entry.kind}{times}{'' if entry.times_known else '*'}"


def _entry(site: Site) -> Entry:
    return Entry(
        site.step.kind,
        list(site.step.axes),
        site.grid.axes_size(site.step.axes),
        site.operand,
        site.result,
        site.bytes_moved * site.times,
        site.times,
        site.times_known,
        ", ".join(site.grid.axes_names(site.step.axes)),
    )
