"""Draw shardings: the blocks of a tensor, and the devices that hold each.

    x: 8x6 as [[0], [1]] on @g(2x2)
             0..3   3..6
    0..4  |   0   |   1   |
    4..8  |   2   |   3   |

The last two dimensions are the rows and columns of a table; the blocks of the others have a table
each.

`named_shardings` lists the tensors of a propagated function by name, with the origins of their
shardings; `typed_shardings` those of the distributed form, by their types.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO
from itertools import product

from rich.console import Console
from rich.table import Table

from shard_dialect.analysis.changes.annotations import Site, annotations_in
from shard_dialect.analysis.changes.what_if_question import names_of
from shard_dialect.analysis.reasons.function_values import FunctionValues
from shard_dialect.analysis.reasons.split_trace import SplitTrace
from shard_dialect.analysis.reasons.why import Reason
from shard_dialect.errors import ShardError, as_symbol
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import location_text
from shard_dialect.ir.function import functions_of, name_of
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.numbered_function import read_functions
from shard_dialect.ir.printed_names import PrintedAs, printed_names
from shard_dialect.ir.walk import walk
from shard_dialect.model import Grid, Sharding
from shard_dialect.model.notebook_html import print_text
from shard_dialect.model.sharding import Shape
from shard_dialect.passes.propagate.origins import Origins
from shard_dialect.propagation.graph import NO_TENSOR

Block = tuple[tuple[int, int], ...]
"""For each dimension, where a block begins and ends."""
_HIGHEST_RANK = 4
_MOST_BLOCKS = 4096
_STYLES = ("black on cyan", "black on yellow", "black on green", "black on magenta")


@dataclass(frozen=True)
class DrawnSharding:
    """A drawing of which device holds what of a tensor, as text, or in notebooks as HTML."""

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
                f"{as_symbol(self.grid.name)} has {self.grid.size} devices: up to {_MOST_BLOCKS} "
                "are drawn"
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
        console = Console(width=200, color_system=None, force_terminal=False, force_jupyter=False)
        return self._rendered(console)

    _repr_pretty_ = print_text

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, *, title: bool = True) -> str:
        """The drawing as HTML, with or without the line that names it."""
        console = Console(width=200, record=True, file=StringIO(), force_jupyter=False)
        for part in list(self._parts())[0 if title else 1 :]:
            console.print(part, highlight=False)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def to_terminal(self) -> str:
        """The text with the colours of a terminal."""
        return self._rendered(Console(force_terminal=True, force_jupyter=False))

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
        return f"{shape} as [{split}] on {as_symbol(self.grid.name)} of {grid} devices"

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


@dataclass(frozen=True)
class NamedSharding:
    """The sharding of a tensor, its name, and the place of its op."""

    names: tuple[str, ...]
    """From the least telling one, `arg0`, to what the file says."""
    shape: Shape
    sharding: Sharding
    grid: Grid
    location: str | None
    _number: int | None = field(default=None, repr=False, compare=False)
    """The number of its value in the graph of `_origins`."""
    _origins: Origins | None = field(default=None, repr=False, compare=False)
    given_steps: tuple[Reason, ...] = field(default=(), repr=False, compare=False)
    """The steps of a tensor that was not propagated."""

    def __getstate__(self) -> dict[str, object]:
        """With the steps, in the place of the graph that they are found in."""
        settled = {"_number": None, "_origins": None, "given_steps": tuple(self.steps())}
        return self.__dict__ | settled

    @property
    def name(self) -> str:
        """The most telling name."""
        return self.names[-1]

    @property
    def text(self) -> str:
        """The axes of each dimension, by name if the grid has names: `[["data"], []]`."""
        split = ", ".join(self.grid.axes_text(axes) for axes in self.sharding.split_axes)
        partial = self.sharding.partial
        return f"[{split}]" + (f", partial over {self.grid.axes_text(partial)}" if partial else "")

    def steps(self) -> list[Reason]:
        """For each split, the steps of propagation back to an annotation; the last one is its."""
        if self._origins is None or self._number is None:
            return list(self.given_steps)
        known = self._origins.engine.known(self._number)
        notes = [
            note
            for dim, axes in enumerate(known.sharding.split_axes if known else ())
            if axes
            for note in self._origins.chain(self._number, dim)
        ]
        return [Reason(note.message, note.location) for note in dict.fromkeys(notes)]


def named_shardings(
    module: ir.Operation, entry: str, printed_as: PrintedAs, origins: Origins | None = None
) -> Iterator[NamedSharding]:
    """The shardings of a function's arguments and results, then those of its ops.

    The module is in our vocabulary, and printed in that of its file. An op has the name that it is
    printed with, as in `%3`. `origins` are those of the propagation of this module.
    """
    shardings = Shardings.of(module)
    numbers = _Numbers(entry, origins)
    for each in annotations_in(module):
        if each.site.function == entry and each.annotation is not None:
            sharding = each.annotation.sharding
            yield NamedSharding(
                names_of(each),
                each.shape,
                sharding,
                shardings.grid(sharding.grid),
                each.location,
                numbers.at(each.site),
                origins,
            )
    names = printed_names(module, printed_as)
    function = next(op for op in functions_of(module) if name_of(op) == entry)
    for op in walk(function):
        by_result = shardings.of_results(op) if len(op.results) else {}
        for number, annotation in by_result.items():
            result = op.results[number]
            sharding = annotation.sharding
            yield NamedSharding(
                (names.get(result, "%sharding_annotated"),),
                tuple(result.type.shape),
                sharding,
                shardings.grid(sharding.grid),
                location_text(op.location),
                numbers.of(result),
                origins,
            )


class _Numbers:
    """The numbers of a function's values in the graph through which shardings propagated."""

    def __init__(self, entry: str, origins: Origins | None) -> None:
        self._by_handle: dict[ir.Value, int] = {}
        self._by_site: dict[Site, int] = {}
        graph = origins.graph if origins else None
        for index, function in enumerate(graph.functions if graph else ()):
            assert graph is not None, "it has functions"
            if function.name != entry:
                continue
            for number, value in enumerate(function.values):
                self._by_handle[value.handle] = graph.number_of(index, number)
            for place, number in enumerate(function.arguments):
                self._by_site[Site("argument", entry, place)] = graph.number_of(index, number)
            for (of, place), number in graph.exits.items():
                if of == index:
                    self._by_site[Site("result", entry, place)] = number

    def at(self, site: Site) -> int | None:
        return self._known(self._by_site.get(site))

    def of(self, value: ir.Value) -> int | None:
        return self._known(self._by_handle.get(value))

    def _known(self, number: int | None) -> int | None:
        return None if number == NO_TENSOR else number


def typed_shardings(module: ir.Operation, entry: str) -> Iterator[NamedSharding]:
    """The arguments, then the results of ops, each with the way back to an argument's type."""
    handle = next(op for op in functions_of(module) if name_of(op) == entry)
    (function,) = read_functions([handle])
    shardings, state = Shardings.of(module), ir.AsmState(handle)
    values = FunctionValues(function, shardings, None)
    arguments = {
        each.site.number: names_of(each)
        for each in annotations_in(module)
        if (each.site.kind, each.site.function) == ("argument", entry)
    }
    for number, value in enumerate(function.values):
        sharding = values.sharding(number)
        if sharding is None or value.shape is None:
            continue
        names: tuple[str, ...] = (value.handle.get_name(state),)
        owner = value.handle.owner
        if number in function.arguments:
            names += arguments.get(function.arguments.index(number), ())
        placed = value.handle if isinstance(owner, ir.Block) else owner
        yield NamedSharding(
            names,
            tuple(value.shape),
            sharding,
            shardings.grid(sharding.grid),
            location_text(placed.location),
            given_steps=tuple(SplitTrace(values).steps(number, sharding.axes)),
        )
