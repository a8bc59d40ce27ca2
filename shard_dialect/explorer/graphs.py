"""A report as a graph of Model Explorer: its nodes, and what the side panel tells of them.

Model Explorer shows the `shape` of the output at an edge, so the sharding is part of it. Layers are
namespaces.

Numbers for the nodes, by which Model Explorer colours them, are files of their own:

    model-explorer --node_data_paths=data/bytes-sent.json,data/microseconds.json ...

`report_on_file` is the report for the extension, which is given no options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shard_dialect import plugins
from shard_dialect.analysis.layered_costs import OpCost
from shard_dialect.analysis.layers import LayeredOp, Output
from shard_dialect.analysis.program_report import ProgramReport, report_on
from shard_dialect.analysis.reasons.communication import Collective
from shard_dialect.errors import MissingExtra, ShardError, as_symbol
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source

COMMUNICATES = "#ffd9a8"
"""The colour of ops that communicate."""


def graph_of_report(report: ProgramReport) -> Any:
    """The `Graph` of the entry. Raises `MissingExtra` without Model Explorer."""
    build = builder()
    if not report.layers.ops:
        raise ShardError(
            f"function {as_symbol(report.entry)} is in the lowered form, on buffers: show an "
            "earlier form"
        )
    costs = report.layer_costs
    nodes = [
        build.GraphNode(
            id=str(number),
            label=op.name,
            namespace="/".join(map(_in_path, op.layers)),
            attrs=[build.KeyValue(key, text) for key, text in _attributes(report, op, cost)],
            incomingEdges=[
                build.IncomingEdge(str(each.op), str(each.output), str(place))
                for place, each in enumerate(op.inputs)
            ],
            outputsMetadata=[
                build.MetadataItem(
                    str(place), [build.KeyValue(key, text) for key, text in _output(each)]
                )
                for place, each in enumerate(op.outputs)
            ],
            style=build.GraphNodeStyle(backgroundColor=COMMUNICATES) if cost.collectives else None,
        )
        for number, (op, cost) in enumerate(zip(report.layers.ops, costs, strict=True))
    ]
    return build.Graph(report.entry, nodes, _of_layers(report.layers.ops, costs))


def builder() -> Any:
    """Model Explorer's classes of graphs. Raises `MissingExtra`."""
    try:
        from model_explorer import graph_builder
    except ImportError:
        raise MissingExtra("ai-edge-model-explorer", "explorer") from None
    return graph_builder


def _in_path(layer: str) -> str:
    return layer.replace("/", "|")


def _output(output: Output) -> Iterator[tuple[str, str]]:
    yield "shape", f"{output.type} {output.sharding}".strip()
    yield "sharding", output.sharding or "none"
    yield "name", output.name


def _attributes(report: ProgramReport, op: LayeredOp, cost: OpCost) -> Iterator[tuple[str, str]]:
    if op.location:
        yield "location", op.location
    if cost.seconds:
        yield "microseconds", f"{cost.seconds * 1e6:.3g}"
    if cost.flops:
        yield "floating-point operations", f"{cost.flops:,}"
    if cost.live is not None:
        yield "live bytes", f"{cost.live:,}"
    for number in cost.collectives:
        yield from _collective(number + 1, report.communication[number])


def _collective(number: int, collective: Collective) -> Iterator[tuple[str, str]]:
    axes = ", ".join(collective.axes)
    yield f"#{number}", f"{collective.kind} along {axes}, {collective.group} devices"
    yield f"#{number} bytes sent", f"{collective.bytes:,}"
    yield f"#{number} microseconds", f"{collective.seconds * 1e6:.3g}"
    if collective.times != 1:
        yield f"#{number} runs", f"{collective.times:,}"
    for place, step in enumerate(collective.why, 1):
        yield f"#{number} why {place}", str(step)


def _of_layers(ops: Sequence[LayeredOp], costs: Sequence[OpCost]) -> dict[str, dict[str, str]]:
    """For each layer, and for the whole graph as the layer "", the sums over its ops."""
    sums: dict[str, list[float]] = {}
    for op, cost in zip(ops, costs, strict=True):
        for depth in range(len(op.layers) + 1):
            of = sums.setdefault("/".join(map(_in_path, op.layers[:depth])), [0.0, 0.0, 0.0])
            of[0] += cost.seconds * 1e6
            of[1] += cost.bytes_sent
            of[2] += cost.flops
    return {
        layer: {
            "microseconds": f"{seconds:.3g}",
            "bytes sent": f"{sent:,.0f}",
            "floating-point operations": f"{flops:,.0f}",
        }
        for layer, (seconds, sent, flops) in sums.items()
    }


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
            f"function {as_symbol(report.entry)} is in the lowered form, on buffers: it has no "
            "such graph"
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


def report_on_file(path: str) -> ProgramReport:
    """The report on a module in any form, with its times on the default device model.

    Raises `ShardError` for what cannot be read or partitioned.
    """
    plugins.load()
    source = Source.read(path)
    with make_context(), source.file_locations():
        return report_on(source.parse(), file_text=source.file_text)
