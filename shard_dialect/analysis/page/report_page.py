"""Write a report as an HTML page: templates and values, no computation."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from shard_dialect.analysis.costs.timeline import Item
from shard_dialect.analysis.drawing.drawn_sharding import DrawnSharding
from shard_dialect.analysis.drawing.named_shardings import NamedSharding
from shard_dialect.analysis.page import page_layout
from shard_dialect.analysis.page.program_graph import Node, ProgramGraph, graph_of
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


class _Page:
    """What the template asks for."""

    def __init__(self, report: ProgramReport) -> None:
        self._report = report

    @cached_property
    def graph(self) -> ProgramGraph:
        return graph_of(self._report.program, self._report.prices)

    @cached_property
    def graph_layout(self) -> page_layout.GraphLayout:
        return page_layout.layout_of(self.graph)

    @property
    def most_bytes(self) -> int:
        """The bytes of the collective that moves most."""
        return max((each.bytes for each in self._report.communication), default=0) or 1

    def title(self, node: Node) -> str:
        """The first line in a node's box."""
        if node.collective is not None:
            return f"#{node.collective + 1} {self._report.communication[node.collective].kind}"
        if len(node.items) == 1:
            return node.items[0].op.name
        return f"{len(node.items)} ops"

    def subtitle(self, node: Node) -> str:
        """The second line in a node's box."""
        if node.collective is not None:
            found = self._report.communication[node.collective]
            return f"{', '.join(found.axes)} · {bytes_text(found.bytes)}"
        costly = max(node.items, key=lambda item: item.time.seconds)
        return f"{time_text(node.seconds)} · {costly.op.name.split('.')[-1]}"

    def result(self, item: Item) -> str:
        """The local type of an op's first result."""
        return next((str(each.tensor) for each in item.op.results if each.tensor), "")


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
