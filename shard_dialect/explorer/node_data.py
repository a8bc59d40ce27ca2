"""Numbers for the nodes of Model Explorer's graph, by which it colours them.

model-explorer --node_data_paths=data/bytes-sent.json,data/microseconds.json ...
"""

from __future__ import annotations

from typing import Any

from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.errors import MissingExtra, ShardError

_FROM, _TO = "#fff7e6", "#e8590c"


def node_data_of(report: ProgramReport) -> dict[str, str]:
    """For each number that is shown, its file's name and text.

    Raises `MissingExtra` without Model Explorer.
    """
    try:
        from model_explorer import node_data_builder as build
    except ImportError:
        raise MissingExtra("ai-edge-model-explorer", "explorer") from None
    if not report.layers.ops:
        raise ShardError(
            f"function @{report.entry} is in the lowered form, on buffers: it has no such graph"
        )
    costs = list(enumerate(report.layer_costs))
    values: dict[str, dict[int, float]] = {
        "bytes sent": {number: cost.bytes_sent for number, cost in costs if cost.collectives},
        "microseconds": {number: cost.seconds * 1e6 for number, cost in costs if cost.seconds},
        "live bytes": {number: cost.live for number, cost in costs if cost.live is not None},
    }

    def text(name: str, found: dict[int, float]) -> str:
        data: Any = build.GraphNodeData(
            {str(number): build.NodeDataResult(value) for number, value in found.items()},
            name,
            gradient=[build.GradientItem(0, _FROM), build.GradientItem(1, _TO)],
        )
        whole: str = build.ModelNodeData({report.entry: data}).to_json_string(indent=2)
        return whole + "\n"

    return {f"{name.replace(' ', '-')}.json": text(name, found) for name, found in values.items()}
