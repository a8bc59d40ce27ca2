"""Which devices hold the same data in a value of the local form.

    %x on a grid of 2x2, split along axis 0     devices 0 and 1 hold one shard, 2 and 3 the other
    shard.all_gather %x along axis 0            all four hold the same

Each value has a label for each device, (0, 0, 1, 1) and (0, 0, 0, 0) above: devices with equal
labels hold equal data, and an op does the same arithmetic on all devices whose operands have equal
labels. Labels follow from the shardings of the arguments, the collectives and the ops that ask for
the device's index. An op without collectives mixes nothing: its results have labels that differ
where those of any operand differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shard_dialect.analysis.costs.local_ops import Block, BoundaryInfo, Function, LocalProgram, Op
from shard_dialect.ir.region_flow import LOOPS
from shard_dialect.ir.shard.local_collectives import LocalStep
from shard_dialect.model import (
    AllGather,
    AllReduce,
    AllSlice,
    AllToAll,
    Grid,
    Mask,
    Permute,
    ReduceScatter,
)
from shard_dialect.model.rooted_collectives import (
    Broadcast,
    Gather,
    Reduce,
    Scatter,
    Shift,
    flat_index,
)

Labels = tuple[int, ...]
"""A label for each device, numbered in the order in which they first occur."""

_ASKS_FOR_INDEX = (
    "mesh.idx",
    "shard.process_multi_index",
    "shard.process_linear_index",
    "shard.neighbors_linear_indices",
    "shard.shard_shape",
    "stablehlo.partition_id",
    "stablehlo.replica_id",
)


def labels_of_ops(program: LocalProgram) -> dict[int, Labels]:
    """The labels of what each op reads, by the op's `id`; those of every call of a callee joined.

    Devices with equal labels do the same arithmetic in the op.
    """
    return _Labelling(program).run()


class _Labelling:
    def __init__(self, program: LocalProgram) -> None:
        self._program = program
        self._devices = program.devices
        self._same: Labels = (0,) * self._devices
        self._each: Labels = tuple(range(self._devices))
        self._of_ops: dict[int, Labels] = {}
        self._joined: dict[tuple[Labels, Labels], Labels] = {}
        self._after: dict[tuple[LocalStep, str, Labels], Labels] = {}

    def run(self) -> dict[int, Labels]:
        entry = self._program.entry
        self._function(entry, [self._argument(each) for each in entry.arguments])
        return self._of_ops

    def _argument(self, info: BoundaryInfo) -> Labels:
        if info.global_shape is None and info.tensor is not None:
            return self._each  # nothing says what devices get
        if info.sharding is None:
            return self._same
        grid = self._program.grids[info.sharding.grid]
        axes = tuple(axis for split in info.sharding.split_axes for axis in split)
        return self._by_index(grid, lambda device: grid.index_along(device, axes))

    def _by_index(self, grid: Grid, key: Callable[[int], object]) -> Labels:
        if grid.size != self._devices:
            return self._each
        return _numbered(map(key, range(self._devices)))

    def _function(self, function: Function, arguments: list[Labels]) -> list[Labels]:
        values: dict[int, Labels] = {}
        if len(function.blocks) > 1:  # a graph of blocks: the same for all that any block reads
            return self._unstructured(function, arguments)
        for value, labels in zip(function.body.arguments, arguments, strict=True):
            values[value.number] = labels
        return self._block(function.body, values)

    def _unstructured(self, function: Function, arguments: list[Labels]) -> list[Labels]:
        labels = self._join(arguments)
        if any(op.step or op.name in _ASKS_FOR_INDEX for op in function.walk()):
            labels = self._each
        for op in function.walk():
            self._note(op, labels)
            if op.callee:
                self._function(op.callee, [labels] * len(op.callee.arguments))
        return [labels] * len(function.results)

    def _block(self, block: Block, values: dict[int, Labels]) -> list[Labels]:
        """Label the block's ops; return the labels of the operands of its end."""
        for op in block.ops:
            for value, labels in zip(op.results, self._op(op, values), strict=True):
                values[value.number] = labels
        return [values[each.number] for each in block.ops[-1].operands]

    def _op(self, op: Op, values: dict[int, Labels]) -> list[Labels]:
        operands = [values[each.number] for each in op.reads]
        read = self._join(operands)
        self._note(op, read)
        if op.callee:
            return self._function(op.callee, operands)
        if op.name in LOOPS:
            return self._loop(op, values)
        if op.blocks:
            ends = []
            for block in op.blocks:
                extra = operands[1:] if block.arguments else []
                for value, labels in zip(block.arguments, extra, strict=True):
                    values[value.number] = labels
                ends.append(self._block(block, values))
            return [
                self._join([read, *(end[number] for end in ends)])
                for number in range(len(op.results))
            ]
        if op.name == "mesh.done":
            return [operands[0]]
        if op.name in _ASKS_FOR_INDEX or op.name == "func.call":
            return [self._each] * len(op.results)
        if op.step is not None and op.grid is not None:
            read = self._after_step(op.step, op.grid, read)
        return [read] * len(op.results)

    def _loop(self, op: Op, values: dict[int, Labels]) -> list[Labels]:
        """Carried values keep the labels that every iteration leaves them; they only get finer."""
        carried = self._join([values[each.number] for each in op.operands])
        while True:
            for block in op.blocks:
                for value in block.arguments:
                    values[value.number] = carried
            ends = [labels for block in op.blocks for labels in self._block(block, values)]
            finer = self._join([carried, *ends])
            if finer == carried:
                return [carried] * len(op.results)
            carried = finer

    def _note(self, op: Op, labels: Labels) -> None:
        known = self._of_ops.get(id(op))
        self._of_ops[id(op)] = labels if known is None else self._join([known, labels])

    def _join(self, labels: Iterable[Labels]) -> Labels:
        joined = self._same
        for each in labels:
            if each in (joined, self._same):
                continue
            if joined == self._same:
                joined = each
                continue
            key = (joined, each)
            if key not in self._joined:
                self._joined[key] = _numbered(zip(joined, each, strict=True))
            joined = self._joined[key]
        return joined

    def _after_step(self, step: LocalStep, grid: Grid, before: Labels) -> Labels:
        if grid.size != self._devices:
            return self._each
        key = (step, grid.name, before)
        if key not in self._after:
            keys: dict[int, object] = {}
            for group in grid.groups(step.axes):
                held = [before[member] for member in group]
                keys.update(zip(group, _in_group(step, grid, held), strict=True))
            self._after[key] = _numbered(keys[device] for device in range(self._devices))
        return self._after[key]


def _in_group(step: LocalStep, grid: Grid, held: list[int]) -> list[object]:
    """What each member of a group holds after a step, given what each held before."""
    everything = tuple(held)
    members = range(len(held))
    if isinstance(step, AllGather | AllReduce):
        return [everything] * len(held)
    if isinstance(step, ReduceScatter | AllToAll):
        return [(everything, member) for member in members]
    if isinstance(step, AllSlice | Mask):
        return [(held[member], member) for member in members]
    sizes = grid.sizes_along(step.axes)
    if isinstance(step, Broadcast):
        return [held[flat_index(step.root, sizes)]] * len(held)
    if isinstance(step, Scatter):
        return [(held[flat_index(step.root, sizes)], member) for member in members]
    if isinstance(step, Gather | Reduce):
        root = flat_index(step.root, sizes)
        return [(everything, member == root, held[member]) for member in members]
    if isinstance(step, Permute):
        sources: Mapping[int, int] = {to: each for each, to in enumerate(step.permutation)}
        return [held[sources[member]] if member in sources else "zeros" for member in members]
    if isinstance(step, Shift):
        origins = [step.partners(member, sizes)[1] for member in members]
        return ["zeros" if each is None else held[each] for each in origins]
    return [(everything, member) for member in members]  # halos, messages


def _numbered(keys: Iterable[object]) -> Labels:
    numbers: dict[object, int] = {}
    return tuple(numbers.setdefault(key, len(numbers)) for key in keys)
