"""Write a report, or two side by side, as an HTML page: values as JSON, which its scripts draw.

The page is one file that needs no network. `dagre/` is a released library, as it is, with its
licence (https://github.com/dagrejs/dagre, version 3.1.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from pathlib import Path
from string import Template

from shard_dialect.analysis.changes.comparison import Comparison
from shard_dialect.analysis.changes.removals import alike
from shard_dialect.analysis.drawing import DrawnSharding
from shard_dialect.analysis.layers import ARGUMENTS, BLOCK_ARGUMENTS, LayeredOp, Output
from shard_dialect.analysis.page.folding import fold
from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.analysis.reasons.function_values import sharding_text
from shard_dialect.errors import ShardError, as_symbol

_FOLDER = Path(__file__).parent
Json = dict[str, object]
_EVENT = ("name", "location", "result", "start", "seconds", "bound", "times")


def report_html(report: ProgramReport | Comparison) -> str:
    """Return a report, or two and what changed, as one HTML page that needs no network."""
    if isinstance(report, Comparison):
        entry, reports, changes = report.after.entry, [report.before, report.after], report.changes
    else:
        entry, reports, changes = report.entry, [report], []
    values = {"changes": changes, "reports": [_json(each) for each in reports]}
    data = json.dumps(values, separators=(",", ":")).replace("<", r"\u003c")
    return Template(_text("report.html")).substitute(
        title=escape(f"{as_symbol(entry)}: what it costs each device"),
        data=data,
        style=_text("report.css"),
        licence=_text("dagre/dagre.min.js.LEGAL.txt"),
        dagre=_text("dagre/dagre.min.js"),
        graph=_text("graph.js"),
        script=_text("report.js"),
    )


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _json(report: ProgramReport) -> Json:
    """The fields of `--json`, and what only the page shows."""
    costs = report.layer_costs
    values = _Values(report)
    timeline = report.memory.timeline
    kinds = ("arguments", "results", "constants", "temporaries")
    fields = report.as_json()
    memory = report.memory.as_json() | {
        "timeline": [],
        "moments": [[each.op, each.location, each.bytes] for each in timeline],
        "kinds": {kind: [getattr(each, kind) for each in timeline] for kind in kinds},
    }
    proof = report.proof and {"answer": report.proof.answer, "text": str(report.proof)}
    return fields | {
        "proof": proof,
        "memory": memory,
        "asked": bool(report.removals),
        "alike": alike(report.communication),
        "events": [[*(getattr(each, name) for name in _EVENT)] for each in report.schedule.events],
        "tensors": list(values.tensors()),
        "ops": [
            values.op(op) | {"seconds": cost.seconds, "live": cost.live, "sends": cost.collectives}
            for op, cost in zip(report.layers.ops, costs, strict=True)
        ],
        "tree": fold(report.layers, costs, as_symbol(report.entry)).as_json(),
        "types": values.types,
        "drawings": values.drawings,
    }


class _Values:
    """The tensors of a program, and a drawing for each way in which one of them lies."""

    def __init__(self, report: ProgramReport) -> None:
        self.drawings: list[str] = []
        self.types: list[tuple[str, str, int | None]] = []
        """The types of values, with their shardings and the number of a drawing."""
        self._report = report
        self._drawn: dict[tuple[str, str], int] = {}
        self._numbers: dict[tuple[str, str], int] = {}

    def tensors(self) -> Iterator[Json]:
        """The named tensors that can be drawn."""
        for each in self._report.tensors:
            shape = "x".join(map(str, each.shape))
            text = sharding_text(each.sharding, each.grid)
            with suppress(ShardError):  # of too many dimensions or devices
                drawn = DrawnSharding(each.name, each.shape, each.sharding, each.grid)
                if (shape, text) not in self._drawn:
                    self._drawn[shape, text] = len(self.drawings)
                    self.drawings.append(drawn.to_html(title=False))
                yield {
                    "name": each.name,
                    "shape": shape or "a scalar",
                    "sharding": text,
                    "location": each.location,
                    "drawing": self._drawn[shape, text],
                }

    def op(self, op: LayeredOp) -> Json:
        """An op with its operands, each as the number of an op and of its output."""
        return {
            "name": op.name,
            "location": op.location,
            "given": op.layers == ARGUMENTS or op.name == BLOCK_ARGUMENTS,
            "inputs": [(each.op, each.output) for each in op.inputs],
            "outputs": [(each.name, self._type(each)) for each in op.outputs],
        }

    def _type(self, output: Output) -> int:
        key = output.type, output.sharding
        if key not in self._numbers:
            self._numbers[key] = len(self.types)
            shape = output.type.rpartition("x")[0]
            self.types.append((*key, self._drawn.get((shape, output.sharding))))
        return self._numbers[key]
