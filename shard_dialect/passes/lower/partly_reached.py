"""Collectives that some devices may reach more often than others.

    %i = shard.process_multi_index on @g axes = [0] : index
    %r = scf.index_switch %i -> tensor<2xf32>
    case 0 {
      %1 = shard.shift %0 on @g grid_axes = [1] ...       the devices at index 0 of axis 0 alone

Values decide which branch is taken, and how often a loop runs. From the arguments on, also through
calls, each value is followed by its classes: the devices of one class hold the same.

    %x, split along axis 0 of 2x2              0, 0, 1, 1: devices 0 and 1 hold one shard
    the device's index                         0, 1, 2, 3
    shard.all_gather %x along axis 0           0, 0, 0, 0

Any op but a collective computes the same from the same operands.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from shard_dialect.collectives import LocalStep
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.ir.bindings import ir
from shard_dialect.ir.diagnostics import located
from shard_dialect.ir.function import boundary, functions_of, name_of
from shard_dialect.ir.mesh.attributes import ARGUMENT, STAGE, symbol
from shard_dialect.ir.mesh.sharding_attributes import Shardings
from shard_dialect.ir.shard.local_collectives import read_local
from shard_dialect.ir.walk import body, operations, walk
from shard_dialect.model import Grid, SubAxis
from shard_dialect.passes.calls import Calls

_Classes = int
"""A number for what devices are in one class."""
_SAME, _DISTINCT = 0, 1
"""All devices are in one class, or each is in one of its own."""
_Values = dict[ir.Value, _Classes]

_INDEX_ALONG = "shard.process_multi_index"
_INDEX = (
    _INDEX_ALONG,
    "mesh.idx",
    "shard.process_linear_index",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
)
"""The ops whose results differ from device to device."""
_BRANCHES = ("scf.if", "scf.index_switch", "stablehlo.case", "stablehlo.if")
"""The ops whose first operand decides which of their regions runs."""


def partly_reached(module: ir.Operation) -> set[ir.Operation]:
    """The collectives of the local form that not all devices reach, or not as often, if any.

    Raises a located `ShardError` for recursion.
    """
    return _Reach(module).found


def reached_apart(module: ir.Operation) -> set[ir.Operation]:
    """Those of them that one device of a group may reach, and another one not, or not as often.

    Raises a located `ShardError` for recursion.
    """
    return _Reach(module).apart


class _Reach:
    def __init__(self, module: ir.Operation) -> None:
        self._shardings = Shardings.of(module)
        self._functions = {name_of(each): each for each in functions_of(module)}
        sizes = [grid.size for grid in self._shardings.grids.values() if grid.is_static]
        self._ranks = range(max(sizes, default=1))
        self._listed: list[tuple[int, ...]] = []
        """Each device's class, of each `_Classes`."""
        self._numbers: dict[tuple[int, ...], _Classes] = {}
        self._numbered([0 for _ in self._ranks])
        self._numbered(self._ranks)
        self._known: dict[Hashable, _Classes] = {}
        self._returned: dict[Hashable, list[_Classes]] = {}
        self.found: set[ir.Operation] = set()
        self.apart: set[ir.Operation] = set()
        Calls(module).refuse_recursion()
        calls = [op for each in self._functions.values() for op in walk(each) if _is_call(op)]
        called = {symbol(op.attributes["callee"]) for op in calls}
        for name, function in self._functions.items():
            if name not in called:
                arguments = list(map(self._argument, boundary(function, "arg_attrs")))
                self._function(name, arguments, _SAME)

    def _argument(self, attributes: dict[str, ir.Attribute]) -> _Classes:
        if STAGE in attributes:
            return _DISTINCT
        type_ = attributes[ARGUMENT].value if ARGUMENT in attributes else None
        sharding = self._shardings.of_type(type_)
        if sharding is None:
            return _SAME
        grid = self._shardings.grid(sharding.grid)
        return self._numbered([_position(grid, rank, sharding.axes) for rank in self._ranks])

    def _function(self, name: str, arguments: list[_Classes], decided: _Classes) -> list[_Classes]:
        """What a function returns; `decided` are those that reach this call together."""
        key = (name, tuple(arguments), decided)
        if key not in self._returned:
            block = body(self._functions[name])
            values = dict(zip(block.arguments, arguments, strict=True))
            self._returned[key] = self._block(block, values, decided)
        return self._returned[key]

    def _block(self, block: ir.Block, values: _Values, decided: _Classes) -> list[_Classes]:
        """Follow the block's ops; return the classes of its end's operands."""
        *inside, last = operations(block)
        for op in inside:
            values.update(zip(op.results, self._results(op, values, decided), strict=True))
        return [values[each] for each in last.operands]

    def _results(self, op: ir.Operation, values: _Values, decided: _Classes) -> list[_Classes]:
        operands = [values[each] for each in op.operands]
        if _is_call(op):
            return self._function(symbol(op.attributes["callee"]), operands, decided)
        if op.name in _BRANCHES:
            decided = self._joined([decided, operands[0]])
            ends = [self._block(each, values, decided) for each in _blocks(op)]
            return [self._joined([operands[0], *each]) for each in zip(*ends, strict=True)]
        if op.name == "scf.for":
            return self._counted(op, operands, values, decided)
        if op.name in ("scf.while", "stablehlo.while"):
            return self._conditional(op, operands, values, decided)
        found = self._of_op(op, operands, values, decided)
        return [found for _ in op.results]

    def _counted(
        self, op: ir.Operation, operands: list[_Classes], values: _Values, decided: _Classes
    ) -> list[_Classes]:
        """A loop between bounds."""
        bounds, carried = self._joined(operands[:3]), operands[3:]
        (block,) = _blocks(op)
        while True:
            values.update(zip(block.arguments, [bounds, *carried], strict=True))
            ends = self._block(block, values, self._joined([decided, bounds]))
            more = self._joined_each(carried, ends)
            if more == carried:
                return self._joined_each(carried, [bounds for _ in carried])
            carried = more

    def _conditional(
        self, op: ir.Operation, carried: list[_Classes], values: _Values, decided: _Classes
    ) -> list[_Classes]:
        """A loop whose first region decides whether its second one runs.

        In `scf` the first passes values on to the second and to the results.
        """
        first, second = _blocks(op)
        while True:
            values.update(zip(first.arguments, carried, strict=True))
            goes_on, *passed = self._block(first, values, decided)
            passed = passed if op.name == "scf.while" else carried
            values.update(zip(second.arguments, passed, strict=True))
            going = self._joined([decided, goes_on])
            ends = self._block(second, values, going)
            more = self._joined_each(carried, ends)
            if (more, going) == (carried, decided):
                return self._joined_each(passed, [going for _ in passed])
            carried, decided = more, going

    def _of_op(
        self, op: ir.Operation, operands: list[_Classes], values: _Values, decided: _Classes
    ) -> _Classes:
        """The classes of all results of an op of no function's control flow."""
        if op.name == _INDEX_ALONG:
            of = self._shardings.grid(symbol(op.attributes["grid"]))
            axes = tuple(op.attributes["axes"]) if "axes" in op.attributes else ()
            positions = [_position(of, each, axes or range(of.rank)) for each in self._ranks]
            return self._numbered(positions)
        if op.name in _INDEX:
            return _DISTINCT
        read = None
        if _is_ours(op):
            with located(op):
                read = read_local(op.name, op.attributes)
        if read is not None:
            grid, step = read
            on = self._shardings.grid(grid)
            if decided != _SAME:
                self.found.add(op)
                if any(self._differ(decided, group) for group in on.groups(step.axes)):
                    self.apart.add(op)
            return self._after(on, step, self._joined(operands))
        if any(_is_call(each) or each.name in _INDEX or _is_ours(each) for each in _inside(op)):
            return _DISTINCT
        captured = [values[v] for each in _inside(op) for v in each.operands if v in values]
        return self._joined([*operands, *captured])

    def _differ(self, classes: _Classes, ranks: Sequence[int]) -> bool:
        return len({self._listed[classes][rank] for rank in ranks}) > 1

    def _after(self, grid: Grid, step: LocalStep, before: _Classes) -> _Classes:
        """The classes of what a collective gives each device of what all of its group have."""
        is_same = record_of(step).is_uniform_after
        key = (grid, step.axes, is_same, before)
        if key not in self._known:
            held, after = self._listed[before], dict[int, Hashable]()
            for group in grid.groups(step.axes):
                of_group = tuple(held[rank] for rank in group)
                for position, rank in enumerate(group):
                    after[rank] = of_group if is_same else (of_group, position)
            self._known[key] = self._numbered([after.get(rank, rank) for rank in self._ranks])
        return self._known[key]

    def _joined_each(self, some: Sequence[_Classes], others: Sequence[_Classes]) -> list[_Classes]:
        return [self._joined(pair) for pair in zip(some, others, strict=True)]

    def _joined(self, each: Iterable[_Classes]) -> _Classes:
        """The devices that are in one class in each of these."""
        key = frozenset(each) - {_SAME}
        if len(key) < 2:
            return next(iter(key), _SAME)
        if key not in self._known:
            columns = zip(*(self._listed[number] for number in sorted(key)), strict=True)
            self._known[key] = self._numbered(list(columns))
        return self._known[key]

    def _numbered(self, keys: Sequence[Hashable]) -> _Classes:
        """The classes of devices with equal keys, one for each rank."""
        first: dict[Hashable, int] = {}
        classes = tuple(first.setdefault(key, len(first)) for key in keys)
        if classes not in self._numbers:
            self._numbers[classes] = len(self._listed)
            self._listed.append(classes)
        return self._numbers[classes]


def _position(grid: Grid, rank: int, axes: Sequence[int | SubAxis]) -> Hashable:
    return grid.index_along(rank, axes) if rank < grid.size else ("beyond", rank)


def _is_call(op: ir.Operation) -> bool:
    return op.name == "func.call"


def _is_ours(op: ir.Operation) -> bool:
    return op.name.startswith(("mesh.", "shard."))


def _blocks(op: ir.Operation) -> list[ir.Block]:
    return [block for region in op.regions for block in region.blocks]


def _inside(op: ir.Operation) -> Iterator[ir.Operation]:
    yield from walk(op) if len(op.regions) else ()
