"""Along which axes of the devices a value of the local form varies.

    %x on a grid of 2x2, split along axis 0     varies along axis 0: devices 0 and 1 hold one shard
    shard.all_gather %x along axis 0            varies along none: all four hold the same

Devices that differ only along other axes hold equal data, and an op does the same arithmetic on all
devices along whose axes no operand varies. The axes follow from the shardings of the arguments, the
collectives and the ops that ask for the device's index; an op without collectives mixes nothing.

The axes are those of one grid on which the shardings and collectives of all grids can be said; what
cannot be said on it varies along every axis of it. So may data that a permutation moves, even where
all devices held the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

from shard_dialect.analysis.costs.local_ops import Block, BoundaryInfo, Function, LocalProgram, Op
from shard_dialect.collectives.collective_table import record_of
from shard_dialect.ir.numbered_function import LOOPS
from shard_dialect.model import Grid
from shard_dialect.model.grid import full_axis
from shard_dialect.model.grid_refinement import Use, common_refinements

Varying = frozenset[int]
"""Axes of the common grid."""

_ASKS_FOR_INDEX = (
    "mesh.idx",
    "shard.process_multi_index",
    "shard.process_linear_index",
    "shard.neighbors_linear_indices",
    "shard.shard_shape",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
)
_NONE: Varying = frozenset()


def distinct_devices(program: LocalProgram) -> dict[int, int]:
    """How many devices read different data in each op, by the op's `id`, over all its calls.

    The others do what one of these does.
    """
    return _Variation(program).run()


class _Variation:
    def __init__(self, program: LocalProgram) -> None:
        self._program = program
        refinements = common_refinements(self._uses())
        fine = next(
            (found.fine if found else grid for (grid, _), found in refinements.items()),
            Grid("devices", (program.devices,)),
        )
        self._sizes = fine.sizes_along(range(fine.rank))
        self._every: Varying = frozenset(range(fine.rank))
        self._axes = {
            use: frozenset(map(full_axis, found.refined_axes(use[1]) if found else use[1]))
            for use, found in refinements.items()
            if (found.fine if found else use[0]) == fine
        }
        self._of_ops: dict[int, Varying] = {}

    def _uses(self) -> Iterator[Use]:
        """The axes of shardings and collectives, on grids of all devices."""
        program = self._program
        for info in program.entry.arguments:
            if info.sharding is not None:
                grid = program.grids[info.sharding.grid]
                if grid.size == program.devices:
                    yield grid, info.sharding.axes
        for op, _, _ in program.walk():
            if op.step is not None and op.grid is not None and op.grid.size == program.devices:
                yield op.grid, tuple(op.step.axes)

    def run(self) -> dict[int, int]:
        entry = self._program.entry
        self._function(entry, [self._argument(each) for each in entry.arguments])
        return {
            number: prod(self._sizes[axis] for axis in varying)
            for number, varying in self._of_ops.items()
        }

    def _argument(self, info: BoundaryInfo) -> Varying:
        if info.global_shape is None and info.tensor is not None:
            return self._every  # nothing says what devices get
        if info.sharding is None:
            return _NONE
        grid = self._program.grids[info.sharding.grid]
        return self._axes.get((grid, info.sharding.axes), self._every)

    def _function(self, function: Function, arguments: list[Varying]) -> list[Varying]:
        values: dict[int, Varying] = {}
        if len(function.blocks) > 1:  # a graph of blocks: the same for all that any block reads
            return self._unstructured(function, arguments)
        for value, varying in zip(function.body.arguments, arguments, strict=True):
            values[value.number] = varying
        return self._block(function.body, values)

    def _unstructured(self, function: Function, arguments: list[Varying]) -> list[Varying]:
        varying = _joined(arguments)
        if any(op.step or op.name in _ASKS_FOR_INDEX for op in function.walk()):
            varying = self._every
        for op in function.walk():
            self._note(op, varying)
            if op.callee:
                self._function(op.callee, [varying] * len(op.callee.arguments))
        return [varying] * len(function.results)

    def _block(self, block: Block, values: dict[int, Varying]) -> list[Varying]:
        """Follow the block's ops; return along which its end's operands vary."""
        for op in block.ops:
            for value, varying in zip(op.results, self._op(op, values), strict=True):
                values[value.number] = varying
        return [values[each.number] for each in block.ops[-1].operands]

    def _op(self, op: Op, values: dict[int, Varying]) -> list[Varying]:
        operands = [values[each.number] for each in op.reads]
        read = _joined(operands)
        self._note(op, read)
        if op.callee:
            return self._function(op.callee, operands)
        if op.name in LOOPS:
            return self._loop(op, values)
        if op.blocks:
            ends = []
            for block in op.blocks:
                extra = operands[1:] if block.arguments else []
                for value, varying in zip(block.arguments, extra, strict=True):
                    values[value.number] = varying
                ends.append(self._block(block, values))
            return [
                _joined([read, *(end[number] for end in ends)]) for number in range(len(op.results))
            ]
        if op.name == "mesh.done":
            return [operands[0]]
        if op.name in _ASKS_FOR_INDEX or op.name == "func.call":
            return [self._every] * len(op.results)
        if op.step is not None and op.grid is not None:
            axes = self._axes.get((op.grid, tuple(op.step.axes)))
            if axes is None:
                read = self._every
            else:
                read = read - axes if record_of(op.step).is_uniform_after else read | axes
        return [read] * len(op.results)

    def _loop(self, op: Op, values: dict[int, Varying]) -> list[Varying]:
        """Carried values vary along what any iteration adds."""
        carried = _joined([values[each.number] for each in op.operands])
        while True:
            for block in op.blocks:
                for value in block.arguments:
                    values[value.number] = carried
            ends = [varying for block in op.blocks for varying in self._block(block, values)]
            more = carried.union(*ends)
            if more == carried:
                return [carried] * len(op.results)
            carried = more

    def _note(self, op: Op, varying: Varying) -> None:
        self._of_ops[id(op)] = self._of_ops.get(id(op), _NONE) | varying


def _joined(each: Iterable[Varying]) -> Varying:
    return _NONE.union(*each)
