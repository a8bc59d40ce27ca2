"""Write a report as an HTML page: templates and values, no computation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from shard_dialect.analysis.drawing.drawn_sharding import DrawnSharding
from shard_dialect.analysis.drawing.named_shardings import NamedSharding
from shard_dialect.analysis.layers.scopes import Layers
from shard_dialect.analysis.page import page_layout
from shard_dialect.analysis.page.program_graph import LayerGraph, Node, graphs_of
from shard_dialect.analysis.program_report import ProgramReport
from shard_dialect.errors import MissingExtra, ShardError

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class _Tensor:
    name: str
    text: str
    drawing: int


class _Tensors:
    """The tensors of a program, and a drawing for each way in which one of them lies."""

    def __init__(self, tensors: Sequence[NamedSharding]) -> None:
        self.drawings: list[str] = []
        self.tensors: list[_Tensor] = []
        known: dict[object, int] = {}
        for each in tensors:
            with suppress(ShardError):  # of too many dimensions or devices
                drawn = DrawnSharding(each.name, each.shape, each.sharding, each.grid)
                key = (each.shape, each.sharding)
                if key not in known:
                    known[key] = len(self.drawings)
                    self.drawings.append(drawn.to_html(title=False))
                self.tensors.append(_Tensor(each.name, drawn.description, known[key]))


def report_html(report: ProgramReport) -> str:
    """Return a report as one HTML page with pictures, which needs no network.

    Raises `MissingExtra` without Jinja.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise MissingExtra("jinja2", "html") from None
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": bytes_text, "time": time_text, "count": count_text}
    page = _Page(report)
    return environment.get_template("report.html.j2").render(
        report=report,
        page=page,
        layout=page_layout,
        tensors=_Tensors(report.tensors),
        style=(_FOLDER / "report.css").read_text(encoding="utf-8"),
        script=(_FOLDER / "report.js").read_text(encoding="utf-8"),
    )


@dataclass(frozen=True)
class _Drawn:
    """A graph, its layout, and the graphs of the layers that it is in, by number and name."""

    graph: LayerGraph
    layout: page_layout.GraphLayout
    around: tuple[tuple[int, str], ...]


class _Page:
    """What the template asks for."""

    def __init__(self, report: ProgramReport) -> None:
        self._report = report
        self.ops = report.layers.ops
        self.costs = report.layer_costs

    @cached_property
    def graphs(self) -> list[_Drawn]:
        """The graph of the program, and those of its layers."""
        graphs = graphs_of(self._report.layers, self.costs)
        self._numbers = {graph.layer: number for number, graph in enumerate(graphs)}
        return [
            _Drawn(
                graph,
                page_layout.layout_of(graph),
                tuple(
                    (self._numbers[graph.layer[:depth]], graph.layer[depth - 1] if depth else "")
                    for depth in range(len(graph.layer) + 1)
                ),
            )
            for graph in graphs
        ]

    def number_of(self, layer: Layers) -> int:
        """The number of a layer's graph."""
        return self._numbers[layer]

    @property
    def most_bytes(self) -> int:
        """The bytes of the collective that moves most."""
        return max((each.bytes for each in self._report.communication), default=0) or 1

    def bytes_in(self, node: Node) -> int:
        """What is sent in a node."""
        return sum(self._report.communication[number].bytes for number in node.collectives)

    def title(self, node: Node) -> str:
        """The first line in a node's box."""
        if node.layer is not None:
            return node.layer[-1]
        if node.is_collective:
            number = node.collectives[0]
            return f"#{number + 1} {self._report.communication[number].kind}"
        if len(node.ops) == 1:
            return self.ops[node.ops[0]].name
        return f"{len(node.ops)} ops"

    def subtitle(self, node: Node) -> str:
        """The second line in a node's box."""
        seconds = sum(self.costs[number].seconds for number in node.ops)
        if node.is_collective:
            found = self._report.communication[node.collectives[0]]
            return f"{', '.join(found.axes)} · {bytes_text(found.bytes)}"
        if node.layer is not None:
            return f"{time_text(seconds)} · sends {bytes_text(self.bytes_in(node))}"
        costly = max(node.ops, key=lambda number: self.costs[number].seconds)
        return f"{time_text(seconds)} · {self.ops[costly].name.split('.')[-1]}"

    def result(self, number: int) -> str:
        """The type and the sharding of an op's first result."""
        first = next(iter(self.ops[number].outputs), None)
        return f"{first.type} {first.sharding}" if first else ""


def bytes_text(number: float) -> str:
    """Bytes for people, in binary units.

    >>> bytes_text(1536)
    '1.5 KiB'
    """
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:.4g} {unit}"
        number /= 1024
    return f"{number:.4g} TiB"


def time_text(seconds: float) -> str:
    """A time for people.

    >>> time_text(0.0000125)
    '12.5 µs'
    >>> time_text(9.55e-13)
    'under 1 ns'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    if 0 < seconds < 1e-9:
        return "under 1 ns"
    return f"{seconds * 1e9:.3g} ns"


def count_text(number: float) -> str:
    """A number of operations for people.

    >>> count_text(2_500_000)
    '2.5 M'
    """
    for unit in ("", " k", " M", " G"):
        if abs(number) < 1000:
            return f"{number:.4g}{unit}"
        number /= 1000
    return f"{number:.4g} T"
