"""One sharding drawn: the blocks of a tensor, and the devices that hold each.

    x: 8x6 as [[0], [1]] on @g(2x2)
             0..3   3..6
    0..4  |   0   |   1   |
    4..8  |   2   |   3   |

The last two dimensions are the rows and columns of a table; the blocks of the others have a table
each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from itertools import product

from rich.console import Console
from rich.table import Table

from shard_dialect.errors import ShardError
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.sharding import Shape

Block = tuple[tuple[int, int], ...]
"""For each dimension, where a block begins and ends."""
_HIGHEST_RANK = 4
_MOST_BLOCKS = 4096
_STYLES = ("black on cyan", "black on yellow", "black on green", "black on magenta")


@dataclass(frozen=True)
class DrawnSharding:
    """How a tensor lies on the grid; printed as text, shown in notebooks as HTML."""

    name: str
    shape: Shape
    sharding: Sharding
    grid: Grid

    def __post_init__(self) -> None:
        if len(self.shape) > _HIGHEST_RANK:
            raise ShardError(
                f"{self.name} has {len(self.shape)} dimensions: up to {_HIGHEST_RANK} are drawn"
            )
        if self.grid.size > _MOST_BLOCKS:
            raise ShardError(
                f"@{self.grid.name} has {self.grid.size} devices: up to {_MOST_BLOCKS} are drawn"
            )

    def holders(self) -> dict[Block, list[int]]:
        """The devices that hold each block: several, where it is replicated or partial."""
        found: dict[Block, list[int]] = {}
        for rank in range(self.grid.size):
            shard = self.sharding.shard(rank, self.shape, self.grid)
            block = tuple((each.start, each.stop) for each in shard)
            found.setdefault(block, []).append(rank)
        return found

    def __str__(self) -> str:
        console = Console(width=200, color_system=None, force_terminal=False)
        return self._rendered(console)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, *, title: bool = True) -> str:
        """The drawing as HTML, with or without the line that names it."""
        console = Console(width=200, record=True, file=StringIO())
        for part in list(self._parts())[0 if title else 1 :]:
            console.print(part, highlight=False)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def to_terminal(self) -> str:
        """The text with the colours of a terminal."""
        return self._rendered(Console(force_terminal=True))

    def _rendered(self, console: Console) -> str:
        with console.capture() as capture:
            for part in self._parts():
                console.print(part, highlight=False)
        return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"

    def _parts(self) -> Iterator[str | Table]:
        yield _escaped(self._title())
        holders = self.holders()
        rank = len(self.shape)
        intervals = [
            sorted({block[dim] for block in holders if block[dim][0] < block[dim][1]})
            for dim in range(rank)
        ]
        styles = {block: _STYLES[n % len(_STYLES)] for n, block in enumerate(sorted(holders))}
        for outer in product(*intervals[: max(rank - 2, 0)]):
            if outer:
                yield _escaped("at " + ", ".join(map(_interval, outer)))
            yield _table(outer, intervals[max(rank - 2, 0) :], holders, styles)
        yield from map(_escaped, self._notes())

    def _title(self) -> str:
        return f"{self.name}: {self.description}"

    @property
    def description(self) -> str:
        """The shape, the sharding and the grid, as text."""
        split = ", ".join(self.grid.axes_text(axes) for axes in self.sharding.split_axes)
        shape = "x".join(map(str, self.shape)) or "a scalar"
        grid = "x".join(map(str, self.grid.shape))
        return f"{shape} as [{split}] on @{self.grid.name} of {grid} devices"

    def _notes(self) -> Iterator[str]:
        sharding = self.sharding
        if sharding.partial:
            along = self.grid.axes_text(sharding.partial)
            yield f"partial {sharding.reduction}s along {along}: the devices of a block have parts"
        for dim, size in enumerate(self.shape):
            low, high = sharding.halo(dim)
            if low or high:
                yield f"dimension {dim}: each block with a halo of {low} before and {high} after it"
            local = sharding.local_shape(self.shape, self.grid)[dim] - low - high
            count = self.grid.axes_size(sharding.split_axes[dim])
            if local * count != size and not sharding.offsets:
                yield f"dimension {dim}: uneven, every device has room for {local}"
        without = [
            rank
            for block, ranks in self.holders().items()
            if any(begin == end for begin, end in block)
            for rank in ranks
        ]
        if without:
            yield f"none of it on device {_devices(sorted(without))}"


def _table(
    outer: Block,
    intervals: list[list[tuple[int, int]]],
    holders: dict[Block, list[int]],
    styles: dict[Block, str],
) -> Table:
    """A table of the blocks in the last two dimensions, or the last one."""
    rows = intervals[-2] if len(intervals) > 1 else [None]
    columns = intervals[-1] if intervals else [None]
    table = Table(show_header=intervals != [], show_lines=True)
    if len(intervals) > 1:
        table.add_column("")
    for column in columns:
        table.add_column(_interval(column) if column else "", justify="center")
    for row in rows:
        blocks = [
            (*outer, *((row,) if row else ()), *((column,) if column else ())) for column in columns
        ]
        cells = [
            f"[{styles[block]}] {_devices(holders[block])} [/]" if block in holders else ""
            for block in blocks
        ]
        table.add_row(*([_interval(row)] if row else []), *cells)
    return table


def _interval(ends: tuple[int, int]) -> str:
    return f"{ends[0]}..{ends[1]}"


def _devices(ranks: list[int]) -> str:
    """Device numbers, runs of three or more of them shortened.

    >>> _devices([0, 1, 2, 3, 6])
    '0-3,6'
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    return ",".join(texts)


def _escaped(text: str) -> str:
    """Text in which rich sees no markup."""
    return text.replace("[", r"\[")
